//! Prefill attention: causal softmax attention of runs of several query tokens over the paged cache.
//!
//! A [`Plan`] cuts the runs into [`Tile`]s on the host, the heaviest first, and its tiles travel to the device with the step's
//! other inputs. Two kernels take them: `attention_prefill.cu` runs on every GPU, `attention_prefill_sm90.cu` on Hopper for the
//! usual head widths. Which one depends on the model and the device alone, and in both a row's bits depend on its own tokens
//! alone, unless the plan splits tiles along the keys: neither the rest of the batch nor the way in which a prompt was cut into
//! chunks changes them.

mod plan;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use bytemuck::{Pod, Zeroable};
use half::bf16;

pub use plan::{Algorithm, Attention, CacheFormat, Plan, Run, Tile, Variant};

use super::Traffic;
use crate::driver::{
    Buffer, DriverError, Gpu, Image, Kernel, Shape, Stream, Swizzle, TensorMap, View, ViewMut,
    image,
};

static PORTABLE: Image = image!("attention_prefill");
static HOPPER: Image = image!("attention_prefill_sm90");

/// Tokens of a cache block.
pub const BLOCK_SIZE: usize = 16;

/// The kernels, resolved once.
#[derive(Debug)]
pub struct AttentionPrefill {
    kernels: Vec<(Variant, Kernel)>,
}

/// One layer's cache, `[block][K, V][kv_head][16][head_dim]`, as the kernels address it. Made once, when the arena is.
#[derive(Clone, Copy, Debug)]
pub struct CacheLayer {
    address: u64,
    block_bytes: usize,
    map: TensorMap,
}

/// Memory for the results of parts of split tiles. Launches in one stream may share one.
#[derive(Debug)]
pub struct Scratch {
    partials: Buffer<[f32; 4]>,
    arrivals: Buffer<u32>,
}

/// What a launch reads and writes. Rows are those of the step: a tile's `row` counts from the views' first element.
#[derive(Debug)]
pub struct Args<'a> {
    /// Queries, row `i` at `i * query_stride`: `[heads][head_dim]`.
    pub queries: View<'a, bf16>,
    /// Elements from row to row, a multiple of 8: at least `heads * head_dim`, more where queries lie in a fused row.
    pub query_stride: usize,
    /// The layer's cache, this step's keys and values included.
    pub cache: &'a CacheLayer,
    /// Physical blocks, one sequence's table after the other.
    pub tables: View<'a, i32>,
    /// By sequence: where its table begins in `tables`.
    pub table_starts: View<'a, i32>,
    /// By sequence: logical index of its table's first block.
    pub table_firsts: View<'a, i32>,
    /// [`Plan::tiles`], on the device.
    pub tiles: View<'a, Tile>,
    /// [`Plan::shares`], on the device.
    pub shares: View<'a, i32>,
    /// The result, row `i` at `i * out_stride`: `[heads][head_dim]`.
    pub out: ViewMut<'a, bf16>,
    /// Elements from row to row, a multiple of 8.
    pub out_stride: usize,
}

/// `Params` of attention_prefill.cuh.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
struct Params {
    queries: u64,
    cache: u64,
    tables: u64,
    starts: u64,
    firsts: u64,
    tiles: u64,
    shares: u64,
    out: u64,
    partials: u64,
    arrivals: u64,
    query_stride: i64,
    out_stride: i64,
    block_stride: i64,
    heads_per_group: i32,
    kv_heads: i32,
    head_dim: i32,
    window: i32,
    scale: f32,
    softcap: f32,
    out_scale: f32,
    unused: u32,
}

/// `HopperParams` of attention_prefill_sm90.cu.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
struct HopperParams {
    cache: TensorMap,
    params: Params,
    padding: [u64; 7],
}

const _: () = assert!(size_of::<Params>() == 136 && size_of::<HopperParams>() == 320);
const _: () = assert!(size_of::<Tile>() == 32);

/// Warps of a block that have rows.
const WARPS: usize = 8;

/// Vectors of four that a part of a tile of this head width leaves.
fn part_vectors(width: usize) -> usize {
    WARPS * 32 * (width / 8 + 1)
}

/// Bytes of a [`Scratch`] at the most, for heads of this width.
pub fn scratch_bytes(head_dim: usize) -> usize {
    /// As many as any GPU with wgmma has.
    const MOST_SMS: usize = 144;
    2 * MOST_SMS * (16 * part_vectors(head_dim) + 4 * WARPS)
}

