//! The way into the engine thread: checks on the caller's side, one channel, counters that both sides read.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
        mpsc::{Receiver, Sender, channel},
    },
    time::Duration,
};

use foundation::RequestId;

use super::{
    Clock, EngineOptions, EngineRequest, Health, InvalidField, MetricsSnapshot, Refusal,
    admission::Limits,
    masks::MaskReply,
    metrics::Metrics,
    ticket::{Responder, Ticket},
};
use crate::{backend::RunnerSpec, sampling::constraint::Followed};

/// What callers tell the engine thread.
#[derive(Debug)]
pub(crate) enum Command {
    /// Requests that were admitted and belong together: the engine hears of all at once, and none begins alone.
    Submit(Vec<Job>),
    /// End a request at the next step boundary.
    Cancel(RequestId),
    /// End a request at the next step boundary: its text holds a stop string.
    StopText(RequestId),
    /// End every request.
    CancelAll,
    /// A constrained request knows what it may go on with, or nobody does.
    Mask(Box<MaskReply>),
    /// Wake up and look at the flags.
    Wake,
}

/// A request on its way to the scheduler.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) id: RequestId,
    pub(crate) request: EngineRequest,
    pub(crate) responder: Responder,
    /// By the engine's clock.
    pub(crate) submitted: Duration,
    /// Its place in the bounded queue.
    pub(crate) place: QueuePlace,
    /// The constraint, at the beginning of the output.
    pub(crate) constraint: Option<Followed>,
}

/// What both sides of the channel see.
pub(crate) struct Shared {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) metrics: Metrics,
    /// Requests that wait for their first step.
    queued: AtomicUsize,
    /// Requests that take part in steps.
    pub(crate) running: AtomicUsize,
    /// End of the last step, or start of work after idleness, nanoseconds of the clock; `u64::MAX`: idle.
    last_step: AtomicU64,
    draining: AtomicBool,
    stopping: AtomicBool,
    fault: Mutex<Option<String>>,
}

/// `last_step` of an idle engine.
const IDLE: u64 = u64::MAX;

impl Shared {
    /// Records that a step ended, or that work begins.
    pub(crate) fn stepped(&self) {
        self.last_step.store(self.now_nanos(), Ordering::Relaxed);
    }

    /// Records that there is nothing to do.
    pub(crate) fn idle(&self) {
        self.last_step.store(IDLE, Ordering::Relaxed);
    }

    /// The first fault stands; later ones are its consequences.
    pub(crate) fn fail(&self, reason: String) {
        let mut fault = self.fault.lock().unwrap_or_else(PoisonError::into_inner);
        fault.get_or_insert(reason);
    }

    /// What went wrong, if something did.
    pub(crate) fn fault(&self) -> Option<String> {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    pub(crate) fn draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }

    fn now_nanos(&self) -> u64 {
        u64::try_from(self.clock.now().as_nanos()).unwrap_or(IDLE - 1).min(IDLE - 1)
    }

    fn last_step_age(&self) -> Option<Duration> {
        let last = self.last_step.load(Ordering::Relaxed);
        (last != IDLE).then(|| Duration::from_nanos(self.now_nanos().saturating_sub(last)))
    }
}

/// One place in the bounded queue, given back by Drop.
pub(crate) struct QueuePlace(Arc<Shared>);

impl QueuePlace {
    /// Takes `count` places, or none where fewer than that are left of `limit`; then tells how many are taken.
    fn take(shared: &Arc<Shared>, count: usize, limit: usize) -> Result<Vec<QueuePlace>, usize> {
        shared
            .queued
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |queued| {
                queued.checked_add(count).filter(|queued| *queued <= limit)
            })
            .map(|_| (0..count).map(|_| QueuePlace(Arc::clone(shared))).collect())
    }
}

impl std::fmt::Debug for QueuePlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("QueuePlace")
    }
}

