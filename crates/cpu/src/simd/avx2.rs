//! The routines in AVX2 with FMA and F16C.
//!
//! `project` keeps a tile of 3 rows times 4 outputs in twelve accumulators: a step of 8 elements takes 7 loads for
//! 12 multiply-adds, so the multipliers are the limit. Few rows read the stored weights directly (the memory is the
//! limit then, and prefetching the next four outputs keeps it busy); many rows read them from a widened copy that stays in
//! the second-level cache.

#![allow(clippy::needless_range_loop)] // One index runs over several arrays of registers at once.

use std::{arch::x86_64::*, array, ops::Range};

use super::{K_BLOCK, LANES, rectangle::Rectangle};
use crate::{
    format::Format,
    matrix::{Rows, WeightView},
};

/// Proof that the machine has AVX2, FMA and F16C: only [`Avx2::detect`] makes one.
#[derive(Clone, Copy, Debug)]
pub struct Avx2(());

/// Rows of a tile.
const TILE_ROWS: usize = 3;
/// Outputs of a tile.
const TILE_OUTS: usize = 4;
/// Up to this many rows read the stored weights directly: their tiles widen the same four outputs again, out of the first
/// cache, and the memory never pauses. Steps of Qwen3-0.6B on two cores of Zen 3, directly and by way of the panel: 4
/// rows 114 and 155 ms, 8 rows 181 and 199 ms, 16 rows 346 and 265 ms.
const DIRECT_ROWS: usize = 8;
/// Outputs whose widened weights are kept at a time: 32 * 1024 * 4 bytes = 128 KiB.
const PANEL_OUTS: usize = 32;
/// Rows that pass over a panel before the next: 48 * 1024 * 4 bytes = 192 KiB.
const PANEL_ROWS: usize = 48;

impl Avx2 {
    /// The proof, if the machine has the instructions.
    pub fn detect() -> Option<Avx2> {
        let has = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("f16c");
        has.then_some(Avx2(()))
    }

    /// See [`Isa::vectorise`](super::Isa::vectorise).
    pub fn vectorise<R>(self, work: impl FnOnce() -> R) -> R {
        #[target_feature(enable = "avx2,fma,f16c")]
        fn inner<R>(work: impl FnOnce() -> R) -> R {
            work()
        }
        // SAFETY: `self` proves that the machine has the instructions.
        unsafe { inner(work) }
    }

    /// See [`Isa::project`](super::Isa::project), which has checked the shapes.
    pub fn project(
        self,
        x: Rows<'_>,
        w: WeightView<'_>,
        outs: Range<usize>,
        y: &mut Rectangle<'_>,
    ) {
        // SAFETY: `self` proves that the machine has the instructions.
        unsafe {
            match w.format() {
                Format::F32 => project::<F32>(x, w, outs, y),
                Format::F16 => project::<F16>(x, w, outs, y),
                Format::Bf16 => project::<Bf16>(x, w, outs, y),
            }
        }
    }

    /// See [`Isa::scores`](super::Isa::scores), which has checked the shapes.
    pub fn scores(
        self,
        queries: &[&[f32]],
        keys: &[f32],
        scores: &mut [f32],
        stride: usize,
        at: usize,
    ) {
        for (tile, queries) in queries.chunks(TILE_ROWS).enumerate() {
            let scores = &mut scores[tile * TILE_ROWS * stride..];
            // SAFETY: `self` proves that the machine has the instructions.
            unsafe {
                match *queries {
                    [a, b, c] => score_tile([a, b, c], keys, scores, stride, at),
                    [a, b] => score_tile([a, b], keys, scores, stride, at),
                    [a] => score_tile([a], keys, scores, stride, at),
                    _ => {}
                }
            }
        }
    }

