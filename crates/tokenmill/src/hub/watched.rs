//! Work on a thread of its own, watched by its caller: whatever the work waits for (a hub, a lock, a pause), the caller
//! is asked at short intervals whether to go on.

use std::{
    panic,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    },
    thread,
    time::Duration,
};

use super::{Error, PullEvent, Pulled};

/// Longest time between two calls of a pull's progress callback.
pub const TICK: Duration = Duration::from_millis(200);

/// How the work tells its caller what happens.
pub(super) struct Teller {
    events: SyncSender<PullEvent>,
    answers: Receiver<bool>,
    cancelled: Arc<AtomicBool>,
}

impl Teller {
    /// Tells, and waits for the word to go on.
    ///
    /// # Errors
    /// [`Error::Cancelled`].
    pub fn tell(&self, event: PullEvent) -> Result<(), Error> {
        let told = self.events.send(event).is_ok();
        if told && self.answers.recv() == Ok(true) { Ok(()) } else { Err(Error::Cancelled) }
    }

    /// Before every change on disk: the caller may have gone while the work waited.
    ///
    /// # Errors
    /// [`Error::Cancelled`].
    pub fn check(&self) -> Result<(), Error> {
        if self.cancelled.load(Ordering::SeqCst) { Err(Error::Cancelled) } else { Ok(()) }
    }
}

/// Does `work`, and hands what it tells to `progress`, between two calls of which no more than [`TICK`] passes. Once
/// `progress` returns `false` nobody waits for the work any more.
pub(super) fn run(
    progress: &mut dyn FnMut(PullEvent) -> bool,
    work: impl FnOnce(Teller) -> Result<Pulled, Error> + Send + 'static,
) -> Result<Pulled, Error> {
    let (events, inbox) = sync_channel(0);
    // One place: the answer must not wait for work that is about to end.
    let (answer, answers) = sync_channel(1);
    let cancelled = Arc::new(AtomicBool::new(false));
    let teller = Teller { events, answers, cancelled: Arc::clone(&cancelled) };
    let worker = thread::spawn(move || work(teller));
    loop {
        let (event, is_asked) = match inbox.recv_timeout(TICK) {
            Ok(event) => (event, true),
            Err(RecvTimeoutError::Timeout) => (PullEvent::Tick, false),
            Err(RecvTimeoutError::Disconnected) => break,
        };
        let goes_on = progress(event);
        cancelled.store(!goes_on, Ordering::SeqCst);
        if is_asked {
            // Work that has gone meanwhile is met at the next turn.
            let _ = answer.send(goes_on);
        }
        if !goes_on {
            return Err(Error::Cancelled);
        }
    }
    worker.join().unwrap_or_else(|panic| panic::resume_unwind(panic))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_waits_forever_is_left_behind_when_its_caller_wants_to_go() {
        let (_never, forever) = std::sync::mpsc::channel::<()>();
        let mut ticks = 0;
        let ended = run(
            &mut |event| {
                assert_eq!(event, PullEvent::Tick);
                ticks += 1;
                ticks < 2
            },
            move |teller| {
                let _ = forever.recv();
                teller.check().map(|()| unreachable!("nobody sends"))
            },
        );
        assert!(matches!(ended, Err(Error::Cancelled)), "{ended:?}");
        assert_eq!(ticks, 2);
    }
}
