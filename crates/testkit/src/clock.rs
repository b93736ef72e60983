//! A clock that a simulation drives.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use runtime::engine::Clock;

/// Stands still until it is told to go on. Clones show the same time.
#[derive(Clone, Debug, Default)]
pub struct SimClock {
    nanos: Arc<AtomicU64>,
}

impl SimClock {
    /// Lets `time` pass.
    pub fn advance(&self, time: Duration) {
        self.nanos.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
    }
}

impl Clock for SimClock {
    fn now(&self) -> Duration {
        Duration::from_nanos(self.nanos.load(Ordering::Relaxed))
    }
}
