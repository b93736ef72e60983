//! Mistral 7B and its successors: Llama's layers, with a sliding window in the first version.

use super::{
    Family,
    attention::{AttentionRules, Bias},
    decoder::{Decoder, Mixers},
};
use crate::config::{Sliding, geometry::Defaults};

pub(super) const FAMILY: Family = Family {
    name: "mistral",
    architectures: &["MistralForCausalLM"],
    model_type: "mistral",
    decoder: Decoder {
        defaults: Defaults {
            intermediate_size: 14_336,
            kv_heads: Some(8),
            max_positions: 131_072,
            ..Defaults::LLAMA
        },
        mixers: Mixers::Attention(AttentionRules {
            bias: Bias::Never,
            // An absent window is one of 4096; only an explicit null (v0.2 and later) turns it off.
            sliding: |keys, layers| Sliding::everywhere(keys, layers, Some(4096)),
            ..AttentionRules::LLAMA
        }),
        ..Decoder::LLAMA
    },
    ..Family::PLAIN
};
