//! GLM-4.5 to 4.7: partly rotated heads, a sigmoid router with a correction, a shared expert, the first layers dense.

use super::{
    Family,
    attention::{AttentionRules, Bias},
    decoder::{Decoder, FeedForwards, Mixers},
    plan::{LayerNames, RoutedNames},
    routed::{self, ExpertKeys, RoutedRules},
};
use crate::{
    config::{Keys, geometry::Defaults, rope::RopeRules},
    semantic::{DecoderSemantic, QkNormExtent, QkNormSpec},
};

pub(super) const FAMILY: Family = Family {
    name: "glm4_moe",
    architectures: &["Glm4MoeForCausalLM"],
    model_type: "glm4_moe",
    decoder: Decoder {
        defaults: Defaults {
            vocab_size: 151_552,
            intermediate_size: 10_944,
            layers: 46,
            heads: 96,
            kv_heads: Some(8),
            max_positions: 131_072,
            eps: 1e-5,
            ..Defaults::LLAMA
        },
        names: LayerNames { routed: RoutedNames::MLP, ..LayerNames::PRE_NORM },
        mixers: Mixers::Attention(AttentionRules {
            bias: Bias::QueryKeyValueByKey,
            rope: RopeRules { partial: Some(0.5), ..RopeRules::plain(10_000.0) },
            ..AttentionRules::LLAMA
        }),
        feed_forwards: FeedForwards::Routed(RoutedRules {
            is_dense: |keys, layers| routed::first_layers_dense(keys, layers, 1),
            experts: ExpertKeys {
                count: ("n_routed_experts", 128),
                per_token: ("num_experts_per_tok", 8),
                width: ("moe_intermediate_size", 1408),
            },
            router: routed::corrected,
            shared: Some(("n_shared_experts", 1)),
            ..RoutedRules::SOFTMAX
        }),
        draft_layers: Some(("num_nextn_predict_layers", 1)),
        quirks: norm_heads,
        ..Decoder::LLAMA
    },
    ..Family::PLAIN
};

/// Some sizes of the family have norms on queries and keys, others do not.
fn norm_heads(keys: &mut Keys<'_>, semantic: &mut DecoderSemantic) {
    if keys.flag("use_qk_norm", false) {
        let qk_norm = QkNormSpec { norm: semantic.final_norm, extent: QkNormExtent::Head };
        semantic.attentions_mut().for_each(|attention| attention.qk_norm = Some(qk_norm));
    }
}
