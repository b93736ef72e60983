//! What the layers of a decoder mean, in a vocabulary without family names.
//!
//! A family file turns a configuration into a [`DecoderSemantic`]; a backend lowers it to its operations.
//! All numbers are those of the mathematics: scales are multiplied, epsilons added under the root.
//!
//! A decoder computes, for hidden states `h` of shape `[tokens, hidden]`:
//!
//! ```text
//! h = embedding[token] * embedding.scale
//! for each layer:
//!     m = mixer(mixer_pre_norm(h));        h = h + residual_scale * mixer_post_norm(m)
//!     f = feed_forward(ff_pre_norm(h));    h = h + residual_scale * ff_post_norm(f)
//! logits = softcap(head(final_norm(h)) * logit_scale)
//! ```
//!
//! where an absent norm is the identity.

/// A whole decoder.
#[derive(Clone, Debug, PartialEq)]
pub struct DecoderSemantic {
    /// Width of the residual stream.
    pub hidden_size: usize,
    /// Rows of the embedding and of the head.
    pub vocab_size: usize,
    /// The longest sequence the checkpoint was made for, in tokens.
    pub max_positions: usize,
    /// Token embedding.
    pub embedding: EmbeddingSpec,
    /// The layers, first to last.
    pub layers: Vec<LayerSpec>,
    /// Norm before the head.
    pub final_norm: NormSpec,
    /// Projection to the vocabulary.
    pub head: HeadSpec,
    /// Layers that the checkpoint may hold behind the last, which guess further tokens (multi-token prediction). They are not
    /// computed.
    pub draft_layers: usize,
}

/// Token embedding: a row of the table, times a scale.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EmbeddingSpec {
    /// Multiplies every row (Gemma: `sqrt(hidden)`; Granite: `embedding_multiplier`); 1 elsewhere.
    pub scale: f32,
}

/// Projection to the vocabulary.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HeadSpec {
    /// The head reads the embedding table; there is no tensor of its own.
    pub tied: bool,
    /// Multiplies the logits (Granite: `1 / logits_scaling`); 1 elsewhere.
    pub logit_scale: f32,
    /// `cap * tanh(x / cap)` over the logits, after the scale.
    pub softcap: Option<f32>,
}

/// One layer: a mixer and a feed-forward, each inside the residual stream.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerSpec {
    /// Norm on the way into the mixer.
    pub mixer_pre_norm: Option<NormSpec>,
    /// What moves information between tokens.
    pub mixer: Mixer,
    /// Norm on the mixer's output, before it is added.
    pub mixer_post_norm: Option<NormSpec>,
    /// Norm on the way into the feed-forward.
    pub ff_pre_norm: Option<NormSpec>,
    /// What each token does alone.
    pub feed_forward: FeedForward,
    /// Norm on the feed-forward's output, before it is added.
    pub ff_post_norm: Option<NormSpec>,
    /// Multiplies both branches before they are added (Granite); 1 elsewhere.
    pub residual_scale: f32,
}

/// Root-mean-square norm: `x / sqrt(mean(x^2) + eps) * (w + weight_offset)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NormSpec {
    /// Added under the root.
    pub eps: f32,
    /// Added to the stored weight: 1 for Gemma's `(1 + w)`, 0 elsewhere.
    pub weight_offset: f32,
}

/// What moves information between tokens.
#[derive(Clone, Debug, PartialEq)]
pub enum Mixer {
    /// Causal softmax attention with grouped queries.
    Attention(AttentionSpec),
}

/// Causal softmax attention with grouped queries.
///
/// `softmax(softcap(q k^T * scale) + mask) v`, then the output projection.
#[derive(Clone, Debug, PartialEq)]
pub struct AttentionSpec {
    /// Query heads.
    pub heads: usize,
    /// Key and value heads; divides `heads`.
    pub kv_heads: usize,
    /// Width of one head, for queries, keys and values.
    pub head_dim: usize,
    /// Multiplies the scores.
    pub scale: f32,
    /// A token sees itself and the `window - 1` tokens before it; `None`: all before it.
    pub window: Option<usize>,
    /// Rotary position embedding; `None`: positions do not enter.
    pub rope: Option<RopeSpec>,
    /// Norm on queries and keys, before the rotation.
    pub qk_norm: Option<QkNormSpec>,
    /// Query, key and value projections add a bias.
    pub qkv_bias: bool,
    /// The output projection adds a bias.
    pub output_bias: bool,
    /// `cap * tanh(x / cap)` over the scaled scores.
    pub softcap: Option<f32>,
}

