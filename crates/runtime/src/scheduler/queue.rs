//! The queue in front of the runner: waiting and running sequences, and the plans made from them.

use std::collections::BTreeMap;

use super::{cost::CacheCost, planner::Planner, rank::Rank, sequence::Sequence};
use crate::kv::{KvCache, PrefixHit, Restore};

/// Every sequence that has not ended. Decode comes first; after `decode_priority_burst` decode-only steps in a row
/// while a prefill waits, one prefill chunk is guaranteed. By rank among themselves: in order of arrival within a priority, and nobody starves.
#[derive(Debug, Default)]
pub struct RunnerQueue {
    /// Without blocks.
    pub(super) waiting: BTreeMap<Rank, Sequence>,
    /// With blocks and slot; ascending by rank.
    pub(super) running: Vec<Sequence>,
    pub(super) decode_priority_burst: u32,
    /// Decode-only steps in a row while a prefill waited.
    pub(super) decode_streak: u32,
}

/// What bounds a step.
#[derive(Clone, Debug, PartialEq)]
pub struct StepLimits {
    /// Most token rows.
    pub rows: usize,
    /// Most running sequences.
    pub sequences: usize,
    /// Most prefill rows beside decode rows.
    pub chunk_with_decode: usize,
    /// Most prefill rows of a step without decode rows.
    pub chunk_alone: usize,
    /// Where decode rows are ready, they go alone this time.
    pub decode_alone: bool,
    /// Prefill and decode may share a step.
    pub mixes: bool,
    /// Where position regimes change.
    pub regime_thresholds: Vec<usize>,
    /// Most rows of sequences that decode, with guesses among them.
    pub draft_rows: usize,
    /// A step is in flight.
    pub steps_run: bool,
    /// What cached tokens cost; `None`: there is no host to bring any back from.
    pub cache_cost: Option<CacheCost>,
}

/// One step, decided and not yet done. Carried out in the order of its fields.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StepPlan {
    /// Running sequences that give everything back and wait again.
    pub preempt: Vec<Rank>,
    /// Waiting sequences that begin.
    pub admit: Vec<Admission>,
    /// Waiting sequences whose beginnings are brought back from the host.
    pub restore: Vec<Restoration>,
    /// Who computes how much; decode rows first.
    pub runs: Vec<RunPlan>,
}

/// A waiting sequence's beginning is brought back.
#[derive(Clone, Debug, PartialEq)]
pub struct Restoration {
    /// Whose.
    pub rank: Rank,
    /// The blocks.
    pub restore: Restore,
    /// Tokens that need not be computed because of it.
    pub gained: usize,
}

/// A waiting sequence begins.
#[derive(Clone, Debug, PartialEq)]
pub struct Admission {
    /// Which.
    pub rank: Rank,
    /// The cached blocks it begins with.
    pub hit: PrefixHit,
}

/// Consecutive tokens of one sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunPlan {
    /// Whose.
    pub rank: Rank,
    /// How many; at least 1.
    pub tokens: usize,
    /// So many of its guesses are computed behind them; only in decode rows.
    pub drafts: usize,
    /// A prefill chunk, not a decode row.
    pub prefill: bool,
}

/// What else changes when a sequence starts or stops to run.
pub trait Changes {
    /// It has blocks now, and needs a slot.
    fn start(&mut self, sequence: &mut Sequence);
    /// It must give blocks and slot back.
    fn stop(&mut self, sequence: &mut Sequence);
}

impl RunPlan {
    /// Token rows, guesses included.
    pub fn rows(&self) -> usize {
        self.tokens + self.drafts
    }
}

impl StepPlan {
    /// Nothing is computed.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Token rows.
    pub fn rows(&self) -> usize {
        self.runs.iter().map(RunPlan::rows).sum()
    }

    /// Rows that are prefill.
    pub fn prefill_rows(&self) -> usize {
        self.runs.iter().filter(|run| run.prefill).map(|run| run.tokens).sum()
    }

    /// Runs that decode.
    pub fn decodes(&self) -> usize {
        self.runs.iter().filter(|run| !run.prefill).count()
    }

    /// Some rows are prefill.
    pub fn prefills(&self) -> bool {
        self.runs.iter().any(|run| run.prefill)
    }
}

impl RunnerQueue {
    /// An empty queue.
    pub fn new(decode_priority_burst: u32) -> Self {
        RunnerQueue { decode_priority_burst, ..RunnerQueue::default() }
    }

