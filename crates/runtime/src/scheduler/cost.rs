//! How large a prefill chunk may be, by what rows have cost so far.

use std::time::Duration;

/// Learns what one row of prefill takes, and cuts chunks so that a step meets its target.
#[derive(Clone, Debug, PartialEq)]
pub struct StepCost {
    target: Option<Duration>,
    /// Moving average; `None`: nothing measured yet.
    seconds_per_row: Option<f64>,
}

/// Fewer rows say nothing about the cost of a row: reading the weights dominates.
const FEWEST_ROWS: usize = 32;
/// The chunk while nothing is measured, and the smallest one ever cut.
const FIRST_ROWS: usize = 256;
/// Weight of the newest measurement.
const WEIGHT: f64 = 0.3;
/// A step that nobody's next token waits for may take so many times the target.
const ALONE: f64 = 4.0;

impl StepCost {
    /// Nothing measured; `None`: chunks are not cut.
    pub fn new(target: Option<Duration>) -> Self {
        StepCost { target, seconds_per_row: None }
    }

    /// A step of `rows` rows, some of them prefill, took `time`.
    pub fn record(&mut self, rows: usize, time: Duration) {
        if rows < FEWEST_ROWS {
            return;
        }
        let measured = time.as_secs_f64() / rows as f64;
        let before = self.seconds_per_row.unwrap_or(measured);
        self.seconds_per_row = Some(before + WEIGHT * (measured - before));
    }

    /// Most prefill rows of a step that also decodes, or does not.
    pub fn chunk(&self, with_decode: bool) -> usize {
        let Some(target) = self.target else { return usize::MAX };
        let Some(seconds_per_row) = self.seconds_per_row else { return FIRST_ROWS };
        let seconds = target.as_secs_f64() * if with_decode { 1.0 } else { ALONE };
        ((seconds / seconds_per_row) as usize).max(FEWEST_ROWS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_follow_the_measured_cost() {
        let mut cost = StepCost::new(Some(Duration::from_millis(100)));
        assert_eq!(cost.chunk(true), FIRST_ROWS);
        cost.record(100, Duration::from_millis(100));
        assert_eq!((cost.chunk(true), cost.chunk(false)), (100, 400));
        cost.record(1, Duration::from_secs(1));
        assert_eq!(cost.chunk(true), 100, "a single row says nothing");
        (0..50).for_each(|_| cost.record(100, Duration::from_secs(10)));
        assert_eq!(cost.chunk(true), FEWEST_ROWS, "never so small that nothing more is learnt");
        assert_eq!(StepCost::new(None).chunk(true), usize::MAX);
    }
}
