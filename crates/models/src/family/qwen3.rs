//! Qwen 3, dense: no biases, a norm on every query and key head, heads whose width is not `hidden / heads`.

use super::{
    Family, PLAIN_NAMES,
    llama::{decoder, pre_norm_layer},
    plan::{LayerNames, plan},
    qwen2::layer_windows,
};
use crate::{
    config::{
        Geometry, Keys,
        geometry::{Defaults, activation},
        rope::{self, RopeRules},
    },
    semantic::{Activation, AttentionSpec, DecoderSemantic, QkNormExtent, QkNormSpec},
};

pub(super) const FAMILY: Family = Family {
    name: "qwen3",
    architectures: &["Qwen3ForCausalLM"],
    model_type: "qwen3",
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
    head_dim: Some(128),
    max_positions: 32768,
    eps: 1e-6,
    tied: false,
};

fn read(keys: &mut Keys<'_>) -> DecoderSemantic {
    let geometry = Geometry::read(keys, &DEFAULTS);
    let rope = rope::read(keys, &geometry, &RopeRules::plain(10_000.0));
    let activation = activation(keys, "hidden_act", Activation::Silu);
    // Where it is set it is on all four projections, as with Llama.
    let attention_bias = keys.flag("attention_bias", false);
    let qk_norm = QkNormSpec { norm: geometry.norm(), extent: QkNormExtent::Head };
    let layers = layer_windows(keys, &geometry)
        .into_iter()
        .map(|window| {
            let attention = AttentionSpec {
                window,
                qk_norm: Some(qk_norm),
                qkv_bias: attention_bias,
                output_bias: attention_bias,
                ..geometry.attention(rope.clone())
            };
            pre_norm_layer(&geometry, attention, geometry.mlp(activation))
        })
        .collect();
    decoder(&geometry, layers)
}
