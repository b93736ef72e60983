//! Gemma 2: norms on both sides of both branches, `1 + w` norms, scaled embeddings, capped scores and logits, every
//! other layer with a sliding window.

use super::{
    Family,
    attention::AttentionRules,
    decoder::{Decoder, FeedForwards, Mixers},
    feed_forward::GatedMlpRules,
    plan::LayerNames,
};
use crate::{
    config::{Keys, Sliding, geometry::Defaults},
    semantic::{Activation, DecoderSemantic},
};

pub(super) const FAMILY: Family = Family {
    name: "gemma2",
    architectures: &["Gemma2ForCausalLM"],
    model_type: "gemma2",
    decoder: Decoder {
        defaults: DEFAULTS,
        names: LayerNames::SANDWICH,
        norm_offset: 1.0,
        mixers: Mixers::Attention(AttentionRules { sliding, ..AttentionRules::LLAMA }),
        feed_forwards: FeedForwards::Dense(GatedMlpRules {
            // The first checkpoints said hidden_act: "gelu" and meant the tanh form; since then this key decides.
            activation: ("hidden_activation", Activation::GeluTanh),
            ..GatedMlpRules::SILU
        }),
        quirks: |keys, semantic| quirks(keys, semantic, Some(50.0), Some(30.0)),
        ..Decoder::LLAMA
    },
    ..Family::PLAIN
};

pub(super) const DEFAULTS: Defaults = Defaults {
    vocab_size: 256_000,
    hidden_size: 2304,
    intermediate_size: 9216,
    layers: 26,
    heads: 8,
    kv_heads: Some(4),
    head_dim: Some(256),
    max_positions: 8192,
    eps: 1e-6,
    tied: true,
};

fn sliding(keys: &mut Keys<'_>, layers: usize) -> Sliding {
    let window = Sliding::window(keys, Some(4096));
    Sliding::by_type(keys, layers, window, |layer| layer.is_multiple_of(2))
}

/// Scales and caps of all Gemmas; an absent cap means the one given here.
pub(super) fn quirks(
    keys: &mut Keys<'_>,
    semantic: &mut DecoderSemantic,
    score_cap: Option<f64>,
    logit_cap: Option<f64>,
) {
    // Where it still stands beside hidden_activation it is not looked at.
    keys.inert(&["hidden_act"]);
    if keys.flag("use_bidirectional_attention", false) {
        keys.error("use_bidirectional_attention", "is true: an encoder, which is not supported");
    }
    // Not 1 / sqrt(head_dim): the 27B models divide by sqrt(hidden / heads) though their heads are narrower.
    let scale = keys.positive("query_pre_attn_scalar", 256.0).powf(-0.5) as f32;
    let softcap = cap(keys, "attn_logit_softcapping", score_cap);
    for attention in semantic.attentions_mut() {
        attention.scale = scale;
        attention.softcap = softcap;
    }
    semantic.embedding.scale = (semantic.hidden_size as f64).sqrt() as f32;
    semantic.head.softcap = cap(keys, "final_logit_softcapping", logit_cap);
}

/// An explicit null turns a cap off; an absent key does not.
fn cap(keys: &mut Keys<'_>, key: &str, default: Option<f64>) -> Option<f32> {
    keys.nullable_positive(key, default).map(|cap| cap as f32)
}
