//! The walk of a step with few rows that only decodes: five launches a layer, none of which waits for memory alone.
//!
//! ```text
//! h = embedding[token] * scale;  x = h * gain;  s = |h|^2
//! for each layer:
//!     qkv = (x Wqkv) / rms(s)
//!     mixed = attend(prepare(qkv))                    (norm, rotation and the append to the cache are attention's)
//!     h += scale * (mixed Wo);        x = h * gain;  s = |h|^2 in parts
//!     inner = activation(x Wgate / rms(s)) * (x Wup / rms(s))
//!     h += scale * (inner Wdown);     x = h * gain;  s = |h|^2 in parts
//! ```
//!
//! The scale of a norm commutes with the product behind it, so that no launch is needed for norms. Branches that have a norm of
//! their own (Gemma) need the whole row before it is added: their decoders take the other walk. Where sequences have several rows,
//! preparation is a sixth launch: a row sees what others of the step append to the cache.

use half::bf16;

use super::{
    buffers::Buffers,
    decoder::{Decoder, Layer},
    forward::{Forward, ForwardError, Scratch},
    kv::KvArena,
};
use crate::{
    driver::{DeviceLimits, View},
    ops::{
        Unsupported, embed,
        rows::{Handover, Next},
        skinny::{Args, Ending, NextX, Output, Plan, Problem, RowNorm},
    },
    weights::{Matrix, Vector},
};

/// Rows up to which these products beat those that give a tile more rows: measured on an H200, for 0.6B to 8B alike.
pub const FEW_ROWS: usize = 64;
/// Sums of squares that a row may have: one for each block of the product that leaves them.
pub const MOST_PARTIALS: usize = 2048;

/// The plans of one layer's four products.
#[derive(Clone, Debug)]
struct LayerPlans {
    qkv: Plan,
    output: Plan,
    gate_up: Plan,
    down: Plan,
}

/// The plans of a walk with a certain number of rows.
#[derive(Clone, Debug)]
pub struct SmallPlans {
    rows: usize,
    layers: Vec<LayerPlans>,
}

/// Whether a decoder can take this walk: every branch begins with a norm and ends without one.
pub fn serves(decoder: &Decoder) -> bool {
    decoder.layers.iter().all(|layer| {
        let spec = &layer.spec;
        spec.mixer_pre_norm.is_some()
            && spec.ff_pre_norm.is_some()
            && spec.mixer_post_norm.is_none()
            && spec.ff_post_norm.is_none()
            && decoder.attentions[layer.kind].preparation.is_some()
    })
}

impl SmallPlans {
    /// The plans for `rows` rows; `None` where a product of this decoder has no kernel for so few.
    pub fn new(decoder: &Decoder, rows: usize, limits: &DeviceLimits) -> Option<SmallPlans> {
        if rows > FEW_ROWS || !serves(decoder) {
            return None;
        }
        let plan = |matrix: Matrix, ending| {
            let problem = Problem {
                rows,
                columns: matrix.rows,
                inner: matrix.cols,
                ending,
                invariant: false,
            };
            Plan::new(&problem, limits).ok()
        };
        let layers = decoder.weights.parts.layers.iter().map(|weights| {
            let dense = weights.dense()?;
            Some(LayerPlans {
                qkv: plan(weights.qkv, Ending::Plain)?,
                output: plan(weights.output, Ending::Residual)?,
                gate_up: plan(dense.gate_up, Ending::GateUp)?,
                down: plan(dense.down, Ending::Residual)?,
            })
        });
        let layers: Vec<LayerPlans> = layers.collect::<Option<_>>()?;
        let fits = layers
            .iter()
            .flat_map(|layer| [&layer.output, &layer.down])
            .all(|plan| plan.partials() <= MOST_PARTIALS);
        fits.then_some(SmallPlans { rows, layers })
    }
}

/// The sums of squares that the last writer of `x` left.
#[derive(Clone, Copy)]
struct Sums {
    count: usize,
    eps: f32,
}

