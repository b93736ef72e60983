//! From a plan to the packed step: tokens, positions, tables, output rows.

use foundation::RequestId;

use super::session::Session;
use crate::{
    batch::{OutputKind, OutputRow, Positions, SequenceRun, StepBatch, StepId, TokenInput},
    kv::KvCache,
    scheduler::{Rank, RunPlan, Sequence},
};

/// A step under construction, and for each of its output rows the sequence that waits for it.
pub(super) struct Packer<'a> {
    pub(super) kv: &'a KvCache,
    pub(super) batch: StepBatch,
    pub(super) targets: Vec<Rank>,
    positions: Vec<u32>,
}

impl<'a> Packer<'a> {
    pub(super) fn new(kv: &'a KvCache, step: StepId) -> Self {
        let batch = StepBatch { step, ..StepBatch::default() };
        Packer { kv, batch, targets: Vec::new(), positions: Vec::new() }
    }

    /// Adds one run and moves the sequence on as if it had been computed.
    pub(super) fn push(&mut self, run: &RunPlan, sequence: &mut Sequence, session: &Session) {
        let (start, end) = (sequence.computed, sequence.computed + run.tokens);
        self.kv.grow(&mut sequence.kv, end);
        let first_row = self.batch.tokens.len() as u32;
        self.push_tokens(sequence, start, end);
        self.batch.runs.push(SequenceRun {
            rows: first_row..first_row + run.tokens as u32,
            cached: start as u32,
            tables: sequence.kv.tables(),
            slot: sequence.slot.expect("a running sequence has a slot"),
            adapter: None,
            regime: sequence.regime,
            rewind: 0,
        });
        self.push_scores(sequence, session, first_row, end);
        sequence.computed = end;
        if end == sequence.length() {
            self.push_sample(sequence, session, first_row + run.tokens as u32 - 1);
        }
        publish(self.kv, sequence);
    }

    fn push_tokens(&mut self, sequence: &Sequence, start: usize, end: usize) {
        self.positions.extend(start as u32..end as u32);
        let known = end.min(sequence.tokens.len());
        let tokens = sequence.tokens[start.min(known)..known].iter();
        self.batch.tokens.extend(tokens.map(|token| TokenInput::Known(*token)));
        if end > known {
            let (step, output) = sequence.last_output;
            // The sequence decoded in the step before: a token in flight elsewhere would not have been planned.
            assert_eq!(step.0 + 1, self.batch.step.0, "a token in flight comes from the last step");
            self.batch.tokens.push(TokenInput::Sampled { output });
        }
    }

    /// Scores of prompt tokens that are still wanted: the row of a token gives the next one's.
    fn push_scores(&mut self, sequence: &Sequence, session: &Session, first_row: u32, end: usize) {
        let (Some(scores), Some(top)) = (&sequence.prompt_scores, session.prompt_logprobs) else {
            return;
        };
        let start = sequence.computed;
        let wanted = start.max(scores.len().saturating_sub(1))..end.min(sequence.prompt_tokens - 1);
        for at in wanted {
            let target = sequence.tokens[at + 1];
            let row = first_row + (at - start) as u32;
            self.batch.outputs.push(OutputRow { row, kind: OutputKind::Score { target, top } });
            self.targets.push(sequence.rank);
        }
    }

    fn push_sample(&mut self, sequence: &mut Sequence, session: &Session, row: u32) {
        if sequence.max_tokens == 0 {
            return;
        }
        let kind = OutputKind::Sample(session.row_sampling(sequence.generated()));
        sequence.last_output = (self.batch.step, self.batch.outputs.len() as u32);
        sequence.in_flight += 1;
        self.batch.outputs.push(OutputRow { row, kind });
        self.targets.push(sequence.rank);
    }

    /// The finished step.
    pub(super) fn finish(mut self) -> (StepBatch, Vec<Rank>) {
        self.batch.positions = Positions::Text(self.positions);
        (self.batch, self.targets)
    }
}

/// Names the blocks that are full and whose tokens are known. They may still be in the making: whoever finds them runs
/// in a later step, and steps run in order.
pub(super) fn publish(kv: &KvCache, sequence: &mut Sequence) {
    let known = sequence.computed.min(sequence.tokens.len());
    let full = known / kv.block_size();
    if full <= sequence.published {
        return;
    }
    sequence.chain.extend(&sequence.tokens[..known]);
    kv.publish(&sequence.kv, &sequence.chain.keys()[..full], sequence.published);
    sequence.published = full;
}

/// A step that was submitted and not yet committed.
#[derive(Debug)]
pub(super) struct InFlight {
    pub(super) step: StepId,
    pub(super) targets: Vec<Rank>,
    pub(super) rows: usize,
    pub(super) prefills: bool,
    pub(super) submitted: std::time::Duration,
}

/// Sessions by request.
pub(super) type Sessions = std::collections::HashMap<RequestId, Session>;
