//! Sampling on the device: what `runtime::sampling::sample` and `score` mean, for all output rows of a step at once.
//!
//! [`pack`](pack::pack) turns the output rows of a step into plain structs, [`Sample::launch`] queues the kernels that the rows need,
//! [`RowPlan::answer`](pack::RowPlan::answer) turns what the device gave into the rows' outputs.

use bytemuck::Pod;

use super::lengths::Lengths;
use crate::driver::{DriverError, Gpu, Image, Kernel, Shape, Stream, View, ViewMut, image};

pub mod layout;
pub mod pack;
pub mod plan;

pub use layout::{Answer, Bias, CountReset, MOST_TOP, SampleRow};
pub use pack::{Packed, Resets, Stages, pack, pack_resets};
pub use plan::{MOST_TOKENS, Plan, Problem, traffic};

use layout::{CountResetParams, SampleParams};

static SCAN: Image = image!("sample_scan");
static DRAW: Image = image!("sample_draw");
static LOGPROBS: Image = image!("sample_logprobs");
static COUNTS: Image = image!("sample_counts");

/// Threads of a block, as the kernels are written.
const SCAN_THREADS: u32 = 512;
const DRAW_THREADS: u32 = 1024;
const SMALL_THREADS: u32 = 128;
/// Shared memory of the draw.
const DRAW_SHARED: u32 = 58 * 1024;
/// Counts that one block of a reset clears.
const RESET_CHUNK: usize = 16384;

/// The memory of one launch.
#[derive(Debug)]
pub struct Args<'a> {
    /// `[rows]`: what each row asks for.
    pub rows: View<'a, SampleRow>,
    /// One number: how many of the rows are real.
    pub row_count: View<'a, u32>,
    /// `[rows, stride]`, raw; rows with edits and without log-probabilities are changed in place.
    pub logits: ViewMut<'a, f32>,
    /// What the rows' ranges of biases refer to.
    pub bias: View<'a, Bias>,
    /// What the rows' ranges of forbidden tokens refer to.
    pub bans: View<'a, u32>,
    /// What the rows' ranges of mask words refer to.
    pub masks: View<'a, u32>,
    /// `[slots, stride]`: what each slot has seen.
    pub counts: ViewMut<'a, u32>,
    /// `[rows, parts]`: keys (see `argmax.cuh`) of the likeliest token of each part of a row, where the product that made the
    /// logits has them.
    pub argmax: Option<(View<'a, u64>, usize)>,
    /// [`Scratch::bytes`](plan::Scratch) of memory, 0 before the first launch.
    pub scratch: ViewMut<'a, u8>,
    /// `[rows]`, written: the token of each row, 0 where there is none. The next step's embedding reads it.
    pub sampled: ViewMut<'a, i32>,
    /// `[rows]`, written.
    pub answers: ViewMut<'a, Answer>,
    /// `[rows, MOST_TOP]`, written for rows that ask.
    pub top_tokens: ViewMut<'a, u32>,
    /// `[rows, MOST_TOP]`, written for rows that ask.
    pub top_logprobs: ViewMut<'a, f32>,
}

/// The kernels.
#[derive(Clone, Debug)]
pub struct Sample {
    scan: Kernel,
    argmax: Kernel,
    histogram: Kernel,
    draw: Kernel,
    logprobs: Kernel,
    count: Kernel,
    reset: Kernel,
}

impl Sample {
    /// Loads them.
    pub fn load(gpu: &Gpu) -> Result<Sample, DriverError> {
        Ok(Sample {
            scan: gpu.kernel(&SCAN, "sample_scan")?,
            argmax: gpu.kernel(&SCAN, "sample_argmax")?,
            histogram: gpu.kernel(&DRAW, "sample_histogram")?,
            draw: gpu.kernel(&DRAW, "sample_draw")?,
            logprobs: gpu.kernel(&LOGPROBS, "sample_logprobs")?,
            count: gpu.kernel(&COUNTS, "sample_count")?,
            reset: gpu.kernel(&COUNTS, "count_reset")?,
        })
    }

    /// Queues the kernels that the rows need, as `stages` says. A captured launch serves every step whose rows need no more.
    pub fn launch(
        &self,
        stream: &Stream,
        plan: &Plan,
        stages: Stages,
        args: Args<'_>,
    ) -> Result<(), DriverError> {
        let rows = plan.problem.rows;
        check(plan, stages, &args)?;
        if rows == 0 {
            return Ok(());
        }
        let params = params(plan, &args);
        let per_row = |threads| Shape::linear(rows as u32, threads);
        let per_chunk = Shape { grid: [plan.chunks, rows as u32, 1], ..per_row(SCAN_THREADS) };
        if args.argmax.is_some() && stages == Stages::default() {
            return run(stream, &self.argmax, per_row(SMALL_THREADS), &params);
        }
        run(stream, &self.scan, per_chunk, &params)?;
        if stages.draws {
            run(stream, &self.histogram, per_chunk, &params)?;
            let shape = Shape { shared: DRAW_SHARED, ..per_row(DRAW_THREADS) };
            run(stream, &self.draw, shape, &params)?;
        }
        if stages.logprobs {
            run(stream, &self.logprobs, per_row(DRAW_THREADS), &params)?;
        }
        if stages.counts {
            let blocks = (rows as u32).div_ceil(SMALL_THREADS);
            run(stream, &self.count, Shape::linear(blocks, SMALL_THREADS), &params)?;
        }
        Ok(())
    }

