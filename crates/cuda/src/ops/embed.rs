//! Token embedding, and what the first product reads of it. See `embed.cu`.

use bytemuck::{Pod, Zeroable};
use half::bf16;

use super::{
    Traffic, Unsupported,
    lengths::Lengths,
    rows::{Handover, Next, RowPlan},
};
use crate::driver::{DriverError, Gpu, Image, Kernel, Stream, View, ViewMut, image};

static IMAGE: Image = image!("embed");
/// By [`Handover`], then narrow and wide.
const ENTRIES: [[&str; 2]; 4] = [
    ["embed_nothing", "embed_nothing_wide"],
    ["embed_plain", "embed_plain_wide"],
    ["embed_normed", "embed_normed_wide"],
    ["embed_gained", "embed_gained_wide"],
];

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Problem {
    /// Token rows.
    pub rows: usize,
    /// Width of the residual stream.
    pub hidden: usize,
    /// Rows of the table.
    pub vocab: usize,
    /// What the first product reads.
    pub handover: Handover,
}

/// How it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    rows: RowPlan,
    vocab: u32,
}

impl Plan {
    /// The plan for a problem.
    pub fn new(problem: &Problem) -> Result<Plan, Unsupported> {
        let rows = RowPlan::new("embed", problem.rows, problem.hidden)?;
        let vocab = u32::try_from(problem.vocab).ok().filter(|vocab| (1..1 << 31).contains(vocab));
        let vocab = vocab.ok_or_else(|| Unsupported {
            operation: "embed",
            seen: format!("a table of {} rows", problem.vocab),
            requirement: "1 to 2^31 - 1".to_owned(),
        })?;
        Ok(Plan { rows, vocab })
    }
}

/// The memory of one launch.
#[derive(Debug)]
pub struct Args<'a> {
    /// `[rows]`: a token's id, or `-1 - output`: what that output of the step before sampled. Padding rows: 0.
    pub tokens: View<'a, i32>,
    /// What each output of the step before sampled.
    pub sampled: View<'a, i32>,
    /// `[vocab, hidden]`.
    pub table: View<'a, bf16>,
    /// Multiplies the table's rows.
    pub scale: f32,
    /// Rows that are given instead of looked up.
    pub given: Option<Given<'a>>,
    /// `[rows, hidden]`, written.
    pub h: ViewMut<'a, f32>,
    /// What the first product reads.
    pub next: Next<'a>,
}

/// Rows that are given instead of looked up. They are not scaled.
#[derive(Clone, Copy, Debug)]
pub struct Given<'a> {
    /// `[rows]`: which row of `values`, or -1: look it up. The caller has checked that they lie in `values`.
    pub rows: View<'a, i32>,
    /// `[n, hidden]`.
    pub values: View<'a, f32>,
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct EmbedParams {
    tokens: u64,
    sampled: u64,
    table: u64,
    given_rows: u64,
    given: u64,
    h: u64,
    weight: u64,
    x: u64,
    partials: u64,
    hidden: u32,
    vocab: u32,
    sampled_rows: u32,
    partial_stride: u32,
    scale: f32,
    eps: f32,
}
const _: () = assert!(size_of::<EmbedParams>() == 96);

/// The kernels.
#[derive(Clone, Debug)]
pub struct Embed {
    kernels: [[Kernel; 2]; 4],
}

impl Embed {
    /// Loads them.
    pub fn load(gpu: &Gpu) -> Result<Embed, DriverError> {
        let pair = |[narrow, wide]: [&'static str; 2]| {
            Ok([gpu.kernel(&IMAGE, narrow)?, gpu.kernel(&IMAGE, wide)?])
        };
        let [nothing, plain, normed, gained] = ENTRIES;
        Ok(Embed { kernels: [pair(nothing)?, pair(plain)?, pair(normed)?, pair(gained)?] })
    }

    /// Queues one launch.
    #[allow(unsafe_code)]
    pub fn launch(&self, stream: &Stream, plan: &Plan, args: Args<'_>) -> Result<(), DriverError> {
        let RowPlan { rows, hidden, wide, .. } = plan.rows;
        let elements = rows as usize * hidden as usize;
        let lengths = Lengths::of("embed")
            .at_least("tokens", args.tokens.len(), rows as usize)
            .at_least("table", args.table.len(), plan.vocab as usize * hidden as usize)
            .at_least("h", args.h.len(), elements)
            .at_least(
                "given rows",
                args.given.map_or(rows as usize, |given| given.rows.len()),
                rows as usize,
            );
        args.next.check(lengths, &plan.rows).check()?;
        if rows == 0 {
            return Ok(());
        }
        let next = args.next.params();
        let params = EmbedParams {
            tokens: args.tokens.address(),
            sampled: args.sampled.address(),
            table: args.table.address(),
            given_rows: args.given.map_or(0, |given| given.rows.address()),
            given: args.given.map_or(0, |given| given.values.address()),
            h: args.h.address(),
            weight: next.weight,
            x: next.x,
            partials: next.partials,
            hidden,
            vocab: plan.vocab,
            sampled_rows: args.sampled.len() as u32,
            partial_stride: next.stride,
            scale: args.scale,
            eps: next.eps,
        };
        let kernel = &self.kernels[args.next.handover() as usize][usize::from(wide)];
        // SAFETY: the struct mirrors the kernel's; every view was found long enough above, tokens outside the table are
        // read as row 0 by the kernel, and that given rows lie in their values is the promise of `Given::rows`.
        unsafe { stream.launch(kernel, plan.rows.shape(), &params) }
    }
}

/// What it moves.
pub fn traffic(problem: &Problem) -> Traffic {
    let written = if problem.handover == Handover::Nothing { 4 } else { 6 };
    let elements = problem.rows as u64 * problem.hidden as u64;
    Traffic { bytes: elements * (2 + written), flops: elements }
}

#[cfg(test)]
mod tests;
