//! Root-mean-square norm of chosen rows: the final norm of packed outputs. See `rms_norm.cu`.

use bytemuck::{Pod, Zeroable};
use half::bf16;

use super::{
    Traffic, Unsupported,
    lengths::Lengths,
    rows::{NormWeight, RowPlan},
};
use crate::driver::{DriverError, Gpu, Image, Kernel, Stream, View, ViewMut, image};

static IMAGE: Image = image!("rms_norm");

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Rows that come out.
    pub rows: usize,
    /// Elements of a row.
    pub hidden: usize,
}

/// How it is done.
pub type Plan = RowPlan;

impl Problem {
    /// The plan for it.
    pub fn plan(&self) -> Result<Plan, Unsupported> {
        RowPlan::new("rms_norm", self.rows, self.hidden)
    }
}

/// The memory of one launch.
#[derive(Debug)]
pub struct Args<'a> {
    /// `[tokens, hidden]`.
    pub h: View<'a, f32>,
    /// `[rows]`: which row of `h` each comes from; negative: padding, nothing is written. `None`: row by row. The caller has
    /// checked that they lie in `h`.
    pub rows: Option<View<'a, i32>>,
    /// The norm.
    pub norm: NormWeight<'a>,
    /// `[rows, hidden]`, for the head.
    pub x: Option<ViewMut<'a, bf16>>,
    /// `[rows, hidden]`, for whoever wants hidden states.
    pub full: Option<ViewMut<'a, f32>>,
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct RmsNormParams {
    h: u64,
    rows: u64,
    weight: u64,
    x: u64,
    full: u64,
    hidden: u32,
    eps: f32,
}
const _: () = assert!(size_of::<RmsNormParams>() == 48);

/// The kernels.
#[derive(Clone, Debug)]
pub struct RmsNorm {
    narrow: Kernel,
    wide: Kernel,
}

impl RmsNorm {
    /// Loads them.
    pub fn load(gpu: &Gpu) -> Result<RmsNorm, DriverError> {
        Ok(RmsNorm {
            narrow: gpu.kernel(&IMAGE, "rms_norm")?,
            wide: gpu.kernel(&IMAGE, "rms_norm_wide")?,
        })
    }

    /// Queues one launch.
    #[allow(unsafe_code)]
    pub fn launch(&self, stream: &Stream, plan: &Plan, args: Args<'_>) -> Result<(), DriverError> {
        let (rows, hidden) = (plan.rows as usize, plan.hidden as usize);
        let elements = rows * hidden;
        let needed = if args.rows.is_some() { 0 } else { elements };
        Lengths::of("rms_norm")
            .at_least("h", args.h.len(), needed)
            .at_least("rows", args.rows.map_or(rows, |rows| rows.len()), rows)
            .at_least("weight", args.norm.weight.len(), hidden)
            .at_least("x", args.x.as_ref().map_or(elements, ViewMut::len), elements)
            .at_least("full", args.full.as_ref().map_or(elements, ViewMut::len), elements)
            .check()?;
        if rows == 0 {
            return Ok(());
        }
        let params = RmsNormParams {
            h: args.h.address(),
            rows: args.rows.map_or(0, |rows| rows.address()),
            weight: args.norm.weight.address(),
            x: args.x.as_ref().map_or(0, ViewMut::address),
            full: args.full.as_ref().map_or(0, ViewMut::address),
            hidden: plan.hidden,
            eps: args.norm.eps,
        };
        let kernel = if plan.wide { &self.wide } else { &self.narrow };
        // SAFETY: the struct mirrors the kernel's; every view was found long enough above, and that chosen rows lie in `h` is
        // the promise of `Args::rows`.
        unsafe { stream.launch(kernel, plan.shape(), &params) }
    }
}

/// What it moves, writing bf16 alone.
pub fn traffic(problem: &Problem) -> Traffic {
    let elements = problem.rows as u64 * problem.hidden as u64;
    Traffic { bytes: elements * 6, flops: 4 * elements }
}

#[cfg(test)]
mod tests;
