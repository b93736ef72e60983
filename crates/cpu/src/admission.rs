//! Which decoders the backend can run: everything that it lacks for one, found before a byte is read.

use models::{
    contract::DecoderExecutionContract,
    semantic::{AttentionSpec, LayerSpec, Mixer},
    weights::{TensorStorage, WeightBinding},
};
use runtime::backend::MissingCapability;

use crate::{format::Format, simd::K_BLOCK};

/// Everything the backend lacks; empty if it can run the decoder.
pub fn missing_capabilities(contract: &DecoderExecutionContract) -> Vec<MissingCapability> {
    let storage = contract.bindings.iter().filter_map(missing_format);
    let layers = contract.semantic.layers.iter().enumerate();
    let mut missing: Vec<MissingCapability> =
        storage.chain(layers.flat_map(|(index, layer)| missing_attention(index, layer))).collect();
    missing.dedup();
    missing
}

fn missing_format(binding: &WeightBinding) -> Option<MissingCapability> {
    let TensorStorage::Dense { dtype, .. } = &binding.storage;
    if Format::of(*dtype).is_some() {
        return None;
    }
    Some(MissingCapability {
        operation: format!("reading of {:?}", binding.role),
        storage: binding.storage.name(),
        geometry: format!("{:?}", binding.shape),
        requirement: "a weight stored as f32, f16 or bf16".to_owned(),
    })
}

fn missing_attention(index: usize, layer: &LayerSpec) -> Vec<MissingCapability> {
    let Mixer::Attention(attention) = &layer.mixer;
    let AttentionSpec { heads, kv_heads, head_dim, .. } = *attention;
    let rotary_dim = attention.rope.as_ref().map_or(0, |rope| rope.rotary_dim);
    let mut requirements = Vec::new();
    if head_dim == 0 || head_dim > K_BLOCK {
        requirements.push(format!("a head width of 1 to {K_BLOCK}"));
    }
    if kv_heads == 0 || heads == 0 || heads % kv_heads != 0 {
        requirements.push("query heads in whole groups for each key head".to_owned());
    }
    if rotary_dim > head_dim || rotary_dim % 2 != 0 {
        requirements.push("an even rotary width within the head".to_owned());
    }
    let missing = |requirement| MissingCapability {
        operation: format!("attention of layer {index}"),
        storage: "f32".to_owned(),
        geometry: format!(
            "heads {heads}, kv heads {kv_heads}, head width {head_dim}, rotary width {rotary_dim}"
        ),
        requirement,
    };
    requirements.into_iter().map(missing).collect()
}
