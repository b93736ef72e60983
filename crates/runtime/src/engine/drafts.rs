//! Guesses of running sequences: made before a step is planned, judged as its rows are committed.

use std::collections::HashMap;

use foundation::RequestId;

use super::metrics::Metrics;
use crate::{
    scheduler::{RunnerQueue, Sequence, StepPlan},
    speculation::{Ask, Pace, Proposer, SpeculationOptions},
};

/// Who guesses, and how it went so far for each request that may be guessed about.
#[derive(Debug)]
pub(super) struct Drafts {
    options: SpeculationOptions,
    proposer: Box<dyn Proposer>,
    trails: HashMap<RequestId, Trail>,
}

/// One request's guesses.
#[derive(Debug)]
struct Trail {
    pace: Pace,
    /// The length of the sequence when it was last guessed about.
    length: usize,
    /// Guesses under way.
    sent: usize,
    /// How many of them have turned out right.
    accepted: usize,
}

impl Drafts {
    pub(super) fn new(options: SpeculationOptions, proposer: Box<dyn Proposer>) -> Self {
        Drafts { options, proposer, trails: HashMap::new() }
    }

    pub(super) fn with_proposer(self, proposer: Box<dyn Proposer>) -> Self {
        Drafts { proposer, ..self }
    }

    /// Most rows of sequences that decode in a step with guesses.
    pub(super) fn step_rows(&self) -> usize {
        self.options.step_rows
    }

    /// A request is taken in whose rows depend on nothing but the tokens before them: no penalties, whose counts change with
    /// every row, and no constraint.
    pub(super) fn begin(&mut self, id: RequestId) {
        let pace = Pace::new(&self.options.pace);
        let trail = Trail { pace, length: 0, sent: 0, accepted: 0 };
        self.trails.insert(id, trail);
    }

    pub(super) fn forget(&mut self, id: RequestId) {
        if self.trails.remove(&id).is_some() {
            self.proposer.forget(id);
        }
    }

    /// Guesses anew about every sequence that has more tokens than when it was last guessed about. `ahead`: steps overlap.
    pub(super) fn propose(&mut self, queue: &mut RunnerQueue, thresholds: &[usize], ahead: bool) {
        let running = || queue.iter().take(queue.running());
        let decoding = running().filter(|sequence| sequence.has_output()).count();
        let plain = running().filter(|sequence| sequence.runs_ahead()).count();
        let has_room = decoding < self.options.step_rows;
        let mut wanted = Vec::with_capacity(queue.running());
        for sequence in queue.running_mut() {
            let company = ahead && plain > usize::from(sequence.runs_ahead());
            let most = self.go_on(sequence, company);
            wanted.push(if has_room { most.min(sequence.draft_room(thresholds)) } else { 0 });
        }
        let asked = queue.iter().zip(&wanted).filter(|(_, most)| **most > 0);
        let asked = asked.map(|(sequence, most)| {
            let (id, tokens) = (sequence.rank.id, &sequence.tokens[..]);
            Ask { id, tokens, most: *most }
        });
        let asks: Vec<Ask<'_>> = asked.collect();
        if asks.is_empty() {
            return;
        }
        let mut guesses = self.proposer.propose(&asks).into_iter();
        for (sequence, most) in queue.running_mut().zip(wanted).filter(|(_, most)| *most > 0) {
            sequence.drafts = guesses.next().unwrap_or_default();
            sequence.drafts.truncate(most);
        }
    }

    /// Takes in what became of a sequence's last guesses, and drops them. Gives how many to make now: none where the
    /// sequence is as long as it was.
    fn go_on(&mut self, sequence: &mut Sequence, company: bool) -> usize {
        let trail = self.trails.get_mut(&sequence.rank.id).filter(|_| sequence.has_output());
        let Some(trail) = trail.filter(|trail| trail.length != sequence.tokens.len()) else {
            return 0;
        };
        let limits = &self.options.pace;
        trail.length = sequence.tokens.len();
        if trail.sent > 0 {
            let (sent, accepted) = (std::mem::take(&mut trail.sent), trail.accepted);
            trail.pace = trail.pace.verified(limits, sent, accepted, trail.length, company);
        }
        sequence.drafts.clear();
        trail.pace.guesses(trail.length)
    }

    /// A step is under way as planned.
    pub(super) fn sent(&mut self, plan: &StepPlan, queue: &mut RunnerQueue, metrics: &Metrics) {
        for run in plan.runs.iter().filter(|run| !run.prefill) {
            let Some(trail) = self.trails.get_mut(&run.rank.id) else { continue };
            let sequence = queue.get_mut(run.rank).expect("a plan runs sequences of the queue");
            if run.drafts > 0 {
                (trail.sent, trail.accepted) = (run.drafts, 0);
                metrics.drafts.add(1);
                metrics.draft_tokens.add(run.drafts as u64);
            } else if !sequence.drafts.is_empty() {
                // It waited to know its last token, and in vain.
                trail.pace = trail.pace.crowded(&self.options.pace, trail.length);
                sequence.drafts.clear();
            }
        }
    }

    /// A guess of the request was right.
    pub(super) fn accepted(&mut self, id: RequestId, metrics: &Metrics) {
        metrics.accepted_tokens.add(1);
        if let Some(trail) = self.trails.get_mut(&id) {
            trail.accepted += 1;
        }
    }
}
