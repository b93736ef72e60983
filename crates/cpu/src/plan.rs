//! The memory plan: weights, workspace, then KV blocks from what is left. Pure, and made before a byte is read.

use foundation::{Bytes, model::ModelManifest};
use models::{
    contract::DecoderExecutionContract,
    semantic::{DecoderSemantic, FeedForward, Mixer},
    weights::{TensorOrigin, TensorStorage},
};
use runtime::backend::{LoadError, LoadOptions, MemoryPlan};

use crate::{kv, kv::BLOCK_SIZE, outputs::OUTPUT_ROWS};

/// The part of the available memory that KV blocks take unless told otherwise: a quarter.
const KV_SHARE: u64 = 4;

/// Plans the memory for a decoder, of which `available` bytes can be had.
pub fn plan(
    manifest: &ModelManifest,
    contract: &DecoderExecutionContract,
    options: &LoadOptions,
    available: Bytes,
) -> Result<MemoryPlan, LoadError> {
    check_options(options)?;
    let semantic = &contract.semantic;
    let weights = contract.weight_bytes();
    let workspace = Workspace::of(semantic, options.max_step_tokens).bytes();
    let fixed = Bytes(weights.0.saturating_add(workspace.0));
    let left = available.0.saturating_sub(fixed.0);
    if left == 0 {
        return Err(LoadError::OutOfMemory {
            what: "weights and workspace".to_owned(),
            needed: fixed,
            available,
            hint: "use a smaller model, or fewer tokens a step".to_owned(),
        });
    }
    let kv = KvNeeds::of(semantic, options);
    let budget = options.kv_memory.map_or((available.0 / KV_SHARE).min(left), |bytes| bytes.0);
    let asked = asked_length(manifest, options, semantic)?;
    let length = fit_length(&kv, asked, semantic.max_positions, Bytes(budget))?;
    let blocks = kv.most_blocks(length, budget);
    let kv_bytes = Bytes(kv.bytes(length, blocks));
    if kv_bytes.0 > left {
        return Err(LoadError::OutOfMemory {
            what: format!(
                "weights ({weights}), workspace ({workspace}) and KV blocks ({kv_bytes})"
            ),
            needed: Bytes(fixed.0.saturating_add(kv_bytes.0)),
            available,
            hint: "give the KV cache less memory".to_owned(),
        });
    }
    Ok(MemoryPlan {
        weights,
        mapped: mapped_bytes(contract),
        workspace,
        kv: kv_bytes,
        kv_per_token: Bytes(kv.groups.iter().map(|group| group.bytes_per_token).sum()),
        kv_blocks: kv.group_blocks(length, blocks),
        block_size: BLOCK_SIZE,
        max_sequence_tokens: length,
        available,
    })
}

fn check_options(options: &LoadOptions) -> Result<(), LoadError> {
    let zero = [
        (options.max_sequence_tokens == Some(0), "max_sequence_tokens"),
        (options.max_step_sequences == 0, "max_step_sequences"),
        (options.max_step_tokens == 0, "max_step_tokens"),
        (options.threads == Some(0), "threads"),
    ];
    let wrong: Vec<&str> = zero.iter().filter(|(wrong, _)| *wrong).map(|(_, name)| *name).collect();
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(LoadError::Option(format!("{} is 0; at least 1 is needed", wrong.join(", ")))),
    }
}

/// The sequence length that the user asked for, if any.
fn asked_length(
    manifest: &ModelManifest,
    options: &LoadOptions,
    semantic: &DecoderSemantic,
) -> Result<Option<usize>, LoadError> {
    let asked = options.max_sequence_tokens.or(manifest.context_len.map(|length| length as usize));
    match asked {
        Some(length) if length > semantic.max_positions => Err(LoadError::Option(format!(
            "a sequence length of {length} was asked for, but the checkpoint was made for {}",
            semantic.max_positions
        ))),
        Some(0) => Err(LoadError::Option("a sequence length of 0 was asked for".to_owned())),
        asked => Ok(asked),
    }
}

