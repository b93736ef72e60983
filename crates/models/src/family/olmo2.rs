//! OLMo 2: norms behind the branches instead of before them, and over whole query and key projections.

use super::{
    Family,
    attention::AttentionRules,
    decoder::{Decoder, Mixers},
    plan::LayerNames,
};
use crate::{config::geometry::Defaults, semantic::QkNormExtent};

pub(super) const FAMILY: Family = Family {
    name: "olmo2",
    architectures: &["Olmo2ForCausalLM"],
    model_type: "olmo2",
    decoder: Decoder {
        defaults: Defaults { vocab_size: 50_304, eps: 1e-5, ..Defaults::LLAMA },
        names: LayerNames::POST_NORM,
        mixers: Mixers::Attention(AttentionRules {
            qk_norm: Some(QkNormExtent::Projection),
            ..AttentionRules::LLAMA
        }),
        ..Decoder::LLAMA
    },
    ..Family::PLAIN
};
