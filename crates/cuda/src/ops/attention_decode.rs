//! Attention of decode rows over the paged cache. See `attention_decode.cu`.

mod work;

use std::sync::Arc;

use half::bf16;

use super::{
    Traffic, Unsupported,
    heads::{BLOCK_TOKENS, CacheScales, CacheType, Heads, Norms, Rope},
    lengths::Lengths,
};
use crate::driver::{
    Buffer, DeviceLimits, DriverError, Gpu, Image, Kernel, Shape, Stream, View, ViewMut, image,
};

pub use work::{Cutting, Item, SequenceWork};

static IMAGE: Image = image!("attention_decode");

const OPERATION: &str = "attention_decode";
const WARPS: usize = 4;
const THREADS: u32 = 32 * WARPS as u32;
/// Query rows in a tile.
const ROWS: usize = 16;
/// Blocks of a cluster, at most.
const MAX_CLUSTER: usize = 8;

/// Query tokens of a sequence, at most.
pub const MOST_QUERIES: usize = 8;

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Problem {
    /// The layer's heads.
    pub heads: Heads,
    /// Sequences in a step, at most.
    pub sequences: usize,
    /// Query tokens of a sequence, up to [`MOST_QUERIES`]; 1 for plain decoding.
    pub queries: usize,
    /// Blocks of the cache in a sequence, at most.
    pub max_blocks: usize,
    /// Tokens that a token sees, itself included.
    pub window: Option<usize>,
    /// Multiplies the scores.
    pub scale: f32,
    /// Cap on the scaled scores.
    pub softcap: Option<f32>,
    /// Rounding depends on the sequence alone, whatever is computed beside it.
    pub invariant: bool,
    /// Norm, rotation and the append to the cache happen here too.
    pub preparation: Option<Preparation>,
}

/// What attention does to the projection where no launch before it did: as `qkv_prepare`, with norms over a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preparation {
    /// Leading elements of a head that are rotated; 0: none.
    pub rotary_dim: usize,
    /// Norm on queries and keys, each head alone.
    pub norm: bool,
}

/// How it is done. Grid and memory are those of the largest step; what differs from step to step is in the items.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    problem: Problem,
    variant: usize,
    units: usize,
    unit_rows: usize,
    shared: usize,
    /// Four blocks of threads share a multiprocessor.
    dense: bool,
    cutting: Cutting,
}

macro_rules! entries {
    ($size:literal) => {
        [
            concat!("attention_decode_bf16_", $size),
            concat!("attention_decode_fp8_", $size),
            concat!("attention_decode_fused_bf16_", $size),
            concat!("attention_decode_fused_fp8_", $size),
        ]
    };
}

