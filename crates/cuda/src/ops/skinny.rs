//! Products of few rows with all of a weight: what decoding spends its time on. See `skinny/skinny_hopper.cu`.
//!
//! `y[m, n] = sum_k x[m, k] * W[n, k]` for at most 64 rows, with one of four endings. A norm before the product costs nothing of
//! its own: its weight is multiplied into `x` by whoever wrote `x`, and its scale, one number a row, by the ending.

mod plan;

use bytemuck::{Pod, Zeroable};
use half::bf16;
use models::semantic::Activation;

use super::{Traffic, lengths::Lengths};
use crate::driver::{
    DriverError, Gpu, Image, Kernel, Shape, Stream, Swizzle, TensorMap, View, ViewMut, image,
};
pub use plan::{Family, Plan};

static HOPPER: Image = image!("skinny_hopper");
static PORTABLE: Image = image!("skinny_portable");
/// Elements of K in one row of a slab.
const SLAB: u32 = 64;
/// The most rows of `x`.
pub const MOST_ROWS: usize = 64;

/// What becomes of the sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ending {
    /// `y = acc * row_scale + bias`, bf16.
    Plain,
    /// `h += scale * (acc + bias)`; the next product's `x` and the sums of squares of its norm.
    Residual,
    /// `f(gate) * up` of columns that are interleaved in groups of 8.
    GateUp,
    /// Scaled, capped f32 logits and the greatest of each block.
    Logits,
}

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Problem {
    /// Rows of `x`, at most [`MOST_ROWS`].
    pub rows: usize,
    /// Rows of `W`: columns of the product.
    pub columns: usize,
    /// Columns of `x` and of `W`.
    pub inner: usize,
    /// What becomes of the sums.
    pub ending: Ending,
    /// A row's result must not depend on how many rows there are, bit for bit.
    pub invariant: bool,
}

/// The scale of each row that a norm before the product asks for: `1 / sqrt(sum of squares / width + eps)`.
#[derive(Clone, Copy, Debug)]
pub struct RowNorm<'a> {
    /// Sums of squares, `count` of them for each row, from `row * stride` on.
    pub partials: View<'a, f32>,
    /// Sums of one row.
    pub count: usize,
    /// Distance of two rows' sums.
    pub stride: usize,
    /// Elements that the mean is taken over.
    pub width: usize,
    /// Added under the root.
    pub eps: f32,
}

/// What a residual ending hands to the next product.
#[derive(Debug)]
pub struct NextX<'a> {
    /// `[rows, columns]`: the new residual stream times `gain`.
    pub x: ViewMut<'a, bf16>,
    /// The next norm's weight, `[columns]`, its offset already added.
    pub gain: View<'a, f32>,
    /// Sums of squares, [`Plan::partials`] for each row.
    pub partials: ViewMut<'a, f32>,
    /// Distance of two rows' sums in `partials`.
    pub stride: usize,
}

/// The greatest logit of each row in each block, for greedy sampling.
#[derive(Debug)]
pub struct Best<'a> {
    /// `[rows, Plan::partials]`: keys by which logits and their columns are compared (see `argmax.cuh`); 0: the block has none.
    pub keys: ViewMut<'a, u64>,
    /// Columns that count, the first ones.
    pub columns: usize,
}

/// An [`Ending`] with its memory.
#[derive(Debug)]
pub enum Output<'a> {
    /// See [`Ending::Plain`].
    Plain {
        /// `[rows, columns]`.
        y: ViewMut<'a, bf16>,
    },
    /// See [`Ending::Residual`].
    Residual {
        /// `[rows, columns]`, changed in place.
        h: ViewMut<'a, f32>,
        /// Multiplies the product.
        scale: f32,
        /// What the next product reads; nothing where something else stands between.
        next: Option<NextX<'a>>,
    },
    /// See [`Ending::GateUp`].
    GateUp {
        /// `[rows, columns / 2]`.
        a: ViewMut<'a, bf16>,
        /// The gate's function.
        function: Activation,
    },
    /// See [`Ending::Logits`].
    Logits {
        /// `[rows, columns]`.
        logits: ViewMut<'a, f32>,
        /// Multiplies the product.
        scale: f32,
        /// `cap * tanh(logit / cap)`.
        softcap: Option<f32>,
        /// Where the greatest of each block go.
        best: Option<Best<'a>>,
    },
}

