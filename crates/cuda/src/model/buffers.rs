//! Activations of a step, with room for the longest.

use std::sync::Arc;

use half::bf16;
use models::semantic::{FeedForward, Mixer};

use super::{decoder::Layer, small::MOST_PARTIALS};
use crate::{
    driver::{Buffer, DriverError, Gpu},
    ops::{experts::most_tiles, routing::ExpertTile, skinny::MOST_ROWS},
};

/// How long each buffer must be, in elements of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Widths {
    /// The residual stream.
    pub hidden: usize,
    /// Queries, keys and values side by side.
    pub qkv: usize,
    /// What attention mixes.
    pub mixed: usize,
    /// Between gate, up and down.
    pub intermediate: usize,
    /// Logits.
    pub vocab: usize,
    /// What experts need; nothing where there are none.
    pub routing: RoutingWidths,
}

/// What the experts of any layer need of a row, at the most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RoutingWidths {
    /// Experts of a layer.
    pub experts: usize,
    /// Experts that a token visits.
    pub per_token: usize,
    /// Width of an expert.
    pub intermediate: usize,
    /// Width of the residual stream, where there are experts.
    pub hidden: usize,
}

/// How many rows each buffer must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heights {
    /// Token rows of a step.
    pub rows: usize,
    /// Output rows that pass the head at a time.
    pub outputs: usize,
}

/// Logits of a row begin at multiples of this many elements.
pub const LOGITS_ALIGNMENT: usize = 8;

impl Widths {
    /// The widest of all layers.
    pub fn of(layers: &[Layer], hidden: usize, vocab: usize) -> Widths {
        let routing =
            RoutingWidths::of(layers.iter().map(|layer| &layer.spec.feed_forward), hidden);
        let mut widths = Widths { hidden, qkv: 0, mixed: 0, intermediate: 0, vocab, routing };
        for layer in layers {
            let Mixer::Attention(attention) = &layer.spec.mixer;
            let mixed = attention.heads * attention.head_dim;
            widths.mixed = widths.mixed.max(mixed);
            widths.qkv = widths.qkv.max(mixed + 2 * attention.kv_heads * attention.head_dim);
            widths.intermediate = widths.intermediate.max(dense_width(&layer.spec.feed_forward));
        }
        widths
    }

    /// Elements from one row of logits to the next.
    pub fn logits_stride(&self) -> usize {
        self.vocab.next_multiple_of(LOGITS_ALIGNMENT)
    }

    /// Bytes of all buffers.
    pub fn bytes(&self, heights: Heights) -> u64 {
        let row = 4 * self.hidden + 2 * self.row_halves() + self.routing.row_bytes();
        let output = (2 + 4) * self.hidden + 4 * self.logits_stride();
        (heights.rows as u64) * row as u64 + heights.outputs as u64 * output as u64
    }

    /// bf16 elements of a row, all buffers together.
    fn row_halves(&self) -> usize {
        2 * self.hidden + self.qkv + 2 * self.mixed + 3 * self.intermediate
    }
}

/// Width of what every token takes: the feed-forward, or the shared expert.
pub fn dense_width(feed_forward: &FeedForward) -> usize {
    match feed_forward {
        FeedForward::Dense(mlp) => mlp.intermediate_size,
        FeedForward::Routed(routed) => {
            routed.shared.map_or(0, |shared| shared.mlp.intermediate_size)
        }
    }
}

impl RoutingWidths {
    /// The widest of all layers.
    pub fn of<'a>(
        feed_forwards: impl Iterator<Item = &'a FeedForward>,
        hidden: usize,
    ) -> RoutingWidths {
        let mut widths = RoutingWidths::default();
        for feed_forward in feed_forwards {
            let FeedForward::Routed(routed) = feed_forward else { continue };
            widths.experts = widths.experts.max(routed.experts);
            widths.per_token = widths.per_token.max(routed.per_token);
            widths.intermediate = widths.intermediate.max(routed.expert.intermediate_size);
            widths.hidden = hidden;
        }
        widths
    }

    /// Bytes for one row.
    pub fn row_bytes(&self) -> usize {
        let RoutingWidths { experts, per_token, intermediate, hidden } = *self;
        let tile = size_of::<ExpertTile>();
        4 * experts + per_token * (12 + tile + 2 * (intermediate + hidden)) + 2 * hidden
    }
}

