//! Llama 2, 3, 3.1, 3.2 and everything that is published under its architecture.

use super::{
    Family,
    decoder::{Decoder, FeedForwards},
    feed_forward::GatedMlpRules,
};

pub(super) const FAMILY: Family = Family {
    name: "llama",
    architectures: &["LlamaForCausalLM"],
    model_type: "llama",
    decoder: Decoder { feed_forwards: FEED_FORWARDS, ..Decoder::LLAMA },
    ..Family::PLAIN
};

pub(super) const FEED_FORWARDS: FeedForwards =
    FeedForwards::Dense(GatedMlpRules { bias: Some("mlp_bias"), ..GatedMlpRules::SILU });
