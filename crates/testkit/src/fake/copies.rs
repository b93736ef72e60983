//! The fake host tier. Blocks really move, at the last moment: what has changed meanwhile goes along, and what was asked for too
//! early is not there.

use std::{collections::VecDeque, time::Duration};

use runtime::{
    backend::RunnerSpec,
    batch::{Copied, CopyId, CopyWay, HostCopy},
};

use super::model::Cell;
use crate::rng::Rng;

/// How long copies take, of each block one of these, by chance.
#[derive(Clone, Debug)]
pub struct CopyTimes {
    /// The shortest.
    pub least: Duration,
    /// The longest.
    pub most: Duration,
    /// Where chance comes from.
    pub rng: Rng,
}

/// What lies on the host, and what is on its way.
#[derive(Debug)]
pub(super) struct Copies {
    /// One arena a group: `slots * block_size` cells.
    slots: Vec<Vec<Option<Cell>>>,
    /// For each way, the batches under way; they are made one after the other.
    under_way: [VecDeque<Batch>; 2],
    /// Made, and not told of yet.
    pub(super) made: VecDeque<Copied>,
    pub(super) times: Option<CopyTimes>,
    last: CopyId,
    block_size: usize,
}

#[derive(Debug)]
struct Batch {
    id: CopyId,
    way: CopyWay,
    copies: Vec<HostCopy>,
    takes: Duration,
    /// When it is made.
    due: Duration,
}

impl Copies {
    pub(super) fn new(spec: &RunnerSpec) -> Self {
        let slots = spec.host.iter().flat_map(|tier| &tier.slots);
        Copies {
            slots: slots.map(|count| vec![None; count * spec.block_size]).collect(),
            under_way: [VecDeque::new(), VecDeque::new()],
            made: VecDeque::new(),
            times: None,
            last: CopyId(0),
            block_size: spec.block_size,
        }
    }

    /// Queues a batch. What is to be written is nothing from now on.
    pub(super) fn queue(
        &mut self,
        spec: &RunnerSpec,
        way: CopyWay,
        copies: &[HostCopy],
        now: Duration,
        arenas: &mut [Vec<Option<Cell>>],
    ) -> Result<CopyId, String> {
        self.check(spec, way, copies)?;
        let size = self.block_size;
        for copy in copies {
            let (arenas, at) = match way {
                CopyWay::Out => (&mut self.slots[..], copy.slot.0 as usize),
                CopyWay::In => (&mut *arenas, copy.block.0 as usize),
            };
            arenas[copy.group as usize][at * size..(at + 1) * size].fill(None);
        }
        self.last.0 += 1;
        let takes = self.times.as_mut().map_or(Duration::ZERO, |times| times.draw(copies.len()));
        let line = &mut self.under_way[way as usize];
        let begins = line.back().map_or(now, |batch| batch.due.max(now));
        let (id, copies) = (self.last, copies.to_vec());
        line.push_back(Batch { id, way, copies, takes, due: begins + takes });
        Ok(id)
    }

    fn check(&self, spec: &RunnerSpec, way: CopyWay, copies: &[HostCopy]) -> Result<(), String> {
        if copies.is_empty() {
            return Err("a batch of no copies".into());
        }
        let mut slots = std::collections::HashMap::new();
        for batch in self.under_way.iter().flatten() {
            slots.extend(batch.copies.iter().map(|copy| ((copy.group, copy.slot), batch.way)));
        }
        for copy in copies {
            let HostCopy { group, block, slot } = *copy;
            let (group_at, block_at) = (group as usize, block.0 as usize);
            let blocks = spec.kv_groups.get(group_at).map_or(0, |group| group.blocks);
            let room = self.slots.get(group_at).map_or(0, |cells| cells.len() / self.block_size);
            if block_at >= blocks || slot.0 as usize >= room {
                return Err(format!("{copy:?}: {blocks} blocks, {room} slots"));
            }
            let other = slots.insert((group, slot), way);
            if other.is_some_and(|other| (way, other) != (CopyWay::In, CopyWay::In)) {
                return Err(format!("{copy:?}: its slot is in use by another copy"));
            }
        }
        Ok(())
    }

    /// Makes every copy that is due.
    pub(super) fn settle(&mut self, now: Duration, arenas: &mut [Vec<Option<Cell>>]) {
        for line in 0..self.under_way.len() {
            while self.under_way[line].front().is_some_and(|batch| batch.due <= now) {
                let batch = self.under_way[line].pop_front().expect("it was there");
                batch.copies.iter().for_each(|copy| self.make(batch.way, *copy, arenas));
                self.made.push_back(Copied { id: batch.id, time: batch.takes });
            }
        }
    }

    fn make(&mut self, way: CopyWay, copy: HostCopy, arenas: &mut [Vec<Option<Cell>>]) {
        let (size, group) = (self.block_size, copy.group as usize);
        let cells = |at: u32| at as usize * size..(at as usize + 1) * size;
        let on_device = &mut arenas[group][cells(copy.block.0)];
        let on_host = &mut self.slots[group][cells(copy.slot.0)];
        match way {
            CopyWay::Out => on_host.copy_from_slice(on_device),
            CopyWay::In => on_device.copy_from_slice(on_host),
        }
    }
}

impl CopyTimes {
    fn draw(&mut self, blocks: usize) -> Duration {
        let range = self.least.as_micros() as usize..self.most.as_micros() as usize + 1;
        (0..blocks).map(|_| Duration::from_micros(self.rng.within(range.clone()) as u64)).sum()
    }
}
