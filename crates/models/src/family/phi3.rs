//! Phi-3, 3.5 and 4-mini: fused projections, LongRoPE, partly rotated heads.

use super::{
    Family,
    attention::{AttentionRules, Bias},
    decoder::{Decoder, Mixers},
    plan::LayerNames,
};
use crate::{
    config::{Keys, Sliding, geometry::Defaults, rope::RopeRules},
    semantic::DecoderSemantic,
};

pub(super) const FAMILY: Family = Family {
    name: "phi3",
    architectures: &["Phi3ForCausalLM"],
    model_type: "phi3",
    decoder: Decoder {
        defaults: Defaults {
            vocab_size: 32_064,
            hidden_size: 3072,
            intermediate_size: 8192,
            max_positions: 4096,
            eps: 1e-5,
            ..Defaults::LLAMA
        },
        // Rows of qkv_proj: queries, keys, values; of gate_up_proj: gate, up.
        names: LayerNames { fused_qkv: true, fused_gate_up: true, ..LayerNames::PRE_NORM },
        mixers: Mixers::Attention(AttentionRules {
            bias: Bias::Never,
            rope: ROPE,
            sliding: |keys, layers| Sliding::everywhere(keys, layers, None),
            ..AttentionRules::LLAMA
        }),
        quirks: check_switches,
        ..Decoder::LLAMA
    },
    ..Family::PLAIN
};

const ROPE: RopeRules = RopeRules {
    partial: Some(1.0),
    original_max: Some(4096),
    // "su" is what the first checkpoints called it; their "yarn" was never YaRN.
    longrope_aliases: &["su", "yarn"],
    ..RopeRules::plain(10_000.0)
};

/// Phi-4-mini carries switches of its authors' training code, at values that switch nothing.
fn check_switches(keys: &mut Keys<'_>, _: &mut DecoderSemantic) {
    for key in ["full_attn_mod", "interpolate_factor"] {
        let value = keys.count(key, 1, usize::MAX);
        if value != 1 {
            keys.error(key, format!("is {value}; only 1 has a known meaning"));
        }
    }
}
