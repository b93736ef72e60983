//! The slots of one KV group in host memory: what lies in them, and which is given up when a new block comes.

use std::collections::{BTreeMap, HashMap};

use super::key::BlockKey;
use crate::batch::HostSlot;

/// The host's slots of one KV group. Each is free, being filled, or keeps a named block.
#[derive(Debug, Default)]
pub struct HostPool {
    slots: Vec<Slot>,
    free: Vec<HostSlot>,
    /// Slots that keep a block and are read by no copy, by the time of their last use: the first is given up first.
    idle: BTreeMap<u64, HostSlot>,
    index: HashMap<BlockKey, HostSlot>,
    /// Counts uses.
    time: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slot {
    Free,
    /// A copy to it is under way.
    Filling,
    Kept {
        key: BlockKey,
        /// Copies from it that are under way.
        readers: u32,
        /// Its place in `idle`, while nobody reads it.
        used: u64,
    },
}

impl HostPool {
    /// `slots` free slots, numbered from 0.
    pub fn new(slots: usize) -> Self {
        let free = (0..slots as u32).rev().map(HostSlot).collect();
        HostPool { slots: vec![Slot::Free; slots], free, ..HostPool::default() }
    }

    /// Slots there are.
    pub fn total(&self) -> usize {
        self.slots.len()
    }

    /// Slots that keep a block.
    pub fn kept(&self) -> usize {
        self.index.len()
    }

    /// Where the block of this name lies.
    pub fn find(&self, key: &BlockKey) -> Option<HostSlot> {
        self.index.get(key).copied()
    }

    /// Whether the block of this name is on its way back to the device.
    pub fn is_read(&self, key: &BlockKey) -> bool {
        let slot = self.find(key).map(|slot| self.slots[slot.0 as usize]);
        matches!(slot, Some(Slot::Kept { readers: 1.., .. }))
    }

    /// A slot to fill, and the name of the block that was given up for it: the one used longest ago, where none is free.
    pub fn take(&mut self) -> Option<(HostSlot, Option<BlockKey>)> {
        if let Some(slot) = self.free.pop() {
            self.slots[slot.0 as usize] = Slot::Filling;
            return Some((slot, None));
        }
        let (_, slot) = self.idle.pop_first()?;
        let Slot::Kept { key, .. } = self.slots[slot.0 as usize] else {
            unreachable!("an idle slot keeps a block")
        };
        self.index.remove(&key);
        self.slots[slot.0 as usize] = Slot::Filling;
        Some((slot, Some(key)))
    }

    /// The slot is filled, with the block of this name.
    pub fn keep(&mut self, slot: HostSlot, key: BlockKey) {
        assert_eq!(self.slots[slot.0 as usize], Slot::Filling, "only what was filled is kept");
        if self.index.contains_key(&key) {
            return self.give_up(slot);
        }
        self.index.insert(key, slot);
        self.rest(slot, key, 0);
    }

    /// What was to fill the slot is nothing.
    pub fn give_up(&mut self, slot: HostSlot) {
        assert_eq!(self.slots[slot.0 as usize], Slot::Filling, "only what is filled is given up");
        self.slots[slot.0 as usize] = Slot::Free;
        self.free.push(slot);
    }

    /// A copy from the slot begins: until it has ended the slot keeps what it has.
    pub fn read(&mut self, slot: HostSlot) {
        let Slot::Kept { readers, used, .. } = &mut self.slots[slot.0 as usize] else {
            panic!("only a slot that keeps a block is read")
        };
        if *readers == 0 {
            self.idle.remove(used);
        }
        *readers += 1;
    }

    /// A copy from the slot has ended.
    pub fn release(&mut self, slot: HostSlot) {
        match self.slots[slot.0 as usize] {
            Slot::Kept { key, readers: readers @ 1.., .. } => self.rest(slot, key, readers - 1),
            other => panic!("only a slot that is read is released, not {other:?}"),
        }
    }

    fn rest(&mut self, slot: HostSlot, key: BlockKey, readers: u32) {
        self.time += 1;
        self.slots[slot.0 as usize] = Slot::Kept { key, readers, used: self.time };
        if readers == 0 {
            self.idle.insert(self.time, slot);
        }
    }

    /// Whether a copy to or from any slot is under way.
    pub fn is_busy(&self) -> bool {
        self.free.len() + self.idle.len() < self.slots.len()
    }

    /// Every rule that must hold between two calls; the text names the first that does not.
    pub fn check(&self) -> Result<(), String> {
        for slot in &self.free {
            if self.slots[slot.0 as usize] != Slot::Free {
                return Err(format!("free slot {} is in use", slot.0));
            }
        }
        for (time, slot) in &self.idle {
            let kept = self.slots[slot.0 as usize];
            if !matches!(kept, Slot::Kept { readers: 0, used, .. } if used == *time) {
                return Err(format!("idle slot {} is {kept:?}", slot.0));
            }
        }
        let count = |wanted: fn(&Slot) -> bool| self.slots.iter().filter(|s| wanted(s)).count();
        let free = count(|slot| *slot == Slot::Free);
        let idle = count(|slot| matches!(slot, Slot::Kept { readers: 0, .. }));
        if (free, idle) != (self.free.len(), self.idle.len()) {
            return Err(format!("{free} slots are free and {idle} idle, others are listed"));
        }
        let named = |(at, slot): (usize, &Slot)| match slot {
            Slot::Kept { key, .. } => self.find(key) == Some(HostSlot(at as u32)),
            _ => true,
        };
        let kept = count(|slot| matches!(slot, Slot::Kept { .. }));
        match self.slots.iter().enumerate().all(named) && kept == self.index.len() {
            true => Ok(()),
            false => Err(format!("{kept} slots keep blocks, {} in the index", self.index.len())),
        }
    }
}

#[cfg(test)]
mod tests;
