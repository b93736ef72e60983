//! Phi-3, 3.5 and 4-mini: fused projections, LongRoPE, partly rotated heads.

use super::{
    Family, PLAIN_NAMES,
    llama::{decoder, pre_norm_layer},
    plan::{LayerNames, plan},
};
use crate::{
    config::{
        Geometry, Keys,
        geometry::{Defaults, MAX_WINDOW, activation, windows},
        rope::{self, RopeRules},
    },
    semantic::{Activation, AttentionSpec, DecoderSemantic},
};

pub(super) const FAMILY: Family = Family {
    name: "phi3",
    architectures: &["Phi3ForCausalLM"],
    model_type: "phi3",
    read,
    // Rows of qkv_proj: queries, keys, values; of gate_up_proj: gate, up.
    plan: |semantic, names| {
        let fused = LayerNames { fused_qkv: true, fused_gate_up: true, ..LayerNames::PRE_NORM };
        plan(semantic, names, &fused)
    },
    names: PLAIN_NAMES,
    wrapper: None,
};

const DEFAULTS: Defaults = Defaults {
    vocab_size: 32064,
    hidden_size: 3072,
    intermediate_size: 8192,
    layers: 32,
    heads: 32,
    kv_heads: None,
    head_dim: None,
    max_positions: 4096,
    eps: 1e-5,
    tied: false,
};

const ROPE: RopeRules = RopeRules {
    theta_key: "rope_theta",
    theta: 10_000.0,
    partial: true,
    original_max: Some(4096),
    // "su" is what the first checkpoints called it; their "yarn" was never YaRN.
    longrope_aliases: &["su", "yarn"],
};

fn read(keys: &mut Keys<'_>) -> DecoderSemantic {
    let geometry = Geometry::read(keys, &DEFAULTS);
    let rope = rope::read(keys, &geometry, &ROPE);
    let activation = activation(keys, "hidden_act", Activation::Silu);
    let window = keys.nullable_size("sliding_window", None, MAX_WINDOW);
    // Phi-4-mini carries switches of its authors' training code, at values that switch nothing.
    for key in ["full_attn_mod", "interpolate_factor"] {
        let value = keys.count(key, 1, MAX_WINDOW);
        if value != 1 {
            keys.error(key, format!("is {value}; only 1 has a known meaning"));
        }
    }
    let sliding = vec![window.is_some(); geometry.layers];
    let layers = windows(keys, &sliding, window, geometry.max_positions)
        .into_iter()
        .map(|window| {
            let attention = AttentionSpec { window, ..geometry.attention(rope.clone()) };
            pre_norm_layer(&geometry, attention, geometry.mlp(activation))
        })
        .collect();
    decoder(&geometry, layers)
}
