//! Percentiles of measured times.

use std::time::Duration;

use serde::Serialize;

/// What is told of a set of times, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// How many were measured.
    pub count: usize,
    /// Their mean.
    pub mean_ms: f64,
    /// Half are at most this.
    pub p50_ms: f64,
    /// Nine tenths are at most this.
    pub p90_ms: f64,
    /// All but a hundredth are at most this.
    pub p99_ms: f64,
    /// The longest.
    pub max_ms: f64,
}

impl Summary {
    /// Of the given times; `None` when there are none.
    pub fn of(times: &[Duration]) -> Option<Self> {
        let mut sorted: Vec<f64> = times.iter().map(|time| time.as_secs_f64() * 1e3).collect();
        sorted.sort_by(f64::total_cmp);
        let max_ms = *sorted.last()?;
        Some(Summary {
            count: sorted.len(),
            mean_ms: sorted.iter().sum::<f64>() / sorted.len() as f64,
            p50_ms: percentile(&sorted, 0.50),
            p90_ms: percentile(&sorted, 0.90),
            p99_ms: percentile(&sorted, 0.99),
            max_ms,
        })
    }
}

/// The `q` quantile of ascending values, between two of them by proportion. There is at least one value.
fn percentile(sorted: &[f64], q: f64) -> f64 {
    let place = q * (sorted.len() - 1) as f64;
    let below = place.floor() as usize;
    let above = place.ceil() as usize;
    sorted[below] + (sorted[above] - sorted[below]) * (place - below as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_lie_between_the_values() {
        let times: Vec<Duration> = (1..=101).rev().map(Duration::from_millis).collect();
        let summary = Summary::of(&times).expect("there are times");
        assert_eq!(summary.count, 101);
        assert!((summary.p50_ms - 51.0).abs() < 1e-9);
        assert!((summary.p90_ms - 91.0).abs() < 1e-9);
        assert!((summary.p99_ms - 100.0).abs() < 1e-9);
        assert!((summary.max_ms - 101.0).abs() < 1e-9);
        assert!((summary.mean_ms - 51.0).abs() < 1e-9);
    }

    #[test]
    fn one_time_is_every_percentile_and_none_is_no_summary() {
        let one = Summary::of(&[Duration::from_millis(7)]).expect("there is one");
        assert_eq!((one.p50_ms, one.p99_ms), (7.0, 7.0));
        assert_eq!(Summary::of(&[]), None);
    }
}
