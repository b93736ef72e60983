//! What a checkpoint is and what it needs, from its files alone.

use std::{path::PathBuf, sync::Arc};

use foundation::model::ModelManifest;
use runtime::backend::Backend;
use serde::Serialize;

use crate::{error::Result, options::ModelOptions};

/// What a checkpoint is, what it needs, and who can run it. Everything wrong with it is listed at once.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct InspectReport {
    /// The checkpoint directory.
    pub path: PathBuf,
    /// What the files say; absent where they cannot be understood (see `findings`).
    pub model: Option<ModelSummary>,
    /// What is there beside the weights.
    pub files: FileSummary,
    /// What each backend says.
    pub backends: Vec<BackendReport>,
    /// Everything that is wrong with the checkpoint.
    pub findings: Vec<String>,
}

/// What a checkpoint is.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ModelSummary {
    /// The class that the configuration names: `LlamaForCausalLM`.
    pub architecture: String,
    /// The configuration's `model_type`.
    pub model_type: String,
    /// What it is for: `generation`, `embedding`, `scoring`.
    pub task: String,
    /// Element type of most weights.
    pub dtype: String,
    /// Number of weights.
    pub parameters: u64,
    /// Bytes of all weights on disk.
    pub weight_bytes: u64,
    /// Longest sequence the checkpoint was made for, in tokens.
    pub max_positions: usize,
    /// Entries of the vocabulary.
    pub vocab_size: usize,
    /// Width of the residual stream.
    pub hidden_size: usize,
    /// Runs of like layers: count and meaning.
    pub layers: Vec<LayerSummary>,
}

/// Layers that are alike.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LayerSummary {
    /// How many of them.
    pub count: usize,
    /// What they are, for people: `attention 32/8 x 128, window 4096; dense 14336 silu`.
    pub meaning: String,
}

/// Files beside the weights.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FileSummary {
    /// Weight files.
    pub weights: usize,
    /// There is a tokenizer.
    pub tokenizer: bool,
    /// There is a chat template.
    pub chat_template: bool,
    /// There is a `generation_config.json`.
    pub generation_config: bool,
}

/// What a backend says about a checkpoint.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BackendReport {
    /// The backend: `cpu`.
    pub backend: String,
    /// It can run the model.
    pub admitted: bool,
    /// What it would take.
    pub memory: Option<MemoryReport>,
    /// Why not: operations that the backend lacks, memory that is missing.
    pub problems: Vec<String>,
}

/// What a model takes on a backend, in bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MemoryReport {
    /// Weights as the backend keeps them.
    pub weights: u64,
    /// Of the weights, how much is mapped from the file and not copied.
    pub mapped: u64,
    /// Activations and scratch.
    pub workspace: u64,
    /// KV blocks.
    pub kv: u64,
    /// KV of one token.
    pub kv_per_token: u64,
    /// Tokens that the KV blocks hold.
    pub kv_tokens: usize,
    /// Longest sequence that will be served, in tokens.
    pub max_sequence_tokens: usize,
    /// What the device has for all of this.
    pub available: u64,
}

impl InspectReport {
    /// Some backend can run the model.
    pub fn runs(&self) -> bool {
        self.backends.iter().any(|backend| backend.admitted)
    }
}

/// Inspects a checkpoint with every backend of this build. `reference` is a directory or ORG/NAME in the hub cache.
///
/// An unreadable or unfit checkpoint is no error but a report with findings; an error means that nothing was found there.
pub fn inspect(reference: &str, options: &ModelOptions) -> Result<InspectReport> {
    crate::Library::new(crate::LibraryOptions::default())?.inspect(reference, options)
}

/// What `manifest` names, as each of `backends` sees it.
pub(crate) fn report(
    manifest: &ModelManifest,
    _options: &ModelOptions,
    _backends: &[Arc<dyn Backend>],
) -> InspectReport {
    InspectReport {
        path: manifest.path.clone(),
        model: None,
        files: FileSummary::default(),
        backends: Vec::new(),
        findings: vec!["inspection is not connected yet".into()],
    }
}
