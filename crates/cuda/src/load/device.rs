//! The device's side of reading: a small ring of pinned buffers a thread, copies that run while the next read does.

use std::sync::Arc;

use foundation::DType;
use models::{contract::DecoderExecutionContract, weights::TensorStorage};
use runtime::backend::LoadError;

use super::{pieces::Piece, reader::Sink};
use crate::{
    driver::{Buffer, DriverError, Event, Gpu, Pinned, Rows, Stream},
    layout::{ArenaLayout, Target},
    ops::{
        convert::{self, Convert},
        placed::{Placement, Plan},
    },
};

/// Buffers of one thread: one is read into while the other is copied from.
pub const BUFFERS: usize = 2;

/// The arena that sinks write to, from several threads at once: every piece has places of its own in it.
#[derive(Clone, Copy, Debug)]
pub struct Destination<'a> {
    /// The device.
    pub gpu: &'a Arc<Gpu>,
    /// Address of the arena, which has `layout.bytes` bytes and outlives all sinks.
    pub arena: u64,
    /// Where everything goes.
    pub layout: &'a ArenaLayout,
    /// What is loaded.
    pub contract: &'a DecoderExecutionContract,
    /// Bytes of the longest piece.
    pub most: usize,
    /// For elements that are not bf16 in the file; `None`: all are.
    pub convert: Option<&'a Convert>,
}

/// One thread's way to the device.
#[derive(Debug)]
pub struct DeviceSink<'a> {
    to: Destination<'a>,
    stream: Stream,
    slots: Vec<Slot>,
    current: usize,
}

/// A buffer, and whether a copy from it may still run.
#[derive(Debug)]
struct Slot {
    pinned: Pinned,
    /// Where elements wait for their conversion.
    staging: Option<Buffer<u8>>,
    copied: Event,
    is_busy: bool,
}

impl<'a> DeviceSink<'a> {
    /// A stream and its buffers, for the thread that calls.
    pub fn open(to: Destination<'a>) -> Result<Self, DriverError> {
        let stream = Stream::new(to.gpu)?;
        let slot = || {
            Ok(Slot {
                pinned: Pinned::new(to.gpu, to.most)?,
                staging: to.convert.is_some().then(|| to.gpu.alloc(to.most)).transpose()?,
                copied: Event::untimed(to.gpu)?,
                is_busy: false,
            })
        };
        let slots = (0..BUFFERS).map(|_| slot()).collect::<Result<_, DriverError>>()?;
        Ok(DeviceSink { to, stream, slots, current: 0 })
    }

    fn send(&self, piece: &Piece) -> Result<(), DriverError> {
        let slot = &self.slots[self.current];
        let TensorStorage::Dense { dtype, .. } = &self.to.contract.bindings[piece.weight].storage;
        let target = &self.to.layout.targets[piece.weight];
        match (dtype, self.to.convert) {
            (DType::BF16, _) => self.copy(slot, piece, target),
            (_, Some(convert)) => self.convert(convert, slot, piece, *dtype, target),
            (_, None) => Err(DriverError::Invalid(format!("nothing converts {dtype}"))),
        }?;
        slot.copied.record(&self.stream)
    }

    /// bf16 goes straight to its place.
    #[allow(unsafe_code)]
    fn copy(&self, slot: &Slot, piece: &Piece, target: &Target) -> Result<(), DriverError> {
        let to = self.to.arena + target.place(piece.first);
        if target.run == target.elements {
            // SAFETY: the layout gives the piece places of its own in the arena, which outlives the sink; the buffer is
            // marked busy until the copy has run, and `drop` waits for it.
            return unsafe { self.stream.upload_async(&slot.pinned, 0, piece.bytes, to) };
        }
        let size = target.element.size();
        let rows = Rows {
            count: (piece.elements / target.run) as usize,
            bytes: (target.run * size) as usize,
            pitch: (target.pitch * size) as usize,
        };
        // SAFETY: as above; pieces of such weights are whole runs.
        unsafe { self.stream.upload_rows_async(&slot.pinned, rows, to) }
    }

    /// Anything else waits on the device for a kernel to round and place it.
    #[allow(unsafe_code)]
    fn convert(
        &self,
        convert: &Convert,
        slot: &Slot,
        piece: &Piece,
        dtype: DType,
        target: &Target,
    ) -> Result<(), DriverError> {
        let staging = slot.staging.as_ref().ok_or_else(|| {
            DriverError::Invalid("there is no memory to convert elements in".to_owned())
        })?;
        let placement =
            Placement { elements: piece.elements, run: target.run, pitch: target.pitch };
        let plan =
            Plan::new(&placement).map_err(|error| DriverError::Invalid(error.to_string()))?;
        let args = convert::Args {
            dtype,
            from: staging.view().slice(0..piece.bytes),
            to: self.to.arena + target.place(piece.first),
        };
        // SAFETY: places as in `copy`; the staging memory belongs to the slot, whose earlier conversion ran on this stream
        // before, and is freed only after `drop` has waited.
        unsafe {
            self.stream.upload_async(&slot.pinned, 0, piece.bytes, staging.address())?;
            convert.launch(&self.stream, &plan, args)
        }
    }
}

impl Sink for DeviceSink<'_> {
    fn buffer(&mut self, bytes: usize) -> Result<&mut [u8], LoadError> {
        let slot = &mut self.slots[self.current];
        if slot.is_busy {
            slot.copied.synchronize()?;
            slot.is_busy = false;
        }
        let buffer = slot.pinned.bytes_mut();
        let length = buffer.len();
        buffer.get_mut(..bytes).ok_or_else(|| {
            DriverError::Invalid(format!("a piece of {bytes} bytes for a buffer of {length}"))
                .into()
        })
    }

    fn put(&mut self, piece: &Piece) -> Result<(), LoadError> {
        // Busy from the first call on, even where a later one fails.
        self.slots[self.current].is_busy = true;
        self.send(piece)?;
        self.current = (self.current + 1) % self.slots.len();
        Ok(())
    }

    fn finish(&mut self) -> Result<(), LoadError> {
        Ok(self.stream.synchronize()?)
    }
}

impl Drop for DeviceSink<'_> {
    fn drop(&mut self) {
        // Buffers go next: nothing may read them any more.
        if let Err(error) = self.stream.synchronize() {
            tracing::warn!(%error, "copies to the device did not end well");
        }
    }
}
