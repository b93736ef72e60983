//! The walk through the layers: token rows in, the residual stream after the last layer out.
//!
//! ```text
//! h = embedding[token] * scale;  x = pre_norm(h)
//! for each layer:
//!     qkv = x Wqkv;  q, cache = prepare(qkv);  mixed = attend(q, cache)
//!     h += scale * post_norm(mixed Wo);                x = pre_norm(h)
//!     inner = activation(x Wgate) * (x Wup)
//!     h += scale * post_norm(inner Wdown);             x = the next layer's pre_norm(h)
//! ```
//!
//! A branch without a norm of its own and a scale of 1 is added to the stream by its product; others take a launch more.
//!
//! Of the last layer only keys and values are wanted of every row; what comes behind them, of rows with an output. Where those are
//! few, they are picked, and the stream is theirs alone from there on.

use std::ops::Range;

use half::bf16;
use models::semantic::{Activation, FeedForward, RoutedSpec};

use super::{
    buffers::Buffers,
    decoder::{Decoder, Layer},
    few::FewPlans,
    kv::KvArena,
};
use crate::{
    driver::{DriverError, Stream, View, ViewMut},
    engine::layout::{Count, Layout},
    ops::{
        Ops, Unsupported, activation, attention_decode, attention_prefill, embed, experts, gather,
        gemm::{self, Output, Target},
        heads::{CacheScales, Norms, Rope},
        qkv_prepare, residual_norm, rms_norm, routing,
        rows::{Handover, Next, NormWeight},
        skinny,
    },
    weights::{DenseWeights, FeedForwardWeights, Matrix, RoutedWeights, Vector},
};

/// Rows from which on, where there is no kernel for Hopper, the library's product and a launch of its own for the gates beat one
/// launch for both.
const ROWS_FOR_LIBRARY: usize = 512;

/// Why a step could not be queued.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ForwardError {
    /// The driver refused.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// No kernel does it; admission should have said so.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
}

/// One kind of attention's work in a step: rows that decode, and runs that prefill.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AttentionWork {
    /// Plan, and where its items lie in the step block (words).
    pub decode: Option<(attention_decode::Plan, Range<usize>)>,
    /// Plan, and where its tiles and shares lie in the step block (words).
    pub prefill: Option<(attention_prefill::Plan, Range<usize>, Range<usize>)>,
}

/// Memory for what attention leaves unfinished.
#[derive(Debug)]
pub struct Scratch {
    /// Of split sequences.
    pub decode: attention_decode::Scratch,
    /// Of split tiles.
    pub prefill: attention_prefill::Scratch,
}

/// The rows that the last layer is computed for, where they are not all.
#[derive(Debug)]
pub struct Picked {
    /// Where their numbers lie in the step block (words).
    pub rows: Range<usize>,
    /// The last layer's attention, for these rows at least.
    pub work: AttentionWork,
}

/// What one walk needs beside buffers.
#[derive(Clone, Copy, Debug)]
pub struct Forward<'a> {
    /// The operations.
    pub ops: &'a Ops,
    /// The decoder.
    pub decoder: &'a Decoder,
    /// Where its launches go.
    pub stream: &'a Stream,
    /// How the step block is laid out.
    pub layout: &'a Layout,
    /// The step block.
    pub block: View<'a, u32>,
    /// What the outputs of the step before sampled.
    pub sampled: View<'a, i32>,
    /// Rows whose embedding is given.
    pub given: Option<embed::Given<'a>>,
    /// For each kind of attention, its work.
    pub work: &'a [AttentionWork],
    /// The rows that the last layer is computed for; `None`: all.
    pub picked: Option<&'a Picked>,
    /// Rows of the stream.
    pub rows: usize,
    /// For each layer, its cache as prefill attention reads it.
    pub cache_layers: &'a [attention_prefill::CacheLayer],
    /// A row's result must not depend on the others.
    pub invariant: bool,
    /// The plans of products, where rows are few.
    pub few: Option<&'a FewPlans>,
}

