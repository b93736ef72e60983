//! Time as the engine sees it: real, or driven by a simulation.

use std::time::{Duration, Instant};

/// A clock that never goes back.
pub trait Clock: Send + Sync {
    /// Time since some fixed moment.
    fn now(&self) -> Duration;
}

/// The machine's monotonic clock.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    start: Instant,
}

impl Default for SystemClock {
    fn default() -> Self {
        SystemClock { start: Instant::now() }
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        self.start.elapsed()
    }
}
