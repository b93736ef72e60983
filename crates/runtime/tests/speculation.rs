//! Speculation changes how many steps a text takes, and nothing else.

use foundation::TokenId;
use runtime::{
    backend::{KvGroupSpec, RunnerSpec},
    engine::{EngineEvent, EngineOptions, EngineRequest, FinishReason, MetricsSnapshot},
    sampling::{SamplingLogits, SamplingParams},
    speculation::SpeculationOptions,
};
use testkit::{
    ChainConstraint, FakeModel, FakeRunner, Served,
    served::{self, Events, differences, eager, guessable, mixed, oracle, steady},
};

/// Tokens of the fake model.
const VOCAB: usize = 61;

fn spec() -> RunnerSpec {
    RunnerSpec {
        kv_groups: vec![
            KvGroupSpec { window: None, blocks: 800 },
            KvGroupSpec { window: Some(24), blocks: 800 },
        ],
        regime_thresholds: vec![50],
        max_in_flight: 2,
        ..FakeRunner::small_spec()
    }
}

fn engine(spec: &RunnerSpec, options: &EngineOptions) -> Served {
    Served::new(Box::new(FakeRunner::new(spec.clone())), options)
}

fn speculative(speculation: SpeculationOptions) -> EngineOptions {
    EngineOptions { speculation: Some(speculation), ..steady() }
}

fn plain(requests: &[EngineRequest]) -> (Vec<Events>, MetricsSnapshot) {
    let mut engine = engine(&spec(), &steady());
    (engine.serve(requests), engine.metrics())
}

/// Served with an oracle of whose guesses one in `lies` is wrong.
fn foreseen(
    requests: &[EngineRequest],
    events: &[Events],
    lies: u64,
    options: &EngineOptions,
) -> (Vec<Events>, MetricsSnapshot) {
    let oracle = oracle(requests, events, lies, VOCAB);
    let mut engine = engine(&spec(), options).guessing(Box::new(oracle));
    (engine.serve(requests), engine.metrics())
}

#[test]
fn the_text_is_that_without_speculation() {
    for requests in [mixed(VOCAB), guessable(VOCAB)] {
        let (wanted, _) = plain(&requests);
        let mut lookup = engine(&spec(), &speculative(eager()));
        assert_eq!(differences(&lookup.serve(&requests), &wanted), [""; 0]);
        assert!(lookup.metrics().draft_tokens > 0);
        for (lies, overlap) in [(0, true), (2, true), (5, true), (3, false)] {
            let options = EngineOptions { overlap, ..speculative(eager()) };
            let (given, seen) = foreseen(&requests, &wanted, lies, &options);
            assert_eq!(differences(&given, &wanted), [""; 0], "{lies}, {overlap}");
            // A right guess that is a stop token has no row behind it that counts.
            let wrong = seen.draft_tokens - seen.accepted_tokens;
            assert!(seen.accepted_tokens > 0, "{seen:?}");
            assert_eq!(lies > 0, wrong > requests.len() as u64, "{lies}: {wrong}");
        }
    }
}

/// A request for 40 tokens with nothing special.
fn request(seed: u64) -> EngineRequest {
    EngineRequest {
        sampling: SamplingParams { temperature: 1.0, seed, ..SamplingParams::default() },
        logprobs: SamplingLogits::Top(2),
        ..EngineRequest::new(served::prompt(seed, 5, VOCAB), 40)
    }
}

#[test]
fn right_guesses_save_steps_for_one_and_for_several() {
    for requests in [vec![request(1)], (1..7).map(request).collect()] {
        let (wanted, without) = plain(&requests);
        let (given, seen) = foreseen(&requests, &wanted, 0, &speculative(eager()));
        assert_eq!(differences(&given, &wanted), [""; 0]);
        // The prompt, one token of its own, then eight a step.
        assert!(without.steps >= 40 && seen.steps <= 2 + 40 / 8 + 1, "{} steps", seen.steps);
        assert_eq!(seen.accepted_tokens, seen.draft_tokens);
        let tokens = 40 * requests.len() as u64;
        assert_eq!((seen.generation_tokens, without.generation_tokens), (tokens, tokens));
    }
}

#[test]
fn wrong_guesses_cost_little_and_stop() {
    let requests = [request(1)];
    let (wanted, without) = plain(&requests);
    let options = speculative(SpeculationOptions::default());
    let (given, seen) = foreseen(&requests, &wanted, 1, &options);
    assert_eq!(differences(&given, &wanted), [""; 0]);
    assert_eq!(seen.accepted_tokens, 0);
    assert!(seen.drafts < 10 && seen.steps <= without.steps + 1, "{seen:?}");
}

#[test]
fn a_stop_among_right_guesses_ends_the_output() {
    let free = [request(1)];
    let (events, _) = plain(&free);
    let said: Vec<TokenId> = events[0]
        .iter()
        .filter_map(|event| match event {
            EngineEvent::Token { token, .. } => Some(*token),
            _ => None,
        })
        .collect();
    for at in 2..40 {
        let stops = vec![said[at]];
        let first = said.iter().position(|token| *token == said[at]).expect("it was said");
        let stopped = [EngineRequest { stop_tokens: stops, ..request(1) }];
        let (given, _) = foreseen(&stopped, &events, 0, &speculative(eager()));
        let tokens = given[0].iter().filter(|event| matches!(event, EngineEvent::Token { .. }));
        assert_eq!(tokens.count(), first + 1);
        let reason = FinishReason::Stop { token: said[at] };
        assert!(
            matches!(given[0].last(), Some(EngineEvent::Finished { reason: seen, .. }) if *seen == reason)
        );
    }
}

#[test]
fn nobody_guesses_where_rows_depend_on_more_or_cannot_be_taken_back() {
    let penalties = EngineRequest {
        sampling: SamplingParams { presence_penalty: 0.1, ..SamplingParams::default() },
        ..request(1)
    };
    let chain = ChainConstraint { vocab_size: VOCAB, seed: 1, lasts: None };
    let constrained = EngineRequest { constraint: Some(chain.shared()), ..request(2) };
    let requests = [penalties, constrained];
    let (wanted, _) = plain(&requests);
    let (given, seen) = foreseen(&requests, &wanted, 0, &speculative(eager()));
    assert_eq!(differences(&given, &wanted), [""; 0]);
    assert_eq!(seen.draft_tokens, 0);
    let stateful = RunnerSpec { rewinds: false, ..spec() };
    assert!(eager().check(&stateful).is_err() && eager().check(&spec()).is_ok());
    let mut served = engine(&stateful, &speculative(eager()));
    let given = served.alone(&request(1));
    let model = FakeModel::new(&spec()).alone(&request(1), 256);
    assert_eq!(given.len(), model.tokens.len() + 2);
    assert_eq!(served.metrics().draft_tokens, 0);
}
