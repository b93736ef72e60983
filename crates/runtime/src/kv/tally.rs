//! Counting blocks for a plan, without touching them.

use std::collections::HashMap;

use foundation::BlockId;

use super::{
    cache::{KvCache, PrefixHit},
    table::{GroupTable, SequenceKv, first_needed},
    tiers::Restore,
};

/// What would be left of every group's blocks if the plan so far were carried out.
pub struct Tally<'a> {
    kv: &'a KvCache,
    available: Vec<usize>,
    /// Leases that the plan drops.
    dropped: HashMap<(usize, BlockId), u32>,
    /// Leases that the plan takes on blocks that are there.
    shared: HashMap<(usize, BlockId), u32>,
}

impl<'a> Tally<'a> {
    /// Before anything is planned.
    pub fn new(kv: &'a KvCache) -> Self {
        let available = (0..kv.group_count()).map(|group| kv.available(group)).collect();
        Tally { kv, available, dropped: HashMap::new(), shared: HashMap::new() }
    }

    /// Blocks left in a group.
    pub fn available(&self, group: usize) -> usize {
        self.available[group]
    }

    /// The sequence gives everything back.
    pub fn release(&mut self, sequence: &SequenceKv) {
        for (group, table) in sequence.groups.iter().enumerate() {
            for lease in &table.leases {
                self.drop_lease(group, lease.block());
            }
        }
    }

    /// The most tokens, up to `wanted`, for which the sequence can have blocks after `cached` computed ones.
    pub fn room(&self, sequence: &SequenceKv, cached: usize, wanted: usize) -> usize {
        let rooms = sequence.groups.iter().enumerate().map(|(group, table)| {
            let leaving = self.leaving(sequence, group, cached);
            let freed = leaving.filter(|block| self.is_last_holder(group, *block)).count();
            let blocks = table.end() + self.available[group] + freed;
            (blocks * self.kv.block_size()).saturating_sub(cached)
        });
        rooms.min().unwrap_or(wanted).min(wanted)
    }

    /// The sequence computes `tokens` more after `cached`; [`Tally::room`] said that it can.
    pub fn reserve(&mut self, sequence: &SequenceKv, cached: usize, tokens: usize) {
        for (group, table) in sequence.groups.iter().enumerate() {
            let leaving: Vec<BlockId> = self.leaving(sequence, group, cached).collect();
            leaving.into_iter().for_each(|block| self.drop_lease(group, block));
            let end = (cached + tokens).div_ceil(self.kv.block_size());
            self.available[group] -= end.saturating_sub(table.end());
        }
    }

    /// Reserves blocks for up to `wanted` tokens behind the first `end`, which are reserved; as many as there are blocks for.
    /// Nothing leaves the window for them.
    pub fn extend(&mut self, sequence: &SequenceKv, end: usize, wanted: usize) -> usize {
        let size = self.kv.block_size();
        let held = |table: &GroupTable| table.end().max(end.div_ceil(size));
        let rooms = sequence.groups.iter().zip(&self.available);
        let rooms = rooms.map(|(table, available)| (held(table) + available) * size - end);
        let tokens = rooms.min().unwrap_or(wanted).min(wanted);
        for (table, available) in sequence.groups.iter().zip(&mut self.available) {
            *available -= (end + tokens).div_ceil(size).saturating_sub(held(table));
        }
        tokens
    }

    /// Whether a new sequence can begin with `hit`, compute `tokens` more now, and be sure of blocks for `total`
    /// tokens in the groups that keep everything. If so they are counted.
    ///
    /// `promised` blocks of each such group belong to others who have not taken them yet.
    pub fn admit(
        &mut self,
        hit: &PrefixHit,
        tokens: usize,
        total: usize,
        promised: &[usize],
    ) -> bool {
        let size = self.kv.block_size();
        let mut taken = Vec::with_capacity(self.available.len());
        for (group, blocks) in hit.groups.iter().enumerate() {
            let revived = blocks.blocks.iter().filter(|block| self.is_idle(group, **block)).count();
            let end = blocks.first + blocks.blocks.len();
            let copied = usize::from(hit.copy_last);
            let now = revived + copied + (hit.tokens + tokens).div_ceil(size).saturating_sub(end);
            let in_all = revived + copied + total.div_ceil(size).saturating_sub(end);
            if !self.fits(group, now, in_all, promised) {
                return false;
            }
            taken.push(now);
        }
        for (group, blocks) in hit.groups.iter().enumerate() {
            self.take(group, taken[group], blocks.blocks.iter().copied());
        }
        true
    }

    /// Whether a new sequence of `total` tokens could begin with what a restore brings back, and be sure of blocks for the rest
    /// as in [`Tally::admit`]. If so the blocks of the restore are counted.
    pub fn restore(&mut self, restore: &Restore, total: usize, promised: &[usize]) -> bool {
        let groups = 0..restore.groups.len();
        let taken = |group: usize| {
            let idle = restore.shared(group).filter(|block| self.is_idle(group, *block)).count();
            idle + restore.copies(group)
        };
        let fits = |group: usize| {
            let (first, places) = &restore.groups[group];
            let now = taken(group);
            let rest = total.div_ceil(self.kv.block_size()).saturating_sub(first + places.len());
            self.fits(group, now, now + rest, promised)
        };
        if !groups.clone().all(fits) {
            return false;
        }
        let taken: Vec<usize> = groups.clone().map(taken).collect();
        groups.for_each(|group| self.take(group, taken[group], restore.shared(group)));
        true
    }

    /// Whether a new sequence can have so many blocks of a group now, and in all.
    fn fits(&self, group: usize, now: usize, in_all: usize, promised: &[usize]) -> bool {
        let must_fit = match self.kv.window(group) {
            None => in_all + promised[group],
            Some(_) => now,
        };
        must_fit <= self.available[group]
    }

    /// Counts so many blocks of a group as taken, those of `shared` among them that nobody held; and the leases on all of `shared`:
    /// whoever gives one of them back later in the plan is not its last holder.
    fn take(&mut self, group: usize, count: usize, shared: impl Iterator<Item = BlockId>) {
        self.available[group] -= count;
        shared.for_each(|block| *self.shared.entry((group, block)).or_default() += 1);
    }

    /// Blocks of a sequence that leave the window when it goes on from `cached`.
    fn leaving<'s>(
        &self,
        sequence: &'s SequenceKv,
        group: usize,
        cached: usize,
    ) -> impl Iterator<Item = BlockId> + use<'s> {
        let table = &sequence.groups[group];
        let first = first_needed(self.kv.window(group), cached, self.kv.block_size());
        let count = first.saturating_sub(table.first).min(table.leases.len());
        table.leases.iter().take(count).map(super::BlockLease::block)
    }

    fn drop_lease(&mut self, group: usize, block: BlockId) {
        if self.is_last_holder(group, block) {
            self.available[group] += 1;
        }
        *self.dropped.entry((group, block)).or_default() += 1;
    }

    fn is_last_holder(&self, group: usize, block: BlockId) -> bool {
        self.holders_left(group, block) == 1
    }

    /// Nobody would hold the block.
    fn is_idle(&self, group: usize, block: BlockId) -> bool {
        self.holders_left(group, block) == 0
    }

    fn holders_left(&self, group: usize, block: BlockId) -> u32 {
        let count = |leases: &HashMap<(usize, BlockId), u32>| {
            leases.get(&(group, block)).copied().unwrap_or_default()
        };
        self.kv.holders(group, block) + count(&self.shared) - count(&self.dropped)
    }
}
