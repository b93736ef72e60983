//! The memory plan: what a decoder needs on a device, and what the device leaves for its KV cache. Pure: made from the
//! contract, the options and two numbers of the driver, before a byte moves.

use foundation::{Bytes, DType, model::ModelManifest};
use models::{
    contract::DecoderExecutionContract,
    semantic::{DecoderSemantic, KvGroup, LayerSpec, Mixer},
};
use runtime::{
    backend::{LoadError, LoadOptions, MemoryPlan},
    memory::{KvGroupNeeds, MemoryBudget, MemoryNeeds},
};

use crate::{
    engine::{build::LIST_WORDS, pack::BLOCK_SIZE},
    layout::ArenaLayout,
    model::{
        buffers::{RoutingWidths, dense_width},
        kv::KvFormat,
    },
    ops::attention_prefill,
};

/// The part of a device's memory that a model may take unless told otherwise.
pub const MEMORY_FRACTION: f32 = 0.9;

/// Left free whatever was asked for: kernels' code, captured graphs and the driver's own tables come after the plan.
const RESERVE: Bytes = Bytes::mib(384);

/// Most blocks of a group: places of tokens are `i32` in a step.
const MOST_BLOCKS: usize = i32::MAX as usize / BLOCK_SIZE;

/// A device's memory as the driver tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceMemory {
    /// Built in.
    pub total: Bytes,
    /// Taken by nobody: by no other process and no other model.
    pub free: Bytes,
}

/// A decoder's place on a device.
#[derive(Clone, Debug, PartialEq)]
pub struct DevicePlan {
    /// What it takes.
    pub memory: MemoryPlan,
    /// Where each weight goes.
    pub layout: ArenaLayout,
    /// Activations and scratch.
    pub workspace: Workspace,
    /// How keys and values are kept.
    pub kv_format: KvFormat,
}

impl DeviceMemory {
    /// What a model may take: `fraction` of the device, of which everybody else's part is gone already.
    pub fn available(&self, fraction: f32) -> Bytes {
        let allowed = (self.total.0 as f64 * f64::from(fraction)) as u64;
        let used = self.total.0.saturating_sub(self.free.0);
        let free = self.free.0.saturating_sub(RESERVE.0);
        Bytes(allowed.saturating_sub(used).min(free))
    }
}

/// Plans the memory for a decoder that admission let in.
///
/// # Errors
/// [`LoadError::OutOfMemory`] with the numbers, or [`LoadError::Option`] for an option that cannot be.
pub fn plan(
    manifest: &ModelManifest,
    contract: &DecoderExecutionContract,
    options: &LoadOptions,
    device: DeviceMemory,
) -> Result<DevicePlan, LoadError> {
    let Needs { needs, layout, workspace, kv_format } = Needs::of(manifest, contract, options)?;
    let fraction = options.memory_fraction.unwrap_or(MEMORY_FRACTION);
    let available = device.available(fraction);
    let memory = needs.plan(options, MemoryBudget { available, kv: available });
    let memory = memory.map_err(|error| with_device(error, device, fraction))?;
    let memory = numbered(memory, &needs.kv_groups);
    Ok(DevicePlan { memory, layout, workspace, kv_format })
}

/// No more blocks than a step can number the tokens of.
fn numbered(mut memory: MemoryPlan, groups: &[KvGroupNeeds]) -> MemoryPlan {
    for (blocks, group) in memory.kv_blocks.iter_mut().zip(groups) {
        let surplus = blocks.saturating_sub(MOST_BLOCKS);
        *blocks -= surplus;
        memory.kv.0 -= (surplus * BLOCK_SIZE) as u64 * group.bytes_per_token;
    }
    memory
}

/// What a decoder needs on any device.
#[derive(Clone, Debug, PartialEq)]
pub struct Needs {
    /// In bytes.
    pub needs: MemoryNeeds,
    /// Where each weight goes.
    pub layout: ArenaLayout,
    /// Activations and scratch.
    pub workspace: Workspace,
    /// How keys and values are kept.
    pub kv_format: KvFormat,
}

impl Needs {
    /// For a decoder that admission let in.
    ///
    /// # Errors
    /// [`LoadError::Option`] for a cache that cannot be, or what [`ArenaLayout::new`] refuses.
    pub fn of(
        manifest: &ModelManifest,
        contract: &DecoderExecutionContract,
        options: &LoadOptions,
    ) -> Result<Needs, LoadError> {
        let kv_format = kv_format(options)?;
        let layout = ArenaLayout::new(contract)?;
        let workspace = Workspace::of(&contract.semantic, options);
        let needs = MemoryNeeds {
            weights: Bytes(layout.bytes),
            mapped: Bytes(0),
            workspace: workspace.bytes(),
            kv_groups: kv_groups(&contract.semantic, kv_format),
            block_size: BLOCK_SIZE,
            max_positions: contract.semantic.max_positions,
            context_len: manifest.context_len,
        };
        Ok(Needs { needs, layout, workspace, kv_format })
    }
}

/// Says with what was refused how much the device has, and how much of it others hold.
fn with_device(error: LoadError, device: DeviceMemory, fraction: f32) -> LoadError {
    match error {
        LoadError::OutOfMemory { what, needed, available, hint } => LoadError::OutOfMemory {
            what,
            needed,
            available,
            hint: format!(
                "{hint} (the GPU has {}, {} of it free, and memory_fraction is {fraction})",
                device.total, device.free
            ),
        },
        error => error,
    }
}

