//! The making of one [`StepPlan`].
//!
//! Three passes: decode rows, chunks of running prefills, new sequences; and guesses with what they leave. Where blocks run out, the lowest-ranked
//! running sequence that has no part in the step yet gives its blocks back; it is computed again later.
//! The highest-ranked one always goes on, and any sequence fits alone (admission saw to it), so every one ends.

use std::collections::HashSet;

use super::{
    queue::{Admission, Restoration, RunPlan, RunnerQueue, StepLimits, StepPlan},
    sequence::Sequence,
};
use crate::kv::{BlockKey, KvCache, PrefixHit, Restore, Tally};

pub(super) struct Planner<'a> {
    queue: &'a RunnerQueue,
    kv: &'a KvCache,
    limits: &'a StepLimits,
    tally: Tally<'a>,
    /// What has become of each running sequence.
    fates: Vec<Fate>,
    /// The tokens that each running sequence computes in this step.
    planned: Vec<usize>,
    rows_left: usize,
    /// Blocks that this step completes and later steps can find.
    coming: HashSet<BlockKey>,
    plan: StepPlan,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Open,
    Runs,
    Preempted,
}

impl<'a> Planner<'a> {
    pub(super) fn new(queue: &'a RunnerQueue, kv: &'a KvCache, limits: &'a StepLimits) -> Self {
        Planner {
            queue,
            kv,
            limits,
            tally: Tally::new(kv),
            fates: vec![Fate::Open; queue.running.len()],
            planned: vec![0; queue.running.len()],
            rows_left: limits.rows,
            coming: HashSet::new(),
            plan: StepPlan::default(),
        }
    }

    pub(super) fn plan(mut self) -> StepPlan {
        let decode_waits = self.queue.running.iter().any(|s| s.decodes() && self.is_ready(s));
        // Without mixing a burst of none would be prefill alone.
        let least = u32::from(!self.limits.mixes);
        let burst = self.queue.decode_priority_burst.max(least);
        let prefill_turn = !decode_waits
            || (self.queue.decode_streak >= burst
                && !(self.limits.decode_alone && self.limits.mixes));
        if self.limits.mixes || !prefill_turn {
            self.plan_decodes();
        }
        if prefill_turn {
            self.plan_prefills();
            // A runner that cannot mix has let decode rows wait for this; there may have been no room for it.
            if self.plan.is_empty() {
                self.rows_left = self.limits.rows;
                self.plan_decodes();
            }
        }
        if self.limits.draft_rows > 0 {
            self.plan_drafts();
        }
        self.plan
    }

    /// Guesses of sequences that decode, with the rows and blocks that nobody else wants in this step, and equal shares of them.
    fn plan_drafts(&mut self) {
        if self.is_better_later() {
            self.plan.runs.clear();
            // They may have counted on blocks that leave the windows of these runs.
            self.plan.restore.clear();
            return;
        }
        if !self.plan.preempt.is_empty() {
            return;
        }
        let decoding = self.plan.runs.iter().filter(|run| !run.prefill).count();
        let mut left = self.limits.draft_rows.saturating_sub(decoding);
        left = left.min(self.limits.rows.saturating_sub(self.plan.rows()));
        let mut others = self.plan.runs.iter().filter(|run| self.guesses(run)).count();
        for index in 0..self.plan.runs.len() {
            let run = self.plan.runs[index];
            if !self.guesses(&run) {
                continue;
            }
            let sequence = self.queue.running_at(run.rank).expect("it runs");
            let wanted = sequence.drafts.len().min(left.div_ceil(others));
            let end = sequence.computed + run.tokens;
            let drafts = self.tally.extend(&sequence.kv, end, wanted);
            self.plan.runs[index].drafts = drafts;
            left -= drafts;
            others -= 1;
        }
    }

    /// Sequences with guesses do not run ahead, so those of the step in flight could take part in the step after it together
    /// with all that are planned now. Without this two of them would take turns for ever, each in every other step.
    fn is_better_later(&self) -> bool {
        let in_flight = |sequence: &Sequence| !sequence.drafts.is_empty() && sequence.in_flight > 0;
        self.limits.steps_run
            && self.plan.preempt.is_empty()
            && self.plan.runs.iter().all(|run| self.guesses(run))
            && self.queue.running.iter().any(in_flight)
    }

