//! Where the dense feed-forward of a family differs from Llama's.

use crate::{
    config::{Geometry, Keys, geometry::activation},
    semantic::{Activation, GatedMlpSpec},
};

/// How a gated feed-forward is read.
#[derive(Clone, Copy, Debug)]
pub(super) struct GatedMlpRules {
    /// The key that names the activation, and what its absence means.
    pub activation: (&'static str, Activation),
    /// The key that puts a bias on all three projections, where the family has one.
    pub bias: Option<&'static str>,
}

impl GatedMlpRules {
    /// SiLU unless `hidden_act` says otherwise, and no bias.
    pub const SILU: GatedMlpRules =
        GatedMlpRules { activation: ("hidden_act", Activation::Silu), bias: None };

    /// What the configuration under `keys` means.
    pub fn read(&self, keys: &mut Keys<'_>, geometry: &Geometry) -> GatedMlpSpec {
        let (key, default) = self.activation;
        GatedMlpSpec {
            intermediate_size: geometry.intermediate_size,
            activation: activation(keys, key, default),
            bias: self.bias.is_some_and(|key| keys.flag(key, false)),
        }
    }
}