fn kv_format(options: &LoadOptions) -> Result<KvFormat, LoadError> {
    match options.kv_dtype {
        None | Some(DType::BF16) => Ok(KvFormat::Bf16),
        Some(DType::F8E4M3) => Ok(KvFormat::Fp8),
        Some(other) => Err(LoadError::Option(format!(
            "kv_dtype is {}, but the cuda backend keeps its KV cache in bf16 or f8_e4m3",
            other.name().to_lowercase()
        ))),
    }
}

/// What each KV group takes.
pub(crate) fn kv_groups(semantic: &DecoderSemantic, format: KvFormat) -> Vec<KvGroupNeeds> {
    let layer_bytes = |index: &usize| {
        let Mixer::Attention(attention) = &semantic.layers[*index].mixer;
        (2 * attention.kv_heads * attention.head_dim * format.size()) as u64
    };
    let group = |group: KvGroup| KvGroupNeeds {
        window: group.window,
        bytes_per_token: group.layers.iter().map(layer_bytes).sum(),
    };
    semantic.kv_groups().into_iter().map(group).collect()
}

/// Sizes of everything a step needs beside weights and KV blocks, in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Workspace {
    /// Token rows of a step.
    pub rows: usize,
    /// Sequences of a step; also the number of slots.
    pub sequences: usize,
    /// Width of the residual stream.
    pub hidden: usize,
    /// A head of the widest layer.
    pub head_dim: usize,
    /// Queries, keys and values of the widest layer.
    pub qkv: usize,
    /// Mixed values of the widest layer.
    pub mixed: usize,
    /// Width between the feed-forward's projections, in the widest layer.
    pub intermediate: usize,
    /// What experts need.
    pub routing: RoutingWidths,
    /// Elements of a row of logits.
    pub vocab: usize,
    /// Most tokens of a sequence, which bounds its block tables.
    pub positions: usize,
}

/// Query heads' partial results that decoding attention may keep at a time, for each sequence.
const SPLITS: usize = 32;
/// What the step block and the answers hold for a token row beside embeddings, in bytes.
const ROW_LISTS: usize = 2048;
/// Scratch of the library for large products, on its stream.
const LIBRARY_SCRATCH: u64 = 64 << 20;

impl Workspace {
    /// For the steps that `options` allow.
    pub fn of(semantic: &DecoderSemantic, options: &LoadOptions) -> Workspace {
        let widest =
            |width: fn(&LayerSpec) -> usize| semantic.layers.iter().map(width).max().unwrap_or(0);
        Workspace {
            rows: options.max_step_tokens,
            sequences: options.max_step_sequences,
            hidden: semantic.hidden_size,
            head_dim: widest(|layer| {
                let Mixer::Attention(attention) = &layer.mixer;
                attention.head_dim
            }),
            qkv: widest(|layer| {
                let Mixer::Attention(attention) = &layer.mixer;
                (attention.heads + 2 * attention.kv_heads) * attention.head_dim
            }),
            mixed: widest(|layer| {
                let Mixer::Attention(attention) = &layer.mixer;
                attention.heads * attention.head_dim
            }),
            intermediate: widest(|layer| dense_width(&layer.feed_forward)),
            routing: RoutingWidths::of(
                semantic.layers.iter().map(|layer| &layer.feed_forward),
                semantic.hidden_size,
            ),
            vocab: semantic.vocab_size,
            positions: options
                .max_sequence_tokens
                .unwrap_or(semantic.max_positions)
                .min(semantic.max_positions),
        }
    }

    /// Memory for all of it.
    pub fn bytes(&self) -> Bytes {
        let outputs = output_rows(self.sequences);
        let parts = [
            (self.rows, self.token_row()),
            (outputs, self.output_row()),
            (self.sequences, self.sequence_row()),
        ];
        let sized = parts.into_iter().map(|(rows, bytes)| bytes.saturating_mul(rows as u64));
        let fixed = LIBRARY_SCRATCH + attention_prefill::scratch_bytes(self.head_dim) as u64;
        Bytes(sized.fold(fixed, u64::saturating_add))
    }

    /// Bytes for one token row: the residual stream and an embedding that is given, in f32; normed, projected, mixed and activated
    /// values, in bf16; ids, positions, attention's lists, answers.
    fn token_row(&self) -> u64 {
        let wide = 4 * 2 * self.hidden;
        let narrow = 2 * (2 * self.hidden + self.qkv + 2 * self.mixed + 3 * self.intermediate);
        (wide + narrow + ROW_LISTS + self.routing.row_bytes()) as u64
    }

    /// Bytes for one row that passes the head: its last hidden state twice, its logits, and what sampling keeps of them.
    fn output_row(&self) -> u64 {
        (6 * self.hidden + 2 * 4 * self.vocab + self.vocab / 4 + 4096) as u64
    }

    /// Bytes for one sequence: counts of its tokens, partial results of attention, block tables; what its sampling brings along:
    /// all its tokens, to count them anew, a mask, biases.
    fn sequence_row(&self) -> u64 {
        let splits = 4 * SPLITS * (self.mixed + 2 * self.mixed.div_ceil(8));
        let tables = 4 * (self.positions.div_ceil(BLOCK_SIZE) + 8);
        let lists = 4 * (self.positions + self.vocab.div_ceil(32) + LIST_WORDS);
        (4 * self.vocab + splits + 2 * tables + lists + 1024) as u64
    }
}

/// Rows that pass the head at a time where a step advances up to `sequences`.
pub fn output_rows(sequences: usize) -> usize {
    sequences.clamp(64, 512)
}

#[cfg(test)]
mod tests;
