//! A device that fails under a running engine. One test: in this process nothing works on the device afterwards.

mod common;

use std::{
    io,
    sync::{Arc, Mutex},
};

use common::{DEFAULT, load};
use foundation::TokenId;
use runtime::engine::{Engine, EngineEvent, EngineOptions, EngineRequest, FinishReason, Refusal};

/// What is logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("a writer does not panic").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().expect("a writer does not panic")).into_owned()
    }
}

fn request(first: u32) -> EngineRequest {
    let prompt: Vec<TokenId> = (first..first + 20).map(TokenId).collect();
    EngineRequest { ignore_eos: true, ..EngineRequest::new(prompt, 200) }
}

#[test]
fn every_request_fails_once_and_the_log_names_the_last_launches() {
    let Some(gpu) = cuda::testing::gpu() else { return };
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone());
    tracing::subscriber::set_global_default(subscriber.finish()).expect("this process's only log");
    let harness = load("qwen3", DEFAULT).expect("there is a GPU");
    let engine = Engine::start(harness.runner, EngineOptions::default());
    let mut tickets: Vec<_> =
        (0..20).map(|first| engine.submit(request(first)).expect("a ticket")).collect();
    while !matches!(tickets[0].next_blocking(), Some(EngineEvent::Token { .. })) {}

    cuda::testing::break_device(&gpu);

    let cause = "a kernel touched memory that is not its own (";
    for ticket in &mut tickets {
        let events: Vec<_> = std::iter::from_fn(|| ticket.next_blocking()).collect();
        let ends = events.iter().filter(|event| matches!(event, EngineEvent::Finished { .. }));
        assert_eq!(ends.count(), 1);
        let Some(EngineEvent::Finished { reason: FinishReason::Failed(why), .. }) = events.last()
        else {
            panic!("{:?}", events.last())
        };
        assert!(why.contains(cause) && why.contains("ILLEGAL_ADDRESS, 700)"), "{why}");
    }
    let health = engine.health();
    assert!(!health.ok && health.lost && health.problem.expect("a reason").contains(cause));
    assert!(matches!(engine.submit(request(0)), Err(Refusal::Unhealthy { .. })));
    engine.shutdown();
    let log = log.text();
    assert!(log.contains("the last launches, latest first"), "{log}");
    let launches = log.lines().filter(|line| line.starts_with('#')).count();
    assert!(
        launches >= 16 && log.contains(" graph of ") && log.contains("attention_decode"),
        "{log}"
    );
    assert_eq!(log.matches("the GPU failed").count(), 1, "{log}");
    assert!(!log.contains("not given back"), "{log}");
}
