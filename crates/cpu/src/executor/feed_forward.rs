//! Feed-forwards of a step: the same for every token, or some of many, chosen for each.

use super::{Buffers, Step};
use crate::{
    matrix::Rows,
    model::{FeedForwardLayer, Mlp, RoutedLayer},
    ops::{
        activation,
        exp::sigmoid,
        projection::project,
        residual::add_residual,
        routing::{Visit, route},
    },
    plan::Workspace,
};

/// What routed feed-forwards need, with room for the longest step; empty where no layer has experts.
#[derive(Debug)]
pub(super) struct Routing {
    /// Scores, `[T, experts]`.
    scores: Vec<f32>,
    /// The same as they are compared, of one token.
    ranks: Vec<f32>,
    /// The experts of each token, `[T, per_token]`.
    visits: Vec<Visit>,
    /// Indices into `visits`, expert by expert, within one in the order of tokens.
    order: Vec<u32>,
    /// The rows that visit an expert, `[T, hidden]`.
    gathered: Vec<f32>,
    /// What it gives, `[T, hidden]`.
    given: Vec<f32>,
    /// The sum of what a token's experts give, `[T, hidden]`.
    sum: Vec<f32>,
}

impl Routing {
    pub(super) fn new(workspace: &Workspace) -> Routing {
        let Workspace { rows, hidden, experts, visits, .. } = *workspace;
        let wide = if experts > 0 { rows * hidden } else { 0 };
        Routing {
            scores: vec![0.0; rows * experts],
            ranks: vec![0.0; experts],
            visits: vec![Visit::default(); rows * visits],
            order: vec![0; rows * visits],
            gathered: vec![0.0; wide],
            given: vec![0.0; wide],
            sum: vec![0.0; wide],
        }
    }
}

impl Step<'_> {
    /// `branch = feed_forward(branch)`.
    pub(super) fn feed_forward(&self, layer: &FeedForwardLayer, buffers: &mut Buffers) {
        match layer {
            FeedForwardLayer::Dense(mlp) => {
                let Buffers { branch, gate_up, .. } = buffers;
                self.gate_and_up(mlp, branch, gate_up, self.rows);
                self.down(mlp, gate_up, branch, self.rows);
            }
            FeedForwardLayer::Routed(routed) => self.routed(routed, buffers),
        }
    }

    fn routed(&self, layer: &RoutedLayer, buffers: &mut Buffers) {
        let width = self.hidden_size;
        self.choose(layer, buffers);
        let Buffers { branch, gate_up, routing, .. } = buffers;
        let Routing { visits, order, gathered, given, sum, .. } = routing;
        sum[..self.rows * width].fill(0.0);
        // Experts in their order, whoever visits them: so a token's sum does not depend on the others.
        let each = layer.spec.per_token;
        let order = &order[..self.rows * each];
        for visitors in
            order.chunk_by(|a, b| visits[*a as usize].expert == visits[*b as usize].expert)
        {
            let mlp = &layer.experts[visits[visitors[0] as usize].expert as usize];
            for (row, visit) in gathered.chunks_mut(width).zip(visitors) {
                let token = *visit as usize / each;
                row.copy_from_slice(&branch[token * width..][..width]);
            }
            self.gate_and_up(mlp, gathered, gate_up, visitors.len());
            self.down(mlp, gate_up, given, visitors.len());
            for (row, visit) in given.chunks(width).zip(visitors) {
                let token = *visit as usize / each;
                let sum = &mut sum[token * width..][..width];
                add_residual(self.isa, sum, row, visits[*visit as usize].weight);
            }
        }
        if let Some((mlp, gate)) = &layer.shared {
            self.gate_and_up(mlp, branch, gate_up, self.rows);
            self.down(mlp, gate_up, given, self.rows);
            let rows = sum.chunks_mut(width).zip(given.chunks(width)).take(self.rows);
            match gate {
                None => rows.for_each(|(sum, row)| add_residual(self.isa, sum, row, 1.0)),
                Some(gate) => {
                    let amounts = &mut routing.scores;
                    self.project(branch, &[gate.projection()], amounts, 1);
                    for ((sum, row), amount) in rows.zip(amounts.iter()) {
                        add_residual(self.isa, sum, row, sigmoid(*amount));
                    }
                }
            }
        }
        branch[..self.rows * width].copy_from_slice(&sum[..self.rows * width]);
    }

    /// Fills `visits` and `order` for the rows of `branch`.
    fn choose(&self, layer: &RoutedLayer, buffers: &mut Buffers) {
        let (experts, each) = (layer.spec.experts, layer.spec.per_token);
        let Routing { scores, ranks, visits, order, .. } = &mut buffers.routing;
        self.project(&buffers.branch, &[layer.router.projection()], scores, experts);
        let correction = layer.correction.as_deref();
        let rows = scores.chunks_mut(experts).zip(visits.chunks_mut(each));
        for (scores, visits) in rows.take(self.rows) {
            route(&layer.spec.router, correction, scores, &mut ranks[..experts], visits);
        }
        let order = &mut order[..self.rows * each];
        order.iter_mut().zip(0..).for_each(|(place, visit)| *place = visit);
        order.sort_unstable_by_key(|visit| (visits[*visit as usize].expert, *visit));
    }

    /// The first half of `gate_up` becomes `activation(gate(x)) * up(x)`, for `rows` rows of `x`.
    fn gate_and_up(&self, mlp: &Mlp, x: &[f32], gate_up: &mut [f32], rows: usize) {
        let gate = mlp.gate.weight.view();
        let (inner, width) = (gate.rows(), gate.cols());
        let projections = [mlp.gate.projection(), mlp.up.projection()];
        let x = Rows::new(x, width, width, rows);
        project(self.isa, self.threads, x, &projections, gate_up, 2 * inner);
        self.threads.rows(gate_up, 2 * inner, rows, |_, row| {
            let (gate, up) = row.split_at_mut(inner);
            activation::gate(self.isa, mlp.activation, gate, up);
        });
    }

    /// `out = down(x)`, where `x` is the first half of the rows of `gate_up`.
    fn down(&self, mlp: &Mlp, gate_up: &[f32], out: &mut [f32], rows: usize) {
        let down = mlp.down.weight.view();
        let x = Rows::new(gate_up, 2 * down.cols(), down.cols(), rows);
        project(self.isa, self.threads, x, &[mlp.down.projection()], out, down.rows());
    }
}
