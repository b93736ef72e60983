//! Events: points in a stream that can be waited for and timed.

use std::{ptr, sync::Arc};

use cudarc::driver::sys::{self, CUevent, CUevent_flags, CUresult};

use super::{
    error::{DriverError, check, check_drop},
    gpu::Gpu,
    stream::Stream,
};

/// A point in a stream.
#[derive(Debug)]
pub struct Event {
    gpu: Arc<Gpu>,
    pub(super) handle: CUevent,
}

// SAFETY: a handle that the driver allows every thread to use.
unsafe impl Send for Event {}

impl Event {
    /// An event that takes the time.
    pub fn new(gpu: &Arc<Gpu>) -> Result<Event, DriverError> {
        Event::with(gpu, CUevent_flags::CU_EVENT_DEFAULT)
    }

    /// An event that is only waited for: cheaper.
    pub fn untimed(gpu: &Arc<Gpu>) -> Result<Event, DriverError> {
        Event::with(gpu, CUevent_flags::CU_EVENT_DISABLE_TIMING)
    }

    fn with(gpu: &Arc<Gpu>, flags: CUevent_flags) -> Result<Event, DriverError> {
        gpu.bind()?;
        let mut handle = ptr::null_mut();
        // SAFETY: `handle` is a valid place for the event.
        check("cuEventCreate", unsafe { sys::cuEventCreate(&mut handle, flags as u32) })?;
        Ok(Event { gpu: Arc::clone(gpu), handle })
    }

    /// Marks this point in `stream`.
    pub fn record(&self, stream: &Stream) -> Result<(), DriverError> {
        // SAFETY: event and stream live.
        check("cuEventRecord", unsafe { sys::cuEventRecord(self.handle, stream.handle) })
    }

    /// Waits until the stream has passed the point.
    pub fn synchronize(&self) -> Result<(), DriverError> {
        // SAFETY: the event lives.
        check("cuEventSynchronize", unsafe { sys::cuEventSynchronize(self.handle) })
    }

    /// Whether the stream has passed the point.
    pub fn is_done(&self) -> Result<bool, DriverError> {
        // SAFETY: the event lives.
        match unsafe { sys::cuEventQuery(self.handle) } {
            CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            result => check("cuEventQuery", result).map(|()| true),
        }
    }

    /// Milliseconds from `earlier` to this point; both are passed.
    pub fn elapsed_ms(&self, earlier: &Event) -> Result<f32, DriverError> {
        let mut ms = 0.0;
        // SAFETY: `ms` is a valid place, both events live.
        let result = unsafe { sys::cuEventElapsedTime_v2(&mut ms, earlier.handle, self.handle) };
        check("cuEventElapsedTime", result)?;
        Ok(ms)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        let _ = self.gpu.bind();
        // SAFETY: destroyed once.
        check_drop("cuEventDestroy", unsafe { sys::cuEventDestroy_v2(self.handle) });
    }
}