impl Forward<'_> {
    /// Queues the walk over all rows. Where rows are picked, the stream's first rows are theirs afterwards.
    pub fn run(
        &self,
        buffers: &mut Buffers,
        kv: &mut KvArena,
        scratch: &mut Scratch,
    ) -> Result<(), ForwardError> {
        self.embed(buffers)?;
        let last = self.decoder.layers.len().checked_sub(1);
        for (index, layer) in self.decoder.layers.iter().enumerate() {
            self.project(index, layer, buffers, kv)?;
            match self.picked.filter(|_| Some(index) == last) {
                None => {
                    self.attend(index, layer, &self.work[layer.kind], buffers, kv, scratch)?;
                    self.leave_attention(index, layer, buffers)?;
                    self.feed_forward(index, layer, buffers)?;
                }
                Some(picked) if picked.rows.is_empty() => {}
                Some(picked) => {
                    self.attend(index, layer, &picked.work, buffers, kv, scratch)?;
                    let few = self.pick(picked, buffers)?;
                    few.leave_attention(index, layer, buffers)?;
                    few.feed_forward(index, layer, buffers)?;
                }
            }
        }
        Ok(())
    }

    /// Moves the picked rows of what attention gave, and of the stream, to the front; the walk over them alone.
    fn pick(&self, picked: &Picked, buffers: &mut Buffers) -> Result<Self, ForwardError> {
        let hidden = self.decoder.semantic.hidden_size;
        let last = self.decoder.weights.parts.layers.last().expect("rows are picked in a layer");
        let (width, count) = (last.output.cols, picked.rows.len());
        let rows = self.words(&picked.rows);
        let mixed = gather::Problem { count, rows: self.rows, width, size: size_of::<bf16>() };
        let stream = gather::Problem { width: hidden, size: size_of::<f32>(), ..mixed };
        let gather = &self.ops.gather;
        // Queries and the projection have done their service in this layer.
        let args = gather::Args { x: buffers.mixed.view(), rows, y: buffers.q.view_mut() };
        gather.launch(self.stream, &gather::Plan::new(&mixed)?, args)?;
        let mut front = buffers.qkv.view_mut().slice(0..2 * count * hidden).cast::<f32>();
        let args = gather::Args { x: buffers.h.view(), rows, y: front.reborrow() };
        gather.launch(self.stream, &gather::Plan::new(&stream)?, args)?;
        let (mixed, q) = (buffers.mixed.view_mut(), buffers.q.view());
        self.stream.copy(q.slice(0..count * width), mixed.slice(0..count * width))?;
        let h = buffers.h.view_mut().slice(0..count * hidden);
        self.stream.copy(front.as_view(), h)?;
        Ok(Forward { rows: count, ..*self })
    }

    /// An array of the step block.
    pub(super) fn words(&self, range: &Range<usize>) -> View<'_, i32> {
        self.block.slice(range.clone()).cast()
    }

    fn embed(&self, buffers: &mut Buffers) -> Result<(), ForwardError> {
        let (decoder, rows) = (self.decoder, self.rows);
        let hidden = decoder.semantic.hidden_size;
        let norm = decoder.mixer_pre_norm(0);
        let problem = embed::Problem {
            rows,
            hidden,
            vocab: decoder.semantic.vocab_size,
            handover: handover(norm),
        };
        let args = embed::Args {
            tokens: self.words(&self.layout.tokens),
            sampled: self.sampled,
            table: decoder.matrix(decoder.weights.parts.embedding),
            scale: decoder.semantic.embedding.scale,
            given: self.given,
            h: buffers.h.view_mut(),
            next: next(norm, buffers.x.view_mut()),
        };
        Ok(self.ops.embed.launch(self.stream, &embed::Plan::new(&problem)?, args)?)
    }

    /// Queries, keys and values of all rows; keys and values go to the cache.
    fn project(
        &self,
        index: usize,
        layer: &Layer,
        buffers: &mut Buffers,
        kv: &mut KvArena,
    ) -> Result<(), ForwardError> {
        let decoder = self.decoder;
        let weights = &decoder.weights.parts.layers[index];
        let x = self.part(buffers.x.view(), weights.qkv.cols);
        let y = self.part_mut(buffers.qkv.view_mut(), weights.qkv.rows);
        self.product(weights.qkv, weights.qkv_bias, x, Output::Bf16, Target::Bf16(y))?;
        match self.attention_prepares(layer) {
            true => Ok(()),
            false => self.prepare(index, layer, buffers, kv),
        }
    }

    /// What attention gave, into the stream.
    fn leave_attention(
        &self,
        index: usize,
        layer: &Layer,
        buffers: &mut Buffers,
    ) -> Result<(), ForwardError> {
        let decoder = self.decoder;
        let weights = &decoder.weights.parts.layers[index];
        let branch = Branch {
            matrix: weights.output,
            bias: weights.output_bias,
            post: decoder.norm(weights.mixer_post_norm, layer.spec.mixer_post_norm.as_ref()),
            scale: layer.spec.residual_scale,
            is_added: decoder.mixer_is_added(index),
            next: Some(decoder.ff_pre_norm(index)),
        };
        let mixed = self.part(buffers.mixed.view(), branch.matrix.cols);
        self.leave_branch(branch, mixed, &mut buffers.h.view_mut(), &mut buffers.y, &mut buffers.x)
    }

    pub(super) fn prepare(
        &self,
        index: usize,
        layer: &Layer,
        buffers: &mut Buffers,
        kv: &mut KvArena,
    ) -> Result<(), ForwardError> {
        let kind = &self.decoder.attentions[layer.kind];
        let problem = qkv_prepare::Problem {
            rows: self.rows,
            heads: kind.heads,
            rotary_dim: layer.attention().rope.as_ref().map_or(0, |rope| rope.rotary_dim),
            norm: layer.attention().qk_norm.map(|norm| norm.extent),
        };
        let plan = qkv_prepare::Plan::new(&problem, self.stream.gpu().limits())?;
        let args = qkv_prepare::Args {
            qkv: buffers.qkv.view(),
            q: buffers.q.view_mut(),
            arena: kv.layer_mut(index),
            slots: self.words(&self.layout.slots[kind.group]),
            scales: CacheScales::default(),
            rope: self.rope(layer),
            norms: self.norms(index, layer),
        };
        Ok(self.ops.qkv_prepare.launch(self.stream, &plan, args)?)
    }

    fn rope(&self, layer: &Layer) -> Option<Rope<'_>> {
        layer.rope.map(|rope| Rope {
            positions: self.words(&self.layout.positions),
            regimes: Some(self.words(&self.layout.regimes[rope])),
            inv_freq: self.decoder.ropes[rope].inv_freq.view(),
            factors: self.decoder.ropes[rope].factors,
        })
    }

    fn norms(&self, index: usize, layer: &Layer) -> Option<Norms<'_>> {
        let weights = &self.decoder.weights.parts.layers[index];
        let (q, k) = weights.query_norm.zip(weights.key_norm)?;
        let eps = layer.attention().qk_norm.as_ref()?.norm.eps;
        Some(Norms { q: self.decoder.vector(q), k: self.decoder.vector(k), eps })
    }

    /// Whether attention takes the projection as it is.
    pub(super) fn attention_prepares(&self, layer: &Layer) -> bool {
        let decode = self.work[layer.kind].decode.as_ref();
        decode.is_some_and(|(plan, _)| plan.prepares())
    }

    pub(super) fn attend(
        &self,
        index: usize,
        layer: &Layer,
        work: &AttentionWork,
        buffers: &mut Buffers,
        kv: &mut KvArena,
        scratch: &mut Scratch,
    ) -> Result<(), ForwardError> {
        let kind = &self.decoder.attentions[layer.kind];
        let width = kind.heads.heads * kind.heads.head_dim;
        let tables = self.block.slice(self.layout.pool..self.block.len()).cast::<i32>();
        if let Some((plan, items)) = &work.decode {
            let prepares = plan.prepares();
            let args = attention_decode::Args {
                q: if prepares { buffers.qkv.view() } else { buffers.q.view() },
                arena: kv.layer_mut(index),
                tables,
                items: self.block.slice(items.clone()).cast(),
                out: buffers.mixed.view_mut(),
                scales: CacheScales::default(),
                rope: self.rope(layer).filter(|_| prepares),
                norms: self.norms(index, layer).filter(|_| prepares),
            };
            self.ops.attention_decode.launch(self.stream, plan, &mut scratch.decode, args)?;
        }
        if let Some((plan, tiles, shares)) = &work.prefill {
            let args = attention_prefill::Args {
                queries: buffers.q.view(),
                query_stride: width,
                cache: &self.cache_layers[index],
                tables,
                table_starts: self.words(&self.layout.table_starts[kind.group]),
                table_firsts: self.words(&self.layout.table_firsts[kind.group]),
                tiles: self.block.slice(tiles.clone()).cast(),
                shares: self.block.slice(shares.clone()).cast(),
                out: buffers.mixed.view_mut(),
                out_stride: width,
            };
            let attention = kind.prefill();
            let scratch = &mut scratch.prefill;
            self.ops.attention_prefill.launch(self.stream, &attention, plan, scratch, args)?;
        }
        Ok(())
    }

    fn feed_forward(
        &self,
        index: usize,
        layer: &Layer,
        buffers: &mut Buffers,
    ) -> Result<(), ForwardError> {
        let decoder = self.decoder;
        let weights = &decoder.weights.parts.layers[index];
        let is_last = index + 1 == decoder.layers.len();
        let post = decoder.norm(weights.ff_post_norm, layer.spec.ff_post_norm.as_ref());
        let scale = layer.spec.residual_scale;
        let next = (!is_last).then(|| decoder.mixer_pre_norm(index + 1));
        let dense = match (&weights.feed_forward, &layer.spec.feed_forward) {
            (FeedForwardWeights::Routed(routed), FeedForward::Routed(spec)) => {
                self.routed(routed, spec, buffers)?;
                let Buffers { h, y, x, .. } = buffers;
                return self.add_branch(post, scale, next, &mut h.view_mut(), y, x);
            }
            (FeedForwardWeights::Dense(dense), _) => dense,
            (FeedForwardWeights::Routed(_), FeedForward::Dense(_)) => {
                unreachable!("weights lie as the layer means them")
            }
        };
        self.gate_up(dense, layer.mlp().activation, buffers)?;
        let is_added = decoder.ff_is_added(index);
        let branch =
            Branch { matrix: dense.down, bias: dense.down_bias, post, scale, is_added, next };
        let inner = self.part(buffers.inner.view(), branch.matrix.cols);
        self.leave_branch(branch, inner, &mut buffers.h.view_mut(), &mut buffers.y, &mut buffers.x)
    }

    /// `y = what the experts of each row give, and the shared one`.
    fn routed(
        &self,
        weights: &RoutedWeights,
        spec: &RoutedSpec,
        buffers: &mut Buffers,
    ) -> Result<(), ForwardError> {
        let (rows, hidden) = (self.rows, weights.router.cols);
        let RoutedSpec { experts, per_token, expert, router, shared } = *spec;
        if let Some((shared, spec)) = weights.shared.as_ref().zip(shared) {
            self.gate_up(shared, spec.mlp.activation, buffers)?;
            let inner = self.part(buffers.inner.view(), shared.down.cols);
            let y = self.part_mut(buffers.routing.shared.view_mut(), hidden);
            self.product(shared.down, None, inner, Output::Bf16, Target::Bf16(y))?;
        }
        let x = self.part(buffers.x.view(), hidden);
        let logits = buffers.routing.logits.view_mut().slice(0..rows * experts);
        self.product(weights.router, None, x, Output::F32, Target::F32(logits))?;
        let problem = experts::Problem {
            rows,
            experts,
            per_token,
            hidden,
            intermediate: expert.intermediate_size,
            activation: expert.activation,
            invariant: self.invariant,
        };
        let plan = experts::Plan::new(&problem, self.stream.gpu().limits())?;
        let routing = &mut buffers.routing;
        let problem =
            routing::Problem { rows, experts, per_token, router, tile_rows: plan.tile_rows() };
        let live = self.layout.counts.start + Count::Rows as usize;
        let args = routing::Args {
            logits: routing.logits.view(),
            // What fills a captured step up must not fetch experts.
            live: Some(self.block.slice(live..live + 1)),
            correction: weights.correction.map(|correction| self.decoder.vector(correction)),
            chosen: routing.chosen.view_mut(),
            weights: routing.weights.view_mut(),
            order: routing.order.view_mut(),
            tiles: routing.tiles.view_mut(),
            tile_count: routing.tile_count.view_mut(),
        };
        self.ops.routing.launch(self.stream, &routing::Plan::new(&problem)?, args)?;
        let args = experts::Args {
            x: buffers.x.view(),
            gate_up: self.decoder.matrix(weights.gate_up),
            down: self.decoder.matrix(weights.down),
            order: routing.order.view(),
            tiles: routing.tiles.view(),
            tile_count: routing.tile_count.view(),
            weights: routing.weights.view(),
            inner: routing.inner.view_mut(),
            out: routing.out.view_mut(),
            shared: weights.shared.map(|_| routing.shared.view()),
            y: buffers.y.view_mut(),
        };
        Ok(self.ops.experts.launch(self.stream, &plan, args)?)
    }

    /// `inner = activation(x Wgate) * (x Wup)`: in one launch, or by the library's product and a launch behind it where its speed
    /// pays for the detour.
    fn gate_up(
        &self,
        weights: &DenseWeights,
        activation: Activation,
        buffers: &mut Buffers,
    ) -> Result<(), ForwardError> {
        let DenseWeights { gate_up, gate_up_bias, down, .. } = *weights;
        let x = self.part(buffers.x.view(), gate_up.cols);
        let gemm = &self.ops.gemm;
        let library = gemm.has_library() && !gemm.has_wgmma() && !self.invariant;
        if !library || self.rows < ROWS_FOR_LIBRARY {
            let inner = Target::Bf16(self.part_mut(buffers.inner.view_mut(), down.cols));
            return self.product(gate_up, gate_up_bias, x, Output::GateUp(activation), inner);
        }
        let both = Target::Bf16(self.part_mut(buffers.gate_up.view_mut(), gate_up.rows));
        self.product(gate_up, gate_up_bias, x, Output::Bf16, both)?;
        let problem = activation::Problem { rows: self.rows, intermediate: down.cols };
        let args = activation::Args {
            function: activation,
            gate_up: buffers.gate_up.view(),
            a: buffers.inner.view_mut(),
        };
        Ok(self.ops.activation.launch(self.stream, &activation::Plan::new(&problem)?, args)?)
    }

    /// `h += scale * post(input W)`, and `x = next(h)` where something follows.
    fn leave_branch(
        &self,
        branch: Branch<'_>,
        input: View<'_, bf16>,
        h: &mut ViewMut<'_, f32>,
        y: &mut crate::driver::Buffer<bf16>,
        x: &mut crate::driver::Buffer<bf16>,
    ) -> Result<(), ForwardError> {
        let Branch { matrix, bias, post, scale, is_added, next: following } = branch;
        let (rows, hidden) = (self.rows, matrix.rows);
        if is_added {
            let target = Target::F32(h.reborrow().slice(0..rows * hidden));
            self.product(matrix, bias, input, Output::AddF32, target)?;
            return match following.flatten() {
                Some(norm) => self.norm(rows, hidden, h.as_view(), norm, x),
                None => Ok(()),
            };
        }
        let target = Target::Bf16(self.part_mut(y.view_mut(), hidden));
        self.product(matrix, bias, input, Output::Bf16, target)?;
        self.add_branch(post, scale, following, h, y, x)
    }

    /// `h += scale * post(y)`, and `x = next(h)` where something follows.
    fn add_branch(
        &self,
        post: Option<NormWeight<'_>>,
        scale: f32,
        following: Option<Option<NormWeight<'_>>>,
        h: &mut ViewMut<'_, f32>,
        y: &crate::driver::Buffer<bf16>,
        x: &mut crate::driver::Buffer<bf16>,
    ) -> Result<(), ForwardError> {
        let (rows, hidden) = (self.rows, self.decoder.semantic.hidden_size);
        let next = match following {
            None => Next::Nothing,
            Some(norm) => next(norm, x.view_mut()),
        };
        let problem = residual_norm::Problem { rows, hidden, handover: next.handover() };
        let args = residual_norm::Args { h: h.reborrow(), y: y.view(), post, scale, next };
        Ok(self.ops.residual_norm.launch(self.stream, &problem.plan()?, args)?)
    }

    fn norm(
        &self,
        rows: usize,
        hidden: usize,
        h: View<'_, f32>,
        norm: NormWeight<'_>,
        x: &mut crate::driver::Buffer<bf16>,
    ) -> Result<(), ForwardError> {
        let problem = rms_norm::Problem { rows, hidden };
        let args = rms_norm::Args { h, rows: None, norm, x: Some(x.view_mut()), full: None };
        Ok(self.ops.rms_norm.launch(self.stream, &problem.plan()?, args)?)
    }

    fn product(
        &self,
        matrix: Matrix,
        bias: Option<Vector>,
        x: View<'_, bf16>,
        output: Output,
        y: Target<'_>,
    ) -> Result<(), ForwardError> {
        let ending = match output {
            Output::Bf16 => skinny::Ending::Plain,
            Output::F32 => skinny::Ending::Logits,
            Output::AddF32 => skinny::Ending::Residual,
            Output::GateUp(_) => skinny::Ending::GateUp,
        };
        let few = self.few.filter(|_| !self.invariant);
        if let Some(plan) = few.and_then(|few| few.get(matrix, ending)) {
            return self.small(plan, (matrix, bias), x, None, few_output(output, y)?);
        }
        let problem = gemm::Problem {
            rows: self.rows as u32,
            n: matrix.rows as u32,
            k: matrix.cols as u32,
            bias: bias.is_some(),
            output,
            invariant: self.invariant,
        };
        let args = gemm::Args {
            x,
            w: self.decoder.matrix(matrix),
            bias: bias.map(|bias| self.decoder.vector(bias)),
            y,
            live_rows: None,
        };
        Ok(self.ops.gemm.launch(self.stream, &self.ops.gemm.plan(&problem)?, args)?)
    }

    fn part<'v>(&self, view: View<'v, bf16>, width: usize) -> View<'v, bf16> {
        view.slice(0..self.rows * width)
    }

    fn part_mut<'v>(&self, view: ViewMut<'v, bf16>, width: usize) -> ViewMut<'v, bf16> {
        view.slice(0..self.rows * width)
    }
}

