//! What must be equal on the GPU. By default, to the bit: a graph and the launches in it, a run and its repetition, a copied
//! block and its original, one request with two steps in flight and with one. Batch-invariant, to the bit: whatever a row's
//! neighbours, chunks and cache. By default chunks, company and cache change the last digits: they stay as near to the
//! reference, and to one another, as its own bfloat16 is.

#![allow(clippy::print_stdout)] // How near is worth a look, with --nocapture.

mod common;

use common::{DEFAULT, Mode, Sequence, Work, into_logits, load, load_with, small_options};
use foundation::DType;
use runtime::{
    backend::{LoadOptions, StepRunner},
    batch::OutputKind,
    engine::EngineOptions,
    sampling::SamplingLogits,
};
use testkit::{
    Served,
    equality::{
        self, CHUNKS, FIXTURES, ROUTED, batched_is_alone, chunked_is_whole, first_difference,
        in_chunks, in_company, prompt,
    },
    golden::{Golden, GoldenPrompt},
    served::{
        self, bitwise, differences, distance, guessable, mixed, prefix_hits, speculated, steady,
    },
};

const INVARIANT: Mode = Mode { graphs: true, invariant: true };
/// Times the reference's own bfloat16 error that ours may be.
const NOISE: f32 = 2.0;
/// How far apart in log-probability two ways of serving a request may be by default. Each is off by what bfloat16 does, and
/// the fixtures' tokens are made up, far from any text.
const APART: f32 = 0.25;

/// Runs a check on every fixture, loaded anew.
fn on_each(check: impl Fn(&str) -> Option<Vec<String>>) {
    on(&FIXTURES, check);
}

/// The same for those with experts, too, where equal means equal to the bit.
fn on_all(check: impl Fn(&str) -> Option<Vec<String>>) {
    on(&[&FIXTURES[..], &ROUTED].concat(), check);
}

fn on(fixtures: &[&str], check: impl Fn(&str) -> Option<Vec<String>>) {
    let mut findings = Vec::new();
    for fixture in fixtures {
        let Some(found) = check(fixture) else { return };
        findings.extend(found.into_iter().take(3).map(|text| format!("{fixture} {text}")));
    }
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}

fn runner(fixture: &str, mode: Mode) -> Option<Box<dyn StepRunner>> {
    Some(load(fixture, mode)?.runner)
}

/// The golden's longest prompt.
fn golden(fixture: &str) -> GoldenPrompt {
    let prompts = Golden::read(fixture).prompts.into_iter();
    prompts.max_by_key(|prompt| prompt.input_ids.len()).expect("a prompt")
}

/// The largest error of a row.
fn error(seen: &[f32], wanted: &[f32]) -> f32 {
    let errors = seen.iter().zip(wanted).map(|(seen, wanted)| (seen - wanted).abs());
    errors.map(|error| if error.is_nan() { f32::INFINITY } else { error }).fold(0.0, f32::max)
}

/// Rows that are further from the reference than its own noise allows.
fn beyond_noise(golden: &GoldenPrompt, rows: &[(usize, Vec<f32>)]) -> Vec<String> {
    let allowed = NOISE * golden.bf16.max_abs;
    let off = rows.iter().map(|(position, row)| (position, error(row, golden.row(*position))));
    let told = |(position, off)| format!("at {position}: off by {off}, {allowed} allowed");
    off.filter(|(_, off)| *off > allowed).map(told).collect()
}

#[test]
fn a_graph_is_the_launches_in_it_and_a_run_its_repetition() {
    on_all(|fixture| {
        let tokens = prompt(fixture);
        let mut runs = Vec::new();
        for graphs in [true, false, true] {
            let mut harness = load(fixture, Mode { graphs, invariant: false })?;
            runs.push(in_chunks(&mut harness, &tokens, &[50]));
        }
        let others = [(1, "eager"), (2, "a second run")].into_iter();
        let differ = |(other, what): (usize, &str)| {
            let text = first_difference(&runs[0], &runs[other])?;
            Some(format!("graph and {what}: {text}"))
        };
        Some(others.filter_map(differ).collect())
    });
}

