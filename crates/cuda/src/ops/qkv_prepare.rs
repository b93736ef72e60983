//! Queries, keys and values from the projection into attention: norm, rotation, the cache. See `qkv_prepare.cu`.

use half::bf16;
use models::semantic::QkNormExtent;

use super::{
    Traffic, Unsupported,
    heads::{CacheScales, CacheType, Heads, Norms, Rope},
    lengths::Lengths,
};
use crate::driver::{DriverError, Gpu, Image, Kernel, Shape, Stream, View, ViewMut, image};

const OPERATION: &str = "qkv_prepare";

static IMAGE: Image = image!("qkv_prepare");

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Token rows, `T`.
    pub rows: usize,
    /// The layer's heads.
    pub heads: Heads,
    /// Leading elements of a head that are rotated; 0: none.
    pub rotary_dim: usize,
    /// Norm on queries and keys, and what its mean is over.
    pub norm: Option<QkNormExtent>,
}

/// How it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    problem: Problem,
    way: Way,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Heads rotated whole: a warp takes a row and a share of its heads, so many lanes a head.
    Warps { lanes: u32, shares: u32 },
    /// A block takes a row and a share of its heads.
    Blocks { threads: u32, shares: u32 },
}

/// The kernels.
#[derive(Clone, Copy, Debug)]
pub struct QkvPrepare {
    bf16: Kernels,
    fp8: Kernels,
}

#[derive(Clone, Copy, Debug)]
struct Kernels {
    blocks: Kernel,
    /// With 4, 8 and 16 lanes a head.
    warps: [Kernel; 3],
}

/// Threads of a block whose warps take rows.
const WARP_THREADS: u32 = 128;

/// What a launch reads and writes.
#[derive(Debug)]
pub struct Args<'a> {
    /// The projection with its bias, `[T, (H + 2 Hk) * D]` bf16.
    pub qkv: View<'a, bf16>,
    /// Queries, `[T, H * D]` bf16; rows that are padding stay as they are.
    pub q: ViewMut<'a, bf16>,
    /// The layer's arena.
    pub arena: ViewMut<'a, u8>,
    /// Where each row's key and value go: `block * BLOCK_TOKENS + offset`; negative: the row is padding.
    pub slots: View<'a, i32>,
    /// Scales of the cache.
    pub scales: CacheScales,
    /// The rotation; needed where the plan has one.
    pub rope: Option<Rope<'a>>,
    /// The norms; needed where the plan has some.
    pub norms: Option<Norms<'a>>,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
struct Params {
    qkv: u64,
    q: u64,
    arena: u64,
    slots: u64,
    positions: u64,
    regimes: u64,
    inv_freq: u64,
    q_weight: u64,
    k_weight: u64,
    factors: [f32; 2],
    eps: f32,
    k_inverse_scale: f32,
    v_inverse_scale: f32,
    heads: u32,
    kv_heads: u32,
    head_dim: u32,
    half: u32,
    lane_bits: u32,
    whole_projection: u32,
    rows: u32,
    shares: u32,
    padding: u32,
}
const _: () = assert!(size_of::<Params>() == 128);

impl Plan {
    /// Small steps are spread over warps or blocks that share a row.
    pub fn new(
        problem: &Problem,
        limits: &crate::driver::DeviceLimits,
    ) -> Result<Plan, Unsupported> {
        let heads = problem.heads;
        heads.check(OPERATION)?;
        let rotary = problem.rotary_dim;
        if !rotary.is_multiple_of(2) || rotary > heads.head_dim {
            return Err(Unsupported {
                operation: OPERATION,
                seen: rotary.to_string(),
                requirement: format!("the rotated width must be even, up to {}", heads.head_dim),
            });
        }
        let (all, rows) = ((heads.heads + 2 * heads.kv_heads) as u32, problem.rows.max(1) as u32);
        let (half, whole) = (rotary as u32 / 2, rotary == heads.head_dim);
        let way = if whole && half % 8 == 0 && problem.norm != Some(QkNormExtent::Projection) {
            let lanes = (half / 8).next_power_of_two().max(4);
            // Turns are computed once a warp, so that it should have many heads; a device wants many warps.
            let wanted = (64 * limits.sms).div_ceil(rows);
            Way::Warps { lanes, shares: wanted.clamp(1, all.div_ceil(32 / lanes)) }
        } else {
            let lanes = 1 << heads.lane_bits();
            // Two blocks a multiprocessor are enough to hide what a block waits for.
            let wanted = (2 * limits.sms).div_ceil(rows);
            let threads = if wanted > 1 { 128 } else { 256 };
            Way::Blocks { threads, shares: wanted.min(all.div_ceil(threads / lanes)) }
        };
        Ok(Plan { problem: *problem, way })
    }

    fn shape(&self) -> Shape {
        let rows = self.problem.rows as u32;
        let (grid, block) = match self.way {
            Way::Warps { shares, .. } => {
                ([(rows * shares).div_ceil(WARP_THREADS / 32), 1, 1], WARP_THREADS)
            }
            Way::Blocks { threads, shares } => ([rows, shares, 1], threads),
        };
        Shape { grid, block, shared: 0, cluster: 1, overlap: true }
    }
}

