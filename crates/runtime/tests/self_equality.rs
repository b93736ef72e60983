//! However a request is served, it gives the same: prefix hit or cold, chunked or whole, in company or alone,
//! overlapped or plain.

#![expect(clippy::unwrap_used, reason = "helpers of tests may unwrap as tests do")]

use std::sync::Arc;

use foundation::TokenId;
use runtime::{
    backend::{KvGroupSpec, RunnerSpec},
    engine::{
        EngineCore, EngineEvent, EngineOptions, EngineRequest, FinishReason, Progress, Submitter,
    },
    sampling::{SamplingLogits, SamplingParams},
};
use testkit::{FakeModel, FakeRunner, Rng, SimClock};

fn spec() -> RunnerSpec {
    RunnerSpec {
        block_size: 16,
        kv_groups: vec![
            KvGroupSpec { window: None, blocks: 400 },
            KvGroupSpec { window: Some(24), blocks: 400 },
        ],
        ..FakeRunner::small_spec()
    }
}

fn options() -> EngineOptions {
    EngineOptions { step_target: None, ..EngineOptions::default() }
}

fn engine(spec: &RunnerSpec, options: &EngineOptions) -> (Submitter, EngineCore) {
    let runner = FakeRunner::new(spec.clone());
    EngineCore::with_submitter(Box::new(runner), options, Arc::new(SimClock::default()))
}

fn prompt(seed: u64, length: usize) -> Vec<TokenId> {
    let mut rng = Rng::new(seed);
    (0..length).map(|_| TokenId(rng.within(0..61) as u32)).collect()
}

/// Serves all requests together; gives each one's events.
fn serve(
    engine: &mut (Submitter, EngineCore),
    requests: &[EngineRequest],
) -> Vec<Vec<EngineEvent>> {
    let tickets = requests.iter().map(|request| engine.0.submit(request.clone()).unwrap());
    let mut tickets: Vec<_> = tickets.collect();
    while engine.1.step() == Progress::Worked {
        engine.1.check().unwrap();
    }
    assert!(engine.1.is_empty());
    tickets.iter_mut().map(|ticket| std::iter::from_fn(|| ticket.try_next()).collect()).collect()
}

/// The events without what may differ: times, and what was cached.
fn essence(events: &[EngineEvent]) -> Vec<EngineEvent> {
    let plain = |event: &EngineEvent| match event {
        EngineEvent::Started { .. } => EngineEvent::Started { cached_tokens: 0 },
        EngineEvent::Finished { reason, .. } => {
            EngineEvent::Finished { reason: reason.clone(), usage: Default::default() }
        }
        other => other.clone(),
    };
    events.iter().map(plain).collect()
}

fn cached(events: &[EngineEvent]) -> u32 {
    match events.first() {
        Some(EngineEvent::Started { cached_tokens }) => *cached_tokens,
        other => panic!("{other:?}"),
    }
}

/// Sixteen requests that have little in common.
fn mixed() -> Vec<EngineRequest> {
    let request = |index: u64| EngineRequest {
        sampling: SamplingParams {
            temperature: (index % 3) as f32 * 0.5,
            top_k: (index % 4) as u32 * 3,
            top_p: if index.is_multiple_of(5) { 0.8 } else { 1.0 },
            repetition_penalty: if index.is_multiple_of(2) { 1.2 } else { 1.0 },
            seed: index,
            ..SamplingParams::default()
        },
        logprobs: SamplingLogits::Top(index as u32 % 3),
        prompt_logprobs: index.is_multiple_of(4).then_some(2),
        stop_tokens: vec![TokenId(index as u32), TokenId(60 - index as u32)],
        min_tokens: index as u32 % 7,
        ..EngineRequest::new(prompt(index / 2, 3 + 9 * index as usize), 12 + index as u32)
    };
    (0..16).map(request).collect()
}

#[test]
fn a_prefix_hit_gives_what_a_cold_prompt_gives_at_every_length() {
    let spec = spec();
    let mut warm = engine(&spec, &options());
    serve(&mut warm, &[EngineRequest::new(prompt(5, 130), 1)]);
    for length in 1..=130 {
        let request = EngineRequest::new(prompt(5, length), 8);
        let cold = serve(&mut engine(&spec, &options()), std::slice::from_ref(&request));
        for _ in 0..2 {
            let hit = serve(&mut warm, std::slice::from_ref(&request));
            assert_eq!(essence(&hit[0]), essence(&cold[0]), "length {length}");
            let found = cached(&hit[0]) as usize;
            let whole_blocks = length / 16 * 16;
            let most = if whole_blocks == length { length - 1 } else { whole_blocks };
            assert_eq!(found, most, "length {length}");
        }
    }
}

