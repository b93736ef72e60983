//! Vector routines, chosen at run time: the only unsafe code of the crate.
//!
//! Each routine has a plain twin in [`plain`], and both give the same bits. That, and that a row's result never
//! depends on the rows beside it, rests on ONE order of summation for every dot product:
//!
//! ```text
//! k is cut into blocks of K_BLOCK elements, each block into steps of LANES elements;
//! in a block, lane l is the chain  acc[l] = fma(x[8 i + l], w[8 i + l], acc[l]),  i = 0, 1, ...;  missing elements are 0
//! block = ((acc0 + acc1) + (acc2 + acc3)) + ((acc4 + acc5) + (acc6 + acc7))
//! dot   = (block0 + block1) + block2 + ...
//! ```
//!
//! A kernel for one row and a kernel for sixty-four differ in what they keep in registers, never in this order. Eight
//! lanes fill an AVX2 register, and two NEON ones.

#![allow(unsafe_code)]

#[cfg(target_arch = "x86_64")]
mod avx2;
pub mod plain;
pub mod rectangle;

use crate::{
    format::Format,
    matrix::{Rows, WeightView},
};
use rectangle::Rectangle;
use std::ops::Range;

/// Lanes of an accumulator.
pub const LANES: usize = 8;
/// Elements of a dot product that are summed in lanes before the lanes are added up.
pub const K_BLOCK: usize = 1024;

/// The instruction set that routines use.
#[derive(Clone, Copy, Debug)]
pub enum Isa {
    /// Plain Rust.
    Plain,
    /// AVX2 with FMA and F16C.
    #[cfg(target_arch = "x86_64")]
    Avx2(avx2::Avx2),
}

impl Isa {
    /// The best set that this machine has.
    pub fn detect() -> Isa {
        #[cfg(target_arch = "x86_64")]
        if let Some(avx2) = avx2::Avx2::detect() {
            return Isa::Avx2(avx2);
        }
        Isa::Plain
    }

    /// Short name for people.
    pub fn name(self) -> &'static str {
        match self {
            Isa::Plain => "plain",
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2(_) => "avx2+fma+f16c",
        }
    }

    /// Widens stored elements to float32; see [`Format::widen`].
    pub fn widen(self, format: Format, bytes: &[u8], out: &mut [f32]) {
        // Plain widening compiles to vector code by itself for F32 and BF16.
        format.widen(bytes, out);
    }

    /// `y[t, o] = dot(x[t], w[outs.start + o])`, for every row of `x` and every output of `outs`.
    pub fn project(
        self,
        x: Rows<'_>,
        w: WeightView<'_>,
        outs: Range<usize>,
        y: &mut Rectangle<'_>,
    ) {
        assert!(outs.end <= w.rows() && x.cols() == w.cols(), "x and w agree");
        assert!(y.rows() == x.count() && y.cols() == outs.len(), "y has a place for every result");
        match self {
            Isa::Plain => plain::project(x, w, outs, y),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2(avx2) => avx2.project(x, w, outs, y),
        }
    }

    /// `scores[r][j] = dot(queries[r], keys[j])` for `keys` of shape `[n, head_dim]`; `scores[r]` starts at
    /// `r * stride + at` and takes `n` values. `head_dim` is at most [`K_BLOCK`].
    pub fn scores(
        self,
        queries: &[&[f32]],
        keys: &[f32],
        scores: &mut [f32],
        stride: usize,
        at: usize,
    ) {
        let Some(first) = queries.first() else { return };
        let n = keys.len() / first.len();
        assert!(first.len() <= K_BLOCK && keys.len() == n * first.len(), "whole keys of one block");
        assert!(queries.iter().all(|query| query.len() == first.len()), "queries of one width");
        assert!(
            at + n <= stride && queries.len() * stride <= scores.len(),
            "a place for each score"
        );
        match self {
            Isa::Plain => plain::scores(queries, keys, scores, stride, at),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2(avx2) => avx2.scores(queries, keys, scores, stride, at),
        }
    }

    /// `out[r] += weights[r][0] * values[0] + weights[r][1] * values[1] + ...`, one fused multiply-add after the other
    /// in this order. `values` is `[n, head_dim]`, `out` is `[R, head_dim]`, each `weights[r]` has `n` elements.
    pub fn accumulate(self, weights: &[&[f32]], values: &[f32], out: &mut [f32]) {
        let Some(first) = weights.first() else { return };
        let width = out.len() / weights.len();
        assert!(out.len() == width * weights.len(), "one output row for each row of weights");
        assert!(weights.iter().all(|row| row.len() == first.len()), "rows of one length");
        assert_eq!(values.len(), first.len() * width, "one value for each weight");
        match self {
            Isa::Plain => plain::accumulate(weights, values, out),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2(avx2) => avx2.accumulate(weights, values, out),
        }
    }

    /// Runs `work` compiled for this instruction set, provided that it inlines: plain loops inside become vector code.
    /// Fused multiply-adds and lane order are in the text, so the bits are the same under every set.
    #[inline]
    pub fn vectorise<R>(self, work: impl FnOnce() -> R) -> R {
        match self {
            Isa::Plain => work(),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2(avx2) => avx2.vectorise(work),
        }
    }
}

#[cfg(test)]
mod tests;