/// Norm on queries and keys.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QkNormSpec {
    /// The norm.
    pub norm: NormSpec,
    /// Over what the mean is taken.
    pub extent: QkNormExtent,
}

/// Over what a query/key norm takes its mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QkNormExtent {
    /// Each head alone; the weight has `head_dim` elements (Qwen3, Gemma 3).
    Head,
    /// The whole projection; the weight has `heads * head_dim` elements (OLMo 2).
    Projection,
}

/// Rotary position embedding, half-split: element `i` pairs with `i + rotary_dim / 2`.
#[derive(Clone, Debug, PartialEq)]
pub struct RopeSpec {
    /// Base of the geometric series of wavelengths.
    pub theta: f64,
    /// Leading elements of a head that are rotated; the rest pass through.
    pub rotary_dim: usize,
    /// Change to the frequencies for long contexts.
    pub scaling: RopeScaling,
}

/// Change of the rotary frequencies for long contexts.
#[derive(Clone, Debug, PartialEq)]
pub enum RopeScaling {
    /// None.
    None,
    /// All frequencies divided by `factor`.
    Linear {
        /// Divisor.
        factor: f64,
    },
    /// Llama 3.1: low frequencies divided by `factor`, high ones kept, a ramp between.
    Llama3 {
        /// Divisor of the low frequencies.
        factor: f64,
        /// Wavelengths above `original_max / low_freq_factor` are divided.
        low_freq_factor: f64,
        /// Wavelengths below `original_max / high_freq_factor` are kept.
        high_freq_factor: f64,
        /// Context length of the pre-training.
        original_max: usize,
    },
    /// YaRN (Peng et al. 2023, arXiv:2309.00071).
    Yarn {
        /// Context extension.
        factor: f64,
        /// Rotations at `original_max` above which a frequency is kept.
        beta_fast: f64,
        /// Rotations at `original_max` below which a frequency is divided.
        beta_slow: f64,
        /// Context length of the pre-training.
        original_max: usize,
        /// Multiplies cosine and sine.
        attention_factor: f64,
        /// Whether the ramp's ends are rounded to whole dimensions.
        truncate: bool,
    },
    /// LongRoPE (Ding et al. 2024, arXiv:2402.13753): per-frequency divisors. Sequences of up to `original_max`
    /// tokens use `short`; a longer sequence uses `long` for ALL its positions (see [`RopeSpec::regime_threshold`]).
    LongRope {
        /// Divisors for short sequences, `rotary_dim / 2` of them.
        short: Vec<f64>,
        /// Divisors for long sequences, `rotary_dim / 2` of them.
        long: Vec<f64>,
        /// Longest sequence that uses `short`.
        original_max: usize,
        /// Multiplies cosine and sine.
        attention_factor: f64,
    },
}

/// The frequencies that one regime of a [`RopeSpec`] rotates by.
#[derive(Clone, Debug, PartialEq)]
pub struct RopeFrequencies {
    /// Radians a position, `rotary_dim / 2` of them, in float32 as the reference computes them.
    pub inv_freq: Vec<f32>,
    /// Multiplies cosine and sine.
    pub attention_factor: f32,
}

/// What each token does alone.
#[derive(Clone, Debug, PartialEq)]
pub enum FeedForward {
    /// `down(activation(gate(x)) * up(x))`.
    Dense(GatedMlpSpec),
    /// A few of many gated feed-forwards, chosen for each token.
    Routed(RoutedSpec),
}

/// A few of many gated feed-forwards ("experts"), chosen for each token by a router:
///
/// ```text
/// chosen, weights = router(x)
/// y = sum over chosen e of weights[e] * expert[e](x)  [+ gate * shared(x)]
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RoutedSpec {
    /// How many experts there are.
    pub experts: usize,
    /// How many of them a token visits, at least 1.
    pub per_token: usize,
    /// What each of them is.
    pub expert: GatedMlpSpec,
    /// How they are chosen.
    pub router: RouterSpec,
    /// What every token visits beside them.
    pub shared: Option<SharedExpertSpec>,
}

