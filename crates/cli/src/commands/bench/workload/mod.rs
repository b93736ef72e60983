//! What a bench asks for: made-up prompts and the moments at which they arrive, all from one seed.

mod chains;

use std::time::Duration;

use fastrand::Rng;

pub use self::chains::{Content, Item, Role, Shape, Vocabulary, chains};

/// Prompts of `length` random token ids below `vocabulary`; no two share a beginning worth caching.
pub fn token_prompts(seed: u64, count: usize, length: usize, vocabulary: u32) -> Vec<Vec<u32>> {
    let mut rng = Rng::with_seed(seed);
    (0..count).map(|_| token_ids(&mut rng, length, vocabulary)).collect()
}

fn token_ids(rng: &mut Rng, length: usize, vocabulary: u32) -> Vec<u32> {
    (0..length).map(|_| rng.u32(..vocabulary.max(1))).collect()
}

/// Short random words, for a server whose vocabulary is not known.
fn words(rng: &mut Rng, count: usize) -> String {
    let mut word = || -> String { (0..rng.usize(2..6)).map(|_| rng.lowercase()).collect() };
    (0..count).map(|_| word()).collect::<Vec<_>>().join(" ")
}

/// When each of `count` requests is sent, counted from the start: a Poisson process of `rate` requests a second.
pub fn poisson_arrivals(seed: u64, count: usize, rate: f64) -> Vec<Duration> {
    let mut rng = Rng::with_seed(seed);
    let mut at = 0.0;
    let mut next = || {
        // 1 - f64() lies in (0, 1], so the logarithm is finite.
        at += -(1.0 - rng.f64()).ln() / rate;
        Duration::from_secs_f64(at)
    };
    (0..count).map(|_| next()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seed_fixes_the_prompts() {
        let prompts = token_prompts(7, 3, 5, 100);
        assert_eq!(prompts, token_prompts(7, 3, 5, 100));
        assert_ne!(prompts, token_prompts(8, 3, 5, 100));
        assert!(
            prompts.iter().all(|prompt| prompt.len() == 5 && prompt.iter().all(|id| *id < 100))
        );
    }

    #[test]
    fn arrivals_ascend_at_about_the_rate_asked_for() {
        let arrivals = poisson_arrivals(3, 10_000, 50.0);
        assert!(arrivals.is_sorted());
        let rate = arrivals.len() as f64 / arrivals.last().expect("not empty").as_secs_f64();
        assert!((rate - 50.0).abs() < 2.5, "{rate}");
    }
}
