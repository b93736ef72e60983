//! Ctrl-C: the first stops the work at hand. When it is not heeded, the next ends the program; work that is told to
//! stop (an answer under way) is given one more.

use std::{
    process,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    thread,
};

use tokio::signal::unix::SignalKind;

use crate::error::{Error, Exit};

/// What an interrupt does while some work is under way.
type Action = Box<dyn Fn() + Send>;

/// Interrupts as work in progress sees them.
#[derive(Clone, Default)]
pub struct Interrupts {
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    /// Interrupts since the last was heeded.
    pending: AtomicU32,
    action: Mutex<Option<Action>>,
}

impl Interrupts {
    /// Begins to listen, for the life of the program.
    pub fn listen() -> Result<Self, Error> {
        let interrupts = Interrupts::default();
        interrupts.attend(SignalKind::interrupt())?;
        Ok(interrupts)
    }

    /// Takes SIGTERM for an interrupt, too: for work that must not leave halves behind.
    pub fn and_termination(self) -> Result<Self, Error> {
        self.attend(SignalKind::terminate())?;
        Ok(self)
    }

    fn attend(&self, kind: SignalKind) -> Result<(), Error> {
        let state = Arc::clone(&self.state);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|source| Error::io("starting the signal listener", source))?;
        // Registered here, not in the thread: an interrupt that comes right after must find the handler.
        let mut signals = {
            let _inside = runtime.enter();
            tokio::signal::unix::signal(kind)
                .map_err(|source| Error::io("listening for interrupts", source))?
        };
        let listen = move || {
            runtime.block_on(async {
                while signals.recv().await.is_some() {
                    state.raise();
                }
            });
        };
        thread::Builder::new()
            .name("interrupts".into())
            .spawn(listen)
            .map_err(|source| Error::io("starting the signal listener", source))?;
        Ok(())
    }

    /// Runs `action` on an interrupt until the guard is dropped.
    #[must_use = "the action is forgotten when the guard is dropped"]
    pub fn during(&self, action: impl Fn() + Send + 'static) -> Guard<'_> {
        *self.state.action() = Some(Box::new(action));
        Guard { state: &self.state }
    }

    /// Whether an interrupt came since the last call; it counts as heeded.
    pub fn take(&self) -> bool {
        self.state.pending.swap(0, Ordering::SeqCst) > 0
    }
}

/// While it lives, an interrupt runs the action it was made with.
pub struct Guard<'a> {
    state: &'a State,
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        *self.state.action() = None;
    }
}

impl State {
    fn action(&self) -> MutexGuard<'_, Option<Action>> {
        self.action.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn raise(&self) {
        let unheeded = self.pending.fetch_add(1, Ordering::SeqCst);
        let action = self.action();
        let patience = if action.is_some() { 2 } else { 1 };
        if unheeded >= patience {
            process::exit(Exit::Interrupted as i32);
        }
        if let Some(action) = &*action {
            action();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    #[test]
    fn an_interrupt_runs_the_action_and_is_taken_once() {
        let interrupts = Interrupts::default();
        let hits = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&hits);
        let guard = interrupts.during(move || seen.store(true, Ordering::SeqCst));
        interrupts.state.raise();
        drop(guard);
        assert!(hits.load(Ordering::SeqCst));
        assert!(interrupts.take());
        assert!(!interrupts.take());
    }
}
