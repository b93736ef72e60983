//! What a request asks of the sampler, and what one row of a step carries of it.

use std::sync::Arc;

use foundation::TokenId;

/// How the next token is chosen. Applied in this order: bias, penalties, then argmax if greedy; else temperature,
/// top-k, top-p, min-p, draw.
#[derive(Clone, Debug, PartialEq)]
pub struct SamplingParams {
    /// Divides the logits; 0 means greedy (argmax, lowest id among equals).
    pub temperature: f32,
    /// Keep the `k` likeliest; 0: all.
    pub top_k: u32,
    /// Keep the smallest set whose probability reaches `p`, in (0, 1]; 1: all.
    pub top_p: f32,
    /// Keep tokens at least `min_p` times as likely as the likeliest, in [0, 1]; 0: all.
    pub min_p: f32,
    /// Divides positive and multiplies negative logits of tokens seen in prompt or output; 1: off.
    pub repetition_penalty: f32,
    /// Subtracted once for each earlier occurrence in the output; 0: off.
    pub frequency_penalty: f32,
    /// Subtracted once if the token occurs in the output; 0: off.
    pub presence_penalty: f32,
    /// Added to single logits.
    pub logit_bias: Vec<(TokenId, f32)>,
    /// Tokens that may not be drawn now or ever (`min_tokens` adds the stop tokens until it is met).
    pub banned: Vec<TokenId>,
    /// Same seed, same prompt, same parameters: same text, whatever runs beside it.
    pub seed: u64,
}

impl Default for SamplingParams {
    /// Greedy, nothing else.
    fn default() -> Self {
        SamplingParams {
            temperature: 0.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            repetition_penalty: 1.0,
            frequency_penalty: 0.0,
            presence_penalty: 0.0,
            logit_bias: Vec::new(),
            banned: Vec::new(),
            seed: 0,
        }
    }
}

impl SamplingParams {
    /// Whether the backend must keep token counts for the sequence.
    pub fn needs_counts(&self) -> bool {
        self.repetition_penalty != 1.0
            || self.frequency_penalty != 0.0
            || self.presence_penalty != 0.0
    }
}

/// What one sampled row carries.
#[derive(Clone, Debug, PartialEq)]
pub struct RowSampling {
    /// The request's parameters, shared by all its steps.
    pub params: Arc<SamplingParams>,
    /// How many tokens the sequence has generated before this one: with the seed it fixes the draw.
    pub draw: u64,
    /// Also forbid these (stop tokens while `min_tokens` is not met).
    pub suppressed: Arc<[TokenId]>,
    /// Tokens a grammar allows, one bit each, little-endian words; `None`: all.
    pub allowed: Option<Arc<[u32]>>,
    /// What the host wants beside the token.
    pub logits: SamplingLogits,
}

/// What the host wants beside the sampled token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SamplingLogits {
    /// Nothing.
    #[default]
    None,
    /// Its log-probability and the `n` likeliest tokens (`n` may be 0).
    Top(u32),
}
