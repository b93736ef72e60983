//! The end of a step: the rows that somebody wants pass the final norm and the head, and are sampled on the device.

use std::{ops::Range, sync::Arc};

use runtime::batch::{RowOutput, StepBatch};

use super::{
    executor::ExecuteError,
    layout::{Count, Layout},
    pack::{Block, PoolFull},
};
use crate::{
    driver::{Buffer, DeviceLimits, DriverError, Gpu, Pinned, Stream, View},
    model::{buffers::Buffers, decoder::Decoder, forward::ForwardError},
    ops::{
        Ops, finish_logits,
        gemm::{self, Output, Target},
        rms_norm,
        rows::NormWeight,
        sample::{
            self, Answer, Bias, CountReset, MOST_TOP, Packed, SampleRow, Stages,
            pack::{Copies, RowPlan},
        },
        skinny,
    },
};

/// Words of one output row's sampling parameters.
pub const SAMPLING_WORDS: usize = size_of::<SampleRow>() / 4;

/// What sampling keeps on the device.
#[derive(Debug)]
pub struct SamplingState {
    /// What the outputs of the last step sampled; the next step's embedding reads it.
    pub sampled: Buffer<i32>,
    /// `[slots, logits_stride]`: what each slot has seen.
    counts: Buffer<u32>,
    /// Keys of the greatest logits of each block of a head for few rows.
    keys: Buffer<u64>,
    scratch: Buffer<u8>,
    answers: Buffer<Answer>,
    top_tokens: Buffer<u32>,
    top_logprobs: Buffer<f32>,
}

/// How many of everything [`SamplingState`] has room for.
#[derive(Clone, Copy, Debug)]
pub struct SamplingRoom {
    /// Slots.
    pub slots: usize,
    /// Output rows of a step.
    pub outputs: usize,
    /// Output rows that are sampled at a time.
    pub chunk: usize,
    /// Logits of a row.
    pub vocab: usize,
    /// Logits from row to row.
    pub stride: usize,
    /// Width of what the head reads.
    pub hidden: usize,
}

impl SamplingState {
    /// Room for `room`; nothing was seen.
    pub fn new(stream: &Stream, room: SamplingRoom) -> Result<SamplingState, ExecuteError> {
        let gpu: &Arc<Gpu> = stream.gpu();
        let problem = sample::Problem { rows: room.chunk, vocab: room.vocab, stride: room.stride };
        let mut state = SamplingState {
            sampled: gpu.alloc(room.outputs)?,
            counts: gpu.alloc(room.slots * room.stride)?,
            keys: gpu.alloc(most_keys(room, gpu.limits()))?,
            scratch: gpu.alloc(scratch_bytes(room.chunk, &problem, gpu)?)?,
            answers: gpu.alloc(room.outputs)?,
            top_tokens: gpu.alloc(room.outputs * MOST_TOP)?,
            top_logprobs: gpu.alloc(room.outputs * MOST_TOP)?,
        };
        stream.zero(state.sampled.view_mut())?;
        stream.zero(state.counts.view_mut())?;
        stream.zero(state.scratch.view_mut())?;
        Ok(state)
    }
}

/// The plan of a head for few rows, where there is a kernel for so few.
fn head_of_few(
    rows: usize,
    stride: usize,
    hidden: usize,
    limits: &DeviceLimits,
) -> Option<skinny::Plan> {
    let problem = skinny::Problem {
        rows,
        columns: stride,
        inner: hidden,
        ending: skinny::Ending::Logits,
        invariant: false,
    };
    skinny::Plan::new(&problem, limits).ok().filter(|_| rows <= skinny::MOST_ROWS)
}

/// The most keys that heads for few rows leave.
fn most_keys(room: SamplingRoom, limits: &DeviceLimits) -> usize {
    let keys = |rows| {
        head_of_few(rows, room.stride, room.hidden, limits).map_or(0, |plan| rows * plan.partials())
    };
    (1..=room.chunk.min(skinny::MOST_ROWS)).map(keys).max().unwrap_or(0)
}

/// The most that any smaller batch's plan takes: fewer rows are cut into more parts.
fn scratch_bytes(most: usize, problem: &sample::Problem, gpu: &Gpu) -> Result<usize, ExecuteError> {
    let mut bytes = 0;
    for rows in 1..=most {
        let plan = sample::Plan::new(&sample::Problem { rows, ..*problem }, gpu.limits());
        bytes = bytes.max(plan.map_err(ForwardError::from)?.scratch.bytes);
    }
    Ok(bytes as usize)
}

