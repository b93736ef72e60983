//! What a head does to its logits: a scale, a soft cap. See `finish_logits.cu`.

use bytemuck::{Pod, Zeroable};

use super::{Traffic, Unsupported, lengths::Lengths};
use crate::driver::{DriverError, Gpu, Image, Kernel, Shape, Stream, View, ViewMut, image};

static IMAGE: Image = image!("finish_logits");
const THREADS: usize = 256;
/// Logits a thread changes.
const WIDTH: usize = 4;
/// Most blocks along the second axis of a grid.
const MOST_ROWS: usize = 65535;

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Problem {
    /// Rows, padding counted.
    pub rows: usize,
    /// Logits of a row.
    pub vocab: usize,
    /// Distance of two rows, in elements.
    pub stride: usize,
    /// Multiplies the logits.
    pub scale: f32,
    /// The cap, where there is one; not 0.
    pub softcap: Option<f32>,
}

/// How it is done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    problem: Problem,
}

impl Plan {
    /// The plan for a problem.
    pub fn new(problem: &Problem) -> Result<Plan, Unsupported> {
        let Problem { rows, vocab, stride, .. } = *problem;
        let fits = stride.is_multiple_of(WIDTH) && stride >= vocab && vocab <= 1 << 30;
        match fits && rows <= MOST_ROWS && problem.softcap != Some(0.0) {
            true => Ok(Plan { problem: *problem }),
            false => Err(Unsupported {
                operation: "finish_logits",
                seen: format!("{problem:?}"),
                requirement: format!(
                    "rows a multiple of {WIDTH} logits apart and not overlapping, at most {MOST_ROWS} of them, a cap that is not 0"
                ),
            }),
        }
    }

    /// Whether the head leaves its logits as they are, so that nothing needs to be launched.
    pub fn is_identity(&self) -> bool {
        self.problem.scale == 1.0 && self.problem.softcap.is_none()
    }
}

/// The memory of one launch.
#[derive(Debug)]
pub struct Args<'a> {
    /// `[rows, stride]`, changed in place.
    pub logits: ViewMut<'a, f32>,
    /// One number: how many of the rows are real.
    pub rows: View<'a, u32>,
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct FinishLogitsParams {
    logits: u64,
    rows: u64,
    stride: u64,
    vocab: u32,
    scale: f32,
    cap: f32,
    unused: u32,
}
const _: () = assert!(size_of::<FinishLogitsParams>() == 40);

/// The kernel.
#[derive(Clone, Debug)]
pub struct FinishLogits {
    kernel: Kernel,
}

impl FinishLogits {
    /// Loads it.
    pub fn load(gpu: &Gpu) -> Result<FinishLogits, DriverError> {
        Ok(FinishLogits { kernel: gpu.kernel(&IMAGE, "finish_logits")? })
    }

    /// Queues one launch; none where the logits stay as they are.
    #[allow(unsafe_code)]
    pub fn launch(&self, stream: &Stream, plan: &Plan, args: Args<'_>) -> Result<(), DriverError> {
        let Problem { rows, vocab, stride, scale, softcap } = plan.problem;
        Lengths::of("finish_logits")
            .at_least("logits", args.logits.len(), rows * stride)
            .at_least("rows", args.rows.len(), 1)
            .check()?;
        if rows == 0 || vocab == 0 || plan.is_identity() {
            return Ok(());
        }
        let blocks = vocab.div_ceil(WIDTH * THREADS) as u32;
        let shape = Shape { grid: [blocks, rows as u32, 1], ..Shape::linear(1, THREADS as u32) };
        let params = FinishLogitsParams {
            logits: args.logits.address(),
            rows: args.rows.address(),
            stride: stride as u64,
            vocab: vocab as u32,
            scale,
            cap: softcap.unwrap_or(0.0),
            unused: 0,
        };
        // SAFETY: the struct mirrors the kernel's; `rows` rows of `stride` were found in the view above, and a thread that
        // begins below `vocab` ends within the stride, which is a multiple of its width.
        unsafe { stream.launch(&self.kernel, shape, &params) }
    }
}

/// What it moves.
pub fn traffic(problem: &Problem) -> Traffic {
    let values = problem.rows as u64 * problem.vocab as u64;
    Traffic { bytes: 8 * values, flops: 8 * values }
}

#[cfg(test)]
mod tests;