/// The memory of one launch.
#[derive(Debug)]
pub struct Args<'a> {
    /// `[rows, inner]`, rows `x_stride` apart.
    pub x: View<'a, bf16>,
    /// Distance of two rows of `x`, a multiple of 8.
    pub x_stride: usize,
    /// `[columns, inner]`.
    pub weight: View<'a, bf16>,
    /// `[columns]`.
    pub bias: Option<View<'a, f32>>,
    /// The norm before the product.
    pub norm: Option<RowNorm<'a>>,
    /// What becomes of the sums.
    pub output: Output<'a>,
}

/// Mirrors `SkinnyParams` in `skinny/endings.cuh`.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Params {
    weight_map: TensorMap,
    x_map: TensorMap,
    weight: u64,
    x: u64,
    x_stride: u64,
    bias: u64,
    row_partials: u64,
    out: u64,
    out_stride: u64,
    h: u64,
    h_stride: u64,
    x_next: u64,
    x_next_stride: u64,
    gain: u64,
    partials_out: u64,
    best: u64,
    best_columns: u64,
    m: u32,
    n: u32,
    k: u32,
    tile_rows: u32,
    split: u32,
    row_groups: u32,
    k_groups: u32,
    slabs: u32,
    stages: u32,
    sums_offset: u32,
    boxes_3d: u32,
    row_partials_count: u32,
    row_partials_stride: u32,
    partials_out_stride: u32,
    activation: u32,
    inverse_width: f32,
    epsilon: f32,
    residual_scale: f32,
    logit_scale: f32,
    softcap: f32,
    x_rows: u32,
    x_pitch: u32,
    stage_bytes: u32,
    trigger_lead: u32,
    h_offset: u32,
    burst: u32,
    pace: u32,
    padding: [u32; 7],
}
const _: () = assert!(size_of::<Params>() == 512);

/// The kernels.
#[derive(Clone, Debug)]
pub struct Skinny {
    /// By [`Family`], then by the rows they are made for, then by [`Ending`].
    kernels: Vec<Vec<[Kernel; 4]>>,
}

