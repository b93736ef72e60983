//! The host tier, seen from outside: what was preempted or driven out comes back instead of being computed again.

use std::{sync::Arc, time::Duration};

use runtime::{
    backend::{HostTier, KvGroupSpec, RunnerSpec},
    engine::{Engine, EngineEvent, EngineOptions, EngineRequest},
};
use testkit::{
    CopyTimes, FakeRunner, Rng, Served, SimClock,
    served::{cached, differences, prompt, steady},
};

const VOCAB: usize = 61;

fn spec(blocks: usize, slots: usize) -> RunnerSpec {
    RunnerSpec {
        max_sequence_tokens: 80,
        max_step_sequences: 4,
        kv_groups: vec![KvGroupSpec { window: None, blocks }],
        host: Some(HostTier { slots: vec![slots], block_bytes: vec![1 << 20] }),
        ..FakeRunner::small_spec()
    }
}

/// Chunks too short to learn from what a row costs: while nobody knows, all that can be brought back is.
fn options() -> EngineOptions {
    EngineOptions { max_step_tokens: Some(16), ..steady() }
}

#[test]
fn preempted_sequences_get_back_what_they_had_computed_output_included() {
    let requests: Vec<EngineRequest> =
        (0..6).map(|seed| EngineRequest::new(prompt(seed, 4, VOCAB), 56)).collect();
    let serve = |slots| {
        let mut served = Served::new(Box::new(FakeRunner::new(spec(24, slots))), &options());
        (served.serve(&requests), served.metrics())
    };
    let ((plain, before), (tiered, after)) = (serve(0), serve(400));
    assert_eq!(differences(&tiered, &plain), [""; 0]);
    assert!(before.preemptions > 0 && after.preemptions > 0, "{before:?}");
    assert_eq!((before.restored_tokens, before.kv_blocks_out), (0, 0));
    assert!(after.kv_bytes_in == after.kv_blocks_in << 20 && after.kv_blocks_in > 0);
    // Prompts have 4 tokens: what came back was output.
    assert!(after.restored_tokens > 4 * after.preemptions, "{after:?}");
    assert!(
        after.computed_tokens < before.computed_tokens,
        "{} and {} tokens computed",
        after.computed_tokens,
        before.computed_tokens
    );
}

#[test]
fn what_came_back_counts_as_cached() {
    let mut served = Served::new(Box::new(FakeRunner::new(spec(24, 400))), &options());
    let request = |seed| EngineRequest::new(prompt(seed, 60, VOCAB), 2);
    let first: Vec<_> = (0..4).map(|seed| served.alone(&request(seed))).collect();
    let again = served.alone(&request(0));
    assert_eq!((cached(&first[0]), cached(&again)), (0, 59));
    assert_eq!(differences(&[again], &first[..1]), [""; 0]);
    let metrics = served.metrics();
    assert!(metrics.restored_tokens > 0 && metrics.host_blocks_used > 0, "{metrics:?}");
}

#[test]
fn an_engine_that_waits_for_blocks_alone_wakes_up_when_they_are_there() {
    let clock = SimClock::default();
    let times = CopyTimes {
        least: Duration::from_micros(100),
        most: Duration::from_micros(500),
        rng: Rng::new(1),
    };
    let runner = FakeRunner::new(spec(24, 400))
        .with_clock(clock.clone(), Duration::from_millis(1))
        .with_copy_times(times);
    let engine = Engine::start_with_clock(Box::new(runner), options(), Arc::new(clock.clone()));
    for round in 0..2 {
        for seed in 0..4 {
            let request = EngineRequest::new(prompt(seed, 60, VOCAB), 2);
            let mut ticket = engine.submit(request).unwrap();
            let finished = |event: &EngineEvent| matches!(event, EngineEvent::Finished { .. });
            while !std::iter::from_fn(|| ticket.try_next()).any(|event| finished(&event)) {
                // While steps run they move the clock; while blocks come back nobody else does.
                clock.advance(Duration::from_micros(10));
                std::thread::yield_now();
            }
        }
        assert_eq!(engine.metrics().restored_tokens > 0, round > 0);
    }
}
