//! Families with experts.

use super::*;
use crate::semantic::{ExpertGroups, RoutedSpec, RouterScores, RouterSpec, SharedExpertSpec};

const SILU: fn(usize) -> GatedMlpSpec =
    |width| GatedMlpSpec { intermediate_size: width, activation: Activation::Silu, bias: false };

const SOFTMAX: RouterSpec = RouterSpec {
    scores: RouterScores::Softmax,
    correction: false,
    groups: None,
    normalise: true,
    scale: 1.0,
};

fn of_experts(experts: usize, width: usize) -> RoutedSpec {
    RoutedSpec { experts, per_token: 2, expert: SILU(width), router: SOFTMAX, shared: None }
}

/// Four heads and two for keys, 64 wide.
fn wide_attention(rope: RopeSpec) -> AttentionSpec {
    AttentionSpec { head_dim: 64, scale: 0.125, ..plain_attention(rope) }
}

fn routed(semantic: &DecoderSemantic, layer: usize) -> RoutedSpec {
    match semantic.layers[layer].feed_forward {
        FeedForward::Routed(routed) => routed,
        FeedForward::Dense(_) => panic!("layer {layer} is dense"),
    }
}

/// Which layers have experts.
fn with_experts(semantic: &DecoderSemantic) -> Vec<bool> {
    semantic.layers.iter().map(|layer| layer.feed_forward.dense().is_none()).collect()
}

fn tensors(name: &str, semantic: &DecoderSemantic) -> Vec<String> {
    let family = FAMILIES.iter().find(|family| family.name == name).unwrap();
    let plan = family.plan(semantic, &family.names[0]);
    plan.into_iter().map(|weight| weight.source.tensor).collect()
}

#[test]
fn qwen3_moe() {
    let qk_norm = Some(QkNormSpec { norm: norm(1e-6), extent: QkNormExtent::Head });
    let mut layer = plain_layer(1e-6, rope(1e6, 64));
    layer.mixer = Mixer::Attention(AttentionSpec { qk_norm, ..wide_attention(rope(1e6, 64)) });
    layer.feed_forward = FeedForward::Routed(of_experts(8, 64));
    assert_eq!(semantic(fixture("qwen3-moe")), plain_decoder(1e-6, vec![layer; 3]));
}

#[test]
fn weights_of_qwen3_moe_are_as_they_were_scored_unless_told_otherwise() {
    let semantic = semantic(with("qwen3-moe", json!({"norm_topk_prob": "absent"})));
    assert!(!routed(&semantic, 0).router.normalise);
}

#[test]
fn layers_of_qwen3_moe_without_experts_are_named_or_counted() {
    let read = |changes| with_experts(&semantic(with("qwen3-moe", changes)));
    assert_eq!(read(json!({"mlp_only_layers": [0, 2]})), [false, true, false]);
    assert_eq!(read(json!({"decoder_sparse_step": 2})), [false, true, false]);
    let seen = semantic(with("qwen3-moe", json!({"mlp_only_layers": [1]})));
    assert_eq!(seen.layers[1].feed_forward, mlp(256, Activation::Silu));
    let refusal = refusal("qwen3-moe", json!({"mlp_only_layers": [3]}));
    assert!(refusal.contains("mlp_only_layers") && refusal.contains("below 3"), "{refusal}");
}

#[test]
fn all_layers_of_qwen3_moe_slide_or_none() {
    let changes = json!({"use_sliding_window": true, "sliding_window": 100});
    assert_eq!(windows(&semantic(with("qwen3-moe", changes))), [Some(100); 3]);
    let changes = json!({"sliding_window": 100});
    assert_eq!(windows(&semantic(with("qwen3-moe", changes))), [None; 3]);
}

#[test]
fn mixtral() {
    let mut layer = plain_layer(1e-5, rope(1e6, 32));
    layer.feed_forward = FeedForward::Routed(of_experts(4, 128));
    let wanted = plain_decoder(1e-5, vec![layer; 3]);
    assert_eq!(semantic(fixture("mixtral")), wanted);
    let tensors = tensors("mixtral", &wanted);
    let at = |name: &str| tensors.iter().position(|tensor| tensor.ends_with(name)).unwrap();
    // Gate, up, down.
    let first = at("layers.1.block_sparse_moe.experts.3.w1.weight");
    assert_eq!(at("layers.1.block_sparse_moe.experts.3.w3.weight"), first + 1);
    assert_eq!(at("layers.1.block_sparse_moe.experts.3.w2.weight"), first + 2);
}

