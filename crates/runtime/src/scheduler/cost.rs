//! How large a prefill chunk may be, by what rows have cost so far; and whether cached tokens are brought back or computed.

use std::time::Duration;

use crate::batch::CopyWay;

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

    /// What one row takes; `None`: nothing measured yet.
    pub fn per_row(&self) -> Option<f64> {
        self.seconds_per_row
    }

    /// Most prefill rows of a step that also decodes, or does not.
    pub fn chunk(&self, with_decode: bool) -> usize {
        let Some(target) = self.target else { return usize::MAX };
        let Some(seconds_per_row) = self.seconds_per_row else { return FIRST_ROWS };
        let seconds = target.as_secs_f64() * if with_decode { 1.0 } else { ALONE };
        ((seconds / seconds_per_row) as usize).max(FEWEST_ROWS)
    }
}

/// Learns what it takes to bring a byte back from the host.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CopyCost {
    /// Moving averages; `None`: nothing measured yet.
    back: Option<f64>,
    away: Option<f64>,
}

/// What cached tokens cost, one way or the other, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CacheCost {
    /// To bring a byte back from the host.
    pub per_byte: f64,
    /// To compute a row; `None`: nobody knows yet.
    pub per_row: Option<f64>,
}

/// Smaller batches say nothing about the cost of a byte.
const LEAST_BYTES: u64 = 1 << 20;
/// What a byte takes while nothing is measured: a link of 20 GB/s.
const FIRST_PER_BYTE: f64 = 1.0 / 20e9;
/// What a restore takes beside its bytes: a step that begins without the sequence.
const RESTORE_OVERHEAD: f64 = 0.002;

impl CopyCost {
    /// A batch of copies took `time`, to the host or back.
    pub fn record(&mut self, way: CopyWay, bytes: u64, time: Duration) {
        if bytes < LEAST_BYTES {
            return;
        }
        let measured = time.as_secs_f64() / bytes as f64;
        let average = match way {
            CopyWay::In => &mut self.back,
            CopyWay::Out => &mut self.away,
        };
        let before = average.unwrap_or(measured);
        *average = Some(before + WEIGHT * (measured - before));
    }

    /// Seconds a byte on its way back: as measured, else as on the way there, else a guess.
    pub fn per_byte(&self) -> f64 {
        self.back.or(self.away).unwrap_or(FIRST_PER_BYTE)
    }
}

impl CacheCost {
    /// Whether it is cheaper to bring `bytes` bytes back than to compute `tokens` tokens.
    pub fn restores(&self, bytes: u64, tokens: usize) -> bool {
        let Some(per_row) = self.per_row else { return true };
        bytes as f64 * self.per_byte + RESTORE_OVERHEAD < tokens as f64 * per_row
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_brought_back_where_that_is_cheaper() {
        let mut cost = CopyCost::default();
        assert_eq!(cost.per_byte(), FIRST_PER_BYTE);
        cost.record(CopyWay::Out, 1 << 30, Duration::from_secs(1));
        assert_eq!(cost.per_byte(), 1.0 / f64::from(1 << 30), "one way is like the other");
        cost.record(CopyWay::In, 1000, Duration::from_secs(1));
        cost.record(CopyWay::In, 1 << 20, Duration::from_millis(1));
        assert_eq!(cost.per_byte(), 0.001 / f64::from(1 << 20), "few bytes say nothing");
        let cost = CacheCost { per_byte: 1e-9, per_row: Some(1e-3) };
        assert!(cost.restores(90_000_000, 100), "92 ms or 100");
        assert!(!cost.restores(99_000_000, 100), "101 ms or 100");
        assert!(!cost.restores(1, 1), "a token alone is computed");
        assert!(CacheCost { per_row: None, ..cost }.restores(1 << 40, 1), "while nobody knows");
    }

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
