//! The host tier of the KV cache: pinned memory for blocks, and the copies there and back, each way on a stream of its own.
//!
//! What orders them:
//! - A copy begins when every step queued before it has ended: its stream waits for an event behind them. So what goes out has been
//!   written, and what is written by a copy in is read by no step any more that had the block before.
//! - A step that reads what came back is queued after the host has seen that the copy has ended.
//! - A slot is filled or read again after the host has seen that the copy which used it has ended: so the two streams need not
//!   know one another.
//! - A block that goes out may be overwritten meanwhile. What its slot holds then is never looked at: the runtime sees to it.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use foundation::Bytes;
use runtime::batch::{Copied, CopyId, CopyWay, HostCopy};

use crate::{
    driver::{DriverError, Event, Gpu, PinnedRoom, Stream},
    model::kv::{KvArena, Stretch},
};

/// Most bytes that are asked of the system at once.
const PIECE_BYTES: usize = 1 << 30;

/// Copies of blocks to and from the host.
#[derive(Debug)]
pub struct HostCopies {
    groups: Vec<GroupSlots>,
    out: Lane,
    back: Lane,
    /// Behind the steps queued so far.
    stepped: Event,
    last: CopyId,
}

/// The slots of one KV group.
#[derive(Debug)]
struct GroupSlots {
    /// Where its layers lie on the device.
    stretches: Vec<Stretch>,
    slot_bytes: usize,
    slots: usize,
    /// Slots of a piece; the last piece may have fewer.
    per_piece: usize,
    pieces: Vec<PinnedRoom>,
}

/// One way.
#[derive(Debug)]
struct Lane {
    stream: Stream,
    /// Batches under way, in order.
    pending: VecDeque<(CopyId, Span)>,
    /// Events of batches that have ended.
    spare: Vec<Span>,
}

/// The beginning and the end of a batch.
#[derive(Debug)]
struct Span {
    begin: Event,
    end: Event,
}

/// Why there is no host memory for blocks.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{wanted} of page-locked host memory wanted, {given} given: {source}")]
pub struct NoHostMemory {
    /// For all slots.
    pub wanted: Bytes,
    /// Before the system gave no more.
    pub given: Bytes,
    /// What the driver said.
    pub source: DriverError,
}

impl HostCopies {
    /// Room for `slots[g]` blocks of group `g` of `arena`.
    pub fn new(
        gpu: &Arc<Gpu>,
        arena: &KvArena,
        slots: &[usize],
    ) -> Result<HostCopies, NoHostMemory> {
        let empty =
            |(group, slots): (usize, &usize)| GroupSlots::new(arena.stretches(group), *slots);
        let mut groups: Vec<GroupSlots> = slots.iter().enumerate().map(empty).collect();
        let wanted =
            Bytes(groups.iter().map(|group| (group.slots * group.slot_bytes) as u64).sum());
        let mut given = Bytes(0);
        let refused = |given, source| NoHostMemory { wanted, given, source };
        for group in &mut groups {
            for bytes in group.piece_bytes() {
                let piece = PinnedRoom::new(gpu, bytes).map_err(|error| refused(given, error))?;
                given.0 += bytes as u64;
                group.pieces.push(piece);
            }
        }
        let lanes = || Ok((Lane::new(gpu)?, Lane::new(gpu)?, Event::untimed(gpu)?));
        let (out, back, stepped) = lanes().map_err(|error| refused(given, error))?;
        Ok(HostCopies { groups, out, back, stepped, last: CopyId(0) })
    }

    /// Queues a batch behind the steps on `steps`.
    pub fn queue(
        &mut self,
        way: CopyWay,
        copies: &[HostCopy],
        steps: &Stream,
        arena: &KvArena,
    ) -> Result<CopyId, DriverError> {
        let Self { groups, out, back, stepped, .. } = self;
        for copy in copies {
            check(groups, copy)?;
        }
        let lane = match way {
            CopyWay::Out => out,
            CopyWay::In => back,
        };
        let span = lane.span()?;
        stepped.record(steps)?;
        lane.stream.wait(stepped)?;
        span.begin.record(&lane.stream)?;
        for copy in copies {
            groups[copy.group as usize].copy(way, copy, &lane.stream, arena)?;
        }
        span.end.record(&lane.stream)?;
        self.last.0 += 1;
        lane.pending.push_back((self.last, span));
        Ok(self.last)
    }

