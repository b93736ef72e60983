//! Every fixture against the reference: logits of every position, argmax of every position, 24 greedy tokens.

mod common;

use common::{Work, greedy, into_token};
use foundation::TokenId;
use testkit::golden::{Golden, GoldenPrompt, argmax, logits_distance};

/// `|value - golden| / max(|golden|, 1)` that a float32 engine must stay within.
const TOLERANCE: f32 = 2e-3;

testkit::golden_tests!(agrees_with_its_golden);

fn agrees_with_its_golden(fixture: &str) {
    let golden = Golden::read(fixture);
    let mut harness = common::load(fixture);
    for (index, prompt) in golden.prompts.iter().enumerate() {
        let mut sequence = harness.sequence(0, prompt.input_ids.len());
        let logits = harness.logits(&mut sequence, &prompt.input_ids);
        check_logits(&format!("{fixture}, prompt {index}"), prompt, &logits);
        let mut generated = vec![argmax(logits.last().expect("a prompt is not empty"))];
        while generated.len() < prompt.greedy_ids.len() {
            let tokens = [*generated.last().expect("one token is there")];
            let outputs = vec![(0, greedy())];
            let rows =
                harness.step(vec![Work { sequence: &mut sequence, tokens: &tokens, outputs }]);
            generated.push(into_token(&rows[0]));
            harness.trim(&mut sequence);
        }
        assert_eq!(generated, prompt.greedy_ids, "{fixture}, prompt {index}");
        harness.release(sequence);
    }
}

fn check_logits(what: &str, prompt: &GoldenPrompt, logits: &[Vec<f32>]) {
    let distance = logits_distance(&logits.concat(), &prompt.logits);
    assert!(distance.relative <= TOLERANCE, "{what}: {distance:?}");
    let seen: Vec<TokenId> = logits.iter().map(|row| argmax(row)).collect();
    assert_eq!(seen, prompt.prompt_argmax, "{what}");
}
