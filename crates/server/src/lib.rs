//! The OpenAI-compatible server.
//!
//! Knows: HTTP routes, the wire format, streaming, limits, settings, metrics as text, the chat page.
//! Does not know: kernels, checkpoints, how a prompt is tokenized or a step scheduled.
//!
//! A request's way: [`serve`] takes the connection in, `trace` gives it an id, `auth` looks at its key, `body` reads it
//! within bounds, [`wire`] turns it into a typed request or a 400 that names the field, `routes` hand it to the
//! [`Model`](tokenmill::Model), and `sse` or a JSON reply carries back what comes. Every failure on the way becomes an
//! HTTP error in [`error`] alone.

mod auth;
mod body;
pub mod error;
mod metrics;
mod options;
mod routes;
mod serve;
pub mod settings;
mod sse;
mod state;
mod trace;
pub mod wire;

pub use error::ApiError;
pub use options::{ServerOptions, device, model_options, option_of_field};
pub use routes::router;
pub use serve::{Ending, ServeError, Server, serve, termination_signals};
pub use state::{ServedModel, ServerState, Stage};