    /// A sequence without blocks waits for its turn.
    pub fn push(&mut self, sequence: Sequence) {
        self.waiting.insert(sequence.rank, sequence);
    }

    /// Takes a sequence out, wherever it is.
    pub fn remove(&mut self, rank: Rank) -> Option<Sequence> {
        match self.place(rank) {
            Some(place) => Some(self.running.remove(place)),
            None => self.waiting.remove(&rank),
        }
    }

    /// A sequence, wherever it is.
    pub fn get_mut(&mut self, rank: Rank) -> Option<&mut Sequence> {
        match self.place(rank) {
            Some(place) => Some(&mut self.running[place]),
            None => self.waiting.get_mut(&rank),
        }
    }

    /// Number of running sequences.
    pub fn running(&self) -> usize {
        self.running.len()
    }

    /// The running sequences, in the order in which [`RunnerQueue::iter`] begins.
    pub fn running_mut(&mut self) -> impl Iterator<Item = &mut Sequence> {
        self.running.iter_mut()
    }

    /// Number of waiting sequences.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Running sequences that have their prompt behind them.
    pub fn decoding(&self) -> usize {
        self.running.iter().filter(|sequence| sequence.decodes()).count()
    }

    /// Somebody's prompt is not computed yet.
    pub fn prefill_waits(&self) -> bool {
        !self.waiting.is_empty() || self.running.iter().any(|sequence| !sequence.decodes())
    }

    /// All sequences.
    pub fn iter(&self) -> impl Iterator<Item = &Sequence> {
        self.running.iter().chain(self.waiting.values())
    }

    /// Decides the next step. Changes nothing.
    pub fn plan(&self, kv: &KvCache, limits: &StepLimits) -> StepPlan {
        Planner::new(self, kv, limits).plan()
    }

    /// Moves sequences as the plan says and has their blocks leased. Everything is given back before anything is
    /// leased, and everything is leased before new blocks are taken: the plan counted on it.
    pub fn apply(&mut self, plan: &StepPlan, kv: &KvCache, changes: &mut impl Changes) {
        for rank in &plan.preempt {
            let place = self.place(*rank).expect("a plan preempts running sequences");
            let mut sequence = self.running.remove(place);
            changes.stop(&mut sequence);
            self.waiting.insert(*rank, sequence);
        }
        for run in &plan.runs {
            if let Some(place) = self.place(run.rank) {
                let sequence = &mut self.running[place];
                kv.leave_window(&mut sequence.kv, sequence.computed);
            }
        }
        for admission in &plan.admit {
            let sequence = self.waiting.remove(&admission.rank);
            let mut sequence = sequence.expect("a plan admits waiting sequences");
            sequence.kv = kv.begin(&admission.hit);
            sequence.computed = admission.hit.tokens;
            sequence.published = sequence.computed / kv.block_size();
            changes.start(&mut sequence);
            let place = self.running.partition_point(|running| running.rank < sequence.rank);
            self.running.insert(place, sequence);
        }
        for restoration in &plan.restore {
            let sequence = self.waiting.get_mut(&restoration.rank);
            let sequence = sequence.expect("a plan restores waiting sequences");
            (sequence.restoring, sequence.restored) = (Some(restoration.restore.tokens), true);
        }
        self.count(plan);
    }

    /// Sends a running sequence back to wait, to be computed anew.
    pub fn requeue(&mut self, rank: Rank, changes: &mut impl Changes) {
        if let Some(place) = self.place(rank) {
            let mut sequence = self.running.remove(place);
            changes.stop(&mut sequence);
            self.waiting.insert(rank, sequence);
        }
    }

    fn count(&mut self, plan: &StepPlan) {
        if plan.prefills() || !self.prefill_waits() {
            self.decode_streak = 0;
        } else if !plan.is_empty() {
            self.decode_streak = self.decode_streak.saturating_add(1);
        }
    }

    /// A running sequence.
    pub(super) fn running_at(&self, rank: Rank) -> Option<&Sequence> {
        self.place(rank).map(|place| &self.running[place])
    }

    fn place(&self, rank: Rank) -> Option<usize> {
        self.running.binary_search_by_key(&rank, |sequence| sequence.rank).ok()
    }
}

#[cfg(test)]
mod tests;