#[test]
fn a_copied_block_serves_as_its_original() {
    on_all(|fixture| {
        Some(equality::copy_is_original(&mut load(fixture, DEFAULT)?, &prompt(fixture)))
    });
}

#[test]
fn chunked_is_whole_where_rows_are_invariant() {
    on_all(|fixture| Some(chunked_is_whole(&mut load(fixture, INVARIANT)?, &prompt(fixture))));
}

#[test]
fn batched_is_alone_where_rows_are_invariant() {
    on_all(|fixture| Some(batched_is_alone(&mut load(fixture, INVARIANT)?, &prompt(fixture))));
}

#[test]
fn a_cache_in_fp8_knows_no_chunks_no_company_and_no_graphs() {
    let options = LoadOptions { kv_dtype: Some(DType::F8E4M3), ..small_options() };
    on_all(|fixture| {
        let tokens = prompt(fixture);
        let mut harness = load_with(fixture, INVARIANT, &options)?;
        let mut findings = chunked_is_whole(&mut harness, &tokens);
        findings.extend(batched_is_alone(&mut harness, &tokens));
        let mut runs = Vec::new();
        for graphs in [true, false] {
            let mode = Mode { graphs, ..DEFAULT };
            runs.push(in_chunks(&mut load_with(fixture, mode, &options)?, &tokens, &[50]));
        }
        findings.extend(first_difference(&runs[0], &runs[1]));
        Some(findings)
    });
}

#[test]
fn chunks_and_company_are_within_the_noise_of_the_reference() {
    on_each(|fixture| {
        let golden = golden(fixture);
        let mut harness = load(fixture, DEFAULT)?;
        let mut rows = in_company(&mut harness, &golden.input_ids);
        for chunks in CHUNKS {
            rows.extend(in_chunks(&mut harness, &golden.input_ids, chunks).into_iter().enumerate());
        }
        Some(beyond_noise(&golden, &rows))
    });
}

#[test]
fn more_sequences_than_the_largest_graph_decode_together() {
    const CROWD: usize = 600;
    let golden = golden("mistral");
    let tokens = &golden.input_ids[..3];
    let options = LoadOptions {
        max_sequence_tokens: Some(64),
        max_step_sequences: CROWD,
        max_step_tokens: CROWD,
        ..small_options()
    };
    let Some(mut harness) = load_with("mistral", DEFAULT, &options) else { return };
    let mut sequences: Vec<Sequence> =
        (0..CROWD).map(|slot| harness.sequence(slot as u32, tokens.len())).collect();
    let mut seen = Vec::new();
    for position in 0..tokens.len() {
        let work = sequences.iter_mut().map(|sequence| Work {
            sequence,
            tokens: &tokens[position..position + 1],
            outputs: vec![(0, OutputKind::Logits)],
        });
        let rows = harness.step(work.collect());
        seen.extend(rows.into_iter().map(|row| (position, into_logits(row))));
    }
    assert_eq!(seen.len(), CROWD * tokens.len());
    assert_eq!(beyond_noise(&golden, &seen), [""; 0]);
}

#[test]
fn a_prefix_hit_is_a_cold_prompt_at_every_length() {
    on_each(|fixture| {
        let mut findings = Vec::new();
        for mode in [INVARIANT, DEFAULT] {
            let mut warm = Served::new(runner(fixture, mode)?, &steady());
            let runner = runner(fixture, mode)?;
            let vocab = runner.spec().vocab_size;
            let mut cold = Served::new(runner, &EngineOptions { prefix_cache: false, ..steady() });
            let (worst, found) = match mode.invariant {
                true => prefix_hits(&mut warm, &mut cold, vocab, bitwise, 0.0),
                false => prefix_hits(&mut warm, &mut cold, vocab, distance, APART),
            };
            println!("{fixture} {mode:?}: prefix hits up to {worst:.4} apart from cold prompts");
            findings.extend(found.into_iter().map(|text| format!("{mode:?}: {text}")));
        }
        Some(findings)
    });
}

