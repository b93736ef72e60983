//! A backend that stands still on command, so that tests meet requests half way without watching the clock.

use std::sync::{Arc, Condvar, Mutex};

use foundation::model::ModelManifest;
use runtime::{
    backend::{Backend, LoadError, LoadOptions, MemoryPlan, RunnerSpec, StepError, StepRunner},
    batch::{StepBatch, StepId, StepOutput},
    progress::ProgressEvent,
};

/// Holds steps back. Open until closed.
#[derive(Default)]
pub struct Gate {
    /// Steps that may still pass; `None`: any number.
    left: Mutex<Option<u64>>,
    moved: Condvar,
}

impl Gate {
    /// Lets so many more steps through, then none.
    pub fn close_after(&self, steps: u64) {
        *self.left.lock().unwrap() = Some(steps);
    }

    /// Lets every step through.
    pub fn open(&self) {
        *self.left.lock().unwrap() = None;
        self.moved.notify_all();
    }

    fn pass(&self) {
        let mut left = self.left.lock().unwrap();
        loop {
            match &mut *left {
                None => return,
                Some(0) => left = self.moved.wait(left).unwrap(),
                Some(steps) => {
                    *steps -= 1;
                    return;
                }
            }
        }
    }
}

/// The CPU backend behind a gate.
pub struct GatedBackend {
    pub inner: cpu::CpuBackend,
    pub gate: Arc<Gate>,
}

impl Backend for GatedBackend {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn admit(
        &self,
        manifest: &ModelManifest,
        options: &LoadOptions,
    ) -> Result<MemoryPlan, LoadError> {
        self.inner.admit(manifest, options)
    }

    fn load(
        &self,
        manifest: &ModelManifest,
        options: &LoadOptions,
        progress: &mut dyn FnMut(ProgressEvent) -> bool,
    ) -> Result<Box<dyn StepRunner>, LoadError> {
        let inner = self.inner.load(manifest, options, progress)?;
        Ok(Box::new(GatedRunner { inner, gate: self.gate.clone() }))
    }
}

struct GatedRunner {
    inner: Box<dyn StepRunner>,
    gate: Arc<Gate>,
}

impl StepRunner for GatedRunner {
    fn spec(&self) -> &RunnerSpec {
        self.inner.spec()
    }

    fn submit(&mut self, batch: StepBatch) -> Result<StepId, StepError> {
        self.gate.pass();
        self.inner.submit(batch)
    }

    fn wait(&mut self) -> Result<StepOutput, StepError> {
        self.inner.wait()
    }
}
