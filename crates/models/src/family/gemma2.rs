//! Gemma 2: norms on both sides of both branches, `1 + w` norms, scaled embeddings, capped scores and logits, every
//! other layer with a sliding window.

use super::{
    Family, PLAIN_NAMES,
    plan::{LayerNames, plan},
};
use crate::{
    config::{
        Geometry, Keys,
        geometry::{Defaults, MAX_WINDOW, activation, sliding_layers, windows},
        rope::{self, RopeRules},
    },
    semantic::{
        Activation, AttentionSpec, DecoderSemantic, EmbeddingSpec, FeedForward, HeadSpec,
        LayerSpec, Mixer, NormSpec,
    },
};

pub(super) const FAMILY: Family = Family {
    name: "gemma2",
    architectures: &["Gemma2ForCausalLM"],
    model_type: "gemma2",
    read,
    plan: |semantic, names| plan(semantic, names, &LayerNames::SANDWICH),
    names: PLAIN_NAMES,
    wrapper: None,
};

const DEFAULTS: Defaults = Defaults {
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

fn read(keys: &mut Keys<'_>) -> DecoderSemantic {
    let geometry = Geometry::read(keys, &DEFAULTS);
    let rope = rope::read(keys, &geometry, &RopeRules::plain(10_000.0));
    let common = Common::read(keys, &geometry, Caps { scores: Some(50.0), logits: Some(30.0) });
    let window = keys.nullable_size("sliding_window", Some(4096), MAX_WINDOW);
    let sliding = sliding_layers(keys, geometry.layers, |layer| layer.is_multiple_of(2));
    let layers = windows(keys, &sliding, window, geometry.max_positions)
        .into_iter()
        .map(|window| {
            common.layer(AttentionSpec { window, ..common.attention(&geometry, rope.clone()) })
        })
        .collect();
    common.decoder(&geometry, layers)
}

/// What absent cap keys mean.
pub(super) struct Caps {
    /// `attn_logit_softcapping`.
    pub scores: Option<f64>,
    /// `final_logit_softcapping`.
    pub logits: Option<f64>,
}

/// What Gemma 2 and Gemma 3 share.
pub(super) struct Common {
    pub norm: NormSpec,
    scale: f32,
    attention_bias: bool,
    score_cap: Option<f32>,
    logit_cap: Option<f32>,
    feed_forward: FeedForward,
}

impl Common {
    pub fn read(keys: &mut Keys<'_>, geometry: &Geometry, caps: Caps) -> Self {
        // The first checkpoints said hidden_act: "gelu" and meant the tanh form; since then hidden_activation decides and
        // hidden_act, where it still stands beside it, is not looked at.
        keys.inert(&["hidden_act"]);
        let activation = activation(keys, "hidden_activation", Activation::GeluTanh);
        if keys.flag("use_bidirectional_attention", false) {
            keys.error(
                "use_bidirectional_attention",
                "is true: an encoder, which is not supported",
            );
        }
        Common {
            norm: NormSpec { weight_offset: 1.0, ..geometry.norm() },
            // Not 1 / sqrt(head_dim): the 27B models divide by sqrt(hidden / heads) though their heads are narrower.
            scale: keys.positive("query_pre_attn_scalar", 256.0).powf(-0.5) as f32,
            attention_bias: keys.flag("attention_bias", false),
            score_cap: cap(keys, "attn_logit_softcapping", caps.scores),
            logit_cap: cap(keys, "final_logit_softcapping", caps.logits),
            feed_forward: geometry.mlp(activation),
        }
    }

    pub fn attention(&self, geometry: &Geometry, rope: crate::semantic::RopeSpec) -> AttentionSpec {
        AttentionSpec {
            scale: self.scale,
            qkv_bias: self.attention_bias,
            output_bias: self.attention_bias,
            softcap: self.score_cap,
            ..geometry.attention(rope)
        }
    }

    pub fn layer(&self, attention: AttentionSpec) -> LayerSpec {
        LayerSpec {
            mixer_pre_norm: Some(self.norm),
            mixer: Mixer::Attention(attention),
            mixer_post_norm: Some(self.norm),
            ff_pre_norm: Some(self.norm),
            feed_forward: self.feed_forward.clone(),
            ff_post_norm: Some(self.norm),
            residual_scale: 1.0,
        }
    }

    pub fn decoder(&self, geometry: &Geometry, layers: Vec<LayerSpec>) -> DecoderSemantic {
        DecoderSemantic {
            hidden_size: geometry.hidden_size,
            vocab_size: geometry.vocab_size,
            max_positions: geometry.max_positions,
            embedding: EmbeddingSpec { scale: (geometry.hidden_size as f64).sqrt() as f32 },
            layers,
            final_norm: self.norm,
            head: HeadSpec { softcap: self.logit_cap, ..geometry.head() },
        }
    }
}

/// An explicit null turns a cap off; an absent key does not.
fn cap(keys: &mut Keys<'_>, key: &str, default: Option<f64>) -> Option<f32> {
    keys.nullable_positive(key, default).map(|cap| cap as f32)
}
