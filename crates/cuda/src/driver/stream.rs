//! A stream: launches and copies, in order.

use std::{cell::RefCell, ffi::c_void, ptr, sync::Arc};

use bytemuck::{NoUninit, Pod};
use cudarc::driver::sys::{
    self, CUDA_MEMCPY2D, CUDA_MEMCPY3D, CUlaunchAttribute, CUlaunchAttributeID,
    CUlaunchAttributeValue,
    CUlaunchAttributeValue_union__bindgen_ty_1 as CUlaunchAttributeValueCluster, CUlaunchConfig,
    CUmemorytype, CUstream, CUstream_flags,
};

use super::{
    error::{DriverError, check, check_drop},
    event::Event,
    flight::FlightRecorder,
    gpu::Gpu,
    image::Kernel,
    memory::{Buffer, View, ViewMut},
    pinned::{Pinned, PinnedRoom},
};

/// How a kernel is spread over the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Blocks.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: u32,
    /// Dynamic shared memory of a block, in bytes.
    pub shared: u32,
    /// Blocks in a cluster, along x; 1: none.
    pub cluster: u32,
    /// The kernel may start before the one before it has ended; it waits by itself (`griddepcontrol.wait`).
    pub overlap: bool,
}

/// Rows of a copy that spreads them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rows {
    /// How many.
    pub count: usize,
    /// Bytes of each.
    pub bytes: usize,
    /// Bytes from the first of one to the first of the next where they go.
    pub pitch: usize,
}

/// One row of each of several planes that lie one behind the other on the device, each of so many rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Planes {
    /// How many.
    pub count: usize,
    /// Rows of each.
    pub rows: usize,
    /// Bytes of a row.
    pub row_bytes: usize,
}

impl Planes {
    /// Bytes of one row of every plane.
    pub fn bytes(&self) -> usize {
        self.count * self.row_bytes
    }
}

impl Shape {
    /// Blocks along x, no shared memory, no cluster, overlapping.
    pub fn linear(blocks: u32, threads: u32) -> Shape {
        Shape { grid: [blocks, 1, 1], block: threads, shared: 0, cluster: 1, overlap: true }
    }
}

/// An order of launches and copies. It belongs to one thread at a time.
#[derive(Debug)]
pub struct Stream {
    pub(super) gpu: Arc<Gpu>,
    pub(super) handle: CUstream,
    pub(super) recorder: RefCell<FlightRecorder>,
}

// SAFETY: a handle that the driver allows every thread to use; the recorder moves with it.
unsafe impl Send for Stream {}

impl Stream {
    /// A new stream that waits for no other.
    pub fn new(gpu: &Arc<Gpu>) -> Result<Stream, DriverError> {
        gpu.bind()?;
        let mut handle = ptr::null_mut();
        let flags = CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: `handle` is a valid place for the stream.
        check("cuStreamCreate", unsafe { sys::cuStreamCreate(&mut handle, flags) })?;
        Ok(Stream { gpu: Arc::clone(gpu), handle, recorder: RefCell::default() })
    }

    /// The device.
    pub fn gpu(&self) -> &Arc<Gpu> {
        &self.gpu
    }

    /// What was launched last.
    pub fn recorder(&self) -> FlightRecorder {
        self.recorder.borrow().clone()
    }

    /// The driver's handle, for libraries that launch on it themselves.
    pub(crate) fn raw(&self) -> CUstream {
        self.handle
    }

    /// Waits for everything given so far.
    pub fn synchronize(&self) -> Result<(), DriverError> {
        // SAFETY: the stream lives as long as `self`.
        check("cuStreamSynchronize", unsafe { sys::cuStreamSynchronize(self.handle) })
    }

    /// Later work of this stream begins after `event`.
    pub fn wait(&self, event: &Event) -> Result<(), DriverError> {
        // SAFETY: stream and event live.
        check("cuStreamWaitEvent", unsafe { sys::cuStreamWaitEvent(self.handle, event.handle, 0) })
    }

