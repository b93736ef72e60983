//! What requests and replies look like on the wire.
//!
//! A body becomes a JSON object in [`json`], is held against a table of fields in [`fields`] and read into one of the
//! request types. Every field is honoured or refused with its name; [`reply`] holds what goes back.

pub mod chat;
pub mod completion;
pub mod fields;
pub mod json;
pub mod limits;
pub mod logprobs;
pub mod message;
pub mod reply;
pub mod sampling;
pub mod structured;
pub mod tokens;

pub use chat::ChatRequest;
pub use completion::CompletionRequest;
pub use limits::Limits;
pub use sampling::{Shared, StreamOptions};
pub use structured::Structured;
pub use tokens::{DetokenizeRequest, TokenizeInput, TokenizeRequest};

#[cfg(test)]
mod attacks;
#[cfg(test)]
mod tests;
