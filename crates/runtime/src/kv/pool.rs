//! The blocks of one KV group: reference counts, the prefix index, and eviction of the least recently used.

use std::{
    cell::RefCell,
    collections::{BTreeMap, HashMap},
    rc::Rc,
};

use foundation::BlockId;

use super::key::BlockKey;
use crate::batch::HostSlot;

/// The blocks of one KV group. Each is held, cached or free (see [`super`]).
#[derive(Debug)]
pub struct BlockPool {
    blocks: Vec<Block>,
    /// Blocks without holder and without name, the next to give on top.
    free: Vec<BlockId>,
    /// Blocks without holder but with a name, by the time they were given back: the first is evicted first.
    cached: BTreeMap<u64, BlockId>,
    /// The prefix index: where a named block lies, held or cached.
    index: HashMap<BlockKey, BlockId>,
    /// Counts the blocks given back.
    time: u64,
    /// Counts the named blocks that were evicted and lie nowhere else.
    lost: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Block {
    holders: u32,
    key: Option<BlockKey>,
    /// When it was given back; its place in `cached`.
    given_back: u64,
    /// It lies in host memory, too.
    copied: bool,
    /// It is on its way to this slot. Eviction forgets that: the copy is void then.
    copying: Option<HostSlot>,
}

impl BlockPool {
    /// `blocks` free blocks, numbered from 0.
    pub fn new(blocks: usize) -> Self {
        BlockPool {
            blocks: vec![Block::default(); blocks],
            free: (0..blocks as u32).rev().map(BlockId).collect(),
            cached: BTreeMap::new(),
            index: HashMap::new(),
            time: 0,
            lost: 0,
        }
    }

    /// Blocks there are.
    pub fn total(&self) -> usize {
        self.blocks.len()
    }

    /// Blocks that can be had: free ones, then cached ones.
    pub fn available(&self) -> usize {
        self.free.len() + self.cached.len()
    }

    /// How many leases a block has.
    pub fn holders(&self, block: BlockId) -> u32 {
        self.blocks[block.0 as usize].holders
    }

    /// Where the block of this name lies.
    pub fn find(&self, key: &BlockKey) -> Option<BlockId> {
        self.index.get(key).copied()
    }

    /// Named blocks that were evicted and lie nowhere else, since the beginning.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// The blocks that are evicted next, were `ahead` blocks to be taken at once, as far as they lie nowhere else and are on
    /// no way there.
    pub fn endangered(&self, ahead: usize) -> impl Iterator<Item = (BlockId, BlockKey)> {
        let next = self.cached.values().take(ahead.saturating_sub(self.free.len()));
        next.filter_map(|block| {
            let entry = &self.blocks[block.0 as usize];
            let alone = !entry.copied && entry.copying.is_none();
            entry.key.filter(|_| alone).map(|key| (*block, key))
        })
    }

    /// A copy of a named block to the host begins. Nobody holds the block for it.
    pub fn begin_copy(&mut self, block: BlockId, slot: HostSlot) {
        self.blocks[block.0 as usize].copying = Some(slot);
    }

    /// The copy has ended. Gives the block's name, or `None` where the block was evicted meanwhile: what was copied may be
    /// anything.
    pub fn end_copy(&mut self, block: BlockId, slot: HostSlot) -> Option<BlockKey> {
        let entry = &mut self.blocks[block.0 as usize];
        entry.copying.take_if(|copying| *copying == slot)?;
        entry.key
    }

    /// The block of this name, if there is one, lies in host memory, or does not any more.
    pub fn set_copied(&mut self, key: &BlockKey, copied: bool) {
        if let Some(block) = self.find(key) {
            self.blocks[block.0 as usize].copied = copied;
        }
    }

    /// Whether the block of this name, if there is one, is said to lie in host memory.
    pub fn copied(&self) -> impl Iterator<Item = (&BlockKey, bool)> {
        self.index.iter().map(|(key, block)| (key, self.blocks[block.0 as usize].copied))
    }

    /// A block for new contents: a free one, else the cached one that was given back longest ago.
    fn take(&mut self) -> Option<BlockId> {
        let block = self.free.pop().or_else(|| {
            let (_, block) = self.cached.pop_first()?;
            self.forget(block);
            Some(block)
        })?;
        self.blocks[block.0 as usize].holders = 1;
        Some(block)
    }

