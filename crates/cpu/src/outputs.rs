//! What is made of the final hidden states: only the rows that somebody wants pass the final norm and the head.

use foundation::SlotId;
use rayon::prelude::*;
use runtime::{
    batch::{OutputKind, OutputRow, RowOutput, StepBatch},
    sampling::{TokenCounts, sample, score},
};

use crate::{
    executor::Executor,
    matrix::Rows,
    ops::{
        projection::{Projection, project},
        softcap::softcap,
    },
};

/// Rows that pass the head at a time: a bound on the memory for logits.
pub const OUTPUT_ROWS: usize = 32;

/// The answers to a step's output rows, after [`Executor::forward`]. `counts` are those of each slot before the step.
pub fn outputs(executor: &Executor, batch: &StepBatch, counts: &[TokenCounts]) -> Vec<RowOutput> {
    let bands = batch.outputs.chunks(OUTPUT_ROWS);
    executor
        .threads
        .enter(|| bands.flat_map(|band| band_outputs(executor, batch, counts, band)).collect())
}

fn band_outputs(
    executor: &Executor,
    batch: &StepBatch,
    counts: &[TokenCounts],
    band: &[OutputRow],
) -> Vec<RowOutput> {
    let normed: Vec<Vec<f32>> = band.iter().map(|output| normed(executor, output.row)).collect();
    let has_logits = |output: &OutputRow| output.kind != OutputKind::Hidden;
    let scored = band.iter().zip(&normed).filter(|(output, _)| has_logits(output));
    let inputs: Vec<f32> = scored.flat_map(|(_, row)| row.iter().copied()).collect();
    let mut logits = logits(executor, &inputs);
    let mut rows = logits.chunks_mut(executor.model.semantic.vocab_size);
    // A hidden state is its own answer; every other row takes its logits, in order.
    let values = band.iter().zip(normed).map(|(output, hidden)| match has_logits(output) {
        true => (output, Values::Logits(rows.next().expect("a row of logits for each input"))),
        false => (output, Values::Hidden(hidden)),
    });
    let answer = |(output, values): (&OutputRow, Values<'_>)| match values {
        Values::Hidden(hidden) => RowOutput::Hidden(hidden),
        Values::Logits(logits) => {
            answer(output, logits, &counts[slot_of(batch, output.row).0 as usize])
        }
    };
    values.collect::<Vec<_>>().into_par_iter().map(answer).collect()
}

/// What an output row is answered from.
enum Values<'a> {
    Hidden(Vec<f32>),
    Logits(&'a mut [f32]),
}

/// The slot of the run that a row belongs to.
pub fn slot_of(batch: &StepBatch, row: u32) -> SlotId {
    let run = batch.runs.partition_point(|run| run.rows.end <= row);
    batch.runs[run].slot
}

fn normed(executor: &Executor, row: u32) -> Vec<f32> {
    let mut hidden = executor.hidden(row as usize).to_vec();
    executor.model.final_norm.apply(executor.isa, &mut hidden);
    hidden
}

/// `softcap(head(x) * scale)` for every row of `inputs`, `[rows, vocab]`.
fn logits(executor: &Executor, inputs: &[f32]) -> Vec<f32> {
    let (semantic, isa) = (&executor.model.semantic, executor.isa);
    let rows = inputs.len() / semantic.hidden_size;
    let head = match &executor.model.head {
        Some(head) => head.projection(),
        None => Projection { weight: executor.model.embedding.view(), bias: None },
    };
    let mut logits = vec![0.0; rows * semantic.vocab_size];
    let x = Rows::new(inputs, semantic.hidden_size, semantic.hidden_size, rows);
    project(isa, &executor.threads, x, &[head], &mut logits, semantic.vocab_size);
    executor.threads.rows(&mut logits, semantic.vocab_size, rows, |_, row| {
        if semantic.head.logit_scale != 1.0 {
            isa.vectorise(|| row.iter_mut().for_each(|logit| *logit *= semantic.head.logit_scale));
        }
        if let Some(cap) = semantic.head.softcap {
            softcap(isa, row, cap);
        }
    });
    logits
}

fn answer(output: &OutputRow, logits: &mut [f32], counts: &TokenCounts) -> RowOutput {
    match &output.kind {
        OutputKind::Sample(row) => {
            let counts = row.params.needs_counts().then_some(counts);
            RowOutput::from(sample(logits, row, counts))
        }
        OutputKind::Score { target, top } => match score(logits, *target, *top) {
            Ok(logprobs) => RowOutput::Scored(logprobs),
            Err(error) => RowOutput::Failed(error.to_string()),
        },
        OutputKind::Logits => RowOutput::Logits(logits.to_vec()),
        OutputKind::Hidden => unreachable!("a hidden row has no logits"),
    }
}
