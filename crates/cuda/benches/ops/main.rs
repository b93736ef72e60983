//! Times of single operations: one line of JSON for each case, with its share of the time that bytes or operations alone would take.
//!
//! `cargo bench -p cuda [-- PART]` runs the cases whose name holds `PART`. Each case is captured many times into one graph, so
//! that no launch by the host is timed.
#![allow(clippy::print_stdout)]

mod attention_prefill;
mod gemm;
mod rows;
mod runner;
mod sample;

use runner::{Outcome, Runner};

/// One line for each operation.
const BENCHES: &[fn(&Runner) -> Outcome] =
    &[rows::bench, sample::bench, gemm::bench, attention_prefill::bench];

fn main() -> Outcome {
    let Some(runner) = Runner::from_arguments() else { return Ok(()) };
    BENCHES.iter().try_for_each(|bench| bench(&runner))
}
