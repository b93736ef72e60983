//! Products of few rows one by one, where layers have something between them that the walk over few rows ([`super::small`]) does not
//! know: norms behind a branch, experts.

use super::decoder::Decoder;
use crate::{
    driver::DeviceLimits,
    ops::skinny::{Ending, Plan, Problem},
    weights::{DenseWeights, FeedForwardWeights, LayerWeights, Matrix},
};

/// The plans of a decoder's products for a number of rows.
#[derive(Clone, Debug)]
pub struct FewPlans {
    plans: Vec<(Problem, Plan)>,
    rows: usize,
}

impl FewPlans {
    /// Those that there is a kernel for; the others go their usual way.
    pub fn new(decoder: &Decoder, rows: usize, limits: &DeviceLimits) -> FewPlans {
        let mut few = FewPlans { plans: Vec::new(), rows };
        for (index, weights) in decoder.weights.parts.layers.iter().enumerate() {
            for (matrix, ending) in products(decoder, index, weights) {
                let problem = few.problem(matrix, ending);
                if few.plans.iter().all(|(known, _)| *known != problem)
                    && let Ok(plan) = Plan::new(&problem, limits)
                {
                    few.plans.push((problem, plan));
                }
            }
        }
        few
    }

    /// The plan of a product with `matrix`.
    pub fn get(&self, matrix: Matrix, ending: Ending) -> Option<&Plan> {
        let problem = self.problem(matrix, ending);
        self.plans.iter().find(|(known, _)| *known == problem).map(|(_, plan)| plan)
    }

    fn problem(&self, matrix: Matrix, ending: Ending) -> Problem {
        let Matrix { rows: columns, cols: inner, .. } = matrix;
        Problem { rows: self.rows, columns, inner, ending, invariant: false }
    }
}

/// The products of a layer, and what becomes of each.
fn products(decoder: &Decoder, index: usize, weights: &LayerWeights) -> Vec<(Matrix, Ending)> {
    let added = |is_added| if is_added { Ending::Residual } else { Ending::Plain };
    let mut products =
        vec![(weights.qkv, Ending::Plain), (weights.output, added(decoder.mixer_is_added(index)))];
    let mut dense = |dense: &DenseWeights, down| {
        products.extend([(dense.gate_up, Ending::GateUp), (dense.down, down)]);
    };
    match &weights.feed_forward {
        FeedForwardWeights::Dense(weights) => dense(weights, added(decoder.ff_is_added(index))),
        FeedForwardWeights::Routed(routed) => {
            routed.shared.iter().for_each(|shared| dense(shared, Ending::Plain));
            products.push((routed.router, Ending::Logits));
        }
    }
    products
}
