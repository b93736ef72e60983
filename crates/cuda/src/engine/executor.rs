//! Computes steps: packs one, brings it to the device, and walks the layers, by a captured graph where it only decodes.

use std::ops::Range;

use runtime::batch::StepBatch;

use super::{
    buckets::bucket_of,
    layout::{Layout, Room, Shape},
    pack::{Block, Regimes, pack},
    work::{ITEM_WORDS, WorkError, fill_items, mixed},
};
use crate::{
    driver::{Buffer, DriverError, Event, Graph, Pinned, Stream, View},
    model::{
        buffers::Buffers,
        decoder::Decoder,
        forward::{AttentionWork, Forward, ForwardError},
        kv::KvArena,
    },
    ops::{
        Ops, attention_decode, attention_prefill, embed, finish_logits,
        gemm::{self, Output, Target},
        rms_norm,
        rows::NormWeight,
    },
};

/// Why a step was not computed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ExecuteError {
    /// The driver refused.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// No kernel does it; admission should have said so.
    #[error(transparent)]
    Forward(#[from] ForwardError),
    /// The step's lists could not be laid out.
    #[error(transparent)]
    Work(#[from] WorkError),
}

/// A decoder with its caches, and everything that computing a step takes.
#[derive(Debug)]
pub struct Executor {
    pub(super) stream: Stream,
    pub(super) ops: Ops,
    pub(super) decoder: Decoder,
    pub(super) kv: KvArena,
    pub(super) cache_layers: Vec<attention_prefill::CacheLayer>,
    pub(super) buffers: Buffers,
    pub(super) scratch: attention_decode::Scratch,
    /// The step block.
    pub(super) block: Buffer<u32>,
    /// What the last step's outputs sampled.
    pub(super) sampled: Buffer<i32>,
    pub(super) staging: Vec<Staging>,
    pub(super) buckets: Vec<Bucket>,
    pub(super) shape: Shape,
    pub(super) regimes: Regimes,
    /// Blocks of the longest sequence.
    pub(super) max_blocks: usize,
    /// Output rows that pass the head at a time.
    pub(super) output_rows: usize,
    pub(super) invariant: bool,
}

/// Host memory of one step in flight.
#[derive(Debug)]
pub struct Staging {
    pub(super) upload: Pinned,
    pub(super) done: Event,
}

/// A batch size that decodes by a captured graph.
#[derive(Debug)]
pub struct Bucket {
    pub(super) layout: Layout,
    /// For each kind of attention, the plan of its decoding.
    pub(super) plans: Vec<attention_decode::Plan>,
    pub(super) graph: Option<Graph>,
}

impl Executor {
    /// The decoder.
    pub fn decoder(&self) -> &Decoder {
        &self.decoder
    }

    /// The stream.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Captures every bucket's graph. Nothing is computed.
    pub fn capture(&mut self) -> Result<(), ExecuteError> {
        for index in 0..self.buckets.len() {
            let bucket = &self.buckets[index];
            let layout = bucket.layout.clone();
            let work: Vec<AttentionWork> = bucket
                .plans
                .iter()
                .zip(&layout.items)
                .map(|(plan, items)| AttentionWork {
                    decode: Some((*plan, items.clone())),
                    prefill: None,
                })
                .collect();
            let parts = Parts::of(self);
            let graph = Graph::capture(parts.stream, |_| parts.forward(&layout, &work, None))?;
            self.buckets[index].graph = Some(graph);
        }
        Ok(())
    }

    /// Queues a checked step up to the residual stream after the last layer; the layout says where its outputs' rows are.
    pub fn forward(&mut self, batch: &StepBatch, staging: usize) -> Result<Layout, ExecuteError> {
        for copy in &batch.block_copies {
            let (from, to) = (copy.from.0 as usize, copy.to.0 as usize);
            self.kv.copy_block(&self.stream, copy.group as usize, from, to)?;
        }
        let decodes =
            batch.embeddings.is_empty() && batch.runs.iter().all(|run| run.rows.len() == 1);
        let sizes: Vec<usize> = self.buckets.iter().map(|bucket| bucket.layout.room.rows).collect();
        match bucket_of(&sizes, batch.runs.len()).filter(|_| decodes) {
            Some(bucket) => self.decode(batch, staging, bucket),
            None => self.mixed(batch, staging),
        }
    }

    fn decode(
        &mut self,
        batch: &StepBatch,
        staging: usize,
        bucket: usize,
    ) -> Result<Layout, ExecuteError> {
        let Bucket { layout, plans, .. } = &self.buckets[bucket];
        let words = bytemuck::cast_slice_mut(self.staging[staging].upload.bytes_mut());
        let mut block = Block::new(words, layout);
        pack(batch, layout, &self.regimes, &mut block).map_err(WorkError::from)?;
        for ((kind, plan), items) in self.decoder.attentions.iter().zip(plans).zip(&layout.items) {
            let items = items.start..items.start + plan.items() * ITEM_WORDS;
            fill_items(batch, kind, plan, layout, &items, &mut block)?;
        }
        let (used, layout) = (block.used(), layout.clone());
        self.upload(staging, used)?;
        match &self.buckets[bucket].graph {
            Some(graph) => graph.launch(&self.stream)?,
            None => {
                let work: Vec<AttentionWork> = self.buckets[bucket]
                    .plans
                    .iter()
                    .zip(&layout.items)
                    .map(|(plan, items)| AttentionWork {
                        decode: Some((*plan, items.clone())),
                        prefill: None,
                    })
                    .collect();
                Parts::of(self).forward(&layout, &work, None)?;
            }
        }
        Ok(layout)
    }

    fn mixed(&mut self, batch: &StepBatch, staging: usize) -> Result<Layout, ExecuteError> {
        let room = Room {
            rows: batch.tokens.len(),
            sequences: batch.runs.len(),
            outputs: batch.outputs.len(),
        };
        let layout = Layout::new(Shape { item_words: 0, ..self.shape }, room);
        let words = bytemuck::cast_slice_mut(self.staging[staging].upload.bytes_mut());
        let mut block = Block::new(words, &layout);
        pack(batch, &layout, &self.regimes, &mut block).map_err(WorkError::from)?;
        let limits = self.stream.gpu().limits();
        let mut work = Vec::new();
        for kind in &self.decoder.attentions {
            work.push(mixed(
                batch,
                kind,
                &layout,
                self.max_blocks,
                self.invariant,
                limits,
                &mut block,
            )?);
        }
        let given = pack_given(batch, &layout, &mut block)?;
        let used = block.used();
        self.upload(staging, used)?;
        Parts::of(self).forward(&layout, &work, given)?;
        Ok(layout)
    }

    #[expect(unsafe_code)]
    fn upload(&mut self, staging: usize, words: usize) -> Result<(), DriverError> {
        let (from, to) = (&self.staging[staging].upload, self.block.view_mut().slice(0..words));
        // SAFETY: the staging memory is written again only after its step has been waited for; the block lives with the stream.
        unsafe { self.stream.upload_async(from, 0, words * size_of::<u32>(), to.address()) }
    }

    /// Queues final norm and head for some of the outputs; the logits lie in the first rows of the buffer.
    pub fn outputs(
        &mut self,
        layout: &Layout,
        range: Range<usize>,
        full: bool,
    ) -> Result<(), ExecuteError> {
        let Executor { stream, ops, decoder, buffers, block, .. } = self;
        let (rows, hidden) = (range.len(), decoder.semantic.hidden_size);
        let at = layout.output_rows.start;
        let final_norm = NormWeight {
            weight: decoder.vector(decoder.weights.parts.final_norm),
            eps: decoder.semantic.final_norm.eps,
        };
        let args = rms_norm::Args {
            h: buffers.h.view(),
            rows: Some(block.view().slice(at + range.start..at + range.end).cast()),
            norm: final_norm,
            x: Some(buffers.last.view_mut()),
            full: full.then(|| buffers.full.view_mut()),
        };
        let plan = rms_norm::Problem { rows, hidden }.plan().map_err(ForwardError::from)?;
        ops.rms_norm.launch(stream, &plan, args)?;
        let head = decoder.head_rows();
        let stride = head.len() / hidden;
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
            w: head,
            bias: None,
            y: Target::F32(buffers.logits.view_mut().slice(0..rows * stride)),
            live_rows: None,
        };
        let plan = ops.gemm.plan(&problem).map_err(ForwardError::from)?;
        ops.gemm.launch(stream, &plan, args)?;
        let problem = finish_logits::Problem {
            rows,
            vocab: decoder.semantic.vocab_size,
            stride,
            scale: decoder.semantic.head.logit_scale,
            softcap: decoder.semantic.head.softcap,
        };
        let plan = finish_logits::Plan::new(&problem).map_err(ForwardError::from)?;
        if !plan.is_identity() {
            let args = finish_logits::Args {
                logits: buffers.logits.view_mut(),
                rows: block.view().slice(layout.counts.clone()).slice(2..3),
            };
            ops.finish_logits.launch(stream, &plan, args)?;
        }
        Ok(())
    }

    /// Marks the end of the step's work.
    pub fn mark(&self, staging: usize) -> Result<(), DriverError> {
        self.staging[staging].done.record(&self.stream)
    }

    /// A row of logits of the last [`Executor::outputs`]; waits for it.
    pub fn logits(&self, row: usize) -> Result<Vec<f32>, DriverError> {
        let stride = self.decoder.head_rows().len() / self.decoder.semantic.hidden_size;
        let at = row * stride;
        self.stream
            .read(self.buffers.logits.view().slice(at..at + self.decoder.semantic.vocab_size))
    }

    /// A row of normed hidden states of the last [`Executor::outputs`]; waits for it.
    pub fn hidden(&self, row: usize) -> Result<Vec<f32>, DriverError> {
        let hidden = self.decoder.semantic.hidden_size;
        self.stream.read(self.buffers.full.view().slice(row * hidden..(row + 1) * hidden))
    }
}

