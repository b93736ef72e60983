//! A bias added to the rows of a product that could not add it itself. See `add_bias.cu`.

use bytemuck::{Pod, Zeroable};
use half::bf16;

use super::{Traffic, Unsupported, lengths::Lengths};
use crate::driver::{DriverError, Gpu, Image, Kernel, Shape, Stream, View, ViewMut, image};

static IMAGE: Image = image!("add_bias");
const THREADS: usize = 256;
/// Columns a thread changes.
const WIDTH: usize = 8;
/// Most blocks along the second axis of a grid.
const MOST_ROWS: usize = 65535;

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Rows.
    pub rows: usize,
    /// Columns.
    pub columns: usize,
}

/// How it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    rows: u32,
    columns: u32,
}

impl Plan {
    /// The plan for a problem.
    pub fn new(problem: &Problem) -> Result<Plan, Unsupported> {
        let Problem { rows, columns } = *problem;
        let fits = columns.is_multiple_of(WIDTH) && columns <= 1 << 30 && rows <= MOST_ROWS;
        match fits {
            true => Ok(Plan { rows: rows as u32, columns: columns as u32 }),
            false => Err(Unsupported {
                operation: "add_bias",
                seen: format!("{rows} rows of {columns} columns"),
                requirement: format!("a multiple of {WIDTH} columns, at most {MOST_ROWS} rows"),
            }),
        }
    }
}

/// The memory of one launch.
#[derive(Debug)]
pub struct Args<'a> {
    /// `[rows, columns]`, changed in place.
    pub y: ViewMut<'a, bf16>,
    /// `[columns]`.
    pub bias: View<'a, f32>,
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct AddBiasParams {
    y: u64,
    bias: u64,
    columns: u32,
    unused: u32,
}
const _: () = assert!(size_of::<AddBiasParams>() == 24);

/// The kernel.
#[derive(Clone, Debug)]
pub struct AddBias {
    kernel: Kernel,
}

impl AddBias {
    /// Loads it.
    pub fn load(gpu: &Gpu) -> Result<AddBias, DriverError> {
        Ok(AddBias { kernel: gpu.kernel(&IMAGE, "add_bias")? })
    }

    /// Queues one launch.
    #[allow(unsafe_code)]
    pub fn launch(&self, stream: &Stream, plan: &Plan, args: Args<'_>) -> Result<(), DriverError> {
        let (rows, columns) = (plan.rows as usize, plan.columns as usize);
        Lengths::of("add_bias")
            .at_least("y", args.y.len(), rows * columns)
            .at_least("bias", args.bias.len(), columns)
            .check()?;
        if rows == 0 || columns == 0 {
            return Ok(());
        }
        let blocks = columns.div_ceil(WIDTH * THREADS) as u32;
        let shape = Shape { grid: [blocks, plan.rows, 1], ..Shape::linear(1, THREADS as u32) };
        let params = AddBiasParams {
            y: args.y.address(),
            bias: args.bias.address(),
            columns: plan.columns,
            unused: 0,
        };
        // SAFETY: the struct mirrors the kernel's, and both views were found long enough above.
        unsafe { stream.launch(&self.kernel, shape, &params) }
    }
}

/// What it moves.
pub fn traffic(problem: &Problem) -> Traffic {
    let values = problem.rows as u64 * problem.columns as u64;
    Traffic { bytes: 4 * values, flops: values }
}

#[cfg(test)]
mod tests;
