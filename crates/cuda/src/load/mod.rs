//! A checkpoint's way to the device: what the plan laid out is read, copied and put in its place.
//!
//! Several threads read pieces of the files straight into pinned buffers; each has a stream that copies one buffer to the
//! arena while the other is read into. Queries, keys and values are fused by where they are put, gate and up by copies with
//! a pitch; what is not bf16 in the file waits on the device for a kernel. Made-up weights are made in their places. Norms
//! and biases are widened by the host.

mod device;
mod pieces;
mod reader;
mod vectors;

use std::{path::PathBuf, sync::Arc, thread};

use foundation::DType;
use models::{
    contract::DecoderExecutionContract,
    weights::{TensorOrigin, TensorStorage, WeightBinding},
};
use runtime::{backend::LoadError, progress::ProgressEvent};

use self::{
    device::{BUFFERS, Destination, DeviceSink},
    pieces::Piece,
    reader::WeightFiles,
};
use crate::{
    driver::{DriverError, Gpu, Stream},
    layout::{ArenaLayout, Element, Target},
    ops::{
        convert::Convert,
        placed::{Placement, Plan},
        synthesize::{self, Synthesize},
    },
    weights::DeviceWeights,
};

/// More threads than this have nothing to gain: the link to the device is nearly full, and their buffers want pinning.
const MOST_THREADS: usize = 8;
/// Least and most bytes of a buffer. All of them together are pinned, which takes time: a small checkpoint has small ones.
const BUFFER_BYTES: (u64, u64) = (1 << 20, 8 << 20);

/// Loads every weight of `contract` from `files` into a new arena.
///
/// `threads` is how many may read at once; `None`: as many as the machine runs. `progress` is told of bytes as they lie in
/// the files, and returns `false` to cancel.
///
/// # Errors
/// What cannot be read, with its file and tensor; what the driver refuses; [`LoadError::Cancelled`]. The arena and every
/// buffer are given back.
pub fn load(
    gpu: &Arc<Gpu>,
    contract: &DecoderExecutionContract,
    layout: &ArenaLayout,
    files: &[PathBuf],
    threads: Option<usize>,
    progress: &mut dyn FnMut(ProgressEvent) -> bool,
) -> Result<DeviceWeights, LoadError> {
    let ring = Ring::of(contract.weight_bytes().0, threads.unwrap_or_else(default_threads));
    load_through(ring, gpu, contract, layout, files, progress)
}

/// Threads that read, and the bytes of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ring {
    threads: usize,
    bytes: usize,
}

impl Ring {
    /// For a checkpoint of `total` bytes: each buffer is used often, and all together are pinned in little time.
    fn of(total: u64, threads: usize) -> Ring {
        let (least, most) = BUFFER_BYTES;
        let bytes = (total / 512).next_multiple_of(least).clamp(least, most) as usize;
        Ring { threads: threads.clamp(1, MOST_THREADS), bytes }
    }
}

fn load_through(
    ring: Ring,
    gpu: &Arc<Gpu>,
    contract: &DecoderExecutionContract,
    layout: &ArenaLayout,
    files: &[PathBuf],
    progress: &mut dyn FnMut(ProgressEvent) -> bool,
) -> Result<DeviceWeights, LoadError> {
    let mut progress = Tally { contract, done: 0, total: contract.weight_bytes().0, progress };
    progress.tell("device memory")?;
    let files = WeightFiles::open(files.iter().map(PathBuf::as_path))?;
    let mut arena = gpu.alloc::<u8>(usize::try_from(layout.bytes).unwrap_or(usize::MAX))?;
    let stream = Stream::new(gpu)?;
    let bytes = vectors::vectors(contract, layout, &files)?;
    let range = layout.vectors.start as usize..layout.vectors.end as usize;
    stream.upload(&bytes, arena.view_mut().slice(range))?;
    progress.vectors(layout)?;
    make_up(&stream, contract, layout, arena.address(), &mut progress)?;
    read(ring, gpu, contract, layout, &files, arena.address(), &mut progress)?;
    let parts = layout.parts.clone().moved(arena.address());
    Ok(DeviceWeights { arena, parts })
}

