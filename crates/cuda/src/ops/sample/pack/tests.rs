use std::sync::Arc;

use foundation::SlotId;
use runtime::{
    batch::{SequenceRun, SlotReset},
    sampling::SamplingParams,
};

use super::*;

const VOCAB: usize = 100;

fn sampling(params: SamplingParams) -> RowSampling {
    RowSampling {
        params: Arc::new(params),
        draw: 3,
        suppressed: Arc::from([]),
        allowed: None,
        logits: SamplingLogits::None,
    }
}

/// A step whose run `i` is one row with slot `10 + i`, one output each.
fn step(kinds: Vec<OutputKind>) -> StepBatch {
    let run = |i: u32| SequenceRun {
        rows: i..i + 1,
        cached: 0,
        tables: Vec::new(),
        slot: SlotId(10 + i),
        adapter: None,
        regime: 0,
        rewind: 0,
    };
    StepBatch {
        runs: (0..kinds.len() as u32).map(run).collect(),
        outputs: (0u32..).zip(kinds).map(|(row, kind)| OutputRow { row, kind }).collect(),
        ..StepBatch::default()
    }
}

fn pack_one(row: RowSampling) -> Packed {
    pack(&step(vec![OutputKind::Sample(row)]), 0..1, VOCAB)
}

#[test]
fn plain_greedy_rows_need_the_argmax_alone() {
    let packed = pack_one(sampling(SamplingParams::default()));
    assert_eq!(packed.stages, Stages::default());
    assert_eq!((packed.rows[0].kind, packed.rows[0].flags, packed.rows[0].slot), (1, 0, 10));
}

#[test]
fn a_row_carries_all_its_parameters() {
    let mut row = sampling(SamplingParams {
        temperature: 0.5,
        top_k: 7,
        top_p: 0.9,
        min_p: 0.1,
        repetition_penalty: 1.5,
        frequency_penalty: 0.25,
        presence_penalty: 0.125,
        logit_bias: vec![(TokenId(9), 1.0), (TokenId(2), 2.0), (TokenId(9), 3.0)],
        banned: vec![TokenId(4)],
        seed: 11,
    });
    row.suppressed = Arc::from([TokenId(5), TokenId(6)]);
    row.allowed = Some(Arc::from([1u32, 2, 3, 4]));
    row.logits = SamplingLogits::Top(5);
    let packed = pack_one(row);
    let all = Stages { scans: true, draws: true, logprobs: true, counts: true };
    assert_eq!(packed.stages, all);
    let wanted = SampleRow {
        uniform: philox::uniform(11, 3),
        kind: RowKind::Sample as u32,
        flags: flag::EDITS | flag::KEEPS_RAW | flag::PENALTIES | flag::MASK | flag::LOGPROBS,
        temperature: 0.5,
        top_p: 0.9,
        min_p: 0.1,
        top_k: 7,
        repetition: 1.5,
        frequency: 0.25,
        presence: 0.125,
        slot: 10,
        bias_count: 3,
        ban_count: 3,
        mask_words: 4,
        top: 5,
        ..SampleRow::default()
    };
    assert_eq!(packed.rows, [wanted]);
    let bias: Vec<(u32, f32)> = packed.bias.iter().map(|bias| (bias.token, bias.value)).collect();
    assert_eq!(bias, [(2, 2.0), (9, 1.0), (9, 3.0)], "sorted, of one token in the order given");
    assert_eq!((packed.bans, packed.masks), (vec![4, 5, 6], vec![1, 2, 3, 4]));
}

#[test]
fn a_top_k_of_the_whole_vocabulary_is_none() {
    let row = |top_k| {
        pack_one(sampling(SamplingParams { top_k, ..SamplingParams::default() })).rows[0].top_k
    };
    assert_eq!((row(99), row(100), row(101)), (99, 0, 0));
}

#[test]
fn ranges_of_later_rows_follow_those_of_earlier_ones() {
    let row = || {
        let mut row = sampling(SamplingParams {
            logit_bias: vec![(TokenId(1), 1.0)],
            banned: vec![TokenId(2), TokenId(3)],
            ..SamplingParams::default()
        });
        row.allowed = Some(Arc::from([0u32; 4]));
        OutputKind::Sample(row)
    };
    let step = step(vec![row(), OutputKind::Hidden, row()]);
    let packed = pack(&step, 0..3, VOCAB);
    let last = packed.rows[2];
    assert_eq!((last.bias_start, last.ban_start, last.mask_start, last.slot), (1, 2, 4, 12));
    assert_eq!(packed.rows[1], SampleRow::default());
    assert_eq!(packed.plans[1].copies, Copies::Hidden);
    assert_eq!(pack(&step, 2..3, VOCAB).rows[0].ban_start, 0, "a band's lists are its own");
}

