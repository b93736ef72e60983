//! All KV groups together: prefix hits that every group can serve, growth, publication.

use std::{cell::RefCell, rc::Rc};

use foundation::BlockId;

use super::{
    host::HostPool,
    key::BlockKey,
    pool::{BlockLease, BlockPool},
    table::{GroupTable, SequenceKv, first_needed},
};
use crate::{
    backend::{KvGroupSpec, RunnerSpec},
    batch::BlockCopy,
};

/// The blocks of a model, all groups.
#[derive(Debug)]
pub struct KvCache {
    block_size: usize,
    pub(super) groups: Vec<Group>,
    prefix_cache: bool,
}

#[derive(Debug)]
pub(super) struct Group {
    pub(super) spec: KvGroupSpec,
    pub(super) pool: Rc<RefCell<BlockPool>>,
    /// Where its blocks go before they are evicted; without slots where they go nowhere.
    pub(super) host: HostPool,
    /// What a block takes, where that matters: with a host tier.
    pub(super) block_bytes: u64,
}

/// Cached blocks that a sequence can begin with.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PrefixHit {
    /// Tokens that need not be computed.
    pub tokens: usize,
    /// The blocks to share, for each group.
    pub groups: Vec<HitBlocks>,
    /// The last block of every group is copied, not shared: the sequence writes into it.
    pub copy_last: bool,
}

/// Cached blocks of one group.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HitBlocks {
    /// Logical number of the first.
    pub first: usize,
    /// The blocks.
    pub blocks: Vec<BlockId>,
}

/// A beginning that every group can serve: for each, the number of its first block, and where the blocks lie.
pub(super) struct Cut<P> {
    pub(super) tokens: usize,
    pub(super) groups: Vec<(usize, Vec<P>)>,
    copy_last: bool,
}

/// What beginning with a hit takes beside the sequence's own blocks.
#[derive(Debug, Default)]
pub struct HitCopies {
    /// Copies for the step to make.
    pub copies: Vec<BlockCopy>,
    /// The blocks that are read: to be held until the step has been submitted.
    pub sources: Vec<BlockLease>,
}

impl KvCache {
    /// All blocks free. Without `prefix_cache` nothing is ever found again.
    pub fn new(spec: &RunnerSpec, prefix_cache: bool) -> Self {
        let host = spec.host.as_ref().filter(|_| prefix_cache);
        let slots = |index: usize| host.map_or(0, |tier| tier.slots[index]);
        let bytes = |index: usize| host.map_or(0, |tier| tier.block_bytes[index]);
        let group = |(index, spec): (usize, &KvGroupSpec)| Group {
            spec: *spec,
            pool: Rc::new(RefCell::new(BlockPool::new(spec.blocks))),
            host: HostPool::new(slots(index)),
            block_bytes: bytes(index),
        };
        KvCache {
            block_size: spec.block_size,
            groups: spec.kv_groups.iter().enumerate().map(group).collect(),
            prefix_cache,
        }
    }

    /// Tokens in a block.
    pub fn block_size(&self) -> usize {
        self.block_size
    }

    /// Whether blocks can be found again by their tokens.
    pub fn finds_prefixes(&self) -> bool {
        self.prefix_cache
    }

    /// Number of groups.
    pub fn group_count(&self) -> usize {
        self.groups.len()
    }

    /// The window of a group.
    pub fn window(&self, group: usize) -> Option<usize> {
        self.groups[group].spec.window
    }

    /// Blocks of a group that can be had.
    pub fn available(&self, group: usize) -> usize {
        self.groups[group].pool.borrow().available()
    }

    /// How many leases a block of a group has.
    pub fn holders(&self, group: usize, block: BlockId) -> u32 {
        self.groups[group].pool.borrow().holders(block)
    }

    /// Blocks held and blocks there are, of the fullest group.
    pub fn usage(&self) -> (usize, usize) {
        let usage = self.groups.iter().map(|group| {
            let pool = group.pool.borrow();
            (pool.total() - pool.available(), pool.total())
        });
        // a/b > c/d without division; an empty pool is never the fullest.
        usage.max_by_key(|(held, total)| held * 1_000_000 / (*total).max(1)).unwrap_or((0, 0))
    }

    /// The most tokens, up to `max_tokens`, that every group can serve from cached blocks with these names: whole
    /// blocks from the start in full groups, the last window in sliding ones.
    ///
    /// With `may_copy` a hit may reach to the very end of the sequence: its last token is computed again (somebody
    /// wants its logits) into a copy of the block.
    pub fn find(&self, keys: &[BlockKey], max_tokens: usize, may_copy: bool) -> PrefixHit {
        let find = |group: &Group, key: &BlockKey| group.pool.borrow().find(key);
        let Some(cut) = self.longest(keys, max_tokens, may_copy, find) else {
            return self.miss();
        };
        let groups = cut.groups.into_iter().map(|(first, blocks)| HitBlocks { first, blocks });
        PrefixHit { tokens: cut.tokens, groups: groups.collect(), copy_last: cut.copy_last }
    }

    fn miss(&self) -> PrefixHit {
        PrefixHit { groups: vec![HitBlocks::default(); self.groups.len()], ..PrefixHit::default() }
    }

