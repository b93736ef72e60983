//! Qwen 2 and 2.5: Llama's layers with biases on queries, keys and values.

use super::{
    Family, PLAIN_NAMES,
    llama::{decoder, pre_norm_layer},
    plan::{LayerNames, plan},
};
use crate::{
    config::{
        Geometry, Keys,
        geometry::{Defaults, MAX_LAYERS, MAX_WINDOW, activation, sliding_layers, windows},
        rope::{self, RopeRules},
    },
    semantic::{Activation, AttentionSpec, DecoderSemantic},
};

pub(super) const FAMILY: Family = Family {
    name: "qwen2",
    architectures: &["Qwen2ForCausalLM"],
    model_type: "qwen2",
    read,
    plan: |semantic, names| plan(semantic, names, &LayerNames::PRE_NORM),
    names: PLAIN_NAMES,
    wrapper: None,
};

const DEFAULTS: Defaults = Defaults {
    vocab_size: 151_936,
    hidden_size: 4096,
    intermediate_size: 22016,
    layers: 32,
    heads: 32,
    kv_heads: Some(32),
    head_dim: None,
    max_positions: 32768,
    eps: 1e-6,
    tied: false,
};

fn read(keys: &mut Keys<'_>) -> DecoderSemantic {
    let geometry = Geometry::read(keys, &DEFAULTS);
    let rope = rope::read(keys, &geometry, &RopeRules::plain(10_000.0));
    let activation = activation(keys, "hidden_act", Activation::Silu);
    let layers = layer_windows(keys, &geometry)
        .into_iter()
        .map(|window| {
            // The bias is part of the architecture; no key turns it off, and the output has none.
            let attention =
                AttentionSpec { window, qkv_bias: true, ..geometry.attention(rope.clone()) };
            pre_norm_layer(&geometry, attention, geometry.mlp(activation))
        })
        .collect();
    decoder(&geometry, layers)
}

/// Qwen's three keys for one thing: `sliding_window` holds only if `use_sliding_window` is set, and then for the layers
/// from `max_window_layers` on, unless `layer_types` says it layer by layer. Published checkpoints carry a window of 4096
/// that is not in use.
pub(super) fn layer_windows(keys: &mut Keys<'_>, geometry: &Geometry) -> Vec<Option<usize>> {
    let in_use = keys.flag("use_sliding_window", false);
    let window = keys.nullable_size("sliding_window", Some(4096), MAX_WINDOW).filter(|_| in_use);
    let first = keys.count("max_window_layers", 28, MAX_LAYERS);
    let pattern = |layer| window.is_some() && layer >= first;
    let sliding = sliding_layers(keys, geometry.layers, pattern);
    windows(keys, &sliding, window, geometry.max_positions)
}
