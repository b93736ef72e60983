//! Cancelling from elsewhere.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use runtime::engine::Canceller;

/// Cancels a generation from anywhere; every unfinished choice ends with
/// [`FinishReason::Cancelled`](super::FinishReason::Cancelled).
#[derive(Clone, Debug)]
pub struct CancellationToken {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    cancelled: AtomicBool,
    requests: Vec<Canceller>,
}

impl CancellationToken {
    pub(super) fn new(requests: impl Iterator<Item = Canceller>) -> Self {
        let (cancelled, requests) = (AtomicBool::new(false), requests.collect());
        CancellationToken { shared: Arc::new(Shared { cancelled, requests }) }
    }

    /// Cancels. The rows leave at the next step. Doing it twice, or after the end, does nothing.
    pub fn cancel(&self) {
        if !self.shared.cancelled.swap(true, Ordering::AcqRel) {
            self.shared.requests.iter().for_each(Canceller::cancel);
        }
    }

    /// Whether [`cancel`](Self::cancel) was called.
    pub fn is_cancelled(&self) -> bool {
        self.shared.cancelled.load(Ordering::Acquire)
    }
}