    /// The longest beginning that every group can serve from what `find` finds.
    pub(super) fn longest<P: Copy>(
        &self,
        keys: &[BlockKey],
        max_tokens: usize,
        may_copy: bool,
        find: impl Fn(&Group, &BlockKey) -> Option<P>,
    ) -> Option<Cut<P>> {
        let most = keys.len().min(max_tokens / self.block_size);
        if !self.prefix_cache || most == 0 || self.groups.is_empty() {
            return None;
        }
        let find_all =
            |group: &Group| keys[..most].iter().map(|key| find(group, key)).collect::<Vec<_>>();
        let found: Vec<Vec<Option<P>>> = self.groups.iter().map(find_all).collect();
        let reach: Vec<Vec<usize>> = found.iter().map(|blocks| reach(blocks)).collect();
        let whole = may_copy.then_some(max_tokens);
        (1..=most).rev().find_map(|count| self.cut(&found, &reach, count, whole))
    }

    /// The first `count` blocks, if every group has what its window needs.
    fn cut<P: Copy>(
        &self,
        found: &[Vec<Option<P>>],
        reach: &[Vec<usize>],
        count: usize,
        sequence_tokens: Option<usize>,
    ) -> Option<Cut<P>> {
        let end = count * self.block_size;
        let copy_last = sequence_tokens == Some(end);
        let tokens = if copy_last { end - 1 } else { end };
        let mut groups = Vec::with_capacity(found.len());
        for ((group, found), reach) in self.groups.iter().zip(found).zip(reach) {
            let first = first_needed(group.spec.window, tokens, self.block_size).min(count);
            if first < count && reach[count - 1] < count - first {
                return None;
            }
            groups.push((first, found[first..count].iter().flatten().copied().collect()));
        }
        Some(Cut { tokens, groups, copy_last })
    }

    /// Leases on the blocks of a hit, the one to copy included: all hits of a plan are leased before any block is
    /// taken, which might evict one.
    pub fn begin(&self, hit: &PrefixHit) -> SequenceKv {
        let table = |(group, blocks): (&Group, &HitBlocks)| {
            let leases = blocks.blocks.iter().map(|block| BlockLease::share(&group.pool, *block));
            GroupTable { first: blocks.first, leases: leases.collect() }
        };
        SequenceKv { groups: self.groups.iter().zip(&hit.groups).map(table).collect() }
    }

    /// Puts a copy in the place of every group's last block, which the sequence will write into.
    ///
    /// # Panics
    /// When there is no block for a copy: the plan counts them.
    pub fn copy_last(&self, sequence: &mut SequenceKv) -> HitCopies {
        let mut copies = HitCopies::default();
        for (index, table) in sequence.groups.iter_mut().enumerate() {
            let source = table.leases.pop_back().expect("a hit that copies has a last block");
            let target =
                BlockLease::take(&self.groups[index].pool).expect("the plan counted blocks");
            let (group, from, to) = (index as u32, source.block(), target.block());
            copies.copies.push(BlockCopy { group, from, to });
            table.leases.push_back(target);
            copies.sources.push(source);
        }
        copies
    }

    /// Gives back the blocks that a run from token `cached` on will not read.
    pub fn leave_window(&self, sequence: &mut SequenceKv, cached: usize) {
        for (group, table) in self.groups.iter().zip(&mut sequence.groups) {
            table.release_before(first_needed(group.spec.window, cached, self.block_size));
        }
    }

    /// Holds blocks for the sequence's first `tokens` tokens.
    ///
    /// # Panics
    /// When there are not enough: the plan counts them.
    pub fn grow(&self, sequence: &mut SequenceKv, tokens: usize) {
        for (group, table) in self.groups.iter().zip(&mut sequence.groups) {
            while table.end() < tokens.div_ceil(self.block_size) {
                let lease = BlockLease::take(&group.pool).expect("the plan counted blocks");
                table.leases.push_back(lease);
            }
        }
    }

    /// Names the sequence's logical blocks `from .. keys.len()`, as far as it holds them.
    pub fn publish(&self, sequence: &SequenceKv, keys: &[BlockKey], from: usize) {
        if !self.prefix_cache {
            return;
        }
        for (group, table) in self.groups.iter().zip(&sequence.groups) {
            let mut pool = group.pool.borrow_mut();
            let held = table.leases.iter().zip(keys.iter().skip(table.first));
            for (lease, key) in held.skip(from.saturating_sub(table.first)) {
                pool.publish(lease.block(), *key);
                if group.host.find(key).is_some() {
                    pool.set_copied(key, true);
                }
            }
        }
    }

    /// Every rule that must hold between two steps, given all sequences that hold blocks.
    pub fn check<'a>(&self, sequences: impl Iterator<Item = &'a SequenceKv>) -> Result<(), String> {
        let mut held = vec![std::collections::HashMap::<BlockId, u32>::new(); self.groups.len()];
        for sequence in sequences {
            for (held, table) in held.iter_mut().zip(&sequence.groups) {
                for lease in &table.leases {
                    *held.entry(lease.block()).or_default() += 1;
                }
            }
        }
        for (index, (group, held)) in self.groups.iter().zip(&held).enumerate() {
            let pool = group.pool.borrow();
            pool.check().map_err(|problem| format!("group {index}: {problem}"))?;
            let wrong = held.iter().find(|(block, count)| pool.holders(**block) != **count);
            if let Some((block, count)) = wrong {
                let holders = pool.holders(*block);
                return Err(format!("group {index}: block {block}: {count} held, {holders} known"));
            }
            if held.len() != pool.total() - pool.available() {
                return Err(format!("group {index}: a block is held by no sequence"));
            }
        }
        self.check_tiers()
    }
}

/// For each block, how many blocks in a row are there that end with it.
fn reach<P>(blocks: &[Option<P>]) -> Vec<usize> {
    let mut run = 0;
    let count = |block: &Option<P>| {
        run = if block.is_some() { run + 1 } else { 0 };
        run
    };
    blocks.iter().map(count).collect()
}

#[cfg(test)]
mod tests;
