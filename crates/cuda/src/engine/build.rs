//! From loaded weights to a runner: caches, buffers, buckets, captured graphs.

use std::sync::Arc;

use foundation::DType;
use models::semantic::DecoderSemantic;
use runtime::backend::{HostTier, KvGroupSpec, LoadOptions, MemoryPlan, RunnerSpec};

use super::{
    buckets::{VerifyBucket, decode_buckets, verify_buckets},
    copies::HostCopies,
    executor::{Bucket, ExecuteError, Executor, Staging},
    layout::{Layout, Room, Shape},
    outputs::{Results, SAMPLING_WORDS, SamplingRoom, SamplingState},
    pack::{BLOCK_SIZE, Regimes},
    products::{self, Products},
    runner::CudaRunner,
    work::{ITEM_WORDS, TILE_WORDS},
};
use crate::{
    driver::{Event, Gpu, Pinned, Stream},
    model::{
        buffers::{Buffers, Heights, Widths},
        decoder::{Decoder, Lowered, lower},
        forward::{ForwardError, Scratch},
        kv::{KvArena, KvFormat},
    },
    ops::{Ops, attention_decode, attention_prefill},
    plan::{kv_groups, output_rows},
    weights::DeviceWeights,
};

/// Steps that may be queued and not yet waited for.
const IN_FLIGHT: usize = 2;
/// Words that the lists of one row's sampling may take beside a bitmask: biases, forbidden tokens.
pub(crate) const LIST_WORDS: usize = 8192;

/// What a runner is made of.
#[derive(Debug)]
pub struct Parts {
    /// The device.
    pub gpu: Arc<Gpu>,
    /// What the decoder means.
    pub semantic: DecoderSemantic,
    /// Its weights.
    pub weights: DeviceWeights,
    /// What it may take.
    pub plan: MemoryPlan,
    /// How it is to run.
    pub options: LoadOptions,
    /// How keys and values are stored.
    pub kv_format: KvFormat,
    /// Results of a row do not depend on the other rows.
    pub invariant: bool,
    /// Whether decode steps replay captured graphs.
    pub graphs: bool,
    /// How the ways of large products are chosen.
    pub products: Products,
}

/// Makes it ready to run.
pub fn build(parts: Parts) -> Result<CudaRunner, ExecuteError> {
    let spec = runner_spec(&parts);
    let Parts { gpu, semantic, weights, plan, options, kv_format, invariant, graphs, products } =
        parts;
    let stream = Stream::new(&gpu)?;
    let lowered = lower(&semantic, kv_format);
    let max_blocks = plan.max_sequence_tokens.div_ceil(BLOCK_SIZE);
    let sequences = options.max_step_sequences;
    // Batch-invariant rows go another way, whatever their number.
    let sizes = match invariant {
        true => Vec::new(),
        false => decode_buckets(sequences.min(options.max_step_tokens)),
    };
    let shape = Shape {
        groups: spec.kv_groups.len(),
        ropes: lowered.ropes.len(),
        sampling_words: SAMPLING_WORDS,
        kinds: lowered.attentions.len(),
        item_words: 0,
    };
    let mut buckets = sizes
        .into_iter()
        .map(|size| bucket(size, shape, &lowered, max_blocks, invariant, &gpu))
        .collect::<Result<Vec<Bucket>, _>>()?;
    if options.draft_tokens > 0 && !invariant {
        buckets.extend(verifying(&options, shape, &lowered, max_blocks, &gpu)?);
    }
    let kv = KvArena::new(&gpu, &semantic, &plan.kv_blocks, kv_format)?;
    let copies = spec.host.as_ref().map(|tier| HostCopies::new(&gpu, &kv, &tier.slots));
    let copies = copies.transpose()?;
    let cache_layers = cache_layers(&kv, &lowered)?;
    let output_rows = output_rows(sequences);
    let widths = Widths::of(&lowered.layers, semantic.hidden_size, semantic.vocab_size);
    let heights = Heights { rows: options.max_step_tokens, outputs: output_rows };
    let mixed = match invariant {
        true => Vec::new(),
        false => mixed_plans(&lowered, sequences.min(options.max_step_tokens), max_blocks, &gpu)?,
    };
    let plans = || buckets.iter().flat_map(|bucket| &bucket.plans).chain(&mixed);
    let widest = lowered.attentions.iter().map(|kind| kind.heads.head_dim).max().unwrap_or(0);
    let scratch = Scratch {
        decode: attention_decode::Scratch::new(&stream, plans())?,
        prefill: attention_prefill::Scratch::new(&stream, if invariant { 0 } else { widest })?,
    };
    let items = plans().map(|plan| plan.items() * ITEM_WORDS).max().unwrap_or(0);
    let heads = lowered.attentions.iter().map(|kind| kind.heads.heads).max().unwrap_or(0);
    let words = block_words(shape, &buckets, items, heads, &options, &plan, &semantic);
    let regimes = Regimes::new(semantic.regime_thresholds(), &lowered.ropes);
    let outputs = options.max_step_tokens.max(sequences);
    let staging = (0..spec.max_in_flight)
        .map(|_| staging(&gpu, words, outputs))
        .collect::<Result<Vec<Staging>, ExecuteError>>()?;
    let room = SamplingRoom {
        slots: sequences,
        outputs,
        chunk: output_rows,
        vocab: semantic.vocab_size,
        stride: widths.logits_stride(),
        hidden: widths.hidden,
    };
    let state = SamplingState::new(&stream, room)?;
    let mut executor = Executor {
        copies,
        ops: Ops::load(&gpu)?,
        decoder: Decoder::new(&stream, semantic, lowered, weights)?,
        kv,
        cache_layers,
        buffers: Buffers::new(&gpu, widths, heights)?,
        scratch,
        block: gpu.alloc(words)?,
        state,
        staging,
        buckets,
        shape,
        regimes,
        max_blocks,
        output_rows,
        slots: sequences,
        invariant,
        stream,
    };
    if let Products::Timed { folder } = products
        && !invariant
    {
        let Executor { ops, decoder, buffers, stream, .. } = &mut executor;
        let rows = options.max_step_tokens;
        let report = products::choose(&mut ops.gemm, decoder, buffers, stream, rows, folder)?;
        tracing::info!("{report}");
    }
    if !invariant {
        executor.plan_small();
    }
    if graphs {
        executor.capture()?;
    }
    executor.stream.synchronize()?;
    Ok(CudaRunner::new(spec, executor))
}

