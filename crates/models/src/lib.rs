//! What a checkpoint is, from its files alone.
//!
//! Knows: layout, configuration, tokenizer, chat template, generation defaults, tensors and their storage, the task, the
//! meaning of the layers. Does not know: how anything is computed.

pub mod contract;
pub mod generation;
pub mod prompt;
pub mod semantic;
pub mod weights;
