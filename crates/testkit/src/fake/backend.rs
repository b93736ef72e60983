//! A backend that loads the fake model, whatever the checkpoint says.

use foundation::{Bytes, model::ModelManifest};
use runtime::{
    backend::{Backend, LoadError, LoadOptions, MemoryPlan, RunnerSpec, StepRunner},
    progress::ProgressEvent,
};

use super::runner::{FakeRunner, Fault};

/// Loads [`FakeRunner`]s of one spec. Reads no weights.
#[derive(Clone, Debug)]
pub struct FakeBackend {
    spec: RunnerSpec,
    fault: Option<Fault>,
}

impl FakeBackend {
    /// A backend whose runners have this spec; the vocabulary size must be that of the checkpoint's tokenizer.
    pub fn new(spec: RunnerSpec) -> Self {
        FakeBackend { spec, fault: None }
    }

    /// Lets something go wrong in every runner.
    #[must_use]
    pub fn with_fault(self, fault: Option<Fault>) -> Self {
        FakeBackend { fault, ..self }
    }

    fn resolve(&self, manifest: &ModelManifest, options: &LoadOptions) -> RunnerSpec {
        let mut spec = self.spec.clone();
        let asked = options.max_sequence_tokens.or(manifest.context_len.map(|len| len as usize));
        spec.max_sequence_tokens = asked.unwrap_or(spec.max_sequence_tokens);
        spec.max_step_tokens = options.max_step_tokens;
        spec.max_step_sequences = options.max_step_sequences;
        spec
    }
}

impl Backend for FakeBackend {
    fn name(&self) -> &'static str {
        "fake"
    }

    fn admit(
        &self,
        manifest: &ModelManifest,
        options: &LoadOptions,
    ) -> Result<MemoryPlan, LoadError> {
        let spec = self.resolve(manifest, options);
        Ok(MemoryPlan {
            weights: Bytes(0),
            mapped: Bytes(0),
            workspace: Bytes(0),
            kv: Bytes(0),
            kv_per_token: Bytes(0),
            kv_blocks: spec.kv_groups.iter().map(|group| group.blocks).collect(),
            host_kv: Bytes(0),
            host_blocks: vec![0; spec.kv_groups.len()],
            block_size: spec.block_size,
            max_sequence_tokens: spec.max_sequence_tokens,
            available: Bytes(0),
        })
    }

    fn load(
        &self,
        manifest: &ModelManifest,
        options: &LoadOptions,
        progress: &mut dyn FnMut(ProgressEvent) -> bool,
    ) -> Result<Box<dyn StepRunner>, LoadError> {
        if !progress(ProgressEvent::load_weights(0, 0, "nothing to read")) {
            return Err(LoadError::Cancelled);
        }
        progress(ProgressEvent::Ready);
        let runner = FakeRunner::new(self.resolve(manifest, options));
        Ok(Box::new(runner.with_fault(self.fault)))
    }
}
