//! What a measurement costs the host: processor time of this process, server, engine and client alike.

use std::{
    ops::AddAssign,
    time::{Duration, Instant},
};

use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

/// Runs while something is measured.
pub struct Meter {
    processor: Duration,
    begun: Instant,
}

/// Processor time of this process over a stretch of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct HostCost {
    /// The stretch, seconds.
    pub wall_s: f64,
    /// What all threads together used in it, in the program and in the kernel for it, seconds.
    pub processor_s: f64,
    /// The one over the other: as many cores were busy in the mean.
    pub cores_busy: f64,
}

impl Meter {
    /// Starts now.
    pub fn start() -> Self {
        Meter { processor: processor_time(), begun: Instant::now() }
    }

    /// What was used since the start.
    pub fn stop(&self) -> HostCost {
        let used = processor_time().saturating_sub(self.processor);
        HostCost::new(self.begun.elapsed().as_secs_f64(), used.as_secs_f64())
    }
}

impl HostCost {
    fn new(wall_s: f64, processor_s: f64) -> Self {
        let cores_busy = if wall_s > 0.0 { processor_s / wall_s } else { 0.0 };
        HostCost { wall_s, processor_s, cores_busy }
    }
}

/// Two stretches, one after the other.
impl AddAssign for HostCost {
    fn add_assign(&mut self, other: Self) {
        *self = HostCost::new(self.wall_s + other.wall_s, self.processor_s + other.processor_s);
    }
}

/// Used by this process until now.
fn processor_time() -> Duration {
    // Neither part of a processor's clock is ever negative.
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_add_up() {
        let mut cost = HostCost::new(2.0, 1.0);
        cost += HostCost::new(2.0, 5.0);
        assert_eq!(cost, HostCost { wall_s: 4.0, processor_s: 6.0, cores_busy: 1.5 });
        assert_eq!(HostCost::new(0.0, 0.0).cores_busy, 0.0);
    }

    #[test]
    fn work_is_seen() {
        let meter = Meter::start();
        let before = meter.stop();
        // Until the clock has seen something: no amount of work is too little for a slow machine.
        while meter.stop().processor_s <= before.processor_s {
            std::hint::black_box((0..10_000u64).sum::<u64>());
        }
        assert!(meter.stop().cores_busy > 0.0);
    }
}