    /// The run is of a sequence that decodes and has guesses.
    fn guesses(&self, run: &RunPlan) -> bool {
        let sequence = self.queue.running_at(run.rank).filter(|_| !run.prefill);
        sequence.is_some_and(|sequence| !sequence.drafts.is_empty())
    }

    fn is_ready(&self, sequence: &Sequence) -> bool {
        sequence.is_ready(&self.limits.regime_thresholds)
    }

    fn plan_decodes(&mut self) {
        for index in 0..self.queue.running.len() {
            let sequence = &self.queue.running[index];
            if self.rows_left == 0 || !sequence.decodes() || !self.is_ready(sequence) {
                continue;
            }
            while self.fates[index] == Fate::Open && !self.try_run(index, 1, false) {
                let victim = self.victim_below(index).unwrap_or(index);
                self.preempt(victim);
            }
        }
    }

    fn plan_prefills(&mut self) {
        let decodes = !self.plan.is_empty();
        let chunk = if decodes { self.limits.chunk_with_decode } else { self.limits.chunk_alone };
        self.rows_left = self.rows_left.min(chunk);
        for index in 0..self.queue.running.len() {
            let sequence = &self.queue.running[index];
            if self.rows_left == 0 || sequence.decodes() || !self.is_ready(sequence) {
                continue;
            }
            let wanted = sequence.remaining().min(self.rows_left);
            while self.fates[index] == Fate::Open && !self.try_run(index, wanted, true) {
                match self.victim_below(index) {
                    Some(victim) => self.preempt(victim),
                    None => break,
                }
            }
        }
        self.admit();
    }

    /// Plans up to `wanted` tokens of a running sequence, as many as there are blocks for; false: for none.
    fn try_run(&mut self, index: usize, wanted: usize, prefill: bool) -> bool {
        let sequence = &self.queue.running[index];
        let tokens = self.tally.room(&sequence.kv, sequence.computed, wanted);
        if tokens == 0 {
            return false;
        }
        self.tally.reserve(&sequence.kv, sequence.computed, tokens);
        self.fates[index] = Fate::Runs;
        self.planned[index] = tokens;
        self.push_run(sequence, tokens, prefill);
        if prefill {
            self.expect_blocks(sequence, sequence.computed, tokens);
        }
        true
    }

    fn push_run(&mut self, sequence: &Sequence, tokens: usize, prefill: bool) {
        self.rows_left -= tokens;
        self.plan.runs.push(RunPlan { rank: sequence.rank, tokens, drafts: 0, prefill });
    }

    /// Remembers the blocks that a chunk of `tokens` after `cached` completes.
    fn expect_blocks(&mut self, sequence: &Sequence, cached: usize, tokens: usize) {
        let size = self.kv.block_size();
        let keys = sequence.chain.keys();
        let blocks = (cached / size).min(keys.len())..((cached + tokens) / size).min(keys.len());
        self.coming.extend(&keys[blocks]);
    }

    /// The lowest-ranked sequence after `index` that has no part in the step yet.
    fn victim_below(&self, index: usize) -> Option<usize> {
        let open = |later: &usize| self.fates[*later] == Fate::Open;
        (index + 1..self.fates.len()).rev().find(open)
    }

    fn preempt(&mut self, index: usize) {
        let sequence = &self.queue.running[index];
        self.fates[index] = Fate::Preempted;
        self.tally.release(&sequence.kv);
        self.plan.preempt.push(sequence.rank);
    }

    /// New sequences, in order, until one does not fit: those behind it must not overtake it for ever.
    fn admit(&mut self) {
        // Whoever has just lost blocks to another must not take them back in the same step.
        if !self.plan.preempt.is_empty() || self.queue.waiting.is_empty() {
            return;
        }
        let mut promised = self.promised();
        let mut places = self.limits.sequences.saturating_sub(self.queue.running.len());
        for sequence in self.queue.waiting.values() {
            // It was preempted while its mask is worked out, which is no reason for others to wait.
            if sequence.awaits_mask {
                continue;
            }
            // Neither is what it waits for now, but its place and its blocks are its own.
            if let Some(tokens) = sequence.restoring {
                self.promise(&mut promised, tokens, sequence.goal().saturating_sub(tokens));
                places = places.saturating_sub(1);
                continue;
            }
            if places == 0 || self.rows_left == 0 || !self.is_ready(sequence) {
                return;
            }
            if self.is_worth_waiting(sequence) {
                continue;
            }
            if let Some(restoration) = self.restore(sequence, &promised) {
                let Restore { tokens, blocks, .. } = restoration.restore;
                self.coming.extend(&sequence.chain.keys()[..blocks]);
                self.promise(&mut promised, tokens, sequence.goal().saturating_sub(tokens));
                self.plan.restore.push(restoration);
                places -= 1;
                continue;
            }
            let Some((hit, tokens)) = self.beginning(sequence, &promised) else { return };
            self.expect_blocks(sequence, hit.tokens, tokens);
            let rest = sequence.goal() - hit.tokens - tokens;
            self.promise(&mut promised, hit.tokens + tokens, rest);
            self.plan.admit.push(Admission { rank: sequence.rank, hit });
            self.push_run(sequence, tokens, true);
            places -= 1;
        }
    }

