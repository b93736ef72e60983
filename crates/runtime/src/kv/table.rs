//! The blocks that one sequence holds, group by group.

use std::collections::VecDeque;

use crate::batch::BlockTable;

use super::pool::BlockLease;

/// The blocks that one sequence holds. Dropping it gives them back, the last ones first: the beginning of a sequence
/// is what others share, so it is evicted last.
#[derive(Debug, Default)]
pub struct SequenceKv {
    pub(super) groups: Vec<GroupTable>,
}

/// The blocks that one sequence holds in one group: logical blocks `first .. first + leases.len()`.
#[derive(Debug, Default)]
pub(super) struct GroupTable {
    pub(super) first: usize,
    pub(super) leases: VecDeque<BlockLease>,
}

impl GroupTable {
    /// One past the last logical block held.
    pub(super) fn end(&self) -> usize {
        self.first + self.leases.len()
    }

    /// Gives back the blocks before `first`.
    pub(super) fn release_before(&mut self, first: usize) {
        while self.first < first && !self.leases.is_empty() {
            self.leases.pop_front();
            self.first += 1;
        }
    }
}

impl SequenceKv {
    /// The tables as a step carries them.
    pub fn tables(&self) -> Vec<BlockTable> {
        let table = |group: &GroupTable| BlockTable {
            first: group.first as u32,
            blocks: group.leases.iter().map(BlockLease::block).collect(),
        };
        self.groups.iter().map(table).collect()
    }

    /// Blocks held in group `group`.
    pub fn held(&self, group: usize) -> usize {
        self.groups.get(group).map_or(0, |table| table.leases.len())
    }
}

impl Drop for SequenceKv {
    fn drop(&mut self) {
        for group in &mut self.groups {
            while group.leases.pop_back().is_some() {}
        }
    }
}

/// The first logical block that a run from token `cached` on reads, under a window.
pub(super) fn first_needed(window: Option<usize>, cached: usize, block_size: usize) -> usize {
    window.map_or(0, |window| (cached + 1).saturating_sub(window) / block_size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_counts_the_token_itself() {
        // Token 8 with a window of 4 reads 5, 6, 7, 8: with blocks of 4 that is from block 1 on.
        assert_eq!(first_needed(Some(4), 8, 4), 1);
        assert_eq!(first_needed(Some(5), 8, 4), 1);
        assert_eq!(first_needed(Some(6), 8, 4), 0);
        assert_eq!(first_needed(Some(1), 8, 4), 2);
        assert_eq!(first_needed(None, 8, 4), 0);
    }
}
