//! From the meaning of a decoder to its weight plan, for families whose layers are named in the usual way.

use std::ops::Range;

use super::TensorNames;
use crate::{
    semantic::{
        AttentionSpec, DecoderSemantic, FeedForward, LayerSpec, Mixer, QkNormExtent, RoutedSpec,
        SharedExpertSpec,
    },
    weights::{ExpertWeight, LayerWeight, PlannedWeight, ShardAxis, TensorSource, WeightRole},
};

/// How a family names the tensors of a layer. Which projections a layer has follows from its meaning.
#[derive(Clone, Copy, Debug)]
pub(super) struct LayerNames {
    /// Norms before the mixer, after it, before the feed-forward, after it; `None`: there is no norm.
    pub norms: [Option<&'static str>; 4],
    /// Queries, keys and values lie in one tensor, `qkv_proj`.
    pub fused_qkv: bool,
    /// Gate and up lie in one tensor, `gate_up_proj`.
    pub fused_gate_up: bool,
    /// Where experts lie, in layers that have some.
    pub routed: RoutedNames,
}

/// How a family names the tensors of a routed feed-forward.
#[derive(Clone, Copy, Debug)]
pub(super) struct RoutedNames {
    /// Router, `experts.0`, ... lie below it.
    pub block: &'static str,
    /// Router.
    pub router: &'static str,
    /// What is added to its scores.
    pub correction: &'static str,
    /// Gate, up and down of an expert.
    pub experts: [&'static str; 3],
    /// The shared expert, whose tensors are named as those of a dense feed-forward.
    pub shared: &'static str,
}

impl RoutedNames {
    /// What most families say.
    pub const MLP: RoutedNames = RoutedNames {
        block: "mlp",
        router: "gate",
        correction: "gate.e_score_correction_bias",
        experts: ["gate_proj", "up_proj", "down_proj"],
        shared: "shared_experts",
    };
}

impl LayerNames {
    /// Pre-norms alone (Llama): the second one is named after the attention that it follows.
    pub const PRE_NORM: LayerNames = LayerNames {
        norms: [Some("input_layernorm"), None, Some("post_attention_layernorm"), None],
        fused_qkv: false,
        fused_gate_up: false,
        routed: RoutedNames::MLP,
    };

    /// Norms on both sides of both branches (Gemma): here `post_attention_layernorm` is what it says.
    pub const SANDWICH: LayerNames = LayerNames {
        norms: [
            Some("input_layernorm"),
            Some("post_attention_layernorm"),
            Some("pre_feedforward_layernorm"),
            Some("post_feedforward_layernorm"),
        ],
        ..LayerNames::PRE_NORM
    };

