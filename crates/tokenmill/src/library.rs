//! Finds, loads and keeps models.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use foundation::{Bytes, ModelId};
use runtime::{backend::Backend, progress::ProgressEvent};
use serde::Serialize;

use crate::{
    device::DeviceChoice,
    error::{Error, Result},
    inspect::InspectReport,
    model::Model,
    options::ModelOptions,
};

/// How a library finds and runs models.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LibraryOptions {
    /// The cache of hub checkpoints; `None`: `HF_HUB_CACHE`, `HF_HOME` or `~/.cache/huggingface/hub`.
    pub cache_dir: Option<PathBuf>,
    /// Where models are computed.
    pub device: DeviceChoice,
}

/// A checkpoint in the hub cache.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LocalModel {
    /// ORG/NAME.
    pub name: String,
    /// The commit that its branch points to.
    pub revision: String,
    /// The checkpoint directory.
    pub path: PathBuf,
    /// Bytes of its files.
    pub bytes: u64,
}

/// Finds models, loads them, and keeps those that are loaded by id. Clones share one registry.
#[derive(Clone)]
pub struct Library {
    #[expect(dead_code, reason = "filled in with the engine")]
    inner: Arc<()>,
}

impl Library {
    /// A library over this build's backends. Fails where the chosen device cannot be had.
    pub fn new(_options: LibraryOptions) -> Result<Self> {
        Ok(Library { inner: Arc::new(()) })
    }

    /// A library over the given backends, best first.
    pub fn with_backends(
        _options: LibraryOptions,
        _backends: Vec<Arc<dyn Backend>>,
    ) -> Result<Self> {
        Ok(Library { inner: Arc::new(()) })
    }

    /// The cache of hub checkpoints, if a place for it is known.
    pub fn cache_dir(&self) -> Option<&Path> {
        None
    }

    /// The checkpoint directory that `reference` means: a directory with `config.json`, or ORG/NAME (with `@REVISION`)
    /// in the hub cache.
    pub fn resolve(&self, reference: &str) -> Result<PathBuf> {
        Err(Error::NotFound(reference.into()))
    }

    /// The checkpoints in the hub cache, by name.
    pub fn local_models(&self) -> Result<Vec<LocalModel>> {
        Ok(Vec::new())
    }

    /// What a checkpoint is, what it needs, and which backend can run it.
    pub fn inspect(&self, reference: &str, _options: &ModelOptions) -> Result<InspectReport> {
        Err(Error::NotFound(reference.into()))
    }

    /// Loads a model and registers it. `progress` returns `false` to cancel; a failed or cancelled load gives every
    /// byte back.
    pub fn load(
        &self,
        _reference: &str,
        _options: ModelOptions,
        _progress: &mut dyn FnMut(ProgressEvent) -> bool,
    ) -> Result<Model> {
        Err(Error::Internal("engine not connected".into()))
    }

    /// The loaded model of that id.
    pub fn get(&self, id: &str) -> Result<Model> {
        Err(Error::NotFound(format!("no model named {id} is loaded")))
    }

    /// The loaded models, in the order in which they were loaded.
    pub fn loaded(&self) -> Vec<Model> {
        Vec::new()
    }

    /// Takes a model out of the registry, cancels what it runs and frees its memory; clones of the [`Model`] answer
    /// [`Error::Draining`] from then on. Gives the bytes that were freed.
    pub fn unload(&self, id: &ModelId) -> Result<Bytes> {
        Err(Error::NotFound(format!("no model named {id} is loaded")))
    }

    /// Removes a checkpoint from the hub cache: every file that no other revision uses. Gives the bytes that were freed.
    pub fn remove_local(&self, name: &str) -> Result<Bytes> {
        Err(Error::NotFound(name.into()))
    }
}