    /// See [`Isa::accumulate`](super::Isa::accumulate), which has checked the shapes.
    pub fn accumulate(self, weights: &[&[f32]], values: &[f32], out: &mut [f32]) {
        let width = out.len() / weights.len();
        for (weights, out) in weights.chunks(4).zip(out.chunks_mut(4 * width)) {
            // SAFETY: `self` proves that the machine has the instructions.
            unsafe {
                match *weights {
                    [a, b, c, d] => accumulate_tile([a, b, c, d], values, out),
                    [a, b, c] => accumulate_tile([a, b, c], values, out),
                    [a, b] => accumulate_tile([a, b], values, out),
                    [a] => accumulate_tile([a], values, out),
                    _ => {}
                }
            }
        }
    }
}

/// A stored element: how eight of them become a register of float32.
trait Element {
    const SIZE: usize;

    /// Widens eight elements.
    ///
    /// # Safety
    /// `8 * SIZE` bytes at `from` can be read, and the machine has AVX2, FMA and F16C.
    unsafe fn load(from: *const u8) -> __m256;
}

struct F32;
struct F16;
struct Bf16;

impl Element for F32 {
    const SIZE: usize = 4;

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn load(from: *const u8) -> __m256 {
        // SAFETY: the caller vouches for 32 bytes.
        unsafe { _mm256_loadu_ps(from.cast()) }
    }
}

impl Element for F16 {
    const SIZE: usize = 2;

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn load(from: *const u8) -> __m256 {
        // SAFETY: the caller vouches for 16 bytes.
        _mm256_cvtph_ps(unsafe { _mm_loadu_si128(from.cast()) })
    }
}

impl Element for Bf16 {
    const SIZE: usize = 2;

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn load(from: *const u8) -> __m256 {
        // SAFETY: the caller vouches for 16 bytes.
        let halves = unsafe { _mm_loadu_si128(from.cast()) };
        _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(halves)))
    }
}

/// Widens fewer than eight elements; the missing ones are 0.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn load_tail<E: Element>(bytes: &[u8]) -> __m256 {
    let mut padded = [0u8; 4 * LANES];
    padded[..bytes.len()].copy_from_slice(bytes);
    // SAFETY: `padded` holds eight elements of at most four bytes.
    unsafe { E::load(padded.as_ptr()) }
}

/// The sums of four accumulators' lanes, each in the order of [`super::plain::sum_lanes`].
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn sum_lanes(acc: [__m256; TILE_OUTS]) -> [f32; TILE_OUTS] {
    let pairs = (_mm256_hadd_ps(acc[0], acc[1]), _mm256_hadd_ps(acc[2], acc[3]));
    let quads = _mm256_hadd_ps(pairs.0, pairs.1);
    let sums = _mm_add_ps(_mm256_castps256_ps128(quads), _mm256_extractf128_ps::<1>(quads));
    let mut out = [0.0; TILE_OUTS];
    // SAFETY: `out` has room for four values.
    unsafe { _mm_storeu_ps(out.as_mut_ptr(), sums) };
    out
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn sum_tile<const R: usize>(acc: [[__m256; TILE_OUTS]; R]) -> [[f32; TILE_OUTS]; R] {
    let mut sums = [[0.0; TILE_OUTS]; R];
    for r in 0..R {
        sums[r] = sum_lanes(acc[r]);
    }
    sums
}

/// One block's dot products of `R` rows with four stored weight rows.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn direct_tile<E: Element, const R: usize>(
    x: [&[f32]; R],
    w: [&[u8]; TILE_OUTS],
) -> [[f32; TILE_OUTS]; R] {
    let len = x[0].len();
    assert!(x.iter().all(|row| row.len() == len), "rows of one length");
    assert!(w.iter().all(|row| row.len() == len * E::SIZE), "weights of the rows' length");
    let mut acc = [[_mm256_setzero_ps(); TILE_OUTS]; R];
    let whole = len / LANES * LANES;
    for at in (0..whole).step_by(LANES) {
        let mut row = [_mm256_setzero_ps(); R];
        for r in 0..R {
            // SAFETY: `at + 8 <= len`, and every row of `x` has `len` elements (asserted above).
            row[r] = unsafe { _mm256_loadu_ps(x[r].as_ptr().add(at)) };
        }
        for out in 0..TILE_OUTS {
            // SAFETY: `at + 8 <= len`, and every row of `w` has `len` elements (asserted above).
            let weight = unsafe { E::load(w[out].as_ptr().add(at * E::SIZE)) };
            for r in 0..R {
                acc[r][out] = _mm256_fmadd_ps(row[r], weight, acc[r][out]);
            }
            if at.is_multiple_of(64 / E::SIZE) {
                // The same place of the next four outputs. A prefetch of an address outside the weight does nothing.
                let ahead = w[out].as_ptr().wrapping_add((TILE_OUTS * len + at) * E::SIZE);
                _mm_prefetch::<_MM_HINT_T0>(ahead.cast());
            }
        }
    }
    if whole < len {
        for out in 0..TILE_OUTS {
            let weight = load_tail::<E>(&w[out][whole * E::SIZE..]);
            for r in 0..R {
                acc[r][out] = _mm256_fmadd_ps(float_tail(&x[r][whole..]), weight, acc[r][out]);
            }
        }
    }
    sum_tile(acc)
}

