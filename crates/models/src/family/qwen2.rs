//! Qwen 2 and 2.5: Llama's layers with biases on queries, keys and values.

use super::{
    Family,
    attention::{AttentionRules, Bias},
    decoder::{Decoder, Mixers},
};
use crate::config::{
    Keys, Sliding,
    geometry::{Defaults, MAX_LAYERS},
};

pub(super) const FAMILY: Family = Family {
    name: "qwen2",
    architectures: &["Qwen2ForCausalLM"],
    model_type: "qwen2",
    decoder: Decoder {
        defaults: DEFAULTS,
        mixers: Mixers::Attention(AttentionRules {
            // It is part of the architecture; no key turns it off, and the output has none.
            bias: Bias::QueryKeyValue,
            sliding,
            ..AttentionRules::LLAMA
        }),
        ..Decoder::LLAMA
    },
    ..Family::PLAIN
};

pub(super) const DEFAULTS: Defaults = Defaults {
    vocab_size: 151_936,
    intermediate_size: 22_016,
    kv_heads: Some(32),
    max_positions: 32_768,
    ..Defaults::LLAMA
};

/// Qwen's three keys for one thing: `sliding_window` holds only if `use_sliding_window` is set, and then for the layers
/// from `max_window_layers` on, unless `layer_types` says it layer by layer. Published checkpoints carry a window of 4096
/// that is not in use.
pub(super) fn sliding(keys: &mut Keys<'_>, layers: usize) -> Sliding {
    let in_use = keys.flag("use_sliding_window", false);
    let window = Sliding::window(keys, Some(4096)).filter(|_| in_use);
    let first = keys.count("max_window_layers", 28, MAX_LAYERS);
    Sliding::by_type(keys, layers, window, |layer| window.is_some() && layer >= first)
}
