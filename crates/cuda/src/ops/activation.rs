//! Gated activation of an interleaved gate+up product. See `activation.cu`.

use bytemuck::{Pod, Zeroable};
use half::bf16;
use models::semantic::Activation as Function;

use super::{Traffic, Unsupported, lengths::Lengths};
use crate::driver::{DriverError, Gpu, Image, Kernel, Shape, Stream, View, ViewMut, image};

static IMAGE: Image = image!("activation");
/// Threads of a block, each with one group of columns.
const THREADS: u32 = 256;
/// Columns of a group.
const GROUP: usize = 8;

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Token rows.
    pub rows: usize,
    /// Width between the projections.
    pub intermediate: usize,
}

/// How it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    groups: u64,
    blocks: u32,
}

impl Plan {
    /// The plan for a problem.
    pub fn new(problem: &Problem) -> Result<Plan, Unsupported> {
        let unsupported = |requirement: &str| Unsupported {
            operation: "activation",
            seen: format!("{} rows of {} columns", problem.rows, problem.intermediate),
            requirement: requirement.to_owned(),
        };
        if !problem.intermediate.is_multiple_of(GROUP) {
            return Err(unsupported("a multiple of 8 columns"));
        }
        let groups = (problem.intermediate / GROUP).checked_mul(problem.rows);
        let groups = groups.ok_or_else(|| unsupported("a matrix that memory can hold"))? as u64;
        let blocks = i32::try_from(groups.div_ceil(u64::from(THREADS)));
        let blocks = blocks.map_err(|_| unsupported("at most 2^31 - 1 blocks of 2048 values"))?;
        Ok(Plan { groups, blocks: blocks as u32 })
    }
}

/// The memory of one launch.
#[derive(Debug)]
pub struct Args<'a> {
    /// The activation.
    pub function: Function,
    /// `[rows, 2 * intermediate]`: columns in groups of 8, a gate group before its up group.
    pub gate_up: View<'a, bf16>,
    /// `[rows, intermediate]`.
    pub a: ViewMut<'a, bf16>,
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct ActivationParams {
    gate_up: u64,
    a: u64,
    groups: u64,
}
const _: () = assert!(size_of::<ActivationParams>() == 24);

/// The kernels.
#[derive(Clone, Debug)]
pub struct Activation {
    silu: Kernel,
    gelu_tanh: Kernel,
    gelu_erf: Kernel,
}

impl Activation {
    /// Loads them.
    pub fn load(gpu: &Gpu) -> Result<Activation, DriverError> {
        Ok(Activation {
            silu: gpu.kernel(&IMAGE, "activation_silu")?,
            gelu_tanh: gpu.kernel(&IMAGE, "activation_gelu_tanh")?,
            gelu_erf: gpu.kernel(&IMAGE, "activation_gelu_erf")?,
        })
    }

    /// Queues one launch.
    #[allow(unsafe_code)]
    pub fn launch(&self, stream: &Stream, plan: &Plan, args: Args<'_>) -> Result<(), DriverError> {
        let values = plan.groups as usize * GROUP;
        Lengths::of("activation")
            .at_least("gate_up", args.gate_up.len(), 2 * values)
            .at_least("a", args.a.len(), values)
            .check()?;
        if plan.groups == 0 {
            return Ok(());
        }
        let kernel = match args.function {
            Function::Silu => &self.silu,
            Function::GeluTanh => &self.gelu_tanh,
            Function::GeluErf => &self.gelu_erf,
        };
        let params = ActivationParams {
            gate_up: args.gate_up.address(),
            a: args.a.address(),
            groups: plan.groups,
        };
        // SAFETY: the struct mirrors the kernel's, and both views were found long enough above.
        unsafe { stream.launch(kernel, Shape::linear(plan.blocks, THREADS), &params) }
    }
}

/// What it moves.
pub fn traffic(problem: &Problem) -> Traffic {
    let values = problem.rows as u64 * problem.intermediate as u64;
    Traffic { bytes: 6 * values, flops: 8 * values }
}

#[cfg(test)]
mod tests;
