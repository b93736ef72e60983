//! The engine thread: steps while there is work, sleeps while there is none, and never ends without having answered.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, PoisonError},
    thread::JoinHandle,
};

use super::{
    Clock, EngineOptions, EngineRequest, Health, MetricsSnapshot, Refusal, SystemClock, Ticket,
    core::{EngineCore, Progress},
    inbox::{EngineSide, Shared, Submitter},
    workers::Threads,
};
use crate::backend::{RunnerSpec, StepRunner};

/// A running engine. Dropping it ends every request as cancelled and joins the thread.
pub struct Engine {
    submitter: Submitter,
    spec: RunnerSpec,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Engine {
    /// Starts the one thread that owns `runner`.
    pub fn start(runner: Box<dyn StepRunner>, options: EngineOptions) -> Engine {
        Engine::start_with_clock(runner, options, Arc::new(SystemClock::default()))
    }

    /// As [`Engine::start`], with a clock of the caller's.
    ///
    /// # Panics
    /// When the operating system gives no thread.
    pub fn start_with_clock(
        runner: Box<dyn StepRunner>,
        options: EngineOptions,
        clock: Arc<dyn Clock>,
    ) -> Engine {
        let spec = runner.spec().clone();
        let (submitter, side) = Submitter::new(&spec, &options, clock);
        let thread = std::thread::Builder::new()
            .name("engine".into())
            .spawn(move || run(runner, &options, side))
            .expect("the operating system gives a thread at start");
        Engine { submitter, spec, thread: Mutex::new(Some(thread)) }
    }

    /// A ticket for the request, or the reason why there is none. Never blocks.
    pub fn submit(&self, request: EngineRequest) -> Result<Ticket, Refusal> {
        self.submitter.submit(request)
    }

    /// As [`Submitter::submit_all`].
    pub fn submit_all(&self, requests: Vec<EngineRequest>) -> Result<Vec<Ticket>, Refusal> {
        self.submitter.submit_all(requests)
    }

    /// What the runner is.
    pub fn spec(&self) -> &RunnerSpec {
        &self.spec
    }

    /// The longest sequence that can be served, prompt and output together, in tokens.
    pub fn max_sequence_tokens(&self) -> usize {
        self.submitter.max_sequence_tokens()
    }

    /// The engine's numbers, without stopping it.
    pub fn metrics(&self) -> MetricsSnapshot {
        self.submitter.metrics()
    }

    /// Whether the engine can serve, without stopping it.
    pub fn health(&self) -> Health {
        self.submitter.health()
    }

    /// Takes nothing new from now on; what was accepted is finished. Returns at once.
    pub fn drain(&self) {
        self.submitter.drain();
    }

    /// Ends every request as cancelled, at the next step boundary. Returns at once.
    pub fn cancel_all(&self) {
        self.submitter.cancel_all();
    }

    /// Ends every request as cancelled and waits until the thread has ended and the runner is dropped.
    pub fn shutdown(&self) {
        self.submitter.stop();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        // A panic of the thread was caught and recorded inside it.
        let _ = thread.map(JoinHandle::join);
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.shutdown();
    }
}

/// The thread's life. Jobs left in the inbox, and sequences left in the core, are answered by their responders' Drop.
fn run(runner: Box<dyn StepRunner>, options: &EngineOptions, side: EngineSide) {
    let shared = Arc::clone(&side.shared);
    let mut core =
        EngineCore::new(runner, options, side).with_workers(Box::new(Threads::default()));
    let outcome = catch_unwind(AssertUnwindSafe(|| serve(&mut core, &shared)));
    if let Err(panic) = outcome {
        let reason = format!("the engine thread panicked: {}", panic_text(&*panic));
        tracing::error!(reason);
        shared.fail(reason);
        // The core may be in the middle of anything; its parts still answer and free what they hold.
        let dropped = catch_unwind(AssertUnwindSafe(move || drop(core)));
        if dropped.is_err() {
            tracing::error!("dropping the engine core panicked as well");
        }
    }
    shared.idle();
}

fn serve(core: &mut EngineCore, shared: &Shared) {
    loop {
        match core.step() {
            Progress::Worked => continue,
            Progress::Waits(at_most) => {
                core.wait_for_news(at_most);
                continue;
            }
            Progress::Idle => {}
        }
        if shared.stopping() || shared.fault().is_some() {
            return;
        }
        // Idle. The engine's own submitter holds a sender, and tells the thread to stop before it goes.
        if !core.wait_for_command() {
            return;
        }
    }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}