    /// One more holder of a held or cached block.
    fn share(&mut self, block: BlockId) {
        let entry = &mut self.blocks[block.0 as usize];
        if entry.holders == 0 {
            let removed = self.cached.remove(&entry.given_back);
            assert_eq!(removed, Some(block), "a shared block is held or cached");
        }
        entry.holders += 1;
    }

    /// One holder less; the last one leaves the block cached if it has a name, else free.
    fn give_back(&mut self, block: BlockId) {
        let entry = &mut self.blocks[block.0 as usize];
        entry.holders -= 1;
        if entry.holders > 0 {
            return;
        }
        if entry.key.is_none() {
            self.free.push(block);
            return;
        }
        self.time += 1;
        entry.given_back = self.time;
        self.cached.insert(self.time, block);
    }

    /// Names a held block whose contents are complete. Where another block has the name already it keeps it.
    pub fn publish(&mut self, block: BlockId, key: BlockKey) {
        let entry = &mut self.blocks[block.0 as usize];
        assert!(entry.holders > 0, "only a held block is published");
        if entry.key.is_none() && !self.index.contains_key(&key) {
            entry.key = Some(key);
            self.index.insert(key, block);
        }
    }

    fn forget(&mut self, block: BlockId) {
        let entry = &mut self.blocks[block.0 as usize];
        entry.copying = None;
        if let Some(key) = entry.key.take() {
            self.lost += u64::from(!std::mem::take(&mut entry.copied));
            self.index.remove(&key);
        }
    }

    /// Every rule that must hold between two calls; the text names the first that does not.
    pub fn check(&self) -> Result<(), String> {
        let held = self.blocks.iter().filter(|block| block.holders > 0).count();
        if held + self.available() != self.total() {
            return Err(format!(
                "{held} held + {} available != {} blocks",
                self.available(),
                self.total()
            ));
        }
        let wrongly_free = self.free.iter().find(|block| {
            let entry = self.blocks[block.0 as usize];
            entry.holders > 0 || entry.key.is_some()
        });
        if let Some(block) = wrongly_free {
            return Err(format!("free block {block} is held or has a name"));
        }
        for (time, block) in &self.cached {
            let entry = self.blocks[block.0 as usize];
            if entry.holders > 0 || entry.key.is_none() || entry.given_back != *time {
                return Err(format!("cached block {block} is held, nameless or misplaced"));
            }
        }
        let nameless =
            self.blocks.iter().any(|b| b.key.is_none() && (b.copied || b.copying.is_some()));
        if nameless {
            return Err("a block without name lies on the host, or goes there".to_owned());
        }
        let named = self.blocks.iter().filter(|block| block.key.is_some()).count();
        let misplaced =
            self.index.iter().find(|(key, block)| self.blocks[block.0 as usize].key != Some(**key));
        if named != self.index.len() || misplaced.is_some() {
            return Err(format!("{named} named blocks, {} in the index", self.index.len()));
        }
        Ok(())
    }
}

/// One hold on a block, given back by Drop. Held and dropped on the engine thread.
#[derive(Debug)]
pub struct BlockLease {
    pool: Rc<RefCell<BlockPool>>,
    block: BlockId,
}

impl BlockLease {
    /// A lease on a block for new contents; `None`: all blocks are held.
    pub fn take(pool: &Rc<RefCell<BlockPool>>) -> Option<BlockLease> {
        let block = pool.borrow_mut().take()?;
        Some(BlockLease { pool: Rc::clone(pool), block })
    }

    /// One more lease on a block that the index found.
    pub fn share(pool: &Rc<RefCell<BlockPool>>, block: BlockId) -> BlockLease {
        pool.borrow_mut().share(block);
        BlockLease { pool: Rc::clone(pool), block }
    }

    /// The block.
    pub fn block(&self) -> BlockId {
        self.block
    }
}

impl Drop for BlockLease {
    fn drop(&mut self) {
        self.pool.borrow_mut().give_back(self.block);
    }
}

#[cfg(test)]
mod tests;