    /// Launches `kernel`, whose only parameter is `P` by value. The context must be current on this thread.
    ///
    /// # Safety
    /// `P` is the kernel's parameter struct, and every address in it points to memory that the kernel may use as it does,
    /// until the launch has run.
    pub unsafe fn launch<P: NoUninit>(
        &self,
        kernel: &Kernel,
        shape: Shape,
        params: &P,
    ) -> Result<(), DriverError> {
        let Shape { grid, block, shared, cluster, overlap } = shape;
        // Older devices know no such attribute.
        let overlap = overlap && self.gpu.limits().is_hopper_or_later();
        if shared > kernel.max_shared {
            return Err(DriverError::Invalid(format!(
                "{} wants {shared} bytes of shared memory a block, {} allowed",
                kernel.entry, kernel.max_shared
            )));
        }
        self.recorder.borrow_mut().note(kernel.entry, grid, block, shared);
        let mut attributes = [attribute_overlap(), attribute_cluster(cluster)];
        // The list is one stretch of the array: both, either, or none.
        let range = match (overlap, cluster > 1) {
            (true, true) => 0..2,
            (true, false) => 0..1,
            (false, true) => 1..2,
            (false, false) => 0..0,
        };
        let attributes = &mut attributes[range];
        let config = CUlaunchConfig {
            gridDimX: grid[0],
            gridDimY: grid[1],
            gridDimZ: grid[2],
            blockDimX: block,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: shared,
            hStream: self.handle,
            attrs: attributes.as_mut_ptr(),
            numAttrs: attributes.len() as u32,
        };
        let mut arguments = [ptr::from_ref(params).cast_mut().cast::<c_void>()];
        // SAFETY: `config` and `arguments` outlive the call, which copies the parameters; the rest is the caller's promise.
        let result = unsafe {
            sys::cuLaunchKernelEx(&config, kernel.function, arguments.as_mut_ptr(), ptr::null_mut())
        };
        check("cuLaunchKernelEx", result)
    }

    /// Copies `from` to the device and waits.
    pub fn upload<T: Pod>(&self, from: &[T], to: ViewMut<'_, T>) -> Result<(), DriverError> {
        same_length(from.len(), to.len())?;
        if from.is_empty() {
            return Ok(());
        }
        // SAFETY: both sides hold `size_of_val(from)` bytes, and the call below waits before `from` can go.
        let result = unsafe {
            sys::cuMemcpyHtoDAsync_v2(
                to.address(),
                from.as_ptr().cast(),
                size_of_val(from),
                self.handle,
            )
        };
        check("cuMemcpyHtoDAsync", result)?;
        self.synchronize()
    }

    /// Copies `from` to the host and waits.
    pub fn download<T: Pod>(&self, from: View<'_, T>, to: &mut [T]) -> Result<(), DriverError> {
        same_length(from.len(), to.len())?;
        if to.is_empty() {
            return Ok(());
        }
        // SAFETY: both sides hold `size_of_val(to)` bytes, and the call below waits before `to` can go.
        let result = unsafe {
            sys::cuMemcpyDtoHAsync_v2(
                to.as_mut_ptr().cast(),
                from.address(),
                size_of_val(to),
                self.handle,
            )
        };
        check("cuMemcpyDtoHAsync", result)?;
        self.synchronize()
    }

    /// Everything in `from`, on the host.
    pub fn read<T: Pod>(&self, from: View<'_, T>) -> Result<Vec<T>, DriverError> {
        let mut values = vec![T::zeroed(); from.len()];
        self.download(from, &mut values)?;
        Ok(values)
    }

    /// Queues a copy of `bytes` bytes from pinned memory at `offset` to the device.
    ///
    /// # Safety
    /// The pinned bytes must not change, nor the device memory be freed, until the copy has run.
    pub unsafe fn upload_async(
        &self,
        from: &Pinned,
        offset: usize,
        bytes: usize,
        to: u64,
    ) -> Result<(), DriverError> {
        from.check(offset, bytes)?;
        // SAFETY: the range lies in the pinned memory; the rest is the caller's promise.
        let result = unsafe {
            sys::cuMemcpyHtoDAsync_v2(to, from.address().add(offset).cast(), bytes, self.handle)
        };
        check("cuMemcpyHtoDAsync", result)
    }

