//! The common decoder: what Llama and its descendants share, and the places where a family differs, as plain data.

use super::{
    attention::AttentionRules, feed_forward::GatedMlpRules, plan::LayerNames, routed::RoutedRules,
};
use crate::{
    config::{
        Geometry, Keys,
        geometry::{Defaults, MAX_LAYERS},
    },
    semantic::{DecoderSemantic, FeedForward, LayerSpec, Mixer, NormSpec},
};

/// How the decoders of a family are read. What a family does not state is Llama's ([`Decoder::LLAMA`]).
#[derive(Clone, Copy, Debug)]
pub(super) struct Decoder {
    /// What absent sizes mean.
    pub(super) defaults: Defaults,
    /// The norms that its layers have, and how their tensors are named.
    pub(super) names: LayerNames,
    /// Added to the stored weight of every norm: 1 for Gemma's `(1 + w)`.
    pub(super) norm_offset: f32,
    /// What moves information between tokens, in each layer.
    pub(super) mixers: Mixers,
    /// What each token does alone, in each layer.
    pub(super) feed_forwards: FeedForwards,
    /// The key that counts layers behind the last, which guess further tokens, and what its absence means.
    pub(super) draft_layers: Option<(&'static str, usize)>,
    /// What is left to say: scales, caps, keys that only this family has.
    pub(super) quirks: fn(&mut Keys<'_>, &mut DecoderSemantic),
}

/// The mixers of all layers. A family that mixes several kinds is a variant of its own.
#[derive(Clone, Copy, Debug)]
pub(super) enum Mixers {
    /// Softmax attention everywhere.
    Attention(AttentionRules),
}

/// The feed-forwards of all layers.
#[derive(Clone, Copy, Debug)]
pub(super) enum FeedForwards {
    /// One gated feed-forward everywhere.
    Dense(GatedMlpRules),
    /// Experts, in some layers or all.
    Routed(RoutedRules),
}

impl Decoder {
    /// Norms before the branches, attention over all positions, one gated feed-forward, no scales and caps.
    pub(super) const LLAMA: Decoder = Decoder {
        defaults: Defaults::LLAMA,
        names: LayerNames::PRE_NORM,
        norm_offset: 0.0,
        mixers: Mixers::Attention(AttentionRules::LLAMA),
        feed_forwards: FeedForwards::Dense(GatedMlpRules::SILU),
        draft_layers: None,
        quirks: |_, _| {},
    };

    /// What the configuration under `keys` means.
    pub(super) fn read(&self, keys: &mut Keys<'_>) -> DecoderSemantic {
        let geometry = Geometry::read(keys, &self.defaults);
        let norm = NormSpec { weight_offset: self.norm_offset, ..geometry.norm() };
        let mixers = self.mixers.read(keys, &geometry, norm);
        let feed_forwards = self.feed_forwards.read(keys, &geometry);
        let layers = mixers.into_iter().zip(feed_forwards);
        let mut semantic = DecoderSemantic {
            hidden_size: geometry.hidden_size,
            vocab_size: geometry.vocab_size,
            max_positions: geometry.max_positions,
            embedding: geometry.embedding(),
            layers: layers.map(|(mixer, ff)| self.layer(norm, mixer, ff)).collect(),
            final_norm: norm,
            head: geometry.head(),
            draft_layers: self
                .draft_layers
                .map_or(0, |(key, default)| keys.count(key, default, MAX_LAYERS)),
        };
        (self.quirks)(keys, &mut semantic);
        semantic
    }

    fn layer(&self, norm: NormSpec, mixer: Mixer, feed_forward: FeedForward) -> LayerSpec {
        let [mixer_pre_norm, mixer_post_norm, ff_pre_norm, ff_post_norm] =
            self.names.norms.map(|name| name.map(|_| norm));
        LayerSpec {
            mixer_pre_norm,
            mixer,
            mixer_post_norm,
            ff_pre_norm,
            feed_forward,
            ff_post_norm,
            residual_scale: 1.0,
        }
    }
}

impl Mixers {
    fn read(&self, keys: &mut Keys<'_>, geometry: &Geometry, norm: NormSpec) -> Vec<Mixer> {
        match self {
            Mixers::Attention(rules) => {
                rules.read(keys, geometry, norm).into_iter().map(Mixer::Attention).collect()
            }
        }
    }
}

impl FeedForwards {
    fn read(&self, keys: &mut Keys<'_>, geometry: &Geometry) -> Vec<FeedForward> {
        match self {
            FeedForwards::Dense(rules) => {
                vec![FeedForward::Dense(rules.read(keys, geometry)); geometry.layers]
            }
            FeedForwards::Routed(rules) => rules.read(keys, geometry),
        }
    }
}