impl Scratch {
    /// Enough for every plan for heads of at most this width that splits tiles, or for none on a device whose kernel does not.
    pub fn new(stream: &Stream, head_dim: usize) -> Result<Scratch, DriverError> {
        let gpu = stream.gpu();
        let slots = match gpu.limits().has_wgmma() {
            true => Plan::most_slots(gpu.limits()),
            false => 0,
        };
        let mut scratch = Scratch {
            partials: gpu.alloc(slots * part_vectors(head_dim))?,
            arrivals: gpu.alloc(slots * WARPS)?,
        };
        stream.zero(scratch.arrivals.view_mut())?;
        Ok(scratch)
    }
}

impl CacheLayer {
    /// `blocks` blocks from `address` on, `block_bytes` from one to the next.
    pub fn new(
        attention: &Attention,
        address: u64,
        block_bytes: usize,
        blocks: usize,
    ) -> Result<CacheLayer, DriverError> {
        let rows = 2 * attention.kv_heads * BLOCK_SIZE;
        let needed = rows * attention.head_dim * attention.cache.element_bytes();
        if block_bytes < needed || !block_bytes.is_multiple_of(16) || !address.is_multiple_of(16) {
            return Err(DriverError::Invalid(format!(
                "attention_prefill: cache blocks of {block_bytes} bytes at {address:#x}, wanted at least {needed}, \
                 both multiples of 16"
            )));
        }
        // Only the Hopper kernel reads the map; it widens fp8 without one.
        let map = match attention.cache {
            CacheFormat::Bf16 if attention.head_dim >= 64 => cache_map(
                address,
                attention.head_dim as u64,
                rows as u64,
                block_bytes as u64,
                blocks,
            )?,
            _ => TensorMap::zeroed(),
        };
        Ok(CacheLayer { address, block_bytes, map })
    }
}

/// Boxes of one head's keys or values of one block, in columns of 64: one box for all columns where these are whole, with eight
/// rows of each 64 columns after one another.
fn cache_map(
    address: u64,
    dim: u64,
    rows: u64,
    block: u64,
    blocks: usize,
) -> Result<TensorMap, DriverError> {
    let (row, blocks, slots) = (2 * dim, blocks as u64, BLOCK_SIZE as u32);
    let map = |dims: &[u64], strides: &[u64], tile: &[u32]| {
        TensorMap::bf16(address, dims, strides, tile, Swizzle::Bytes128)
    };
    match dim.is_multiple_of(64) {
        true => map(
            &[64, 8, dim / 64, rows / 8, blocks],
            &[row, 128, 8 * row, block],
            &[64, 8, (dim / 64) as u32, slots / 8, 1],
        ),
        false => map(&[dim, rows, blocks], &[row, block], &[64, slots, 1]),
    }
}

impl AttentionPrefill {
    /// Resolves the kernels that `gpu` can run.
    pub fn load(gpu: &Arc<Gpu>) -> Result<AttentionPrefill, DriverError> {
        let kernels = Variant::all(gpu.limits()).map(|variant| {
            let image = match variant.algorithm {
                Algorithm::Portable => &PORTABLE,
                Algorithm::Hopper | Algorithm::HopperSplit => &HOPPER,
            };
            Ok((variant, gpu.kernel(image, variant.entry())?))
        });
        Ok(AttentionPrefill { kernels: kernels.collect::<Result<_, DriverError>>()? })
    }

    /// Queues the plan's tiles; `attention` is what the plan was made for. Rows without a tile are left alone.
    #[allow(unsafe_code)]
    pub fn launch(
        &self,
        stream: &Stream,
        attention: &Attention,
        plan: &Plan,
        scratch: &mut Scratch,
        args: Args<'_>,
    ) -> Result<(), DriverError> {
        if plan.tiles.is_empty() {
            return Ok(());
        }
        args.check(attention, plan, scratch)?;
        let found = self.kernels.iter().find(|(variant, _)| *variant == plan.variant);
        let Some((variant, kernel)) = found else {
            return Err(DriverError::Invalid(format!(
                "attention_prefill: {} is not loaded",
                plan.variant.entry()
            )));
        };
        let params = args.params(attention, scratch);
        let shape = Shape {
            shared: variant.shared_bytes(),
            ..Shape::linear(plan.grid(), variant.threads())
        };
        match variant.algorithm {
            // SAFETY: these are the kernel's parameters; `args.check` found every view long enough for the plan's rows
            // and sequences, and the scratch for its parts. Table starts and block numbers are the step's, which is made for this arena.
            Algorithm::Portable => unsafe { stream.launch(kernel, shape, &params) },
            Algorithm::Hopper | Algorithm::HopperSplit => {
                let params = HopperParams { cache: args.cache.map, params, padding: [0; 7] };
                // SAFETY: as above; the map covers the blocks that `CacheLayer::new` was told of.
                unsafe { stream.launch(kernel, shape, &params) }
            }
        }
    }
}