#[test]
fn tokens_beyond_the_vocabulary_fail_the_row_unless_its_logits_are_broken() {
    let cases = [
        SamplingParams { logit_bias: vec![(TokenId(100), 1.0)], ..SamplingParams::default() },
        SamplingParams { banned: vec![TokenId(3), TokenId(100)], ..SamplingParams::default() },
    ];
    for params in cases {
        let packed = pack_one(sampling(params));
        assert_eq!((packed.rows[0].flags, packed.bans.len(), packed.bias.len()), (0, 0, 0));
        let answer = |status| {
            let answer = Answer { status, at: 7, ..Answer::default() };
            packed.plans[0].answer(&answer, &[], &[], &[])
        };
        let beyond = "token 100 is not in the vocabulary of 100";
        assert_eq!(answer(0), RowOutput::Failed(beyond.to_owned()));
        assert_eq!(answer(1), RowOutput::Failed("logit of token 7 is NaN".to_owned()));
        assert_eq!(answer(3), RowOutput::Failed("every token is forbidden".to_owned()));
    }
    let scored = OutputKind::Score { target: TokenId(100), top: 0 };
    let packed = pack(&step(vec![scored]), 0..1, VOCAB);
    assert_eq!(packed.rows[0].kind, RowKind::Nothing as u32);
    let output = packed.plans[0].answer(&Answer::default(), &[], &[], &[]);
    assert!(matches!(output, RowOutput::Failed(text) if text.contains("token 100")));
}

#[test]
fn answers_become_outputs() {
    let mut row = sampling(SamplingParams::default());
    row.logits = SamplingLogits::Top(2);
    let packed = pack_one(row);
    let answer = Answer { token: 5, logprob: -0.5, rank: 2, tops: 1, ..Answer::default() };
    let output = packed.plans[0].answer(&answer, &[8, 0], &[-0.25, 0.0], &[]);
    let logprobs =
        TokenLogprobs { token: TokenId(5), logprob: -0.5, rank: 2, top: vec![(TokenId(8), -0.25)] };
    assert_eq!(output, RowOutput::Sampled { token: TokenId(5), logprobs: Some(logprobs.clone()) });
    let scored = OutputKind::Score { target: TokenId(5), top: 1 };
    let packed = pack(&step(vec![scored]), 0..1, VOCAB);
    let output = packed.plans[0].answer(&answer, &[8, 0], &[-0.25, 0.0], &[]);
    assert_eq!(output, RowOutput::Scored(logprobs));
    let broken = Answer { status: 2, at: 4, ..answer };
    let output = packed.plans[0].answer(&broken, &[], &[], &[]);
    assert_eq!(output, RowOutput::Failed("logit of token 4 is inf".to_owned()));
    let unknown = Answer { status: 99, ..answer };
    assert!(matches!(packed.plans[0].answer(&unknown, &[], &[], &[]), RowOutput::Failed(_)));
}

#[test]
fn more_alternatives_than_the_device_reports_are_scored_on_the_host() {
    let many = MOST_TOP as u32 + 1;
    let logits: Vec<f32> = (0..VOCAB).map(|i| i as f32 * 0.1).collect();
    let wanted = score(&logits, TokenId(5), many).unwrap();
    let mut row =
        sampling(SamplingParams { banned: vec![TokenId(1)], ..SamplingParams::default() });
    row.logits = SamplingLogits::Top(many);
    let scored = OutputKind::Score { target: TokenId(5), top: many };
    let packed = pack(&step(vec![OutputKind::Sample(row), scored]), 0..2, VOCAB);
    assert_eq!(packed.rows[0].flags, flag::EDITS | flag::KEEPS_RAW);
    assert_eq!(packed.rows[1].kind, RowKind::Nothing as u32);
    let answer = Answer { token: 5, ..Answer::default() };
    for plan in &packed.plans {
        assert_eq!(plan.copies, Copies::Logits);
        let seen = match plan.answer(&answer, &[], &[], &logits) {
            RowOutput::Sampled { logprobs: Some(seen), .. } | RowOutput::Scored(seen) => seen,
            other => panic!("{other:?}"),
        };
        assert_eq!(seen, wanted);
    }
}

#[test]
fn resets_carry_both_lists() {
    let reset = |slot, prompt: &[u32], generated: &[u32]| SlotReset {
        slot: SlotId(slot),
        prompt: prompt.iter().map(|token| TokenId(*token)).collect(),
        generated: generated.iter().map(|token| TokenId(*token)).collect(),
    };
    let batch = StepBatch {
        slot_resets: vec![reset(1, &[3, 4], &[5]), reset(0, &[], &[6, 6])],
        ..StepBatch::default()
    };
    let packed = pack_resets(&batch, 2);
    assert_eq!(packed.tokens, [3, 4, 5, 6, 6]);
    let ranges: Vec<[u32; 5]> = packed
        .resets
        .iter()
        .map(|r| [r.slot, r.prompt_start, r.prompt_count, r.generated_start, r.generated_count])
        .collect();
    assert_eq!(ranges, [[1, 0, 2, 2, 1], [0, 3, 0, 3, 2]]);
}
