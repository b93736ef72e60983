//! Walks the layers for one step: token rows in, final hidden states out.
//!
//! ```text
//! h = embedding[token] * scale
//! for each layer:
//!     m = attention(pre_norm(h));    h = h + scale * post_norm(m)
//!     f = feed_forward(pre_norm(h)); h = h + scale * post_norm(f)
//! ```

mod feed_forward;

use foundation::TokenId;
use models::semantic::RopeSpec;
use runtime::batch::{Positions, StepBatch};

use self::feed_forward::Routing;
use crate::{
    kv::{KvCache, KvLayer},
    matrix::Rows,
    model::{AttentionLayer, Decoder, Layer},
    ops::{
        attention::attend,
        embedding::embed,
        projection::{Projection, project},
        residual::add_residual,
        rms_norm::Norm,
        rope::RopeTable,
    },
    plan::Workspace,
    simd::Isa,
    threads::Threads,
};

/// A decoder, its cache, and the space to compute in.
#[derive(Debug)]
pub struct Executor {
    /// Instruction set of the routines.
    pub isa: Isa,
    /// Threads that share the work.
    pub threads: Threads,
    /// The decoder.
    pub model: Decoder,
    /// Keys and values.
    pub cache: KvCache,
    /// Cosines and sines, one table for each of [`Decoder::ropes`].
    tables: Vec<RopeTable>,
    buffers: Buffers,
}

/// Activations of a step, row-major, with room for the longest step.
#[derive(Debug)]
struct Buffers {
    /// The residual stream, `[T, hidden]`.
    hidden: Vec<f32>,
    /// What goes into a branch and what comes out of it, `[T, hidden]`.
    branch: Vec<f32>,
    /// Queries, keys, values side by side.
    qkv: Vec<f32>,
    /// What attention mixes, `[T, heads * head_dim]`.
    mixed: Vec<f32>,
    /// Gate and up side by side, `[T, 2 * intermediate]`.
    gate_up: Vec<f32>,
    /// What routed feed-forwards need.
    routing: Routing,
}

impl Executor {
    /// An executor with room for steps of `workspace.rows` rows.
    pub fn new(
        isa: Isa,
        threads: Threads,
        model: Decoder,
        cache: KvCache,
        workspace: Workspace,
    ) -> Executor {
        let buffer = |width: usize| vec![0.0; workspace.rows * width];
        let buffers = Buffers {
            hidden: buffer(workspace.hidden),
            branch: buffer(workspace.hidden),
            qkv: buffer(workspace.qkv),
            mixed: buffer(workspace.mixed),
            gate_up: buffer(workspace.gate_up),
            routing: Routing::new(&workspace),
        };
        let tables = vec![RopeTable::default(); model.ropes.len()];
        Executor { isa, threads, model, cache, tables, buffers }
    }

    /// Computes a validated step, whose row `t` has the token `tokens[t]`. Hidden states stay in [`Executor::hidden`].
    pub fn forward(&mut self, batch: &StepBatch, tokens: &[TokenId]) {
        for copy in &batch.block_copies {
            self.cache.copy_block(copy.group as usize, copy.from, copy.to);
        }
        self.embed(batch, tokens);
        self.fill_tables(batch);
        let Executor { isa, threads, model, cache, tables, buffers } = self;
        let hidden_size = model.semantic.hidden_size;
        let step = Step { isa: *isa, threads, batch, tables, rows: tokens.len(), hidden_size };
        threads.enter(|| {
            for (layer, cache) in model.layers.iter().zip(&mut cache.layers) {
                step.layer(layer, cache, buffers);
            }
        });
    }

    /// The last step's hidden state of a row, before the final norm.
    pub fn hidden(&self, row: usize) -> &[f32] {
        let width = self.model.semantic.hidden_size;
        &self.buffers.hidden[row * width..(row + 1) * width]
    }

    fn embed(&mut self, batch: &StepBatch, tokens: &[TokenId]) {
        let width = self.model.semantic.hidden_size;
        let (table, scale) = (self.model.embedding.view(), self.model.semantic.embedding.scale);
        for (token, row) in tokens.iter().zip(self.buffers.hidden.chunks_mut(width)) {
            embed(self.isa, table, token.0 as usize, scale, row);
        }
        for given in &batch.embeddings {
            let rows = given.rows.start as usize * width..given.rows.end as usize * width;
            self.buffers.hidden[rows].copy_from_slice(&given.values);
        }
    }

    fn fill_tables(&mut self, batch: &StepBatch) {
        let Positions::Text(positions) = &batch.positions else {
            unreachable!("validation lets one plane of positions through")
        };
        let thresholds = self.model.semantic.regime_thresholds();
        for (spec, table) in self.model.ropes.iter().zip(&mut self.tables) {
            let regimes = [spec.frequencies(0), spec.frequencies(1)];
            table.reset(regimes[0].inv_freq.len());
            for run in &batch.runs {
                let frequencies = &regimes[own_regime(spec, &thresholds, run.regime as usize)];
                for row in run.rows.clone() {
                    table.push(frequencies, positions[row as usize]);
                }
            }
        }
    }
}

