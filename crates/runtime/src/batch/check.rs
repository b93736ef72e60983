//! The rules of a step, for runners that distrust and for tests.

use super::{BlockTable, OutputKind, Positions, SequenceRun, StepBatch, TokenInput};
use crate::backend::RunnerSpec;

impl StepBatch {
    /// Every rule that can be checked from the batch and the runner's spec alone; the text names the first one broken.
    ///
    /// `previous_outputs`: output rows of the step submitted before this one, which [`TokenInput::Sampled`] refers to.
    pub fn check(&self, spec: &RunnerSpec, previous_outputs: usize) -> Result<(), String> {
        require(!self.runs.is_empty(), || "a step has no runs".into())?;
        require(self.runs.len() <= spec.max_step_sequences, || {
            format!("{} runs, {} allowed", self.runs.len(), spec.max_step_sequences)
        })?;
        require(self.tokens.len() <= spec.max_step_tokens, || {
            format!("{} rows, {} allowed", self.tokens.len(), spec.max_step_tokens)
        })?;
        self.check_tokens(spec, previous_outputs)?;
        self.check_positions()?;
        self.check_runs(spec)?;
        self.check_outputs(spec)?;
        self.check_copies(spec)
    }

    fn check_tokens(&self, spec: &RunnerSpec, previous_outputs: usize) -> Result<(), String> {
        for (row, token) in self.tokens.iter().enumerate() {
            match *token {
                TokenInput::Known(token) => require((token.0 as usize) < spec.vocab_size, || {
                    format!("row {row}: token {token}, vocabulary {}", spec.vocab_size)
                })?,
                TokenInput::Sampled { output } => {
                    require((output as usize) < previous_outputs, || {
                        format!(
                            "row {row}: output {output} of {previous_outputs} in the step before"
                        )
                    })?;
                }
            }
        }
        Ok(())
    }

    fn check_positions(&self) -> Result<(), String> {
        let rows = self.tokens.len();
        let fits = match &self.positions {
            Positions::Text(positions) => positions.len() == rows,
            Positions::Planes3(planes) => planes.iter().all(|plane| plane.len() == rows),
        };
        require(fits, || format!("positions do not cover the {rows} rows"))
    }

    fn check_runs(&self, spec: &RunnerSpec) -> Result<(), String> {
        let mut next_row = 0;
        let mut slots = vec![false; spec.max_step_sequences];
        for (index, run) in self.runs.iter().enumerate() {
            require(run.rows.start == next_row && run.rows.end > run.rows.start, || {
                format!("run {index}: rows {:?}, expected from {next_row}", run.rows)
            })?;
            next_row = run.rows.end;
            check_run(run, spec).map_err(|problem| format!("run {index}: {problem}"))?;
            let slot = slots.get_mut(run.slot.0 as usize);
            let free = slot.is_some_and(|taken| !std::mem::replace(taken, true));
            require(free, || format!("run {index}: slot {} is taken or absent", run.slot.0))?;
        }
        let rows = self.tokens.len();
        require(next_row as usize == rows, || format!("runs end at {next_row}, rows at {rows}"))
    }

    fn check_outputs(&self, spec: &RunnerSpec) -> Result<(), String> {
        let mut last = None;
        for output in &self.outputs {
            let row = output.row;
            require(last < Some(row) && (row as usize) < self.tokens.len(), || {
                format!("output row {row} after {last:?}, of {}", self.tokens.len())
            })?;
            last = Some(row);
            if let OutputKind::Score { target, .. } = output.kind {
                require((target.0 as usize) < spec.vocab_size, || {
                    format!("output row {row}: target {target}, vocabulary {}", spec.vocab_size)
                })?;
            }
        }
        Ok(())
    }

    fn check_copies(&self, spec: &RunnerSpec) -> Result<(), String> {
        for copy in &self.block_copies {
            let group = spec.kv_groups.get(copy.group as usize);
            let blocks = group.map_or(0, |group| group.blocks);
            let inside = (copy.from.0 as usize) < blocks && (copy.to.0 as usize) < blocks;
            require(inside && copy.from != copy.to, || format!("{copy:?}: {blocks} blocks"))?;
        }
        Ok(())
    }
}

fn check_run(run: &SequenceRun, spec: &RunnerSpec) -> Result<(), String> {
    require(run.tables.len() == spec.kv_groups.len(), || {
        format!("{} tables, {} KV groups", run.tables.len(), spec.kv_groups.len())
    })?;
    let end = run.cached as usize + run.rows.len();
    require(end <= spec.max_sequence_tokens, || {
        format!("{end} tokens, {} allowed", spec.max_sequence_tokens)
    })?;
    let regime = spec.regime_thresholds.iter().filter(|threshold| end > **threshold).count();
    require(run.regime as usize >= regime, || format!("regime {} at {end} tokens", run.regime))?;
    for (index, (table, group)) in run.tables.iter().zip(&spec.kv_groups).enumerate() {
        let reach =
            group.window.map_or(0, |window| (run.cached as usize + 1).saturating_sub(window));
        check_table(table, reach, end, group.blocks, spec.block_size)
            .map_err(|problem| format!("KV group {index}: {problem}"))?;
    }
    Ok(())
}

/// The table must cover tokens `reach..end` with blocks of the arena.
fn check_table(
    table: &BlockTable,
    reach: usize,
    end: usize,
    blocks: usize,
    block_size: usize,
) -> Result<(), String> {
    let first = table.first as usize;
    let covers = first * block_size <= reach && (first + table.blocks.len()) * block_size >= end;
    require(covers, || {
        format!("tokens {reach}..{end} wanted, {} blocks from {first} given", table.blocks.len())
    })?;
    let beyond = table.blocks.iter().find(|block| block.0 as usize >= blocks);
    require(beyond.is_none(), || {
        format!("block {} of {blocks}", beyond.copied().unwrap_or_default())
    })
}

fn require(holds: bool, problem: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(problem()) }
}
