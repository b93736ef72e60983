//! What the driver may answer.

use std::ffi::CStr;

use cudarc::driver::sys::{self, CUresult};
use foundation::Bytes;
use runtime::backend::LoadError;

/// The driver's release that speaks CUDA 13.
const NEEDED_DRIVER: u32 = 580;

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
        "the NVIDIA driver speaks CUDA {}.{}, and the kernels of this build need {}.{}: update it to release {NEEDED_DRIVER} \
         or newer",
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
    #[error("no kernels for {device} (compute capability {}.{}): this build has {built}", .arch / 10, .arch % 10)]
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
    #[error("{}", told(.call, .name, *.code))]
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
        let DriverError::Call { code, .. } = self else { return false };
        meaning(*code).is_some_and(|meaning| meaning.is_fault)
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

/// What one of the driver's codes means to the people who read it.
struct Meaning {
    code: u32,
    /// Nothing of the process's work on the device can go on.
    is_fault: bool,
    text: &'static str,
}

const fn trouble(code: u32, text: &'static str) -> Meaning {
    Meaning { code, is_fault: false, text }
}

const fn fault(code: u32, text: &'static str) -> Meaning {
    Meaning { code, is_fault: true, text }
}

/// Codes that a machine, not a defect of a launch, may answer with; and those after which the device is lost.
const MEANINGS: &[Meaning] = &[
    trouble(2, "the GPU has no memory left: other processes hold it, and nvidia-smi names them"),
    trouble(4, "the driver is shutting down with this process"),
    trouble(
        34,
        "the libcuda.so.1 that was found is the toolkit's stub: put the driver's own before it in the loader's path",
    ),
    trouble(36, "the driver is too old for this call: update it"),
    trouble(
        46,
        "the GPU is not to be had: another process has it to itself, or its compute mode forbids all (nvidia-smi -q -d COMPUTE)",
    ),
    trouble(101, "there is no GPU of that number, or CUDA_VISIBLE_DEVICES names one twice"),
    trouble(
        216,
        "the GPU is in exclusive mode, and another process has it (nvidia-smi -q -d COMPUTE)",
    ),
    fault(
        214,
        "the GPU's memory has an error that could not be corrected: look at nvidia-smi -q -d ECC",
    ),
    fault(220, "the link between GPUs has an error that could not be corrected"),
    fault(226, "the GPU had an error that was contained to this process"),
    trouble(
        304,
        "the operating system refused the driver something: are /dev/nvidia* there and readable?",
    ),
    fault(700, "a kernel touched memory that is not its own"),
    fault(702, "a kernel ran for longer than the system allows"),
    fault(709, "the GPU's context is gone"),
    fault(710, "a kernel found something that cannot be"),
    fault(714, "a kernel broke its stack"),
    fault(715, "a kernel met an instruction that it cannot run"),
    fault(716, "a kernel touched memory at an address that is not aligned"),
    fault(717, "a kernel touched memory of another kind than it meant to"),
    fault(718, "a kernel jumped to nowhere"),
    fault(719, "a kernel failed, or the GPU did (dmesg may say more)"),
    fault(721, "a kernel left tensor memory behind"),
    trouble(800, "this process may not do that on the GPU"),
    trouble(
        802,
        "the GPUs are not ready: on a machine with NVSwitch the fabric manager must run, in the driver's version",
    ),
    trouble(
        803,
        "the driver's library and its kernel module are of different versions: restart the machine after an update",
    ),
    trouble(
        804,
        "CUDA's compatibility library stands in for the driver's, and this GPU does not take it: update the driver",
    ),
    trouble(805, "CUDA's multi-process service cannot be reached"),
    trouble(807, "CUDA's multi-process service is not ready"),
    trouble(808, "CUDA's multi-process service has as many clients as it takes"),
    trouble(809, "CUDA's multi-process service has as many connections as it takes"),
    fault(810, "CUDA's multi-process service ended this process's work"),
    trouble(999, "the driver does not say why (dmesg may)"),
];

fn meaning(code: u32) -> Option<&'static Meaning> {
    MEANINGS.iter().find(|meaning| meaning.code == code)
}

/// A failed call in one sentence: what it means where that is known, then the driver's words.
fn told(call: &str, name: &str, code: u32) -> String {
    match meaning(code) {
        Some(Meaning { text, .. }) => format!("{text} ({call}: {name}, {code})"),
        None => format!("{call}: {name} ({code})"),
    }
}

/// For `drop`, which cannot fail: what was not given back is told, but not where the device is lost and everything fails.
pub(super) fn check_drop(call: &'static str, result: CUresult) {
    match check(call, result) {
        Ok(()) => {}
        Err(error) if error.is_fault() => tracing::debug!(%error, "not given back"),
        Err(error) => tracing::warn!(%error, "not given back"),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn call(code: u32) -> DriverError {
        DriverError::Call { call: "cuInit", name: format!("CUDA_ERROR_{code}"), code }
    }

    #[test]
    fn every_bad_day_is_one_sentence() {
        let too_old = DriverError::DriverTooOld { found: 12080, needed: 13000 };
        let hint = " (does CUDA_VISIBLE_DEVICES name one?)";
        let full = DriverError::OutOfMemory { wanted: Bytes::gib(16), free: Bytes::mib(512) };
        for (error, sentence) in [
            (DriverError::NoDriver, "no NVIDIA driver: libcuda.so.1 is not on this machine"),
            (
                too_old,
                "the NVIDIA driver speaks CUDA 12.8, and the kernels of this build need 13.0: update it to release 580 or newer",
            ),
            (
                DriverError::NoDevice { hint },
                "no NVIDIA GPU is visible (does CUDA_VISIBLE_DEVICES name one?)",
            ),
            (full, "out of GPU memory: 16.0 GiB wanted, 512.0 MiB free"),
            (
                call(46),
                "the GPU is not to be had: another process has it to itself, or its compute mode forbids all \
                 (nvidia-smi -q -d COMPUTE) (cuInit: CUDA_ERROR_46, 46)",
            ),
            (
                call(803),
                "the driver's library and its kernel module are of different versions: restart the machine after an update \
                 (cuInit: CUDA_ERROR_803, 803)",
            ),
            (
                call(700),
                "a kernel touched memory that is not its own (cuInit: CUDA_ERROR_700, 700)",
            ),
            (call(1), "cuInit: CUDA_ERROR_1 (1)"),
        ] {
            assert_eq!(error.to_string(), sentence);
        }
    }

    #[test]
    fn every_meaning_is_there_once_and_short() {
        for (index, Meaning { code, text, .. }) in MEANINGS.iter().enumerate() {
            assert!(MEANINGS[..index].iter().all(|other| other.code != *code), "{code} twice");
            assert!(!text.ends_with('.') && text.len() < 130, "{text}");
        }
    }

    #[test]
    fn a_device_is_lost_by_what_a_kernel_did_and_not_by_a_call_that_was_refused() {
        assert!([214, 700, 702, 710, 716, 719].into_iter().all(|code| call(code).is_fault()));
        // Out of memory, in use, an odd launch, registered twice.
        assert!(![1, 2, 46, 216, 218, 701, 712, 720].into_iter().any(|code| call(code).is_fault()));
        assert!(!DriverError::NoDevice { hint: "" }.is_fault());
    }
}