/// How experts are chosen: by a score each, of which the highest win.
///
/// ```text
/// scores  = softmax(W x)  or  sigmoid(W x)                   over all experts
/// chosen  = the per_token highest of scores [+ correction], of equals the first
/// weights = scale * scores[chosen]  [/ sum of scores[chosen]]
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RouterSpec {
    /// What becomes of the projection's outputs.
    pub scores: RouterScores,
    /// A learned number for each expert is added to its score where experts are compared, and nowhere else (DeepSeek V3).
    pub correction: bool,
    /// Experts are compared only within the best of so many groups.
    pub groups: Option<ExpertGroups>,
    /// The weights of the chosen sum to 1 before they are scaled.
    pub normalise: bool,
    /// Multiplies the weights.
    pub scale: f32,
}

/// What becomes of a router's outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouterScores {
    /// Softmax over all experts.
    Softmax,
    /// Each by itself.
    Sigmoid,
}

/// Groups of neighbouring experts, of which those with the highest sums of their two best are looked into (DeepSeek V3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpertGroups {
    /// How many there are; divides the number of experts.
    pub count: usize,
    /// How many of them are looked into.
    pub kept: usize,
}

/// What every token visits beside the experts that are chosen for it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SharedExpertSpec {
    /// What it is.
    pub mlp: GatedMlpSpec,
    /// Its output is multiplied by `sigmoid(w x)`, one number a token.
    pub gated: bool,
}

/// A gated feed-forward: `down(activation(gate(x)) * up(x))`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GatedMlpSpec {
    /// Width between the projections.
    pub intermediate_size: usize,
    /// Applied to the gate.
    pub activation: Activation,
    /// All three projections add a bias.
    pub bias: bool,
}

/// An elementwise function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// `x * sigmoid(x)`.
    Silu,
    /// Gaussian error linear unit, tanh approximation (`gelu_pytorch_tanh`).
    GeluTanh,
    /// Gaussian error linear unit, exact (`gelu`).
    GeluErf,
}

/// A set of layers whose KV caches grow alike and share one table of blocks.
#[derive(Clone, Debug, PartialEq)]
pub struct KvGroup {
    /// `None`: every token is kept; `Some(w)`: only the last `w` tokens are ever read.
    pub window: Option<usize>,
    /// Indices of the layers, ascending.
    pub layers: Vec<usize>,
}

impl FeedForward {
    /// The gated feed-forward that every token takes, where there is nothing else.
    pub fn dense(&self) -> Option<&GatedMlpSpec> {
        match self {
            FeedForward::Dense(mlp) => Some(mlp),
            FeedForward::Routed(_) => None,
        }
    }
}

impl DecoderSemantic {
    /// The softmax attention of every layer that has one.
    pub fn attentions_mut(&mut self) -> impl Iterator<Item = &mut AttentionSpec> {
        self.layers.iter_mut().map(|layer| match &mut layer.mixer {
            Mixer::Attention(attention) => attention,
        })
    }

    /// The layers grouped by how their caches grow: full attention first, then one group for each window.
    pub fn kv_groups(&self) -> Vec<KvGroup> {
        let mut groups: Vec<KvGroup> = Vec::new();
        for (index, layer) in self.layers.iter().enumerate() {
            let Mixer::Attention(attention) = &layer.mixer;
            match groups.iter_mut().find(|group| group.window == attention.window) {
                Some(group) => group.layers.push(index),
                None => groups.push(KvGroup { window: attention.window, layers: vec![index] }),
            }
        }
        groups.sort_by_key(|group| group.window.map_or(0, |window| window.saturating_add(1)));
        groups
    }

    /// Sequence lengths beyond which all cached positions mean something else (LongRoPE), ascending.
    /// A sequence of `n` tokens is in regime `thresholds.filter(|t| n > t).count()`.
    pub fn regime_thresholds(&self) -> Vec<usize> {
        let mut thresholds: Vec<usize> = self
            .layers
            .iter()
            .filter_map(|layer| match &layer.mixer {
                Mixer::Attention(attention) => attention.rope.as_ref(),
            })
            .filter_map(RopeSpec::regime_threshold)
            .collect();
        thresholds.sort_unstable();
        thresholds.dedup();
        thresholds
    }
}

impl RopeSpec {
    /// The sequence length beyond which the frequencies change for the whole sequence, if there is one.
    pub fn regime_threshold(&self) -> Option<usize> {
        match &self.scaling {
            RopeScaling::LongRope { original_max, .. } => Some(*original_max),
            _ => None,
        }
    }
}
