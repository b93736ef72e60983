//! Gemma 3, text: Gemma 2's layers with query and key norms in place of the caps, mostly sliding layers, and two rotary
//! bases.

use super::{
    Family, PLAIN_NAMES, TensorNames, Wrapper,
    gemma2::{Caps, Common},
    plan::{LayerNames, plan},
};
use crate::{
    config::{
        Geometry, Keys,
        geometry::{Defaults, MAX_LAYERS, MAX_WINDOW, sliding_layers, windows},
        rope::{self, RopeRules},
    },
    semantic::{AttentionSpec, DecoderSemantic, QkNormExtent, QkNormSpec},
};

pub(super) const FAMILY: Family = Family {
    name: "gemma3",
    architectures: &["Gemma3ForCausalLM"],
    model_type: "gemma3_text",
    read,
    plan: |semantic, names| plan(semantic, names, &LayerNames::SANDWICH),
    names: PLAIN_NAMES,
    wrapper: None,
};

/// The models that also read images; their text part alone.
pub(super) const MULTIMODAL: Family = Family {
    name: "gemma3",
    architectures: &["Gemma3ForConditionalGeneration"],
    model_type: "gemma3",
    names: &[
        TensorNames { body: "language_model.model.", head: "language_model.lm_head.weight" },
        // As transformers 5 writes it.
        TensorNames { body: "model.language_model.", head: "lm_head.weight" },
    ],
    wrapper: Some(Wrapper {
        text_config: "text_config",
        other_keys: &[
            "vision_config",
            "mm_tokens_per_image",
            "boi_token_index",
            "eoi_token_index",
            "image_token_index",
        ],
        other_tensors: &[
            "vision_tower.",
            "multi_modal_projector.",
            "model.vision_tower.",
            "model.multi_modal_projector.",
        ],
    }),
    ..FAMILY
};

/// The wrapper of the larger models leaves out what equals these.
const DEFAULTS: Defaults = Defaults {
    vocab_size: 262_208,
    hidden_size: 2304,
    intermediate_size: 9216,
    layers: 26,
    heads: 8,
    kv_heads: Some(4),
    head_dim: Some(256),
    max_positions: 131_072,
    eps: 1e-6,
    tied: true,
};

const FULL_ROPE: RopeRules = RopeRules::plain(1_000_000.0);
const SLIDING_ROPE: RopeRules =
    RopeRules { theta_key: "rope_local_base_freq", ..RopeRules::plain(10_000.0) };

fn read(keys: &mut Keys<'_>) -> DecoderSemantic {
    let geometry = Geometry::read(keys, &DEFAULTS);
    let (full_rope, sliding_rope) =
        rope::read_by_layer_type(keys, &geometry, &FULL_ROPE, &SLIDING_ROPE);
    let common = Common::read(keys, &geometry, Caps { scores: None, logits: None });
    let qk_norm = QkNormSpec { norm: common.norm, extent: QkNormExtent::Head };
    let window = keys.nullable_size("sliding_window", Some(4096), MAX_WINDOW);
    let period = sliding_period(keys);
    let sliding =
        sliding_layers(keys, geometry.layers, |layer| !(layer + 1).is_multiple_of(period));
    let windows = windows(keys, &sliding, window, geometry.max_positions);
    let layers = sliding
        .into_iter()
        .zip(windows)
        .map(|(sliding, window)| {
            // The base goes with the layer's type, also where its window is too wide to matter.
            let rope = if sliding { &sliding_rope } else { &full_rope };
            let attention = common.attention(&geometry, rope.clone());
            common.layer(AttentionSpec { window, qk_norm: Some(qk_norm), ..attention })
        })
        .collect();
    common.decoder(&geometry, layers)
}

/// Every how many layers one is full, where `layer_types` does not say it.
fn sliding_period(keys: &mut Keys<'_>) -> usize {
    let old = keys.size("sliding_window_pattern", 6, MAX_LAYERS);
    // Written by some versions of transformers beside layer_types, and read by none.
    if keys.has("layer_types") || keys.has("sliding_window_pattern") {
        keys.inert(&["_sliding_window_pattern"]);
        return old;
    }
    keys.size("_sliding_window_pattern", old, MAX_LAYERS)
}
