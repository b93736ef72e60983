//! Mistral 7B and its successors: Llama's layers, with a sliding window in the first version.

use super::{
    Family, PLAIN_NAMES,
    llama::{decoder, pre_norm_layer},
    plan::{LayerNames, plan},
};
use crate::{
    config::{
        Geometry, Keys,
        geometry::{Defaults, MAX_WINDOW, activation, windows},
        rope::{self, RopeRules},
    },
    semantic::{Activation, AttentionSpec, DecoderSemantic},
};

pub(super) const FAMILY: Family = Family {
    name: "mistral",
    architectures: &["MistralForCausalLM"],
    model_type: "mistral",
    read,
    plan: |semantic, names| plan(semantic, names, &LayerNames::PRE_NORM),
    names: PLAIN_NAMES,
    wrapper: None,
};

const DEFAULTS: Defaults = Defaults {
    vocab_size: 32000,
    hidden_size: 4096,
    intermediate_size: 14336,
    layers: 32,
    heads: 32,
    kv_heads: Some(8),
    head_dim: None,
    max_positions: 131_072,
    eps: 1e-6,
    tied: false,
};

fn read(keys: &mut Keys<'_>) -> DecoderSemantic {
    let geometry = Geometry::read(keys, &DEFAULTS);
    let rope = rope::read(keys, &geometry, &RopeRules::plain(10_000.0));
    let activation = activation(keys, "hidden_act", Activation::Silu);
    // An absent window is one of 4096; only an explicit null (v0.2 and later) turns it off.
    let window = keys.nullable_size("sliding_window", Some(4096), MAX_WINDOW);
    let sliding = vec![window.is_some(); geometry.layers];
    let layers = windows(keys, &sliding, window, geometry.max_positions)
        .into_iter()
        .map(|window| {
            let attention = AttentionSpec { window, ..geometry.attention(rope.clone()) };
            pre_norm_layer(&geometry, attention, geometry.mlp(activation))
        })
        .collect();
    decoder(&geometry, layers)
}