/// The regime of one rotary embedding in regime `regime` of the whole decoder: whether its own threshold is passed.
fn own_regime(spec: &RopeSpec, thresholds: &[usize], regime: usize) -> usize {
    let own = spec.regime_threshold();
    usize::from(thresholds.iter().take(regime).any(|threshold| Some(*threshold) == own))
}

/// What is the same for all layers of a step.
struct Step<'a> {
    isa: Isa,
    threads: &'a Threads,
    batch: &'a StepBatch,
    tables: &'a [RopeTable],
    rows: usize,
    hidden_size: usize,
}

impl Step<'_> {
    fn layer(&self, layer: &Layer, cache: &mut KvLayer, buffers: &mut Buffers) {
        self.enter_branch(&layer.mixer_pre_norm, buffers);
        self.attention(&layer.attention, cache, buffers);
        self.leave_branch(&layer.mixer_post_norm, layer.residual_scale, buffers);
        self.enter_branch(&layer.ff_pre_norm, buffers);
        self.feed_forward(&layer.feed_forward, buffers);
        self.leave_branch(&layer.ff_post_norm, layer.residual_scale, buffers);
    }

    /// `branch = norm(hidden)`.
    fn enter_branch(&self, norm: &Option<Norm>, buffers: &mut Buffers) {
        let width = self.hidden_size;
        let hidden = &buffers.hidden;
        self.threads.rows(&mut buffers.branch, width, self.rows, |row, branch| {
            branch.copy_from_slice(&hidden[row * width..(row + 1) * width]);
            if let Some(norm) = norm {
                norm.apply(self.isa, branch);
            }
        });
    }

    /// `hidden = hidden + scale * norm(branch)`.
    fn leave_branch(&self, norm: &Option<Norm>, scale: f32, buffers: &mut Buffers) {
        let width = self.hidden_size;
        if let Some(norm) = norm {
            let norm_row = |_, branch: &mut [f32]| norm.apply(self.isa, branch);
            self.threads.rows(&mut buffers.branch, width, self.rows, norm_row);
        }
        let branch = &buffers.branch;
        self.threads.rows(&mut buffers.hidden, width, self.rows, |row, hidden| {
            add_residual(self.isa, hidden, &branch[row * width..(row + 1) * width], scale);
        });
    }

    /// `branch = output(attend(query(branch), key(branch), value(branch)))`.
    fn attention(&self, layer: &AttentionLayer, cache: &mut KvLayer, buffers: &mut Buffers) {
        let op = &layer.op;
        let (query_width, key_width) = (op.heads * op.head_dim, op.kv_heads * op.head_dim);
        let width = query_width + 2 * key_width;
        let projections =
            [layer.query.projection(), layer.key.projection(), layer.value.projection()];
        self.project(&buffers.branch, &projections, &mut buffers.qkv, width);
        self.threads.rows(&mut buffers.qkv, width, self.rows, |row, qkv| {
            let (query, key) = qkv[..query_width + key_width].split_at_mut(query_width);
            if let Some((query_norm, key_norm)) = &layer.qk_norm {
                norm_heads(self.isa, query_norm, query);
                norm_heads(self.isa, key_norm, key);
            }
            if let Some(rope) = layer.rope {
                let heads = query.chunks_mut(op.head_dim).chain(key.chunks_mut(op.head_dim));
                heads.for_each(|head| self.tables[rope].rotate(self.isa, row, head));
            }
        });
        self.write_cache(cache, &buffers.qkv, width, query_width, key_width);
        let queries = Rows::new(&buffers.qkv, width, query_width, self.rows);
        let runs = &self.batch.runs;
        attend(self.isa, self.threads, op, queries, runs, cache, &mut buffers.mixed);
        let projections = [layer.output.projection()];
        let out = layer.output.weight.view().rows();
        self.project(&buffers.mixed, &projections, &mut buffers.branch, out);
    }

    fn write_cache(
        &self,
        cache: &mut KvLayer,
        qkv: &[f32],
        width: usize,
        query_width: usize,
        key_width: usize,
    ) {
        for run in &self.batch.runs {
            let table = &run.tables[cache.group];
            for (row, token) in run.rows.clone().zip(run.cached as usize..) {
                let row = &qkv[row as usize * width + query_width..][..2 * key_width];
                cache.write(table, token, &row[..key_width], &row[key_width..]);
            }
        }
    }

    /// Projects the step's rows of `x`, which lie one after the other.
    fn project(&self, x: &[f32], projections: &[Projection<'_>], y: &mut [f32], stride: usize) {
        let width = projections[0].weight.cols();
        let x = Rows::new(x, width, width, self.rows);
        project(self.isa, self.threads, x, projections, y, stride);
    }
}

/// Norms each head, or the whole row, by the length of the norm's weight.
fn norm_heads(isa: Isa, norm: &Norm, row: &mut [f32]) {
    row.chunks_mut(norm.weight.len()).for_each(|part| norm.apply(isa, part));
}
