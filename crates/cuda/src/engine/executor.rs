//! Computes steps: packs one, brings it to the device, and walks the layers, by a captured graph where it only decodes.

use std::ops::Range;

use runtime::batch::{Copied, CopyId, CopyWay, HostCopy, RowOutput, StepBatch};

use super::{
    copies::{HostCopies, NoHostMemory},
    layout::{Layout, Room, Shape},
    outputs::{
        Ending, Results, SamplingLimits, SamplingPlaces, SamplingState, live_outputs, read_values,
    },
    pack::{Block, Regimes, pack},
    work::{ITEM_WORDS, WorkError, fill_items, mixed, picked},
};
use crate::{
    driver::{Buffer, DriverError, Event, Graph, Pinned, Stream, View},
    model::{
        buffers::Buffers,
        decoder::Decoder,
        few::FewPlans,
        forward::{AttentionWork, Forward, ForwardError, Picked, Scratch},
        kv::KvArena,
        small::{FEW_ROWS, SmallPlans},
    },
    ops::{
        Ops, attention_decode, attention_prefill, embed,
        sample::{
            Stages,
            pack::{Copies, RowPlan},
        },
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
    /// The system has no memory for blocks that leave the device.
    #[error(transparent)]
    Host(#[from] NoHostMemory),
    /// The step's lists could not be laid out.
    #[error(transparent)]
    Work(#[from] WorkError),
}

/// A decoder with its caches, and everything that computing a step takes.
#[derive(Debug)]
pub struct Executor {
    /// Copies of blocks to and from the host, where there is room for them.
    pub(super) copies: Option<HostCopies>,
    pub(super) stream: Stream,
    pub(super) ops: Ops,
    pub(super) decoder: Decoder,
    pub(super) kv: KvArena,
    pub(super) cache_layers: Vec<attention_prefill::CacheLayer>,
    pub(super) buffers: Buffers,
    pub(super) scratch: Scratch,
    /// The step block.
    pub(super) block: Buffer<u32>,
    pub(super) state: SamplingState,
    pub(super) staging: Vec<Staging>,
    pub(super) buckets: Vec<Bucket>,
    pub(super) shape: Shape,
    pub(super) regimes: Regimes,
    /// Blocks of the longest sequence.
    pub(super) max_blocks: usize,
    /// Output rows that pass the head at a time.
    pub(super) output_rows: usize,
    /// Sequences that the model keeps state for.
    pub(super) slots: usize,
    pub(super) invariant: bool,
}

/// Host memory of one step in flight.
#[derive(Debug)]
pub struct Staging {
    pub(super) upload: Pinned,
    pub(super) results: Results,
    pub(super) done: Event,
}

/// A step that was queued: how its answers are to be read.
#[derive(Debug)]
pub struct Queued {
    staging: usize,
    plans: Vec<RowPlan>,
    /// What rows asked for beside their answers; the queueing waited for it.
    values: Vec<Vec<f32>>,
}

/// A batch size that decodes by a captured graph: one row of each sequence, or several.
#[derive(Debug)]
pub struct Bucket {
    pub(super) layout: Layout,
    /// Rows of a sequence, at most.
    pub(super) queries: usize,
    /// For each kind of attention, the plan of its decoding.
    pub(super) plans: Vec<attention_decode::Plan>,
    /// The plans of its products, where it is small enough for the walk over few rows.
    pub(super) small: Option<SmallPlans>,
    /// Where it is small enough, and that walk does not serve the decoder: the plans one by one.
    pub(super) few: Option<FewPlans>,
    pub(super) graph: Option<Graph>,
    /// The ends of steps whose rows are all greedy, or draw and no more.
    pub(super) endings: Vec<(Stages, Graph)>,
}

/// How the products of few rows are done; by default as those of many.
#[derive(Clone, Debug, Default)]
struct ProductPlans {
    small: Option<SmallPlans>,
    few: Option<FewPlans>,
}

/// The endings that are captured.
const CAPTURED: [Stages; 2] = [
    Stages { scans: false, draws: false, logprobs: false, counts: false },
    Stages { scans: false, draws: true, logprobs: false, counts: false },
];

impl Executor {
    /// The decoder.
    pub fn decoder(&self) -> &Decoder {
        &self.decoder
    }

    /// The stream.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Plans the walk over few rows for every bucket that can take it.
    pub fn plan_small(&mut self) {
        let limits = self.stream.gpu().limits();
        for bucket in &mut self.buckets {
            let rows = bucket.layout.room.rows;
            bucket.small = SmallPlans::new(&self.decoder, rows, limits);
            let wants_few = bucket.small.is_none() && rows <= FEW_ROWS;
            bucket.few = wants_few.then(|| FewPlans::new(&self.decoder, rows, limits));
        }
    }

    /// Captures every bucket's graphs. Nothing is computed.
    pub fn capture(&mut self) -> Result<(), ExecuteError> {
        for index in 0..self.buckets.len() {
            let layout = self.buckets[index].layout.clone();
            let (work, plans) = (self.buckets[index].work(), self.buckets[index].products());
            let parts = Parts::of(self);
            let graph = Graph::capture(parts.stream, |_| {
                let forward = parts.forward(&layout, &work, None, None, &plans);
                forward.map_err(ExecuteError::from)
            })?;
            self.buckets[index].graph = Some(graph);
            for stages in CAPTURED {
                let (ending, buffers, state) = self.ending(&layout);
                let (rows, length) = (0..layout.room.outputs, live_outputs(&layout));
                let graph = Graph::capture(ending.stream, |_| {
                    ending.run(rows, length, stages, false, buffers, state)
                })?;
                self.buckets[index].endings.push((stages, graph));
            }
        }
        Ok(())
    }

    /// Queues a checked step, answers on their way to the host included. `staging` is that of no step in flight.
    pub fn submit(&mut self, batch: &StepBatch, staging: usize) -> Result<Queued, ExecuteError> {
        for copy in &batch.block_copies {
            let (from, to) = (copy.from.0 as usize, copy.to.0 as usize);
            self.kv.copy_block(&self.stream, copy.group as usize, from, to)?;
        }
        let bucket = self.bucket(batch);
        let (layout, places) = match bucket {
            Some(bucket) => self.decode(batch, staging, bucket)?,
            None => self.mixed(batch, staging)?,
        };
        let values = self.end(&layout, &places, bucket)?;
        let rows = batch.outputs.len();
        if rows > 0 {
            let results = &self.staging[staging].results;
            results.fetch(&self.stream, &self.state, rows, places.stages.logprobs)?;
        }
        self.staging[staging].done.record(&self.stream)?;
        Ok(Queued { staging, plans: places.plans, values })
    }

    /// Queues copies of blocks to or from the host, behind the steps queued so far.
    pub fn copy(&mut self, way: CopyWay, copies: &[HostCopy]) -> Result<CopyId, ExecuteError> {
        let Some(tier) = &mut self.copies else {
            let text = format!("{} copies to or from the host, which has no room", copies.len());
            return Err(DriverError::Invalid(text).into());
        };
        Ok(tier.queue(way, copies, &self.stream, &self.kv)?)
    }

    /// Copies that have been made and not been told of.
    pub fn copied(&mut self) -> Result<Option<Copied>, ExecuteError> {
        Ok(self.copies.as_mut().map_or(Ok(None), HostCopies::ended)?)
    }

    /// Waits for a queued step and reads its answers.
    pub fn wait(&self, queued: &Queued) -> Result<Vec<RowOutput>, ExecuteError> {
        let staging = &self.staging[queued.staging];
        staging.done.synchronize()?;
        Ok(staging.results.read(&queued.plans, &queued.values))
    }

    /// The first bucket that holds the step, if it only decodes.
    fn bucket(&self, batch: &StepBatch) -> Option<usize> {
        let longest = batch.runs.iter().map(|run| run.rows.len()).max()?;
        let holds = |bucket: &Bucket| {
            let Room { rows, sequences, outputs } = bucket.layout.room;
            longest <= bucket.queries
                && batch.tokens.len() <= rows
                && batch.runs.len() <= sequences
                && batch.outputs.len() <= outputs
        };
        let decodes = !self.invariant && batch.embeddings.is_empty();
        self.buckets.iter().position(holds).filter(|_| decodes)
    }

    fn decode(
        &mut self,
        batch: &StepBatch,
        staging: usize,
        bucket: usize,
    ) -> Result<(Layout, SamplingPlaces), ExecuteError> {
        let sampling = self.sampling();
        let Bucket { layout, plans, .. } = &self.buckets[bucket];
        let words = bytemuck::cast_slice_mut(self.staging[staging].upload.bytes_mut());
        let mut block = Block::new(words, layout);
        pack(batch, layout, &self.regimes, &mut block).map_err(WorkError::from)?;
        for ((kind, plan), items) in self.decoder.attentions.iter().zip(plans).zip(&layout.items) {
            let items = items.start..items.start + plan.items() * ITEM_WORDS;
            fill_items(batch, kind, plan, layout, &items, &mut block)?;
        }
        let places = sampling.pack(batch, layout, &mut block).map_err(WorkError::from)?;
        let (used, layout) = (block.used(), layout.clone());
        self.upload(staging, used)?;
        match &self.buckets[bucket].graph {
            Some(graph) => graph.launch(&self.stream)?,
            None => {
                let (work, plans) = (self.buckets[bucket].work(), self.buckets[bucket].products());
                Parts::of(self).forward(&layout, &work, None, None, &plans)?;
            }
        }
        Ok((layout, places))
    }

    fn mixed(
        &mut self,
        batch: &StepBatch,
        staging: usize,
    ) -> Result<(Layout, SamplingPlaces), ExecuteError> {
        let room = Room {
            rows: batch.tokens.len(),
            sequences: batch.runs.len(),
            outputs: batch.outputs.len(),
        };
        let layout = Layout::new(Shape { item_words: 0, ..self.shape }, room);
        let sampling = self.sampling();
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
        // The picked rows of the stream change places through the room of the projection.
        let hidden = self.decoder.semantic.hidden_size;
        let has_room = self.buffers.qkv.len() >= 2 * batch.outputs.len() * hidden;
        let picked = match self.decoder.layers.last() {
            Some(last) if has_room => {
                let (kind, work) = (&self.decoder.attentions[last.kind], &work[last.kind]);
                picked(batch, kind, work, &layout, self.invariant, limits, &mut block)?
            }
            _ => None,
        };
        let given = pack_given(batch, &layout, &mut block)?;
        let places = sampling.pack(batch, &layout, &mut block).map_err(WorkError::from)?;
        let used = block.used();
        self.upload(staging, used)?;
        let plans = ProductPlans::default();
        Parts::of(self).forward(&layout, &work, picked.as_ref(), given, &plans)?;
        Ok((layout, places))
    }

    fn sampling(&self) -> SamplingLimits {
        SamplingLimits {
            vocab: self.decoder.semantic.vocab_size,
            slots: self.slots,
            chunk: self.output_rows,
        }
    }

    /// Queues norm, head and sampling of every output; gives the values that rows ask for beside their answers.
    fn end(
        &mut self,
        layout: &Layout,
        places: &SamplingPlaces,
        bucket: Option<usize>,
    ) -> Result<Vec<Vec<f32>>, ExecuteError> {
        if let Some((resets, tokens)) = &places.resets {
            let (ending, _, state) = self.ending(layout);
            ending.reset(resets, tokens, state)?;
        }
        let asks = |plan: &RowPlan| plan.copies != Copies::Nothing;
        if let Some(bucket) = bucket
            && !places.plans.iter().any(asks)
        {
            if places.plans.is_empty() {
                return Ok(Vec::new());
            }
            let mut captured = self.buckets[bucket].endings.iter();
            if let Some((_, graph)) = captured.find(|(stages, _)| *stages == places.stages) {
                graph.launch(&self.stream)?;
                return Ok(Vec::new());
            }
        }
        let mut values = Vec::new();
        for (chunk, length) in places.lengths.iter().enumerate() {
            let start = chunk * self.output_rows;
            let range = start..places.plans.len().min(start + self.output_rows);
            let plans = &places.plans[range.clone()];
            let full = plans.iter().any(|plan| plan.copies == Copies::Hidden);
            let (ending, buffers, state) = self.ending(layout);
            ending.run(range.clone(), *length, places.stages, full, buffers, state)?;
            if plans.iter().any(asks) {
                values.extend(read_values(&self.stream, &self.decoder, &self.buffers, plans)?);
            }
        }
        Ok(values)
    }

    fn ending<'a>(
        &'a mut self,
        layout: &'a Layout,
    ) -> (Ending<'a>, &'a mut Buffers, &'a mut SamplingState) {
        let ending = Ending {
            ops: &self.ops,
            decoder: &self.decoder,
            stream: &self.stream,
            layout,
            block: self.block.view(),
            invariant: self.invariant,
        };
        (ending, &mut self.buffers, &mut self.state)
    }

    #[expect(unsafe_code)]
    fn upload(&mut self, staging: usize, words: usize) -> Result<(), DriverError> {
        let (from, to) = (&self.staging[staging].upload, self.block.view_mut().slice(0..words));
        // SAFETY: the staging memory is written again only after its step has been waited for; the block lives with the stream.
        unsafe { self.stream.upload_async(from, 0, words * size_of::<u32>(), to.address()) }
    }
}

impl Bucket {
    /// How its products are done.
    fn products(&self) -> ProductPlans {
        ProductPlans { small: self.small.clone(), few: self.few.clone() }
    }

    /// A bucket whose attention is as `plans` say, with nothing captured.
    pub(super) fn new(plans: Vec<attention_decode::Plan>, shape: Shape, room: Room) -> Bucket {
        let item_words = plans.iter().map(|plan| plan.items() * ITEM_WORDS).max().unwrap_or(0);
        Bucket {
            layout: Layout::new(Shape { item_words, ..shape }, room),
            queries: plans.iter().map(attention_decode::Plan::queries).min().unwrap_or(1),
            plans,
            small: None,
            few: None,
            graph: None,
            endings: Vec::new(),
        }
    }

    /// The work of a step that only decodes.
    fn work(&self) -> Vec<AttentionWork> {
        let items = self.plans.iter().zip(&self.layout.items);
        let decode = |(plan, items): (&attention_decode::Plan, &Range<usize>)| AttentionWork {
            decode: Some((*plan, items.clone())),
            prefill: None,
        };
        items.map(decode).collect()
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
    scratch: &'a mut Scratch,
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
            sampled: executor.state.sampled.view(),
            invariant: executor.invariant,
        }
    }

    fn forward(
        self,
        layout: &Layout,
        work: &[AttentionWork],
        picked: Option<&Picked>,
        given: Option<GivenPlaces>,
        plans: &ProductPlans,
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
            picked,
            rows: layout.room.rows,
            cache_layers: self.cache_layers,
            invariant: self.invariant,
            few: plans.few.as_ref(),
        };
        match &plans.small {
            Some(plans) => forward.run_small(plans, self.buffers, self.kv, self.scratch),
            None => forward.run(self.buffers, self.kv, self.scratch),
        }
    }
}

/// Where given embeddings lie in the step block: row numbers, then values (words).
type GivenPlaces = (Range<usize>, Range<usize>);

/// Packs the given embeddings of a step, where it has some.
fn pack_given(
    batch: &StepBatch,
    layout: &Layout,
    block: &mut Block<'_>,
) -> Result<Option<GivenPlaces>, WorkError> {
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
