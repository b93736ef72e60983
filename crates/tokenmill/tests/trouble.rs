//! What goes wrong under a generation: faults, stalls, a full queue, callers who leave.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::{sync::Arc, time::Duration};

use runtime::backend::RunnerSpec;
use testkit::{
    FakeBackend, FakeRunner, Fault, FaultKind, Gate, GatedBackend, golden::fixture_directory,
};
use tokenmill::{
    Error, GenerateOptions, Generation, GenerationEvent, Library, LibraryOptions, Model,
    ModelOptions, TokenId,
};

/// A fake model behind a gate.
struct Rig {
    model: Model,
    gate: Arc<Gate>,
}

impl Rig {
    fn new(fault: Option<Fault>, options: ModelOptions) -> Rig {
        let spec = RunnerSpec { vocab_size: 512, ..FakeRunner::small_spec() };
        let inner = Arc::new(FakeBackend::new(spec).with_fault(fault));
        let gate = Arc::new(Gate::default());
        let backend = Arc::new(GatedBackend { inner, gate: gate.clone() });
        let library = Library::with_backends(LibraryOptions::default(), vec![backend]).unwrap();
        let directory = fixture_directory("llama");
        let model = library.load(directory.to_str().unwrap(), options, &mut |_| true).unwrap();
        Rig { model, gate }
    }

    fn start(&self, prompt: usize, n: u32) -> Generation {
        self.model.generate(tokens(prompt), options(n)).unwrap()
    }

