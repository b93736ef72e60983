//! The seam: what each kind of output gives, what a step may refer to, and which steps are refused.

mod common;

use std::sync::Arc;

use common::{Harness, Work, greedy, into_token, sampling};
use foundation::{BlockId, SlotId, TokenId};
use runtime::{
    backend::StepError,
    batch::{
        BlockCopy, EmbeddingOverride, OutputKind, OutputRow, Positions, RowOutput, SlotReset,
        StepBatch, StepId, TokenInput,
    },
    sampling::SamplingParams,
};
use testkit::golden::{Golden, argmax};

fn tokens() -> Vec<TokenId> {
    Golden::read("qwen3").prompts[1].input_ids.clone()
}

#[test]
fn outputs_of_one_step_agree_with_each_other() {
    let mut harness = common::load("qwen3");
    let tokens = tokens();
    let mut sequence = harness.sequence(0, tokens.len());
    let target = tokens[1];
    let outputs = vec![
        (0, OutputKind::Logits),
        (0, OutputKind::Score { target, top: 2 }),
        (0, OutputKind::Hidden),
        (0, greedy()),
    ];
    let rows = harness.step(vec![Work { sequence: &mut sequence, tokens: &tokens, outputs }]);
    let [RowOutput::Logits(logits), RowOutput::Scored(scored), RowOutput::Hidden(hidden), sampled] =
        &rows[..]
    else {
        panic!("other outputs than were asked for: {rows:?}")
    };
    assert_eq!((logits.len(), hidden.len()), (512, 128));
    assert_eq!(into_token(sampled), argmax(logits));
    let sum: f64 = logits.iter().map(|logit| f64::from(*logit).exp()).sum();
    let logprob = f64::from(logits[target.0 as usize]) - sum.ln();
    assert!((f64::from(scored.logprob) - logprob).abs() < 1e-4);
    assert_eq!(scored.top[0].0, argmax(logits));
}

#[test]
fn a_token_may_be_what_the_step_before_sampled() {
    let mut harness = common::load("qwen3");
    let tokens = tokens();
    let mut known = harness.sequence(0, tokens.len());
    let mut work =
        vec![Work { sequence: &mut known, tokens: &tokens, outputs: vec![(25, greedy())] }];
    let batch = harness.batch(&mut work);
    let first = into_token(&harness.run(batch)[0]);
    let outputs = vec![(0, OutputKind::Logits)];
    let mut work = vec![Work { sequence: &mut known, tokens: &[TokenId(0)], outputs }];
    let mut batch = harness.batch(&mut work);
    batch.tokens[0] = TokenInput::Sampled { output: 0 };
    let sampled = harness.run(batch);
    known.cached -= 1;
    let outputs = vec![(0, OutputKind::Logits)];
    assert_eq!(
        sampled,
        harness.step(vec![Work { sequence: &mut known, tokens: &[first], outputs }])
    );
}

#[test]
fn counts_of_a_slot_grow_with_what_is_sampled() {
    let mut harness = common::load("qwen3");
    let tokens = tokens();
    let params = SamplingParams { presence_penalty: 1e6, ..SamplingParams::default() };
    let mut sequence = harness.sequence(3, tokens.len());
    let mut next = tokens.clone();
    let mut seen = Vec::new();
    for round in 0..6 {
        let outputs = vec![(next.len() - 1, sampling(params.clone()))];
        let mut work = vec![Work { sequence: &mut sequence, tokens: &next, outputs }];
        let mut batch = harness.batch(&mut work);
        if round == 0 {
            let (prompt, generated) = (Arc::from(&tokens[..]), Arc::from([]));
            batch.slot_resets.push(SlotReset { slot: SlotId(3), prompt, generated });
        }
        let token = into_token(&harness.run(batch)[0]);
        assert!(!seen.contains(&token), "{token} came twice under an overwhelming penalty");
        seen.push(token);
        next = vec![token];
    }
}

#[test]
fn a_given_embedding_stands_in_for_the_token() {
    let mut harness = common::load("qwen3");
    let logits = |harness: &mut Harness, given: Option<f32>| {
        let mut sequence = harness.sequence(0, 2);
        let outputs = vec![(1, OutputKind::Logits)];
        let mut work =
            vec![Work { sequence: &mut sequence, tokens: &[TokenId(5), TokenId(6)], outputs }];
        let mut batch = harness.batch(&mut work);
        batch.embeddings.extend(
            given.map(|value| EmbeddingOverride { rows: 0..1, values: vec![value; 128].into() }),
        );
        let rows = harness.run(batch);
        harness.release(sequence);
        rows
    };
    let plain = logits(&mut harness, None);
    let given = logits(&mut harness, Some(0.5));
    assert_ne!(plain, given);
    assert_eq!(given, logits(&mut harness, Some(0.5)));
}

