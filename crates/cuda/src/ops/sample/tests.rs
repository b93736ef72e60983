//! The kernels against the reference sampler, row by row.

mod cases;
mod harness;

use runtime::{
    batch::{OutputKind, RowOutput},
    sampling::{SamplingParams, philox},
};

use self::{
    cases::{Shape, parameters, rows_for, sampling},
    harness::{Bench, Case, judge},
};
use super::super::parity::{Device, Findings};

/// Runs all rows at once, judges each, and does so again by the bits of the logit and one row at a time: the tokens must be the same.
fn check(bench: &mut Bench, cases: &[Case], findings: &mut Findings) {
    let outputs = bench.run(cases, cases.len(), None, findings);
    for (case, output) in cases.iter().zip(&outputs) {
        findings.case();
        let by_rounding = judge(case, bench.counts(case), output, findings);
        bench.borders += usize::from(by_rounding);
    }
    let by_bits = bench.run(cases, cases.len() + 3, Some(0), findings);
    let mut alone = Vec::new();
    for case in cases.iter().step_by(7) {
        alone.extend(bench.run(std::slice::from_ref(case), 1, None, findings));
    }
    let token = |output: &RowOutput| match output {
        RowOutput::Sampled { token, .. } => Some(*token),
        _ => None,
    };
    let others = by_bits.iter().zip(0usize..).map(|(output, i)| ("by bits", i, output));
    let alone = alone.iter().zip((0..).step_by(7)).map(|(output, i)| ("alone", i, output));
    for (how, i, other) in others.chain(alone) {
        let (first, other) = (token(&outputs[i]), token(other));
        if first != other {
            findings.push(&cases[i].name, format!("{first:?} at first, {other:?} {how}"));
        }
    }
}

#[test]
fn small_vocabularies_agree_with_the_reference() {
    let Some(device) = Device::open() else { return };
    let mut findings = Findings::default();
    let mut rng = fastrand::Rng::with_seed(1);
    for vocab in [1, 31, 4096] {
        let mut bench = Bench::new(&device, vocab, 0);
        for shape in Shape::ALL {
            let cases: Vec<Case> = parameters()
                .into_iter()
                .map(|p| Case::new(vocab, shape, sampling(p), &mut rng))
                .collect();
            check(&mut bench, &cases, &mut findings);
        }
        bench.report();
    }
    findings.finish();
}

#[test]
fn large_vocabularies_agree_with_the_reference() {
    let Some(device) = Device::open() else { return };
    let mut findings = Findings::default();
    let mut rng = fastrand::Rng::with_seed(2);
    for vocab in [151_936, 262_144] {
        let mut bench = Bench::new(&device, vocab, 0);
        let cases: Vec<Case> = Shape::ALL
            .into_iter()
            .flat_map(|shape| {
                let few = parameters().into_iter().skip(rng.usize(0..5)).step_by(5);
                few.map(|p| Case::new(vocab, shape, sampling(p), &mut rng)).collect::<Vec<_>>()
            })
            .collect();
        for some in cases.chunks(24) {
            check(&mut bench, some, &mut findings);
        }
        bench.report();
    }
    findings.finish();
}

#[test]
fn edits_and_logprobs_agree_with_the_reference() {
    let Some(device) = Device::open() else { return };
    let mut findings = Findings::default();
    let mut rng = fastrand::Rng::with_seed(3);
    for (vocab, count) in [(1, 40), (31, 200), (4099, 200), (151_936, 48)] {
        let mut bench = Bench::new(&device, vocab, count);
        bench.reset_all(&mut rng);
        let cases: Vec<Case> = rows_for(vocab, count, &mut rng);
        for some in cases.chunks(48) {
            check(&mut bench, some, &mut findings);
        }
        bench.report();
    }
    findings.finish();
}

#[test]
fn counts_follow_the_sampled_tokens() {
    let Some(device) = Device::open() else { return };
    let mut findings = Findings::default();
    let mut rng = fastrand::Rng::with_seed(4);
    let (vocab, slots) = (333, 9);
    let mut bench = Bench::new(&device, vocab, slots);
    bench.reset_all(&mut rng);
    for step in 0..12 {
        let params = |slot: usize| SamplingParams {
            temperature: if slot.is_multiple_of(2) { 0.0 } else { 0.7 },
            repetition_penalty: [1.0, 1.3, 0.8][slot % 3],
            frequency_penalty: 0.4,
            presence_penalty: if slot < 4 { 0.3 } else { 0.0 },
            seed: step,
            ..SamplingParams::default()
        };
        // Few distinct logits: penalties decide, and the same tokens come up again.
        let cases: Vec<Case> = (0..slots)
            .map(|slot| {
                let mut case = Case::new(vocab, Shape::Ties, sampling(params(slot)), &mut rng);
                case.slot = slot as u32;
                case
            })
            .collect();
        let outputs = bench.run_and_count(&cases, &mut findings);
        for (case, output) in cases.iter().zip(&outputs) {
            findings.case();
            judge(case, bench.counts(case), output, &mut findings);
        }
        bench.count(&cases, &outputs);
        bench.check_counts(&format!("step {step}"), &mut findings);
        if step == 5 {
            bench.reset_one(3, &mut rng);
        }
    }
    findings.finish();
}

