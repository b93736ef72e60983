//! The CUDA backend: every decoder on NVIDIA GPUs.
//!
//! Knows: the driver, kernels, how a decoder is lowered to them, loaded and executed. Does not know: families, prompts, HTTP.
//!
//! [`driver`] is the only place that talks to the driver's C interface. [`ops`] holds each operation as a kernel (`.cu`) and
//! its launcher (`.rs`) side by side: a `Problem`, a pure `Plan`, a launch.

pub mod admission;
pub mod backend;
pub mod driver;
pub mod engine;
pub mod layout;
pub mod load;
pub mod model;
pub mod ops;
pub mod plan;
pub mod survey;
pub mod testing;
pub mod weights;

/// The compute capabilities that this build has machine code for, as nvcc writes them (`90a`); empty without kernels.
pub fn built_architectures() -> Vec<&'static str> {
    env!("KERNEL_ARCHS").split(',').filter(|arch| !arch.is_empty()).collect()
}

pub use backend::CudaBackend;
