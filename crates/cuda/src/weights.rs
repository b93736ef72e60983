//! A decoder's weights as they lie in device memory: one arena, and a typed address for each of its parts.
//!
//! Every address points into [`DeviceWeights::arena`], is a multiple of 256 bytes, and is valid as long as the arena lives.
//! Matrices are bf16, `[rows, cols]`, row-major without gaps, as a projection's `[out, in]`; vectors are f32.
//!
//! Projections that read the same input lie in one matrix: a layer's queries, keys and values one after another, gate and
//! up interleaved in groups of [`GATE_UP_GROUP`] rows (see [`DenseWeights::gate_up`]). Where the head is tied to the
//! embedding, both fields name the same bytes.

use half::bf16;

use crate::driver::{Buffer, View};

/// Rows of gate, then as many of up, that lie together in a fused gate-and-up matrix.
pub const GATE_UP_GROUP: usize = 8;

/// A bf16 matrix `[rows, cols]` in device memory, row-major without gaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Matrix {
    /// Device address of the first element, a multiple of 256.
    pub address: u64,
    /// Outputs of the projection.
    pub rows: usize,
    /// Inputs of the projection.
    pub cols: usize,
}

/// A vector of f32 in device memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vector {
    /// Device address of the first element, a multiple of 256.
    pub address: u64,
    /// Elements.
    pub len: usize,
}

/// A decoder's weights and the memory that holds them.
#[derive(Debug)]
pub struct DeviceWeights {
    /// The memory that every address of `parts` points into. Frees it on drop.
    pub arena: Buffer<u8>,
    /// Where each weight lies.
    pub parts: DecoderWeights,
}

/// Where each weight of a decoder lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecoderWeights {
    /// `[vocab, hidden]`.
    pub embedding: Matrix,
    /// The layers, first to last.
    pub layers: Vec<LayerWeights>,
    /// `[hidden]`, the norm's offset already added.
    pub final_norm: Vector,
    /// `[vocab, hidden]`; equal to `embedding` where the head is tied.
    pub head: Matrix,
}

/// Where the weights of one layer lie. Of norms the offset is already added to the weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerWeights {
    /// `[hidden]`: norm on the way into attention.
    pub mixer_pre_norm: Option<Vector>,
    /// `[(heads + 2 * kv_heads) * head_dim, hidden]`: the rows of queries, then keys, then values.
    pub qkv: Matrix,
    /// `[(heads + 2 * kv_heads) * head_dim]`: likewise.
    pub qkv_bias: Option<Vector>,
    /// `[head_dim]` or `[heads * head_dim]`, by the norm's extent.
    pub query_norm: Option<Vector>,
    /// `[head_dim]` or `[kv_heads * head_dim]`, by the norm's extent.
    pub key_norm: Option<Vector>,
    /// `[hidden, heads * head_dim]`: attention's output projection.
    pub output: Matrix,
    /// `[hidden]`.
    pub output_bias: Option<Vector>,
    /// `[hidden]`: norm on attention's output, before it is added.
    pub mixer_post_norm: Option<Vector>,
    /// `[hidden]`: norm on the way into the feed-forward.
    pub ff_pre_norm: Option<Vector>,
    /// The feed-forward.
    pub feed_forward: FeedForwardWeights,
    /// `[hidden]`: norm on the feed-forward's output, before it is added.
    pub ff_post_norm: Option<Vector>,
}

/// Where the weights of a feed-forward lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeedForwardWeights {
    /// The same for every token.
    Dense(DenseWeights),
    /// Some of many, chosen for each token.
    Routed(RoutedWeights),
}

/// Where the weights of a gated feed-forward lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DenseWeights {
    /// `[2 * intermediate, hidden]`, interleaved: rows `16 b .. 16 b + 8` are rows `8 b .. 8 b + 8` of gate, rows
    /// `16 b + 8 .. 16 b + 16` the same rows of up.
    pub gate_up: Matrix,
    /// `[2 * intermediate]`, interleaved likewise.
    pub gate_up_bias: Option<Vector>,
    /// `[hidden, intermediate]`.
    pub down: Matrix,
    /// `[hidden]`.
    pub down_bias: Option<Vector>,
}

