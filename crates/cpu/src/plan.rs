//! The memory plan: what a decoder needs here. Pure, and made before a byte is read.

use foundation::{Bytes, DType, model::ModelManifest};
use models::{
    contract::DecoderExecutionContract,
    semantic::{DecoderSemantic, FeedForward, KvGroup, Mixer},
    weights::{TensorOrigin, TensorStorage},
};
use runtime::{
    backend::{LoadError, LoadOptions, MemoryPlan},
    memory::{KvGroupNeeds, MemoryBudget, MemoryNeeds},
};

use crate::{
    kv::{self, BLOCK_SIZE},
    outputs::OUTPUT_ROWS,
};

/// The part of the available memory that KV blocks take unless told otherwise: a quarter.
const KV_SHARE: u64 = 4;

/// Plans the memory for a decoder, of which `available` bytes can be had.
pub fn plan(
    manifest: &ModelManifest,
    contract: &DecoderExecutionContract,
    options: &LoadOptions,
    available: Bytes,
) -> Result<MemoryPlan, LoadError> {
    check_kv_dtype(options)?;
    check_kv_offload(options)?;
    let available = match options.memory_fraction {
        None => available,
        Some(part) => Bytes((available.0 as f64 * f64::from(part)) as u64),
    };
    let budget = MemoryBudget { available, kv: Bytes(available.0 / KV_SHARE) };
    needs(manifest, contract, options).plan(options, budget)
}

/// Keys and values are kept as they were computed.
fn check_kv_dtype(options: &LoadOptions) -> Result<(), LoadError> {
    match options.kv_dtype {
        None | Some(DType::F32) => Ok(()),
        Some(other) => Err(LoadError::Option(format!(
            "kv_dtype is {}, but the cpu backend keeps its KV cache in f32; leave it at auto",
            other.name().to_lowercase()
        ))),
    }
}

/// There is no other place than the host's memory for blocks to go from.
fn check_kv_offload(options: &LoadOptions) -> Result<(), LoadError> {
    match options.kv_offload_memory.unwrap_or_default() {
        Bytes(0) => Ok(()),
        memory => Err(LoadError::Option(format!(
            "kv_offload_memory is {memory}, but on the cpu backend the KV cache lies in the host's memory already; give it \
             more there (kv_memory), and leave this out"
        ))),
    }
}

fn needs(
    manifest: &ModelManifest,
    contract: &DecoderExecutionContract,
    options: &LoadOptions,
) -> MemoryNeeds {
    let semantic = &contract.semantic;
    let layer_bytes = |index: &usize| {
        let Mixer::Attention(attention) = &semantic.layers[*index].mixer;
        kv::bytes_per_token(attention.kv_heads, attention.head_dim)
    };
    let group = |group: KvGroup| KvGroupNeeds {
        window: group.window,
        bytes_per_token: group.layers.iter().map(layer_bytes).sum(),
    };
    MemoryNeeds {
        weights: contract.weight_bytes(),
        mapped: mapped_bytes(contract),
        workspace: Workspace::of(semantic, options.max_step_tokens).bytes(),
        kv_groups: semantic.kv_groups().into_iter().map(group).collect(),
        block_size: BLOCK_SIZE,
        max_positions: semantic.max_positions,
        context_len: manifest.context_len,
    }
}

fn mapped_bytes(contract: &DecoderExecutionContract) -> Bytes {
    let mapped = contract.bindings.iter().filter(|binding| {
        let TensorStorage::Dense { origin, .. } = &binding.storage;
        matches!(origin, TensorOrigin::File(_)) && binding.shape.len() > 1
    });
    mapped.map(|binding| binding.stored_bytes()).sum()
}

/// Widths of the activations that a step keeps, in elements a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Workspace {
    /// Token rows.
    pub rows: usize,
    /// Residual stream, and as much again beside it.
    pub hidden: usize,
    /// Queries, keys and values of the widest layer.
    pub qkv: usize,
    /// Mixed values of the widest layer.
    pub mixed: usize,
    /// Gate and up of the widest feed-forward, whoever visits it.
    pub gate_up: usize,
    /// Experts of the layer that has most of them.
    pub experts: usize,
    /// Experts that a token visits, in the layer where it visits most.
    pub visits: usize,
    /// A row of logits.
    pub vocab: usize,
}

impl Workspace {
    /// For steps of up to `rows` rows.
    pub fn of(semantic: &DecoderSemantic, rows: usize) -> Workspace {
        let widest = |width: fn(&models::semantic::LayerSpec) -> usize| {
            semantic.layers.iter().map(width).max().unwrap_or(0)
        };
        Workspace {
            rows,
            hidden: semantic.hidden_size,
            qkv: widest(|layer| {
                let Mixer::Attention(attention) = &layer.mixer;
                (attention.heads + 2 * attention.kv_heads) * attention.head_dim
            }),
            mixed: widest(|layer| {
                let Mixer::Attention(attention) = &layer.mixer;
                attention.heads * attention.head_dim
            }),
            gate_up: widest(|layer| {
                2 * match &layer.feed_forward {
                    FeedForward::Dense(mlp) => mlp.intermediate_size,
                    FeedForward::Routed(routed) => {
                        let shared = routed.shared.map_or(0, |shared| shared.mlp.intermediate_size);
                        routed.expert.intermediate_size.max(shared)
                    }
                }
            }),
            experts: widest(|layer| match &layer.feed_forward {
                FeedForward::Dense(_) => 0,
                FeedForward::Routed(routed) => routed.experts,
            }),
            visits: widest(|layer| match &layer.feed_forward {
                FeedForward::Dense(_) => 0,
                FeedForward::Routed(routed) => routed.per_token,
            }),
            vocab: semantic.vocab_size,
        }
    }

    /// What routing needs of a row: a score for each expert, a place in the order, an expert and its weight for each visit; the
    /// row as experts read it, what one gives, and the sum.
    fn routing(&self) -> usize {
        match self.experts {
            0 => 0,
            experts => experts + 3 * self.visits + 3 * self.hidden,
        }
    }

    /// Memory for all of it.
    pub fn bytes(&self) -> Bytes {
        let row = 2 * self.hidden + self.qkv + self.mixed + self.gate_up + self.routing();
        let elements = self.rows.saturating_mul(row).saturating_add(OUTPUT_ROWS * self.vocab);
        Bytes(elements.saturating_mul(size_of::<f32>()) as u64)
    }
}

#[cfg(test)]
mod tests;
