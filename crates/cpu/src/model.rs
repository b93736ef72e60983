//! A decoder ready to run: the contract's layers, each with its weights at hand.

use models::semantic::{Activation, DecoderSemantic, RopeSpec, RoutedSpec};

use crate::{
    ops::{attention::Attention, rms_norm::Norm},
    weights::{Linear, Matrix},
};

/// A decoder with its weights.
#[derive(Debug)]
pub struct Decoder {
    /// What it means.
    pub semantic: DecoderSemantic,
    /// `[vocab, hidden]`.
    pub embedding: Matrix,
    /// The layers, first to last.
    pub layers: Vec<Layer>,
    /// Norm before the head.
    pub final_norm: Norm,
    /// `[vocab, hidden]`; `None`: the embedding serves.
    pub head: Option<Linear>,
    /// The distinct rotary embeddings of the layers.
    pub ropes: Vec<RopeSpec>,
}

/// One layer.
#[derive(Debug)]
pub struct Layer {
    /// Norm on the way into attention.
    pub mixer_pre_norm: Option<Norm>,
    /// Attention and its projections.
    pub attention: AttentionLayer,
    /// Norm on attention's output.
    pub mixer_post_norm: Option<Norm>,
    /// Norm on the way into the feed-forward.
    pub ff_pre_norm: Option<Norm>,
    /// The feed-forward.
    pub feed_forward: FeedForwardLayer,
    /// Norm on the feed-forward's output.
    pub ff_post_norm: Option<Norm>,
    /// Multiplies both branches.
    pub residual_scale: f32,
}

/// Attention with its projections.
#[derive(Debug)]
pub struct AttentionLayer {
    /// The operation between the projections.
    pub op: Attention,
    /// To queries.
    pub query: Linear,
    /// To keys.
    pub key: Linear,
    /// To values.
    pub value: Linear,
    /// Back to the residual stream.
    pub output: Linear,
    /// Norms on queries and keys: over each head, or over the whole projection, by the weight's length.
    pub qk_norm: Option<(Norm, Norm)>,
    /// Index into [`Decoder::ropes`].
    pub rope: Option<usize>,
}

/// A feed-forward with its weights.
#[derive(Debug)]
pub enum FeedForwardLayer {
    /// The same for every token.
    Dense(Box<Mlp>),
    /// Some of many, chosen for each token.
    Routed(Box<RoutedLayer>),
}

/// Experts, what chooses among them, and what every token visits.
#[derive(Debug)]
pub struct RoutedLayer {
    /// What it means.
    pub spec: RoutedSpec,
    /// To a score for each expert.
    pub router: Linear,
    /// Added to scores where experts are compared.
    pub correction: Option<Vec<f32>>,
    /// The experts.
    pub experts: Vec<Mlp>,
    /// What every token visits, and how much of it each takes.
    pub shared: Option<(Mlp, Option<Linear>)>,
}

/// `down(activation(gate(x)) * up(x))`.
#[derive(Debug)]
pub struct Mlp {
    /// To the gate.
    pub gate: Linear,
    /// To the values.
    pub up: Linear,
    /// Back to the residual stream.
    pub down: Linear,
    /// Applied to the gate.
    pub activation: Activation,
}
