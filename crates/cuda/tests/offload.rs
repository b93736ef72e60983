//! What leaves the device for the host and comes back serves as if it had stayed.

#![allow(clippy::print_stdout)] // How much went and came is worth a look, with --nocapture.

mod common;

use common::{Mode, load_with, small_options};
use foundation::{Bytes, DType};
use runtime::{
    backend::LoadOptions,
    engine::{EngineOptions, EngineRequest},
    sampling::SamplingLogits,
};
use testkit::{
    Served,
    equality::FIXTURES,
    served::{cached, differences, prompt, steady},
};

const INVARIANT: Mode = Mode { graphs: true, invariant: true };
/// Prompts, none of which begins as another does, and their tokens. A device that keeps two of them cannot keep all.
const PROMPTS: u64 = 8;
const TOKENS: usize = 100;

#[test]
fn a_prompt_whose_blocks_went_and_came_back_goes_on_as_a_cold_one() {
    let mut findings = Vec::new();
    for (fixture, kv_dtype) in FIXTURES
        .into_iter()
        .map(|fixture| (fixture, None))
        .chain([("qwen3", Some(DType::F8E4M3)), ("gemma2", Some(DType::F8E4M3))])
    {
        let options = LoadOptions {
            max_sequence_tokens: Some(128),
            max_step_sequences: 2,
            max_step_tokens: 64,
            kv_dtype,
            ..small_options()
        };
        let tiered = LoadOptions { kv_offload_memory: Some(Bytes::mib(16)), ..options.clone() };
        // Chunks too short to learn from what a row costs: while nobody knows, all that can be brought back is.
        let steady = EngineOptions { max_step_tokens: Some(16), ..steady() };
        let cold = EngineOptions { prefix_cache: false, ..steady.clone() };
        let Some(runner) = load_with(fixture, INVARIANT, &tiered).map(|loaded| loaded.runner)
        else {
            return;
        };
        let (vocab, host) = (runner.spec().vocab_size, runner.spec().host.clone());
        let mut warm = Served::new(runner, &steady);
        let runner = load_with(fixture, INVARIANT, &options).expect("there is a GPU").runner;
        assert_eq!(runner.spec().host, None);
        let mut cold = Served::new(runner, &cold);
        let request = |seed| EngineRequest {
            logprobs: SamplingLogits::Top(2),
            ..EngineRequest::new(prompt(seed, TOKENS, vocab), 8)
        };
        let requests: Vec<EngineRequest> = (0..PROMPTS).map(request).collect();
        let expected: Vec<_> = requests.iter().map(|request| cold.alone(request)).collect();
        let mut hits = Vec::new();
        for round in 0..3 {
            let seen: Vec<_> = requests.iter().map(|request| warm.alone(request)).collect();
            let differ = differences(&seen, &expected).into_iter().take(3);
            findings.extend(
                differ.map(|text| format!("{fixture} {kv_dtype:?}, round {round}: {text}")),
            );
            hits.push(seen.iter().map(|events| cached(events)).sum::<u32>());
        }
        let metrics = warm.metrics();
        println!(
            "{fixture} {kv_dtype:?}: {host:?}, hits {hits:?}, {} out, {} in, {} void, {} lost, {} tokens restored",
            metrics.kv_blocks_out,
            metrics.kv_blocks_in,
            metrics.kv_blocks_void,
            metrics.kv_blocks_lost,
            metrics.restored_tokens
        );
        if metrics.restored_tokens == 0 || hits[2] == 0 {
            findings.push(format!("{fixture} {kv_dtype:?}: nothing came back"));
        }
    }
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}
