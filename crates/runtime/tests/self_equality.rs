//! However a request is served, it gives the same: prefix hit or cold, chunked or whole, in company or alone,
//! overlapped or plain.

use foundation::TokenId;
use runtime::{
    backend::{KvGroupSpec, RunnerSpec},
    engine::{EngineEvent, EngineOptions, EngineRequest, FinishReason},
    sampling::SamplingParams,
};
use testkit::{
    FakeModel, FakeRunner, Served,
    served::{self, bitwise, cached, differences, essence, prefix_hits, steady},
};

/// Tokens of the fake model.
const VOCAB: usize = 61;

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

fn engine(spec: &RunnerSpec, options: &EngineOptions) -> Served {
    Served::new(Box::new(FakeRunner::new(spec.clone())), options)
}

fn prompt(seed: u64, length: usize) -> Vec<TokenId> {
    served::prompt(seed, length, VOCAB)
}

fn mixed() -> Vec<EngineRequest> {
    served::mixed(VOCAB)
}

#[test]
fn a_prefix_hit_gives_what_a_cold_prompt_gives_at_every_length() {
    let mut warm = engine(&spec(), &steady());
    let mut cold = engine(&spec(), &EngineOptions { prefix_cache: false, ..steady() });
    let (_, findings) = prefix_hits(&mut warm, &mut cold, VOCAB, bitwise, 0.0);
    assert!(findings.is_empty(), "{}", findings.join("\n"));
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
        let options = EngineOptions { max_step_tokens: Some(rows), ..steady() };
        let events = engine(&spec(), &options).serve(&requests);
        let found: Vec<u32> = events.iter().map(|events| cached(events)).collect();
        assert_eq!(found, [0, 96, 96, 96], "{rows} rows");
    }
}

#[test]
fn chunked_prefill_gives_what_whole_prefill_gives() {
    let whole = engine(&spec(), &steady()).serve(&mixed());
    for rows in [1, 2, 5, 16, 17] {
        let spec = RunnerSpec { max_step_sequences: rows.min(8), ..spec() };
        let options = EngineOptions { max_step_tokens: Some(rows), ..steady() };
        let chunked = engine(&spec, &options).serve(&mixed());
        assert_eq!(differences(&chunked, &whole), [""; 0], "{rows} rows");
    }
}

#[test]
fn in_company_gives_what_alone_gives() {
    let together = engine(&spec(), &steady()).serve(&mixed());
    let model = FakeModel::new(&spec());
    for (request, events) in mixed().into_iter().zip(together) {
        let alone = engine(&spec(), &steady()).alone(&request);
        assert_eq!(essence(&events), essence(&alone));
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
    let plain = EngineOptions { overlap: false, ..steady() };
    let overlapped = engine(&ahead, &steady()).serve(&mixed());
    let plain = engine(&ahead, &plain).serve(&mixed());
    assert_eq!(differences(&overlapped, &plain), [""; 0]);
}

#[test]
fn a_regime_change_computes_the_sequence_anew() {
    let spec = RunnerSpec { regime_thresholds: vec![20], max_in_flight: 2, ..spec() };
    let model = FakeModel::new(&spec);
    for length in [15, 20, 21, 40] {
        let request = EngineRequest::new(prompt(1, length), 12);
        let events = engine(&spec, &steady()).alone(&request);
        let tokens = events.iter().filter_map(|event| match event {
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
        let events = engine(&spec(), &steady()).alone(&request);
        let [_, EngineEvent::PromptLogprobs(scores), EngineEvent::Finished { reason, .. }] =
            &events[..]
        else {
            panic!("{events:?}")
        };
        assert_eq!(Some(scores), expected.prompt_logprobs.as_ref());
        assert_eq!(*reason, FinishReason::Length);
    }
}
