//! Llama 2, 3, 3.1, 3.2 and everything that is published under its architecture.

use super::{
    Family, PLAIN_NAMES,
    plan::{LayerNames, plan},
};
use crate::{
    config::{
        Geometry, Keys,
        geometry::{Defaults, activation},
        rope::{self, RopeRules},
    },
    semantic::{
        Activation, AttentionSpec, DecoderSemantic, FeedForward, GatedMlpSpec, LayerSpec, Mixer,
    },
};

pub(super) const FAMILY: Family = Family {
    name: "llama",
    architectures: &["LlamaForCausalLM"],
    model_type: "llama",
    read,
    plan: |semantic, names| plan(semantic, names, &LayerNames::PRE_NORM),
    names: PLAIN_NAMES,
    wrapper: None,
};

const DEFAULTS: Defaults = Defaults {
    vocab_size: 32000,
    hidden_size: 4096,
    intermediate_size: 11008,
    layers: 32,
    heads: 32,
    kv_heads: None,
    head_dim: None,
    max_positions: 2048,
    eps: 1e-6,
    tied: false,
};

fn read(keys: &mut Keys<'_>) -> DecoderSemantic {
    let geometry = Geometry::read(keys, &DEFAULTS);
    let rope = rope::read(keys, &geometry, &RopeRules::plain(10_000.0));
    let activation = activation(keys, "hidden_act", Activation::Silu);
    // Unlike Qwen2's, Llama's attention bias is on all four projections.
    let attention_bias = keys.flag("attention_bias", false);
    let attention = AttentionSpec {
        qkv_bias: attention_bias,
        output_bias: attention_bias,
        ..geometry.attention(rope)
    };
    let feed_forward = FeedForward::Dense(GatedMlpSpec {
        intermediate_size: geometry.intermediate_size,
        activation,
        bias: keys.flag("mlp_bias", false),
    });
    let layer = pre_norm_layer(&geometry, attention, feed_forward);
    decoder(&geometry, vec![layer; geometry.layers])
}

/// A layer with a norm before each branch.
pub(super) fn pre_norm_layer(
    geometry: &Geometry,
    attention: AttentionSpec,
    feed_forward: FeedForward,
) -> LayerSpec {
    LayerSpec {
        mixer_pre_norm: Some(geometry.norm()),
        mixer: Mixer::Attention(attention),
        mixer_post_norm: None,
        ff_pre_norm: Some(geometry.norm()),
        feed_forward,
        ff_post_norm: None,
        residual_scale: 1.0,
    }
}

/// A decoder around these layers, without scales and caps.
pub(super) fn decoder(geometry: &Geometry, layers: Vec<LayerSpec>) -> DecoderSemantic {
    DecoderSemantic {
        hidden_size: geometry.hidden_size,
        vocab_size: geometry.vocab_size,
        max_positions: geometry.max_positions,
        embedding: geometry.embedding(),
        layers,
        final_norm: geometry.norm(),
        head: geometry.head(),
    }
}
