//! Host memory that the device reads and writes by itself.

use std::{ptr, slice, sync::Arc};

use cudarc::driver::sys;

use super::{
    error::{DriverError, check, check_drop},
    gpu::Gpu,
};

/// Page-locked host memory. Slow to allocate (half a second a GiB): made once, used again and again.
#[derive(Debug)]
pub struct Pinned {
    gpu: Arc<Gpu>,
    address: *mut u8,
    len: usize,
}

// SAFETY: plain memory with one owner.
unsafe impl Send for Pinned {}
// SAFETY: shared references only read it.
unsafe impl Sync for Pinned {}

impl Pinned {
    /// `len` zero bytes.
    pub fn new(gpu: &Arc<Gpu>, len: usize) -> Result<Pinned, DriverError> {
        gpu.bind()?;
        let mut address = ptr::null_mut();
        // SAFETY: `address` is a valid place; at least one byte is asked for.
        let result =
            unsafe { sys::cuMemHostAlloc(&mut address, len.max(1), sys::CU_MEMHOSTALLOC_PORTABLE) };
        check("cuMemHostAlloc", result)?;
        let address = address.cast::<u8>();
        // SAFETY: the driver gave at least `len` bytes.
        unsafe { address.write_bytes(0, len) };
        Ok(Pinned { gpu: Arc::clone(gpu), address, len })
    }

    /// The bytes. No copy to or from them may be under way.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: `len` initialised bytes that live as long as `self`.
        unsafe { slice::from_raw_parts(self.address, self.len) }
    }

    /// The bytes, to write. No copy to or from them may be under way.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and borrowed alone.
        unsafe { slice::from_raw_parts_mut(self.address, self.len) }
    }

    pub(super) fn address(&self) -> *mut u8 {
        self.address
    }

    pub(super) fn check(&self, offset: usize, bytes: usize) -> Result<(), DriverError> {
        match offset.checked_add(bytes) {
            Some(end) if end <= self.len => Ok(()),
            _ => Err(DriverError::Invalid(format!(
                "bytes {offset}..+{bytes} of {} pinned ones",
                self.len
            ))),
        }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        let _ = self.gpu.bind();
        // SAFETY: allocated once, freed once.
        check_drop("cuMemFreeHost", unsafe { sys::cuMemFreeHost(self.address.cast()) });
    }
}