#[test]
fn two_steps_in_flight_give_what_one_gives() {
    let plain = EngineOptions { overlap: false, ..steady() };
    on_each(|fixture| {
        let served = |mode, options: &EngineOptions, together| -> Option<Vec<served::Events>> {
            let runner = runner(fixture, mode)?;
            assert_eq!(runner.spec().max_in_flight, 2);
            let requests = mixed(runner.spec().vocab_size);
            let mut served = Served::new(runner, options);
            Some(match together {
                true => served.serve(&requests),
                false => requests.iter().map(|request| served.alone(request)).collect(),
            })
        };
        let together = [served(INVARIANT, &steady(), true)?, served(INVARIANT, &plain, true)?];
        // By default the steps of several sequences hold other rows when the next step is planned ahead.
        let alone = [served(DEFAULT, &steady(), false)?, served(DEFAULT, &plain, false)?];
        let again = [served(DEFAULT, &steady(), true)?, served(DEFAULT, &steady(), true)?];
        let pairs = [("together", together), ("alone", alone), ("a second time", again)];
        let differ = |(what, [a, b]): (&str, [Vec<served::Events>; 2])| {
            differences(&a, &b)
                .into_iter()
                .map(|text| format!("{what}: {text}"))
                .collect::<Vec<_>>()
        };
        Some(pairs.into_iter().flat_map(differ).collect())
    });
}

#[test]
fn with_guesses_a_request_gives_what_it_gives_without() {
    // With buckets for several rows of a sequence, and without.
    let ready = LoadOptions { draft_tokens: 7, ..small_options() };
    let ways = [(INVARIANT, small_options()), (DEFAULT, ready), (DEFAULT, small_options())];
    on_each(|fixture| {
        let mut findings = Vec::new();
        for (mode, options) in &ways {
            let runner = || Some(load_with(fixture, *mode, options)?.runner);
            let vocab = runner()?.spec().vocab_size;
            let engine =
                |options: &EngineOptions| Served::new(runner().expect("as before"), options);
            let mut requests = guessable(vocab);
            if !mode.invariant {
                // Distances are told by two rivals, and one rival that wins changes all that comes after it.
                requests.iter_mut().for_each(|request| {
                    request.logprobs = SamplingLogits::Top(2);
                    request.sampling.temperature = 0.0;
                });
            }
            let plain = engine(&steady()).serve(&requests);
            for (what, events, seen) in speculated(&requests, &plain, engine, vocab) {
                let (drafts, accepted) = (seen.draft_tokens, seen.accepted_tokens);
                let way = format!("{mode:?}, {what}");
                if mode.invariant {
                    let found = differences(&events, &plain).into_iter();
                    findings.extend(found.map(|text| format!("{way}: {text}")));
                    println!("{fixture} {way}: {accepted} of {drafts} guesses");
                    continue;
                }
                let apart = events.iter().zip(&plain).map(|(a, b)| distance(a, b));
                let worst = apart.fold(0.0, f32::max);
                println!("{fixture} {way}: {accepted} of {drafts} guesses, {worst:.4} apart");
                if worst > APART {
                    findings.push(format!("{way}: {worst} apart"));
                }
            }
        }
        Some(findings)
    });
}

#[test]
fn in_company_a_request_gives_what_it_gives_alone_where_rows_are_invariant() {
    on_each(|fixture| {
        let runner = runner(fixture, INVARIANT)?;
        let requests = mixed(runner.spec().vocab_size);
        let mut served = Served::new(runner, &steady());
        let together = served.serve(&requests);
        let alone: Vec<_> = requests.iter().map(|request| served.alone(request)).collect();
        Some(differences(&together, &alone))
    });
}
