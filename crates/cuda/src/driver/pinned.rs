//! Host memory that the device reads and writes by itself.

use std::{ptr, slice, sync::Arc};

use cudarc::driver::sys;

use super::{
    error::{DriverError, check, check_drop},
    gpu::Gpu,
};

/// Page-locked host memory that only copies of the device touch. Slow to allocate (half a second a GiB): made once, used again
/// and again.
#[derive(Debug)]
pub struct PinnedRoom {
    gpu: Arc<Gpu>,
    address: *mut u8,
    len: usize,
}

/// Page-locked host memory that the host reads and writes as well.
#[derive(Debug)]
pub struct Pinned(PinnedRoom);

// SAFETY: plain memory with one owner.
unsafe impl Send for PinnedRoom {}
// SAFETY: shared references do not touch it.
unsafe impl Sync for PinnedRoom {}

impl PinnedRoom {
    /// `len` bytes of any value.
    pub fn new(gpu: &Arc<Gpu>, len: usize) -> Result<PinnedRoom, DriverError> {
        gpu.bind()?;
        let mut address = ptr::null_mut();
        // SAFETY: `address` is a valid place; at least one byte is asked for.
        let result =
            unsafe { sys::cuMemHostAlloc(&mut address, len.max(1), sys::CU_MEMHOSTALLOC_PORTABLE) };
        check("cuMemHostAlloc", result)?;
        Ok(PinnedRoom { gpu: Arc::clone(gpu), address: address.cast(), len })
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

impl Pinned {
    /// `len` zero bytes.
    pub fn new(gpu: &Arc<Gpu>, len: usize) -> Result<Pinned, DriverError> {
        let room = PinnedRoom::new(gpu, len)?;
        // SAFETY: the driver gave at least `len` bytes.
        unsafe { room.address.write_bytes(0, len) };
        Ok(Pinned(room))
    }

    /// The bytes. No copy to or from them may be under way.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: `len` bytes, initialised above, that live as long as `self`.
        unsafe { slice::from_raw_parts(self.0.address, self.0.len) }
    }

    /// The bytes, to write. No copy to or from them may be under way.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and borrowed alone.
        unsafe { slice::from_raw_parts_mut(self.0.address, self.0.len) }
    }

    pub(super) fn address(&self) -> *mut u8 {
        self.0.address()
    }

    pub(super) fn check(&self, offset: usize, bytes: usize) -> Result<(), DriverError> {
        self.0.check(offset, bytes)
    }
}

impl Drop for PinnedRoom {
    fn drop(&mut self) {
        let _ = self.gpu.bind();
        // SAFETY: allocated once, freed once.
        check_drop("cuMemFreeHost", unsafe { sys::cuMemFreeHost(self.address.cast()) });
    }
}
