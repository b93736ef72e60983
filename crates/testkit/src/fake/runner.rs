//! Runs packed steps of the fake model, and distrusts every one of them.

use std::{collections::VecDeque, time::Duration};

use foundation::{DType, TokenId};
use runtime::{
    backend::{KvGroupSpec, RunnerSpec, StepError, StepRunner},
    batch::{
        Copied, CopyId, CopyWay, HostCopy, OutputKind, Positions, RowOutput, SequenceRun,
        StepBatch, StepId, StepOutput, TokenInput,
    },
    engine::Clock,
    sampling::{SampleError, TokenCounts, sample, score},
};

use super::{
    copies::{Copies, CopyTimes},
    model::{Cell, FakeModel},
};
use crate::clock::SimClock;

/// Something that goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// In which step.
    pub step: u64,
    /// What.
    pub kind: FaultKind,
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// Submission fails.
    Submit,
    /// Waiting fails.
    Wait,
    /// The runner panics.
    Panic,
    /// The first sampled row fails, alone.
    Row,
}

/// A runner of the fake model.
#[derive(Debug)]
pub struct FakeRunner {
    spec: RunnerSpec,
    model: FakeModel,
    /// One arena a group: `blocks * block_size` cells.
    arenas: Vec<Vec<Option<Cell>>>,
    slots: Vec<Option<TokenCounts>>,
    /// Computed at submission, given out by `wait`.
    outputs: VecDeque<StepOutput>,
    /// What the last submitted step sampled, by output row.
    sampled: Vec<Option<TokenId>>,
    last_step: StepId,
    fault: Option<Fault>,
    clock: Option<(SimClock, Duration)>,
    copies: Copies,
}

impl FakeRunner {
    /// A small spec: one full group, no run-ahead, steps that mix.
    pub fn small_spec() -> RunnerSpec {
        RunnerSpec {
            vocab_size: 61,
            hidden_size: 4,
            max_sequence_tokens: 256,
            max_step_tokens: 64,
            max_step_sequences: 8,
            block_size: 4,
            kv_groups: vec![KvGroupSpec { window: None, blocks: 256 }],
            regime_thresholds: Vec::new(),
            mixes_prefill_and_decode: true,
            max_in_flight: 1,
            rewinds: true,
            host: None,
            kv_dtype: DType::F32,
        }
    }

    /// A runner with an empty cache.
    pub fn new(spec: RunnerSpec) -> Self {
        let arena = |group: &KvGroupSpec| vec![None; group.blocks * spec.block_size];
        FakeRunner {
            model: FakeModel::new(&spec),
            arenas: spec.kv_groups.iter().map(arena).collect(),
            slots: vec![None; spec.max_step_sequences],
            outputs: VecDeque::new(),
            sampled: Vec::new(),
            last_step: StepId(0),
            fault: None,
            clock: None,
            copies: Copies::new(&spec),
            spec,
        }
    }

    /// Lets something go wrong.
    #[must_use]
    pub fn with_fault(mut self, fault: Option<Fault>) -> Self {
        self.fault = fault;
        self
    }

    /// Lets `per_row` pass on `clock` for each row, when a step is waited for.
    #[must_use]
    pub fn with_clock(mut self, clock: SimClock, per_row: Duration) -> Self {
        self.clock = Some((clock, per_row));
        self
    }

    /// Lets copies take their time, by the clock that [`FakeRunner::with_clock`] gave.
    #[must_use]
    pub fn with_copy_times(mut self, times: CopyTimes) -> Self {
        self.copies.times = Some(times);
        self
    }

    fn now(&self) -> Duration {
        self.clock.as_ref().map_or(Duration::ZERO, |(clock, _)| clock.now())
    }

    fn fails(&self, step: StepId, kind: FaultKind) -> bool {
        self.fault == Some(Fault { step: step.0, kind })
    }

    fn check(&self, batch: &StepBatch) -> Result<(), String> {
        batch.check(&self.spec, self.sampled.len())?;
        if self.outputs.len() >= self.spec.max_in_flight {
            return Err(format!("{} steps are in flight already", self.outputs.len()));
        }
        if batch.step.0 != self.last_step.0 + 1 {
            return Err(format!("step {} after {}", batch.step.0, self.last_step.0));
        }
        for input in &batch.tokens {
            if let TokenInput::Sampled { output } = input
                && self.sampled[*output as usize].is_none()
            {
                return Err(format!("output {output} of the step before samples nothing"));
            }
        }
        if !self.spec.mixes_prefill_and_decode {
            let sizes = batch.runs.iter().map(|run| run.rows.len());
            let (least, most) = (sizes.clone().min(), sizes.max());
            // A chunk may have one row, a decode row has no more.
            let decodes = batch.tokens.iter().any(|t| matches!(t, TokenInput::Sampled { .. }));
            if decodes && least != most {
                return Err("prefill and decode share a step".into());
            }
        }
        Ok(())
    }

    fn compute(&mut self, batch: &StepBatch) -> Result<Vec<RowOutput>, String> {
        self.copy_blocks(batch);
        for reset in &batch.slot_resets {
            let counts = TokenCounts::new(&reset.prompt, &reset.generated);
            self.slots[reset.slot.0 as usize] = Some(counts);
        }
        let mut written = std::collections::HashSet::new();
        for run in &batch.runs {
            self.write(batch, run, &mut written)?;
        }
        let mut sampled = Vec::with_capacity(batch.outputs.len());
        let mut rows = Vec::with_capacity(batch.outputs.len());
        for output in &batch.outputs {
            let run = batch.runs.iter().find(|run| run.rows.contains(&output.row));
            let run = run.expect("checked: runs cover every row");
            let mut logits = self.read(run, output.row);
            let row = self.output(batch.step, &output.kind, run, &mut logits);
            sampled.push(match &row {
                RowOutput::Sampled { token, .. } => Some(*token),
                // Whatever reads a failed row may compute anything.
                RowOutput::Failed(_) => Some(TokenId(0)),
                _ => None,
            });
            rows.push(row);
        }
        self.sampled = sampled;
        Ok(rows)
    }