#[test]
fn equal_prompts_that_come_together_are_computed_once() {
    let requests: Vec<EngineRequest> = (0..4)
        .map(|seed| EngineRequest {
            sampling: SamplingParams { temperature: 1.0, seed, ..SamplingParams::default() },
            ..EngineRequest::new(prompt(5, 100), 6)
        })
        .collect();
    // In one chunk, and in several.
    for rows in [64, 20] {
        let options = EngineOptions { max_step_tokens: Some(rows), ..options() };
        let events = serve(&mut engine(&spec(), &options), &requests);
        let found: Vec<u32> = events.iter().map(|events| cached(events)).collect();
        assert_eq!(found, [0, 96, 96, 96], "{rows} rows");
    }
}

#[test]
fn chunked_prefill_gives_what_whole_prefill_gives() {
    let whole = serve(&mut engine(&spec(), &options()), &mixed());
    for rows in [1, 2, 5, 16, 17] {
        let spec = RunnerSpec { max_step_sequences: rows.min(8), ..spec() };
        let options = EngineOptions { max_step_tokens: Some(rows), ..options() };
        let chunked = serve(&mut engine(&spec, &options), &mixed());
        for (index, (chunked, whole)) in chunked.iter().zip(&whole).enumerate() {
            assert_eq!(essence(chunked), essence(whole), "{rows} rows, request {index}");
        }
    }
}

#[test]
fn in_company_gives_what_alone_gives() {
    let together = serve(&mut engine(&spec(), &options()), &mixed());
    let model = FakeModel::new(&spec());
    for (request, events) in mixed().into_iter().zip(together) {
        let alone = serve(&mut engine(&spec(), &options()), std::slice::from_ref(&request));
        assert_eq!(essence(&events), essence(&alone[0]));
        let tokens = events.iter().filter_map(|event| match event {
            EngineEvent::Token { token, logprobs } => Some((*token, logprobs.clone())),
            _ => None,
        });
        assert!(tokens.eq(model.alone(&request, 256).tokens), "the model itself says otherwise");
    }
}

#[test]
fn the_overlapped_loop_gives_what_the_plain_loop_gives() {
    let ahead = RunnerSpec { max_in_flight: 2, ..spec() };
    let plain = EngineOptions { overlap: false, ..options() };
    let overlapped = serve(&mut engine(&ahead, &options()), &mixed());
    let plain = serve(&mut engine(&ahead, &plain), &mixed());
    for (overlapped, plain) in overlapped.iter().zip(&plain) {
        assert_eq!(essence(overlapped), essence(plain));
    }
}

#[test]
fn a_regime_change_computes_the_sequence_anew() {
    let spec = RunnerSpec { regime_thresholds: vec![20], max_in_flight: 2, ..spec() };
    let model = FakeModel::new(&spec);
    for length in [15, 20, 21, 40] {
        let request = EngineRequest::new(prompt(1, length), 12);
        let events = serve(&mut engine(&spec, &options()), std::slice::from_ref(&request));
        let tokens = events[0].iter().filter_map(|event| match event {
            EngineEvent::Token { token, logprobs } => Some((*token, logprobs.clone())),
            _ => None,
        });
        assert!(tokens.eq(model.alone(&request, 256).tokens), "length {length}");
    }
}

#[test]
fn prompt_scores_without_output_end_by_length() {
    for length in [1, 2, 16, 33] {
        let request =
            EngineRequest { prompt_logprobs: Some(1), ..EngineRequest::new(prompt(3, length), 0) };
        let expected = FakeModel::new(&spec()).alone(&request, 256);
        let events = serve(&mut engine(&spec(), &options()), &[request]);
        let [_, EngineEvent::PromptLogprobs(scores), EngineEvent::Finished { reason, .. }] =
            &events[0][..]
        else {
            panic!("{events:?}")
        };
        assert_eq!(Some(scores), expected.prompt_logprobs.as_ref());
        assert_eq!(*reason, FinishReason::Length);
    }
}
