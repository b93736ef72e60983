//! Causal softmax attention over the paged cache, with grouped queries, a window and a soft cap:
//!
//! ```text
//! keys of token i:  max(0, i - window + 1) ..= i
//! s[j] = softcap(dot(q, k[j]) * scale)
//! p[j] = exp(s[j] - max s)
//! out  = (p[first] * v[first] + p[first + 1] * v[first + 1] + ...) / sum p
//! ```
//!
//! The keys of a token depend on its place in the sequence alone, and they are taken in ascending order, one fused
//! multiply-add after the other. So a result is the same whether the token came in a prefill chunk or as a decode step.

use std::ops::Range;

use runtime::batch::{BlockTable, SequenceRun};

use super::softcap::softcap;
use crate::{
    kv::{BLOCK_SIZE, KvLayer},
    matrix::Rows,
    ops::exp::exp,
    simd::{Isa, LANES, plain, rectangle::Rectangle},
    threads::{Piece, Threads},
};

/// What attention does, beside its inputs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attention {
    /// Query heads.
    pub heads: usize,
    /// Key and value heads.
    pub kv_heads: usize,
    /// Width of a head.
    pub head_dim: usize,
    /// Multiplies the scores.
    pub scale: f32,
    /// How many tokens a token sees, itself included.
    pub window: Option<usize>,
    /// Cap on the scaled scores.
    pub softcap: Option<f32>,
}

/// Query rows that share one pass over the keys, at most: 12 rows keep four tiles of three busy.
const TILE_QUERIES: usize = 12;

/// Attends for every row: `queries` is `[T, heads * head_dim]`, `out` has `T` rows of as many elements. The keys and
/// values of this step's tokens are in the cache already.
pub fn attend(
    isa: Isa,
    threads: &Threads,
    op: &Attention,
    queries: Rows<'_>,
    runs: &[SequenceRun],
    cache: &KvLayer,
    out: &mut [f32],
) {
    let width = op.heads * op.head_dim;
    let tiles = plan(op, runs, threads.count());
    let whole = Rectangle::new(out, width, queries.count(), width);
    let pieces = cut(op, &tiles, whole);
    threads.each(pieces, |Piece { task, out }| {
        let run = &runs[task.run];
        let table = &run.tables[cache.group];
        Pass { isa, op, queries, cache, table, run, tile: task }.compute(out);
    });
}

/// A rectangle of work: some tokens of one run, some query heads that share a key head.
#[derive(Clone, Debug, PartialEq)]
struct Tile {
    run: usize,
    /// Tokens, counted from the run's first.
    tokens: Range<usize>,
    heads: Range<usize>,
}

/// Tiles of at most [`TILE_QUERIES`] queries, row of tiles after row of tiles; smaller ones where a step has little work.
fn plan(op: &Attention, runs: &[SequenceRun], threads: usize) -> Vec<Tile> {
    let group = op.heads / op.kv_heads;
    let rows: usize = runs.iter().map(|run| run.rows.len()).sum();
    let busy = rows * op.kv_heads >= 2 * threads;
    let heads_each = if busy { group.min(TILE_QUERIES) } else { group.div_ceil(threads) };
    let tokens_each = (TILE_QUERIES / heads_each).max(1);
    let mut tiles = Vec::new();
    for (run, range) in runs.iter().map(|run| run.rows.len()).enumerate() {
        for from in (0..range).step_by(tokens_each) {
            let tokens = from..range.min(from + tokens_each);
            for kv_head in 0..op.kv_heads {
                let end = (kv_head + 1) * group;
                for head in (kv_head * group..end).step_by(heads_each) {
                    let heads = head..end.min(head + heads_each);
                    tiles.push(Tile { run, tokens: tokens.clone(), heads });
                }
            }
        }
    }
    tiles
}

/// Gives every tile its place in `out`.
fn cut<'a>(op: &Attention, tiles: &[Tile], out: Rectangle<'a>) -> Vec<Piece<'a, Tile>> {
    let bands: Vec<&[Tile]> =
        tiles.chunk_by(|a, b| a.run == b.run && a.tokens == b.tokens).collect();
    let parts = out.split_rows(bands.iter().map(|band| band[0].tokens.len()));
    let cut_band = |(band, part): (&[Tile], Rectangle<'a>)| {
        let columns = part.split_columns(band.iter().map(|tile| tile.heads.len() * op.head_dim));
        let piece = |(tile, out): (&Tile, _)| Piece { task: tile.clone(), out };
        band.iter().zip(columns).map(piece).collect::<Vec<_>>()
    };
    bands.into_iter().zip(parts).flat_map(cut_band).collect()
}

/// One tile's work.
struct Pass<'a> {
    isa: Isa,
    op: &'a Attention,
    queries: Rows<'a>,
    cache: &'a KvLayer,
    table: &'a BlockTable,
    run: &'a SequenceRun,
    tile: Tile,
}

