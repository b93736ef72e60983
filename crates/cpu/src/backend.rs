//! The backend: admits checkpoints and loads them.

use std::thread;

use foundation::{DType, model::ModelManifest};
use models::{Checkpoint, contract::DecoderExecutionContract};
use runtime::{
    backend::{Backend, KvGroupSpec, LoadError, LoadOptions, MemoryPlan, RunnerSpec, StepRunner},
    memory::host_available,
    progress::ProgressEvent,
};

use crate::{
    admission::missing_capabilities,
    executor::Executor,
    kv::{BLOCK_SIZE, KvCache},
    load,
    plan::{Workspace, plan},
    runner::CpuRunner,
    simd::Isa,
    threads::Threads,
};

/// Runs every model on the host's processor.
#[derive(Clone, Copy, Debug, Default)]
pub struct CpuBackend;

impl CpuBackend {
    /// The backend.
    pub fn new() -> CpuBackend {
        CpuBackend
    }
}

impl Backend for CpuBackend {
    fn name(&self) -> &'static str {
        "cpu"
    }

    fn admit(
        &self,
        manifest: &ModelManifest,
        options: &LoadOptions,
    ) -> Result<MemoryPlan, LoadError> {
        Ok(admit(manifest, options)?.plan)
    }

    fn load(
        &self,
        manifest: &ModelManifest,
        options: &LoadOptions,
        progress: &mut dyn FnMut(ProgressEvent) -> bool,
    ) -> Result<Box<dyn StepRunner>, LoadError> {
        Ok(Box::new(load_runner(manifest, options, progress)?))
    }
}

/// A checkpoint that the backend can run, and what that takes.
struct Admitted {
    checkpoint: Checkpoint,
    contract: DecoderExecutionContract,
    plan: MemoryPlan,
}

fn admit(manifest: &ModelManifest, options: &LoadOptions) -> Result<Admitted, LoadError> {
    let mut checkpoint =
        Checkpoint::open(manifest).map_err(|error| LoadError::Checkpoint(error.to_string()))?;
    let contract = checkpoint.contract.take().ok_or_else(|| {
        LoadError::Checkpoint(format!("{:?} is no decoder that generates text", checkpoint.task))
    })?;
    let missing = missing_capabilities(&contract);
    if !missing.is_empty() {
        return Err(LoadError::MissingCapability(missing));
    }
    let available = host_available().ok_or_else(|| {
        LoadError::Option("the system does not say how much memory is available".to_owned())
    })?;
    let plan = plan(manifest, &contract, options, available)?;
    Ok(Admitted { checkpoint, contract, plan })
}

/// Loads the model of `manifest`; as [`Backend::load`], but says what it gives.
pub fn load_runner(
    manifest: &ModelManifest,
    options: &LoadOptions,
    progress: &mut dyn FnMut(ProgressEvent) -> bool,
) -> Result<CpuRunner, LoadError> {
    let Admitted { checkpoint, contract, plan } = admit(manifest, options)?;
    let isa = Isa::detect();
    let count = options.threads.unwrap_or_else(default_threads);
    let threads =
        Threads::new(count).map_err(|error| LoadError::Io(std::io::Error::other(error)))?;
    tracing::info!(isa = isa.name(), threads = count, kv = %plan.kv, "loading on the cpu");
    let files: Vec<_> = checkpoint.layout.weights.iter().map(|file| file.path.clone()).collect();
    let model = load::load(&contract, &files, isa, &threads, progress)?;
    let detail = format!("{} threads, {}, {} of KV blocks", count, isa.name(), plan.kv);
    if !progress(ProgressEvent::Prepare { detail }) {
        return Err(LoadError::Cancelled);
    }
    let cache = KvCache::new(&contract.semantic, &plan.kv_blocks);
    let workspace = Workspace::of(&contract.semantic, options.max_step_tokens);
    let spec = runner_spec(&contract, options, &plan);
    let runner = CpuRunner::new(spec, Executor::new(isa, threads, model, cache, workspace));
    match progress(ProgressEvent::Ready) {
        true => Ok(runner),
        false => Err(LoadError::Cancelled),
    }
}

/// As many threads as the process may run at a time.
fn default_threads() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

fn runner_spec(
    contract: &DecoderExecutionContract,
    options: &LoadOptions,
    plan: &MemoryPlan,
) -> RunnerSpec {
    let semantic = &contract.semantic;
    let groups = semantic.kv_groups().into_iter().zip(&plan.kv_blocks);
    RunnerSpec {
        vocab_size: semantic.vocab_size,
        hidden_size: semantic.hidden_size,
        max_sequence_tokens: plan.max_sequence_tokens,
        max_step_tokens: options.max_step_tokens,
        max_step_sequences: options.max_step_sequences,
        block_size: BLOCK_SIZE,
        kv_groups: groups
            .map(|(group, blocks)| KvGroupSpec { window: group.window, blocks: *blocks })
            .collect(),
        regime_thresholds: semantic.regime_thresholds(),
        mixes_prefill_and_decode: true,
        max_in_flight: 1,
        rewinds: true,
        host: None,
        kv_dtype: DType::F32,
    }
}
