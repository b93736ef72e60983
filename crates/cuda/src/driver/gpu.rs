//! A device, its context, and the kernels loaded into it.

use std::{
    collections::HashMap,
    ptr,
    sync::{Arc, Mutex, PoisonError},
};

use cudarc::driver::sys::{self, CUcontext, CUdevice, CUmodule, CUresult};
use foundation::Bytes;

use super::{
    error::{DriverError, check, check_drop},
    image::{Image, Kernel},
    limits::DeviceLimits,
};

/// The CUDA version whose compiler makes the kernels; a driver must speak its major version.
const NEEDED_VERSION: i32 = 13000;

/// A device that can be used: its primary context is held until the last owner drops it.
#[derive(Debug)]
pub struct Gpu {
    ordinal: usize,
    device: CUdevice,
    context: CUcontext,
    limits: DeviceLimits,
    modules: Mutex<HashMap<&'static str, Module>>,
}

#[derive(Clone, Copy, Debug)]
struct Module(CUmodule);

// SAFETY: contexts and modules are handles that the driver allows every thread to use.
unsafe impl Send for Gpu {}
// SAFETY: as above; our own table of modules is behind a lock.
unsafe impl Sync for Gpu {}
// SAFETY: a handle that the driver allows every thread to use.
unsafe impl Send for Module {}

/// The CUDA version that the driver speaks, as `1000 * major + 10 * minor`.
pub fn driver_version() -> Result<i32, DriverError> {
    // SAFETY: opens and closes a library; nothing of it is called.
    if !unsafe { sys::is_culib_present() } {
        return Err(DriverError::NoDriver);
    }
    let mut version = 0;
    // SAFETY: `version` is a valid place for the answer.
    check("cuDriverGetVersion", unsafe { sys::cuDriverGetVersion(&mut version) })?;
    Ok(version)
}

impl Gpu {
    /// The limits of every visible device, in the driver's order; an error that says why there is none to use.
    pub fn list() -> Result<Vec<DeviceLimits>, DriverError> {
        initialise()?;
        (0..count()?).map(|ordinal| DeviceLimits::of(device(ordinal)?)).collect()
    }

    /// Opens a device: driver, version, kernels and device are checked, in this order.
    pub fn open(ordinal: usize) -> Result<Arc<Gpu>, DriverError> {
        initialise()?;
        if crate::built_architectures().is_empty() {
            return Err(DriverError::NoKernels);
        }
        if ordinal >= count()? {
            return Err(DriverError::Invalid(format!(
                "GPU {ordinal} was asked for, {} visible",
                count()?
            )));
        }
        let device = device(ordinal)?;
        let limits = DeviceLimits::of(device)?;
        if !crate::built_architectures().iter().any(|built| runs_on(built, limits.arch)) {
            return Err(no_kernels_for(&limits));
        }
        let mut context = ptr::null_mut();
        // SAFETY: `context` is a valid place for the handle.
        let result = unsafe { sys::cuDevicePrimaryCtxRetain(&mut context, device) };
        check("cuDevicePrimaryCtxRetain", result)?;
        let gpu = Arc::new(Gpu { ordinal, device, context, limits, modules: Mutex::default() });
        gpu.bind()?;
        Ok(gpu)
    }

    /// Place in the driver's list.
    pub fn ordinal(&self) -> usize {
        self.ordinal
    }

    /// What the device can do.
    pub fn limits(&self) -> &DeviceLimits {
        &self.limits
    }

    /// Makes the context current on this thread, which every call of this layer needs. Cheap.
    pub fn bind(&self) -> Result<(), DriverError> {
        // SAFETY: the context is retained while `self` lives.
        check("cuCtxSetCurrent", unsafe { sys::cuCtxSetCurrent(self.context) })
    }

    /// Free and total memory of the device, all processes counted.
    pub fn memory(&self) -> Result<(Bytes, Bytes), DriverError> {
        self.bind()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: both are valid places for the answer.
        check("cuMemGetInfo", unsafe { sys::cuMemGetInfo_v2(&mut free, &mut total) })?;
        Ok((Bytes(free as u64), Bytes(total as u64)))
    }

    /// The kernel `entry` of `image`, which is loaded when its first kernel is asked for.
    pub fn kernel(&self, image: &Image, entry: &'static str) -> Result<Kernel, DriverError> {
        self.bind()?;
        Kernel::of(self.module(image)?, entry, &self.limits)
    }

