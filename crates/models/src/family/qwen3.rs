//! Qwen 3, dense: no biases, a norm on every query and key head, heads whose width is not `hidden / heads`.

use super::{
    Family,
    attention::AttentionRules,
    decoder::{Decoder, Mixers},
    qwen2,
};
use crate::{config::geometry::Defaults, semantic::QkNormExtent};

pub(super) const FAMILY: Family = Family {
    name: "qwen3",
    architectures: &["Qwen3ForCausalLM"],
    model_type: "qwen3",
    decoder: Decoder {
        defaults: Defaults { head_dim: Some(128), ..qwen2::DEFAULTS },
        mixers: Mixers::Attention(AttentionRules {
            qk_norm: Some(QkNormExtent::Head),
            sliding: qwen2::sliding,
            ..AttentionRules::LLAMA
        }),
        ..Decoder::LLAMA
    },
    ..Family::PLAIN
};