    /// Queues a copy of rows, dense in pinned memory from its start on, to the device, where they lie apart.
    ///
    /// # Safety
    /// The pinned bytes must not change, nor the device memory be freed, until the copy has run.
    pub unsafe fn upload_rows_async(
        &self,
        from: &Pinned,
        rows: Rows,
        to: u64,
    ) -> Result<(), DriverError> {
        let Rows { count, bytes, pitch } = rows;
        from.check(0, count.saturating_mul(bytes))?;
        if count == 0 || bytes == 0 {
            return Ok(());
        }
        let copy = CUDA_MEMCPY2D {
            srcXInBytes: 0,
            srcY: 0,
            srcMemoryType: CUmemorytype::CU_MEMORYTYPE_HOST,
            srcHost: from.address().cast(),
            srcDevice: 0,
            srcArray: ptr::null_mut(),
            srcPitch: bytes,
            dstXInBytes: 0,
            dstY: 0,
            dstMemoryType: CUmemorytype::CU_MEMORYTYPE_DEVICE,
            dstHost: ptr::null_mut(),
            dstDevice: to,
            dstArray: ptr::null_mut(),
            dstPitch: pitch,
            WidthInBytes: bytes,
            Height: count,
        };
        // SAFETY: `count` rows lie in the pinned memory; the rest is the caller's promise. The struct is read at once.
        check("cuMemcpy2DAsync", unsafe { sys::cuMemcpy2DAsync_v2(&copy, self.handle) })
    }

    /// Queues a copy of `bytes` bytes from the device to pinned memory at `offset`.
    ///
    /// # Safety
    /// The pinned bytes must not be read, nor the device memory be freed, until the copy has run.
    pub unsafe fn download_async(
        &self,
        from: u64,
        bytes: usize,
        to: &Pinned,
        offset: usize,
    ) -> Result<(), DriverError> {
        to.check(offset, bytes)?;
        // SAFETY: the range lies in the pinned memory; the rest is the caller's promise.
        let result = unsafe {
            sys::cuMemcpyDtoHAsync_v2(to.address().add(offset).cast(), from, bytes, self.handle)
        };
        check("cuMemcpyDtoHAsync", result)
    }

    /// Queues a copy of row `row` of every plane, from `from` on the device on, to pinned memory at `offset`, where they lie one
    /// after the other.
    ///
    /// # Safety
    /// The planes are device memory that is not freed until the copy has run; the pinned bytes are touched by nothing else
    /// until then.
    pub unsafe fn download_planes_async(
        &self,
        from: u64,
        planes: Planes,
        row: usize,
        to: &PinnedRoom,
        offset: usize,
    ) -> Result<(), DriverError> {
        let copy =
            planes_copy(Side::device(from, planes, row)?, Side::host(to, offset, planes)?, planes);
        // SAFETY: both sides hold the rows: the caller's promise, and checked. The struct is read at once.
        check("cuMemcpy3DAsync", unsafe { sys::cuMemcpy3DAsync_v2(&copy, self.handle) })
    }

    /// As [`Stream::download_planes_async`], the other way.
    ///
    /// # Safety
    /// As there; and nothing reads the rows until the copy has run.
    pub unsafe fn upload_planes_async(
        &self,
        from: &PinnedRoom,
        offset: usize,
        to: u64,
        planes: Planes,
        row: usize,
    ) -> Result<(), DriverError> {
        let copy =
            planes_copy(Side::host(from, offset, planes)?, Side::device(to, planes, row)?, planes);
        // SAFETY: as above.
        check("cuMemcpy3DAsync", unsafe { sys::cuMemcpy3DAsync_v2(&copy, self.handle) })
    }

    /// Queues a copy within the device.
    pub fn copy<T: Pod>(&self, from: View<'_, T>, to: ViewMut<'_, T>) -> Result<(), DriverError> {
        same_length(from.len(), to.len())?;
        let bytes = from.len() * size_of::<T>();
        // SAFETY: both views are of live device memory of that length.
        let result =
            unsafe { sys::cuMemcpyDtoDAsync_v2(to.address(), from.address(), bytes, self.handle) };
        check("cuMemcpyDtoDAsync", result)
    }

