//! The engine with its thread: everyone gets an answer, whatever happens.

use std::time::Duration;

use foundation::TokenId;
use runtime::{
    backend::{RunnerSpec, StepError, StepRunner},
    batch::{StepBatch, StepId, StepOutput},
    engine::{Engine, EngineEvent, EngineOptions, EngineRequest, FinishReason, Refusal, Ticket},
    sampling::{Constraint, Follower, SamplingParams, SharedConstraint, TokenMask},
};
use std::sync::{
    Arc, Mutex,
    mpsc::{Receiver, RecvTimeoutError, Sender, channel},
};
use testkit::{FakeModel, FakeRunner, Fault, FaultKind};

fn request(max_tokens: u32) -> EngineRequest {
    EngineRequest::new((0..10).map(TokenId).collect::<Vec<_>>(), max_tokens)
}

fn engine(fault: Option<Fault>) -> Engine {
    let runner = FakeRunner::new(FakeRunner::small_spec()).with_fault(fault);
    Engine::start(Box::new(runner), EngineOptions::default())
}

fn end(ticket: &mut Ticket) -> FinishReason {
    loop {
        match ticket.next_blocking() {
            Some(EngineEvent::Finished { reason, .. }) => {
                assert_eq!(ticket.next_blocking(), None, "nothing follows the end");
                return reason;
            }
            Some(_) => {}
            None => panic!("the events ended without an end"),
        }
    }
}

/// A runner that takes a step only when it is told to.
struct Gated {
    inner: FakeRunner,
    gate: Receiver<()>,
}

impl StepRunner for Gated {
    fn spec(&self) -> &RunnerSpec {
        self.inner.spec()
    }

    fn submit(&mut self, batch: StepBatch) -> Result<StepId, StepError> {
        // A gate that is gone is open.
        let _ = self.gate.recv();
        self.inner.submit(batch)
    }

    fn wait(&mut self) -> Result<StepOutput, StepError> {
        self.inner.wait()
    }
}

fn gated(options: EngineOptions) -> (Engine, Sender<()>) {
    let (open, gate) = channel();
    let spec = RunnerSpec { max_step_sequences: 1, ..FakeRunner::small_spec() };
    let runner = Gated { inner: FakeRunner::new(spec), gate };
    (Engine::start(Box::new(runner), options), open)
}

#[test]
fn a_request_gives_the_models_tokens() {
    let engine = engine(None);
    let mut ticket = engine.submit(request(5)).unwrap();
    let mut tokens = Vec::new();
    while let Some(event) = ticket.next_blocking() {
        if let EngineEvent::Token { token, .. } = event {
            tokens.push(token);
        }
    }
    let alone = FakeModel::new(engine.spec()).alone(&request(5), engine.max_sequence_tokens());
    assert!(tokens.iter().eq(alone.tokens.iter().map(|(token, _)| token)));
    engine.shutdown();
    assert_eq!(engine.submit(request(1)).unwrap_err(), Refusal::Draining);
    assert_eq!(engine.metrics().generation_tokens, 5);
}

#[test]
fn a_fault_fails_every_request_once_and_the_engine_says_so() {
    for kind in [FaultKind::Submit, FaultKind::Wait, FaultKind::Panic] {
        let engine = engine(Some(Fault { step: 2, kind }));
        let tickets = (0..3).map(|_| engine.submit(request(50)));
        for ticket in tickets.collect::<Vec<_>>() {
            // The fault may have come before the third was submitted.
            match ticket {
                Ok(mut ticket) => {
                    assert!(matches!(end(&mut ticket), FinishReason::Failed(_)), "{kind:?}");
                }
                Err(refusal) => assert!(matches!(refusal, Refusal::Unhealthy { .. }), "{kind:?}"),
            }
        }
        engine.shutdown();
        let health = engine.health();
        assert!(!health.ok && health.problem.unwrap().contains("injected"));
        assert!(matches!(engine.submit(request(1)), Err(Refusal::Unhealthy { .. })));
    }
}

#[test]
fn a_failed_row_fails_its_request_alone() {
    let engine = engine(Some(Fault { step: 1, kind: FaultKind::Row }));
    let mut first = engine.submit(request(5)).unwrap();
    assert_eq!(end(&mut first), FinishReason::NoNumbers("injected".into()));
    let mut second = engine.submit(request(5)).unwrap();
    assert_eq!(end(&mut second), FinishReason::Length);
    assert!(engine.health().ok);
}

