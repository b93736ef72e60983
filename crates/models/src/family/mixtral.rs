//! Mixtral: Mistral's attention, a softmax router, experts named `w1` (gate), `w2` (down) and `w3` (up).

use super::{
    Family,
    attention::{AttentionRules, Bias},
    decoder::{Decoder, FeedForwards, Mixers},
    plan::{LayerNames, RoutedNames},
    routed::RoutedRules,
};
use crate::config::{Sliding, geometry::Defaults, rope::RopeRules};

pub(super) const FAMILY: Family = Family {
    name: "mixtral",
    architectures: &["MixtralForCausalLM"],
    model_type: "mixtral",
    decoder: Decoder {
        defaults: Defaults {
            intermediate_size: 14_336,
            kv_heads: Some(8),
            max_positions: 131_072,
            eps: 1e-5,
            ..Defaults::LLAMA
        },
        names: LayerNames {
            routed: RoutedNames {
                block: "block_sparse_moe",
                experts: ["w1", "w3", "w2"],
                ..RoutedNames::MLP
            },
            ..LayerNames::PRE_NORM
        },
        mixers: Mixers::Attention(AttentionRules {
            bias: Bias::Never,
            rope: RopeRules::plain(1e6),
            sliding: |keys, layers| Sliding::everywhere(keys, layers, None),
            ..AttentionRules::LLAMA
        }),
        feed_forwards: FeedForwards::Routed(RoutedRules::SOFTMAX),
        ..Decoder::LLAMA
    },
    ..Family::PLAIN
};
