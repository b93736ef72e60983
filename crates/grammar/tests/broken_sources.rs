//! Sources nobody would write, and some that somebody would write to do harm: whatever is sent, it is compiled or refused in
//! bounded time, and can be followed for a while or says why not.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "helpers of tests")]

mod sources;

use std::time::{Duration, Instant};

use fastrand::Rng;
use foundation::TokenId;
use grammar::{Constraint, TokenSpelling, Vocabulary};
use runtime::sampling::{Constraint as _, Follower, TokenMask};

/// A token for each byte, then made-up words, the last one ends the output.
fn vocabulary(size: usize) -> Vocabulary {
    let mut rng = Rng::with_seed(1);
    let mut bytes: Vec<Vec<u8>> = (0..=255).map(|byte| vec![byte]).collect();
    let pieces = ["\": ", "\", \"", " {", "{\"", "\"}", "12", "]}", "true", "null", "aaaa", "abab"];
    bytes.extend(pieces.iter().map(|piece| piece.as_bytes().to_vec()));
    while bytes.len() < size - 1 {
        let space = if rng.bool() { " " } else { "" };
        let word: String = (0..rng.usize(2..9)).map(|_| rng.lowercase()).collect();
        bytes.push(format!("{space}{word}").into_bytes());
    }
    let spelling = |bytes| TokenSpelling { bytes, differs_at_start: false };
    let spellings: Vec<TokenSpelling> = bytes.into_iter().map(spelling).collect();
    Vocabulary::new(&spellings, size, &[TokenId(size as u32 - 1)]).unwrap()
}

/// How long things took, and what took longest.
#[derive(Default)]
struct Times(Vec<(Duration, String)>);

impl Times {
    fn note(&mut self, begin: Instant, source: &Constraint) {
        self.0.push((begin.elapsed(), format!("{source:?}").chars().take(160).collect()));
    }

    fn print(&mut self, what: &str) {
        self.0.sort();
        let Some((most, source)) = self.0.last() else { return };
        let at = |part: usize| self.0[(self.0.len() - 1) * part / 100].0;
        let count = self.0.len();
        println!("{what}: {count}, p50 {:?}, p99 {:?}, most {most:?}: {source}", at(50), at(99));
    }
}

/// What became of many sources.
#[derive(Default)]
struct Fates {
    taken: Times,
    refused: Times,
    masks: Times,
    /// Followed no further, each with a reason.
    lost: usize,
}

impl Fates {
    fn meet(&mut self, vocabulary: &Vocabulary, source: &Constraint, steps: usize, rng: &mut Rng) {
        let begin = Instant::now();
        let Ok(compiled) = vocabulary.compile(source) else {
            return self.refused.note(begin, source);
        };
        self.taken.note(begin, source);
        let Ok(mut follower) = compiled.follow() else {
            self.lost += 1;
            return;
        };
        for _ in 0..steps {
            let begin = Instant::now();
            let mask = follower.allowed();
            self.masks.note(begin, source);
            let Ok(mask) = mask else {
                self.lost += 1;
                return;
            };
            if !self.go_on(follower.as_mut(), &mask, source, rng) {
                return;
            }
        }
    }

    /// Takes any token that is allowed; false: the output may only end.
    fn go_on(
        &mut self,
        follower: &mut dyn Follower,
        mask: &TokenMask,
        source: &Constraint,
        rng: &mut Rng,
    ) -> bool {
        let allowed = |id: &u32| mask[*id as usize / 32] >> (id % 32) & 1 == 1;
        let end = mask.len() as u32 * 32 - 1;
        let tokens: Vec<u32> = (0..end).filter(allowed).collect();
        let Some(token) = rng.choice(tokens) else { return false };
        let begin = Instant::now();
        let taken = follower.take(TokenId(token));
        self.masks.note(begin, source);
        taken.is_ok()
    }

    fn print(&mut self) {
        self.taken.print("taken");
        self.refused.print("refused");
        self.masks.print("masks and tokens");
        println!("{} could not be followed to the end", self.lost);
    }
}

fn meet(count: usize, vocab_size: usize, steps: usize) -> Fates {
    let vocabulary = vocabulary(vocab_size);
    let mut rng = Rng::with_seed(11);
    let mut fates = Fates::default();
    for _ in 0..count {
        let source = sources::broken(&mut rng);
        fates.meet(&vocabulary, &source, steps, &mut rng);
    }
    fates.print();
    fates
}

#[test]
fn whatever_is_sent_is_taken_or_refused() {
    let fates = meet(1000, 320, 8);
    assert!(fates.taken.0.len() > 200 && fates.refused.0.len() > 200);
}

#[test]
fn sources_made_to_do_harm_are_refused_or_followed() {
    let refused = harm(320);
    // Each of these took from 0.1 to 1 s before there was a rule against it.
    for name in ["terminal of optionals", "terminal of an expression", "terminals that double"] {
        assert!(refused.contains(&name), "{name}");
    }
}

/// Tries them all; the names of those that are refused.
fn harm(vocab_size: usize) -> Vec<&'static str> {
    let vocabulary = vocabulary(vocab_size);
    let mut rng = Rng::with_seed(2);
    let mut refused = Vec::new();
    for (name, source) in sources::harmful() {
        println!("-- {name}");
        let mut fates = Fates::default();
        fates.meet(&vocabulary, &source, 20, &mut rng);
        fates.print();
        refused.extend((!fates.refused.0.is_empty()).then_some(name));
    }
    refused
}

/// The figures of docs/decisions/0006: `cargo test --release -p grammar --test broken_sources -- --ignored --nocapture`.
#[test]
#[ignore = "a minute, for its figures"]
fn ten_thousand_on_a_large_vocabulary() {
    let fates = meet(10_000, 150_016, 12);
    assert!(fates.taken.0.len() > 2000 && fates.refused.0.len() > 2000);
}

/// As the one above, for the sources that are made for it.
#[test]
#[ignore = "for its figures"]
fn harm_on_a_large_vocabulary() {
    harm(150_016);
}
