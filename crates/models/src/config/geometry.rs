//! The sizes that every decoder has.

use super::keys::Keys;
use crate::semantic::{Activation, AttentionSpec, EmbeddingSpec, HeadSpec, NormSpec, RopeSpec};

/// Limits above every model that exists; a number beyond them is a damaged file, not a model.
mod cap {
    pub const HIDDEN: usize = 1 << 18;
    pub const INTERMEDIATE: usize = 1 << 20;
    pub const LAYERS: usize = 1 << 10;
    pub const HEADS: usize = 1 << 12;
    pub const HEAD_DIM: usize = 1 << 12;
    pub const VOCABULARY: usize = 1 << 24;
    pub const POSITIONS: usize = 1 << 30;
    /// Of one layer, and of all layers together.
    pub const EXPERTS: usize = 1 << 12;
    pub const EXPERTS_IN_ALL: usize = 1 << 17;
    /// Of all weights together, and of the keys and values of one longest sequence: each number above may be in range and
    /// their product not. Whoever multiplies sizes further relies on these.
    pub const PARAMETERS: u128 = 1 << 44;
    pub const CACHE: u128 = 1 << 52;
}

/// What absent keys mean: the defaults of the oracle's configuration class.
#[derive(Clone, Copy, Debug)]
pub struct Defaults {
    /// `vocab_size`.
    pub vocab_size: usize,
    /// `hidden_size`.
    pub hidden_size: usize,
    /// `intermediate_size`.
    pub intermediate_size: usize,
    /// `num_hidden_layers`.
    pub layers: usize,
    /// `num_attention_heads`.
    pub heads: usize,
    /// `num_key_value_heads`; `None`: as many as `heads`.
    pub kv_heads: Option<usize>,
    /// `head_dim`; `None`: `hidden_size / heads`.
    pub head_dim: Option<usize>,
    /// `max_position_embeddings`.
    pub max_positions: usize,
    /// `rms_norm_eps`.
    pub eps: f64,
    /// `tie_word_embeddings`.
    pub tied: bool,
}

impl Defaults {
    /// What most families have, Llama's being the first.
    pub const LLAMA: Defaults = Defaults {
        vocab_size: 32_000,
        hidden_size: 4096,
        intermediate_size: 11_008,
        layers: 32,
        heads: 32,
        kv_heads: None,
        head_dim: None,
        max_positions: 2048,
        eps: 1e-6,
        tied: false,
    };
}

/// The sizes of a decoder, checked against each other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Geometry {
    /// Width of the residual stream.
    pub hidden_size: usize,
    /// Rows of the embedding.
    pub vocab_size: usize,
    /// Width between the projections of the feed-forward.
    pub intermediate_size: usize,
    /// Number of layers.
    pub layers: usize,
    /// Query heads.
    pub heads: usize,
    /// Key and value heads.
    pub kv_heads: usize,
    /// Width of one head.
    pub head_dim: usize,
    /// Longest sequence.
    pub max_positions: usize,
    /// Under every norm's root.
    pub eps: f32,
    /// The head reads the embedding table.
    pub tied: bool,
}

impl Geometry {
    /// Reads the sizes from `keys`.
    pub fn read(keys: &mut Keys<'_>, defaults: &Defaults) -> Self {
        let heads = keys.size("num_attention_heads", defaults.heads, cap::HEADS);
        let kv_default = Some(defaults.kv_heads.unwrap_or(heads));
        // Null is the spelling of "no grouping", also where the class default is a number.
        let kv_heads =
            keys.nullable_size("num_key_value_heads", kv_default, cap::HEADS).unwrap_or(heads);
        let hidden_size = keys.size("hidden_size", defaults.hidden_size, cap::HIDDEN);
        let given = keys.nullable_size("head_dim", defaults.head_dim, cap::HEAD_DIM);
        let head_dim = given.unwrap_or_else(|| (hidden_size / heads).max(1));
        let geometry = Geometry {
            hidden_size,
            vocab_size: keys.size("vocab_size", defaults.vocab_size, cap::VOCABULARY),
            intermediate_size: keys.size(
                "intermediate_size",
                defaults.intermediate_size,
                cap::INTERMEDIATE,
            ),
            layers: keys.size("num_hidden_layers", defaults.layers, cap::LAYERS),
            heads,
            kv_heads,
            head_dim,
            max_positions: keys.size(
                "max_position_embeddings",
                defaults.max_positions,
                cap::POSITIONS,
            ),
            eps: keys.positive("rms_norm_eps", defaults.eps) as f32,
            tied: keys.flag("tie_word_embeddings", defaults.tied),
        };
        if !keys.has_errors() {
            geometry.check(keys, given.is_none());
        }
        geometry
    }

    /// `derived`: no key gives the width of a head.
    fn check(&self, keys: &mut Keys<'_>, derived: bool) {
        let Geometry { hidden_size, heads, kv_heads, head_dim, .. } = *self;
        if !heads.is_multiple_of(kv_heads) {
            let message =
                format!("is {kv_heads}, which does not divide num_attention_heads, {heads}");
            keys.error("num_key_value_heads", message);
        }
        if derived && !hidden_size.is_multiple_of(heads) {
            let message = format!("is {heads}, which does not divide hidden_size, {hidden_size}");
            keys.error("num_attention_heads", message);
        } else if !head_dim.is_multiple_of(2) {
            let origin = if derived { " (hidden_size / num_attention_heads)" } else { "" };
            let message = format!("is {head_dim}{origin}, but rotary positions need pairs");
            keys.error("head_dim", message);
        }
        self.check_products(keys);
    }

