//! Rows of logits of every shape, and parameters alone and mixed.

use std::sync::Arc;

use foundation::TokenId;
use runtime::{
    batch::OutputKind,
    sampling::{RowSampling, SamplingLogits, SamplingParams},
};

use super::harness::Case;

/// What a row of logits looks like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Shape {
    Normal,
    Peaked,
    Narrow,
    Ties,
    Flat,
    Halves,
    Sorted,
    Outliers,
    HalfForbidden,
    AllButOneForbidden,
    AllForbidden,
    Nan,
    Infinite,
}

impl Shape {
    pub(super) const ALL: [Shape; 13] = [
        Shape::Normal,
        Shape::Peaked,
        Shape::Narrow,
        Shape::Ties,
        Shape::Flat,
        Shape::Halves,
        Shape::Sorted,
        Shape::Outliers,
        Shape::HalfForbidden,
        Shape::AllButOneForbidden,
        Shape::AllForbidden,
        Shape::Nan,
        Shape::Infinite,
    ];

    pub(super) fn logits(self, vocab: usize, rng: &mut fastrand::Rng) -> Vec<f32> {
        let mut logits: Vec<f32> = (0..vocab).map(|_| 2.0 * normal(rng)).collect();
        let mut places = |count: usize| -> Vec<usize> {
            (0..count.min(vocab)).map(|_| rng.usize(0..vocab)).collect()
        };
        match self {
            Shape::Normal => {}
            Shape::Peaked => places(3).into_iter().for_each(|at| logits[at] = 18.0),
            Shape::Narrow => logits.iter_mut().for_each(|l| *l = -10.0 + *l * 0.05),
            Shape::Ties => logits.iter_mut().for_each(|l| *l = l.round()),
            Shape::Flat => logits.fill(-3.25),
            Shape::Halves => {
                logits.iter_mut().for_each(|l| *l = half::bf16::from_f32(*l).to_f32());
            }
            Shape::Sorted => logits.sort_by(f32::total_cmp),
            Shape::Outliers => {
                places(1).into_iter().for_each(|at| logits[at] = 60.0);
                places(2).into_iter().for_each(|at| logits[at] = -1e30);
            }
            Shape::HalfForbidden => {
                places(vocab / 2).into_iter().for_each(|at| logits[at] = f32::NEG_INFINITY);
            }
            Shape::AllButOneForbidden => {
                logits.fill(f32::NEG_INFINITY);
                logits[vocab / 2] = -4.0;
            }
            Shape::AllForbidden => logits.fill(f32::NEG_INFINITY),
            Shape::Nan => places(2).into_iter().for_each(|at| logits[at] = f32::NAN),
            Shape::Infinite => places(2).into_iter().for_each(|at| logits[at] = f32::INFINITY),
        }
        logits
    }
}

/// A standard normal number.
fn normal(rng: &mut fastrand::Rng) -> f32 {
    let (a, b) = (1.0 - rng.f32(), rng.f32());
    (-2.0 * a.ln()).sqrt() * (std::f32::consts::TAU * b).cos()
}

/// A row with these parameters and nothing else.
pub(super) fn sampling(params: SamplingParams) -> RowSampling {
    RowSampling {
        draw: params.seed % 5,
        params: Arc::new(params),
        suppressed: Arc::from([]),
        allowed: None,
        logits: SamplingLogits::None,
    }
}