    /// Norms behind both branches (OLMo 2).
    pub const POST_NORM: LayerNames = LayerNames {
        norms: [None, LayerNames::SANDWICH.norms[1], None, LayerNames::SANDWICH.norms[3]],
        ..LayerNames::PRE_NORM
    };
}

/// The weight plan of `semantic` under these names.
pub(super) fn plan(
    semantic: &DecoderSemantic,
    names: &TensorNames,
    layer_names: &LayerNames,
) -> Vec<PlannedWeight> {
    let DecoderSemantic { hidden_size, vocab_size, .. } = *semantic;
    let table = vec![vocab_size, hidden_size];
    let whole = |tensor: String| TensorSource { tensor, rows: None };
    let mut weights = vec![PlannedWeight {
        role: WeightRole::TokenEmbedding,
        shape: table.clone(),
        shard: ShardAxis::Vocabulary,
        source: whole(format!("{}embed_tokens.weight", names.body)),
    }];
    for (index, layer) in semantic.layers.iter().enumerate() {
        let layer_plan = LayerPlan {
            index: index as u32,
            prefix: format!("{}layers.{index}.", names.body),
            hidden: hidden_size,
            names: layer_names,
            weights: &mut weights,
        };
        layer_plan.add(layer);
    }
    weights.push(PlannedWeight {
        role: WeightRole::FinalNorm,
        shape: vec![hidden_size],
        shard: ShardAxis::Replicated,
        source: whole(format!("{}norm.weight", names.body)),
    });
    if !semantic.head.tied {
        weights.push(PlannedWeight {
            role: WeightRole::Head,
            shape: table,
            shard: ShardAxis::Vocabulary,
            source: whole(names.head.to_owned()),
        });
    }
    weights
}

struct LayerPlan<'a> {
    index: u32,
    prefix: String,
    hidden: usize,
    names: &'a LayerNames,
    weights: &'a mut Vec<PlannedWeight>,
}

impl LayerPlan<'_> {
    fn add(mut self, layer: &LayerSpec) {
        let norms = [
            LayerWeight::MixerPreNorm,
            LayerWeight::MixerPostNorm,
            LayerWeight::FeedForwardPreNorm,
            LayerWeight::FeedForwardPostNorm,
        ];
        for (weight, name) in norms.into_iter().zip(self.names.norms) {
            if let Some(name) = name {
                self.push(weight, vec![self.hidden], ShardAxis::Replicated, name, None);
            }
        }
        let Mixer::Attention(attention) = &layer.mixer;
        self.attention(attention);
        match &layer.feed_forward {
            FeedForward::Dense(mlp) => self.mlp(mlp.intermediate_size, mlp.bias),
            FeedForward::Routed(routed) => self.routed(routed),
        }
    }

    fn attention(&mut self, attention: &AttentionSpec) {
        let AttentionSpec { heads, kv_heads, head_dim, .. } = *attention;
        let (query, key) = (heads * head_dim, kv_heads * head_dim);
        let parts = [
            Part(LayerWeight::Query, LayerWeight::QueryBias, query, ShardAxis::Column, "q_proj"),
            Part(LayerWeight::Key, LayerWeight::KeyBias, key, ShardAxis::KvHead, "k_proj"),
            Part(LayerWeight::Value, LayerWeight::ValueBias, key, ShardAxis::KvHead, "v_proj"),
        ];
        let fused = self.names.fused_qkv.then_some("self_attn.qkv_proj");
        self.column_parts("self_attn", &parts, fused, attention.qkv_bias);
        let output = vec![self.hidden, query];
        self.push(LayerWeight::AttentionOutput, output, ShardAxis::Row, "self_attn.o_proj", None);
        if attention.output_bias {
            self.bias(
                LayerWeight::AttentionOutputBias,
                self.hidden,
                ShardAxis::Replicated,
                "self_attn.o_proj",
            );
        }
        if let Some(norm) = attention.qk_norm {
            let (query, key) = match norm.extent {
                QkNormExtent::Head => (head_dim, head_dim),
                QkNormExtent::Projection => (query, key),
            };
            // Replicated also over whole projections: the mean needs every device's part.
            let shard = ShardAxis::Replicated;
            self.push(LayerWeight::QueryNorm, vec![query], shard, "self_attn.q_norm", None);
            self.push(LayerWeight::KeyNorm, vec![key], shard, "self_attn.k_norm", None);
        }
    }

    fn mlp(&mut self, intermediate: usize, bias: bool) {
        let column = ShardAxis::Column;
        let parts = [
            Part(LayerWeight::Gate, LayerWeight::GateBias, intermediate, column, "gate_proj"),
            Part(LayerWeight::Up, LayerWeight::UpBias, intermediate, column, "up_proj"),
        ];
        let fused = self.names.fused_gate_up.then_some("mlp.gate_up_proj");
        self.column_parts("mlp", &parts, fused, bias);
        let down = vec![self.hidden, intermediate];
        self.push(LayerWeight::Down, down, ShardAxis::Row, "mlp.down_proj", None);
        if bias {
            self.bias(LayerWeight::DownBias, self.hidden, ShardAxis::Replicated, "mlp.down_proj");
        }
    }

