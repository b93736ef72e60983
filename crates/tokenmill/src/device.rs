//! Where a model is computed.

use std::{fmt, str::FromStr};

use foundation::Bytes;
use serde::{Deserialize, Serialize};

/// The device that the user asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DeviceChoice {
    /// The best backend of this build that has a device; the effective settings say which and why.
    #[default]
    Auto,
    /// The host's processor.
    Cpu,
    /// An NVIDIA GPU; an error where this build or this machine has none.
    Cuda,
}

/// Every choice with its spelling.
const TABLE: [(DeviceChoice, &str); 3] =
    [(DeviceChoice::Auto, "auto"), (DeviceChoice::Cpu, "cpu"), (DeviceChoice::Cuda, "cuda")];

impl DeviceChoice {
    /// The spelling used by flags and files.
    pub fn name(self) -> &'static str {
        TABLE.iter().find(|row| row.0 == self).expect("every choice has a row in TABLE").1
    }
}

/// What is there for models on NVIDIA GPUs, and what is not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CudaSurvey {
    /// The CUDA version that the driver speaks, or why there is none.
    pub driver: Result<String, String>,
    /// The visible GPUs, in the driver's order, or why there are none.
    pub gpus: Result<Vec<GpuSummary>, String>,
    /// Compute capabilities that this build has kernels for, as nvcc writes them (`90a`); empty: it was built without nvcc.
    pub kernels: Vec<&'static str>,
    /// NVIDIA's library for large matrix products, or why it is of no use. Our own kernels stand in for it.
    pub cublaslt: Result<String, String>,
    /// Which of the ways to do matrix products are known to be fastest on the GPU that models would run on, from being timed
    /// when a model was loaded; `None` where nothing can be kept.
    pub products: Option<String>,
}

/// A GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuSummary {
    /// As the driver calls it.
    pub name: String,
    /// Built in.
    pub memory: Bytes,
    /// Compute capability: `9.0`.
    pub capability: String,
}

/// Looks over what is there for models on GPUs; `None` in a build without that backend.
pub fn survey_cuda() -> Option<CudaSurvey> {
    crate::backends::survey_cuda()
}

impl fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for DeviceChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        TABLE
            .iter()
            .find(|row| row.1 == text)
            .map(|row| row.0)
            .ok_or_else(|| format!("unknown device {text:?}: auto, cpu or cuda"))
    }
}