    fn output(
        &mut self,
        step: StepId,
        kind: &OutputKind,
        run: &SequenceRun,
        logits: &mut [f32],
    ) -> RowOutput {
        match kind {
            OutputKind::Sample(_) if self.fails(step, FaultKind::Row) => {
                self.fault = None;
                RowOutput::Failed("injected".into())
            }
            OutputKind::Sample(row) => {
                let Some(counts) = &mut self.slots[run.slot.0 as usize] else {
                    return RowOutput::Failed("the slot was never reset".into());
                };
                let result = sample(logits, row, Some(counts));
                result.iter().for_each(|sampled| counts.add(sampled.token));
                result.into()
            }
            OutputKind::Score { target, top } => scored(score(logits, *target, *top)),
            OutputKind::Logits => RowOutput::Logits(logits.to_vec()),
            OutputKind::Hidden => RowOutput::Hidden(vec![0.0; self.spec.hidden_size]),
        }
    }

    /// All are read before any is written: a backend may copy in any order.
    fn copy_blocks(&mut self, batch: &StepBatch) {
        let size = self.spec.block_size;
        let cells =
            |block: foundation::BlockId| block.0 as usize * size..(block.0 as usize + 1) * size;
        let read = batch
            .block_copies
            .iter()
            .map(|copy| self.arenas[copy.group as usize][cells(copy.from)].to_vec());
        let read: Vec<Vec<Option<Cell>>> = read.collect();
        for (copy, contents) in batch.block_copies.iter().zip(read) {
            self.arenas[copy.group as usize][cells(copy.to)].clone_from_slice(&contents);
        }
    }

    fn write(
        &mut self,
        batch: &StepBatch,
        run: &SequenceRun,
        written: &mut std::collections::HashSet<(usize, usize)>,
    ) -> Result<(), String> {
        let Positions::Text(positions) = &batch.positions else {
            return Err("positions in three planes".into());
        };
        for (at, row) in (run.cached..).zip(run.rows.clone()) {
            let token = match batch.tokens[row as usize] {
                TokenInput::Known(token) => token,
                TokenInput::Sampled { output } => self.sampled[output as usize]
                    .ok_or_else(|| format!("row {row} reads an output without token"))?,
            };
            let position = positions[row as usize];
            if position != at {
                return Err(format!("row {row}: position {position} for token {at}"));
            }
            for group in 0..self.arenas.len() {
                let place = self.place(run, group, at as usize);
                if !written.insert((group, place)) {
                    return Err(format!("row {row}: group {group} cell {place} is written twice"));
                }
                self.arenas[group][place] = Some(Cell { token, position, regime: run.regime });
            }
        }
        Ok(())
    }

    /// The logits of a row, from what its tables show.
    fn read(&self, run: &SequenceRun, row: u32) -> Vec<f32> {
        let at = (run.cached + row - run.rows.start) as usize;
        let groups = self.spec.kv_groups.iter().enumerate().map(|(group, spec)| {
            let first = spec.window.map_or(0, |window| (at + 1).saturating_sub(window));
            (first..=at)
                .map(move |at| self.arenas[group][self.place(run, group, at)].unwrap_or_default())
        });
        self.model.logits(groups)
    }

    /// Where token `at` of the run's sequence lies in a group's arena.
    fn place(&self, run: &SequenceRun, group: usize, at: usize) -> usize {
        let table = &run.tables[group];
        let block = table.blocks[at / self.spec.block_size - table.first as usize];
        block.0 as usize * self.spec.block_size + at % self.spec.block_size
    }
}

fn scored(result: Result<runtime::batch::TokenLogprobs, SampleError>) -> RowOutput {
    result.map_or_else(|error| RowOutput::Failed(error.to_string()), RowOutput::Scored)
}

impl StepRunner for FakeRunner {
    fn spec(&self) -> &RunnerSpec {
        &self.spec
    }

    fn submit(&mut self, batch: StepBatch) -> Result<StepId, StepError> {
        assert!(!self.fails(batch.step, FaultKind::Panic), "injected panic");
        if self.fails(batch.step, FaultKind::Submit) {
            return Err(StepError::Fault("injected at submission".into()));
        }
        self.check(&batch).map_err(StepError::Invalid)?;
        self.copies.settle(self.now(), &mut self.arenas);
        let rows = self.compute(&batch).map_err(StepError::Invalid)?;
        if let Some((clock, per_row)) = &self.clock {
            clock.advance(*per_row * batch.tokens.len() as u32);
        }
        self.last_step = batch.step;
        self.outputs.push_back(StepOutput { step: batch.step, rows });
        Ok(batch.step)
    }

    fn wait(&mut self) -> Result<StepOutput, StepError> {
        let output = self.outputs.pop_front();
        let output = output.ok_or_else(|| StepError::Invalid("no step is in flight".into()))?;
        if self.fails(output.step, FaultKind::Wait) {
            return Err(StepError::Fault("injected while waiting".into()));
        }
        Ok(output)
    }

    fn copy(&mut self, way: CopyWay, copies: &[HostCopy]) -> Result<CopyId, StepError> {
        let now = self.now();
        let queued = self.copies.queue(&self.spec, way, copies, now, &mut self.arenas);
        queued.map_err(StepError::Invalid)
    }

    fn copied(&mut self) -> Result<Option<Copied>, StepError> {
        self.copies.settle(self.now(), &mut self.arenas);
        Ok(self.copies.made.pop_front())
    }
}