/// The same output as the products of few rows say it.
fn few_output(output: Output, y: Target<'_>) -> Result<skinny::Output<'_>, DriverError> {
    match (output, y) {
        (Output::Bf16, Target::Bf16(y)) => Ok(skinny::Output::Plain { y }),
        (Output::GateUp(function), Target::Bf16(a)) => Ok(skinny::Output::GateUp { a, function }),
        (Output::AddF32, Target::F32(h)) => {
            Ok(skinny::Output::Residual { h, scale: 1.0, next: None })
        }
        (Output::F32, Target::F32(logits)) => {
            Ok(skinny::Output::Logits { logits, scale: 1.0, softcap: None, best: None })
        }
        (output, _) => {
            Err(DriverError::Invalid(format!("a product as {output:?} into another type")))
        }
    }
}

/// The end of a branch: its last product, and what becomes of its result.
struct Branch<'a> {
    matrix: Matrix,
    bias: Option<Vector>,
    post: Option<NormWeight<'a>>,
    scale: f32,
    /// Whether its last product adds it to the stream.
    is_added: bool,
    /// What reads the stream next: nothing, or a product behind a norm or behind none.
    next: Option<Option<NormWeight<'a>>>,
}

fn handover(norm: Option<NormWeight<'_>>) -> Handover {
    if norm.is_some() { Handover::Normed } else { Handover::Plain }
}

fn next<'a>(norm: Option<NormWeight<'a>>, x: ViewMut<'a, bf16>) -> Next<'a> {
    match norm {
        Some(norm) => Next::Normed { x, norm },
        None => Next::Plain { x },
    }
}
