//! Host memory that the device reads and writes by itself.

use std::{
    alloc::{self, Layout},
    ptr, slice,
    sync::Arc,
};

use cudarc::driver::sys;

use super::{
    error::{DriverError, check},
    gpu::Gpu,
};

/// Page-locked host memory. Slow to allocate (half a second a GiB): made once, used again and again.
#[derive(Debug)]
pub struct Pinned {
    gpu: Arc<Gpu>,
    address: *mut u8,
    len: usize,
    owner: Owner,
}

/// Whose memory it is.
#[derive(Clone, Copy, Debug)]
enum Owner {
    /// The driver's.
    Driver,
    /// The host's, registered with the driver.
    Host(Layout),
}

/// What memory of the host is aligned to before it is registered: a large page, so that few pages are locked.
const PAGE: usize = 2 << 20;

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
        Ok(Pinned { gpu: Arc::clone(gpu), address, len, owner: Owner::Driver })
    }

    /// The same from memory of the host, which is locked after it was touched: several times faster, where much is needed
    /// for a short time.
    pub fn registered(gpu: &Arc<Gpu>, len: usize) -> Result<Pinned, DriverError> {
        gpu.bind()?;
        let layout = Layout::from_size_align(len.max(1).next_multiple_of(PAGE), PAGE)
            .map_err(|_| DriverError::Invalid(format!("{len} bytes of pinned memory")))?;
        // SAFETY: the layout has a size.
        let address = unsafe { alloc::alloc_zeroed(layout) };
        if address.is_null() {
            alloc::handle_alloc_error(layout);
        }
        let flags = sys::CU_MEMHOSTREGISTER_PORTABLE;
        // SAFETY: the whole allocation, which nobody else knows yet.
        let result = unsafe { sys::cuMemHostRegister_v2(address.cast(), layout.size(), flags) };
        if let Err(error) = check("cuMemHostRegister", result) {
            // SAFETY: allocated above with this layout, and given to nobody.
            unsafe { alloc::dealloc(address, layout) };
            return Err(error);
        }
        Ok(Pinned { gpu: Arc::clone(gpu), address, len, owner: Owner::Host(layout) })
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
        let address = self.address.cast();
        let freed = match self.owner {
            // SAFETY: allocated once, freed once.
            Owner::Driver => ("cuMemFreeHost", unsafe { sys::cuMemFreeHost(address) }),
            // SAFETY: registered once, unregistered once.
            Owner::Host(_) => ("cuMemHostUnregister", unsafe { sys::cuMemHostUnregister(address) }),
        };
        let freed = check(freed.0, freed.1);
        match (freed, self.owner) {
            // SAFETY: allocated with this layout; the driver has let go of it.
            (Ok(()), Owner::Host(layout)) => unsafe { alloc::dealloc(self.address, layout) },
            (Ok(()), Owner::Driver) => {}
            // Memory that the device may still write is better lost than used again.
            (Err(error), _) => tracing::warn!(%error, "pinned memory was not freed"),
        }
    }
}
