//! Language models from Hugging Face-format checkpoints, for Rust programs.
//!
//! Knows: finding, inspecting, loading and unloading models; prompts, chats and sessions; options and where each value
//! came from; streamed generations.
//! Does not know: HTTP servers, terminals, kernels.
//!
//! One path through the house: a [`Library`] resolves a reference to a checkpoint and loads it; the [`Model`] turns a
//! prompt or a chat into a [`Generation`]; the generation is read as an iterator, as an async stream, or whole.
//!
//! ```
//! use tokenmill::{GenerateOptions, Library, LibraryOptions, ModelOptions};
//!
//! # fn main() -> tokenmill::Result<()> {
//! # let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/llama-tied");
//! let library = Library::new(LibraryOptions::default())?;
//! let model = library.load(directory, ModelOptions::default(), &mut |_| true)?;
//! let options =
//!     GenerateOptions { temperature: Some(0.0), max_tokens: Some(8), ..Default::default() };
//! let text = model.generate("green was watch", options)?.text()?;
//! println!("{text}");
//! # assert!(!text.is_empty());
//! # Ok(())
//! # }
//! ```

mod backends;
pub mod builtin;
pub mod chat;
pub mod config;
mod constrain;
pub mod device;
pub mod error;
pub mod generation;
pub mod hub;
pub mod inspect;
pub mod library;
mod load;
pub mod model;
pub mod options;
pub mod prompt;
pub mod resolve;
mod seed;
pub mod session;
pub mod settings;
pub mod synth;

pub use chat::{ChatMessage, ChatOptions, ChatRequest};
pub use device::DeviceChoice;
pub use error::{Error, Fate, Result};
pub use foundation::{Bytes, DType, ModelId, TokenId};
pub use generation::{
    CancellationToken, Choice, FinishReason, Generation, GenerationEvent, Output, StopReason,
    TokenLogprob, ToolCall, ToolCallDelta, TopLogprob, Usage,
};
pub use grammar::Constraint;
pub use inspect::{InspectReport, inspect};
pub use library::{Library, LibraryOptions, LocalModel};
pub use model::{Model, ModelInfo, PromptFailure};
pub use models::prompt::DecodeStream;
pub use options::{GenerateOptions, ModelOptions, Speculation};
pub use prompt::Prompt;
pub use resolve::ResolvedOptions;
pub use runtime::{
    backend::{DeviceInfo, LoadError},
    progress::ProgressEvent,
};
pub use session::{Answer, Session, SessionOptions};
pub use settings::{Origin, Provenance, Setting};