/// The sequence length to serve: as asked, or else the checkpoint's, cut to what the budget holds.
fn fit_length(
    kv: &KvNeeds,
    asked: Option<usize>,
    most: usize,
    budget: Bytes,
) -> Result<usize, LoadError> {
    let one_sequence = |length: usize| kv.bytes(length, length.div_ceil(BLOCK_SIZE));
    let refuse = |length: usize| LoadError::OutOfMemory {
        what: format!("the KV blocks of one sequence of {length} tokens"),
        needed: Bytes(one_sequence(length)),
        available: budget,
        hint: "ask for a shorter sequence, or give the KV cache more memory".to_owned(),
    };
    let wanted = asked.unwrap_or(most);
    if one_sequence(wanted) <= budget.0 {
        return Ok(wanted);
    }
    if asked.is_some() {
        return Err(refuse(wanted));
    }
    let blocks =
        greatest(most / BLOCK_SIZE, |blocks| one_sequence(blocks * BLOCK_SIZE) <= budget.0);
    match blocks {
        0 => Err(refuse(BLOCK_SIZE)),
        blocks => Ok(blocks * BLOCK_SIZE),
    }
}

/// The greatest number up to `most` for which `holds`, given that it holds up to some number and not beyond.
fn greatest(most: usize, holds: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, most);
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        if holds(middle) { low = middle } else { high = middle - 1 }
    }
    low
}

fn mapped_bytes(contract: &DecoderExecutionContract) -> Bytes {
    let mapped = contract.bindings.iter().filter(|binding| {
        let TensorStorage::Dense { origin, .. } = &binding.storage;
        matches!(origin, TensorOrigin::File(_)) && binding.shape.len() > 1
    });
    mapped.map(|binding| binding.stored_bytes()).sum()
}

/// What the KV groups need.
struct KvNeeds {
    groups: Vec<GroupNeeds>,
    sequences: usize,
}

struct GroupNeeds {
    bytes_per_token: u64,
    /// Tokens of one sequence that must be held at a time, if there is a bound: a window and a step's chunk.
    most_tokens: Option<usize>,
}

impl KvNeeds {
    fn of(semantic: &DecoderSemantic, options: &LoadOptions) -> KvNeeds {
        let layer_bytes = |index: &usize| {
            let Mixer::Attention(attention) = &semantic.layers[*index].mixer;
            kv::bytes_per_token(attention.kv_heads, attention.head_dim)
        };
        let needs = |group: models::semantic::KvGroup| GroupNeeds {
            bytes_per_token: group.layers.iter().map(layer_bytes).sum(),
            // Two more blocks: window and chunk both begin and end within one.
            most_tokens: group
                .window
                .map(|window| window.saturating_add(options.max_step_tokens + 2 * BLOCK_SIZE)),
        };
        let groups = semantic.kv_groups().into_iter().map(needs).collect();
        KvNeeds { groups, sequences: options.max_step_sequences }
    }

    /// Blocks of each group when an unbounded group has `blocks`: a bounded group needs as many while sequences are
    /// short, and never more than all sequences can hold at once.
    fn group_blocks(&self, length: usize, blocks: usize) -> Vec<usize> {
        let bound = |group: &GroupNeeds| {
            let tokens = group.most_tokens.map_or(length, |most| most.min(length));
            tokens.div_ceil(BLOCK_SIZE).saturating_mul(self.sequences)
        };
        self.groups.iter().map(|group| blocks.min(bound(group))).collect()
    }

    fn bytes(&self, length: usize, blocks: usize) -> u64 {
        let counts = self.group_blocks(length, blocks);
        let group_bytes = |(group, count): (&GroupNeeds, usize)| {
            (count as u64).saturating_mul(group.bytes_per_token * BLOCK_SIZE as u64)
        };
        self.groups.iter().zip(counts).map(group_bytes).fold(0, u64::saturating_add)
    }

    /// The most blocks that fit the budget, and no more than all sequences need.
    fn most_blocks(&self, length: usize, budget: u64) -> usize {
        let most = length.div_ceil(BLOCK_SIZE).saturating_mul(self.sequences);
        greatest(most, |blocks| self.bytes(length, blocks) <= budget)
    }
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
    /// Gate and up of the widest layer.
    pub gate_up: usize,
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
                let FeedForward::Dense(mlp) = &layer.feed_forward;
                2 * mlp.intermediate_size
            }),
            vocab: semantic.vocab_size,
        }
    }

    /// Memory for all of it.
    pub fn bytes(&self) -> Bytes {
        let row = 2 * self.hidden + self.qkv + self.mixed + self.gate_up;
        let elements = self.rows.saturating_mul(row).saturating_add(OUTPUT_ROWS * self.vocab);
        Bytes(elements.saturating_mul(size_of::<f32>()) as u64)
    }
}

#[cfg(test)]
mod tests;