/// Where a step's sampling lies in the step block.
#[derive(Clone, Debug, Default)]
pub struct SamplingPlaces {
    /// For each chunk of outputs, the word that holds its length.
    pub lengths: Vec<usize>,
    /// Resets and the tokens they refer to (words).
    pub resets: Option<(Range<usize>, Range<usize>)>,
    /// The kernels that the rows need.
    pub stages: Stages,
    /// How each row's answer is read.
    pub plans: Vec<RowPlan>,
}

/// What packing needs to know of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SamplingLimits {
    /// Logits of a row.
    pub vocab: usize,
    /// Sequences that state is kept for.
    pub slots: usize,
    /// Output rows that are sampled at a time.
    pub chunk: usize,
}

impl SamplingLimits {
    /// Packs the sampling of all outputs: parameters into the fixed part, lists into the pool.
    pub fn pack(
        self,
        batch: &StepBatch,
        layout: &Layout,
        block: &mut Block<'_>,
    ) -> Result<SamplingPlaces, PoolFull> {
        let SamplingLimits { vocab, slots, chunk } = self;
        pack_sampling(batch, layout, vocab, slots, chunk, block)
    }
}

fn pack_sampling(
    batch: &StepBatch,
    layout: &Layout,
    vocab: usize,
    slots: usize,
    chunk: usize,
    block: &mut Block<'_>,
) -> Result<SamplingPlaces, PoolFull> {
    let Packed { mut rows, bias, bans, masks, stages, plans } =
        sample::pack(batch, 0..batch.outputs.len(), vocab);
    let bias_at = push_list(block, layout, bytemuck::cast_slice(&bias))?;
    let bans_at = push_list(block, layout, &bans)?;
    let masks_at = push_list(block, layout, &masks)?;
    for row in &mut rows {
        row.bias_start += bias_at / 2;
        row.ban_start += bans_at;
        row.mask_start += masks_at;
    }
    let target = block.array(&layout.sampling);
    target.fill(0);
    let words: &[u32] = bytemuck::cast_slice(&rows);
    target[..words.len()].copy_from_slice(words);
    let mut places = SamplingPlaces { stages, plans, ..SamplingPlaces::default() };
    for start in (0..rows.len()).step_by(chunk) {
        let at = block.reserve(1)?;
        block.array(&at)[0] = chunk.min(rows.len() - start) as u32;
        places.lengths.push(at.start);
    }
    if !batch.slot_resets.is_empty() {
        let resets = sample::pack_resets(batch, slots);
        let words: &[u32] = bytemuck::cast_slice(&resets.resets);
        let at = block.reserve(words.len())?;
        block.array(&at).copy_from_slice(words);
        let tokens = block.reserve(resets.tokens.len())?;
        block.array(&tokens).copy_from_slice(&resets.tokens);
        places.resets = Some((at, tokens));
    }
    Ok(places)
}

/// Where a list lies in the pool: words from its beginning, an even number.
fn push_list(block: &mut Block<'_>, layout: &Layout, words: &[u32]) -> Result<u32, PoolFull> {
    let range = block.reserve(words.len())?;
    block.array(&range).copy_from_slice(words);
    Ok((range.start - layout.pool) as u32)
}

/// What the end of a step borrows.
#[derive(Debug)]
pub struct Ending<'a> {
    /// The operations.
    pub ops: &'a Ops,
    /// The decoder.
    pub decoder: &'a Decoder,
    /// Where launches go.
    pub stream: &'a Stream,
    /// How the step block is laid out.
    pub layout: &'a Layout,
    /// The step block.
    pub block: View<'a, u32>,
    /// Results of a row do not depend on the other rows.
    pub invariant: bool,
}

