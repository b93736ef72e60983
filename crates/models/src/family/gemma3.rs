//! Gemma 3, text: Gemma 2's layers with query and key norms in place of the caps, mostly sliding layers, and two rotary
//! bases.

use super::{
    Family, TensorNames, Wrapper,
    attention::AttentionRules,
    decoder::{Decoder, Mixers},
    gemma2,
};
use crate::{
    config::{
        Keys, Sliding,
        geometry::{Defaults, MAX_LAYERS},
        rope::RopeRules,
    },
    semantic::QkNormExtent,
};

pub(super) const FAMILY: Family = Family {
    name: "gemma3",
    architectures: &["Gemma3ForCausalLM"],
    model_type: "gemma3_text",
    decoder: Decoder {
        // The wrapper of the larger models leaves out what equals these.
        defaults: Defaults { vocab_size: 262_208, max_positions: 131_072, ..gemma2::DEFAULTS },
        mixers: Mixers::Attention(AttentionRules {
            qk_norm: Some(QkNormExtent::Head),
            rope: RopeRules::plain(1_000_000.0),
            sliding_rope: Some(RopeRules {
                theta_key: "rope_local_base_freq",
                ..RopeRules::plain(10_000.0)
            }),
            sliding,
            ..AttentionRules::LLAMA
        }),
        quirks: |keys, semantic| gemma2::quirks(keys, semantic, None, None),
        ..gemma2::FAMILY.decoder
    },
    ..Family::PLAIN
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

fn sliding(keys: &mut Keys<'_>, layers: usize) -> Sliding {
    let window = Sliding::window(keys, Some(4096));
    let period = sliding_period(keys);
    Sliding::by_type(keys, layers, window, |layer| !(layer + 1).is_multiple_of(period))
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
