//! The execution contract: the meaning of a decoder together with every weight it needs, bound to bytes.

mod check;

use std::collections::HashMap;

use foundation::{Bytes, DType};

use crate::{
    catalog::{TensorCatalog, TensorInfo},
    error::Findings,
    format,
    semantic::{DecoderSemantic, FeedForward, LayerSpec},
    synthetic,
    task::DecoderPlan,
    weights::{FileRegion, PlannedWeight, TensorOrigin, TensorStorage, WeightBinding, WeightRole},
};

/// Everything a backend needs to run a decoder. No family name appears in it.
#[derive(Clone, Debug, PartialEq)]
pub struct DecoderExecutionContract {
    /// What the layers mean.
    pub semantic: DecoderSemantic,
    /// Every weight, in the order of the plan.
    pub bindings: Vec<WeightBinding>,
}

impl DecoderExecutionContract {
    /// Binds every weight of `plan` to its bytes. Tensors that are missing, unexpected, of a wrong shape or of a type that
    /// no format reads join `findings`, all of them; then there is no contract, nor where a file could not be read.
    pub fn discover(
        plan: &DecoderPlan,
        catalog: &TensorCatalog,
        findings: &mut Findings,
    ) -> Option<Self> {
        let found = check::tensors(plan, catalog);
        let is_sound = catalog.is_whole() && !found.has_errors();
        findings.extend(found);
        is_sound.then(|| {
            let bind = |weight: &PlannedWeight| {
                let tensor = catalog.get(&weight.source.tensor);
                bind(weight, tensor.expect("check::tensors saw every tensor of the plan"))
            };
            DecoderExecutionContract {
                semantic: plan.semantic.clone(),
                bindings: plan.weights.iter().map(bind).collect(),
            }
        })
    }

    /// Binds every weight of `plan` to made-up values of type `dtype`, which is BF16, F16 or F32.
    pub fn synthetic(plan: &DecoderPlan, seed: u64, dtype: DType) -> Self {
        let bind = |weight: &PlannedWeight| WeightBinding {
            role: weight.role,
            shape: weight.shape.clone(),
            shard: weight.shard,
            storage: TensorStorage::Dense {
                dtype,
                origin: synthetic::origin(seed, weight, &plan.semantic),
            },
        };
        DecoderExecutionContract {
            semantic: plan.semantic.clone(),
            bindings: plan.weights.iter().map(bind).collect(),
        }
    }

    /// The binding for `role`, if the decoder has that weight.
    pub fn binding(&self, role: WeightRole) -> Option<&WeightBinding> {
        self.bindings.iter().find(|binding| binding.role == role)
    }

    /// All bindings by role, for whoever asks for many.
    pub fn by_role(&self) -> HashMap<WeightRole, &WeightBinding> {
        self.bindings.iter().map(|binding| (binding.role, binding)).collect()
    }

    /// Bytes of all weights as they lie in storage.
    pub fn weight_bytes(&self) -> Bytes {
        self.bindings.iter().map(WeightBinding::stored_bytes).sum()
    }

    /// Bytes of weights that a step reads, however few its rows: all but an embedding table that is no head, too, of which it reads
    /// a row a token, and those of experts.
    pub fn step_bytes(&self) -> Bytes {
        let is_read = |binding: &&WeightBinding| match binding.role {
            WeightRole::TokenEmbedding => self.semantic.head.tied,
            WeightRole::Expert(..) => false,
            _ => true,
        };
        self.bindings.iter().filter(is_read).map(WeightBinding::stored_bytes).sum()
    }

    /// Bytes of all experts' weights.
    pub fn expert_bytes(&self) -> Bytes {
        let experts = self.bindings.iter();
        let experts = experts.filter(|binding| matches!(binding.role, WeightRole::Expert(..)));
        experts.map(WeightBinding::stored_bytes).sum()
    }

    /// The part of a layer's experts that one token visits, of the layer where it is the largest; 0 without experts.
    pub fn expert_share(&self) -> f64 {
        let share = |layer: &LayerSpec| match &layer.feed_forward {
            FeedForward::Dense(_) => 0.0,
            FeedForward::Routed(routed) => routed.per_token as f64 / routed.experts as f64,
        };
        self.semantic.layers.iter().map(share).fold(0.0, f64::max)
    }

    /// Elements of all weights.
    pub fn parameters(&self) -> u64 {
        let elements = |binding: &WeightBinding| binding.shape.iter().product::<usize>() as u64;
        self.bindings.iter().map(elements).sum()
    }
}

/// The weight's bytes within its tensor: all, or a range of rows.
fn bind(weight: &PlannedWeight, tensor: &TensorInfo) -> WeightBinding {
    let region = match &weight.source.rows {
        None => tensor.region.clone(),
        Some(rows) => {
            let row_bytes = tensor.region.bytes / tensor.shape[0] as u64;
            FileRegion {
                offset: tensor.region.offset + rows.start as u64 * row_bytes,
                bytes: rows.len() as u64 * row_bytes,
                ..tensor.region.clone()
            }
        }
    };
    WeightBinding {
        role: weight.role,
        shape: weight.shape.clone(),
        shard: weight.shard,
        storage: format::bind(tensor, TensorOrigin::File(region))
            .expect("check::tensors saw a format for every tensor"),
    }
}

#[cfg(test)]
mod tests;