#[test]
fn a_full_queue_refuses_and_says_when_to_come_again() {
    let (engine, gate) = gated(EngineOptions { max_queue: 1, ..EngineOptions::default() });
    let mut running = engine.submit(request(2)).unwrap();
    // It has left the queue once it has started.
    assert!(matches!(running.next_blocking(), Some(EngineEvent::Started { .. })));
    let mut queued = engine.submit(request(2)).unwrap();
    let refusal = engine.submit(request(2)).unwrap_err();
    let Refusal::Busy { queued: 1, wanted: 1, limit: 1, retry_after } = refusal else {
        panic!("{refusal}");
    };
    assert!(retry_after >= Duration::from_secs(1));
    assert_eq!((engine.health().queued, engine.metrics().requests_refused), (1, 1));
    drop(gate);
    assert_eq!(end(&mut running), FinishReason::Length);
    assert_eq!(end(&mut queued), FinishReason::Length);
}

#[test]
fn requests_that_belong_together_are_taken_in_together_or_not_at_all() {
    let (engine, gate) = gated(EngineOptions { max_queue: 3, ..EngineOptions::default() });
    let refusal = engine.submit_all(vec![request(2); 4]).unwrap_err();
    assert_eq!(refusal, Refusal::TooMany { wanted: 4, limit: 3 }, "however idle the engine is");
    let mut running = engine.submit(request(2)).unwrap();
    assert!(matches!(running.next_blocking(), Some(EngineEvent::Started { .. })));
    let mut tickets = engine.submit_all(vec![request(2); 2]).unwrap();
    let refusal = engine.submit_all(vec![request(2); 2]).unwrap_err();
    assert!(matches!(refusal, Refusal::Busy { queued: 2, wanted: 2, limit: 3, .. }), "{refusal}");
    assert_eq!((engine.health().queued, engine.metrics().requests_refused), (2, 6));
    // The refused pair holds no place: one more fits.
    tickets.push(engine.submit(request(2)).unwrap());
    drop(gate);
    assert!(tickets.iter_mut().all(|ticket| end(ticket) == FinishReason::Length));
    assert_eq!(end(&mut running), FinishReason::Length);
}

#[test]
fn draining_finishes_what_was_accepted() {
    let (engine, gate) = gated(EngineOptions::default());
    let mut accepted = engine.submit(request(3)).unwrap();
    engine.drain();
    assert_eq!(engine.submit(request(3)).unwrap_err(), Refusal::Draining);
    assert!(engine.health().draining);
    drop(gate);
    assert_eq!(end(&mut accepted), FinishReason::Length);
}

#[test]
fn cancelling_ends_running_and_waiting_requests() {
    let (engine, gate) = gated(EngineOptions::default());
    let mut running = engine.submit(request(100)).unwrap();
    let mut waiting = engine.submit(request(100)).unwrap();
    waiting.canceller().cancel();
    drop(engine.submit(request(100)).unwrap());
    running.cancel();
    drop(gate);
    assert_eq!(end(&mut waiting), FinishReason::Cancelled);
    assert_eq!(end(&mut running), FinishReason::Cancelled);
    // The dropped one is gone as well: a new request is served.
    assert_eq!(end(&mut engine.submit(request(2)).unwrap()), FinishReason::Length);
    assert_eq!(engine.metrics().requests_cancelled, 3);
}

#[test]
fn a_stop_string_counts_as_stopped() {
    let (engine, gate) = gated(EngineOptions::default());
    engine.submit(request(100)).unwrap().stop();
    drop(gate);
    // The engine hears commands in their order: when this one is served, the first has ended.
    assert_eq!(end(&mut engine.submit(request(2)).unwrap()), FinishReason::Length);
    let metrics = engine.metrics();
    assert_eq!((metrics.requests_stopped, metrics.requests_cancelled), (1, 0));
}

#[test]
fn shutdown_answers_everyone() {
    let (engine, gate) = gated(EngineOptions::default());
    let mut tickets: Vec<Ticket> =
        (0..4).map(|_| engine.submit(request(1000).clone()).unwrap()).collect();
    drop(gate);
    drop(engine);
    for ticket in &mut tickets {
        assert!(matches!(end(ticket), FinishReason::Cancelled | FinishReason::Length));
    }
}

