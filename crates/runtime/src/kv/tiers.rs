//! The host tier below the device's blocks: what goes out before it is evicted, and what comes back.
//!
//! A copy out holds nothing: where its block is evicted before it has ended, it is void, and its slot is free again. So copies
//! never keep a sequence from a block. A copy in writes to blocks that are leased for it until it has ended.

use foundation::BlockId;

use super::{
    cache::{Group, KvCache},
    key::BlockKey,
    pool::BlockLease,
    table::{GroupTable, SequenceKv},
};
use crate::batch::{HostCopy, HostSlot};

/// At most so many of a group's blocks are kept safe ahead of their eviction: what one large step takes.
const MOST_AHEAD: usize = 256;

/// Where a block lies that a sequence can begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// On the device.
    Device(BlockId),
    /// On the host, and not on the device.
    Host(HostSlot),
}

/// A beginning of a sequence that is there once its blocks on the host are copied back.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Restore {
    /// Tokens that need not be computed then.
    pub tokens: usize,
    /// Logical blocks that it reaches over.
    pub blocks: usize,
    /// For each group, the logical number of its first block, and where the blocks lie.
    pub groups: Vec<(usize, Vec<Place>)>,
}

impl Restore {
    /// Blocks of a group that are to be copied.
    pub fn copies(&self, group: usize) -> usize {
        let is_host = |place: &&Place| matches!(place, Place::Host(_));
        self.groups[group].1.iter().filter(is_host).count()
    }

    /// Blocks of a group that are there.
    pub fn shared(&self, group: usize) -> impl Iterator<Item = BlockId> + '_ {
        self.groups[group].1.iter().filter_map(|place| match place {
            Place::Device(block) => Some(*block),
            Place::Host(_) => None,
        })
    }
}

impl KvCache {
    /// Whether blocks go to the host at all.
    pub fn has_host(&self) -> bool {
        self.groups.iter().any(|group| group.host.total() > 0)
    }

    /// Slots that keep blocks and slots there are, of the fullest group.
    pub fn host_usage(&self) -> (usize, usize) {
        let usage = self.groups.iter().map(|group| (group.host.kept(), group.host.total()));
        usage.max_by_key(|(kept, total)| kept * 1_000_000 / (*total).max(1)).unwrap_or((0, 0))
    }

    /// Named blocks that were evicted and lie nowhere else, since the beginning.
    pub fn lost(&self) -> u64 {
        self.groups.iter().map(|group| group.pool.borrow().lost()).sum()
    }

    /// The longest beginning that every group can serve from both tiers together; as [`KvCache::find`], and never shorter.
    pub fn find_in_tiers(
        &self,
        keys: &[BlockKey],
        max_tokens: usize,
        may_copy: bool,
    ) -> Option<Restore> {
        let find = |group: &Group, key: &BlockKey| {
            let block = group.pool.borrow().find(key).map(Place::Device);
            block.or_else(|| group.host.find(key).map(Place::Host))
        };
        let cut = self.longest(keys, max_tokens, may_copy, find)?;
        let blocks = cut.tokens.div_ceil(self.block_size());
        Some(Restore { tokens: cut.tokens, blocks, groups: cut.groups })
    }

    /// Bytes that a restore copies.
    pub fn bytes_back(&self, restore: &Restore) -> u64 {
        let groups = self.groups.iter().enumerate();
        groups.map(|(index, group)| restore.copies(index) as u64 * group.block_bytes).sum()
    }

    /// Bytes of copies.
    pub fn copied_bytes(&self, copies: &[HostCopy]) -> u64 {
        copies.iter().map(|copy| self.groups[copy.group as usize].block_bytes).sum()
    }

    /// Whether the block of this name is on its way back to the device in any group.
    pub fn is_coming(&self, key: &BlockKey) -> bool {
        self.groups.iter().any(|group| group.host.is_read(key))
    }

    /// Leases on the blocks of a restore that are there: all restores' blocks are leased before any block is taken, which
    /// might evict one.
    pub fn hold(&self, restore: &Restore) -> Vec<BlockLease> {
        let held = self.groups.iter().enumerate().flat_map(|(index, group)| {
            restore.shared(index).map(|block| BlockLease::share(&group.pool, block))
        });
        held.collect()
    }