    /// Queues a copy of `len` elements within one buffer; the two ranges must not overlap.
    pub fn copy_within<T: Pod>(
        &self,
        buffer: &mut Buffer<T>,
        from: usize,
        to: usize,
        len: usize,
    ) -> Result<(), DriverError> {
        let overlap = from.abs_diff(to) < len;
        if overlap || from.max(to).checked_add(len).is_none_or(|end| end > buffer.len()) {
            let length = buffer.len();
            return Err(DriverError::Invalid(format!("{len} of {length} from {from} to {to}")));
        }
        let at = |index: usize| buffer.address() + (index * size_of::<T>()) as u64;
        // SAFETY: both ranges lie in the buffer, apart from one another: checked above.
        let result = unsafe {
            sys::cuMemcpyDtoDAsync_v2(at(to), at(from), len * size_of::<T>(), self.handle)
        };
        check("cuMemcpyDtoDAsync", result)
    }

    /// Queues filling with zero bytes.
    pub fn zero<T: Pod>(&self, view: ViewMut<'_, T>) -> Result<(), DriverError> {
        let bytes = view.len() * size_of::<T>();
        // SAFETY: the view is of live device memory of that length.
        let result = unsafe { sys::cuMemsetD8Async(view.address(), 0, bytes, self.handle) };
        check("cuMemsetD8Async", result)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let _ = self.gpu.bind();
        // SAFETY: destroyed once; the driver finishes what is queued.
        check_drop("cuStreamDestroy", unsafe { sys::cuStreamDestroy_v2(self.handle) });
    }
}

/// One side of a copy of one row of every plane.
struct Side {
    kind: CUmemorytype,
    host: *mut c_void,
    device: u64,
    row: usize,
    /// Rows from one plane's to the next.
    height: usize,
}

impl Side {
    fn device(address: u64, planes: Planes, row: usize) -> Result<Side, DriverError> {
        if row >= planes.rows {
            return Err(DriverError::Invalid(format!("row {row} of {}", planes.rows)));
        }
        let kind = CUmemorytype::CU_MEMORYTYPE_DEVICE;
        Ok(Side { kind, host: ptr::null_mut(), device: address, row, height: planes.rows })
    }

    fn host(room: &PinnedRoom, offset: usize, planes: Planes) -> Result<Side, DriverError> {
        room.check(offset, planes.bytes())?;
        // SAFETY: the range lies in the room.
        let host = unsafe { room.address().add(offset) }.cast();
        Ok(Side { kind: CUmemorytype::CU_MEMORYTYPE_HOST, host, device: 0, row: 0, height: 1 })
    }
}

fn planes_copy(from: Side, to: Side, planes: Planes) -> CUDA_MEMCPY3D {
    CUDA_MEMCPY3D {
        srcXInBytes: 0,
        srcY: from.row,
        srcZ: 0,
        srcLOD: 0,
        srcMemoryType: from.kind,
        srcHost: from.host,
        srcDevice: from.device,
        srcArray: ptr::null_mut(),
        reserved0: ptr::null_mut(),
        srcPitch: planes.row_bytes,
        srcHeight: from.height,
        dstXInBytes: 0,
        dstY: to.row,
        dstZ: 0,
        dstLOD: 0,
        dstMemoryType: to.kind,
        dstHost: to.host,
        dstDevice: to.device,
        dstArray: ptr::null_mut(),
        reserved1: ptr::null_mut(),
        dstPitch: planes.row_bytes,
        dstHeight: to.height,
        WidthInBytes: planes.row_bytes,
        Height: 1,
        Depth: planes.count,
    }
}

fn same_length(from: usize, to: usize) -> Result<(), DriverError> {
    match from == to {
        true => Ok(()),
        false => Err(DriverError::Invalid(format!("a copy of {from} elements to {to}"))),
    }
}

fn attribute_overlap() -> CUlaunchAttribute {
    let mut value = no_value();
    value.programmaticStreamSerializationAllowed = 1;
    attribute(CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, value)
}

fn attribute_cluster(blocks: u32) -> CUlaunchAttribute {
    let mut value = no_value();
    value.clusterDim = CUlaunchAttributeValueCluster { x: blocks, y: 1, z: 1 };
    attribute(CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, value)
}

fn no_value() -> CUlaunchAttributeValue {
    // SAFETY: a union of plain numbers, for which all zeros is a value.
    unsafe { std::mem::zeroed() }
}

fn attribute(id: CUlaunchAttributeID, value: CUlaunchAttributeValue) -> CUlaunchAttribute {
    CUlaunchAttribute { id, pad: [0; 4], value }
}