/// One block's dot products of `R` rows with four widened weight rows, interleaved as [`widen_group`] leaves them.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn panel_tile<const R: usize>(x: [&[f32]; R], group: &[f32]) -> [[f32; TILE_OUTS]; R] {
    let len = x[0].len();
    assert!(x.iter().all(|row| row.len() == len), "rows of one length");
    assert_eq!(group.len(), len.next_multiple_of(LANES) * TILE_OUTS, "a group of the rows' length");
    let mut acc = [[_mm256_setzero_ps(); TILE_OUTS]; R];
    let whole = len / LANES * LANES;
    for at in (0..whole).step_by(LANES) {
        let mut row = [_mm256_setzero_ps(); R];
        for r in 0..R {
            // SAFETY: `at + 8 <= len`, the length of every row (asserted above).
            row[r] = unsafe { _mm256_loadu_ps(x[r].as_ptr().add(at)) };
        }
        for out in 0..TILE_OUTS {
            // SAFETY: `4 * at + 8 * out + 8 <= 4 * whole`, within the group (asserted above).
            let weight =
                unsafe { _mm256_loadu_ps(group.as_ptr().add(TILE_OUTS * at + LANES * out)) };
            for r in 0..R {
                acc[r][out] = _mm256_fmadd_ps(row[r], weight, acc[r][out]);
            }
        }
    }
    if whole < len {
        for out in 0..TILE_OUTS {
            let weight = float_tail(&group[TILE_OUTS * whole + LANES * out..][..LANES]);
            for r in 0..R {
                acc[r][out] = _mm256_fmadd_ps(float_tail(&x[r][whole..]), weight, acc[r][out]);
            }
        }
    }
    sum_tile(acc)
}

/// Up to eight floats; the missing ones are 0.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn float_tail(tail: &[f32]) -> __m256 {
    let mut padded = [0.0; LANES];
    padded[..tail.len()].copy_from_slice(tail);
    // SAFETY: `padded` holds eight floats.
    unsafe { _mm256_loadu_ps(padded.as_ptr()) }
}

/// Widens four stored rows into `[steps][4][8]`, so that a tile reads one stream; asks for the next four meanwhile.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn widen_group<E: Element>(w: [&[u8]; TILE_OUTS], len: usize, group: &mut [f32]) {
    assert!(w.iter().all(|row| row.len() == len * E::SIZE), "weights of one length");
    assert_eq!(group.len(), len.next_multiple_of(LANES) * TILE_OUTS, "a group of that length");
    let (lanes, _) = group.as_chunks_mut::<LANES>();
    for (step, lanes) in lanes.chunks_exact_mut(TILE_OUTS).enumerate() {
        let at = step * LANES;
        for out in 0..TILE_OUTS {
            let weight = if at + LANES <= len {
                // SAFETY: eight elements from `at` lie within the row (asserted above).
                unsafe { E::load(w[out].as_ptr().add(at * E::SIZE)) }
            } else {
                load_tail::<E>(&w[out][at * E::SIZE..])
            };
            // SAFETY: `lanes[out]` has eight floats.
            unsafe { _mm256_storeu_ps(lanes[out].as_mut_ptr(), weight) };
            if at.is_multiple_of(64 / E::SIZE) {
                let ahead = w[out].as_ptr().wrapping_add((TILE_OUTS * len + at) * E::SIZE);
                _mm_prefetch::<_MM_HINT_T1>(ahead.cast());
            }
        }
    }
}