    fn module(&self, image: &Image) -> Result<CUmodule, DriverError> {
        let mut modules = self.modules.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(module) = modules.get(image.name) {
            return Ok(module.0);
        }
        let mut module = ptr::null_mut();
        // SAFETY: the image is a whole fatbin in static memory, as nvcc wrote it.
        let result = unsafe { sys::cuModuleLoadData(&mut module, image.bytes.as_ptr().cast()) };
        if result == CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU {
            return Err(no_kernels_for(&self.limits));
        }
        check("cuModuleLoadData", result)?;
        modules.insert(image.name, Module(module));
        Ok(module)
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        let modules =
            std::mem::take(self.modules.get_mut().unwrap_or_else(PoisonError::into_inner));
        for module in modules.into_values() {
            // SAFETY: no kernel of it can be launched any more: they need a stream, which holds the Gpu.
            let _ = unsafe { sys::cuModuleUnload(module.0) };
        }
        // SAFETY: retained once, in `open`.
        check_drop("cuDevicePrimaryCtxRelease", unsafe {
            sys::cuDevicePrimaryCtxRelease_v2(self.device)
        });
    }
}

/// Whether machine code for `built`, as nvcc writes it, runs on a device of compute capability `arch`: on later ones of the same
/// major version, unless it is for that one alone.
fn runs_on(built: &str, arch: u32) -> bool {
    let digits = built.trim_end_matches(char::is_alphabetic);
    let is_exact = built.ends_with('a');
    digits.parse::<u32>().is_ok_and(|made_for| match is_exact {
        true => arch == made_for,
        false => arch / 10 == made_for / 10 && arch >= made_for,
    })
}

fn no_kernels_for(limits: &DeviceLimits) -> DriverError {
    DriverError::NoKernelsForDevice {
        device: limits.name.clone(),
        arch: limits.arch,
        built: crate::built_architectures().join(", "),
    }
}

fn initialise() -> Result<(), DriverError> {
    let found = driver_version()?;
    if found < NEEDED_VERSION {
        return Err(DriverError::DriverTooOld { found, needed: NEEDED_VERSION });
    }
    // SAFETY: the library is there.
    check("cuInit", unsafe { sys::cuInit(0) }).map_err(with_hint)
}

fn with_hint(error: DriverError) -> DriverError {
    match error {
        DriverError::NoDevice { .. } => {
            DriverError::NoDevice { hint: " (does CUDA_VISIBLE_DEVICES name one?)" }
        }
        error => error,
    }
}

fn count() -> Result<usize, DriverError> {
    let mut count = 0;
    // SAFETY: `count` is a valid place for the answer.
    check("cuDeviceGetCount", unsafe { sys::cuDeviceGetCount(&mut count) })?;
    match usize::try_from(count) {
        Ok(count) if count > 0 => Ok(count),
        _ => Err(with_hint(DriverError::NoDevice { hint: "" })),
    }
}

fn device(ordinal: usize) -> Result<CUdevice, DriverError> {
    let mut device = 0;
    // SAFETY: `device` is a valid place for the handle.
    check("cuDeviceGet", unsafe { sys::cuDeviceGet(&mut device, ordinal as i32) })?;
    Ok(device)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_code_runs_on_its_own_device_and_on_later_ones_of_its_kind() {
        let built = ["80", "89", "90a", "100a", "120a"];
        let runs = |arch| built.into_iter().filter(|made_for| runs_on(made_for, arch)).count();
        for (arch, ways) in
            [(75, 0), (80, 1), (86, 1), (89, 2), (90, 1), (100, 1), (103, 0), (120, 1), (121, 0)]
        {
            assert_eq!(runs(arch), ways, "{arch}");
        }
        assert!(runs_on("100f", 103) && !runs_on("100f", 110) && !runs_on("", 90));
        let limits =
            DeviceLimits { name: "NVIDIA B300".to_owned(), arch: 103, ..DeviceLimits::h200() };
        let told = no_kernels_for(&limits).to_string();
        assert!(
            told.starts_with(
                "no kernels for NVIDIA B300 (compute capability 10.3): this build has "
            ),
            "{told}"
        );
    }
}