#[test]
fn meaningless_requests_are_refused_with_every_finding() {
    let engine = engine(None);
    let bad = EngineRequest {
        prompt: vec![TokenId(1), TokenId(61)].into(),
        sampling: SamplingParams { temperature: -1.0, top_p: 0.0, ..SamplingParams::default() },
        min_tokens: 9,
        ..request(3)
    };
    let Err(Refusal::Invalid(findings)) = engine.submit(bad) else { panic!() };
    let fields: Vec<&str> = findings.iter().map(|finding| finding.field).collect();
    assert_eq!(fields, ["prompt", "min_tokens", "temperature", "top_p"]);
    let long = EngineRequest::new(vec![TokenId(0); 256], 1);
    let refusal = engine.submit(long).unwrap_err();
    assert_eq!(refusal, Refusal::TooLong { tokens: 256, limit: 256 });
    let nan = SamplingParams { min_p: f32::NAN, ..SamplingParams::default() };
    assert!(engine.submit(EngineRequest { sampling: nan, ..request(1) }).is_err());
}

/// Allows everything. Its first mask is there at once; each later one when `gate` says so, or is gone.
#[derive(Clone, Debug)]
struct Slow {
    gate: Arc<Mutex<Receiver<()>>>,
    begun: bool,
    panics: bool,
}

impl Slow {
    fn shared(panics: bool) -> (SharedConstraint, Sender<()>) {
        let (open, gate) = channel();
        let slow = Slow { gate: Arc::new(Mutex::new(gate)), begun: false, panics };
        (SharedConstraint(Arc::new(slow)), open)
    }
}

impl Constraint for Slow {
    fn follow(&self) -> Result<Box<dyn Follower>, String> {
        Ok(Box::new(self.clone()))
    }
}

impl Follower for Slow {
    fn take(&mut self, _: TokenId) -> Result<(), String> {
        self.begun = true;
        Ok(())
    }

    fn allowed(&mut self) -> Result<TokenMask, String> {
        if self.begun {
            assert!(!self.panics, "as it was told to");
            // Turns a hang into a failure; no assertion depends on it.
            let word = self
                .gate
                .lock()
                .expect("nobody panics with it")
                .recv_timeout(Duration::from_secs(20));
            if word == Err(RecvTimeoutError::Timeout) {
                return Err("nobody opened the gate".into());
            }
        }
        Ok(vec![u32::MAX; 2].into())
    }
}

#[test]
fn a_mask_that_takes_long_holds_up_its_own_request_alone() {
    let engine = engine(None);
    let (constraint, gate) = Slow::shared(false);
    let constrained = EngineRequest { constraint: Some(constraint), ..request(4) };
    let mut slow = engine.submit(constrained.clone()).unwrap();
    let mut cancelled = engine.submit(constrained).unwrap();
    assert!(matches!(slow.next_blocking(), Some(EngineEvent::Started { .. })));
    assert!(matches!(slow.next_blocking(), Some(EngineEvent::Token { .. })));
    let mut free = engine.submit(request(20)).unwrap();
    assert_eq!(end(&mut free), FinishReason::Length);
    cancelled.cancel();
    assert_eq!(end(&mut cancelled), FinishReason::Cancelled);
    assert_eq!(slow.try_next(), None, "its mask is not there");
    drop(gate);
    assert_eq!(end(&mut slow), FinishReason::Length);
    assert!(engine.metrics().mask_time.count() >= 3);
}

#[test]
fn an_engine_ends_while_masks_are_away() {
    let engine = engine(None);
    let (constraint, _gate) = Slow::shared(false);
    let constrained = EngineRequest { constraint: Some(constraint), ..request(4) };
    let mut ticket = engine.submit(constrained).unwrap();
    while !matches!(ticket.next_blocking(), Some(EngineEvent::Token { .. })) {}
    engine.shutdown();
    assert_eq!(end(&mut ticket), FinishReason::Cancelled);
}

#[test]
fn a_constraint_that_panics_ends_its_request_alone() {
    let engine = engine(None);
    let (constraint, _gate) = Slow::shared(true);
    let constrained = EngineRequest { constraint: Some(constraint), ..request(4) };
    let mut ticket = engine.submit(constrained).unwrap();
    let mut other = engine.submit(request(4)).unwrap();
    let lost = FinishReason::ConstraintLost("following it panicked".into());
    assert_eq!(end(&mut ticket), lost);
    assert_eq!(end(&mut other), FinishReason::Length);
    assert!(engine.health().ok);
}
