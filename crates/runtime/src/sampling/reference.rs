//! The reference sampler: what a row of logits and its parameters mean.

use foundation::TokenId;

use super::{
    counts::TokenCounts,
    draw::draw,
    logprobs::{greatest, score},
    params::{RowSampling, SamplingLogits, SamplingParams},
    philox,
};
use crate::batch::{RowOutput, TokenLogprobs};

/// What a row gave.
#[derive(Clone, Debug, PartialEq)]
pub struct Sampled {
    /// The token.
    pub token: TokenId,
    /// Its log-probability in the raw distribution, where asked for.
    pub logprobs: Option<TokenLogprobs>,
}

/// Why a row gives no token.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SampleError {
    /// The logits are no numbers: the model or its kernels are broken.
    #[error("logit of token {token} is {logit}")]
    NotFinite {
        /// The first such token.
        token: TokenId,
        /// Its logit.
        logit: f32,
    },
    /// Bans, suppression and the allowed set leave nothing.
    #[error("every token is forbidden")]
    NothingAllowed,
    /// A parameter names a token that the row does not have.
    #[error("token {token} is not in the vocabulary of {vocab_size}")]
    Beyond {
        /// The token.
        token: TokenId,
        /// Length of the row.
        vocab_size: usize,
    },
}

/// Samples from one row of raw logits (`vocab_size` values, changed in place).
///
/// Pure: the same row, parameters and counts give the same token, whatever else the step holds. The order is bias,
/// penalties, forbidden tokens, then argmax if greedy (lowest id among equals), else temperature, top-k, top-p,
/// min-p and a draw that depends on `(seed, draw)` alone. `counts` are needed where
/// [`SamplingParams::needs_counts`]. Log-probabilities are those of the row as it came in.
pub fn sample(
    logits: &mut [f32],
    row: &RowSampling,
    counts: Option<&TokenCounts>,
) -> Result<Sampled, SampleError> {
    let raw = match row.logits {
        SamplingLogits::None => None,
        SamplingLogits::Top(top) => Some((logits.to_vec(), top)),
    };
    // Before anything is changed: a ban must not hide a NaN.
    greatest(logits)?;
    apply_bias(logits, &row.params)?;
    if let Some(counts) = counts {
        apply_penalties(logits, &row.params, counts)?;
    }
    forbid(logits, row)?;
    let max = greatest(logits)?;
    let token = if row.params.temperature > 0.0 {
        draw(logits, max, &row.params, philox::uniform(row.params.seed, row.draw))
    } else {
        first_equal(logits, max)
    };
    let logprobs = raw.map(|(raw, top)| score(&raw, token, top)).transpose()?;
    Ok(Sampled { token, logprobs })
}

impl From<Result<Sampled, SampleError>> for RowOutput {
    /// A row that gives no token fails alone.
    fn from(result: Result<Sampled, SampleError>) -> Self {
        match result {
            Ok(Sampled { token, logprobs }) => RowOutput::Sampled { token, logprobs },
            Err(error) => RowOutput::Failed(error.to_string()),
        }
    }
}

/// Entries for the same token add up.
fn apply_bias(logits: &mut [f32], params: &SamplingParams) -> Result<(), SampleError> {
    for (token, bias) in &params.logit_bias {
        *logit_of(logits, *token)? += bias;
    }
    Ok(())
}

fn apply_penalties(
    logits: &mut [f32],
    params: &SamplingParams,
    counts: &TokenCounts,
) -> Result<(), SampleError> {
    for (token, generated) in counts.iter() {
        let logit = logit_of(logits, token)?;
        if *logit > 0.0 {
            *logit /= params.repetition_penalty;
        } else {
            *logit *= params.repetition_penalty;
        }
        *logit -= params.frequency_penalty * generated as f32;
        if generated > 0 {
            *logit -= params.presence_penalty;
        }
    }
    Ok(())
}

/// Bans, suppressed tokens, and everything outside the allowed set become `-inf`.
fn forbid(logits: &mut [f32], row: &RowSampling) -> Result<(), SampleError> {
    for token in row.params.banned.iter().chain(row.suppressed.iter()) {
        *logit_of(logits, *token)? = f32::NEG_INFINITY;
    }
    if let Some(allowed) = &row.allowed {
        // A token beyond the mask's last word is not allowed.
        let words = allowed.iter().copied().chain(std::iter::repeat(0));
        for (chunk, word) in logits.chunks_mut(32).zip(words) {
            forbid_by_word(chunk, word);
        }
    }
    Ok(())
}

fn forbid_by_word(logits: &mut [f32], word: u32) {
    for (bit, logit) in logits.iter_mut().enumerate() {
        if word >> bit & 1 == 0 {
            *logit = f32::NEG_INFINITY;
        }
    }
}

fn logit_of(logits: &mut [f32], token: TokenId) -> Result<&mut f32, SampleError> {
    let vocab_size = logits.len();
    logits.get_mut(token.0 as usize).ok_or(SampleError::Beyond { token, vocab_size })
}

fn first_equal(logits: &[f32], max: f32) -> TokenId {
    let index = logits.iter().position(|logit| *logit == max);
    TokenId(index.expect("the greatest logit is one of the logits") as u32)
}

#[cfg(test)]
mod tests;
