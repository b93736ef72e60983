//! Device memory: buffers that own it, typed views that lend it.

use std::{marker::PhantomData, ops::Range, sync::Arc};

use bytemuck::Pod;
use cudarc::driver::sys::{self, CUresult};
use foundation::Bytes;

use super::{
    error::{DriverError, check, check_drop},
    gpu::Gpu,
};

/// Memory of a device, aligned to 256 bytes, freed when dropped.
#[derive(Debug)]
pub struct Buffer<T> {
    gpu: Arc<Gpu>,
    address: u64,
    len: usize,
    element: PhantomData<T>,
}

// SAFETY: an address on the device; nothing on the host is pointed to.
unsafe impl<T: Send> Send for Buffer<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Buffer<T> {}

impl Gpu {
    /// A buffer of `len` elements, uninitialised on the device (which no host code can see before it is written).
    pub fn alloc<T: Pod>(self: &Arc<Gpu>, len: usize) -> Result<Buffer<T>, DriverError> {
        self.bind()?;
        let bytes = len.checked_mul(size_of::<T>()).ok_or_else(|| {
            DriverError::Invalid(format!("{len} elements of {} bytes overflow", size_of::<T>()))
        })?;
        let mut address = 0;
        // SAFETY: `address` is a valid place; the driver refuses zero bytes, so at least one is asked for.
        let result = unsafe { sys::cuMemAlloc_v2(&mut address, bytes.max(1)) };
        if result == CUresult::CUDA_ERROR_OUT_OF_MEMORY {
            let free = self.memory().map_or(Bytes(0), |(free, _)| free);
            return Err(DriverError::OutOfMemory { wanted: Bytes(bytes as u64), free });
        }
        check("cuMemAlloc", result)?;
        Ok(Buffer { gpu: Arc::clone(self), address, len, element: PhantomData })
    }
}

impl<T: Pod> Buffer<T> {
    /// Elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Address on the device.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// All of it, to read.
    pub fn view(&self) -> View<'_, T> {
        View { address: self.address, len: self.len, lent: PhantomData }
    }

    /// All of it, to write.
    pub fn view_mut(&mut self) -> ViewMut<'_, T> {
        ViewMut { address: self.address, len: self.len, lent: PhantomData }
    }
}

impl<T> Drop for Buffer<T> {
    fn drop(&mut self) {
        let _ = self.gpu.bind();
        // SAFETY: allocated once, freed once; the driver waits for work that uses it.
        check_drop("cuMemFree", unsafe { sys::cuMemFree_v2(self.address) });
    }
}

/// Elements on the device that may be read while `'a` lasts.
#[derive(Debug)]
pub struct View<'a, T> {
    address: u64,
    len: usize,
    lent: PhantomData<&'a [T]>,
}

impl<T> Clone for View<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for View<'_, T> {}

impl<'a, T: Pod> View<'a, T> {
    /// Address on the device.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The elements of `range`. Panics where it reaches beyond the view.
    pub fn slice(self, range: Range<usize>) -> View<'a, T> {
        let (address, len) = cut(self.address, self.len, size_of::<T>(), range);
        View { address, len, lent: PhantomData }
    }

    /// The same bytes as elements of another type. Panics where they do not divide, or are not aligned.
    pub fn cast<U: Pod>(self) -> View<'a, U> {
        let len = cast_length::<T, U>(self.address, self.len);
        View { address: self.address, len, lent: PhantomData }
    }
}

/// Elements on the device that may be written while `'a` lasts.
#[derive(Debug)]
pub struct ViewMut<'a, T> {
    address: u64,
    len: usize,
    lent: PhantomData<&'a mut [T]>,
}

impl<'a, T: Pod> ViewMut<'a, T> {
    /// Address on the device.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The elements of `range`. Panics where it reaches beyond the view.
    pub fn slice(self, range: Range<usize>) -> ViewMut<'a, T> {
        let (address, len) = cut(self.address, self.len, size_of::<T>(), range);
        ViewMut { address, len, lent: PhantomData }
    }

    /// Lends it for a shorter time.
    pub fn reborrow(&mut self) -> ViewMut<'_, T> {
        ViewMut { address: self.address, len: self.len, lent: PhantomData }
    }

    /// The same elements, to read.
    pub fn as_view(&self) -> View<'_, T> {
        View { address: self.address, len: self.len, lent: PhantomData }
    }

    /// The same bytes as elements of another type. Panics where they do not divide, or are not aligned.
    pub fn cast<U: Pod>(self) -> ViewMut<'a, U> {
        let len = cast_length::<T, U>(self.address, self.len);
        ViewMut { address: self.address, len, lent: PhantomData }
    }
}

fn cut(address: u64, len: usize, element: usize, range: Range<usize>) -> (u64, usize) {
    assert!(range.start <= range.end && range.end <= len, "{range:?} of {len} elements");
    (address + (range.start * element) as u64, range.len())
}

fn cast_length<T, U>(address: u64, len: usize) -> usize {
    let bytes = len * size_of::<T>();
    assert!(bytes.is_multiple_of(size_of::<U>()), "{bytes} bytes are no whole elements");
    assert!(address.is_multiple_of(align_of::<U>() as u64), "address {address:#x} is not aligned");
    bytes / size_of::<U>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(address: u64, len: usize) -> View<'static, u32> {
        View { address, len, lent: PhantomData }
    }

    #[test]
    fn slices_and_casts_keep_count_of_bytes() {
        let part = view(256, 16).slice(4..10);
        assert_eq!((part.address(), part.len()), (272, 6));
        let halves = part.cast::<u16>();
        assert_eq!((halves.address(), halves.len()), (272, 12));
        assert!(view(256, 16).slice(16..16).is_empty());
    }

    #[test]
    #[should_panic(expected = "of 16 elements")]
    fn a_slice_stays_inside() {
        view(256, 16).slice(4..17);
    }

    #[test]
    #[should_panic(expected = "not aligned")]
    fn a_cast_needs_alignment() {
        view(260, 16).cast::<u64>();
    }
}
