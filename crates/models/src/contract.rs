//! The execution contract: the meaning of a decoder together with every weight it needs, bound to bytes.

use foundation::Bytes;

use crate::{
    semantic::DecoderSemantic,
    weights::{WeightBinding, WeightRole},
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
    /// The binding for `role`, if the decoder has that weight.
    pub fn binding(&self, role: WeightRole) -> Option<&WeightBinding> {
        self.bindings.iter().find(|binding| binding.role == role)
    }

    /// Bytes of all weights as they lie in storage.
    pub fn weight_bytes(&self) -> Bytes {
        self.bindings.iter().map(WeightBinding::stored_bytes).sum()
    }
}
