//! A backend that stands still on command, so that tests meet requests half way without watching the clock.

use std::{
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use foundation::model::ModelManifest;
use runtime::{
    backend::{Backend, LoadError, LoadOptions, MemoryPlan, RunnerSpec, StepError, StepRunner},
    batch::{StepBatch, StepId, StepOutput},
    progress::ProgressEvent,
};

/// Longest wait for a step. Tests do not depend on it: it turns a hang into a failure.
const PATIENCE: Duration = Duration::from_secs(120);

/// Holds steps back. Open until closed.
#[derive(Debug, Default)]
pub struct Gate {
    state: Mutex<State>,
    moved: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Steps that may still pass; `None`: any number.
    left: Option<u64>,
    /// A step stands before the closed gate.
    held: bool,
}

impl Gate {
    /// Lets so many more steps through, then none.
    pub fn close_after(&self, steps: u64) {
        self.set(Some(steps));
    }

    /// Lets every step through.
    pub fn open(&self) {
        self.set(None);
    }

    /// Blocks until a step stands before the closed gate: the engine has done all that came before, and hears nothing.
    ///
    /// # Panics
    /// When no step comes for so long that none ever will.
    pub fn wait_until_held(&self) {
        let waited = self.moved.wait_timeout_while(self.state(), PATIENCE, |state| !state.held);
        let timed_out = waited.unwrap_or_else(PoisonError::into_inner).1.timed_out();
        assert!(!timed_out, "no step came to the gate");
    }

    fn set(&self, left: Option<u64>) {
        *self.state() = State { left, held: false };
        self.moved.notify_all();
    }

    fn pass(&self) {
        let mut state = self.state();
        while state.left == Some(0) {
            state.held = true;
            self.moved.notify_all();
            state = self.wait(state);
        }
        state.left = state.left.map(|steps| steps - 1);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.moved.wait(state).unwrap_or_else(PoisonError::into_inner)
    }
}

/// Any backend, behind a gate.
pub struct GatedBackend {
    /// What computes.
    pub inner: Arc<dyn Backend>,
    /// What holds it back.
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