/// Reads the matrices that lie in files.
fn read(
    ring: Ring,
    gpu: &Arc<Gpu>,
    contract: &DecoderExecutionContract,
    layout: &ArenaLayout,
    files: &WeightFiles,
    arena: u64,
    progress: &mut Tally<'_>,
) -> Result<(), LoadError> {
    let pieces = pieces::cut(contract, layout, ring.bytes)?;
    let Some(most) = pieces.iter().map(|piece| piece.bytes).max() else { return Ok(()) };
    let convert =
        match pieces.iter().all(|piece| dtype(&contract.bindings[piece.weight]) == DType::BF16) {
            true => None,
            false => Some(Convert::load(gpu)?),
        };
    let to = Destination { gpu, arena, layout, contract, most, convert: convert.as_ref() };
    let threads = ring.threads;
    tracing::debug!(threads, buffers = BUFFERS, bytes = most, pieces = pieces.len(), "reading");
    let name = |piece: &Piece| tensor(&contract.bindings[piece.weight]);
    let open = || Ok(DeviceSink::open(to)?);
    let mut report = |piece: &Piece| progress.add(piece.weight, piece.bytes as u64).is_ok();
    reader::read(files, &pieces, threads, &name, &open, &mut report)
}

/// Makes the matrices that lie in no file.
#[allow(unsafe_code)]
fn make_up(
    stream: &Stream,
    contract: &DecoderExecutionContract,
    layout: &ArenaLayout,
    arena: u64,
    progress: &mut Tally<'_>,
) -> Result<(), LoadError> {
    let mut kernels = None;
    for (weight, (binding, target)) in contract.bindings.iter().zip(&layout.targets).enumerate() {
        let TensorStorage::Dense { dtype, origin } = &binding.storage;
        let (Element::Bf16, TensorOrigin::Synthetic { seed, std, mean }) = (target.element, origin)
        else {
            continue;
        };
        let kernels = match &mut kernels {
            Some(kernels) => kernels,
            none => none.insert(Synthesize::load(stream.gpu())?),
        };
        let to = arena + target.offset;
        let args =
            synthesize::Args { seed: *seed, first: 0, std: *std, mean: *mean, dtype: *dtype, to };
        // SAFETY: the layout gives the weight places of its own in the arena, which is freed only behind the launches.
        unsafe { kernels.launch(stream, &placed(target)?, args)? };
        progress.add(weight, binding.stored_bytes().0)?;
    }
    Ok(stream.synchronize()?)
}

fn placed(target: &Target) -> Result<Plan, DriverError> {
    let placement = Placement { elements: target.elements, run: target.run, pitch: target.pitch };
    Plan::new(&placement).map_err(|error| DriverError::Invalid(error.to_string()))
}

fn dtype(binding: &WeightBinding) -> DType {
    let TensorStorage::Dense { dtype, .. } = &binding.storage;
    *dtype
}

/// The tensor that a weight is read from, for people.
fn tensor(binding: &WeightBinding) -> String {
    let TensorStorage::Dense { origin, .. } = &binding.storage;
    match origin {
        TensorOrigin::File(region) => region.tensor.clone(),
        TensorOrigin::Synthetic { .. } => format!("{:?}", binding.role),
    }
}

fn default_threads() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Counts bytes and tells of them.
struct Tally<'a> {
    contract: &'a DecoderExecutionContract,
    done: u64,
    total: u64,
    progress: &'a mut dyn FnMut(ProgressEvent) -> bool,
}

impl Tally<'_> {
    /// `bytes` of a weight are in their place, or soon will be.
    fn add(&mut self, weight: usize, bytes: u64) -> Result<(), LoadError> {
        self.done += bytes;
        self.tell(self.contract.bindings[weight].role.part())
    }

    /// All vectors are in their places.
    fn vectors(&mut self, layout: &ArenaLayout) -> Result<(), LoadError> {
        let bindings = self.contract.bindings.iter().zip(&layout.targets);
        let vectors = bindings.filter(|(_, target)| target.element != Element::Bf16);
        self.done += vectors.map(|(binding, _)| binding.stored_bytes().0).sum::<u64>();
        self.tell("norms and biases")
    }

    fn tell(&mut self, detail: impl Into<String>) -> Result<(), LoadError> {
        match (self.progress)(ProgressEvent::load_weights(self.done, self.total, detail)) {
            true => Ok(()),
            false => Err(LoadError::Cancelled),
        }
    }
}

#[cfg(test)]
mod tests;