/// What experts leave behind in a layer.
#[derive(Debug)]
pub struct RoutingBuffers {
    /// The router's outputs, `[T, experts]`.
    pub logits: Buffer<f32>,
    /// `[T, per_token]`.
    pub chosen: Buffer<u32>,
    /// `[T, per_token]`.
    pub weights: Buffer<f32>,
    /// `[T * per_token]`.
    pub order: Buffer<u32>,
    /// Who visits whom.
    pub tiles: Buffer<ExpertTile>,
    /// `[1]`.
    pub tile_count: Buffer<u32>,
    /// `[T * per_token, intermediate]`.
    pub inner: Buffer<bf16>,
    /// `[T * per_token, hidden]`.
    pub out: Buffer<bf16>,
    /// What the shared expert gives, `[T, hidden]`.
    pub shared: Buffer<bf16>,
}

impl RoutingBuffers {
    fn new(
        gpu: &Arc<Gpu>,
        widths: RoutingWidths,
        rows: usize,
    ) -> Result<RoutingBuffers, DriverError> {
        let RoutingWidths { experts, per_token, intermediate, hidden } = widths;
        let visits = rows * per_token;
        let tiles = if experts > 0 { most_tiles(rows, experts, per_token) } else { 0 };
        Ok(RoutingBuffers {
            logits: gpu.alloc(rows * experts)?,
            chosen: gpu.alloc(visits)?,
            weights: gpu.alloc(visits)?,
            order: gpu.alloc(visits)?,
            tiles: gpu.alloc(tiles)?,
            tile_count: gpu.alloc(1)?,
            inner: gpu.alloc(visits * intermediate)?,
            out: gpu.alloc(visits * hidden)?,
            shared: gpu.alloc(rows * hidden)?,
        })
    }
}

/// The buffers, row-major.
#[derive(Debug)]
pub struct Buffers {
    /// The residual stream, `[T, hidden]`.
    pub h: Buffer<f32>,
    /// What a product reads, `[T, hidden]`.
    pub x: Buffer<bf16>,
    /// What a branch gives, `[T, hidden]`.
    pub y: Buffer<bf16>,
    /// Queries, keys and values, `[T, (H + 2 Hk) D]`.
    pub qkv: Buffer<bf16>,
    /// Queries ready for attention, `[T, H D]`.
    pub q: Buffer<bf16>,
    /// What attention gives, `[T, H D]`.
    pub mixed: Buffer<bf16>,
    /// Gate and up interleaved in groups of 8, `[T, 2 I]`, where a product leaves them apart.
    pub gate_up: Buffer<bf16>,
    /// `activation(gate) * up`, `[T, I]`.
    pub inner: Buffer<bf16>,
    /// Normed rows for the head, `[R, hidden]`.
    pub last: Buffer<bf16>,
    /// The same in full precision, for whoever wants hidden states.
    pub full: Buffer<f32>,
    /// `[R, logits_stride]`.
    pub logits: Buffer<f32>,
    /// Sums of squares of rows, in parts: `[MOST_ROWS, MOST_PARTIALS]`.
    pub partials: Buffer<f32>,
    /// What experts leave behind.
    pub routing: RoutingBuffers,
}

impl Buffers {
    /// Buffers of these sizes.
    pub fn new(gpu: &Arc<Gpu>, widths: Widths, heights: Heights) -> Result<Buffers, DriverError> {
        let Heights { rows, outputs } = heights;
        Ok(Buffers {
            h: gpu.alloc(rows * widths.hidden)?,
            x: gpu.alloc(rows * widths.hidden)?,
            y: gpu.alloc(rows * widths.hidden)?,
            qkv: gpu.alloc(rows * widths.qkv)?,
            q: gpu.alloc(rows * widths.mixed)?,
            mixed: gpu.alloc(rows * widths.mixed)?,
            gate_up: gpu.alloc(rows * 2 * widths.intermediate)?,
            inner: gpu.alloc(rows * widths.intermediate)?,
            last: gpu.alloc(outputs * widths.hidden)?,
            full: gpu.alloc(outputs * widths.hidden)?,
            logits: gpu.alloc(outputs * widths.logits_stride())?,
            partials: gpu.alloc(MOST_ROWS * MOST_PARTIALS)?,
            routing: RoutingBuffers::new(gpu, widths.routing, rows)?,
        })
    }
}