impl Forward<'_> {
    /// Queues the walk over few rows.
    pub fn run_small(
        &self,
        plans: &SmallPlans,
        buffers: &mut Buffers,
        kv: &mut KvArena,
        scratch: &mut Scratch,
    ) -> Result<(), ForwardError> {
        let mut sums = self.embed_small(plans, buffers)?;
        for (index, layer) in self.decoder.layers.iter().enumerate() {
            sums = self.attention_small(index, layer, plans, sums, buffers, kv, scratch)?;
            sums = self.feed_forward_small(index, layer, plans, sums, buffers)?;
        }
        Ok(())
    }

    fn embed_small(&self, plans: &SmallPlans, buffers: &mut Buffers) -> Result<Sums, ForwardError> {
        let decoder = self.decoder;
        let norm = decoder.mixer_pre_norm(0).ok_or_else(no_norm)?;
        let problem = embed::Problem {
            rows: plans.rows,
            hidden: decoder.semantic.hidden_size,
            vocab: decoder.semantic.vocab_size,
            handover: Handover::Gained,
        };
        let args = embed::Args {
            tokens: self.words(&self.layout.tokens),
            sampled: self.sampled,
            table: decoder.matrix(decoder.weights.parts.embedding),
            scale: decoder.semantic.embedding.scale,
            given: None,
            h: buffers.h.view_mut(),
            next: Next::Gained {
                x: buffers.x.view_mut(),
                weight: norm.weight,
                partials: buffers.partials.view_mut(),
                stride: MOST_PARTIALS,
            },
        };
        self.ops.embed.launch(self.stream, &embed::Plan::new(&problem)?, args)?;
        Ok(Sums { count: 1, eps: norm.eps })
    }

    #[expect(clippy::too_many_arguments)]
    fn attention_small(
        &self,
        index: usize,
        layer: &Layer,
        plans: &SmallPlans,
        sums: Sums,
        buffers: &mut Buffers,
        kv: &mut KvArena,
        scratch: &mut Scratch,
    ) -> Result<Sums, ForwardError> {
        let decoder = self.decoder;
        let weights = &decoder.weights.parts.layers[index];
        let own = &plans.layers[index];
        let output = Output::Plain { y: buffers.qkv.view_mut() };
        let norm = Some(self.row_norm(sums, &buffers.partials));
        self.small(&own.qkv, (weights.qkv, weights.qkv_bias), buffers.x.view(), norm, output)?;
        if !self.attention_prepares(layer) {
            self.prepare(index, layer, buffers, kv)?;
        }
        self.attend(index, layer, &self.work[layer.kind], buffers, kv, scratch)?;
        let norm = decoder.ff_pre_norm(index).ok_or_else(no_norm)?;
        let output = Output::Residual {
            h: buffers.h.view_mut(),
            scale: layer.spec.residual_scale,
            next: Some(NextX {
                x: buffers.x.view_mut(),
                gain: norm.weight,
                partials: buffers.partials.view_mut(),
                stride: MOST_PARTIALS,
            }),
        };
        let matrix = (weights.output, weights.output_bias);
        self.small(&own.output, matrix, buffers.mixed.view(), None, output)?;
        Ok(Sums { count: own.output.partials(), eps: norm.eps })
    }

    fn feed_forward_small(
        &self,
        index: usize,
        layer: &Layer,
        plans: &SmallPlans,
        sums: Sums,
        buffers: &mut Buffers,
    ) -> Result<Sums, ForwardError> {
        let decoder = self.decoder;
        let weights = decoder.weights.parts.layers[index].dense();
        let weights = weights.expect("plans are made for dense feed-forwards alone");
        let own = &plans.layers[index];
        let output =
            Output::GateUp { a: buffers.inner.view_mut(), function: layer.mlp().activation };
        let norm = Some(self.row_norm(sums, &buffers.partials));
        let matrix = (weights.gate_up, weights.gate_up_bias);
        self.small(&own.gate_up, matrix, buffers.x.view(), norm, output)?;
        let is_last = index + 1 == decoder.layers.len();
        let norm = match is_last {
            true => None,
            false => Some(decoder.mixer_pre_norm(index + 1).ok_or_else(no_norm)?),
        };
        let output = Output::Residual {
            h: buffers.h.view_mut(),
            scale: layer.spec.residual_scale,
            next: norm.map(|norm| NextX {
                x: buffers.x.view_mut(),
                gain: norm.weight,
                partials: buffers.partials.view_mut(),
                stride: MOST_PARTIALS,
            }),
        };
        let matrix = (weights.down, weights.down_bias);
        self.small(&own.down, matrix, buffers.inner.view(), None, output)?;
        Ok(Sums { count: own.down.partials(), eps: norm.map_or(0.0, |norm| norm.eps) })
    }

    fn row_norm<'b>(&self, sums: Sums, partials: &'b crate::driver::Buffer<f32>) -> RowNorm<'b> {
        RowNorm {
            partials: partials.view(),
            count: sums.count,
            stride: MOST_PARTIALS,
            width: self.decoder.semantic.hidden_size,
            eps: sums.eps,
        }
    }

    pub(super) fn small(
        &self,
        plan: &Plan,
        (matrix, bias): (Matrix, Option<Vector>),
        x: View<'_, bf16>,
        norm: Option<RowNorm<'_>>,
        output: Output<'_>,
    ) -> Result<(), ForwardError> {
        let args = Args {
            x,
            x_stride: matrix.cols,
            weight: self.decoder.matrix(matrix),
            bias: bias.map(|bias| self.decoder.vector(bias)),
            norm,
            output,
        };
        Ok(self.ops.skinny.launch(self.stream, plan, args)?)
    }
}

fn no_norm() -> ForwardError {
    ForwardError::Unsupported(Unsupported {
        operation: "decoding with few rows",
        seen: "a branch without a norm before it".to_owned(),
        requirement: "the other walk".to_owned(),
    })
}
