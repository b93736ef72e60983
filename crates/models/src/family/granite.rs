//! Granite 3, dense: Llama's layers with four scalar multipliers.

use super::{
    Family, PLAIN_NAMES,
    llama::{decoder, pre_norm_layer},
    plan::{LayerNames, plan},
};
use crate::{
    config::{
        Geometry, Keys,
        geometry::{Defaults, activation},
        rope::{self, RopeRules},
    },
    semantic::{Activation, AttentionSpec, DecoderSemantic, FeedForward, GatedMlpSpec, LayerSpec},
};

pub(super) const FAMILY: Family = Family {
    name: "granite",
    architectures: &["GraniteForCausalLM"],
    model_type: "granite",
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
    let attention_bias = keys.flag("attention_bias", false);
    let attention = AttentionSpec {
        // It stands in place of 1 / sqrt(head_dim), not beside it: an absent key means 1.
        scale: keys.positive("attention_multiplier", 1.0) as f32,
        qkv_bias: attention_bias,
        output_bias: attention_bias,
        ..geometry.attention(rope)
    };
    let feed_forward = FeedForward::Dense(GatedMlpSpec {
        intermediate_size: geometry.intermediate_size,
        activation: activation(keys, "hidden_act", Activation::Silu),
        bias: keys.flag("mlp_bias", false),
    });
    let layer = LayerSpec {
        residual_scale: keys.positive("residual_multiplier", 1.0) as f32,
        ..pre_norm_layer(&geometry, attention, feed_forward)
    };
    let mut semantic = decoder(&geometry, vec![layer; geometry.layers]);
    semantic.embedding.scale = keys.positive("embedding_multiplier", 1.0) as f32;
    // Its name notwithstanding, it divides.
    semantic.head.logit_scale = (1.0 / keys.positive("logits_scaling", 1.0)) as f32;
    semantic
}
