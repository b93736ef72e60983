//! The backend: admits checkpoints and loads them onto one GPU.

use std::{path::PathBuf, sync::Arc, time::Instant};

use foundation::{Bytes, model::ModelManifest};
use models::{Checkpoint, contract::DecoderExecutionContract};
use runtime::{
    backend::{Backend, DeviceInfo, LoadError, LoadOptions, MemoryPlan, StepRunner},
    memory::{MemoryNeeds, host_available},
    progress::ProgressEvent,
};

use crate::{
    admission::missing_capabilities,
    driver::{DriverError, Gpu, driver_version},
    engine::{
        build::{Parts, build},
        copies::NoHostMemory,
        executor::ExecuteError,
        products::Products,
        runner::CudaRunner,
    },
    load,
    plan::{DeviceMemory, DevicePlan, Needs, plan},
    survey::spelled,
};

/// Runs models on an NVIDIA GPU.
#[derive(Clone, Debug)]
pub struct CudaBackend {
    gpu: Arc<Gpu>,
    modes: Modes,
    products: Products,
}

/// How steps are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Modes {
    /// Decode steps replay captured graphs.
    pub graphs: bool,
    /// A row's result does not depend on the rows beside it, to the bit; costs speed.
    pub invariant: bool,
}

impl Default for Modes {
    fn default() -> Self {
        Modes { graphs: true, invariant: false }
    }
}

impl CudaBackend {
    /// The backend of the first visible GPU. What it finds out about matrix products is kept in `folder`, if there is one.
    ///
    /// # Errors
    /// Why there is none: no driver, one that is too old, no device, no kernels in this build.
    pub fn detect(folder: Option<PathBuf>) -> Result<CudaBackend, DriverError> {
        let backend = CudaBackend::new(Gpu::open(0)?, Modes::default());
        Ok(backend.with_products(Products::Timed { folder }))
    }

    /// The backend of `gpu`, which does products by the rule.
    pub fn new(gpu: Arc<Gpu>, modes: Modes) -> CudaBackend {
        CudaBackend { gpu, modes, products: Products::ByRule }
    }

    /// Chooses how products are done as told.
    #[must_use]
    pub fn with_products(self, products: Products) -> CudaBackend {
        CudaBackend { products, ..self }
    }

    /// The GPU.
    pub fn gpu(&self) -> &Arc<Gpu> {
        &self.gpu
    }

    /// Loads the model of `manifest`; as [`Backend::load`], but says what it gives.
    pub fn load_runner(
        &self,
        manifest: &ModelManifest,
        options: &LoadOptions,
        progress: &mut dyn FnMut(ProgressEvent) -> bool,
    ) -> Result<CudaRunner, LoadError> {
        let Admitted { contract, files, plan } = self.admitted(manifest, options)?;
        let DevicePlan { memory, layout, kv_format, .. } = plan;
        let (threads, start) = (options.threads, Instant::now());
        let weights = load::load(&self.gpu, &contract, &layout, &files, threads, progress)?;
        let (seconds, bytes) = (start.elapsed().as_secs_f64(), contract.weight_bytes());
        let gb_per_s = format!("{:.1}", bytes.0 as f64 / 1e9 / seconds);
        tracing::info!(%bytes, seconds, gb_per_s, "the weights are on the GPU");
        let start = Instant::now();
        let detail = format!("{} of KV blocks, decode graphs", memory.kv);
        if !progress(ProgressEvent::Prepare { detail }) {
            return Err(LoadError::Cancelled);
        }
        let runner = build(Parts {
            gpu: Arc::clone(&self.gpu),
            semantic: contract.semantic,
            weights,
            plan: memory,
            options: options.clone(),
            kv_format,
            invariant: self.modes.invariant || options.batch_invariant,
            graphs: self.modes.graphs,
            products: self.products.clone(),
        });
        let runner = runner.map_err(load_error)?;
        let seconds = start.elapsed().as_secs_f64();
        tracing::info!(seconds, "the engine is prepared, its decode steps are captured");
        match progress(ProgressEvent::Ready) {
            true => Ok(runner),
            false => Err(LoadError::Cancelled),
        }
    }

    fn admitted(
        &self,
        manifest: &ModelManifest,
        options: &LoadOptions,
    ) -> Result<Admitted, LoadError> {
        let (checkpoint, contract) = runnable(manifest)?;
        let (free, total) =
            self.gpu.memory().map_err(|error| load_error(ExecuteError::from(error)))?;
        let plan = plan(manifest, &contract, options, DeviceMemory { total, free })?;
        check_host(plan.memory.host_kv, host_available())?;
        let files = checkpoint.layout.weights.iter().map(|file| file.path.clone()).collect();
        Ok(Admitted { contract, files, plan })
    }
}