impl QkvPrepare {
    /// Finds the kernels.
    pub fn load(gpu: &Gpu) -> Result<QkvPrepare, DriverError> {
        let kernel = |entry| gpu.kernel(&IMAGE, entry);
        Ok(QkvPrepare {
            bf16: Kernels {
                blocks: kernel("qkv_prepare_bf16")?,
                warps: [
                    kernel("qkv_prepare_bf16_whole_4")?,
                    kernel("qkv_prepare_bf16_whole_8")?,
                    kernel("qkv_prepare_bf16_whole_16")?,
                ],
            },
            fp8: Kernels {
                blocks: kernel("qkv_prepare_fp8")?,
                warps: [
                    kernel("qkv_prepare_fp8_whole_4")?,
                    kernel("qkv_prepare_fp8_whole_8")?,
                    kernel("qkv_prepare_fp8_whole_16")?,
                ],
            },
        })
    }

    /// Queues it.
    #[allow(unsafe_code)]
    pub fn launch(&self, stream: &Stream, plan: &Plan, args: Args<'_>) -> Result<(), DriverError> {
        let Plan { problem, way } = *plan;
        if problem.rows == 0 {
            return Ok(());
        }
        check(&problem, &args)?;
        let heads = problem.heads;
        let rope = args.rope.as_ref();
        let params = Params {
            qkv: args.qkv.address(),
            q: args.q.address(),
            arena: args.arena.address(),
            slots: args.slots.address(),
            positions: rope.map_or(0, |rope| rope.positions.address()),
            regimes: rope.and_then(|rope| rope.regimes).map_or(0, |view| view.address()),
            inv_freq: rope.map_or(0, |rope| rope.inv_freq.address()),
            q_weight: args.norms.map_or(0, |norms| norms.q.address()),
            k_weight: args.norms.map_or(0, |norms| norms.k.address()),
            factors: rope.map_or([1.0; 2], |rope| rope.factors),
            eps: args.norms.map_or(0.0, |norms| norms.eps),
            k_inverse_scale: 1.0 / args.scales.k,
            v_inverse_scale: 1.0 / args.scales.v,
            heads: heads.heads as u32,
            kv_heads: heads.kv_heads as u32,
            head_dim: heads.head_dim as u32,
            half: (problem.rotary_dim / 2) as u32,
            lane_bits: heads.lane_bits(),
            whole_projection: (problem.norm == Some(QkNormExtent::Projection)).into(),
            rows: problem.rows as u32,
            shares: match way {
                Way::Warps { shares, .. } | Way::Blocks { shares, .. } => shares,
            },
            padding: 0,
        };
        let kernels = match heads.cache {
            CacheType::Bf16 => &self.bf16,
            CacheType::Fp8 => &self.fp8,
        };
        let kernel = match way {
            Way::Blocks { .. } => &kernels.blocks,
            Way::Warps { lanes: 0..=4, .. } => &kernels.warps[0],
            Way::Warps { lanes: 5..=8, .. } => &kernels.warps[1],
            Way::Warps { .. } => &kernels.warps[2],
        };
        // SAFETY: lengths were checked against the plan; slots lie in the arena and regimes name tables by the step's check.
        unsafe { stream.launch(kernel, plan.shape(), &params) }
    }
}

fn check(problem: &Problem, args: &Args<'_>) -> Result<(), DriverError> {
    let Problem { rows, heads, rotary_dim, norm } = *problem;
    let mut lengths = Lengths::of(OPERATION)
        .at_least("qkv", args.qkv.len(), rows * heads.qkv_width())
        .at_least("q", args.q.len(), rows * heads.heads * heads.head_dim)
        .at_least("slots", args.slots.len(), rows)
        .at_least("arena", args.arena.len(), heads.block_bytes());
    if rotary_dim > 0 {
        lengths = Rope::check(args.rope.as_ref(), rows, rotary_dim, lengths);
    }
    let weights = match norm {
        None => (0, 0),
        Some(QkNormExtent::Head) => (1, 1),
        Some(QkNormExtent::Projection) => (heads.heads, heads.kv_heads),
    };
    Norms::check(args.norms.as_ref(), weights, heads.head_dim, lengths).check()
}

/// What it moves and computes.
pub fn traffic(problem: &Problem) -> Traffic {
    let heads = problem.heads;
    let read = heads.qkv_width() * 2;
    let written = heads.heads * heads.head_dim * 2
        + 2 * heads.kv_heads * heads.head_dim * heads.cache.bytes();
    let rotated = (heads.heads + heads.kv_heads) * problem.rotary_dim * 3;
    let normed = match problem.norm {
        Some(_) => (heads.heads + heads.kv_heads) * heads.head_dim * 4,
        None => 0,
    };
    Traffic {
        bytes: (problem.rows * (read + written)) as u64,
        flops: (problem.rows * (rotated + normed)) as u64,
    }
}

#[cfg(test)]
mod tests;
