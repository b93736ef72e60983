//! How large a prefill chunk may be, by what steps have cost so far; and whether cached tokens are brought back or computed.

use std::time::Duration;

use crate::batch::CopyWay;

/// Learns what decode steps of each size take, and what a row of prefill adds; cuts chunks so that whoever decodes beside one
/// waits for his next token no longer than he should.
#[derive(Clone, Debug, PartialEq)]
pub struct StepCost {
    bounds: StepBounds,
    /// Moving average; `None`: nothing measured yet.
    seconds_per_row: Option<f64>,
    /// Steps that only decode, by the number of their rows: entry `i` from `2^i` on.
    decoding: [Decoding; SIZES],
}

/// What is known of decode steps of about one size.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Decoding {
    /// Moving average of their seconds; `None`: never measured.
    seconds: Option<f64>,
    /// Steps of this size that prefilled as well, since.
    age: u32,
    /// Steps that were to measure it, since.
    probes: u32,
}

/// How long a step may take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepBounds {
    /// A step that prefills beside decode rows; one without decode rows may take four times as long. `None`: any time.
    pub target: Option<Duration>,
    /// A step that prefills beside decode rows, in terms of a step of these alone. `None`: any time.
    pub stretch: Option<f64>,
}

/// Fewer prefill rows say nothing about the cost of a row.
const FEWEST_ROWS: usize = 32;
/// The chunk while nothing is measured.
const FIRST_ROWS: usize = 256;
/// Weight of the newest measurement.
const WEIGHT: f64 = 0.3;
/// A step that nobody's next token waits for may take so many times the target.
const ALONE: f64 = 4.0;
/// Sizes of decode steps told apart.
const SIZES: usize = 16;
/// After so many steps with prefill rows it is time to see again what the decode rows take alone: contexts have grown.
const STALE: u32 = 64;
/// So many steps in a row may try to see it; in vain where rows drop out of every one.
const MOST_PROBES: u32 = 4;

impl StepCost {
    /// Nothing measured.
    pub fn new(bounds: StepBounds) -> Self {
        StepCost { bounds, seconds_per_row: None, decoding: [Decoding::default(); SIZES] }
    }

    /// A step of `decode` decode rows and `prefill` others took `time`.
    pub fn record(&mut self, decode: usize, prefill: usize, time: Duration) {
        let seconds = time.as_secs_f64();
        let known = &mut self.decoding[size_of_step(decode)];
        if prefill == 0 {
            learn(&mut known.seconds, seconds);
            (known.age, known.probes) = (0, 0);
            return;
        }
        known.age = known.age.saturating_add(1);
        if known.age.is_multiple_of(4 * STALE) {
            known.probes = 0;
        }
        if prefill >= FEWEST_ROWS {
            let decoding = self.decode_time(decode).unwrap_or(0.0);
            // Where the step was hardly longer than without them, what they cost is not seen: half of it at the most.
            let added = (seconds - decoding).max(seconds / 2.0);
            learn(&mut self.seconds_per_row, added / prefill as f64);
        }
    }

    /// What one row of prefill takes; `None`: nothing measured yet.
    pub fn per_row(&self) -> Option<f64> {
        self.seconds_per_row
    }

    /// Whether a step of `decode` decode rows should leave others out, to see what these take alone: that bounds how much may be
    /// added to them.
    pub fn wants_probe(&self, decode: usize) -> bool {
        let Decoding { seconds, age, probes } = self.decoding[size_of_step(decode)];
        let is_known = seconds.is_some() && age < STALE;
        decode > 0 && self.bounds.stretch.is_some() && !is_known && probes < MOST_PROBES
    }

    /// A step of `decode` decode rows leaves others out for that.
    pub fn probes(&mut self, decode: usize) {
        self.decoding[size_of_step(decode)].probes += 1;
    }

    /// Most prefill rows of a step that also has `decode` decode rows.
    pub fn chunk(&self, decode: usize) -> usize {
        let Some(allowed) = self.allowed(decode) else { return usize::MAX };
        let Some(seconds_per_row) = self.seconds_per_row else { return FIRST_ROWS };
        ((allowed / seconds_per_row).round() as usize).max(FEWEST_ROWS)
    }

    /// Seconds that prefill rows may add to a step of `decode` decode rows; `None`: any number.
    fn allowed(&self, decode: usize) -> Option<f64> {
        let target = self.bounds.target.map(|target| target.as_secs_f64());
        if decode == 0 {
            return target.map(|target| target * ALONE);
        }
        let decoding = self.decode_time(decode);
        let by_target = target.map(|target| target - decoding.unwrap_or(0.0));
        let by_stretch =
            self.bounds.stretch.zip(decoding).map(|(stretch, seconds)| (stretch - 1.0) * seconds);
        by_target.into_iter().chain(by_stretch).reduce(f64::min)
    }

