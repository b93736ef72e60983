//! What a checkpoint is, from its files alone.
//!
//! Knows: layout, configuration, tokenizer, chat template, generation defaults, tensors and their storage, the task, the
//! meaning of the layers. Does not know: how anything is computed.

pub mod contract;
pub mod error;
pub mod files;
pub mod generation;
mod json;
pub mod layout;
pub mod mapping;
pub mod prompt;
pub mod semantic;
pub mod weights;

pub use error::{Error, Finding, Findings, Severity};
pub use layout::ModelLayout;
