//! From a plan to the packed step: tokens, positions, tables, output rows.

use foundation::{RequestId, TokenId};

use super::session::Session;
use crate::{
    batch::{OutputKind, OutputRow, Positions, SequenceRun, StepBatch, StepId, TokenInput},
    kv::KvCache,
    scheduler::{Rank, RunPlan, Sequence},
};

/// Who waits for an output row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target {
    pub(super) rank: Rank,
    /// The row read a guess: it speaks for the sequence only if the guess was right.
    pub(super) guess: Option<Guess>,
}

/// Token number `length` of a sequence, counted from 1, may be `token`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Guess {
    pub(super) token: TokenId,
    pub(super) length: usize,
}

impl Guess {
    /// The sequence has become what was guessed, and is no further yet.
    pub(super) fn is_right(self, sequence: &Sequence) -> bool {
        sequence.tokens.len() == self.length && sequence.tokens.last() == Some(&self.token)
    }
}

/// A step under construction, and for each of its output rows the sequence that waits for it.
pub(super) struct Packer<'a> {
    pub(super) kv: &'a KvCache,
    pub(super) batch: StepBatch,
    pub(super) targets: Vec<Target>,
    positions: Vec<u32>,
}

impl<'a> Packer<'a> {
    pub(super) fn new(kv: &'a KvCache, step: StepId) -> Self {
        let batch = StepBatch { step, ..StepBatch::default() };
        Packer { kv, batch, targets: Vec::new(), positions: Vec::new() }
    }

    /// Adds one run and moves the sequence on as if it had been computed. Guesses count as computed when they have turned
    /// out right.
    pub(super) fn push(&mut self, run: &RunPlan, sequence: &mut Sequence, session: &Session) {
        let (start, end) = (sequence.computed, sequence.computed + run.tokens);
        self.kv.grow(&mut sequence.kv, end + run.drafts);
        let first_row = self.batch.tokens.len() as u32;
        self.push_tokens(sequence, start, end);
        let guesses = &sequence.drafts[..run.drafts];
        self.batch.tokens.extend(guesses.iter().map(|token| TokenInput::Known(*token)));
        self.positions.extend(end as u32..(end + run.drafts) as u32);
        self.batch.runs.push(SequenceRun {
            rows: first_row..first_row + run.rows() as u32,
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
            let row = first_row + run.tokens as u32 - 1;
            self.push_sample(sequence, session, row);
            self.push_checks(sequence, session, row, run.drafts);
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
            self.targets.push(Target { rank: sequence.rank, guess: None });
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
        self.targets.push(Target { rank: sequence.rank, guess: None });
    }

    /// Samples after each guess in the rows behind `row`, as if the guesses were right. The sample after the last known token
    /// is in flight already.
    fn push_checks(&mut self, sequence: &Sequence, session: &Session, row: u32, drafts: usize) {
        let (generated, length) = (sequence.generated(), sequence.tokens.len());
        for (at, token) in sequence.drafts[..drafts].iter().enumerate() {
            let kind = OutputKind::Sample(session.row_sampling(generated + at));
            self.batch.outputs.push(OutputRow { row: row + 1 + at as u32, kind });
            let guess = Guess { token: *token, length: length + 1 + at };
            self.targets.push(Target { rank: sequence.rank, guess: Some(guess) });
        }
    }

    /// The finished step.
    pub(super) fn finish(mut self) -> (StepBatch, Vec<Target>) {
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
    pub(super) targets: Vec<Target>,
    pub(super) rows: usize,
    /// Of these, those that are prefill.
    pub(super) prefill_rows: usize,
    /// Sequences that decode.
    pub(super) decodes: usize,
    pub(super) submitted: std::time::Duration,
}

/// Sessions by request.
pub(super) type Sessions = std::collections::HashMap<RequestId, Session>;
