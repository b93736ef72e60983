//! Log-probabilities of the model's own distribution, before temperature, penalties and filters.

use foundation::TokenId;

use super::{
    reference::SampleError,
    top::{Candidate, likeliest},
};
use crate::batch::TokenLogprobs;

/// The log-probability of `target` under `logits` (one row, `vocab_size` values), its rank, and the `top` likeliest
/// tokens. Sums in float64.
pub fn score(logits: &[f32], target: TokenId, top: u32) -> Result<TokenLogprobs, SampleError> {
    let wanted = *logits
        .get(target.0 as usize)
        .ok_or(SampleError::Beyond { token: target, vocab_size: logits.len() })?;
    let log_sum = log_sum_exp(logits)?;
    let logprob = |logit: f32| (f64::from(logit) - log_sum) as f32;
    let own = Candidate { token: target, logit: wanted };
    let likelier = (0u32..)
        .zip(logits)
        .filter(|(token, logit)| Candidate { token: TokenId(*token), logit: **logit } > own)
        .count();
    let top = likeliest(logits, top as usize);
    Ok(TokenLogprobs {
        token: target,
        logprob: logprob(wanted),
        rank: likelier as u32 + 1,
        top: top.into_iter().map(|c| (c.token, logprob(c.logit))).collect(),
    })
}

/// `ln(sum(exp(logits)))`, shifted by the greatest logit.
fn log_sum_exp(logits: &[f32]) -> Result<f64, SampleError> {
    let max = f64::from(greatest(logits)?);
    let sum: f64 = logits.iter().map(|logit| (f64::from(*logit) - max).exp()).sum();
    Ok(max + sum.ln())
}

/// The greatest logit; an error where the row is no distribution: a NaN, `+inf`, or nothing above `-inf`.
pub(super) fn greatest(logits: &[f32]) -> Result<f32, SampleError> {
    const LANES: usize = 16;
    let mut lanes = [f32::NEG_INFINITY; LANES];
    let mut nan = [false; LANES];
    // Lane by lane and without a branch, so that the compiler can use vector instructions.
    let chunks = logits.chunks_exact(LANES);
    let rest = chunks.remainder();
    for chunk in chunks {
        for lane in 0..LANES {
            let logit = chunk[lane];
            lanes[lane] = if logit > lanes[lane] { logit } else { lanes[lane] };
            nan[lane] |= logit.is_nan();
        }
    }
    let max = lanes.iter().chain(rest).copied().fold(f32::NEG_INFINITY, f32::max);
    if nan.contains(&true) || rest.iter().any(|logit| logit.is_nan()) || max == f32::INFINITY {
        return Err(not_finite(logits));
    }
    if max == f32::NEG_INFINITY { Err(SampleError::NothingAllowed) } else { Ok(max) }
}

/// Names the first logit that is NaN or `+inf`.
fn not_finite(logits: &[f32]) -> SampleError {
    let index = logits.iter().position(|logit| logit.is_nan() || *logit == f32::INFINITY);
    let index = index.unwrap_or_default();
    SampleError::NotFinite { token: TokenId(index as u32), logit: logits[index] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_a_distribution_worked_by_hand() {
        // Probabilities 0.5, 0.25, 0.125, 0.125.
        let logits: Vec<f32> = [8f32, 4.0, 2.0, 2.0].iter().map(|p| p.ln() + 100.0).collect();
        let scored = score(&logits, TokenId(3), 3).unwrap();
        assert!((scored.logprob - 0.125f32.ln()).abs() < 1e-5);
        assert_eq!(scored.rank, 4, "of equals the higher id comes later");
        let ids: Vec<u32> = scored.top.iter().map(|(token, _)| token.0).collect();
        assert_eq!(ids, [0, 1, 2]);
        assert!((scored.top[0].1 - 0.5f32.ln()).abs() < 1e-5);
        assert_eq!(score(&logits, TokenId(2), 0).unwrap().rank, 3);
    }

    #[test]
    fn a_row_that_is_no_distribution_is_an_error() {
        for bad in [f32::NAN, f32::INFINITY] {
            for place in [0, 17, 35] {
                let mut logits = vec![0.5; 36];
                logits[place] = bad;
                let error = score(&logits, TokenId(1), 0).unwrap_err();
                assert!(
                    matches!(error, SampleError::NotFinite { token, .. } if token.0 as usize == place)
                );
            }
        }
        let nothing = [f32::NEG_INFINITY; 40];
        assert_eq!(score(&nothing, TokenId(0), 0), Err(SampleError::NothingAllowed));
        let beyond = score(&[0.0], TokenId(1), 0);
        assert_eq!(beyond, Err(SampleError::Beyond { token: TokenId(1), vocab_size: 1 }));
    }
}
