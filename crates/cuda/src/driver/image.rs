//! Compiled kernels: the fatbin of one source, and the entries in it.

use std::ffi::CString;

use cudarc::driver::sys::{self, CUfunction, CUfunction_attribute, CUmodule};

use super::{
    error::{DriverError, check},
    limits::DeviceLimits,
};

/// The machine code of one `.cu` file, for every GPU that the build serves.
#[derive(Debug)]
pub struct Image {
    /// The file's name without its ending; unique among the crate's kernels.
    pub name: &'static str,
    /// The fatbin; empty in a build without kernels.
    pub bytes: &'static [u8],
}

/// The image of `ops/<name>.cu`.
macro_rules! image {
    ($name:literal) => {
        $crate::driver::Image {
            name: $name,
            bytes: include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".fatbin")),
        }
    };
}
pub(crate) use image;

/// A kernel in a loaded image. Valid as long as the [`Gpu`](super::Gpu) that gave it.
#[derive(Clone, Copy, Debug)]
pub struct Kernel {
    pub(super) function: CUfunction,
    /// Its name in the image.
    pub entry: &'static str,
    /// Shared memory that a launch may ask for, in bytes.
    pub max_shared: u32,
}

// SAFETY: a handle that the driver allows every thread to use.
unsafe impl Send for Kernel {}
// SAFETY: as above.
unsafe impl Sync for Kernel {}

impl Kernel {
    pub(super) fn of(
        module: CUmodule,
        entry: &'static str,
        limits: &DeviceLimits,
    ) -> Result<Kernel, DriverError> {
        let name = CString::new(entry)
            .map_err(|_| DriverError::Invalid(format!("kernel name {entry:?} holds a NUL")))?;
        let mut function = std::ptr::null_mut();
        // SAFETY: the module is loaded, the name is NUL-terminated.
        let result = unsafe { sys::cuModuleGetFunction(&mut function, module, name.as_ptr()) };
        check("cuModuleGetFunction", result).map_err(|error| match error {
            DriverError::Call { code: 500, .. } => {
                DriverError::Invalid(format!("there is no kernel {entry}"))
            }
            error => error,
        })?;
        let mut fixed = 0;
        let attribute = CUfunction_attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES;
        // SAFETY: `fixed` is a valid place, the function was just found.
        check("cuFuncGetAttribute", unsafe {
            sys::cuFuncGetAttribute(&mut fixed, attribute, function)
        })?;
        let max_shared = limits.shared_per_block.saturating_sub(u32::try_from(fixed).unwrap_or(0));
        let attribute = CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        // SAFETY: the function was just found; the value is within the device's limit.
        check("cuFuncSetAttribute", unsafe {
            sys::cuFuncSetAttribute(function, attribute, max_shared as i32)
        })?;
        Ok(Kernel { function, entry, max_shared })
    }

    /// Blocks of `threads` threads and `shared` bytes that one multiprocessor holds at a time.
    pub fn blocks_per_sm(&self, threads: u32, shared: u32) -> Result<u32, DriverError> {
        let mut blocks = 0;
        // SAFETY: `blocks` is a valid place, the function is loaded.
        let result = unsafe {
            sys::cuOccupancyMaxActiveBlocksPerMultiprocessor(
                &mut blocks,
                self.function,
                threads as i32,
                shared as usize,
            )
        };
        check("cuOccupancyMaxActiveBlocksPerMultiprocessor", result)?;
        Ok(u32::try_from(blocks).unwrap_or(0))
    }

    /// Lets launches of this kernel form clusters of more than eight blocks.
    pub fn allow_large_clusters(&self) -> Result<(), DriverError> {
        let attribute = CUfunction_attribute::CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED;
        // SAFETY: the function is loaded.
        check("cuFuncSetAttribute", unsafe { sys::cuFuncSetAttribute(self.function, attribute, 1) })
    }
}
