//! Granite 3, dense: Llama's layers with four scalar multipliers.

use super::{Family, decoder::Decoder, llama};
use crate::{config::Keys, semantic::DecoderSemantic};

pub(super) const FAMILY: Family = Family {
    name: "granite",
    architectures: &["GraniteForCausalLM"],
    model_type: "granite",
    decoder: Decoder { quirks: multiply, ..llama::FAMILY.decoder },
    ..Family::PLAIN
};

fn multiply(keys: &mut Keys<'_>, semantic: &mut DecoderSemantic) {
    // It stands in place of 1 / sqrt(head_dim), not beside it: an absent key means 1.
    let scale = keys.positive("attention_multiplier", 1.0) as f32;
    semantic.attentions_mut().for_each(|attention| attention.scale = scale);
    let residual_scale = keys.positive("residual_multiplier", 1.0) as f32;
    semantic.layers.iter_mut().for_each(|layer| layer.residual_scale = residual_scale);
    semantic.embedding.scale = keys.positive("embedding_multiplier", 1.0) as f32;
    // Its name notwithstanding, it divides.
    semantic.head.logit_scale = (1.0 / keys.positive("logits_scaling", 1.0)) as f32;
}