/// A head width that there is a kernel for.
#[derive(Debug)]
struct Variant {
    /// Widest head.
    width: usize,
    /// The only one.
    exact: bool,
    /// Entries for bf16, e4m3, and both with the preparation fused.
    entries: [&'static str; 4],
    /// Entry for bf16 with the preparation fused, of which four blocks of threads share a multiprocessor.
    dense: Option<&'static str>,
}

const fn variant(width: usize, exact: bool, entries: [&'static str; 4]) -> Variant {
    Variant { width, exact, entries, dense: None }
}

const VARIANTS: [Variant; 5] = [
    Variant { dense: Some("attention_decode_dense_bf16_64"), ..variant(64, true, entries!("64")) },
    Variant {
        dense: Some("attention_decode_dense_bf16_128"),
        ..variant(128, true, entries!("128"))
    },
    variant(256, true, entries!("256")),
    variant(96, false, entries!("upto_96")),
    variant(256, false, entries!("upto_256")),
];

/// The kernels.
#[derive(Clone, Debug)]
pub struct AttentionDecode {
    /// By variant.
    kernels: Vec<([Kernel; 4], Option<Kernel>)>,
}

/// Memory for the results of split sequences. Launches in one stream may share one.
#[derive(Debug)]
pub struct Scratch {
    acc: Buffer<f32>,
    ml: Buffer<[f32; 2]>,
    counters: Buffer<u32>,
}

/// What a launch reads and writes.
#[derive(Debug)]
pub struct Args<'a> {
    /// Queries, `[T, H * D]`; the projection `[T, (H + 2 Hk) * D]` where the plan prepares it.
    pub q: View<'a, bf16>,
    /// The layer's arena; written only where the plan prepares the projection.
    pub arena: ViewMut<'a, u8>,
    /// Flat block tables, that the items' `table_at` count in.
    pub tables: View<'a, i32>,
    /// As [`Cutting::fill`] made them, [`Plan::items`] of them.
    pub items: View<'a, Item>,
    /// `[T, H * D]`; rows without an item stay as they are.
    pub out: ViewMut<'a, bf16>,
    /// Scales of the cache.
    pub scales: CacheScales,
    /// The rotation; needed where the plan's preparation has one.
    pub rope: Option<Rope<'a>>,
    /// The norms; needed where the plan's preparation has some.
    pub norms: Option<Norms<'a>>,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
struct Params {
    q: u64,
    arena: u64,
    tables: u64,
    items: u64,
    out: u64,
    partial_acc: u64,
    partial_ml: u64,
    counters: u64,
    positions: u64,
    regimes: u64,
    inv_freq: u64,
    q_weight: u64,
    k_weight: u64,
    factors: [f32; 2],
    eps: f32,
    scale: f32,
    softcap: f32,
    k_scale: f32,
    v_scale: f32,
    window: u32,
    heads: u32,
    kv_heads: u32,
    head_dim: u32,
    half: u32,
    unit_rows: u32,
    lane_bits: u32,
    cluster: u32,
    early: u32,
}
const _: () = assert!(size_of::<Params>() == 168);
const _: () = assert!(size_of::<Item>() == 32);

impl Plan {
    /// One block of threads a multiprocessor walks the items, two or four where there are many sequences.
    pub fn new(problem: &Problem, limits: &DeviceLimits) -> Result<Plan, Unsupported> {
        let heads = problem.heads;
        heads.check(OPERATION)?;
        check_options(problem)?;
        let dim = heads.head_dim;
        let fits = |variant: &Variant| {
            if variant.exact { variant.width == dim } else { variant.width >= dim }
        };
        let variant = VARIANTS.iter().position(fits).expect("the last variant takes every width");
        let tiles = (heads.group() * problem.queries).div_ceil(ROWS);
        let units = heads.kv_heads * tiles;
        let unit_rows = ROWS.min(heads.group() * problem.queries);
        let cluster = cluster(problem, units, limits);
        let blocks = blocks_of_sm(problem, units, &VARIANTS[variant], limits);
        let dense = blocks == 4;
        let sizes = Sizes::new(VARIANTS[variant].width, heads.cache, dense, limits);
        let shared = sizes.shared(unit_rows, problem.preparation.is_some(), cluster > 1);
        let allowed = limits.shared_per_block as usize;
        if shared > allowed {
            return Err(Unsupported {
                operation: OPERATION,
                seen: format!("{allowed} bytes"),
                requirement: format!("a block needs {shared} bytes of shared memory"),
            });
        }
        let columns = blocks * limits.sms as usize / units;
        let cutting = Cutting {
            columns: (columns / cluster).max(1) * cluster,
            window: problem.window,
            invariant: problem.invariant,
            cluster,
            round: WARPS * sizes.blocks,
        };
        Ok(Plan { problem: *problem, variant, units, unit_rows, shared, dense, cutting })
    }

    /// How a step's sequences are cut into items. Layers of one KV group whose plans agree in this share the items.
    pub fn cutting(&self) -> Cutting {
        self.cutting
    }

    /// Query tokens of a sequence, at most.
    pub fn queries(&self) -> usize {
        self.problem.queries
    }

    /// Whether norm, rotation and the append to the cache happen here too.
    pub fn prepares(&self) -> bool {
        self.problem.preparation.is_some()
    }

    /// Whether the next kernel may come in as soon as this one runs: where its weights are so many that it is worth the memory
    /// that they take from this one. Measured: an 8B model's output product gains by it, those of 1B and less lose.
    fn lets_in_early(&self) -> bool {
        let Heads { heads, head_dim, .. } = self.problem.heads;
        heads * head_dim >= 4096
    }

    /// Items in a step.
    pub fn items(&self) -> usize {
        self.cutting.capacity(self.problem.sequences, self.problem.max_blocks)
    }

    /// Slots, rows of partial results, and counters.
    fn scratch(&self) -> (usize, usize) {
        let counters = self.items() * self.units;
        (counters * self.unit_rows, counters)
    }
}

fn check_options(problem: &Problem) -> Result<(), Unsupported> {
    let refuse = |seen: String, requirement: &str| {
        Err(Unsupported { operation: OPERATION, seen, requirement: requirement.to_owned() })
    };
    if !(1..=MOST_QUERIES).contains(&problem.queries) {
        return refuse(problem.queries.to_string(), "1 to 8 query tokens a sequence");
    }
    if problem.window == Some(0) || problem.window.is_some_and(|window| window > i32::MAX as usize)
    {
        return refuse(format!("{:?}", problem.window), "a window is of 1 to 2^31 - 1 tokens");
    }
    if problem.softcap.is_some_and(|cap| !(cap.is_finite() && cap > 0.0)) {
        return refuse(format!("{:?}", problem.softcap), "a cap is a positive number");
    }
    if let Some(Preparation { rotary_dim, .. }) = problem.preparation {
        if !rotary_dim.is_multiple_of(2) || rotary_dim > problem.heads.head_dim {
            return refuse(rotary_dim.to_string(), "the rotated width is even, up to the head's");
        }
        if problem.queries > 1 {
            return refuse(problem.queries.to_string(), "preparation takes one token a sequence");
        }
    }
    Ok(())
}

/// Blocks of a cluster: as many as give each sequence a cluster of its own, one block a multiprocessor. With two, clusters
/// were slower than merging through device memory.
fn cluster(problem: &Problem, units: usize, limits: &DeviceLimits) -> usize {
    if !has_large_shared(limits) || problem.invariant {
        return 1;
    }
    let room = limits.sms as usize / (units * problem.sequences.max(1));
    1 << room.clamp(1, MAX_CLUSTER).ilog2()
}

/// Blocks of threads that share a multiprocessor. A second one takes the room that the next kernel's need, which few sequences
/// are not worth; four, with shorter rings, where each then has a sequence to itself.
fn blocks_of_sm(
    problem: &Problem,
    units: usize,
    variant: &Variant,
    limits: &DeviceLimits,
) -> usize {
    let (blocks, sms) = (problem.sequences * units, limits.sms as usize);
    let dense = variant.dense.is_some()
        && problem.preparation.is_some()
        && problem.heads.cache == CacheType::Bf16
        && has_large_shared(limits)
        && !problem.invariant;
    match blocks {
        _ if dense && blocks > 3 * sms => 4,
        _ if blocks >= sms * 3 / 2 => 2,
        _ => 1,
    }
}

/// The devices with clusters are those whose multiprocessors have much shared memory: Hopper, and Blackwell for data centres.
fn has_large_shared(limits: &DeviceLimits) -> bool {
    (90..120).contains(&limits.arch)
}

/// Sizes in shared memory, in bytes. Mirrors `Sizes` and `Layout` of the kernel.
struct Sizes {
    width: usize,
    /// Of a cached row.
    row: usize,
    /// Blocks of the cache in a granule.
    blocks: usize,
    /// Of all warps' rings.
    rings: usize,
}

impl Sizes {
    fn new(width: usize, cache: CacheType, dense: bool, limits: &DeviceLimits) -> Sizes {
        let row = pitch(width * cache.bytes());
        let blocks = if row <= 160 { 2 } else { 1 };
        let stage = WARPS * blocks * BLOCK_TOKENS * row;
        let budget = match has_large_shared(limits) {
            true if dense => 36 << 10,
            true => 56 << 10,
            false => 48 << 10,
        };
        let rings = (budget / stage).clamp(2, 8) * stage;
        Sizes { width, row, blocks, rings }
    }

    fn shared(&self, rows: usize, fused: bool, clustered: bool) -> usize {
        let Sizes { width, row, rings, .. } = *self;
        let queries = ROWS * (pitch(width * 2) + 4);
        let merging = WARPS * ROWS * 8 + 16 + WARPS * rows * (width + 8) * 4;
        let fresh = if fused { width / 2 * 8 + 2 * width * 4 + 2 * row } else { 0 };
        let peers = MAX_CLUSTER * ROWS * 8 + (rows * width / 4 + MAX_CLUSTER) * 16;
        rings + queries + merging + fresh + if clustered { 16 + peers } else { 16 }
    }
}

/// Distance of rows in shared memory: an odd number of 16 bytes.
fn pitch(bytes: usize) -> usize {
    ((bytes / 16) | 1) * 16
}

impl Scratch {
    /// Enough for each of `plans`; zeroed.
    pub fn new<'a>(
        stream: &Stream,
        plans: impl IntoIterator<Item = &'a Plan>,
    ) -> Result<Scratch, DriverError> {
        let (mut acc, mut ml, mut counters) = (0, 0, 0);
        for plan in plans {
            let (rows, count) = plan.scratch();
            acc = acc.max(rows * plan.problem.heads.head_dim);
            ml = ml.max(rows);
            counters = counters.max(count);
        }
        let gpu: &Arc<Gpu> = stream.gpu();
        let mut scratch =
            Scratch { acc: gpu.alloc(acc)?, ml: gpu.alloc(ml)?, counters: gpu.alloc(counters)? };
        stream.zero(scratch.counters.view_mut())?;
        Ok(scratch)
    }
}

impl AttentionDecode {
    /// Finds the kernels.
    pub fn load(gpu: &Gpu) -> Result<AttentionDecode, DriverError> {
        let kernels = VARIANTS.iter().map(|variant| {
            let [a, b, c, d] = variant.entries.map(|entry| gpu.kernel(&IMAGE, entry));
            let dense = variant.dense.map(|entry| gpu.kernel(&IMAGE, entry)).transpose()?;
            Ok(([a?, b?, c?, d?], dense))
        });
        Ok(AttentionDecode { kernels: kernels.collect::<Result<_, DriverError>>()? })
    }