fn runner_spec(parts: &Parts) -> RunnerSpec {
    let Parts { semantic, plan, options, kv_format, .. } = parts;
    let groups = semantic.kv_groups().into_iter().zip(&plan.kv_blocks);
    RunnerSpec {
        vocab_size: semantic.vocab_size,
        hidden_size: semantic.hidden_size,
        max_sequence_tokens: plan.max_sequence_tokens,
        max_step_tokens: options.max_step_tokens,
        max_step_sequences: options.max_step_sequences,
        block_size: BLOCK_SIZE,
        kv_groups: groups
            .map(|(group, blocks)| KvGroupSpec { window: group.window, blocks: *blocks })
            .collect(),
        regime_thresholds: semantic.regime_thresholds(),
        mixes_prefill_and_decode: true,
        max_in_flight: IN_FLIGHT,
        rewinds: true,
        host: host_tier(parts),
        kv_dtype: match kv_format {
            KvFormat::Bf16 => DType::BF16,
            KvFormat::Fp8 => DType::F8E4M3,
        },
    }
}

/// Room on the host for blocks that leave the device, where it was asked for and a block fits.
fn host_tier(parts: &Parts) -> Option<HostTier> {
    let slots = parts.plan.host_blocks.clone();
    let block_bytes = block_bytes(&parts.semantic, parts.kv_format);
    slots.iter().any(|slots| *slots > 0).then_some(HostTier { slots, block_bytes })
}

/// What a block of each KV group takes, all layers together.
fn block_bytes(semantic: &DecoderSemantic, format: KvFormat) -> Vec<u64> {
    let groups = kv_groups(semantic, format).into_iter();
    groups.map(|group| group.bytes_per_token * BLOCK_SIZE as u64).collect()
}

fn bucket(
    size: usize,
    shape: Shape,
    lowered: &Lowered,
    max_blocks: usize,
    invariant: bool,
    gpu: &Gpu,
) -> Result<Bucket, ExecuteError> {
    let plans = lowered.attentions.iter().map(|kind| {
        attention_decode::Plan::new(&kind.decode(size, max_blocks, invariant, true), gpu.limits())
    });
    let plans = plans.collect::<Result<Vec<_>, _>>().map_err(ForwardError::from)?;
    Ok(Bucket::new(plans, shape, Room { rows: size, sequences: size, outputs: size }))
}