impl Args<'_> {
    fn check(
        &self,
        attention: &Attention,
        plan: &Plan,
        scratch: &Scratch,
    ) -> Result<(), DriverError> {
        let width = attention.heads * attention.head_dim;
        let reach = |stride: usize| (plan.rows as usize - 1) * stride + width;
        let mut wrong = Vec::new();
        let mut need = |what: &str, holds: bool, seen: usize, wanted: usize| {
            if !holds {
                wrong.push(format!("{what}: {seen}, wanted {wanted}"));
            }
        };
        for (what, stride, len) in [
            ("query", self.query_stride, self.queries.len()),
            ("out", self.out_stride, self.out.len()),
        ] {
            need(&format!("{what} stride"), stride >= width && stride % 8 == 0, stride, width);
            need(&format!("{what} elements"), len >= reach(stride), len, reach(stride));
        }
        let sequences = plan.sequences as usize;
        let (starts, firsts) = (self.table_starts.len(), self.table_firsts.len());
        need("table starts", starts >= sequences, starts, sequences);
        need("table firsts", firsts >= sequences, firsts, sequences);
        let (tiles, shares) = (plan.tiles.len(), plan.shares.len());
        need("tiles", self.tiles.len() == tiles, self.tiles.len(), tiles);
        need("shares", self.shares.len() == shares, self.shares.len(), shares);
        let (slots, each) = (plan.slots as usize, part_vectors(plan.variant.width));
        let vectors = scratch.partials.len();
        need("vectors for parts", vectors >= slots * each, vectors, slots * each);
        need(
            "arrivals",
            scratch.arrivals.len() >= slots * WARPS,
            scratch.arrivals.len(),
            slots * WARPS,
        );
        for (what, address) in [("queries", self.queries.address()), ("out", self.out.address())] {
            need(
                &format!("{what} address modulo 16"),
                address % 16 == 0,
                (address % 16) as usize,
                0,
            );
        }
        match wrong.is_empty() {
            true => Ok(()),
            false => Err(DriverError::Invalid(format!("attention_prefill: {}", wrong.join("; ")))),
        }
    }

    fn params(&self, attention: &Attention, scratch: &Scratch) -> Params {
        let (scale, softcap) = attention.exponent();
        Params {
            queries: self.queries.address(),
            cache: self.cache.address,
            tables: self.tables.address(),
            starts: self.table_starts.address(),
            firsts: self.table_firsts.address(),
            tiles: self.tiles.address(),
            shares: self.shares.address(),
            out: self.out.address(),
            partials: scratch.partials.address(),
            arrivals: scratch.arrivals.address(),
            query_stride: self.query_stride as i64,
            out_stride: self.out_stride as i64,
            block_stride: (self.cache.block_bytes / attention.cache.element_bytes()) as i64,
            heads_per_group: (attention.heads / attention.kv_heads) as i32,
            kv_heads: attention.kv_heads as i32,
            head_dim: attention.head_dim as i32,
            window: attention.window.map_or(i32::MAX, |window| window.min(i32::MAX as u32) as i32),
            scale,
            softcap,
            out_scale: attention.cache.value_scale(),
            unused: 0,
        }
    }
}

/// What attention of `runs` moves and computes: queries and results once, each run's visible keys and values once; four
/// operations for each element of a query-key pair.
pub fn traffic(attention: &Attention, runs: &[Run]) -> Traffic {
    let mut traffic = Traffic::default();
    let width = (attention.heads * attention.head_dim) as u64;
    for run in runs.iter().filter(|run| run.rows > 0) {
        let seen = |position: u64| {
            attention.window.map_or(position + 1, |window| (position + 1).min(window.into()))
        };
        let positions = u64::from(run.cached)..u64::from(run.cached) + u64::from(run.rows);
        let keys = seen(positions.start) + u64::from(run.rows) - 1;
        let key_bytes =
            (2 * attention.kv_heads * attention.head_dim * attention.cache.element_bytes()) as u64;
        traffic.bytes += 4 * u64::from(run.rows) * width + keys * key_bytes;
        traffic.flops += 4 * width * positions.map(seen).sum::<u64>();
    }
    traffic
}
