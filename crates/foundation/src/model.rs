//! The manifest: which checkpoint is meant, and under which name it is served.

use std::path::PathBuf;

use crate::{DType, ModelId};

/// Names a model before anything of it has been read.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelManifest {
    /// The name under which requests address the model.
    pub id: ModelId,
    /// The checkpoint directory (with `config.json`).
    pub path: PathBuf,
    /// Where the weights come from.
    pub weights: WeightOrigin,
    /// The longest sequence (prompt and output, tokens) to serve; `None`: what the checkpoint allows.
    pub context_len: Option<u32>,
    /// Configuration keys to pass over although their meaning is unknown; each was named by the user.
    pub ignored_config_keys: Vec<String>,
}

/// Where a model's weights come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WeightOrigin {
    /// The safetensors files of the checkpoint directory.
    Files,
    /// Made up from the configuration alone, for benches: seeded random values of this type.
    Synthetic {
        /// Seed of the generator.
        seed: u64,
        /// Stored element type.
        dtype: DType,
    },
}

impl ModelManifest {
    /// A manifest for the checkpoint in `path`, served as `id`, everything else at its default.
    pub fn new(id: impl Into<ModelId>, path: impl Into<PathBuf>) -> Self {
        ModelManifest {
            id: id.into(),
            path: path.into(),
            weights: WeightOrigin::Files,
            context_len: None,
            ignored_config_keys: Vec::new(),
        }
    }
}