#[target_feature(enable = "avx2,fma,f16c")]
fn project<E: Element>(x: Rows<'_>, w: WeightView<'_>, outs: Range<usize>, y: &mut Rectangle<'_>) {
    if x.count() <= DIRECT_ROWS {
        for from in outs.clone().step_by(TILE_OUTS) {
            for_tiles(0..x.count(), |rows| project_direct::<E>(x, rows, w, &outs, from, y));
        }
        return;
    }
    let mut panel = vec![0.0; PANEL_OUTS * K_BLOCK.min(x.cols().next_multiple_of(LANES))];
    for panel_from in outs.clone().step_by(PANEL_OUTS) {
        let panel_outs = panel_from..outs.end.min(panel_from + PANEL_OUTS);
        for block in (0..x.cols()).step_by(K_BLOCK) {
            let block = block..x.cols().min(block + K_BLOCK);
            let group_len = block.len().next_multiple_of(LANES) * TILE_OUTS;
            let groups = panel_outs.clone().step_by(TILE_OUTS).zip(panel.chunks_mut(group_len));
            for (from, group) in groups {
                widen_group::<E>(weight_rows(w, &panel_outs, from, &block), block.len(), group);
            }
            for top in (0..x.count()).step_by(PANEL_ROWS) {
                let band = top..x.count().min(top + PANEL_ROWS);
                let groups = panel_outs.clone().step_by(TILE_OUTS).zip(panel.chunks(group_len));
                for (from, group) in groups {
                    let place = Place { column: from - outs.start, first: block.start == 0 };
                    for_tiles(band.clone(), |rows| project_panel(x, rows, &block, group, place, y));
                }
            }
        }
    }
}

/// Where a tile's sums go: the columns from `column`, as the first block's or added to those before.
#[derive(Clone, Copy)]
struct Place {
    column: usize,
    first: bool,
}

/// `rows` in tiles.
#[inline(always)]
fn for_tiles(rows: Range<usize>, mut work: impl FnMut(Range<usize>)) {
    for from in rows.clone().step_by(TILE_ROWS) {
        work(from..rows.end.min(from + TILE_ROWS));
    }
}