    fn wait_until(&self, what: &str, holds: impl Fn(&Model) -> bool) {
        for _ in 0..60_000 {
            if holds(&self.model) {
                return;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        panic!("{what} never came");
    }
}

impl Drop for Rig {
    /// A model that is dropped waits for its engine, which must not stand before a closed gate.
    fn drop(&mut self) {
        self.gate.open();
    }
}

fn tokens(count: usize) -> Vec<TokenId> {
    (0..count as u32).map(|i| TokenId(i * 37 % 400)).collect()
}

fn options(n: u32) -> GenerateOptions {
    GenerateOptions {
        n: Some(n),
        max_tokens: Some(100),
        ignore_eos: true,
        ..GenerateOptions::default()
    }
}

/// Reads to the end, which must be a single failure; counts the tokens before it.
fn tokens_before_failure(generation: Generation) -> usize {
    let mut events = generation.into_iter();
    let mut tokens = 0;
    loop {
        match events.next() {
            Some(Ok(GenerationEvent::Delta { tokens: new, .. })) => tokens += new.len(),
            Some(Ok(GenerationEvent::Prompt { .. })) => {}
            Some(Ok(event)) => panic!("a broken choice was told as finished: {event:?}"),
            Some(Err(error)) => {
                let known = matches!(error, Error::BrokeOff(_) | Error::NoNumbers(_));
                assert!(known, "{error}");
                assert!(events.next().is_none(), "an error is the last item");
                return tokens;
            }
            None => panic!("the events ended without an end"),
        }
    }
}

#[test]
fn a_fault_in_the_middle_fails_every_generation_once() {
    for kind in [FaultKind::Submit, FaultKind::Wait, FaultKind::Panic] {
        let sequences = Some(3);
        let options = ModelOptions { max_step_sequences: sequences, ..ModelOptions::default() };
        let rig = Rig::new(Some(Fault { step: 4, kind }), options);
        rig.gate.close_after(0);
        let (one, two, waiting) = (rig.start(5, 1), rig.start(6, 2), rig.start(7, 1));
        rig.gate.open();
        assert!(tokens_before_failure(one) >= 1, "{kind:?}");
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let error = runtime.block_on(two.output_async()).unwrap_err();
        assert!(matches!(error, Error::BrokeOff(_)), "{error}");
        assert_eq!(tokens_before_failure(waiting), 0, "{kind:?}: there is no row for it");
        let health = rig.model.health();
        assert!(!health.ok && health.problem.unwrap().contains("injected"), "{kind:?}");
        let late = rig.model.generate(tokens(3), self::options(1)).unwrap_err();
        assert!(matches!(late, Error::Failed(_)), "{late}");
    }
}

#[test]
fn a_row_that_fails_fails_its_generation_alone() {
    let fault = Fault { step: 2, kind: FaultKind::Row };
    let rig = Rig::new(Some(fault), ModelOptions::default());
    rig.gate.close_after(0);
    let (broken, whole) = (rig.start(5, 1), rig.start(6, 1));
    rig.gate.open();
    assert_eq!(tokens_before_failure(broken), 1);
    assert_eq!(whole.output().unwrap().usage.completion_tokens, 100);
    assert!(rig.model.health().ok);
}

#[test]
fn an_engine_without_steps_is_stalled_only_while_it_has_work() {
    let stall_after = Some(Duration::ZERO);
    let rig = Rig::new(None, ModelOptions { stall_after, ..ModelOptions::default() });
    assert!(rig.model.health().ok);
    rig.gate.close_after(0);
    let generation = rig.start(5, 1);
    rig.gate.wait_until_held();
    rig.wait_until("a stall", |model| !model.health().ok);
    let problem = rig.model.health().problem.unwrap();
    assert!(problem.starts_with("no step has ended for"), "{problem}");
    rig.gate.open();
    generation.output().unwrap();
    rig.wait_until("health", |model| model.health().ok);
}

#[test]
fn a_full_queue_says_when_to_come_again() {
    let options =
        ModelOptions { max_queue: Some(2), max_step_sequences: Some(1), ..ModelOptions::default() };
    let rig = Rig::new(None, options);
    rig.gate.close_after(1);
    let running = rig.start(5, 1);
    rig.gate.wait_until_held();
    let first = rig.start(5, 1);
    // A request of two choices needs two places: there is one, and it takes none.
    let both = rig.model.generate(tokens(5), self::options(2)).unwrap_err();
    assert!(matches!(both, Error::Busy { queued: 1, limit: 2, .. }), "{both}");
    let second = rig.start(5, 1);
    match rig.model.generate(tokens(5), self::options(1)) {
        Err(Error::Busy { queued: 2, limit: 2, retry_after }) => {
            assert!(retry_after >= Duration::from_secs(1));
        }
        other => panic!("{other:?}"),
    }
    rig.gate.open();
    for generation in [running, first, second] {
        assert_eq!(generation.output().unwrap().usage.completion_tokens, 100);
    }
    assert!(rig.start(5, 1).output().is_ok());
}

/// Steps through `before` of them, leaves, and lets one more pass, which was planned before the engine could hear.
fn leave_after(before: u64, prompt: usize) -> (Rig, u64) {
    let options = ModelOptions { max_step_tokens: Some(16), ..ModelOptions::default() };
    let rig = Rig::new(None, options);
    rig.gate.close_after(before);
    let generation = rig.start(prompt, 3);
    rig.gate.wait_until_held();
    assert!(rig.model.metrics().kv_blocks_used > 0);
    drop(generation);
    rig.gate.close_after(1);
    // Behind a closed gate nothing could end what did not leave by itself.
    rig.wait_until("nothing is held", |model| {
        let seen = model.metrics();
        seen.requests_cancelled == 3
            && (seen.running, seen.waiting, seen.kv_blocks_used) == (0, 0, 0)
    });
    let tokens = rig.model.metrics().generation_tokens;
    assert!(rig.model.metrics().steps <= before + 1);
    rig.gate.open();
    assert!(rig.start(5, 1).output().is_ok());
    (rig, tokens)
}

#[test]
fn a_caller_who_leaves_while_the_prompt_is_read_frees_everything_at_the_next_step() {
    let (_, tokens) = leave_after(2, 100);
    assert_eq!(tokens, 0);
}

#[test]
fn a_caller_who_leaves_in_the_middle_frees_everything_at_the_next_step() {
    let (_, tokens) = leave_after(6, 5);
    assert!((1..=21).contains(&tokens), "{tokens}");
}