#[test]
fn the_product_may_hand_over_the_likeliest_of_each_part() {
    let Some(device) = Device::open() else { return };
    let mut findings = Findings::default();
    let mut rng = fastrand::Rng::with_seed(5);
    for vocab in [1, 31, 4096, 151_936] {
        let mut bench = Bench::new(&device, vocab, 0);
        let greedy = || sampling(SamplingParams::default());
        let cases: Vec<Case> = Shape::ALL
            .into_iter()
            .map(|shape| Case::new(vocab, shape, greedy(), &mut rng))
            .collect();
        for parts in [1, 7, 300] {
            let outputs = bench.run_by_parts(&cases, parts, &mut findings);
            for (case, output) in cases.iter().zip(&outputs) {
                findings.case();
                judge(case, None, output, &mut findings);
            }
        }
    }
    findings.finish();
}

#[test]
fn draws_follow_the_distribution() {
    let Some(device) = Device::open() else { return };
    let mut findings = Findings::default();
    const PROBABILITIES: [f64; 8] = [0.4, 0.2, 0.15, 0.1, 0.06, 0.04, 0.03, 0.02];
    const DRAWS: usize = 4000;
    let logits: Vec<f32> = PROBABILITIES.iter().map(|p| p.ln() as f32 + 3.0).collect();
    let warm = SamplingParams { temperature: 1.0, seed: 11, ..SamplingParams::default() };
    let filters = [
        (warm.clone(), PROBABILITIES),
        (SamplingParams { top_k: 3, ..warm.clone() }, [0.4, 0.2, 0.15, 0.0, 0.0, 0.0, 0.0, 0.0]),
        (SamplingParams { top_p: 0.8, ..warm.clone() }, [0.4, 0.2, 0.15, 0.1, 0.0, 0.0, 0.0, 0.0]),
        (SamplingParams { min_p: 0.3, ..warm.clone() }, [0.4, 0.2, 0.15, 0.0, 0.0, 0.0, 0.0, 0.0]),
    ];
    let mut bench = Bench::new(&device, 8, 0);
    for (params, expected) in filters {
        let case = |draw: usize| {
            let mut row = sampling(params.clone());
            row.draw = draw as u64;
            Case::of(format!("draw {draw} of {params:?}"), logits.clone(), OutputKind::Sample(row))
        };
        let cases: Vec<Case> = (0..DRAWS).map(case).collect();
        let mut seen = [0u32; 8];
        for output in bench.run(&cases, DRAWS, None, &mut findings) {
            if let RowOutput::Sampled { token, .. } = output {
                seen[token.0 as usize] += 1;
            }
        }
        let total: f64 = expected.iter().sum();
        let chi_square: f64 = (seen.iter().zip(expected))
            .map(|(seen, expected)| match expected / total * DRAWS as f64 {
                0.0 if *seen == 0 => 0.0,
                expected => (f64::from(*seen) - expected).powi(2) / expected,
            })
            .sum();
        findings.case();
        // 7 degrees of freedom: 24.3 has probability 0.001.
        if chi_square.is_nan() || chi_square > 24.3 {
            findings.push(&format!("{params:?}"), format!("chi-square {chi_square}: {seen:?}"));
        }
    }
    findings.finish();
}

/// The host's part of a draw is the reference's own random number.
#[test]
fn uniform_numbers_are_packed_as_the_reference_draws_them() {
    let mut rng = fastrand::Rng::with_seed(6);
    let params = SamplingParams { temperature: 1.0, seed: 77, ..SamplingParams::default() };
    let mut row = sampling(params);
    row.draw = 1 << 40;
    let case = Case::new(31, Shape::Normal, row, &mut rng);
    let packed = super::pack(&harness::step(&[case]), 0..1, 31);
    assert_eq!(packed.rows[0].uniform, philox::uniform(77, 1 << 40));
}