    fn check_products(&self, keys: &mut Keys<'_>) {
        let Geometry { hidden_size, vocab_size, intermediate_size, .. } = *self;
        let Geometry { layers, heads, kv_heads, head_dim, max_positions, .. } = *self;
        let [hidden, query, key] = [hidden_size, heads * head_dim, kv_heads * head_dim].map(wide);
        let layer = hidden * (2 * query + 2 * key + 3 * wide(intermediate_size));
        let parameters = wide(layers) * layer + 2 * hidden * wide(vocab_size);
        if parameters > cap::PARAMETERS {
            let message = format!(
                "is {layers}; with hidden_size {hidden_size}, num_attention_heads {heads}, head_dim {head_dim}, \
                 intermediate_size {intermediate_size} and vocab_size {vocab_size} that is {parameters} parameters, \
                 at most {} are read",
                cap::PARAMETERS
            );
            keys.error("num_hidden_layers", message);
        }
        let cache = 2 * key * wide(layers) * wide(max_positions);
        if cache > cap::CACHE {
            let message = format!(
                "is {max_positions}; with num_hidden_layers {layers}, num_key_value_heads {kv_heads} and head_dim \
                 {head_dim} the keys and values of one sequence are {cache} numbers, at most {} are read",
                cap::CACHE
            );
            keys.error("max_position_embeddings", message);
        }
    }

    /// The number of experts of a layer under `key`, of so many layers.
    pub fn experts(&self, keys: &mut Keys<'_>, key: &str, default: usize) -> usize {
        let experts = keys.size(key, default, cap::EXPERTS);
        if experts * self.layers > cap::EXPERTS_IN_ALL {
            let message = format!(
                "is {experts}; with num_hidden_layers {} that is {}, at most {} are read",
                self.layers,
                experts * self.layers,
                cap::EXPERTS_IN_ALL
            );
            keys.error(key, message);
        }
        experts
    }

    /// The width of an expert under `key`, of so many a layer.
    pub fn expert_width(
        &self,
        keys: &mut Keys<'_>,
        key: &str,
        default: usize,
        experts: usize,
    ) -> usize {
        let width = keys.size(key, default, cap::INTERMEDIATE);
        let [layers, hidden, all, each] = [self.layers, self.hidden_size, experts, width].map(wide);
        let parameters = layers * all * 3 * hidden * each;
        if parameters > cap::PARAMETERS {
            let message = format!(
                "is {width}; with {experts} experts, num_hidden_layers {} and hidden_size {} that is {parameters} \
                 parameters, at most {} are read",
                self.layers,
                self.hidden_size,
                cap::PARAMETERS
            );
            keys.error(key, message);
        }
        width
    }

    /// The width of `key` experts of width `width` side by side.
    pub fn shared_width(
        &self,
        keys: &mut Keys<'_>,
        key: &str,
        default: usize,
        width: usize,
    ) -> usize {
        let count = keys.size(key, default, cap::EXPERTS);
        if count * width > cap::INTERMEDIATE {
            let message = format!(
                "is {count}; {count} experts of width {width} are {} wide, at most {} is read",
                count * width,
                cap::INTERMEDIATE
            );
            keys.error(key, message);
        }
        count * width
    }

    /// Embedding rows as they are.
    pub fn embedding(&self) -> EmbeddingSpec {
        EmbeddingSpec { scale: 1.0 }
    }

    /// A head without scale and cap.
    pub fn head(&self) -> HeadSpec {
        HeadSpec { tied: self.tied, logit_scale: 1.0, softcap: None }
    }

    /// A norm that multiplies by its weight.
    pub fn norm(&self) -> NormSpec {
        NormSpec { eps: self.eps, weight_offset: 0.0 }
    }

    /// Attention scaled by `1 / sqrt(head_dim)`, over all positions, without biases, norms and caps.
    pub fn attention(&self, rope: RopeSpec) -> AttentionSpec {
        AttentionSpec {
            heads: self.heads,
            kv_heads: self.kv_heads,
            head_dim: self.head_dim,
            scale: (self.head_dim as f64).powf(-0.5) as f32,
            window: None,
            rope: Some(rope),
            qk_norm: None,
            qkv_bias: false,
            output_bias: false,
            softcap: None,
        }
    }
}

/// Wide enough for any product of sizes in their ranges.
fn wide(size: usize) -> u128 {
    size as u128
}

/// The activation under `key`.
pub fn activation(keys: &mut Keys<'_>, key: &str, default: Activation) -> Activation {
    let Some(name) = keys.text(key) else { return default };
    let known = ACTIVATIONS.iter().find(|(spelling, _)| *spelling == name);
    match known {
        Some((_, activation)) => *activation,
        None => {
            let names: Vec<&str> = ACTIVATIONS.iter().map(|(spelling, _)| *spelling).collect();
            keys.error(key, format!("is {name:?}, known are {}", names.join(", ")));
            default
        }
    }
}

const ACTIVATIONS: &[(&str, Activation)] = &[
    ("silu", Activation::Silu),
    ("swish", Activation::Silu),
    ("gelu", Activation::GeluErf),
    ("gelu_pytorch_tanh", Activation::GeluTanh),
    ("gelu_new", Activation::GeluTanh),
];

/// Largest number of layers that is read.
pub const MAX_LAYERS: usize = cap::LAYERS;