impl Skinny {
    /// Loads those that this device runs.
    pub fn load(gpu: &Gpu) -> Result<Skinny, DriverError> {
        let load = |image: &Image, names: &[[&'static str; 4]]| {
            let four = |[a, b, c, d]: &[&'static str; 4]| {
                let kernel = |entry| gpu.kernel(image, entry);
                Ok([kernel(a)?, kernel(b)?, kernel(c)?, kernel(d)?])
            };
            names.iter().map(four).collect::<Result<Vec<_>, DriverError>>()
        };
        let portable = load(&PORTABLE, &plan::PORTABLE_ENTRIES)?;
        let warp = match gpu.limits().is_hopper_or_later() {
            true => load(&HOPPER, &plan::WARP_ENTRIES)?,
            false => Vec::new(),
        };
        let wgmma = match gpu.limits().has_wgmma() {
            true => load(&HOPPER, &plan::WGMMA_ENTRIES)?,
            false => Vec::new(),
        };
        Ok(Skinny { kernels: vec![portable, warp, wgmma] })
    }

    /// Queues one launch.
    #[allow(unsafe_code)]
    pub fn launch(&self, stream: &Stream, plan: &Plan, args: Args<'_>) -> Result<(), DriverError> {
        check(plan, &args)?;
        if plan.problem.rows == 0 {
            return Ok(());
        }
        let kernels = self.kernels[plan.family as usize].get(plan.width_index());
        let kernel =
            kernels.map(|endings| &endings[plan.problem.ending as usize]).ok_or_else(|| {
                DriverError::Invalid(format!(
                    "skinny: {plan:?} is for another device than this one"
                ))
            })?;
        let params = params(plan, args)?;
        let shape = Shape {
            grid: [plan.blocks, 1, 1],
            block: plan.threads,
            shared: plan.shared,
            cluster: plan.split,
            overlap: true,
        };
        // SAFETY: the struct mirrors the kernel's, and `check` found every view long enough and aligned.
        unsafe { stream.launch(kernel, shape, &params) }
    }
}

/// Everything that is wrong with the arguments.
fn check(plan: &Plan, args: &Args<'_>) -> Result<(), DriverError> {
    let Problem { rows, columns, inner, ending, .. } = plan.problem;
    let partials = plan.partials();
    let strided = |width: usize, stride: usize| match rows {
        0 => 0,
        rows => (rows - 1) * stride + width,
    };
    let lengths = Lengths::of("skinny")
        .at_least("x", args.x.len(), strided(inner, args.x_stride))
        .at_least("weight", args.weight.len(), columns * inner)
        .at_least("bias", args.bias.map_or(columns, |bias| bias.len()), columns)
        .require(args.x_stride >= inner && args.x_stride.is_multiple_of(8), || {
            format!("rows of x are {} apart, wanted a multiple of 8 from {inner} on", args.x_stride)
        })
        .require((args.x.address() | args.weight.address()).is_multiple_of(16), || {
            "x and the weight must be aligned to 16 bytes".to_owned()
        });
    let lengths = match &args.norm {
        None => lengths,
        Some(norm) => lengths
            .at_least("norm partials", norm.partials.len(), strided(norm.count, norm.stride))
            .require(norm.width > 0 && norm.count <= norm.stride, || {
                format!("{} sums a row, {} apart, over {}", norm.count, norm.stride, norm.width)
            }),
    };
    let all = rows * columns;
    let lengths = match (&args.output, ending) {
        (Output::Plain { y }, Ending::Plain) => lengths.at_least("y", y.len(), all),
        (Output::Residual { h, next, .. }, Ending::Residual) => {
            let lengths = lengths.at_least("h", h.len(), all);
            match next {
                None => lengths,
                Some(next) => lengths
                    .at_least("next x", next.x.len(), all)
                    .at_least("gain", next.gain.len(), columns)
                    .at_least("partials", next.partials.len(), strided(partials, next.stride))
                    .require(next.stride >= partials, || {
                        format!("{partials} sums a row, {} apart", next.stride)
                    }),
            }
        }
        (Output::GateUp { a, .. }, Ending::GateUp) => lengths.at_least("a", a.len(), all / 2),
        (Output::Logits { logits, best, .. }, Ending::Logits) => {
            let lengths = lengths.at_least("logits", logits.len(), all);
            match best {
                None => lengths,
                Some(best) => lengths
                    .at_least("best keys", best.keys.len(), rows * partials)
                    .require(best.columns <= columns, || {
                        format!("the greatest of {} columns, of {columns}", best.columns)
                    }),
            }
        }
        _ => lengths.require(false, || format!("the plan ends in {ending:?}, the output does not")),
    };
    lengths.check()
}

/// The kernel's parameters.
fn params(plan: &Plan, args: Args<'_>) -> Result<Params, DriverError> {
    let Problem { rows, columns, inner, .. } = plan.problem;
    let mut params = Params {
        weight: args.weight.address(),
        x: args.x.address(),
        x_stride: args.x_stride as u64,
        bias: args.bias.map_or(0, |bias| bias.address()),
        m: rows as u32,
        n: columns as u32,
        k: inner as u32,
        tile_rows: plan.tile_rows,
        split: plan.split,
        row_groups: plan.row_groups,
        k_groups: plan.k_groups,
        slabs: plan.slabs,
        stages: plan.stages,
        boxes_3d: u32::from(plan.boxes_3d()),
        h_offset: plan.h_offset,
        burst: plan.burst,
        pace: plan.pace,
        x_rows: plan.x_rows(),
        x_pitch: plan.x_pitch(),
        stage_bytes: plan.stage_bytes(),
        trigger_lead: plan.trigger_lead,
        residual_scale: 1.0,
        logit_scale: 1.0,
        ..Params::zeroed()
    };
    if plan.family != Family::Portable {
        let stride = args.x_stride;
        params.weight_map = map(plan, args.weight.address(), columns, inner, plan.tile_rows)?;
        params.x_map = map(plan, args.x.address(), rows, stride, plan.x_rows())?;
    }
    if let Some(norm) = args.norm {
        params.row_partials = norm.partials.address();
        params.row_partials_count = norm.count as u32;
        params.row_partials_stride = norm.stride as u32;
        params.inverse_width = 1.0 / norm.width as f32;
        params.epsilon = norm.eps;
    }
    match args.output {
        Output::Plain { y } => (params.out, params.out_stride) = (y.address(), columns as u64),
        Output::Residual { h, scale, next } => {
            (params.h, params.h_stride, params.residual_scale) =
                (h.address(), columns as u64, scale);
            if let Some(next) = next {
                (params.x_next, params.x_next_stride) = (next.x.address(), columns as u64);
                params.gain = next.gain.address();
                params.partials_out = next.partials.address();
                params.partials_out_stride = next.stride as u32;
            }
        }
        Output::GateUp { a, function } => {
            (params.out, params.out_stride) = (a.address(), columns as u64 / 2);
            params.activation = function_number(function);
        }
        Output::Logits { logits, scale, softcap, best } => {
            (params.out, params.out_stride) = (logits.address(), columns as u64);
            (params.logit_scale, params.softcap) = (scale, softcap.unwrap_or(0.0));
            if let Some(best) = best {
                params.best = best.keys.address();
                params.best_columns = best.columns as u64;
            }
        }
    }
    Ok(params)
}

fn function_number(function: Activation) -> u32 {
    match function {
        Activation::Silu => 0,
        Activation::GeluTanh => 1,
        Activation::GeluErf => 2,
    }
}

/// How the copy engine walks `rows` rows of `inner` elements, `stride` apart: `tile` rows and one slab at a time, or all slabs of
/// a stage where K divides into slabs.
fn map(
    plan: &Plan,
    address: u64,
    rows: usize,
    stride: usize,
    tile: u32,
) -> Result<TensorMap, DriverError> {
    let (rows, inner, bytes) = (rows as u64, plan.problem.inner as u64, stride as u64 * 2);
    let slab = u64::from(SLAB);
    match plan.boxes_3d() {
        true => TensorMap::bf16(
            address,
            &[slab, rows, inner / slab],
            &[bytes, slab * 2],
            &[SLAB, tile, plan.slabs],
            Swizzle::Bytes128,
        ),
        false => {
            let tile = [SLAB, tile];
            TensorMap::bf16(address, &[inner, rows], &[bytes], &tile, Swizzle::Bytes128)
        }
    }
}

/// What it moves and computes at the least: every weight once, every row in and out once.
pub fn traffic(problem: &Problem) -> Traffic {
    let [rows, columns, inner] =
        [problem.rows as u64, problem.columns as u64, problem.inner as u64];
    let out = match problem.ending {
        Ending::Plain => 2 * columns,
        Ending::Residual => (4 + 4 + 2) * columns,
        Ending::GateUp => columns,
        Ending::Logits => 4 * columns,
    };
    Traffic {
        bytes: 2 * columns * inner + rows * (2 * inner + out),
        flops: 2 * rows * columns * inner,
    }
}

#[cfg(test)]
mod tests;
