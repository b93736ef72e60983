//! From messages or text to tokens, and from tokens back to text.
//!
//! Knows: the tokenizer files, the chat template, the wire form of a message.
//! Does not know: HTTP, sampling, the weights.
//!
//! The one promise of this room: **text from a request never becomes a control token.** Only the
//! template (and the post-processor of the tokenizer) can write one. See [`control`].

mod added;
pub mod control;
pub mod detokenizer;
mod environment;
pub mod error;
mod files;
mod json;
mod least;
pub mod message;
mod rewrite;
mod sentinel;
mod spelled;
mod spelling;
pub mod template;
pub mod tokenizer;

pub use control::Rendered;
pub use detokenizer::DecodeStream;
pub use error::PromptError;
pub(crate) use files::read_object;
pub use message::ChatMessage;
pub use spelled::Spelled;
pub use template::{ChatTemplate, RenderOptions};
pub use tokenizer::{NamedToken, SpecialTokens, Tokenizer};