impl Ending<'_> {
    /// Queues final norm, head and sampling of the outputs in `range`, whose live count is the word `length`.
    pub fn run(
        &self,
        range: Range<usize>,
        length: usize,
        stages: Stages,
        full: bool,
        buffers: &mut Buffers,
        state: &mut SamplingState,
    ) -> Result<(), ExecuteError> {
        let parts = self.head(range.clone(), length, full, buffers, &mut state.keys)?;
        self.sample(range, length, stages, parts, buffers, state)
    }

    /// Queues the resets of slots.
    pub fn reset(
        &self,
        resets: &Range<usize>,
        tokens: &Range<usize>,
        state: &mut SamplingState,
    ) -> Result<(), DriverError> {
        let stride = self.logits_stride();
        let resets: View<'_, CountReset> = self.block.slice(resets.clone()).cast();
        let tokens = self.block.slice(tokens.clone());
        self.ops.sample.reset_counts(self.stream, resets, tokens, state.counts.view_mut(), stride)
    }

    fn logits_stride(&self) -> usize {
        self.decoder.head_rows().len() / self.decoder.semantic.hidden_size
    }

    /// Gives how many keys of its greatest logits each row has now, if any.
    fn head(
        &self,
        range: Range<usize>,
        length: usize,
        full: bool,
        buffers: &mut Buffers,
        keys: &mut Buffer<u64>,
    ) -> Result<Option<usize>, ExecuteError> {
        let semantic = &self.decoder.semantic;
        let (rows, hidden) = (range.len(), semantic.hidden_size);
        let at = self.layout.output_rows.start;
        let args = rms_norm::Args {
            h: buffers.h.view(),
            rows: Some(self.block.slice(at + range.start..at + range.end).cast()),
            norm: NormWeight {
                weight: self.decoder.vector(self.decoder.weights.parts.final_norm),
                eps: semantic.final_norm.eps,
            },
            x: Some(buffers.last.view_mut()),
            full: full.then(|| buffers.full.view_mut()),
        };
        let plan = rms_norm::Problem { rows, hidden }.plan().map_err(ForwardError::from)?;
        self.ops.rms_norm.launch(self.stream, &plan, args)?;
        let limits = self.stream.gpu().limits();
        if let Some(plan) =
            head_of_few(rows, self.logits_stride(), hidden, limits).filter(|_| !self.invariant)
        {
            self.launch_head_of_few(&plan, rows, buffers, keys)?;
            return Ok(Some(plan.partials()));
        }
        let stride = self.logits_stride();
        let problem = gemm::Problem {
            rows: rows as u32,
            n: stride as u32,
            k: hidden as u32,
            bias: false,
            output: Output::F32,
            invariant: self.invariant,
        };
        let args = gemm::Args {
            x: buffers.last.view().slice(0..rows * hidden),
            w: self.decoder.head_rows(),
            bias: None,
            y: Target::F32(buffers.logits.view_mut().slice(0..rows * stride)),
            live_rows: None,
        };
        let plan = self.ops.gemm.plan(&problem).map_err(ForwardError::from)?;
        self.ops.gemm.launch(self.stream, &plan, args)?;
        let problem = finish_logits::Problem {
            rows,
            vocab: semantic.vocab_size,
            stride,
            scale: semantic.head.logit_scale,
            softcap: semantic.head.softcap,
        };
        let plan = finish_logits::Plan::new(&problem).map_err(ForwardError::from)?;
        if !plan.is_identity() {
            let args = finish_logits::Args {
                logits: buffers.logits.view_mut(),
                rows: self.block.slice(length..length + 1),
            };
            self.ops.finish_logits.launch(self.stream, &plan, args)?;
        }
        Ok(None)
    }

    fn launch_head_of_few(
        &self,
        plan: &skinny::Plan,
        rows: usize,
        buffers: &mut Buffers,
        keys: &mut Buffer<u64>,
    ) -> Result<(), ExecuteError> {
        let head = self.decoder.semantic.head;
        let stride = self.logits_stride();
        let args = skinny::Args {
            x: buffers.last.view(),
            x_stride: self.decoder.semantic.hidden_size,
            weight: self.decoder.head_rows(),
            bias: None,
            norm: None,
            output: skinny::Output::Logits {
                logits: buffers.logits.view_mut().slice(0..rows * stride),
                scale: head.logit_scale,
                softcap: head.softcap,
                best: Some(skinny::Best {
                    keys: keys.view_mut(),
                    columns: self.decoder.semantic.vocab_size,
                }),
            },
        };
        Ok(self.ops.skinny.launch(self.stream, plan, args)?)
    }

    fn sample(
        &self,
        range: Range<usize>,
        length: usize,
        stages: Stages,
        parts: Option<usize>,
        buffers: &mut Buffers,
        state: &mut SamplingState,
    ) -> Result<(), ExecuteError> {
        let rows = range.len();
        let problem = sample::Problem {
            rows,
            vocab: self.decoder.semantic.vocab_size,
            stride: self.logits_stride(),
        };
        let plan =
            sample::Plan::new(&problem, self.stream.gpu().limits()).map_err(ForwardError::from)?;
        let first = self.layout.sampling.start + range.start * SAMPLING_WORDS;
        let words = first..first + rows * SAMPLING_WORDS;
        let pool = self.block.slice(self.layout.pool..self.block.len());
        let even = pool.slice(0..pool.len() / 2 * 2);
        let tops = range.start * MOST_TOP..range.end * MOST_TOP;
        let args = sample::Args {
            rows: self.block.slice(words).cast(),
            row_count: self.block.slice(length..length + 1),
            logits: buffers.logits.view_mut(),
            bias: even.cast::<Bias>(),
            bans: pool,
            masks: pool,
            counts: state.counts.view_mut(),
            argmax: parts.map(|parts| (state.keys.view(), parts)),
            scratch: state.scratch.view_mut(),
            sampled: state.sampled.view_mut().slice(range.clone()),
            answers: state.answers.view_mut().slice(range.clone()),
            top_tokens: state.top_tokens.view_mut().slice(tops.clone()),
            top_logprobs: state.top_logprobs.view_mut().slice(tops),
        };
        Ok(self.ops.sample.launch(self.stream, &plan, stages, args)?)
    }
}

