//! The engine: one thread that owns a runner and serves many requests through it.
//!
//! [`Engine::submit`] hands out a [`Ticket`]; from then on exactly one [`EngineEvent::Finished`] is owed.

mod admission;
pub mod clock;
pub mod core;
mod deadlines;
mod drafts;
pub mod event;
pub mod health;
pub mod inbox;
mod masks;
pub mod metrics;
mod offload;
mod pack;
pub mod request;
mod session;
mod thread;
pub mod ticket;
pub mod workers;

pub use clock::{Clock, SystemClock};
pub use core::{EngineCore, Progress};
pub use event::{EngineEvent, FinishReason, Usage};
pub use health::Health;
pub use inbox::Submitter;
pub use metrics::{HistogramSnapshot, METRICS, MetricDescription, MetricKind, MetricsSnapshot};
pub use request::{EngineOptions, EngineRequest, InvalidField, Refusal};
pub use thread::Engine;
pub use ticket::{Canceller, Ticket};
pub use workers::{AtOnce, Work, Workers};