impl Drop for QueuePlace {
    fn drop(&mut self) {
        self.0.queued.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The constraint of a request, followed from the beginning: on the caller's thread, as is all that may take long.
fn follow(request: &EngineRequest) -> Result<Option<Followed>, Refusal> {
    let followed = request.constraint.as_ref().map(Followed::new).transpose();
    followed
        .map_err(|problem| Refusal::Invalid(vec![InvalidField { field: "constraint", problem }]))
}

/// What the engine's side needs of the channel.
pub(crate) struct EngineSide {
    pub(crate) shared: Arc<Shared>,
    pub(crate) inbox: Receiver<Command>,
    /// For replies of those who work for the engine.
    pub(crate) to_inbox: Sender<Command>,
}

/// The callers' side of an engine: checks requests, hands out tickets. Needs no thread behind it.
pub struct Submitter {
    shared: Arc<Shared>,
    commands: Sender<Command>,
    limits: Limits,
    max_queue: usize,
    stall_after: Duration,
    next_id: AtomicU64,
}

impl Submitter {
    /// The callers' side, and what the engine's side needs.
    pub(crate) fn new(
        spec: &RunnerSpec,
        options: &EngineOptions,
        clock: Arc<dyn Clock>,
    ) -> (Submitter, EngineSide) {
        let (commands, inbox) = channel();
        let shared = Arc::new(Shared {
            clock,
            metrics: Metrics::default(),
            queued: AtomicUsize::new(0),
            running: AtomicUsize::new(0),
            last_step: AtomicU64::new(IDLE),
            draining: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            fault: Mutex::new(None),
        });
        let side = EngineSide { shared: Arc::clone(&shared), inbox, to_inbox: commands.clone() };
        let submitter = Submitter {
            shared,
            commands,
            limits: Limits::new(spec),
            max_queue: options.max_queue,
            stall_after: options.stall_after,
            next_id: AtomicU64::new(1),
        };
        (submitter, side)
    }

    /// A ticket, or the reason why there is none. Never blocks.
    pub fn submit(&self, request: EngineRequest) -> Result<Ticket, Refusal> {
        let mut tickets = self.submit_all(vec![request])?;
        Ok(tickets.pop().expect("a ticket for each request"))
    }

    /// A ticket for each request, in order, or the reason why there are none: either all are taken in or none is, so that
    /// requests which belong together never hold places for nothing. Never blocks.
    pub fn submit_all(&self, requests: Vec<EngineRequest>) -> Result<Vec<Ticket>, Refusal> {
        let refused = requests.len() as u64;
        self.admit(requests).inspect_err(|_| self.shared.metrics.requests_refused.add(refused))
    }

    fn admit(&self, requests: Vec<EngineRequest>) -> Result<Vec<Ticket>, Refusal> {
        if let Some(reason) = self.shared.fault() {
            return Err(Refusal::Unhealthy { reason });
        }
        if self.shared.draining() || self.shared.stopping() {
            return Err(Refusal::Draining);
        }
        requests.iter().try_for_each(|request| self.limits.check(request))?;
        let (wanted, limit) = (requests.len(), self.max_queue);
        if wanted > limit {
            return Err(Refusal::TooMany { wanted, limit });
        }
        let places = QueuePlace::take(&self.shared, wanted, limit).map_err(|queued| {
            Refusal::Busy { queued, wanted, limit, retry_after: self.retry_after() }
        })?;
        // A full queue has refused by now: this takes processor time.
        let followed = requests.iter().map(follow).collect::<Result<Vec<_>, _>>()?;
        let jobs = requests.into_iter().zip(followed).zip(places);
        let jobs = jobs.map(|((request, constraint), place)| self.job(request, constraint, place));
        let (jobs, tickets) = jobs.unzip();
        match self.commands.send(Command::Submit(jobs)) {
            Ok(()) => Ok(tickets),
            Err(returned) => {
                if let Command::Submit(jobs) = returned.0 {
                    jobs.into_iter().for_each(|job| job.responder.withdraw());
                }
                let reason = self.shared.fault().unwrap_or_else(|| "the engine has stopped".into());
                Err(Refusal::Unhealthy { reason })
            }
        }
    }

    /// A request as the engine's side wants it, and the caller's end of it.
    fn job(
        &self,
        request: EngineRequest,
        constraint: Option<Followed>,
        place: QueuePlace,
    ) -> (Job, Ticket) {
        let id = RequestId(self.next_id.fetch_add(1, Ordering::Relaxed));
        let prompt_tokens = request.prompt.len() as u32;
        let (responder, ticket) = Responder::pair(id, prompt_tokens, self.commands.clone());
        let submitted = self.shared.clock.now();
        (Job { id, request, responder, submitted, place, constraint }, ticket)
    }

    /// When a place in the queue is likely to be free: a full queue moves by one place each time a request ends, and
    /// `running` requests end once in a mean request time.
    fn retry_after(&self) -> Duration {
        let running = self.shared.running.load(Ordering::Relaxed).max(1) as f64;
        let seconds = self.shared.metrics.snapshot().e2e_latency.mean() / running;
        Duration::from_secs(seconds.ceil().clamp(1.0, 60.0) as u64)
    }

    /// The longest sequence that can be served, prompt and output together, in tokens: the model's limit, or what
    /// the KV blocks hold.
    pub fn max_sequence_tokens(&self) -> usize {
        self.limits.max_sequence_tokens
    }

    /// The engine's numbers, without stopping it.
    pub fn metrics(&self) -> MetricsSnapshot {
        self.shared.metrics.snapshot()
    }

    /// Whether the engine can serve, without stopping it.
    pub fn health(&self) -> Health {
        let last_step_age = self.shared.last_step_age();
        let stalled = last_step_age.filter(|age| *age > self.stall_after);
        let stall = stalled.map(|age| format!("no step has ended for {:.1} s", age.as_secs_f64()));
        let fault = self.shared.fault();
        let lost = fault.is_some();
        let problem = fault.or(stall);
        Health {
            ok: problem.is_none(),
            problem,
            lost,
            draining: self.shared.draining(),
            last_step_age,
            queued: self.shared.queued.load(Ordering::Relaxed),
            running: self.shared.running.load(Ordering::Relaxed),
        }
    }

    /// Takes nothing new from now on; what was accepted is finished.
    pub fn drain(&self) {
        self.shared.draining.store(true, Ordering::Release);
        let _ = self.commands.send(Command::Wake);
    }

    /// Ends every request as cancelled, at the next step boundary.
    pub fn cancel_all(&self) {
        let _ = self.commands.send(Command::CancelAll);
    }

    /// Drains, cancels what is there, and asks the engine thread to end.
    pub(crate) fn stop(&self) {
        self.shared.draining.store(true, Ordering::Release);
        self.shared.stopping.store(true, Ordering::Release);
        let _ = self.commands.send(Command::CancelAll);
    }
}
