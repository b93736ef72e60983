//! OLMo 2: norms behind the branches instead of before them, and over whole query and key projections.

use super::{
    Family, PLAIN_NAMES,
    llama::decoder,
    plan::{LayerNames, plan},
};
use crate::{
    config::{
        Geometry, Keys,
        geometry::{Defaults, activation},
        rope::{self, RopeRules},
    },
    semantic::{
        Activation, AttentionSpec, DecoderSemantic, LayerSpec, Mixer, QkNormExtent, QkNormSpec,
    },
};

pub(super) const FAMILY: Family = Family {
    name: "olmo2",
    architectures: &["Olmo2ForCausalLM"],
    model_type: "olmo2",
    read,
    plan: |semantic, names| plan(semantic, names, &LayerNames::SANDWICH),
    names: PLAIN_NAMES,
    wrapper: None,
};

const DEFAULTS: Defaults = Defaults {
    vocab_size: 50304,
    hidden_size: 4096,
    intermediate_size: 11008,
    layers: 32,
    heads: 32,
    kv_heads: None,
    head_dim: None,
    max_positions: 2048,
    eps: 1e-5,
    tied: false,
};

fn read(keys: &mut Keys<'_>) -> DecoderSemantic {
    let geometry = Geometry::read(keys, &DEFAULTS);
    let rope = rope::read(keys, &geometry, &RopeRules::plain(10_000.0));
    let attention_bias = keys.flag("attention_bias", false);
    let attention = AttentionSpec {
        qk_norm: Some(QkNormSpec { norm: geometry.norm(), extent: QkNormExtent::Projection }),
        qkv_bias: attention_bias,
        output_bias: attention_bias,
        ..geometry.attention(rope)
    };
    let activation = activation(keys, "hidden_act", Activation::Silu);
    let layer = LayerSpec {
        mixer_pre_norm: None,
        mixer: Mixer::Attention(attention),
        mixer_post_norm: Some(geometry.norm()),
        ff_pre_norm: None,
        feed_forward: geometry.mlp(activation),
        ff_post_norm: Some(geometry.norm()),
        residual_scale: 1.0,
    };
    decoder(&geometry, vec![layer; geometry.layers])
}