/// Four weight rows from `from`; the last stands in for those beyond the end, whose results are dropped.
#[inline(always)]
fn weight_rows<'a>(
    w: WeightView<'a>,
    outs: &Range<usize>,
    from: usize,
    block: &Range<usize>,
) -> [&'a [u8]; TILE_OUTS] {
    array::from_fn(|out| w.row((from + out).min(outs.end - 1), block.clone()))
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn project_direct<E: Element>(
    x: Rows<'_>,
    rows: Range<usize>,
    w: WeightView<'_>,
    outs: &Range<usize>,
    from: usize,
    y: &mut Rectangle<'_>,
) {
    for block in (0..x.cols()).step_by(K_BLOCK) {
        let block = block..x.cols().min(block + K_BLOCK);
        let w = weight_rows(w, outs, from, &block);
        let place = Place { column: from - outs.start, first: block.start == 0 };
        let row = |r: usize| &x.row(rows.start + r)[block.clone()];
        match rows.len() {
            3 => store(direct_tile::<E, 3>(array::from_fn(row), w), rows.start, place, y),
            2 => store(direct_tile::<E, 2>(array::from_fn(row), w), rows.start, place, y),
            _ => store(direct_tile::<E, 1>(array::from_fn(row), w), rows.start, place, y),
        }
    }
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn project_panel(
    x: Rows<'_>,
    rows: Range<usize>,
    block: &Range<usize>,
    group: &[f32],
    place: Place,
    y: &mut Rectangle<'_>,
) {
    let row = |r: usize| &x.row(rows.start + r)[block.clone()];
    match rows.len() {
        3 => store(panel_tile::<3>(array::from_fn(row), group), rows.start, place, y),
        2 => store(panel_tile::<2>(array::from_fn(row), group), rows.start, place, y),
        _ => store(panel_tile::<1>(array::from_fn(row), group), rows.start, place, y),
    }
}

/// Writes or adds a tile's sums to `y`; columns beyond its edge are dropped.
#[inline(always)]
fn store<const R: usize>(
    sums: [[f32; TILE_OUTS]; R],
    top: usize,
    place: Place,
    y: &mut Rectangle<'_>,
) {
    for (r, sums) in sums.iter().enumerate() {
        let out = y.row_mut(top + r)[place.column..].iter_mut();
        if place.first {
            out.zip(sums).for_each(|(out, sum)| *out = *sum);
        } else {
            out.zip(sums).for_each(|(out, sum)| *out += *sum);
        }
    }
}

#[target_feature(enable = "avx2,fma,f16c")]
fn score_tile<const R: usize>(
    queries: [&[f32]; R],
    keys: &[f32],
    scores: &mut [f32],
    stride: usize,
    at: usize,
) {
    let width = queries[0].len();
    let bytes: &[u8] = bytemuck::cast_slice(keys);
    let count = keys.len() / width;
    let key = |index: usize| &bytes[4 * index * width..4 * (index + 1) * width];
    for from in (0..count).step_by(TILE_OUTS) {
        let group = array::from_fn(|out| key((from + out).min(count - 1)));
        let sums = direct_tile::<F32, R>(queries, group);
        for (r, sums) in sums.iter().enumerate() {
            let places = &mut scores[r * stride + at + from..r * stride + at + count];
            places.iter_mut().zip(sums).for_each(|(score, sum)| *score = *sum);
        }
    }
}

/// Sixteen floats in two registers.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn load_pair(from: &[f32]) -> [__m256; 2] {
    assert!(from.len() == 2 * LANES, "sixteen floats");
    // SAFETY: `from` has sixteen floats (asserted above).
    unsafe { [_mm256_loadu_ps(from.as_ptr()), _mm256_loadu_ps(from.as_ptr().add(LANES))] }
}

/// Two registers of every output row stay in registers while the values pass by.
#[target_feature(enable = "avx2,fma,f16c")]
fn accumulate_tile<const R: usize>(weights: [&[f32]; R], values: &[f32], out: &mut [f32]) {
    const STEP: usize = 2 * LANES;
    let (width, count) = (out.len() / R, weights[0].len());
    assert!(weights.iter().all(|row| row.len() == count), "rows of one length");
    assert!(out.len() == R * width && values.len() == count * width, "shapes agree");
    let whole = width / STEP * STEP;
    for at in (0..whole).step_by(STEP) {
        let mut acc = [[_mm256_setzero_ps(); 2]; R];
        for r in 0..R {
            acc[r] = load_pair(&out[r * width + at..][..STEP]);
        }
        for index in 0..count {
            let value = load_pair(&values[index * width + at..][..STEP]);
            for r in 0..R {
                let weight = _mm256_set1_ps(weights[r][index]);
                acc[r][0] = _mm256_fmadd_ps(weight, value[0], acc[r][0]);
                acc[r][1] = _mm256_fmadd_ps(weight, value[1], acc[r][1]);
            }
        }
        for r in 0..R {
            let place = &mut out[r * width + at..][..STEP];
            // SAFETY: `place` has sixteen floats.
            unsafe {
                _mm256_storeu_ps(place.as_mut_ptr(), acc[r][0]);
                _mm256_storeu_ps(place.as_mut_ptr().add(LANES), acc[r][1]);
            }
        }
    }
    for r in 0..R {
        for (index, weight) in weights[r].iter().enumerate() {
            for at in whole..width {
                let place = &mut out[r * width + at];
                *place = weight.mul_add(values[index * width + at], *place);
            }
        }
    }
}

// A block ends where a step ends, so that only the last block of a row has a tail.
const _: () = assert!(LANES == 8 && K_BLOCK.is_multiple_of(LANES));
