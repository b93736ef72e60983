//! The likeliest tokens, without sorting the whole vocabulary.

use std::{cmp::Ordering, collections::BinaryHeap};

use foundation::TokenId;

/// A token and its logit, ordered by likelihood: higher logits are greater, of equal ones the lower id.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// The token.
    pub token: TokenId,
    /// Its logit; never NaN.
    pub logit: f32,
}

impl Eq for Candidate {}

impl Ord for Candidate {
    fn cmp(&self, other: &Self) -> Ordering {
        // -0.0 and 0.0 are equal logits: `total_cmp` alone would tell them apart.
        let by_logit = self.logit.partial_cmp(&other.logit);
        by_logit.unwrap_or(Ordering::Equal).then_with(|| other.token.cmp(&self.token))
    }
}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The `count` likeliest tokens that are not forbidden (`-inf`), descending; equal ones by ascending id.
///
/// One pass that compares each logit with the worst of the best so far: `O(n + k log k log n)` on shuffled logits.
pub fn likeliest(logits: &[f32], count: usize) -> Vec<Candidate> {
    if count == 0 {
        return Vec::new();
    }
    if count >= logits.len() / 8 {
        return sorted(logits, count);
    }
    let mut best = BinaryHeap::with_capacity(count + 1);
    let mut worst = f32::NEG_INFINITY;
    for (token, &logit) in (0u32..).zip(logits) {
        // An equal logit has the higher id here, and is thereby less likely than the worst kept.
        if logit > worst {
            best.push(std::cmp::Reverse(Candidate { token: TokenId(token), logit }));
            if best.len() > count {
                best.pop();
            }
            if best.len() == count {
                worst = best.peek().map_or(worst, |least| least.0.logit);
            }
        }
    }
    best.into_sorted_vec().into_iter().map(|least| least.0).collect()
}

/// As [`likeliest`], by sorting: for counts that are a good part of the vocabulary.
fn sorted(logits: &[f32], count: usize) -> Vec<Candidate> {
    let tokens = (0u32..).map(TokenId);
    let all = tokens.zip(logits).map(|(token, &logit)| Candidate { token, logit });
    let mut all: Vec<Candidate> = all.filter(|c| c.logit > f32::NEG_INFINITY).collect();
    all.sort_unstable_by(|a, b| b.cmp(a));
    all.truncate(count);
    all
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_heap_finds_what_sorting_finds(
            raw in prop::collection::vec(-4i8..=4, 1..200),
            count in 0usize..40,
        ) {
            // Few distinct values, so that ties abound; -4 stands for a forbidden token.
            let logits: Vec<f32> =
                raw.iter().map(|v| if *v == -4 { f32::NEG_INFINITY } else { f32::from(*v) }).collect();
            prop_assert_eq!(likeliest(&logits, count), sorted(&logits, count));
        }
    }

    #[test]
    fn zeros_of_either_sign_are_equal() {
        let ids =
            |logits: &[f32]| likeliest(logits, 2).iter().map(|c| c.token.0).collect::<Vec<_>>();
        assert_eq!(ids(&[-0.0, 0.0, -1.0]), [0, 1]);
    }
}