/// Temperature and filters, each alone and mixed, with their extremes.
pub(super) fn parameters() -> Vec<SamplingParams> {
    let filters = [
        (0.0, 0, 1.0, 0.0),
        (1.0, 0, 1.0, 0.0),
        (0.8, 0, 0.95, 0.0),
        (0.7, 40, 1.0, 0.0),
        (1.0, 1, 1.0, 0.0),
        (1.0, 50, 0.9, 0.0),
        (1.0, 0, 1.0, 0.05),
        (1.2, 1000, 0.99, 0.01),
        (0.1, 50, 1.0, 0.0),
        (100.0, 0, 0.7, 0.0),
        (1e-40, 0, 1.0, 0.0),
        (f32::MIN_POSITIVE, 20, 0.5, 0.0),
        (f32::MAX, 0, 0.5, 0.0),
        (1.0, 0, 1e-9, 0.0),
        (1.0, 0, 0.999_999, 0.0),
        (1.0, 4095, 1.0, 0.0),
        (1.0, 30_000, 0.5, 0.0),
        (1.0, 2, 0.5, 1.0),
        (2.0, 0, 0.9, 0.9),
        (1.0, 100_000, 1.0, 1e-5),
        (30.0, 0, 1.0, 0.5),
    ];
    let params = |((temperature, top_k, top_p, min_p), seed)| SamplingParams {
        temperature,
        top_k,
        top_p,
        min_p,
        seed,
        ..SamplingParams::default()
    };
    filters.into_iter().zip(100u64..).map(params).collect()
}

/// Rows with edits of every kind, and with log-probabilities; also rows that are only scored.
pub(super) fn rows_for(vocab: usize, count: usize, rng: &mut fastrand::Rng) -> Vec<Case> {
    let filters = parameters();
    let cases = (0..count).map(|slot| {
        let shape = Shape::ALL[rng.usize(0..Shape::ALL.len())];
        let top = [0, 1, 5, 20, 128, 129][rng.usize(0..6)];
        let mut case = match rng.u32(0..5) {
            0 => {
                let target = TokenId(rng.u32(0..vocab as u32));
                let logits = shape.logits(vocab, rng);
                let name = format!("{vocab} {shape:?} score {target} top {top}");
                Case::of(name, logits, OutputKind::Score { target, top })
            }
            _ => {
                let mut row = sampling(edited(&filters, vocab, rng));
                if rng.bool() {
                    row.suppressed = some_tokens(vocab, 3, rng).into();
                }
                if rng.u32(0..3) == 0 {
                    let words = vocab.div_ceil(32) - usize::from(rng.u32(0..8) == 0);
                    row.allowed = Some((0..words).map(|_| rng.u32(..) & rng.u32(..)).collect());
                }
                if rng.bool() {
                    row.logits = SamplingLogits::Top(top);
                }
                Case::new(vocab, shape, row, rng)
            }
        };
        case.slot = slot as u32;
        case
    });
    cases.collect()
}

fn some_tokens(vocab: usize, most: usize, rng: &mut fastrand::Rng) -> Vec<TokenId> {
    (0..rng.usize(0..=most)).map(|_| TokenId(rng.u32(0..vocab as u32))).collect()
}

fn edited(filters: &[SamplingParams], vocab: usize, rng: &mut fastrand::Rng) -> SamplingParams {
    let mut params = filters[rng.usize(0..filters.len())].clone();
    params.seed = rng.u64(..);
    if rng.bool() {
        params.repetition_penalty = [1.0, 1.3, 0.7][rng.usize(0..3)];
        params.frequency_penalty = [0.0, 0.6, -0.4][rng.usize(0..3)];
        params.presence_penalty = [0.0, 0.3][rng.usize(0..2)];
    }
    if rng.bool() {
        // Several for one token, unsorted, and one that overflows to no number now and then.
        let tokens = some_tokens(vocab, 700, rng);
        params.logit_bias = tokens.iter().map(|token| (*token, rng.f32() * 8.0 - 4.0)).collect();
        let again: Vec<_> = params.logit_bias.iter().take(5).cloned().collect();
        params.logit_bias.extend(again);
        if rng.u32(0..12) == 0
            && let Some((_, bias)) = params.logit_bias.first_mut()
        {
            *bias = f32::INFINITY;
        }
    }
    if rng.bool() {
        params.banned = some_tokens(vocab, 2000, rng);
    }
    params
}