impl Backend for CudaBackend {
    fn name(&self) -> &'static str {
        "cuda"
    }

    fn device(&self) -> Option<DeviceInfo> {
        let limits = self.gpu.limits();
        Some(DeviceInfo {
            name: limits.name.clone(),
            driver: driver_version().map_or_else(|error| error.to_string(), spelled),
            read_bytes_per_s: limits.read_ceiling(),
        })
    }

    fn admit(
        &self,
        manifest: &ModelManifest,
        options: &LoadOptions,
    ) -> Result<MemoryPlan, LoadError> {
        Ok(self.admitted(manifest, options)?.plan.memory)
    }

    fn load(
        &self,
        manifest: &ModelManifest,
        options: &LoadOptions,
        progress: &mut dyn FnMut(ProgressEvent) -> bool,
    ) -> Result<Box<dyn StepRunner>, LoadError> {
        Ok(Box::new(self.load_runner(manifest, options, progress)?))
    }
}

/// What the model of `manifest` would need on a device, as far as that can be said without one.
///
/// # Errors
/// A checkpoint that is broken, or that no kernel is there for.
pub fn needs(manifest: &ModelManifest, options: &LoadOptions) -> Result<MemoryNeeds, LoadError> {
    let (_, contract) = runnable(manifest)?;
    Ok(Needs::of(manifest, &contract, options)?.needs)
}

/// A checkpoint that the kernels can run.
fn runnable(manifest: &ModelManifest) -> Result<(Checkpoint, DecoderExecutionContract), LoadError> {
    let mut checkpoint =
        Checkpoint::open(manifest).map_err(|error| LoadError::Checkpoint(error.to_string()))?;
    let contract = checkpoint.contract.take().ok_or_else(|| {
        LoadError::Checkpoint(format!("{:?} is no decoder that generates text", checkpoint.task))
    })?;
    let missing = missing_capabilities(&contract);
    match missing.is_empty() {
        true => Ok((checkpoint, contract)),
        false => Err(LoadError::MissingCapability(missing)),
    }
}

/// Page-locked memory is never swapped out: what the machine does not have at hand must not be asked for.
fn check_host(needed: Bytes, available: Option<Bytes>) -> Result<(), LoadError> {
    match available {
        Some(available) if needed > available => Err(LoadError::OutOfMemory {
            what: "KV blocks on the host".to_owned(),
            needed,
            available,
            hint: "lower --kv-offload-memory".to_owned(),
        }),
        _ => Ok(()),
    }
}

/// A checkpoint that the backend can run, and what that takes.
struct Admitted {
    contract: DecoderExecutionContract,
    files: Vec<PathBuf>,
    plan: DevicePlan,
}

fn load_error(error: ExecuteError) -> LoadError {
    match error {
        ExecuteError::Driver(DriverError::OutOfMemory { wanted, free }) => LoadError::OutOfMemory {
            what: "buffers on the GPU".to_owned(),
            needed: wanted,
            available: free,
            hint: "another process may have taken memory meanwhile; lower --memory-fraction"
                .to_owned(),
        },
        ExecuteError::Driver(error) => error.into(),
        ExecuteError::Host(NoHostMemory { wanted, given, source }) => LoadError::OutOfMemory {
            what: "KV blocks on the host".to_owned(),
            needed: wanted,
            available: given,
            hint: format!("lower --kv-offload-memory; such memory is page-locked ({source})"),
        },
        error => LoadError::Device(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ran_out_or_failed_while_loading_is_told_as_it_is() {
        let full = DriverError::OutOfMemory { wanted: Bytes::gib(2), free: Bytes::gib(1) };
        let told = load_error(full.into()).to_string();
        assert!(told.contains("2.0 GiB needed, 1.0 GiB available"), "{told}");
        assert!(told.contains("--memory-fraction"), "{told}");
        let refused = check_host(Bytes::gib(20), Some(Bytes::gib(8))).unwrap_err().to_string();
        assert!(
            refused.contains("20.0 GiB needed, 8.0 GiB available; lower --kv-off"),
            "{refused}"
        );
        assert!(check_host(Bytes::gib(8), Some(Bytes::gib(8))).is_ok());
        assert!(check_host(Bytes::gib(8), None).is_ok());
        let gone = DriverError::Call { call: "cuMemAlloc", name: "X".into(), code: 700 };
        assert_eq!(load_error(gone.clone().into()).to_string(), gone.to_string());
    }
}
