//! The plain twins: what the vector routines mean, in the order of summation that all of them share.

use std::ops::Range;

use super::{K_BLOCK, LANES, rectangle::Rectangle};
use crate::matrix::{Rows, WeightView};

/// Adds up the lanes of an accumulator.
#[inline(always)]
pub fn sum_lanes(acc: [f32; LANES]) -> f32 {
    ((acc[0] + acc[1]) + (acc[2] + acc[3])) + ((acc[4] + acc[5]) + (acc[6] + acc[7]))
}

/// The dot product, in the order that the [module](super) fixes.
#[inline(always)]
pub fn dot(x: &[f32], w: &[f32]) -> f32 {
    let mut blocks = x.chunks(K_BLOCK).zip(w.chunks(K_BLOCK)).map(|(x, w)| dot_block(x, w));
    let first = blocks.next().unwrap_or(0.0);
    blocks.fold(first, |sum, block| sum + block)
}

#[inline(always)]
fn dot_block(x: &[f32], w: &[f32]) -> f32 {
    let mut acc = [0.0f32; LANES];
    let (x, x_tail) = x.as_chunks::<LANES>();
    let (w, w_tail) = w.as_chunks::<LANES>();
    for (x, w) in x.iter().zip(w) {
        step(&mut acc, x, w);
    }
    if !x_tail.is_empty() {
        step(&mut acc, &padded(x_tail), &padded(w_tail));
    }
    sum_lanes(acc)
}

#[inline(always)]
fn step(acc: &mut [f32; LANES], x: &[f32; LANES], w: &[f32; LANES]) {
    for lane in 0..LANES {
        acc[lane] = x[lane].mul_add(w[lane], acc[lane]);
    }
}

#[inline(always)]
fn padded(tail: &[f32]) -> [f32; LANES] {
    let mut lanes = [0.0; LANES];
    lanes[..tail.len()].copy_from_slice(tail);
    lanes
}

/// See [`Isa::project`](super::Isa::project).
pub fn project(x: Rows<'_>, w: WeightView<'_>, outs: Range<usize>, y: &mut Rectangle<'_>) {
    let mut weight = vec![0.0; w.cols()];
    for (column, out) in outs.enumerate() {
        w.format().widen(w.row(out, 0..w.cols()), &mut weight);
        for row in 0..x.count() {
            y.row_mut(row)[column] = dot(x.row(row), &weight);
        }
    }
}

/// See [`Isa::scores`](super::Isa::scores).
pub fn scores(queries: &[&[f32]], keys: &[f32], scores: &mut [f32], stride: usize, at: usize) {
    for (query, scores) in queries.iter().zip(scores.chunks_mut(stride)) {
        for (key, score) in keys.chunks(query.len()).zip(&mut scores[at..]) {
            *score = dot(query, key);
        }
    }
}

/// See [`Isa::accumulate`](super::Isa::accumulate).
#[inline(always)]
pub fn accumulate(weights: &[&[f32]], values: &[f32], out: &mut [f32]) {
    let width = out.len() / weights.len();
    for (weights, out) in weights.iter().zip(out.chunks_mut(width)) {
        for (weight, value) in weights.iter().zip(values.chunks(width)) {
            for (out, value) in out.iter_mut().zip(value) {
                *out = weight.mul_add(*value, *out);
            }
        }
    }
}