    /// Queues it.
    #[allow(unsafe_code)]
    pub fn launch(
        &self,
        stream: &Stream,
        plan: &Plan,
        scratch: &mut Scratch,
        args: Args<'_>,
    ) -> Result<(), DriverError> {
        let Problem { heads, preparation, .. } = plan.problem;
        if plan.problem.sequences == 0 {
            return Ok(());
        }
        check(plan, scratch, &args)?;
        let fp8 = heads.cache == CacheType::Fp8;
        let entry = usize::from(fp8) + if preparation.is_some() { 2 } else { 0 };
        let shape = Shape {
            grid: [plan.cutting.columns as u32, plan.units as u32, 1],
            block: THREADS,
            shared: plan.shared as u32,
            cluster: plan.cutting.cluster as u32,
            overlap: true,
        };
        let (kernels, dense) = &self.kernels[plan.variant];
        let kernel = dense.as_ref().filter(|_| plan.dense).unwrap_or(&kernels[entry]);
        let params = params(plan, scratch, &args);
        // SAFETY: lengths were checked against the plan; items, tables and regimes stay in bounds by the step's check and by
        // `Cutting::fill`, which made the items for this plan's columns.
        unsafe { stream.launch(kernel, shape, &params) }
    }
}

fn params(plan: &Plan, scratch: &Scratch, args: &Args<'_>) -> Params {
    let Problem { heads, window, scale, softcap, preparation, .. } = plan.problem;
    let rope = args.rope.as_ref();
    Params {
        q: args.q.address(),
        arena: args.arena.address(),
        tables: args.tables.address(),
        items: args.items.address(),
        out: args.out.address(),
        partial_acc: scratch.acc.address(),
        partial_ml: scratch.ml.address(),
        counters: scratch.counters.address(),
        positions: rope.map_or(0, |rope| rope.positions.address()),
        regimes: rope.and_then(|rope| rope.regimes).map_or(0, |view| view.address()),
        inv_freq: rope.map_or(0, |rope| rope.inv_freq.address()),
        q_weight: args.norms.map_or(0, |norms| norms.q.address()),
        k_weight: args.norms.map_or(0, |norms| norms.k.address()),
        factors: rope.map_or([1.0; 2], |rope| rope.factors),
        eps: args.norms.map_or(0.0, |norms| norms.eps),
        scale,
        softcap: softcap.unwrap_or(0.0),
        k_scale: args.scales.k,
        v_scale: args.scales.v,
        window: window.unwrap_or(0) as u32,
        heads: heads.heads as u32,
        kv_heads: heads.kv_heads as u32,
        head_dim: heads.head_dim as u32,
        half: preparation.map_or(0, |preparation| (preparation.rotary_dim / 2) as u32),
        unit_rows: plan.unit_rows as u32,
        lane_bits: heads.lane_bits(),
        cluster: plan.cutting.cluster as u32,
        early: u32::from(plan.lets_in_early()),
    }
}

fn check(plan: &Plan, scratch: &Scratch, args: &Args<'_>) -> Result<(), DriverError> {
    let Problem { heads, sequences, preparation, .. } = plan.problem;
    let width = heads.heads * heads.head_dim;
    let q_width = if preparation.is_some() { heads.qkv_width() } else { width };
    let (rows, counters) = plan.scratch();
    let mut lengths = Lengths::of(OPERATION)
        .at_least("q", args.q.len(), sequences * q_width)
        .at_least("out", args.out.len(), sequences * width)
        .at_least("items", args.items.len(), plan.items())
        .at_least("arena", args.arena.len(), heads.block_bytes())
        .at_least("scratch", scratch.acc.len(), rows * heads.head_dim)
        .at_least("scratch maxima", scratch.ml.len(), rows)
        .at_least("counters", scratch.counters.len(), counters);
    let rotary = preparation.map_or(0, |preparation| preparation.rotary_dim);
    if rotary > 0 {
        lengths = Rope::check(args.rope.as_ref(), sequences, rotary, lengths);
    }
    let weights = usize::from(preparation.is_some_and(|preparation| preparation.norm));
    Norms::check(args.norms.as_ref(), (weights, weights), heads.head_dim, lengths).check()
}

/// What attention over `tokens` visible tokens in all moves and computes.
pub fn traffic(problem: &Problem, tokens: usize) -> Traffic {
    let heads = problem.heads;
    let cache = 2 * tokens * heads.kv_heads * heads.head_dim * heads.cache.bytes();
    let rows = 2 * problem.sequences * heads.heads * heads.head_dim * 2;
    let flops = 4 * tokens * heads.heads * heads.head_dim;
    Traffic { bytes: (cache + rows) as u64, flops: flops as u64 }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod timings;