    /// Somebody else computes in this step the very block that this sequence would begin with: several choices for one
    /// prompt, or many questions on one document, compute it once.
    fn is_worth_waiting(&self, sequence: &Sequence) -> bool {
        let restores = self.limits.cache_cost.is_some();
        if !self.kv.finds_prefixes() || (self.coming.is_empty() && !restores) {
            return false;
        }
        let keys = sequence.chain.keys();
        let most = sequence.most_cached().min(sequence.goal());
        let found = self.kv.find(keys, most, false).tokens / self.kv.block_size();
        let useful = (found + 1) * self.kv.block_size() <= most;
        let comes = |key: &BlockKey| self.coming.contains(key) || self.kv.is_coming(key);
        useful && keys.get(found).is_some_and(comes)
    }

    /// What is to be brought back for a waiting sequence before it begins, if anything: it must be cheaper than computing it,
    /// and the sequence must be able to begin with it.
    fn restore(&mut self, sequence: &Sequence, promised: &[usize]) -> Option<Restoration> {
        let cost = self.limits.cache_cost.filter(|_| !sequence.restored)?;
        let (length, keys) = (sequence.goal(), sequence.chain.keys());
        let most = sequence.most_cached().min(length);
        let restore = self.kv.find_in_tiers(keys, most, most == length)?;
        let there = self.kv.find(keys, most, most == length).tokens;
        let gained = restore.tokens.saturating_sub(there);
        let pays = gained > 0 && cost.restores(self.kv.bytes_back(&restore), gained);
        let begins = pays && self.tally.restore(&restore, length, promised);
        begins.then_some(Restoration { rank: sequence.rank, restore, gained })
    }

    /// The hit and the first chunk with which a waiting sequence can begin.
    fn beginning(&mut self, sequence: &Sequence, promised: &[usize]) -> Option<(PrefixHit, usize)> {
        let length = sequence.goal();
        let keys = sequence.chain.keys();
        let most = sequence.most_cached().min(length);
        let whole = self.kv.find(keys, most, most == length);
        if let Some(tokens) = self.fit(&whole, length, promised) {
            return Some((whole, tokens));
        }
        // The copy may be one block too many, where computing that block again is not.
        let shorter = whole.copy_last.then(|| self.kv.find(keys, length - 1, false))?;
        self.fit(&shorter, length, promised).map(|tokens| (shorter, tokens))
    }

    /// The largest first chunk after `hit` that fits; halved until it does, for sliding groups hold a whole chunk.
    fn fit(&mut self, hit: &PrefixHit, length: usize, promised: &[usize]) -> Option<usize> {
        let mut tokens = (length - hit.tokens).min(self.rows_left);
        while tokens > 0 {
            if self.tally.admit(hit, tokens, length, promised) {
                return Some(tokens);
            }
            tokens /= 2;
        }
        None
    }

    /// Blocks that running sequences still need for the tokens they know, beyond this step, in each group.
    fn promised(&self) -> Vec<usize> {
        let mut promised = vec![0; self.kv.group_count()];
        for (sequence, planned) in self.queue.running.iter().zip(&self.planned) {
            let held = sequence.computed + planned;
            self.promise(&mut promised, held, sequence.goal().saturating_sub(held));
        }
        promised
    }

    fn promise(&self, promised: &mut [usize], held: usize, rest: usize) {
        let size = self.kv.block_size();
        let blocks = (held + rest).div_ceil(size) - held.div_ceil(size);
        promised.iter_mut().for_each(|promised| *promised += blocks);
    }
}
