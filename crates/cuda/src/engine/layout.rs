//! Where a step's data lies in the step block: one stretch of device memory that one copy fills before each step.
//!
//! Everything is 32-bit words. The fixed part has one place for each row, sequence and output of a bucket, so that captured
//! launches find their data at the same address whatever the step holds. What has no fixed length (block tables, lists of
//! tokens) lies behind it in the pool, and the fixed part says where.

use std::ops::Range;

/// Words in the header: live counts that kernels read.
const COUNTS: usize = 16;
/// Every array begins at a multiple of this many words (64 bytes).
const ALIGNMENT: usize = 16;

/// What a layout has room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Room {
    /// Token rows.
    pub rows: usize,
    /// Sequences.
    pub sequences: usize,
    /// Output rows.
    pub outputs: usize,
}

/// What is the same for all steps of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// KV groups.
    pub groups: usize,
    /// Distinct rotary embeddings.
    pub ropes: usize,
    /// Words of one output row's sampling parameters.
    pub sampling_words: usize,
    /// Kinds of attention.
    pub kinds: usize,
    /// Words of decode attention's list of work, for each kind.
    pub item_words: usize,
}

/// The arrays of a step block, as ranges of words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// What it has room for.
    pub room: Room,
    /// Live counts: see [`Count`].
    pub counts: Range<usize>,
    /// i32 by row: an id, or `-1 - output` of the step before.
    pub tokens: Range<usize>,
    /// i32 by row.
    pub positions: Range<usize>,
    /// For each rotary embedding, i32 by row: which of its frequency tables applies.
    pub regimes: Vec<Range<usize>>,
    /// For each KV group, i32 by row: `block * 16 + offset` that the row's key and value go to; -1: nowhere.
    pub slots: Vec<Range<usize>>,
    /// i32 by sequence: its first row.
    pub first_rows: Range<usize>,
    /// i32 by sequence: tokens in the cache before this step.
    pub cached: Range<usize>,
    /// i32 by sequence: tokens with this step's.
    pub lengths: Range<usize>,
    /// For each KV group, i32 by sequence: where its block table begins in the pool.
    pub table_starts: Vec<Range<usize>>,
    /// For each KV group, i32 by sequence: logical index of the table's first block.
    pub table_firsts: Vec<Range<usize>>,
    /// i32 by output: its row.
    pub output_rows: Range<usize>,
    /// Sampling parameters by output.
    pub sampling: Range<usize>,
    /// For each kind of attention, decode attention's list of work.
    pub items: Vec<Range<usize>>,
    /// Where the pool begins; its words are numbered from here.
    pub pool: usize,
}

/// Places of the live counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// Token rows.
    Rows = 0,
    /// Sequences.
    Sequences = 1,
    /// Output rows.
    Outputs = 2,
}

impl Layout {
    /// The layout for `room`.
    pub fn new(shape: Shape, room: Room) -> Layout {
        let mut next = 0;
        let mut take = |words: usize| {
            let range = next..next + words;
            next = range.end.next_multiple_of(ALIGNMENT);
            range
        };
        let mut each = |count: usize, words: usize| {
            (0..count).map(|_| take(words)).collect::<Vec<Range<usize>>>()
        };
        let [counts, tokens, positions] =
            [COUNTS, room.rows, room.rows].map(|words| each(1, words).remove(0));
        let regimes = each(shape.ropes, room.rows);
        let slots = each(shape.groups, room.rows);
        let [first_rows, cached, lengths] =
            [room.sequences; 3].map(|words| each(1, words).remove(0));
        let table_starts = each(shape.groups, room.sequences);
        let table_firsts = each(shape.groups, room.sequences);
        let [output_rows, sampling] = [room.outputs, room.outputs * shape.sampling_words]
            .map(|words| each(1, words).remove(0));
        let items = each(shape.kinds, shape.item_words);
        Layout {
            room,
            counts,
            tokens,
            positions,
            regimes,
            slots,
            first_rows,
            cached,
            lengths,
            table_starts,
            table_firsts,
            output_rows,
            sampling,
            items,
            pool: next,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_are_aligned_and_apart() {
        let shape =
            Shape { groups: 2, ropes: 1, sampling_words: 24, kinds: 2, item_words: 264 * 8 };
        let layout = Layout::new(shape, Room { rows: 13, sequences: 7, outputs: 5 });
        let mut ranges = vec![
            layout.counts.clone(),
            layout.tokens.clone(),
            layout.positions.clone(),
            layout.first_rows.clone(),
            layout.cached.clone(),
            layout.lengths.clone(),
            layout.output_rows.clone(),
            layout.sampling.clone(),
        ];
        for group in [
            &layout.regimes,
            &layout.slots,
            &layout.table_starts,
            &layout.table_firsts,
            &layout.items,
        ] {
            ranges.extend(group.iter().cloned());
        }
        ranges.sort_by_key(|range| range.start);
        assert!(ranges.iter().all(|range| range.start % ALIGNMENT == 0));
        assert!(ranges.windows(2).all(|pair| pair[0].end <= pair[1].start));
        assert_eq!(layout.pool, ranges.last().unwrap().end.next_multiple_of(ALIGNMENT));
        assert_eq!(layout.slots.len(), 2);
        assert_eq!(layout.tokens.len(), 13);
    }
}
