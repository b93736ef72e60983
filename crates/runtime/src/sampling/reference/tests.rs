use std::sync::Arc;

use super::*;

/// Eight tokens with probabilities 0.4, 0.2, 0.15, 0.1, 0.06, 0.04, 0.03, 0.02.
const PROBABILITIES: [f64; 8] = [0.4, 0.2, 0.15, 0.1, 0.06, 0.04, 0.03, 0.02];

fn logits() -> Vec<f32> {
    PROBABILITIES.iter().map(|p| p.ln() as f32 + 3.0).collect()
}

fn row(params: SamplingParams) -> RowSampling {
    RowSampling {
        params: Arc::new(params),
        draw: 0,
        suppressed: Arc::from([]),
        allowed: None,
        logits: SamplingLogits::None,
    }
}

fn warm() -> SamplingParams {
    SamplingParams { temperature: 1.0, seed: 11, ..SamplingParams::default() }
}

fn token(logits: &[f32], row: &RowSampling) -> u32 {
    sample(&mut logits.to_vec(), row, None).unwrap().token.0
}

/// Draws 20 000 times and tests the counts against `expected` by chi-square. The seed is fixed: the outcome is too.
fn assert_distribution(params: SamplingParams, expected: &[f64]) {
    const DRAWS: u32 = 20_000;
    let total: f64 = expected.iter().sum();
    let mut seen = vec![0u32; expected.len()];
    let mut row = row(params);
    for draw in 0..DRAWS {
        row.draw = u64::from(draw);
        seen[token(&logits(), &row) as usize] += 1;
    }
    let mut chi_square = 0.0;
    for (seen, expected) in seen.iter().zip(expected) {
        let expected = expected / total * f64::from(DRAWS);
        if expected == 0.0 {
            assert_eq!(*seen, 0, "a filtered token was drawn");
        } else {
            chi_square += (f64::from(*seen) - expected).powi(2) / expected;
        }
    }
    // 7 degrees of freedom: 24.3 has probability 0.001.
    assert!(chi_square < 24.3, "chi-square {chi_square}, seen {seen:?}");
}

#[test]
fn plain_temperature_one_draws_the_distribution() {
    assert_distribution(warm(), &PROBABILITIES);
}

#[test]
fn temperature_raises_probabilities_to_its_inverse() {
    let expected = PROBABILITIES.map(|p| p.powf(1.0 / 0.5));
    assert_distribution(SamplingParams { temperature: 0.5, ..warm() }, &expected);
    let flat = PROBABILITIES.map(|p| p.powf(1.0 / 3.0));
    assert_distribution(SamplingParams { temperature: 3.0, ..warm() }, &flat);
}

#[test]
fn top_k_keeps_k_and_renormalises() {
    let expected = [0.4, 0.2, 0.15, 0.0, 0.0, 0.0, 0.0, 0.0];
    assert_distribution(SamplingParams { top_k: 3, ..warm() }, &expected);
}

#[test]
fn top_p_keeps_the_smallest_set_that_reaches_it() {
    let expected = [0.4, 0.2, 0.15, 0.1, 0.0, 0.0, 0.0, 0.0];
    assert_distribution(SamplingParams { top_p: 0.8, ..warm() }, &expected);
}

#[test]
fn top_p_counts_within_what_top_k_left() {
    // Of 0.4 0.2 0.15 the first two make 0.8.
    let expected = [0.4, 0.2, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0];
    assert_distribution(SamplingParams { top_k: 3, top_p: 0.79, ..warm() }, &expected);
}

#[test]
fn min_p_is_relative_to_the_likeliest() {
    let expected = [0.4, 0.2, 0.15, 0.0, 0.0, 0.0, 0.0, 0.0];
    assert_distribution(SamplingParams { min_p: 0.3, ..warm() }, &expected);
}

#[test]
fn a_long_flat_row_needs_more_than_the_first_candidates() {
    // 4096 equal tokens, top_p 0.5: ids 0..2048 exactly.
    let flat = vec![0.0f32; 4096];
    let mut row = row(SamplingParams { top_p: 0.5, ..warm() });
    let mut greatest = 0;
    for draw in 0..300 {
        row.draw = draw;
        greatest = greatest.max(token(&flat, &row));
    }
    assert!((1800..2048).contains(&greatest), "{greatest}");
}

#[test]
fn extremes_fall_back_to_the_likeliest() {
    let row_of = |params: SamplingParams| {
        let mut row = row(params);
        (0..200).all(|draw| {
            row.draw = draw;
            token(&logits(), &row) == 0
        })
    };
    assert!(row_of(SamplingParams { top_k: 1, ..warm() }));
    assert!(row_of(SamplingParams { top_p: 1e-9, ..warm() }));
    assert!(row_of(SamplingParams { min_p: 1.0, ..warm() }));
    assert!(row_of(SamplingParams { temperature: f32::MIN_POSITIVE, ..warm() }));
    assert!(row_of(SamplingParams { temperature: 1e-40, ..warm() }), "subnormal");
    assert!(!row_of(SamplingParams { temperature: f32::MAX, ..warm() }), "flat");
}

