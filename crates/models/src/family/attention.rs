//! Where the softmax attention of a family differs from Llama's.

use crate::{
    config::{
        Geometry, Keys, Sliding,
        rope::{self, RopeRules},
    },
    semantic::{AttentionSpec, NormSpec, QkNormExtent, QkNormSpec},
};

/// How the attention of all layers is read.
#[derive(Clone, Copy, Debug)]
pub(super) struct AttentionRules {
    /// Which projections add a bias.
    pub bias: Bias,
    /// Norms on queries and keys.
    pub qk_norm: Option<QkNormExtent>,
    /// Rotary embedding.
    pub rope: RopeRules,
    /// That of the sliding layers, where it is another.
    pub sliding_rope: Option<RopeRules>,
    /// Which of so many layers slide.
    pub sliding: fn(&mut Keys<'_>, usize) -> Sliding,
}

/// Which projections add a bias.
#[derive(Clone, Copy, Debug)]
pub(super) enum Bias {
    /// None, whatever the configuration says.
    Never,
    /// All four, if `attention_bias` says so.
    ByKey,
    /// Queries, keys and values, whatever the configuration says.
    QueryKeyValue,
    /// Queries, keys and values, if `attention_bias` says so.
    QueryKeyValueByKey,
}

impl AttentionRules {
    /// Over all positions, whole heads rotated, biases by key.
    pub const LLAMA: AttentionRules = AttentionRules {
        bias: Bias::ByKey,
        qk_norm: None,
        rope: RopeRules::plain(10_000.0),
        sliding_rope: None,
        sliding: Sliding::none,
    };

    /// The attention of each layer; `norm` is the family's.
    pub fn read(
        &self,
        keys: &mut Keys<'_>,
        geometry: &Geometry,
        norm: NormSpec,
    ) -> Vec<AttentionSpec> {
        let (full_rope, sliding_rope) = match &self.sliding_rope {
            Some(sliding) => rope::read_by_layer_type(keys, geometry, &self.rope, sliding),
            None => {
                let shared = rope::read(keys, geometry, &self.rope);
                (shared.clone(), shared)
            }
        };
        let (qkv_bias, output_bias) = match self.bias {
            Bias::Never => (false, false),
            Bias::QueryKeyValue => (true, false),
            Bias::QueryKeyValueByKey => (keys.flag("attention_bias", false), false),
            Bias::ByKey => {
                let bias = keys.flag("attention_bias", false);
                (bias, bias)
            }
        };
        let qk_norm = self.qk_norm.map(|extent| QkNormSpec { norm, extent });
        let sliding = (self.sliding)(keys, geometry.layers);
        let windows = sliding.windows(keys, geometry.max_positions);
        let layers = sliding.layers.into_iter().zip(windows);
        let layer = |(slides, window)| {
            // The rotation goes with the layer's type, also where its window is too wide to matter.
            let rope = if slides { &sliding_rope } else { &full_rope };
            let attention = geometry.attention(rope.clone());
            AttentionSpec { window, qk_norm, qkv_bias, output_bias, ..attention }
        };
        layers.map(layer).collect()
    }
}
