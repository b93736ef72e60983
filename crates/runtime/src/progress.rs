//! Progress as a typed event stream that command, server and tests all read.

use foundation::Bytes;

/// One step of a long piece of work.
#[derive(Clone, Debug, PartialEq)]
pub enum ProgressEvent {
    /// Weights are being made resident.
    LoadWeights {
        /// Bytes done.
        current: Bytes,
        /// Bytes in all.
        total: Bytes,
        /// What is being done, for people.
        detail: String,
    },
    /// The backend prepares to run: warm-up, graph capture, tables.
    Prepare {
        /// What is being done, for people.
        detail: String,
    },
    /// The model can serve a request.
    Ready,
}

impl ProgressEvent {
    /// A weight-loading event; `current` is capped at `total`.
    pub fn load_weights(current: u64, total: u64, detail: impl Into<String>) -> Self {
        ProgressEvent::LoadWeights {
            current: Bytes(current.min(total)),
            total: Bytes(total),
            detail: detail.into(),
        }
    }
}