#[test]
fn greedy_takes_the_lowest_id_among_equals() {
    let greedy = row(SamplingParams::default());
    assert_eq!(token(&[1.0, 5.0, 5.0], &greedy), 1);
    assert_eq!(token(&[-0.0, 0.0], &greedy), 0);
}

#[test]
fn the_draw_depends_on_seed_and_index_alone() {
    let at = |seed, draw| {
        token(&logits(), &RowSampling { draw, ..row(SamplingParams { seed, ..warm() }) })
    };
    let once: Vec<u32> = (0..64).map(|draw| at(3, draw)).collect();
    let again: Vec<u32> = (0..64).rev().map(|draw| at(3, draw)).collect();
    assert!(once.iter().eq(again.iter().rev()));
    assert_ne!(once, (0..64).map(|draw| at(4, draw)).collect::<Vec<_>>());
}

#[test]
fn bias_comes_before_penalties() {
    let params = SamplingParams {
        logit_bias: vec![(TokenId(0), -1.0), (TokenId(0), -1.0)],
        repetition_penalty: 2.0,
        frequency_penalty: 0.5,
        presence_penalty: 0.25,
        ..SamplingParams::default()
    };
    let counts = TokenCounts::new(&[TokenId(0), TokenId(1)], &[TokenId(2), TokenId(2)]);
    let mut logits = [1.0, 4.0, 4.0, 0.5];
    let sampled = sample(&mut logits, &row(params), Some(&counts)).unwrap();
    // 0: (1 - 2) * 2; 1: 4 / 2; 2: 4 / 2 - 2 * 0.5 - 0.25; 3: untouched.
    assert_eq!(logits, [-2.0, 2.0, 0.75, 0.5]);
    assert_eq!(sampled.token, TokenId(1));
}

#[test]
fn bans_suppression_and_mask_forbid() {
    let mut greedy = row(SamplingParams { banned: vec![TokenId(0)], ..SamplingParams::default() });
    assert_eq!(token(&logits(), &greedy), 1);
    greedy.suppressed = Arc::from([TokenId(1)]);
    assert_eq!(token(&logits(), &greedy), 2);
    greedy.allowed = Some(Arc::from([0b1011_0011u32]));
    assert_eq!(token(&logits(), &greedy), 4);
    greedy.allowed = Some(Arc::from([]));
    let nothing = sample(&mut logits(), &greedy, None);
    assert_eq!(nothing, Err(SampleError::NothingAllowed));
}

#[test]
fn a_mask_reaches_past_its_first_word() {
    let logits: Vec<f32> = (0..70).map(|id| id as f32).collect();
    let mut greedy = row(SamplingParams::default());
    greedy.allowed = Some(Arc::from([u32::MAX, 1 << 5]));
    assert_eq!(token(&logits, &greedy), 37, "tokens beyond the mask are not allowed");
}

#[test]
fn broken_logits_are_an_error_never_a_token() {
    for bad in [f32::NAN, f32::INFINITY] {
        let mut logits = logits();
        logits[5] = bad;
        let mut row = row(SamplingParams { banned: vec![TokenId(5)], ..warm() });
        let error = sample(&mut logits.clone(), &row, None).unwrap_err();
        assert!(matches!(error, SampleError::NotFinite { token: TokenId(5), .. }));
        row.params = Arc::new(SamplingParams::default());
        assert!(sample(&mut logits, &row, None).is_err());
    }
    let mut nothing = [f32::NEG_INFINITY; 8];
    assert_eq!(sample(&mut nothing, &row(warm()), None), Err(SampleError::NothingAllowed));
    let overflow = SamplingParams { logit_bias: vec![(TokenId(1), f32::MAX)], ..warm() };
    assert!(sample(&mut [0.0, f32::MAX], &row(overflow), None).is_err());
}

#[test]
fn a_forbidden_row_may_contain_minus_infinity() {
    let mut logits = logits();
    logits[0] = f32::NEG_INFINITY;
    assert_ne!(token(&logits, &row(warm())), 0);
}

#[test]
fn logprobs_are_those_of_the_raw_row() {
    let params = SamplingParams {
        temperature: 0.3,
        top_k: 1,
        logit_bias: vec![(TokenId(3), 50.0)],
        ..SamplingParams::default()
    };
    let row = RowSampling { logits: SamplingLogits::Top(2), ..row(params) };
    let sampled = sample(&mut logits(), &row, None).unwrap();
    let logprobs = sampled.logprobs.unwrap();
    assert_eq!((sampled.token, logprobs.token, logprobs.rank), (TokenId(3), TokenId(3), 4));
    assert!((f64::from(logprobs.logprob) - 0.1f64.ln()).abs() < 1e-6);
    let ids: Vec<u32> = logprobs.top.iter().map(|(token, _)| token.0).collect();
    assert_eq!(ids, [0, 1]);
}
