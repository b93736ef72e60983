//! What the driver may answer.

use std::ffi::CStr;

use cudarc::driver::sys::{self, CUresult};
use foundation::Bytes;
use runtime::backend::LoadError;

/// Why the driver, or the layer above it, could not do something.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DriverError {
    /// There is no driver library on this machine.
    #[error("no NVIDIA driver: libcuda.so.1 is not on this machine")]
    NoDriver,
    /// The driver is there, but sees no device.
    #[error("no NVIDIA GPU is visible{hint}")]
    NoDevice {
        /// What may hide it.
        hint: &'static str,
    },
    /// The driver cannot load this build's machine code.
    #[error(
        "the NVIDIA driver speaks CUDA {}.{}, and the kernels of this build need {}.{}: update the driver",
        .found / 1000, .found % 1000 / 10, .needed / 1000, .needed % 1000 / 10
    )]
    DriverTooOld {
        /// CUDA version of the driver, as `1000 * major + 10 * minor`.
        found: i32,
        /// The least that is needed.
        needed: i32,
    },
    /// The crate was built without a CUDA compiler.
    #[error("this build has no CUDA kernels: run tools/cuda/install-nvcc.sh and build again")]
    NoKernels,
    /// None of the build's machine code runs on this device.
    #[error("no kernels for {device} (compute capability {arch}): this build has {built}")]
    NoKernelsForDevice {
        /// Name of the device.
        device: String,
        /// Its compute capability, major times ten plus minor.
        arch: u32,
        /// What was built.
        built: String,
    },
    /// Device memory ran out.
    #[error("out of GPU memory: {wanted} wanted, {free} free")]
    OutOfMemory {
        /// What was asked for.
        wanted: Bytes,
        /// What there was.
        free: Bytes,
    },
    /// A call failed.
    #[error("{call}: {name} ({code})")]
    Call {
        /// The driver's function.
        call: &'static str,
        /// The driver's name of the error.
        name: String,
        /// Its number.
        code: u32,
    },
    /// A launch or a copy was asked for that cannot be; a defect of the caller.
    #[error("{0}")]
    Invalid(String),
}

impl DriverError {
    /// Whether the device is lost to this process: no later call can succeed.
    pub fn is_fault(&self) -> bool {
        // 7xx: launch failures, illegal addresses, asserts, traps; 214, 220 to 226: ECC, NVLink, containment.
        matches!(self, DriverError::Call { code, .. } if (700..800).contains(code) || (214..230).contains(code))
    }
}

impl From<DriverError> for LoadError {
    fn from(error: DriverError) -> Self {
        match error {
            DriverError::OutOfMemory { wanted, free } => LoadError::OutOfMemory {
                what: "an allocation on the GPU".to_owned(),
                needed: wanted,
                available: free,
                hint: "something else took memory since the plan was made, or memory_fraction is too high"
                    .to_owned(),
            },
            error => LoadError::Device(error.to_string()),
        }
    }
}

/// Turns the driver's code into a result.
pub(super) fn check(call: &'static str, result: CUresult) -> Result<(), DriverError> {
    match result {
        CUresult::CUDA_SUCCESS => Ok(()),
        CUresult::CUDA_ERROR_NO_DEVICE => Err(DriverError::NoDevice { hint: "" }),
        code => Err(DriverError::Call { call, name: name_of(code), code: code as u32 }),
    }
}

fn name_of(code: CUresult) -> String {
    let mut text = std::ptr::null();
    // SAFETY: `text` is a valid place for a pointer; the driver only writes it.
    let known = unsafe { sys::cuGetErrorName(code, &mut text) };
    if known != CUresult::CUDA_SUCCESS || text.is_null() {
        return "unknown error".to_owned();
    }
    // SAFETY: on success the driver hands out a static, NUL-terminated string.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}
