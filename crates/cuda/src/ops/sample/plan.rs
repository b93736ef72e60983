//! How rows of logits are spread over the device, and the scratch memory that takes.

use super::{
    super::{Traffic, Unsupported},
    layout::{BINS, GROUPS, MOST_CANDIDATES},
};
use crate::driver::DeviceLimits;

/// Logits that a block of the first pass reads at a time.
const TILE: usize = 2048;
/// Most parts of a row.
const MOST_CHUNKS: usize = 64;
/// Blocks of the first pass that one multiprocessor holds.
const BLOCKS_PER_SM: usize = 2;
/// Most logits of a row: the sums of 2^22 tokens of full weight stay below 2^63.
pub const MOST_TOKENS: usize = 1 << 22;
/// Most blocks along the second axis of a grid.
const MOST_ROWS: usize = 65535;

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Rows, padding counted.
    pub rows: usize,
    /// Logits of a row.
    pub vocab: usize,
    /// Distance of two rows of logits and of two slots' counts, in elements; a multiple of 4.
    pub stride: usize,
}

/// How it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// What was asked.
    pub problem: Problem,
    /// Logits of a row that one block takes.
    pub chunk: u32,
    /// Blocks of a row.
    pub chunks: u32,
    /// Tokens that a draw sorts; rows with more go by the bits of the logit.
    pub capacity: u32,
    /// Where the parts of the scratch memory lie.
    pub scratch: Scratch,
}

/// Offsets into the scratch memory, in bytes. What the plan for the most rows asks for serves all plans of fewer rows for
/// the same vocabulary, one after the other: the tickets of all lie in the same place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scratch {
    /// u32, one for each row of the largest plan there is: the only part that must be 0 before the first launch. Every
    /// launch leaves it so.
    pub tickets: u64,
    /// `[rows, chunks]`, 32 bytes each.
    pub partials: u64,
    /// `[rows]`, 48 bytes each.
    pub states: u64,
    /// u64 `[rows, BINS]`.
    pub bin_weights: u64,
    /// u32 `[rows, BINS]`.
    pub bin_counts: u64,
    /// u64 `[rows, chunks]`.
    pub chunk_weights: u64,
    /// u64 `[2, rows, chunks, GROUPS]`.
    pub groups: u64,
    /// f32 `[rows, stride]`.
    pub edited: u64,
    /// All of it.
    pub bytes: u64,
}

impl Plan {
    /// The plan for a problem.
    pub fn new(problem: &Problem, limits: &DeviceLimits) -> Result<Plan, Unsupported> {
        let Problem { rows, vocab, stride } = *problem;
        let fits = (1..=MOST_TOKENS).contains(&vocab) && stride.is_multiple_of(4);
        if !fits || stride < vocab || stride > 2 * MOST_TOKENS || rows > MOST_ROWS {
            return Err(Unsupported {
                operation: "sample",
                seen: format!("{rows} rows of {vocab} logits, {stride} apart"),
                requirement: format!(
                    "at most {MOST_ROWS} rows of 1 to {MOST_TOKENS} logits, a multiple of 4 apart"
                ),
            });
        }
        let blocks = limits.sms as usize * BLOCKS_PER_SM;
        let chunks = (blocks / rows.max(1)).clamp(1, MOST_CHUNKS);
        let chunk = vocab.div_ceil(chunks).next_multiple_of(TILE);
        let chunks = vocab.div_ceil(chunk);
        Ok(Plan {
            problem: *problem,
            chunk: chunk as u32,
            chunks: chunks as u32,
            capacity: MOST_CANDIDATES,
            scratch: Scratch::new(rows as u64, rows.max(blocks) as u64, stride as u64),
        })
    }
}

impl Scratch {
    /// `parts` is a bound on the chunks of all rows that only grows with the rows.
    fn new(rows: u64, parts: u64, stride: u64) -> Scratch {
        let mut end = 0;
        let mut part = |bytes: u64| {
            let begin = end;
            end += bytes.next_multiple_of(256);
            begin
        };
        let scratch = Scratch {
            tickets: part(4 * MOST_ROWS as u64),
            partials: part(32 * parts),
            states: part(48 * rows),
            bin_weights: part(8 * rows * BINS as u64),
            bin_counts: part(4 * rows * BINS as u64),
            chunk_weights: part(8 * parts),
            groups: part(2 * 8 * GROUPS as u64 * parts),
            edited: part(4 * rows * stride),
            bytes: 0,
        };
        Scratch { bytes: end, ..scratch }
    }
}

/// What one pass over the logits moves.
pub fn traffic(problem: &Problem) -> Traffic {
    let values = problem.rows as u64 * problem.vocab as u64;
    Traffic { bytes: 4 * values, flops: values }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn chunks_cover_the_row_and_none_is_empty(rows in 0usize..1000, vocab in 1usize..300_000) {
            let problem = Problem { rows, vocab, stride: vocab.next_multiple_of(4) };
            let plan = Plan::new(&problem, &DeviceLimits::h200()).unwrap();
            let (chunk, chunks) = (plan.chunk as usize, plan.chunks as usize);
            prop_assert!(chunk % TILE == 0 && chunks <= MOST_CHUNKS);
            prop_assert!((chunks - 1) * chunk < vocab && vocab <= chunks * chunk);
        }

        #[test]
        fn the_scratch_of_more_rows_serves_fewer(rows in 0usize..600, vocab in 1usize..300_000) {
            let plan = |rows| {
                let problem = Problem { rows, vocab, stride: vocab.next_multiple_of(4) };
                Plan::new(&problem, &DeviceLimits::h200()).unwrap()
            };
            let (few, more) = (plan(rows), plan(rows + 1));
            prop_assert!(few.scratch.bytes <= more.scratch.bytes);
            prop_assert_eq!(few.scratch.tickets, more.scratch.tickets);
            prop_assert_eq!(few.scratch.partials, more.scratch.partials, "no plan writes where tickets lie");
            prop_assert!(rows * few.chunks as usize <= rows.max(264));
        }
    }

    #[test]
    fn parts_of_the_scratch_do_not_overlap() {
        let problem = Problem { rows: 3, vocab: 4098, stride: 4100 };
        let plan = Plan::new(&problem, &DeviceLimits::h200()).unwrap();
        let Scratch {
            partials,
            states,
            bin_weights,
            bin_counts,
            chunk_weights,
            groups,
            edited,
            ..
        } = plan.scratch;
        assert_eq!(plan.chunks, 3);
        assert!(
            partials >= 4 * MOST_ROWS as u64
                && states >= partials + 32 * 9
                && bin_weights >= states + 144
        );
        assert!(bin_counts >= bin_weights + 24 * 2048 && chunk_weights >= bin_counts + 12 * 2048);
        assert!(groups >= chunk_weights + 72 && edited >= groups + 9 * 64 * 16);
        assert!(plan.scratch.bytes >= edited + 12 * 4100);
    }

    #[test]
    fn odd_problems_are_refused_with_numbers() {
        let problem = Problem { rows: 2, vocab: 6, stride: 6 };
        let error = Plan::new(&problem, &DeviceLimits::h200()).unwrap_err();
        assert!(error.to_string().contains("2 rows of 6 logits, 6 apart"), "{error}");
    }
}