impl Pass<'_> {
    fn compute(self, mut out: Rectangle<'_>) {
        let dim = self.op.head_dim;
        let rows = self.tile.tokens.len() * self.tile.heads.len();
        let seen: Vec<Range<usize>> = (0..rows).map(|row| self.keys_seen(row)).collect();
        // Blocks are read whole: scores start at the block of the first key that any row sees.
        let first = seen[0].start / BLOCK_SIZE * BLOCK_SIZE;
        let end = seen[rows - 1].end;
        let stride = (end - first).next_multiple_of(BLOCK_SIZE);
        let mut scores = vec![0.0; rows * stride];
        self.score(first..end, &mut scores, stride);
        let mut sums = vec![0.0; rows];
        for (row, sum) in sums.iter_mut().enumerate() {
            let range =
                row * stride + seen[row].start - first..row * stride + seen[row].end - first;
            *sum = self.soften(&mut scores[range]);
        }
        let mut mixed = vec![0.0; rows * dim];
        self.mix(first..end, &seen, &scores, stride, &mut mixed);
        for (row, mixed) in mixed.chunks(dim).enumerate() {
            let (token, head) = self.place(row);
            let place = &mut out.row_mut(token)[head * dim..(head + 1) * dim];
            for (place, value) in place.iter_mut().zip(mixed) {
                *place = value / sums[row];
            }
        }
    }

    /// Token and head of a row, counted from the tile's first.
    fn place(&self, row: usize) -> (usize, usize) {
        (row / self.tile.heads.len(), row % self.tile.heads.len())
    }

    /// The sequence's tokens that a row's token sees.
    fn keys_seen(&self, row: usize) -> Range<usize> {
        let token = self.run.cached as usize + self.tile.tokens.start + self.place(row).0;
        let first = self.op.window.map_or(0, |window| (token + 1).saturating_sub(window));
        first..token + 1
    }

    fn query(&self, row: usize) -> &[f32] {
        let (token, head) = self.place(row);
        let row = self.queries.row(self.run.rows.start as usize + self.tile.tokens.start + token);
        let head = self.tile.heads.start + head;
        &row[head * self.op.head_dim..(head + 1) * self.op.head_dim]
    }

    fn kv_head(&self) -> usize {
        self.tile.heads.start / (self.op.heads / self.op.kv_heads)
    }

    /// Dot products with the keys of every block in `keys`. Those beyond what a row sees mean nothing and are not read.
    fn score(&self, keys: Range<usize>, scores: &mut [f32], stride: usize) {
        let rows = self.tile.tokens.len() * self.tile.heads.len();
        let queries: Vec<&[f32]> = (0..rows).map(|row| self.query(row)).collect();
        for token in keys.clone().step_by(BLOCK_SIZE) {
            let block = self.cache.block_keys(self.table, token, self.kv_head());
            self.isa.scores(&queries, block, scores, stride, token - keys.start);
        }
    }

    /// Scores to unnormalised probabilities, in place; gives their sum.
    fn soften(&self, scores: &mut [f32]) -> f32 {
        let (scale, isa) = (self.op.scale, self.isa);
        isa.vectorise(|| scores.iter_mut().for_each(|score| *score *= scale));
        if let Some(cap) = self.op.softcap {
            softcap(isa, scores, cap);
        }
        isa.vectorise(|| {
            let highest = highest(scores);
            scores.iter_mut().for_each(|score| *score = exp(*score - highest));
            sum(scores)
        })
    }

    /// `out[row] += sum over keys of p * v`, keys ascending.
    fn mix(
        &self,
        keys: Range<usize>,
        seen: &[Range<usize>],
        scores: &[f32],
        stride: usize,
        out: &mut [f32],
    ) {
        let dim = self.op.head_dim;
        for block in keys.clone().step_by(BLOCK_SIZE) {
            let values = self.cache.block_values(self.table, block, self.kv_head());
            let slots = |row: &Range<usize>| {
                let clip = |token: usize| token.clamp(block, block + BLOCK_SIZE) - block;
                clip(row.start)..clip(row.end)
            };
            let at = block - keys.start;
            let weights = |row: usize, slots: &Range<usize>| {
                &scores[row * stride + at + slots.start..row * stride + at + slots.end]
            };
            // Rows that see the same keys of the block go through together; the ragged edges row by row.
            let mut row = 0;
            for rows in seen.chunk_by(|a, b| slots(a) == slots(b)) {
                let slots = slots(&rows[0]);
                let together: Vec<&[f32]> =
                    (row..row + rows.len()).map(|row| weights(row, &slots)).collect();
                let values = &values[slots.start * dim..slots.end * dim];
                self.isa.accumulate(
                    &together,
                    values,
                    &mut out[row * dim..(row + rows.len()) * dim],
                );
                row += rows.len();
            }
        }
    }
}

/// The highest score; NaNs are passed over here and come out of the sum.
#[inline(always)]
fn highest(scores: &[f32]) -> f32 {
    let mut lanes = [f32::NEG_INFINITY; LANES];
    let (whole, tail) = scores.as_chunks::<LANES>();
    for scores in whole {
        for lane in 0..LANES {
            lanes[lane] = if scores[lane] > lanes[lane] { scores[lane] } else { lanes[lane] };
        }
    }
    lanes.iter().chain(tail).fold(f32::NEG_INFINITY, |a, b| if *b > a { *b } else { a })
}

/// The sum in lanes, as a dot product with ones would give it without its blocks.
#[inline(always)]
fn sum(values: &[f32]) -> f32 {
    let mut acc = [0.0; LANES];
    let (whole, tail) = values.as_chunks::<LANES>();
    for lanes in whole {
        for lane in 0..LANES {
            acc[lane] += lanes[lane];
        }
    }
    for (acc, value) in acc.iter_mut().zip(tail) {
        *acc += value;
    }
    plain::sum_lanes(acc)
}