/// The word of a decode step's live outputs, which a captured ending reads.
pub fn live_outputs(layout: &Layout) -> usize {
    layout.counts.start + Count::Outputs as usize
}

/// A step's answers on their way to the host, in pinned memory: answers, then top tokens, then their log-probabilities.
#[derive(Debug)]
pub struct Results {
    memory: Pinned,
    outputs: usize,
}

impl Results {
    /// Room for `outputs` rows.
    pub fn new(gpu: &Arc<Gpu>, outputs: usize) -> Result<Results, DriverError> {
        let bytes = outputs * (size_of::<Answer>() + MOST_TOP * 8);
        Ok(Results { memory: Pinned::new(gpu, bytes)?, outputs })
    }

    /// Queues the copies for `rows` rows.
    #[expect(unsafe_code)]
    pub fn fetch(
        &self,
        stream: &Stream,
        state: &SamplingState,
        rows: usize,
        tops: bool,
    ) -> Result<(), DriverError> {
        let answers = rows * size_of::<Answer>();
        // SAFETY: read only after the step's event; the state lives as long as the stream's work.
        unsafe { stream.download_async(state.answers.address(), answers, &self.memory, 0)? };
        if tops {
            let bytes = rows * MOST_TOP * 4;
            let (tokens, logprobs) = (self.tops(), self.tops() + self.outputs * MOST_TOP * 4);
            // SAFETY: as above.
            unsafe {
                stream.download_async(state.top_tokens.address(), bytes, &self.memory, tokens)?;
                stream.download_async(
                    state.top_logprobs.address(),
                    bytes,
                    &self.memory,
                    logprobs,
                )?;
            }
        }
        Ok(())
    }

    fn tops(&self) -> usize {
        self.outputs * size_of::<Answer>()
    }

    /// The rows' outputs, once the copies are there. `values` holds what rows with [`Copies`] asked for.
    pub fn read(&self, plans: &[RowPlan], values: &[Vec<f32>]) -> Vec<RowOutput> {
        let bytes = self.memory.bytes();
        let answers: &[Answer] = bytemuck::cast_slice(&bytes[..self.tops()]);
        let (tokens, logprobs) = bytes[self.tops()..].split_at(self.outputs * MOST_TOP * 4);
        let tokens: &[u32] = bytemuck::cast_slice(tokens);
        let logprobs: &[f32] = bytemuck::cast_slice(logprobs);
        let mut values = values.iter();
        let row = |(index, plan): (usize, &RowPlan)| {
            let top = index * MOST_TOP..(index + 1) * MOST_TOP;
            let own = match plan.copies {
                Copies::Nothing => &[],
                _ => values.next().map_or(&[][..], Vec::as_slice),
            };
            plan.answer(&answers[index], &tokens[top.clone()], &logprobs[top], own)
        };
        plans.iter().enumerate().map(row).collect()
    }
}

/// What rows of `plans` ask for beside their answers, of the outputs in `range`; waits for it.
pub fn read_values(
    stream: &Stream,
    decoder: &Decoder,
    buffers: &Buffers,
    plans: &[RowPlan],
) -> Result<Vec<Vec<f32>>, DriverError> {
    let semantic = &decoder.semantic;
    let stride = decoder.head_rows().len() / semantic.hidden_size;
    let mut values = Vec::new();
    for (row, plan) in plans.iter().enumerate() {
        let (from, at, len) = match plan.copies {
            Copies::Nothing => continue,
            Copies::Logits => (&buffers.logits, row * stride, semantic.vocab_size),
            Copies::Hidden => (&buffers.full, row * semantic.hidden_size, semantic.hidden_size),
        };
        values.push(stream.read(from.view().slice(at..at + len))?);
    }
    Ok(values)
}
