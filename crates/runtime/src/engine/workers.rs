//! Where work is done that must not hold up the engine thread.

use std::{
    num::NonZero,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{Receiver, Sender, channel},
    },
    thread,
};

/// Work for another thread.
pub type Work = Box<dyn FnOnce() + Send>;

/// Takes work off the engine thread.
pub trait Workers: Send {
    /// Has the work done, in any order. Does not wait for it.
    fn start(&mut self, work: Work);
}

/// Everything at once, on the thread that asks: for a core that is driven by hand.
#[derive(Clone, Copy, Debug, Default)]
pub struct AtOnce;

impl Workers for AtOnce {
    fn start(&mut self, work: Work) {
        work();
    }
}

/// Most threads of [`Threads`]; a small machine has one for two cores, the others belong to a backend's own threads.
const MOST_THREADS: usize = 4;

/// A few threads, which begin when the first work comes. They end by themselves once this is dropped: nobody waits for work
/// whose outcome nobody wants any more.
#[derive(Debug, Default)]
pub(super) struct Threads {
    queue: Option<Sender<Work>>,
}

impl Workers for Threads {
    fn start(&mut self, work: Work) {
        let queue = self.queue.get_or_insert_with(begin);
        // Where the system gave no thread at all, late is better than never.
        if let Err(returned) = queue.send(work) {
            (returned.0)();
        }
    }
}

fn begin() -> Sender<Work> {
    let (queue, work) = channel();
    let work = Arc::new(Mutex::new(work));
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    for _ in 0..(cores / 2).clamp(1, MOST_THREADS) {
        let work = Arc::clone(&work);
        let thread = thread::Builder::new().name("masks".into());
        if let Err(error) = thread.spawn(move || serve(&work)) {
            tracing::warn!(%error, "fewer threads for masks than wanted");
        }
    }
    queue
}

/// Does what comes until nobody can send any more.
fn serve(queue: &Mutex<Receiver<Work>>) {
    loop {
        // One waits with the lock, the others for the lock.
        let work = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(work) = work else { return };
        if catch_unwind(AssertUnwindSafe(work)).is_err() {
            tracing::error!("work beside the engine panicked");
        }
    }
}
