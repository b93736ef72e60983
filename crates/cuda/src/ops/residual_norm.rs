//! Residual addition with the norms on either side of it. See `residual_norm.cu`.

use bytemuck::{Pod, Zeroable};
use half::bf16;

use super::{
    Traffic, Unsupported,
    lengths::Lengths,
    rows::{Handover, Next, NormWeight, RowPlan},
};
use crate::driver::{DriverError, Gpu, Image, Kernel, Stream, View, ViewMut, image};

static IMAGE: Image = image!("residual_norm");
/// By [`Handover`], then without and with a norm on the branch, narrow and wide.
const ENTRIES: [[&str; 4]; 4] = [
    [
        "residual_norm_nothing",
        "residual_norm_nothing_wide",
        "residual_norm_nothing_post",
        "residual_norm_nothing_post_wide",
    ],
    [
        "residual_norm_plain",
        "residual_norm_plain_wide",
        "residual_norm_plain_post",
        "residual_norm_plain_post_wide",
    ],
    [
        "residual_norm_normed",
        "residual_norm_normed_wide",
        "residual_norm_normed_post",
        "residual_norm_normed_post_wide",
    ],
    [
        "residual_norm_gained",
        "residual_norm_gained_wide",
        "residual_norm_gained_post",
        "residual_norm_gained_post_wide",
    ],
];

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Token rows.
    pub rows: usize,
    /// Width of the residual stream.
    pub hidden: usize,
    /// What the next product reads.
    pub handover: Handover,
}

/// How it is done.
pub type Plan = RowPlan;

impl Problem {
    /// The plan for it.
    pub fn plan(&self) -> Result<Plan, Unsupported> {
        RowPlan::new("residual_norm", self.rows, self.hidden)
    }
}

/// The memory of one launch.
#[derive(Debug)]
pub struct Args<'a> {
    /// The residual stream, `[rows, hidden]`, changed in place.
    pub h: ViewMut<'a, f32>,
    /// The branch, `[rows, hidden]`.
    pub y: View<'a, bf16>,
    /// Norm on the branch before it is added.
    pub post: Option<NormWeight<'a>>,
    /// Multiplies the branch.
    pub scale: f32,
    /// What the next product reads.
    pub next: Next<'a>,
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct ResidualNormParams {
    h: u64,
    y: u64,
    post_weight: u64,
    weight: u64,
    x: u64,
    partials: u64,
    hidden: u32,
    partial_stride: u32,
    scale: f32,
    post_eps: f32,
    eps: f32,
    unused: u32,
}
const _: () = assert!(size_of::<ResidualNormParams>() == 72);

/// The kernels.
#[derive(Clone, Debug)]
pub struct ResidualNorm {
    kernels: Vec<[Kernel; 4]>,
}

impl ResidualNorm {
    /// Loads them.
    pub fn load(gpu: &Gpu) -> Result<ResidualNorm, DriverError> {
        let four = |[a, b, c, d]: [&'static str; 4]| {
            let kernel = |entry| gpu.kernel(&IMAGE, entry);
            Ok([kernel(a)?, kernel(b)?, kernel(c)?, kernel(d)?])
        };
        Ok(ResidualNorm {
            kernels: ENTRIES.into_iter().map(four).collect::<Result<_, DriverError>>()?,
        })
    }

    /// Queues one launch.
    #[allow(unsafe_code)]
    pub fn launch(&self, stream: &Stream, plan: &Plan, args: Args<'_>) -> Result<(), DriverError> {
        let (rows, hidden) = (plan.rows as usize, plan.hidden as usize);
        let lengths = Lengths::of("residual_norm")
            .at_least("h", args.h.len(), rows * hidden)
            .at_least("y", args.y.len(), rows * hidden)
            .at_least("post weight", args.post.map_or(hidden, |post| post.weight.len()), hidden);
        args.next.check(lengths, plan).check()?;
        if rows == 0 {
            return Ok(());
        }
        let next = args.next.params();
        let params = ResidualNormParams {
            h: args.h.address(),
            y: args.y.address(),
            post_weight: args.post.map_or(0, |post| post.weight.address()),
            weight: next.weight,
            x: next.x,
            partials: next.partials,
            hidden: plan.hidden,
            partial_stride: next.stride,
            scale: args.scale,
            post_eps: args.post.map_or(0.0, |post| post.eps),
            eps: next.eps,
            unused: 0,
        };
        let variant = 2 * usize::from(args.post.is_some()) + usize::from(plan.wide);
        let kernel = &self.kernels[args.next.handover() as usize][variant];
        // SAFETY: the struct mirrors the kernel's, and every view was found long enough above.
        unsafe { stream.launch(kernel, plan.shape(), &params) }
    }
}

/// What it moves.
pub fn traffic(problem: &Problem) -> Traffic {
    let written = if problem.handover == Handover::Nothing { 4 } else { 6 };
    let elements = problem.rows as u64 * problem.hidden as u64;
    Traffic { bytes: elements * (4 + 2 + written), flops: 4 * elements }
}

#[cfg(test)]
mod tests;
