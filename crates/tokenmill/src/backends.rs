//! This machine's backends, best first; and why the others are not among them.

use std::{path::PathBuf, sync::Arc};

use foundation::{Bytes, model::ModelManifest};
use runtime::backend::{Backend, LoadOptions};

use crate::{
    device::{CudaSurvey, DeviceChoice},
    error::{Error, Result},
};

/// What can run models here.
pub(crate) struct Backends {
    found: Vec<Arc<dyn Backend>>,
    /// Why there is no CUDA backend among them; `None` where there is one, or where nobody asked.
    no_cuda: Option<String>,
}

impl Backends {
    /// Those of this build on this machine that `choice` may mean. A GPU that nobody wants is not touched. What they find out
    /// about the machine they keep in `folder`.
    pub fn of_this_machine(choice: DeviceChoice, folder: Option<PathBuf>) -> Self {
        let cpu: Arc<dyn Backend> = Arc::new(cpu::CpuBackend::new());
        if choice == DeviceChoice::Cpu {
            return Backends { found: vec![cpu], no_cuda: None };
        }
        match cuda_backend(choice, folder) {
            Ok(cuda) => Backends { found: vec![cuda, cpu], no_cuda: None },
            Err(reason) => Backends { found: vec![cpu], no_cuda: Some(reason) },
        }
    }

    /// The given ones, best first.
    pub fn given(found: Vec<Arc<dyn Backend>>) -> Self {
        Backends { found, no_cuda: None }
    }

    /// All of them.
    pub fn found(&self) -> &[Arc<dyn Backend>] {
        &self.found
    }

    /// Why there is no CUDA backend, if it was looked for in vain.
    pub fn no_cuda(&self) -> Option<&str> {
        self.no_cuda.as_deref()
    }

    /// The backend for `choice`, and why it is the one where nobody named it.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] where it is not there, and why.
    pub fn choose(&self, choice: DeviceChoice) -> Result<(&Arc<dyn Backend>, String)> {
        let names: Vec<&str> = self.found.iter().map(|backend| backend.name()).collect();
        let named = |name: &str| self.found.iter().find(|backend| backend.name() == name);
        let found = match choice {
            DeviceChoice::Auto => self.found.first(),
            _ => named(choice.name()),
        };
        if let Some(backend) = found {
            let device = backend.device().map(|device| device.name);
            let why = match (&self.no_cuda, device) {
                (Some(reason), _) => reason.clone(),
                (None, Some(device)) => device,
                (None, None) => format!("the first of {}", names.join(", ")),
            };
            return Ok((backend, why));
        }
        let message = match &self.no_cuda {
            Some(reason) if choice == DeviceChoice::Cuda => format!("{reason}; or use cpu or auto"),
            _ => format!("{choice} is not among this library's backends: {}", names.join(", ")),
        };
        Err(Error::InvalidOption { option: "device", message })
    }
}

#[cfg(feature = "cuda")]
fn cuda_backend(choice: DeviceChoice, folder: Option<PathBuf>) -> Result<Arc<dyn Backend>, String> {
    use cuda::driver::DriverError;
    let failed = |error: DriverError| {
        // Where there is no GPU to be seen, nobody expects one; who named it hears of it as an error.
        let is_plain = matches!(error, DriverError::NoDriver | DriverError::NoDevice { .. });
        if !is_plain && choice == DeviceChoice::Auto {
            tracing::warn!(%error, "models run on the cpu, although there is an NVIDIA driver");
        }
        error.to_string()
    };
    let detected = cuda::CudaBackend::detect(folder);
    detected.map(|cuda| Arc::new(cuda) as Arc<dyn Backend>).map_err(failed)
}

/// What the CUDA backend says of a model where there is no GPU to ask: what its kernels lack, or what it would need.
#[cfg(feature = "cuda")]
pub(crate) fn what_cuda_would_say(manifest: &ModelManifest, options: &LoadOptions) -> Vec<String> {
    let needs = match cuda::backend::needs(manifest, options) {
        Ok(needs) => needs,
        Err(error) => return crate::inspect::problems(&error),
    };
    let fixed = Bytes(needs.weights.0.saturating_add(needs.workspace.0));
    let token = Bytes(needs.kv_groups.iter().map(|group| group.bytes_per_token).sum());
    vec![format!(
        "a GPU would need {fixed} for weights and workspace, and {token} of key-value cache a token"
    )]
}

#[cfg(feature = "cuda")]
pub(crate) fn survey_cuda() -> Option<CudaSurvey> {
    let folder = crate::config::Environment::of_process().own_cache();
    let found = cuda::survey::survey(folder.as_deref());
    let summary = |limits: cuda::driver::DeviceLimits| crate::device::GpuSummary {
        name: limits.name,
        memory: limits.memory,
        capability: format!("{}.{}", limits.arch / 10, limits.arch % 10),
    };
    let gpus = found.gpus.map(|gpus| gpus.into_iter().map(summary).collect());
    Some(CudaSurvey {
        driver: found.driver.map_err(|error| error.to_string()),
        gpus: gpus.map_err(|error| error.to_string()),
        kernels: found.architectures,
        cublaslt: found.cublaslt,
        products: found.products.map(|kept| kept.to_string()),
    })
}

#[cfg(not(feature = "cuda"))]
pub(crate) fn survey_cuda() -> Option<CudaSurvey> {
    None
}

#[cfg(not(feature = "cuda"))]
pub(crate) fn what_cuda_would_say(_: &ModelManifest, _: &LoadOptions) -> Vec<String> {
    Vec::new()
}

#[cfg(not(feature = "cuda"))]
fn cuda_backend(_: DeviceChoice, _: Option<PathBuf>) -> Result<Arc<dyn Backend>, String> {
    Err("this build has no CUDA backend (it was built without the feature `cuda`)".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpu() -> Arc<dyn Backend> {
        Arc::new(cpu::CpuBackend::new())
    }

    fn chosen(backends: &Backends, choice: DeviceChoice) -> Result<(&'static str, String), String> {
        let chosen = backends.choose(choice);
        chosen.map(|(backend, why)| (backend.name(), why)).map_err(|error| error.to_string())
    }

    #[test]
    fn what_was_not_found_is_said_with_the_choice_and_with_its_refusal() {
        let no_cuda = Some("no NVIDIA driver".to_owned());
        let backends = Backends { found: vec![cpu()], no_cuda };
        assert_eq!(
            chosen(&backends, DeviceChoice::Auto),
            Ok(("cpu", "no NVIDIA driver".to_owned()))
        );
        let refused = chosen(&backends, DeviceChoice::Cuda);
        assert_eq!(refused, Err("device: no NVIDIA driver; or use cpu or auto".to_owned()));
    }

    #[test]
    fn given_backends_are_chosen_by_name() {
        let backends = Backends::given(vec![cpu()]);
        assert_eq!(
            chosen(&backends, DeviceChoice::Auto),
            Ok(("cpu", "the first of cpu".to_owned()))
        );
        assert!(chosen(&backends, DeviceChoice::Cpu).is_ok());
        assert!(chosen(&backends, DeviceChoice::Cuda).unwrap_err().contains("not among"));
    }

    #[test]
    fn a_gpu_that_nobody_wants_is_not_looked_for() {
        let backends = Backends::of_this_machine(DeviceChoice::Cpu, None);
        assert_eq!((backends.found().len(), backends.no_cuda()), (1, None));
    }
}