/// Where the weights of experts lie, and of what chooses among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoutedWeights {
    /// `[experts, hidden]`.
    pub router: Matrix,
    /// `[experts]`.
    pub correction: Option<Vector>,
    /// `[experts * 2 * intermediate, hidden]`: expert after expert, each as [`DenseWeights::gate_up`].
    pub gate_up: Matrix,
    /// `[experts * hidden, intermediate]`.
    pub down: Matrix,
    /// What every token visits.
    pub shared: Option<DenseWeights>,
}

impl DeviceWeights {
    /// A matrix's elements.
    pub fn matrix(&self, matrix: Matrix) -> View<'_, bf16> {
        self.stretch(matrix.address, matrix.bytes()).cast()
    }

    /// A vector's elements.
    pub fn vector(&self, vector: Vector) -> View<'_, f32> {
        self.stretch(vector.address, vector.bytes()).cast()
    }

    /// `bytes` bytes of the arena from `address` on. Panics beyond the arena: parts are made for it.
    fn stretch(&self, address: u64, bytes: u64) -> View<'_, u8> {
        let start = (address - self.arena.address()) as usize;
        self.arena.view().slice(start..start + bytes as usize)
    }
}

impl Matrix {
    /// Bytes of all elements.
    pub fn bytes(&self) -> u64 {
        self.rows as u64 * self.cols as u64 * 2
    }

    fn moved(self, by: u64) -> Self {
        Matrix { address: self.address + by, ..self }
    }
}

impl Vector {
    /// Bytes of all elements.
    pub fn bytes(&self) -> u64 {
        self.len as u64 * 4
    }

    fn moved(self, by: u64) -> Self {
        Vector { address: self.address + by, ..self }
    }
}

impl DecoderWeights {
    /// The same parts in an arena that begins at `base` instead of at 0.
    pub fn moved(self, base: u64) -> Self {
        DecoderWeights {
            embedding: self.embedding.moved(base),
            layers: self.layers.into_iter().map(|layer| layer.moved(base)).collect(),
            final_norm: self.final_norm.moved(base),
            head: self.head.moved(base),
        }
    }
}

impl LayerWeights {
    fn moved(self, base: u64) -> Self {
        let vector = |vector: Option<Vector>| vector.map(|vector| vector.moved(base));
        LayerWeights {
            mixer_pre_norm: vector(self.mixer_pre_norm),
            qkv: self.qkv.moved(base),
            qkv_bias: vector(self.qkv_bias),
            query_norm: vector(self.query_norm),
            key_norm: vector(self.key_norm),
            output: self.output.moved(base),
            output_bias: vector(self.output_bias),
            mixer_post_norm: vector(self.mixer_post_norm),
            ff_pre_norm: vector(self.ff_pre_norm),
            feed_forward: self.feed_forward.moved(base),
            ff_post_norm: vector(self.ff_post_norm),
        }
    }

    /// The feed-forward, where it is the same for every token.
    pub fn dense(&self) -> Option<&DenseWeights> {
        match &self.feed_forward {
            FeedForwardWeights::Dense(dense) => Some(dense),
            FeedForwardWeights::Routed(_) => None,
        }
    }
}

impl FeedForwardWeights {
    fn moved(self, base: u64) -> Self {
        match self {
            FeedForwardWeights::Dense(dense) => FeedForwardWeights::Dense(dense.moved(base)),
            FeedForwardWeights::Routed(routed) => FeedForwardWeights::Routed(RoutedWeights {
                router: routed.router.moved(base),
                correction: routed.correction.map(|vector| vector.moved(base)),
                gate_up: routed.gate_up.moved(base),
                down: routed.down.moved(base),
                shared: routed.shared.map(|shared| shared.moved(base)),
            }),
        }
    }
}

impl DenseWeights {
    fn moved(self, base: u64) -> Self {
        DenseWeights {
            gate_up: self.gate_up.moved(base),
            gate_up_bias: self.gate_up_bias.map(|vector| vector.moved(base)),
            down: self.down.moved(base),
            down_bias: self.down_bias.map(|vector| vector.moved(base)),
        }
    }
}