#[test]
fn glm4_moe() {
    let qk_norm = Some(QkNormSpec { norm: norm(1e-5), extent: QkNormExtent::Head });
    let mut layer = plain_layer(1e-5, rope(1e6, 32));
    layer.mixer = Mixer::Attention(AttentionSpec {
        qk_norm,
        qkv_bias: true,
        ..wide_attention(rope(1e6, 32))
    });
    let dense = layer.clone();
    let router =
        RouterSpec { scores: RouterScores::Sigmoid, correction: true, scale: 2.0, ..SOFTMAX };
    let shared = Some(SharedExpertSpec { mlp: SILU(64), gated: false });
    layer.feed_forward = FeedForward::Routed(RoutedSpec { router, shared, ..of_experts(8, 64) });
    let wanted = plain_decoder(1e-5, vec![dense, layer.clone(), layer]);
    assert_eq!(semantic(fixture("glm4-moe")), wanted);
}

#[test]
fn glm4_moe_rotates_half_of_each_head_and_norms_none_unless_told_otherwise() {
    let changes = json!({"partial_rotary_factor": "absent", "use_qk_norm": "absent"});
    let semantic = semantic(with("glm4-moe", changes));
    assert_eq!(attention(&semantic, 0).rope.as_ref().unwrap().rotary_dim, 32);
    assert_eq!(attention(&semantic, 0).qk_norm, None);
}

#[test]
fn layers_that_guess_are_left_aside_by_name() {
    let semantic = semantic(with("glm4-moe", json!({"num_nextn_predict_layers": 2})));
    assert_eq!((semantic.layers.len(), semantic.draft_layers), (3, 2));
    let family = FAMILIES.iter().find(|family| family.name == "glm4_moe").unwrap();
    let others = family.other_tensors(&semantic, &family.names[0]);
    let begins: Vec<&str> = others.iter().map(|other| other.begin.as_str()).collect();
    assert_eq!(begins, ["model.layers.3.", "model.layers.4."]);
}

#[test]
fn groups_that_are_all_looked_into_are_none() {
    let groups = |count: usize, kept: usize| {
        let changes = json!({"n_group": count, "topk_group": kept});
        routed(&semantic(with("glm4-moe", changes)), 1).router.groups
    };
    assert_eq!(groups(4, 2), Some(ExpertGroups { count: 4, kept: 2 }));
    assert_eq!(groups(4, 4), None);
}

#[test]
fn numbers_of_experts_that_cannot_be_are_refused() {
    for (name, changes, wanted) in [
        (
            "qwen3-moe",
            json!({"num_experts_per_tok": 9}),
            "num_experts_per_tok: is 9, but num_experts is 8",
        ),
        (
            "qwen3-moe",
            json!({"num_experts": 0}),
            "num_experts: is 0, wanted a whole number from 1 to 4096",
        ),
        ("mixtral", json!({"num_experts_per_tok": 0}), "num_experts_per_tok: is 0"),
        ("glm4-moe", json!({"n_group": 3}), "n_group: is 3, which cuts 8 experts into no groups"),
        ("glm4-moe", json!({"n_group": 8}), "n_group: is 8, which cuts 8 experts into no groups"),
        ("glm4-moe", json!({"n_group": 2, "topk_group": 3}), "topk_group: is 3, but n_group is 2"),
        (
            "glm4-moe",
            json!({"n_group": 4, "topk_group": 1, "num_experts_per_tok": 3}),
            "num_experts_per_tok: is 3, but 1 groups of 2 experts are looked into",
        ),
        (
            "glm4-moe",
            json!({"n_shared_experts": 4096, "moe_intermediate_size": 1000}),
            "n_shared_experts: is 4096; 4096 experts of width 1000 are 4096000 wide",
        ),
        (
            "qwen3-moe",
            json!({"num_experts": 4096, "num_hidden_layers": 100, "mlp_only_layers": []}),
            "num_experts: is 4096; with num_hidden_layers 100 that is 409600, at most 131072",
        ),
        (
            "qwen3-moe",
            json!({"num_experts": 4096, "moe_intermediate_size": 1_000_000, "hidden_size": 4096}),
            "moe_intermediate_size: is 1000000; with 4096 experts",
        ),
    ] {
        let refusal = refusal(name, changes);
        assert!(refusal.contains(wanted), "{refusal}");
    }
}
