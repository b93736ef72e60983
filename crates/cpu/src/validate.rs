//! Checks a step against the rules of the seam before any memory is touched. All findings at once.

use std::collections::HashSet;

use foundation::TokenId;
use runtime::{
    backend::{RunnerSpec, StepError},
    batch::{OutputKind, Positions, SequenceRun, StepBatch, TokenInput},
};

/// How many findings an error tells in full.
const FINDINGS_TOLD: usize = 8;

/// Checks `batch`; `sampled` says which outputs of the step before were samples.
pub fn validate(batch: &StepBatch, spec: &RunnerSpec, sampled: &[bool]) -> Result<(), StepError> {
    let mut check = Check { batch, spec, findings: Vec::new() };
    check.tokens(sampled);
    check.positions();
    check.runs();
    check.written_blocks();
    check.outputs();
    check.embeddings();
    check.copies();
    check.slots();
    check.finish()
}

struct Check<'a> {
    batch: &'a StepBatch,
    spec: &'a RunnerSpec,
    findings: Vec<String>,
}

impl Check<'_> {
    fn finish(self) -> Result<(), StepError> {
        let more = self.findings.len().saturating_sub(FINDINGS_TOLD);
        let mut told = self.findings;
        told.truncate(FINDINGS_TOLD);
        if more > 0 {
            told.push(format!("and {more} more"));
        }
        match told.is_empty() {
            true => Ok(()),
            false => Err(StepError::Invalid(told.join("; "))),
        }
    }

    fn require(&mut self, holds: bool, finding: impl FnOnce() -> String) {
        if !holds {
            self.findings.push(finding());
        }
    }

    fn rows(&self) -> usize {
        self.batch.tokens.len()
    }

    fn token(&mut self, token: TokenId, whose: impl FnOnce() -> String) {
        let vocab = self.spec.vocab_size;
        self.require((token.0 as usize) < vocab, || {
            format!("{}: token {token}, but the vocabulary has {vocab}", whose())
        });
    }

    fn tokens(&mut self, sampled: &[bool]) {
        let (rows, most) = (self.rows(), self.spec.max_step_tokens);
        self.require(rows > 0 && rows <= most, || {
            format!("{rows} token rows, 1 to {most} allowed")
        });
        for (row, token) in self.batch.tokens.iter().enumerate() {
            match *token {
                TokenInput::Known(token) => self.token(token, || format!("row {row}")),
                TokenInput::Sampled { output } => {
                    let known = sampled.get(output as usize) == Some(&true);
                    self.require(known, || {
                        format!("row {row} waits for output {output} of the step before, which is no sample")
                    });
                }
            }
        }
    }

    fn positions(&mut self) {
        let rows = self.rows();
        match &self.batch.positions {
            Positions::Text(positions) => self.require(positions.len() == rows, || {
                format!("{} positions for {rows} rows", positions.len())
            }),
            Positions::Planes3(_) => {
                self.findings.push("positions in three planes, one is supported".to_owned());
            }
        }
    }

    fn runs(&mut self) {
        let most = self.spec.max_step_sequences;
        let count = self.batch.runs.len();
        self.require(count <= most, || format!("{count} runs, at most {most} allowed"));
        let mut next = 0;
        for (index, run) in self.batch.runs.iter().enumerate() {
            let rows = &run.rows;
            self.require(rows.start == next && rows.end > rows.start, || {
                format!("run {index} covers rows {rows:?}, the next row is {next}")
            });
            next = rows.end;
            self.run(index, run);
        }
        let rows = self.rows();
        self.require(next as usize == rows, || format!("runs cover {next} of {rows} rows"));
    }

    fn run(&mut self, index: usize, run: &SequenceRun) {
        let spec = self.spec;
        let end = sequence_end(run);
        self.require(end <= spec.max_sequence_tokens, || {
            format!(
                "run {index} reaches {end} tokens, at most {} allowed",
                spec.max_sequence_tokens
            )
        });
        self.require(run.adapter.is_none(), || {
            format!("run {index} asks for adapter {:?}, none is loaded", run.adapter)
        });
        self.require(run.rewind == 0, || {
            format!("run {index} takes back {} tokens of linear state, there is none", run.rewind)
        });
        let regimes = spec.regime_thresholds.len();
        self.require(run.regime as usize <= regimes, || {
            format!("run {index} is in regime {}, the last is {regimes}", run.regime)
        });
        let groups = spec.kv_groups.len();
        self.require(run.tables.len() == groups, || {
            format!("run {index} has {} block tables for {groups} KV groups", run.tables.len())
        });
        for group in 0..groups.min(run.tables.len()) {
            self.table(index, run, group);
        }
    }

    fn table(&mut self, index: usize, run: &SequenceRun, group: usize) {
        let (spec, table) = (self.spec.kv_groups[group], &run.tables[group]);
        let oldest =
            spec.window.map_or(0, |window| (run.cached as usize + 1).saturating_sub(window));
        let needed =
            oldest / self.spec.block_size..sequence_end(run).div_ceil(self.spec.block_size);
        let first = table.first as usize;
        let held = first..first + table.blocks.len();
        self.require(held.start <= needed.start && held.end >= needed.end, || {
            format!("run {index}, group {group}: blocks {held:?} are given, {needed:?} are needed")
        });
        for block in table.blocks.iter().filter(|block| block.0 as usize >= spec.blocks) {
            self.findings.push(format!(
                "run {index}, group {group}: block {block}, the arena has {}",
                spec.blocks
            ));
        }
    }

    /// No block is written by two runs.
    fn written_blocks(&mut self) {
        let size = self.spec.block_size;
        let mut written = HashSet::new();
        for (index, run) in self.batch.runs.iter().enumerate() {
            for (group, table) in run.tables.iter().enumerate() {
                let logical = run.cached as usize / size..sequence_end(run).div_ceil(size);
                for logical in logical {
                    let place = logical.checked_sub(table.first as usize);
                    let Some(block) = place.and_then(|place| table.blocks.get(place)) else {
                        continue;
                    };
                    self.require(written.insert((group, *block)), || {
                        format!("run {index}, group {group}: another run writes block {block} too")
                    });
                }
            }
        }
    }

    fn outputs(&mut self) {
        let rows = self.rows();
        let mut last = 0;
        for (index, output) in self.batch.outputs.iter().enumerate() {
            let row = output.row;
            self.require((row as usize) < rows && row >= last, || {
                format!("output {index} is of row {row} after row {last}, of {rows} rows")
            });
            last = row;
            match &output.kind {
                OutputKind::Score { target, .. } => {
                    self.token(*target, || format!("output {index}"))
                }
                OutputKind::Sample(sampling) => {
                    let words = self.spec.vocab_size.div_ceil(32);
                    let given = sampling.allowed.as_ref().map_or(words, |allowed| allowed.len());
                    self.require(given == words, || {
                        format!("output {index}: a mask of {given} words, {words} are needed")
                    });
                }
                OutputKind::Logits | OutputKind::Hidden => {}
            }
        }
    }

    fn embeddings(&mut self) {
        let (rows, hidden) = (self.rows(), self.spec.hidden_size);
        for given in &self.batch.embeddings {
            let range = &given.rows;
            let fits = range.start <= range.end && range.end as usize <= rows;
            self.require(fits, || format!("embeddings for rows {range:?} of {rows}"));
            let (seen, wanted) = (given.values.len(), range.len() * hidden);
            self.require(seen == wanted, || {
                format!("{seen} values embed rows {range:?}, {wanted} are needed")
            });
        }
    }

    fn copies(&mut self) {
        for copy in &self.batch.block_copies {
            let blocks =
                self.spec.kv_groups.get(copy.group as usize).map_or(0, |group| group.blocks);
            let fits = copy.from.0.max(copy.to.0) < u32::try_from(blocks).unwrap_or(u32::MAX);
            self.require(fits, || format!("{copy:?}, but the group has {blocks} blocks"));
        }
    }

    fn slots(&mut self) {
        let slots = self.spec.max_step_sequences;
        let mut taken = HashSet::new();
        for (index, run) in self.batch.runs.iter().enumerate() {
            let slot = run.slot.0;
            self.require((slot as usize) < slots, || {
                format!("run {index}: slot {slot} of {slots}")
            });
            self.require(taken.insert(slot), || format!("run {index}: slot {slot} is taken"));
        }
        for reset in &self.batch.slot_resets {
            let slot = reset.slot.0;
            self.require((slot as usize) < slots, || format!("reset of slot {slot} of {slots}"));
            for token in reset.prompt.iter().chain(reset.generated.iter()) {
                self.token(*token, || format!("reset of slot {slot}"));
            }
        }
    }
}

/// Tokens of the run's sequence after this step.
fn sequence_end(run: &SequenceRun) -> usize {
    run.cached as usize + run.rows.len()
}
