//! Copies of KV blocks to and from the host, beside the steps: begun, asked after once a turn, never waited for.
//!
//! What goes out is what would be evicted next. What comes back is held for its sequence until it is there; then it is in the
//! prefix index, held by nobody, and the sequence begins with it as with any other hit.

use std::time::Duration;

use super::metrics::Metrics;
use crate::{
    backend::{StepError, StepRunner},
    batch::{Copied, CopyId, CopyWay, HostCopy},
    kv::{BlockKey, KvCache, SequenceKv},
    scheduler::{CacheCost, CopyCost, Rank, Restoration, RunnerQueue},
};

/// How long an engine that has nothing else to do waits before it asks after copies again.
pub(super) const COPY_POLL: Duration = Duration::from_micros(200);
/// Most blocks of one batch to the host.
const MOST_OUT: usize = 128;
/// Most batches to the host under way: one waits for a step, one is being copied.
const BATCHES_OUT: usize = 2;

/// The copies under way, and what copies have cost.
#[derive(Debug, Default)]
pub(super) struct Offload {
    cost: CopyCost,
    batches: Vec<Batch>,
    /// The runner is lost: nothing is copied any more.
    lost: bool,
}

#[derive(Debug)]
struct Batch {
    id: CopyId,
    copies: Vec<HostCopy>,
    /// For whom it comes back; `None`: it goes out.
    restored: Option<Restored>,
}

/// A sequence's beginning on its way back.
#[derive(Debug)]
struct Restored {
    rank: Rank,
    tokens: usize,
    /// All blocks of the beginning, those that were there as well.
    kv: SequenceKv,
    /// Their names.
    keys: Vec<BlockKey>,
}

impl Batch {
    fn way(&self) -> CopyWay {
        if self.restored.is_some() { CopyWay::In } else { CopyWay::Out }
    }
}

impl Offload {
    /// What cached tokens cost, where a row takes `per_row` seconds.
    pub(super) fn cost(&self, per_row: Option<f64>) -> CacheCost {
        CacheCost { per_byte: self.cost.per_byte(), per_row }
    }

    /// Copies are under way.
    pub(super) fn is_busy(&self) -> bool {
        !self.batches.is_empty()
    }

    /// The blocks that are held for copies.
    pub(super) fn holding(&self) -> impl Iterator<Item = &SequenceKv> {
        self.batches.iter().filter_map(|batch| batch.restored.as_ref()).map(|back| &back.kv)
    }

    /// Takes in which copies have been made.
    pub(super) fn take(
        &mut self,
        runner: &mut dyn StepRunner,
        kv: &mut KvCache,
        queue: &mut RunnerQueue,
        metrics: &Metrics,
    ) -> Result<(), StepError> {
        while self.is_busy() {
            let Some(Copied { id, time }) = runner.copied()? else { break };
            let place = self.batches.iter().position(|batch| batch.id == id);
            let Some(place) = place else {
                let text = format!("copies {} were made, and nobody asked for them", id.0);
                return Err(StepError::Invalid(text));
            };
            let batch = self.batches.remove(place);
            let (way, bytes) = (batch.way(), kv.copied_bytes(&batch.copies));
            self.cost.record(way, bytes, time);
            let blocks = batch.copies.len() as u64;
            match batch.restored {
                None => {
                    metrics.kv_blocks_out.add(blocks);
                    metrics.kv_bytes_out.add(bytes);
                    metrics.kv_blocks_void.add(kv.end_out(&batch.copies) as u64);
                }
                Some(back) => {
                    metrics.kv_blocks_in.add(blocks);
                    metrics.kv_bytes_in.add(bytes);
                    metrics.restored_tokens.add(back.tokens as u64);
                    kv.publish(&back.kv, &back.keys, 0);
                    kv.end_in(&batch.copies);
                    go_on(queue, back.rank);
                }
            }
        }
        Ok(())
    }

    /// Begins to bring blocks back. All that are there are held before any block is taken, which might evict one.
    pub(super) fn bring(
        &mut self,
        restorations: &[Restoration],
        runner: &mut dyn StepRunner,
        kv: &mut KvCache,
        queue: &RunnerQueue,
    ) -> Result<(), StepError> {
        let held: Vec<_> = restorations.iter().map(|one| kv.hold(&one.restore)).collect();
        for Restoration { rank, restore, gained } in restorations {
            let sequence = queue.iter().find(|sequence| sequence.rank == *rank);
            let sequence = sequence.expect("a plan restores waiting sequences");
            let mut copies = Vec::new();
            let kv = kv.restore(restore, &mut copies);
            let keys = sequence.chain.keys()[..restore.blocks].to_vec();
            let restored = Some(Restored { rank: *rank, tokens: *gained, kv, keys });
            // Whatever becomes of the call, the blocks are accounted for.
            self.batches.push(Batch { id: CopyId(0), copies, restored });
            let batch = self.batches.last_mut().expect("it was just pushed");
            batch.id = runner.copy(CopyWay::In, &batch.copies)?;
        }
        drop(held);
        Ok(())
    }

    /// Begins to copy out what is soon to be evicted, if enough is not under way already.
    pub(super) fn save(
        &mut self,
        runner: &mut dyn StepRunner,
        kv: &mut KvCache,
    ) -> Result<(), StepError> {
        let out = self.batches.iter().filter(|batch| batch.restored.is_none()).count();
        if self.lost || out >= BATCHES_OUT {
            return Ok(());
        }
        let mut copies = Vec::new();
        kv.begin_out(MOST_OUT, &mut copies);
        if copies.is_empty() {
            return Ok(());
        }
        self.batches.push(Batch { id: CopyId(0), copies, restored: None });
        let batch = self.batches.last_mut().expect("it was just pushed");
        batch.id = runner.copy(CopyWay::Out, &batch.copies)?;
        Ok(())
    }

    /// The runner is lost, and with it what it copied.
    pub(super) fn give_up(&mut self, kv: &mut KvCache, queue: &mut RunnerQueue) {
        self.lost = true;
        for batch in self.batches.drain(..) {
            match batch.restored {
                None => kv.cancel_out(&batch.copies),
                Some(back) => {
                    kv.end_in(&batch.copies);
                    go_on(queue, back.rank);
                }
            }
        }
    }
}

/// The sequence waits no longer; one that has ended meanwhile did not wait for it.
fn go_on(queue: &mut RunnerQueue, rank: Rank) {
    if let Some(sequence) = queue.get_mut(rank) {
        sequence.restoring = None;
    }
}
