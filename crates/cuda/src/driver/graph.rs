//! Captured launches that are replayed as one.

use std::{ptr, sync::Arc};

use cudarc::driver::sys::{self, CUgraphExec, CUstreamCaptureMode};

use super::{
    error::{DriverError, check, check_drop},
    gpu::Gpu,
    stream::Stream,
};

/// Launches and copies, captured once, replayed with one call.
#[derive(Debug)]
pub struct Graph {
    gpu: Arc<Gpu>,
    exec: CUgraphExec,
    nodes: usize,
    /// Its kernels, for the flight recorder.
    kernels: Arc<str>,
}

// SAFETY: a handle that the driver allows every thread to use, one at a time.
unsafe impl Send for Graph {}

impl Graph {
    /// Captures what `record` gives to `stream`; nothing of it runs. The capture is this thread's: others go on as they like, but
    /// for waiting for the whole device, which breaks it off, and which nothing here does. Every address in the captured
    /// launches must stay valid as long as the graph is launched: launchers take them from buffers that live beside it.
    pub fn capture<E: From<DriverError>>(
        stream: &Stream,
        record: impl FnOnce(&Stream) -> Result<(), E>,
    ) -> Result<Graph, E> {
        let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the stream lives and is not capturing: only this function begins it, and it ends it below.
        let begun = unsafe { sys::cuStreamBeginCapture_v2(stream.handle, mode) };
        check("cuStreamBeginCapture", begun)?;
        stream.recorder.borrow_mut().begin_capture();
        let recorded = record(stream);
        let kernels = stream.recorder.borrow_mut().end_capture();
        let mut graph = ptr::null_mut();
        // SAFETY: the capture begun above ends here, whatever `record` did.
        let ended = unsafe { sys::cuStreamEndCapture(stream.handle, &mut graph) };
        if let Err(error) = recorded {
            if !graph.is_null() {
                // SAFETY: just captured, and used by nobody.
                let _ = unsafe { sys::cuGraphDestroy(graph) };
            }
            return Err(error);
        }
        check("cuStreamEndCapture", ended)?;
        let (mut exec, mut nodes) = (ptr::null_mut(), 0);
        // SAFETY: `graph` was just captured; `exec` and `nodes` are valid places; the template is destroyed once.
        let instantiated = unsafe {
            sys::cuGraphGetNodes(graph, ptr::null_mut(), &mut nodes);
            let result = sys::cuGraphInstantiateWithFlags(&mut exec, graph, 0);
            sys::cuGraphDestroy(graph);
            result
        };
        check("cuGraphInstantiate", instantiated)?;
        Ok(Graph { gpu: Arc::clone(stream.gpu()), exec, nodes, kernels })
    }

    /// Launches and copies in it.
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// Replays on `stream`.
    pub fn launch(&self, stream: &Stream) -> Result<(), DriverError> {
        stream.recorder.borrow_mut().note_graph(&self.kernels);
        // SAFETY: graph and stream live; the addresses in it are the capturer's promise.
        check("cuGraphLaunch", unsafe { sys::cuGraphLaunch(self.exec, stream.handle) })
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        let _ = self.gpu.bind();
        // SAFETY: destroyed once.
        check_drop("cuGraphExecDestroy", unsafe { sys::cuGraphExecDestroy(self.exec) });
    }
}