/// An executor's parts, so that a walk can borrow some to read and some to write.
struct Parts<'a> {
    stream: &'a Stream,
    ops: &'a Ops,
    decoder: &'a Decoder,
    kv: &'a mut KvArena,
    cache_layers: &'a [attention_prefill::CacheLayer],
    buffers: &'a mut Buffers,
    scratch: &'a mut attention_decode::Scratch,
    block: View<'a, u32>,
    sampled: View<'a, i32>,
    invariant: bool,
}

impl<'a> Parts<'a> {
    fn of(executor: &'a mut Executor) -> Parts<'a> {
        Parts {
            stream: &executor.stream,
            ops: &executor.ops,
            decoder: &executor.decoder,
            kv: &mut executor.kv,
            cache_layers: &executor.cache_layers,
            buffers: &mut executor.buffers,
            scratch: &mut executor.scratch,
            block: executor.block.view(),
            sampled: executor.sampled.view(),
            invariant: executor.invariant,
        }
    }

    fn forward(
        self,
        layout: &Layout,
        work: &[AttentionWork],
        given: Option<(Range<usize>, Range<usize>)>,
    ) -> Result<(), ForwardError> {
        let forward = Forward {
            ops: self.ops,
            decoder: self.decoder,
            stream: self.stream,
            layout,
            block: self.block,
            sampled: self.sampled,
            given: given.map(|(rows, values)| embed::Given {
                rows: self.block.slice(rows).cast(),
                values: self.block.slice(values).cast(),
            }),
            work,
            cache_layers: self.cache_layers,
            invariant: self.invariant,
        };
        forward.run(self.buffers, self.kv, self.scratch)
    }
}

/// Where the given embeddings' row numbers and values lie in the step block.
fn pack_given(
    batch: &StepBatch,
    layout: &Layout,
    block: &mut Block<'_>,
) -> Result<Option<(Range<usize>, Range<usize>)>, WorkError> {
    if batch.embeddings.is_empty() {
        return Ok(None);
    }
    let rows = block.reserve(layout.room.rows)?;
    block.array(&rows).fill(-1i32 as u32);
    let count: usize = batch.embeddings.iter().map(|given| given.values.len()).sum();
    let values = block.reserve(count)?;
    let (mut next_row, mut next_value) = (0, values.start);
    for given in &batch.embeddings {
        for row in given.rows.clone() {
            block.array(&rows)[row as usize] = next_row;
            next_row += 1;
        }
        let range = next_value..next_value + given.values.len();
        block.array(&range).copy_from_slice(bytemuck::cast_slice(&given.values));
        next_value = range.end;
    }
    Ok(Some((rows, values)))
}