/// A valid step of five tokens, changed in one way, and a part of what the refusal must say.
type BrokenRule = (fn(&mut StepBatch), &'static str);

const BROKEN_RULES: &[BrokenRule] = &[
    (|b| b.step = StepId(0), "step 0 after step"),
    (|b| b.tokens[1] = TokenInput::Known(TokenId(512)), "token 512, but the vocabulary has 512"),
    (|b| b.tokens[1] = TokenInput::Sampled { output: 0 }, "waits for output 0"),
    (|b| b.tokens.clear(), "0 token rows"),
    (|b| b.positions = Positions::Text(vec![0; 4]), "4 positions for 5 rows"),
    (|b| b.positions = Positions::Planes3(Default::default()), "three planes"),
    (|b| b.runs[0].rows = 0..4, "runs cover 4 of 5 rows"),
    (|b| b.runs[0].rows = 1..5, "covers rows 1..5, the next row is 0"),
    (|b| b.runs[0].cached = 252, "reaches 257 tokens, at most 256"),
    (|b| b.runs[0].cached = 14, "blocks 0..1 are given, 0..2 are needed"),
    (|b| b.runs[0].tables[0].first = 1, "blocks 1..2 are given, 0..1 are needed"),
    (|b| b.runs[0].tables[0].blocks[0] = BlockId(9999), "block 9999, the arena has"),
    (|b| b.runs[0].tables.clear(), "0 block tables for 1 KV groups"),
    (|b| b.runs[0].slot = SlotId(8), "slot 8 of 8"),
    (|b| b.runs[0].adapter = Some(1), "adapter"),
    (|b| b.runs[0].regime = 1, "regime 1, the last is 0"),
    (|b| b.runs[0].rewind = 2, "takes back 2 tokens"),
    (|b| b.runs.push(b.runs[0].clone()), "slot 0 is taken"),
    (|b| b.runs.push(b.runs[0].clone()), "another run writes block"),
    (|b| b.outputs.push(OutputRow { row: 5, kind: OutputKind::Hidden }), "row 5"),
    (
        |b| {
            let kind = OutputKind::Score { target: TokenId(600), top: 0 };
            b.outputs.push(OutputRow { row: 4, kind });
        },
        "output 1: token 600",
    ),
    (
        |b| b.block_copies.push(BlockCopy { group: 1, from: BlockId(0), to: BlockId(1) }),
        "the group has 0 blocks",
    ),
    (
        |b| {
            let values = vec![0.0; 3].into();
            b.embeddings.push(EmbeddingOverride { rows: 0..1, values });
        },
        "3 values embed rows 0..1, 128 are needed",
    ),
    (
        |b| {
            let (prompt, generated) = (Arc::from([TokenId(700)]), Arc::from([]));
            b.slot_resets.push(SlotReset { slot: SlotId(0), prompt, generated });
        },
        "reset of slot 0: token 700",
    ),
];

#[test]
fn broken_rules_are_refused_with_numbers_and_harm_nothing() {
    let mut harness = common::load("qwen3");
    let mut sequence = harness.sequence(0, 5);
    let tokens: Vec<TokenId> = (5..10).map(TokenId).collect();
    let outputs = vec![(4, OutputKind::Logits)];
    let valid = harness.batch(&mut [Work { sequence: &mut sequence, tokens: &tokens, outputs }]);
    for (change, wanted) in BROKEN_RULES {
        let mut batch = valid.clone();
        change(&mut batch);
        match harness.runner.submit(batch) {
            Err(StepError::Invalid(text)) => {
                assert!(text.contains(wanted), "{text:?} says not {wanted:?}")
            }
            other => panic!("{wanted}: {other:?}"),
        }
    }
    assert_eq!(harness.run(valid).len(), 1);
}

#[test]
fn one_step_may_be_in_flight() {
    let mut harness = common::load("qwen3");
    assert!(matches!(harness.runner.wait(), Err(StepError::Invalid(_))));
    let mut sequence = harness.sequence(0, 5);
    let batch = |harness: &mut Harness, sequence: &mut common::Sequence| {
        harness.batch(&mut [Work { sequence, tokens: &[TokenId(5)], outputs: vec![] }])
    };
    let first = batch(&mut harness, &mut sequence);
    let second = batch(&mut harness, &mut sequence);
    assert_eq!(harness.runner.submit(first), Ok(StepId(1)));
    assert!(matches!(harness.runner.submit(second.clone()), Err(StepError::Invalid(_))));
    assert!(harness.runner.wait().unwrap().rows.is_empty());
    assert_eq!(harness.runner.submit(second), Ok(StepId(2)));
}
