//! Work beside the engine that is done when a test says so.

use std::sync::{Arc, Mutex, PoisonError};

use runtime::engine::{Work, Workers};

/// Keeps work until it is released. Copies keep the same work.
#[derive(Clone, Default)]
pub struct HeldWorkers(Arc<Mutex<Vec<Work>>>);

impl HeldWorkers {
    /// How much is held.
    pub fn held(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Does the piece of work at `index`, in the order in which they came; none if there are fewer.
    pub fn release(&self, index: usize) {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let work = (index < held.len()).then(|| held.remove(index));
        // Work may bring more work.
        drop(held);
        if let Some(work) = work {
            work();
        }
    }
}

impl Workers for HeldWorkers {
    fn start(&mut self, work: Work) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(work);
    }
}
