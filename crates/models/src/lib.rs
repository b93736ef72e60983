//! What a checkpoint is, from its files alone.
//!
//! Knows: layout, configuration, tokenizer, chat template, generation defaults, tensors and their storage, the task, the
//! meaning of the layers. Does not know: how anything is computed.

pub mod catalog;
pub mod checkpoint;
pub mod config;
pub mod contract;
pub mod dialect;
pub mod error;
pub mod family;
pub mod files;
pub mod format;
pub mod generation;
mod json;
pub mod layout;
pub mod mapping;
pub mod metadata;
pub mod prompt;
pub mod rope;
pub mod semantic;
pub mod synthetic;
pub mod task;
pub mod weights;

pub use catalog::TensorCatalog;
pub use checkpoint::{Checkpoint, Survey};
pub use contract::DecoderExecutionContract;
pub use error::{Error, Finding, Findings, Severity};
pub use layout::ModelLayout;
pub use metadata::ModelMetadata;
pub use task::TaskExecutionPlan;