    /// Queues the resets of slots: before the step that they belong to is sampled. `tokens` is what their ranges refer to;
    /// [`pack_resets`] has checked them.
    #[allow(unsafe_code)]
    pub fn reset_counts(
        &self,
        stream: &Stream,
        resets: View<'_, CountReset>,
        tokens: View<'_, u32>,
        counts: ViewMut<'_, u32>,
        stride: usize,
    ) -> Result<(), DriverError> {
        if resets.is_empty() || stride == 0 {
            return Ok(());
        }
        let blocks = stride.div_ceil(RESET_CHUNK) as u32;
        let grid = [blocks, resets.len() as u32, 1];
        let params = CountResetParams {
            resets: resets.address(),
            tokens: tokens.address(),
            counts: counts.address(),
            stride: stride as u64,
        };
        let shape = Shape { grid, ..Shape::linear(1, SCAN_THREADS) };
        // SAFETY: the struct mirrors the kernel's; slots and ranges were checked by `pack_resets` against the numbers of slots and
        // tokens, and tokens beyond the stride are not counted by the kernel.
        unsafe { stream.launch(&self.reset, shape, &params) }
    }
}

#[allow(unsafe_code)]
fn run<P: Pod>(
    stream: &Stream,
    kernel: &Kernel,
    shape: Shape,
    params: &P,
) -> Result<(), DriverError> {
    // SAFETY: called with `SampleParams` alone, which mirrors the kernels'; `check` found every view long enough for the plan, and
    // the ranges, slots and tokens in the rows are those that `pack` made and checked.
    unsafe { stream.launch(kernel, shape, params) }
}

fn check(plan: &Plan, stages: Stages, args: &Args<'_>) -> Result<(), DriverError> {
    let Problem { rows, stride, .. } = plan.problem;
    let parts = args.argmax.as_ref().map_or(0, |(_, parts)| *parts);
    let keys = args.argmax.as_ref().map_or(0, |(keys, _)| keys.len());
    let tops = if stages.logprobs { rows * MOST_TOP } else { 0 };
    Lengths::of("sample")
        .at_least("rows", args.rows.len(), rows)
        .at_least("row_count", args.row_count.len(), 1)
        .at_least("logits", args.logits.len(), rows * stride)
        .at_least("counts", args.counts.len(), if stages.counts { stride } else { 0 })
        .at_least("argmax", keys, rows * parts)
        .at_least("scratch", args.scratch.len(), plan.scratch.bytes as usize)
        .at_least("sampled", args.sampled.len(), rows)
        .at_least("answers", args.answers.len(), rows)
        .at_least("top_tokens", args.top_tokens.len(), tops)
        .at_least("top_logprobs", args.top_logprobs.len(), tops)
        .require(args.logits.address().is_multiple_of(16), || "logits are not aligned".to_owned())
        .require(args.counts.address().is_multiple_of(16), || "counts are not aligned".to_owned())
        .require(args.scratch.address().is_multiple_of(256), || {
            "the scratch memory is not aligned to 256 bytes".to_owned()
        })
        .check()
}

fn params(plan: &Plan, args: &Args<'_>) -> SampleParams {
    let (scratch, offsets) = (args.scratch.address(), &plan.scratch);
    SampleParams {
        rows: args.rows.address(),
        row_count: args.row_count.address(),
        logits: args.logits.address(),
        bias: args.bias.address(),
        bans: args.bans.address(),
        masks: args.masks.address(),
        counts: args.counts.address(),
        argmax: args.argmax.as_ref().map_or(0, |(keys, _)| keys.address()),
        sampled: args.sampled.address(),
        answers: args.answers.address(),
        top_tokens: args.top_tokens.address(),
        top_logprobs: args.top_logprobs.address(),
        edited: scratch + offsets.edited,
        partials: scratch + offsets.partials,
        states: scratch + offsets.states,
        tickets: scratch + offsets.tickets,
        bin_weights: scratch + offsets.bin_weights,
        bin_counts: scratch + offsets.bin_counts,
        chunk_weights: scratch + offsets.chunk_weights,
        groups: scratch + offsets.groups,
        stride: plan.problem.stride as u64,
        vocab: plan.problem.vocab as u32,
        chunk: plan.chunk,
        chunks: plan.chunks,
        capacity: plan.capacity,
        argmax_parts: args.argmax.as_ref().map_or(0, |(_, parts)| *parts as u32),
        row_places: plan.problem.rows as u32,
    }
}

#[cfg(test)]
mod tests;