    /// What a step of `rows` decode rows takes, by the nearest size that was measured: a smaller one rather than a larger.
    fn decode_time(&self, rows: usize) -> Option<f64> {
        if rows == 0 {
            return Some(0.0);
        }
        let (up_to, above) = self.decoding.split_at(size_of_step(rows) + 1);
        up_to.iter().rev().chain(above).find_map(|known| known.seconds)
    }
}

/// Moves `average` towards `measured`.
fn learn(average: &mut Option<f64>, measured: f64) {
    let before = average.unwrap_or(measured);
    *average = Some(before + WEIGHT * (measured - before));
}

/// The entry for steps of `rows` decode rows.
fn size_of_step(rows: usize) -> usize {
    (rows.max(1).ilog2() as usize).min(SIZES - 1)
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
        learn(average, measured);
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

    const MS: fn(u64) -> Duration = Duration::from_millis;

    fn cost(target: Option<u64>, stretch: Option<f64>) -> StepCost {
        StepCost::new(StepBounds { target: target.map(MS), stretch })
    }

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
        let mut cost = cost(Some(100), None);
        assert_eq!(cost.chunk(1), FIRST_ROWS);
        cost.record(0, 100, MS(100));
        assert_eq!((cost.chunk(1), cost.chunk(0)), (100, 400));
        cost.record(0, 1, Duration::from_secs(1));
        assert_eq!(cost.chunk(1), 100, "a single row says nothing");
        cost.record(1, 0, MS(20));
        assert_eq!(cost.chunk(1), 80, "what decoding takes is taken already");
        (0..50).for_each(|_| cost.record(0, 100, Duration::from_secs(10)));
        assert_eq!(cost.chunk(1), FEWEST_ROWS, "never so small that nothing more is learnt");
    }

    #[test]
    fn without_bounds_there_is_none() {
        let mut free = cost(None, None);
        free.record(4, 0, MS(10));
        free.record(4, 100, MS(20));
        assert_eq!((free.chunk(4), free.chunk(0)), (usize::MAX, usize::MAX));
    }

    #[test]
    fn a_mixed_step_is_at_most_so_many_times_as_long_as_without_its_chunk() {
        let mut cost = cost(None, Some(2.5));
        assert_eq!(cost.chunk(4), usize::MAX, "how long a step is without is not known");
        cost.record(4, 0, MS(10));
        assert_eq!(cost.chunk(4), FIRST_ROWS);
        cost.record(4, 100, MS(30));
        // A row adds 0.2 ms, and 15 ms may be added.
        assert_eq!(cost.chunk(4), 75);
        assert_eq!(cost.chunk(5), 75, "of the same size");
        assert_eq!(cost.chunk(64), 75, "not measured: as a smaller one");
        assert_eq!(cost.chunk(1), 75, "not measured, and none smaller");
        cost.record(64, 0, MS(40));
        assert_eq!((cost.chunk(64), cost.chunk(200), cost.chunk(63)), (300, 300, 75));
        assert_eq!(cost.chunk(0), usize::MAX, "nobody waits");
    }

    #[test]
    fn what_decode_rows_take_alone_is_seen_now_and_then() {
        let mut cost = cost(None, Some(2.5));
        assert!(cost.wants_probe(4) && !cost.wants_probe(0));
        cost.record(4, 0, MS(10));
        assert!(!cost.wants_probe(7) && cost.wants_probe(8), "of this size it is known");
        (0..STALE).for_each(|_| cost.record(4, 100, MS(30)));
        assert!(cost.wants_probe(4), "that was long ago");
        (0..MOST_PROBES).for_each(|_| cost.probes(4));
        assert!(!cost.wants_probe(4), "in vain");
        (0..4 * STALE).for_each(|_| cost.record(4, 100, MS(30)));
        assert!(cost.wants_probe(4), "perhaps now");
        assert!(!StepCost::new(StepBounds { target: None, stretch: None }).wants_probe(4));
    }

    #[test]
    fn rows_that_seem_to_cost_nothing_are_not_believed() {
        let mut cost = cost(None, Some(2.0));
        cost.record(4, 0, MS(10));
        cost.record(4, 100, MS(10));
        assert_eq!(cost.chunk(4), 200, "5 ms of the step are theirs");
    }
}
