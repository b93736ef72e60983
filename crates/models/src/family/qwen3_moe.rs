//! Qwen 3 with experts: Qwen 3's attention, a softmax router.

use serde_json::Value;

use super::{
    Family,
    attention::AttentionRules,
    decoder::{Decoder, FeedForwards, Mixers},
    plan::{LayerNames, RoutedNames},
    routed::{ExpertKeys, RoutedRules, SOFTMAX},
};
use crate::{
    config::{
        Keys, Sliding,
        geometry::{Defaults, MAX_LAYERS},
    },
    semantic::{QkNormExtent, RouterSpec},
};

pub(super) const FAMILY: Family = Family {
    name: "qwen3_moe",
    architectures: &["Qwen3MoeForCausalLM"],
    model_type: "qwen3_moe",
    decoder: Decoder {
        defaults: Defaults {
            vocab_size: 151_936,
            hidden_size: 2048,
            intermediate_size: 6144,
            layers: 24,
            kv_heads: Some(4),
            max_positions: 32_768,
            ..Defaults::LLAMA
        },
        names: LayerNames { routed: RoutedNames::MLP, ..LayerNames::PRE_NORM },
        mixers: Mixers::Attention(AttentionRules {
            qk_norm: Some(QkNormExtent::Head),
            sliding,
            ..AttentionRules::LLAMA
        }),
        feed_forwards: FeedForwards::Routed(RoutedRules {
            is_dense,
            experts: ExpertKeys {
                count: ("num_experts", 128),
                per_token: ("num_experts_per_tok", 8),
                width: ("moe_intermediate_size", 768),
            },
            router: |keys, _| RouterSpec {
                normalise: keys.flag("norm_topk_prob", false),
                ..SOFTMAX
            },
            ..RoutedRules::SOFTMAX
        }),
        ..Decoder::LLAMA
    },
    ..Family::PLAIN
};

/// All layers or none: unlike in Qwen 3 `max_window_layers`, which published checkpoints carry, is not asked.
fn sliding(keys: &mut Keys<'_>, layers: usize) -> Sliding {
    keys.inert(&["max_window_layers"]);
    let in_use = keys.flag("use_sliding_window", false);
    let window = Sliding::window(keys, Some(4096)).filter(|_| in_use);
    Sliding { layers: vec![window.is_some(); layers], window }
}

/// Every `decoder_sparse_step`th layer has experts, unless `mlp_only_layers` names it.
fn is_dense(keys: &mut Keys<'_>, layers: usize) -> Vec<bool> {
    let step = keys.size("decoder_sparse_step", 1, MAX_LAYERS);
    let number = |value: &Value| usize::try_from(value.as_u64()?).ok().filter(|n| *n < layers);
    let wanted = format!("a list of numbers of layers, below {layers}");
    let dense = keys.list("mlp_only_layers", &wanted, number).unwrap_or_default();
    (0..layers).map(|layer| dense.contains(&layer) || (layer + 1) % step != 0).collect()
}
