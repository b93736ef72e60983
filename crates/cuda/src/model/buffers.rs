//! Activations of a step, with room for the longest.

use std::sync::Arc;

use half::bf16;
use models::semantic::Mixer;

use super::{decoder::Layer, small::MOST_PARTIALS};
use crate::{
    driver::{Buffer, DriverError, Gpu},
    ops::skinny::MOST_ROWS,
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
        let mut widths = Widths { hidden, qkv: 0, mixed: 0, intermediate: 0, vocab };
        for layer in layers {
            let Mixer::Attention(attention) = &layer.spec.mixer;
            let mixed = attention.heads * attention.head_dim;
            widths.mixed = widths.mixed.max(mixed);
            widths.qkv = widths.qkv.max(mixed + 2 * attention.kv_heads * attention.head_dim);
            widths.intermediate = widths.intermediate.max(layer.mlp().intermediate_size);
        }
        widths
    }

    /// Elements from one row of logits to the next.
    pub fn logits_stride(&self) -> usize {
        self.vocab.next_multiple_of(LOGITS_ALIGNMENT)
    }

    /// Bytes of all buffers.
    pub fn bytes(&self, heights: Heights) -> u64 {
        let row = 4 * self.hidden + 2 * self.row_halves();
        let output = (2 + 4) * self.hidden + 4 * self.logits_stride();
        (heights.rows as u64) * row as u64 + heights.outputs as u64 * output as u64
    }

    /// bf16 elements of a row, all buffers together.
    fn row_halves(&self) -> usize {
        2 * self.hidden + self.qkv + 2 * self.mixed + 3 * self.intermediate
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
        })
    }
}