    fn routed(&mut self, routed: &RoutedSpec) {
        let RoutedNames { block, router, correction, experts: names, shared } = self.names.routed;
        let (hidden, experts) = (self.hidden, routed.experts);
        let whole = ShardAxis::Replicated;
        let router = format!("{block}.{router}");
        self.push(LayerWeight::Router, vec![experts, hidden], whole, &router, None);
        if routed.router.correction {
            let name = format!("{block}.{correction}");
            self.push_named(LayerWeight::RouterCorrection, vec![experts], whole, name, None);
        }
        let width = routed.expert.intermediate_size;
        assert!(!routed.expert.bias, "no family has a bias on experts of their own tensors");
        let weights = [
            (ExpertWeight::Gate, [width, hidden]),
            (ExpertWeight::Up, [width, hidden]),
            (ExpertWeight::Down, [hidden, width]),
        ];
        for expert in 0..experts {
            for ((weight, shape), name) in weights.into_iter().zip(names) {
                let tensor = format!("{}{block}.experts.{expert}.{name}.weight", self.prefix);
                self.weights.push(PlannedWeight {
                    role: WeightRole::Expert(self.index, expert as u16, weight),
                    shape: shape.to_vec(),
                    shard: ShardAxis::Expert,
                    source: TensorSource { tensor, rows: None },
                });
            }
        }
        if let Some(spec) = &routed.shared {
            self.shared_expert(&format!("{block}.{shared}"), spec);
        }
    }

    fn shared_expert(&mut self, block: &str, shared: &SharedExpertSpec) {
        let (hidden, width) = (self.hidden, shared.mlp.intermediate_size);
        let column = ShardAxis::Column;
        let name = |projection| format!("{block}.{projection}");
        self.push(LayerWeight::SharedGate, vec![width, hidden], column, &name("gate_proj"), None);
        self.push(LayerWeight::SharedUp, vec![width, hidden], column, &name("up_proj"), None);
        let (row, down) = (ShardAxis::Row, name("down_proj"));
        self.push(LayerWeight::SharedDown, vec![hidden, width], row, &down, None);
        if shared.gated {
            // Its name follows the block's: `shared_expert_gate`.
            let (whole, gate) = (ShardAxis::Replicated, format!("{block}_gate"));
            self.push(LayerWeight::SharedExpertGate, vec![1, hidden], whole, &gate, None);
        }
    }

    /// Projections from the residual stream, each in its own tensor or as row ranges of `fused`, one after another.
    fn column_parts(&mut self, block: &str, parts: &[Part], fused: Option<&str>, bias: bool) {
        let mut first = 0;
        for Part(weight, bias_weight, rows, shard, name) in parts {
            let own = format!("{block}.{name}");
            let range = fused.map(|_| first..first + rows);
            let shape = vec![*rows, self.hidden];
            self.push(*weight, shape, *shard, fused.unwrap_or(&own), range);
            if bias {
                assert!(fused.is_none(), "no family has a bias on a fused projection");
                self.bias(*bias_weight, *rows, *shard, &own);
            }
            first += rows;
        }
    }

    fn bias(&mut self, weight: LayerWeight, rows: usize, shard: ShardAxis, name: &str) {
        self.push_named(weight, vec![rows], shard, format!("{name}.bias"), None);
    }

    fn push(
        &mut self,
        weight: LayerWeight,
        shape: Vec<usize>,
        shard: ShardAxis,
        name: &str,
        rows: Option<Range<usize>>,
    ) {
        self.push_named(weight, shape, shard, format!("{name}.weight"), rows);
    }

    fn push_named(
        &mut self,
        weight: LayerWeight,
        shape: Vec<usize>,
        shard: ShardAxis,
        name: String,
        rows: Option<Range<usize>>,
    ) {
        let source = TensorSource { tensor: format!("{}{name}", self.prefix), rows };
        let role = WeightRole::Layer(self.index, weight);
        self.weights.push(PlannedWeight { role, shape, shard, source });
    }
}

/// A projection from the residual stream: weight, bias, rows, how it may be cut, name.
struct Part(LayerWeight, LayerWeight, usize, ShardAxis, &'static str);
