//! What compiling and masks take, on a made-up vocabulary of 150,000 tokens: `cargo bench -p grammar`.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a bench prints")]

use std::time::{Duration, Instant};

use fastrand::Rng;
use foundation::TokenId;
use grammar::{Constraint, TokenSpelling, Vocabulary};
use runtime::sampling::Constraint as _;
use serde_json::json;

const VOCAB: usize = 150_000;

/// Bytes, then words as a byte-level vocabulary has them.
fn spellings(rng: &mut Rng) -> Vec<TokenSpelling> {
    let mut bytes: Vec<Vec<u8>> = (0..=255).map(|byte| vec![byte]).collect();
    while bytes.len() < VOCAB - 1 {
        let space = if rng.bool() { " " } else { "" };
        let word: String = (0..rng.usize(2..9)).map(|_| rng.lowercase()).collect();
        bytes.push(format!("{space}{word}").into_bytes());
    }
    bytes.into_iter().map(|bytes| TokenSpelling { bytes, differs_at_start: false }).collect()
}

fn main() {
    let mut rng = Rng::with_seed(1);
    let spellings = spellings(&mut rng);
    let begin = Instant::now();
    let vocabulary = Vocabulary::new(&spellings, VOCAB, &[TokenId(VOCAB as u32 - 1)]).unwrap();
    println!("vocabulary of {VOCAB}: {:?}", begin.elapsed());
    let person = json!({
        "type": "object", "required": ["name", "age", "tags"], "additionalProperties": false,
        "properties": {"name": {"type": "string"}, "age": {"type": "integer"}, "tags": {"type": "array", "items": {"type": "string"}}},
    });
    let constraints = [
        ("json_object", Constraint::JsonObject),
        ("json_schema", Constraint::JsonSchema(person)),
        ("regex", Constraint::Regex(r"[a-z ]{10,400}\.".into())),
        ("choice", Constraint::Choice(vec!["yes".into(), "no".into(), "perhaps".into()])),
        ("lark", Constraint::Lark("start: w+ \".\"\nw: /[a-z]+/ \" \"".into())),
    ];
    for (name, constraint) in constraints {
        measure(&vocabulary, name, &constraint, &mut rng);
    }
}

/// Compiles once, then walks at random and takes the time of each mask.
fn measure(vocabulary: &Vocabulary, name: &str, constraint: &Constraint, rng: &mut Rng) {
    let begin = Instant::now();
    let compiled = vocabulary.compile(constraint).unwrap();
    let compiling = begin.elapsed();
    let begin = Instant::now();
    drop(compiled.follow().unwrap());
    let copying = begin.elapsed();
    let mut times = Vec::new();
    for _ in 0..20 {
        let mut follower = compiled.follow().unwrap();
        for _ in 0..60 {
            let begin = Instant::now();
            let mask = follower.allowed().unwrap();
            times.push(begin.elapsed());
            let allowed = |id: &u32| mask[*id as usize / 32] >> (id % 32) & 1 == 1;
            let tokens: Vec<u32> = (0..VOCAB as u32 - 1).filter(allowed).collect();
            let Some(token) = rng.choice(tokens) else { break };
            follower.take(TokenId(token)).unwrap();
        }
    }
    times.sort_unstable();
    let mean: Duration = times.iter().sum::<Duration>() / times.len() as u32;
    let (p99, most) = (times[times.len() * 99 / 100], times[times.len() - 1]);
    println!(
        "{name}: compiled {compiling:?}, copied {copying:?}; {} masks: mean {mean:?}, p99 {p99:?}, most {most:?}",
        times.len()
    );
}
