//! What must be equal to the bit: batched and alone, chunked and whole, copied and original, a prefix hit and a cold prompt,
//! few threads and many.

mod common;

use common::small_options;
use foundation::{BlockId, TokenId};
use runtime::{backend::LoadOptions, engine::EngineOptions};
use testkit::{
    Served,
    equality::{
        FIXTURES, ROUTED, batched_is_alone, chunked_is_whole, copy_is_original, in_chunks, prompt,
    },
    golden::{Golden, logits_distance},
    harness::Harness,
    served::{bitwise, differences, guessable, mixed, prefix_hits, speculated, steady},
};

/// Runs a check on every fixture, loaded anew.
fn on_each(check: impl Fn(&mut Harness, &[TokenId]) -> Vec<String>) {
    for fixture in FIXTURES.iter().chain(&ROUTED) {
        let found = check(&mut common::load(fixture), &prompt(fixture));
        assert!(found.is_empty(), "{fixture} {}", found.join("\n"));
    }
}

#[test]
fn chunked_is_whole_to_the_bit() {
    on_each(chunked_is_whole);
}

#[test]
fn batched_is_alone_to_the_bit() {
    on_each(batched_is_alone);
}

#[test]
fn a_copied_block_serves_as_its_original() {
    on_each(copy_is_original);
}

#[test]
fn a_prefix_hit_is_a_cold_prompt_at_every_length() {
    let mut warm = Served::new(common::load("gemma3").runner, &steady());
    let runner = common::load("gemma3").runner;
    let vocab = runner.spec().vocab_size;
    let mut cold = Served::new(runner, &EngineOptions { prefix_cache: false, ..steady() });
    let (_, findings) = prefix_hits(&mut warm, &mut cold, vocab, bitwise, 0.0);
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}

#[test]
fn in_company_a_request_gives_what_it_gives_alone() {
    let runner = common::load("gemma3").runner;
    let requests = mixed(runner.spec().vocab_size);
    let mut served = Served::new(runner, &steady());
    let together = served.serve(&requests);
    let alone: Vec<_> = requests.iter().map(|request| served.alone(request)).collect();
    let findings = differences(&together, &alone);
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}

#[test]
fn with_guesses_a_request_gives_what_it_gives_without() {
    for fixture in ["gemma3", "phi3-longrope-long", "qwen3"] {
        let engine = |options: &EngineOptions| Served::new(common::load(fixture).runner, options);
        let vocab = common::load(fixture).spec().vocab_size;
        let requests = guessable(vocab);
        let plain = engine(&steady()).serve(&requests);
        for (what, events, _) in speculated(&requests, &plain, engine, vocab) {
            let findings = differences(&events, &plain);
            assert!(findings.is_empty(), "{fixture}, {what}: {}", findings.join("\n"));
        }
    }
}

#[test]
fn threads_do_not_show() {
    let tokens = prompt("gemma3");
    let with = |threads| {
        let options = LoadOptions { threads: Some(threads), ..small_options() };
        in_chunks(&mut common::load_with("gemma3", &options), &tokens, &[50])
    };
    assert_eq!(with(1), with(5));
}

#[test]
fn what_a_stale_block_holds_does_not_matter() {
    let tokens = prompt("mistral");
    let mut harness = common::load("mistral");
    let mut sequence = harness.sequence(0, tokens.len());
    let fresh = harness.logits(&mut sequence, &tokens);
    // Fill every block with another text's keys, then run on used blocks.
    harness.release(sequence);
    let other: Vec<TokenId> = tokens.iter().rev().copied().collect();
    for _ in 0..12 {
        let mut sequence = harness.sequence(0, other.len());
        harness.logits(&mut sequence, &other);
        // Blocks go back to the far end, so that all of them come round.
        for (free, table) in harness.free.iter_mut().zip(sequence.tables) {
            let used: Vec<BlockId> = table.blocks;
            free.splice(0..0, used);
        }
    }
    let mut sequence = harness.sequence(0, tokens.len());
    assert_eq!(harness.logits(&mut sequence, &tokens), fresh);
}

#[test]
fn the_regime_changes_with_the_length_of_the_sequence() {
    let golden = Golden::read("phi3-longrope-long");
    let prompt = &golden.prompts[0];
    let mut harness = common::load("phi3-longrope-long");
    let threshold = harness.spec().regime_thresholds[0];
    assert_eq!(threshold, 16);
    let tokens = &prompt.input_ids[..threshold + 1];
    let wanted = &prompt.logits[..tokens.len() * prompt.vocab_size];
    // One token beyond the threshold: all positions, the early ones too, are in the long regime.
    let mut long = harness.sequence(0, tokens.len());
    let long = harness.logits(&mut long, tokens).concat();
    assert!(logits_distance(&long, wanted).relative < 2e-3);
    let mut short = harness.sequence(1, threshold);
    let short = harness.logits(&mut short, &tokens[..threshold]).concat();
    assert!(logits_distance(&short, &wanted[..short.len()]).relative > 1e-1);
}
