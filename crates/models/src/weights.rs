//! Logical weights: what a decoder needs, where it lies in the checkpoint, and how it may be split over devices.

use std::ops::Range;

use foundation::{Bytes, DType};

/// What a weight is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum WeightRole {
    /// `[vocab, hidden]`.
    TokenEmbedding,
    /// `[hidden]`.
    FinalNorm,
    /// `[vocab, hidden]`; absent when the head is tied.
    Head,
    /// A weight of one layer.
    Layer(u32, LayerWeight),
    /// A weight of one expert of a layer.
    Expert(u32, u16, ExpertWeight),
}

impl WeightRole {
    /// The part of the model that the weight belongs to, for people.
    pub fn part(self) -> String {
        match self {
            WeightRole::TokenEmbedding => "embedding".into(),
            WeightRole::FinalNorm => "last norm".into(),
            WeightRole::Head => "head".into(),
            WeightRole::Layer(layer, _) | WeightRole::Expert(layer, ..) => format!("layer {layer}"),
        }
    }
}

/// A weight of one layer. Projections are stored `[out, in]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LayerWeight {
    /// `[hidden]`.
    MixerPreNorm,
    /// `[hidden]`.
    MixerPostNorm,
    /// `[hidden]`.
    FeedForwardPreNorm,
    /// `[hidden]`.
    FeedForwardPostNorm,
    /// `[heads * head_dim, hidden]`.
    Query,
    /// `[heads * head_dim]`.
    QueryBias,
    /// `[kv_heads * head_dim, hidden]`.
    Key,
    /// `[kv_heads * head_dim]`.
    KeyBias,
    /// `[kv_heads * head_dim, hidden]`.
    Value,
    /// `[kv_heads * head_dim]`.
    ValueBias,
    /// `[hidden, heads * head_dim]`.
    AttentionOutput,
    /// `[hidden]`.
    AttentionOutputBias,
    /// `[head_dim]` or `[heads * head_dim]`, by the norm's extent.
    QueryNorm,
    /// `[head_dim]` or `[kv_heads * head_dim]`, by the norm's extent.
    KeyNorm,
    /// `[intermediate, hidden]`.
    Gate,
    /// `[intermediate]`.
    GateBias,
    /// `[intermediate, hidden]`.
    Up,
    /// `[intermediate]`.
    UpBias,
    /// `[hidden, intermediate]`.
    Down,
    /// `[hidden]`.
    DownBias,
    /// `[experts, hidden]`.
    Router,
    /// `[experts]`: added to scores where experts are compared.
    RouterCorrection,
    /// `[intermediate, hidden]`, of the shared expert.
    SharedGate,
    /// `[intermediate, hidden]`, of the shared expert.
    SharedUp,
    /// `[hidden, intermediate]`, of the shared expert.
    SharedDown,
    /// `[1, hidden]`: how much of the shared expert a token takes.
    SharedExpertGate,
}

/// A weight of one expert. Projections are stored `[out, in]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ExpertWeight {
    /// `[intermediate, hidden]`.
    Gate,
    /// `[intermediate, hidden]`.
    Up,
    /// `[hidden, intermediate]`.
    Down,
}

/// Along which axis a weight is cut when several devices share a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShardAxis {
    /// Every device holds all of it.
    Replicated,
    /// Cut along the output (axis 0): query heads, gate and up rows.
    Column,
    /// Cut along axis 0 by key/value head; repeated where there are more devices than heads.
    KvHead,
    /// Cut along the input (axis 1): output and down projections.
    Row,
    /// Cut along the vocabulary (axis 0).
    Vocabulary,
    /// Whole, on one device: experts are dealt out.
    Expert,
}

/// One line of a family's weight plan: a logical weight and the tensor that holds it.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedWeight {
    /// What it is for.
    pub role: WeightRole,
    /// Its logical shape.
    pub shape: Vec<usize>,
    /// How it may be split.
    pub shard: ShardAxis,
    /// Where it lies.
    pub source: TensorSource,
}

/// A tensor of the checkpoint, or some of its rows (a fused projection is planned as several row ranges).
#[derive(Clone, Debug, PartialEq)]
pub struct TensorSource {
    /// Name in the checkpoint.
    pub tensor: String,
    /// Rows along axis 0; `None`: all.
    pub rows: Option<Range<usize>>,
}

/// A logical weight bound to its bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct WeightBinding {
    /// What it is for.
    pub role: WeightRole,
    /// Its logical shape, row-major.
    pub shape: Vec<usize>,
    /// How it may be split.
    pub shard: ShardAxis,
    /// Its bytes and their format.
    pub storage: TensorStorage,
}

/// How a weight's values are stored. One line for each format; see `FORMATS`.
#[derive(Clone, Debug, PartialEq)]
pub enum TensorStorage {
    /// Plain floating-point numbers, row-major.
    Dense {
        /// Element type: F32, F16 or BF16.
        dtype: DType,
        /// Where they lie.
        origin: TensorOrigin,
    },
}

/// Where a run of bytes comes from.
#[derive(Clone, Debug, PartialEq)]
pub enum TensorOrigin {
    /// A range of a checkpoint file.
    File(FileRegion),
    /// Made up: values of a normal distribution from this seed (already mixed with the role).
    Synthetic {
        /// Seed of this weight alone.
        seed: u64,
        /// Standard deviation.
        std: f32,
        /// Mean: 1 for a norm's weight (0 where an offset of 1 is added to it), 0 elsewhere.
        mean: f32,
    },
}

/// A range of a checkpoint file, checked against the file's length and its header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileRegion {
    /// Name of the tensor it belongs to.
    pub tensor: String,
    /// Index into `ModelLayout::weights`.
    pub file: usize,
    /// First byte, from the start of the file.
    pub offset: u64,
    /// Length in bytes.
    pub bytes: u64,
}

impl TensorStorage {
    /// Short name for people and error messages: `bf16`, ...
    pub fn name(&self) -> String {
        match self {
            TensorStorage::Dense { dtype, .. } => dtype.name().to_lowercase(),
        }
    }
}

impl WeightBinding {
    /// Bytes of the weight as it lies in storage.
    pub fn stored_bytes(&self) -> Bytes {
        let elements = self.shape.iter().product::<usize>() as u64;
        match &self.storage {
            TensorStorage::Dense { dtype, .. } => Bytes(elements * dtype.size() as u64),
        }
    }
}
