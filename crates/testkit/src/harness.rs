//! Drives a runner directly: sequences with their blocks, packed into steps.
//!
//! Panics on anything unexpected: it serves tests.

use std::sync::Arc;

use foundation::{BlockId, SlotId, TokenId};
use runtime::{
    backend::{LoadOptions, RunnerSpec, StepRunner},
    batch::{
        BlockTable, OutputKind, OutputRow, Positions, RowOutput, SequenceRun, StepBatch, StepId,
        TokenInput,
    },
    sampling::{RowSampling, SamplingLogits, SamplingParams},
};

/// Options small enough for any machine that runs tests.
pub fn small_options() -> LoadOptions {
    LoadOptions {
        max_sequence_tokens: Some(256),
        max_step_sequences: 8,
        max_step_tokens: 256,
        threads: Some(2),
        ..LoadOptions::default()
    }
}

/// A runner and the blocks that are free.
pub struct Harness {
    /// The runner.
    pub runner: Box<dyn StepRunner>,
    /// Number of the last step.
    pub step: u64,
    /// For each KV group, the blocks that no sequence has.
    pub free: Vec<Vec<BlockId>>,
}

/// A sequence as the runtime would keep it.
#[derive(Clone, Debug)]
pub struct Sequence {
    /// Tokens in the cache.
    pub cached: usize,
    /// For each KV group, its blocks.
    pub tables: Vec<BlockTable>,
    /// Its slot.
    pub slot: u32,
    /// Its position regime.
    pub regime: u32,
}

/// What one sequence does in a step.
pub struct Work<'a> {
    /// Whose.
    pub sequence: &'a mut Sequence,
    /// Its next tokens.
    pub tokens: &'a [TokenId],
    /// Outputs wanted, by index into `tokens`.
    pub outputs: Vec<(usize, OutputKind)>,
}

impl Harness {
    /// A harness for `runner`, all of whose blocks are free.
    pub fn new(runner: Box<dyn StepRunner>) -> Harness {
        let groups = runner.spec().kv_groups.iter();
        let free = groups.map(|group| (0..group.blocks as u32).map(BlockId).collect()).collect();
        Harness { runner, step: 0, free }
    }

    /// What the runner is.
    pub fn spec(&self) -> &RunnerSpec {
        self.runner.spec()
    }

    /// A new sequence; `length` decides its regime.
    pub fn sequence(&self, slot: u32, length: usize) -> Sequence {
        let spec = self.spec();
        let regime = spec.regime_thresholds.iter().filter(|threshold| length > **threshold).count();
        let tables = vec![BlockTable::default(); spec.kv_groups.len()];
        Sequence { cached: 0, tables, slot, regime: regime as u32 }
    }

    /// Gives the sequence's blocks back.
    pub fn release(&mut self, sequence: Sequence) {
        for (free, table) in self.free.iter_mut().zip(sequence.tables) {
            free.extend(table.blocks);
        }
    }

    /// Gives blocks back that have left the window.
    pub fn trim(&mut self, sequence: &mut Sequence) {
        for (group, table) in sequence.tables.iter_mut().enumerate() {
            let Some(window) = self.runner.spec().kv_groups[group].window else { continue };
            let oldest = (sequence.cached + 1).saturating_sub(window) / 16;
            while (table.first as usize) < oldest {
                self.free[group].push(table.blocks.remove(0));
                table.first += 1;
            }
        }
    }

    /// Packs `work` into a step. The sequences get the blocks they need.
    pub fn batch(&mut self, work: &mut [Work<'_>]) -> StepBatch {
        self.step += 1;
        let mut batch = StepBatch { step: StepId(self.step), ..StepBatch::default() };
        let mut positions = Vec::new();
        for Work { sequence, tokens, outputs } in work {
            let end = sequence.cached + tokens.len();
            for (free, table) in self.free.iter_mut().zip(&mut sequence.tables) {
                while (table.first as usize + table.blocks.len()) * 16 < end {
                    table.blocks.push(free.pop().expect("a free block"));
                }
            }
            let first = batch.tokens.len() as u32;
            batch.tokens.extend(tokens.iter().map(|token| TokenInput::Known(*token)));
            positions.extend(sequence.cached as u32..end as u32);
            batch.outputs.extend(
                outputs.drain(..).map(|(at, kind)| OutputRow { row: first + at as u32, kind }),
            );
            batch.runs.push(SequenceRun {
                rows: first..batch.tokens.len() as u32,
                cached: sequence.cached as u32,
                tables: sequence.tables.clone(),
                slot: SlotId(sequence.slot),
                adapter: None,
                regime: sequence.regime,
                rewind: 0,
            });
            sequence.cached = end;
        }
        batch.positions = Positions::Text(positions);
        batch
    }

    /// Computes one step.
    pub fn run(&mut self, batch: StepBatch) -> Vec<RowOutput> {
        self.runner.submit(batch).expect("a valid step");
        self.runner.wait().expect("a computed step").rows
    }

    /// Packs and computes one step.
    pub fn step(&mut self, mut work: Vec<Work<'_>>) -> Vec<RowOutput> {
        let batch = self.batch(&mut work);
        self.run(batch)
    }

    /// Logits after each of `tokens`.
    pub fn logits(&mut self, sequence: &mut Sequence, tokens: &[TokenId]) -> Vec<Vec<f32>> {
        let outputs = (0..tokens.len()).map(|at| (at, OutputKind::Logits)).collect();
        let rows = self.step(vec![Work { sequence, tokens, outputs }]);
        rows.into_iter().map(into_logits).collect()
    }
}

/// The logits of a row that was asked for them.
pub fn into_logits(row: RowOutput) -> Vec<f32> {
    match row {
        RowOutput::Logits(logits) => logits,
        other => panic!("no logits: {other:?}"),
    }
}

/// The token of a row that was to sample one.
pub fn into_token(row: &RowOutput) -> TokenId {
    match row {
        RowOutput::Sampled { token, .. } => *token,
        other => panic!("no sample: {other:?}"),
    }
}

/// The likeliest token.
pub fn greedy() -> OutputKind {
    sampling(SamplingParams::default())
}

/// A token drawn as `params` say.
pub fn sampling(params: SamplingParams) -> OutputKind {
    OutputKind::Sample(RowSampling {
        params: Arc::new(params),
        draw: 0,
        suppressed: Arc::new([]),
        allowed: None,
        logits: SamplingLogits::None,
    })
}