    /// Leases on all blocks of a restore, new ones among them, and the copies that fill these.
    ///
    /// # Panics
    /// When there are not enough blocks: the plan counts them.
    pub fn restore(&mut self, restore: &Restore, copies: &mut Vec<HostCopy>) -> SequenceKv {
        let mut sequence = SequenceKv::default();
        for (index, (group, (first, places))) in
            self.groups.iter_mut().zip(&restore.groups).enumerate()
        {
            let mut table = GroupTable { first: *first, ..GroupTable::default() };
            for place in places {
                let lease = match place {
                    Place::Device(block) => BlockLease::share(&group.pool, *block),
                    Place::Host(slot) => {
                        let lease = BlockLease::take(&group.pool).expect("the plan counted blocks");
                        group.host.read(*slot);
                        let block = lease.block();
                        copies.push(HostCopy { group: index as u32, block, slot: *slot });
                        lease
                    }
                };
                table.leases.push_back(lease);
            }
            sequence.groups.push(table);
        }
        sequence
    }

    /// Copies from the host have ended, or were given up.
    pub fn end_in(&mut self, copies: &[HostCopy]) {
        for copy in copies {
            self.groups[copy.group as usize].host.release(copy.slot);
        }
    }

    /// Begins copies of blocks that are soon to be evicted, up to `most`.
    pub fn begin_out(&mut self, most: usize, copies: &mut Vec<HostCopy>) {
        for (index, group) in self.groups.iter_mut().enumerate() {
            let ahead = group.ahead();
            if ahead == 0 {
                continue;
            }
            let mut pool = group.pool.borrow_mut();
            let room = most.saturating_sub(copies.len());
            let next: Vec<BlockId> =
                pool.endangered(ahead).map(|(block, _)| block).take(room).collect();
            for block in next {
                let Some((slot, given_up)) = group.host.take() else { break };
                if let Some(key) = given_up {
                    pool.set_copied(&key, false);
                }
                pool.begin_copy(block, slot);
                copies.push(HostCopy { group: index as u32, block, slot });
            }
        }
    }

    /// Copies to the host have ended: what is still what it was when they began is kept. Gives how many were void.
    pub fn end_out(&mut self, copies: &[HostCopy]) -> usize {
        let mut void = 0;
        for copy in copies {
            let Group { pool, host, .. } = &mut self.groups[copy.group as usize];
            let mut pool = pool.borrow_mut();
            match pool.end_copy(copy.block, copy.slot) {
                Some(key) => {
                    host.keep(copy.slot, key);
                    pool.set_copied(&key, true);
                }
                None => {
                    host.give_up(copy.slot);
                    void += 1;
                }
            }
        }
        void
    }

    /// Copies to the host were given up.
    pub fn cancel_out(&mut self, copies: &[HostCopy]) {
        for copy in copies {
            let Group { pool, host, .. } = &mut self.groups[copy.group as usize];
            pool.borrow_mut().end_copy(copy.block, copy.slot);
            host.give_up(copy.slot);
        }
    }

    /// Whether any copy is under way.
    pub fn is_copying(&self) -> bool {
        self.groups.iter().any(|group| group.host.is_busy())
    }

    /// Every rule of the host tier that must hold between two steps.
    pub(super) fn check_tiers(&self) -> Result<(), String> {
        for (index, group) in self.groups.iter().enumerate() {
            group.host.check().map_err(|problem| format!("group {index}, host: {problem}"))?;
            let pool = group.pool.borrow();
            let wrong =
                pool.copied().find(|(key, copied)| group.host.find(key).is_some() != *copied);
            if let Some((_, copied)) = wrong {
                return Err(format!("group {index}: a block is copied: {copied}, which is wrong"));
            }
        }
        Ok(())
    }
}

impl Group {
    /// How many blocks, of those that are evicted next, are to be on the host as well. No more than half its slots: what is
    /// given up there for one of them is none of them.
    fn ahead(&self) -> usize {
        (self.spec.blocks / 4).clamp(1, MOST_AHEAD).min(self.host.total() / 2)
    }
}

#[cfg(test)]
mod tests;