/// Buckets for steps that verify guesses.
fn verifying(
    options: &LoadOptions,
    shape: Shape,
    lowered: &Lowered,
    max_blocks: usize,
    gpu: &Gpu,
) -> Result<Vec<Bucket>, ExecuteError> {
    let queries = (options.draft_tokens + 1).min(attention_decode::MOST_QUERIES);
    let sizes = verify_buckets(queries, options.max_step_sequences, options.max_step_tokens);
    let bucket = |size: VerifyBucket| {
        let plans = lowered.attentions.iter().map(|kind| {
            let problem = kind.verify(size.sequences, queries, max_blocks);
            attention_decode::Plan::new(&problem, gpu.limits())
        });
        let plans = plans.collect::<Result<Vec<_>, _>>().map_err(ForwardError::from)?;
        let VerifyBucket { sequences, rows } = size;
        Ok(Bucket::new(plans, shape, Room { rows, sequences, outputs: rows }))
    };
    sizes.into_iter().map(bucket).collect()
}

/// The plans of decoding that mixed steps make as they come, for every number of sequences: one may be beyond the largest bucket,
/// and what the most of them takes is not always the most.
fn mixed_plans(
    lowered: &Lowered,
    most: usize,
    max_blocks: usize,
    gpu: &Gpu,
) -> Result<Vec<attention_decode::Plan>, ExecuteError> {
    let problems = lowered.attentions.iter().flat_map(|kind| {
        (1..=most).map(move |sequences| kind.decode(sequences, max_blocks, false, false))
    });
    let plans = problems.map(|problem| attention_decode::Plan::new(&problem, gpu.limits()));
    Ok(plans.collect::<Result<Vec<_>, _>>().map_err(ForwardError::from)?)
}

fn cache_layers(
    kv: &KvArena,
    lowered: &Lowered,
) -> Result<Vec<attention_prefill::CacheLayer>, ExecuteError> {
    let layers = kv.layers.iter().zip(&lowered.layers).enumerate();
    let layer = |(index, (layer, lowered_layer)): (usize, (&crate::model::kv::KvLayer, _))| {
        let lowered_layer: &crate::model::decoder::Layer = lowered_layer;
        attention_prefill::CacheLayer::new(
            &lowered.attentions[lowered_layer.kind].prefill(),
            kv.layer(index).address(),
            layer.block_bytes,
            layer.blocks,
        )
    };
    Ok(layers.map(layer).collect::<Result<Vec<_>, _>>()?)
}

/// What a step in flight needs on the host: its block of `words`, room for `outputs` answers.
fn staging(gpu: &Arc<Gpu>, words: usize, outputs: usize) -> Result<Staging, ExecuteError> {
    Ok(Staging {
        upload: Pinned::new(gpu, words * 4)?,
        results: Results::new(gpu, outputs)?,
        done: Event::untimed(gpu)?,
    })
}

/// Words of the largest step block: the fixed part of the largest mixed step or bucket, and every list at its longest. A kind of
/// attention's list of work takes up to `items`.
fn block_words(
    shape: Shape,
    buckets: &[Bucket],
    items: usize,
    heads: usize,
    options: &LoadOptions,
    plan: &MemoryPlan,
    semantic: &DecoderSemantic,
) -> usize {
    let (rows, sequences) = (options.max_step_tokens, options.max_step_sequences);
    let mixed = Layout::new(shape, Room { rows, sequences, outputs: rows }).pool;
    let fixed = buckets.iter().map(|bucket| bucket.layout.pool).max().unwrap_or(0).max(mixed);
    let tables = shape.groups * sequences * plan.max_sequence_tokens.div_ceil(BLOCK_SIZE);
    let items = shape.kinds * items;
    // Tiles for each kind, parts of split ones included, and once more for the last layer's picked rows; given embeddings: a row
    // each.
    let tiles = attention_prefill::Plan::most_tiles(heads, rows, sequences) * TILE_WORDS;
    let tiles = (shape.kinds + 1) * (tiles + 4096) + rows;
    let lists = sequences * (semantic.vocab_size.div_ceil(32) + LIST_WORDS);
    let resets = sequences * plan.max_sequence_tokens;
    fixed + tables + items + tiles + lists + resets + rows * (semantic.hidden_size + 1) + 4096
}
