//! Filters and the draw: temperature, top-k, top-p, min-p, in this order.

use foundation::TokenId;

use super::{
    params::SamplingParams,
    top::{Candidate, likeliest},
};

/// Draws one token. `logits` are final but for the temperature, `max` is the greatest of them and finite, `uniform`
/// lies in `[0, 1)`, the temperature is above 0.
pub(super) fn draw(logits: &[f32], max: f32, params: &SamplingParams, uniform: f64) -> TokenId {
    let weight = Weight { max: f64::from(max), temperature: f64::from(params.temperature) };
    let candidates = candidates(logits, params, &weight);
    let kept = candidates.iter().map(|c| (c.token, weight.of(c.logit)));
    // The likeliest weighs exactly 1, so `min_p` is a bound on the weight itself.
    let kept = kept.filter(|(_, weight)| *weight >= f64::from(params.min_p));
    pick(kept, uniform)
}

/// `exp((logit - max) / temperature)`: probabilities up to their sum. Never overflows, is 1 for the likeliest.
struct Weight {
    max: f64,
    temperature: f64,
}

impl Weight {
    fn of(&self, logit: f32) -> f64 {
        ((f64::from(logit) - self.max) / self.temperature).exp()
    }
}

/// What top-k and top-p keep.
fn candidates(logits: &[f32], params: &SamplingParams, weight: &Weight) -> Vec<Candidate> {
    let top_k = params.top_k as usize;
    if top_k > 0 && top_k < logits.len() {
        let mut best = likeliest(logits, top_k);
        let total: f64 = best.iter().map(|c| weight.of(c.logit)).sum();
        best.truncate(nucleus(&best, params.top_p, total, weight).unwrap_or(best.len()));
        return best;
    }
    if params.top_p >= 1.0 {
        let all = (0u32..).zip(logits);
        return all.map(|(token, &logit)| Candidate { token: TokenId(token), logit }).collect();
    }
    // The nucleus is small on nearly every row of a language model: look among a few, then among more.
    let total: f64 = logits.iter().map(|logit| weight.of(*logit)).sum();
    let mut count = 64;
    loop {
        let mut best = likeliest(logits, count);
        match nucleus(&best, params.top_p, total, weight) {
            Some(size) => {
                best.truncate(size);
                return best;
            }
            None if count >= logits.len() => return best,
            None => count = count.saturating_mul(8),
        }
    }
}

/// The size of the smallest leading part of `best` (descending) that weighs `top_p` of `total`; at least 1.
fn nucleus(best: &[Candidate], top_p: f32, total: f64, weight: &Weight) -> Option<usize> {
    let wanted = f64::from(top_p) * total;
    let mut sum = 0.0;
    let reached = best.iter().position(|candidate| {
        sum += weight.of(candidate.logit);
        sum >= wanted
    });
    reached.map(|last| last + 1)
}

/// The token in whose share of the total weight `uniform` lies.
fn pick(kept: impl Iterator<Item = (TokenId, f64)> + Clone, uniform: f64) -> TokenId {
    let total: f64 = kept.clone().map(|(_, weight)| weight).sum();
    let target = uniform * total;
    let mut sum = 0.0;
    let mut last = TokenId(0);
    for (token, weight) in kept.filter(|(_, weight)| *weight > 0.0) {
        sum += weight;
        last = token;
        if sum > target {
            break;
        }
    }
    last
}