    /// A batch that has ended, if one has.
    pub fn ended(&mut self) -> Result<Option<Copied>, DriverError> {
        match self.out.ended()? {
            Some(copied) => Ok(Some(copied)),
            None => self.back.ended(),
        }
    }
}

impl Drop for HostCopies {
    /// The memory on both sides goes after this.
    fn drop(&mut self) {
        for lane in [&self.out, &self.back] {
            if let Err(error) = lane.stream.synchronize() {
                tracing::debug!(%error, "copies to or from the host did not end");
            }
        }
    }
}

fn check(groups: &[GroupSlots], copy: &HostCopy) -> Result<(), DriverError> {
    let group = groups.get(copy.group as usize);
    match group.is_some_and(|group| (copy.slot.0 as usize) < group.slots) {
        true => Ok(()),
        false => Err(DriverError::Invalid(format!("{copy:?}: there is no such slot"))),
    }
}

impl GroupSlots {
    fn new(stretches: Vec<Stretch>, slots: usize) -> GroupSlots {
        let slot_bytes: usize = stretches.iter().map(|stretch| stretch.planes.bytes()).sum();
        let per_piece = (PIECE_BYTES / slot_bytes.max(1)).max(1);
        GroupSlots { stretches, slot_bytes, slots, per_piece, pieces: Vec::new() }
    }

    /// How large each piece is: whole slots.
    fn piece_bytes(&self) -> Vec<usize> {
        let firsts = (0..self.slots).step_by(self.per_piece);
        firsts.map(|first| self.per_piece.min(self.slots - first) * self.slot_bytes).collect()
    }

    /// The piece in which a slot lies, and where in it.
    fn place(&self, slot: usize) -> (usize, usize) {
        (slot / self.per_piece, slot % self.per_piece * self.slot_bytes)
    }

    #[allow(unsafe_code)]
    fn copy(
        &self,
        way: CopyWay,
        copy: &HostCopy,
        stream: &Stream,
        arena: &KvArena,
    ) -> Result<(), DriverError> {
        let (piece, mut offset) = self.place(copy.slot.0 as usize);
        let (piece, block) = (&self.pieces[piece], copy.block.0 as usize);
        for Stretch { offset: start, planes } in &self.stretches {
            let device = arena.address() + *start as u64;
            // SAFETY: the stretch lies in the arena, which outlives the copies (`drop` waits for them), and the slot in its piece.
            // Nothing else touches the slot until the host has seen the end of the copy, nor the block of a copy in: the engine
            // holds both (module's text).
            unsafe {
                match way {
                    CopyWay::Out => {
                        stream.download_planes_async(device, *planes, block, piece, offset)?;
                    }
                    CopyWay::In => {
                        stream.upload_planes_async(piece, offset, device, *planes, block)?;
                    }
                }
            }
            offset += planes.bytes();
        }
        Ok(())
    }
}

impl Lane {
    fn new(gpu: &Arc<Gpu>) -> Result<Lane, DriverError> {
        Ok(Lane { stream: Stream::new(gpu)?, pending: VecDeque::new(), spare: Vec::new() })
    }

    fn span(&mut self) -> Result<Span, DriverError> {
        match self.spare.pop() {
            Some(span) => Ok(span),
            None => {
                let gpu = self.stream.gpu();
                Ok(Span { begin: Event::new(gpu)?, end: Event::new(gpu)? })
            }
        }
    }

    fn ended(&mut self) -> Result<Option<Copied>, DriverError> {
        match self.pending.front() {
            Some((_, span)) if span.end.is_done()? => {}
            _ => return Ok(None),
        }
        let (id, span) = self.pending.pop_front().expect("it was there");
        let ms = span.end.elapsed_ms(&span.begin)?;
        self.spare.push(span);
        Ok(Some(Copied { id, time: Duration::from_secs_f32(ms.max(0.0) / 1000.0) }))
    }
}

#[cfg(test)]
mod tests;
