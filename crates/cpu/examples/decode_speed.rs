//! Measures one model: how fast it decodes and prefills, against how fast the memory can be read.
//!
//! ```text
//! cargo run --release -p cpu --example decode_speed -- CONFIG_DIR [bf16|f16|f32] [--files]
//! ```
//!
//! Weights are made up from the configuration, or read from the directory's files with `--files`. Best of several
//! runs, since other work on the machine only ever slows it down.

#![allow(clippy::print_stdout)]

use std::{env, error::Error, time::Instant};

use cpu::{CpuRunner, backend::load_runner};
use foundation::{
    BlockId, DType, SlotId, TokenId,
    model::{ModelManifest, WeightOrigin},
};
use runtime::{
    backend::{LoadOptions, StepRunner},
    batch::{
        BlockTable, OutputKind, OutputRow, Positions, SequenceRun, StepBatch, StepId, TokenInput,
    },
    progress::ProgressEvent,
    sampling::{RowSampling, SamplingLogits, SamplingParams},
};

/// Tokens in the cache of every decoding sequence.
const CONTEXT: usize = 128;
/// Tokens of a prefill.
const PROMPT: usize = 512;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let config = arguments.first().ok_or("a directory with config.json is needed")?;
    let mut manifest = ModelManifest::new("speed", config);
    if !arguments.iter().any(|argument| argument == "--files") {
        let dtype = arguments.get(1).map_or(Ok(DType::BF16), |name| name.parse())?;
        manifest.weights = WeightOrigin::Synthetic { seed: 1, dtype };
    }
    let options = LoadOptions {
        max_sequence_tokens: Some(2 * PROMPT),
        max_step_sequences: 16,
        max_step_tokens: PROMPT,
        ..LoadOptions::default()
    };
    let mut weight_bytes = 0;
    let started = Instant::now();
    let runner = load_runner(&manifest, &options, &mut |event| {
        if let ProgressEvent::LoadWeights { total, .. } = event {
            weight_bytes = total.0;
        }
        true
    })?;
    println!(
        "{config}: {:.2} GB of weights, loaded in {:.1?}",
        weight_bytes as f64 / 1e9,
        started.elapsed()
    );
    println!("plain read of memory, all threads: {:.1} GB/s", read_speed());
    measure(runner, weight_bytes)
}

fn measure(mut runner: CpuRunner, weight_bytes: u64) -> Result<(), Box<dyn Error>> {
    let mut step = 0;
    let mut best_seconds = |runner: &mut CpuRunner, batch: &StepBatch, rounds: usize| {
        let mut best = f64::INFINITY;
        for _ in 0..rounds {
            step += 1;
            let batch = StepBatch { step: StepId(step), ..batch.clone() };
            let started = Instant::now();
            runner.submit(batch)?;
            runner.wait()?;
            best = best.min(started.elapsed().as_secs_f64());
        }
        Ok::<f64, Box<dyn Error>>(best)
    };
    for rows in [1, 2, 4, 8, 16] {
        let batch = step_batch(&runner, rows, CONTEXT, 1);
        let seconds = best_seconds(&mut runner, &batch, 10)?;
        println!(
            "decode {rows:2} rows: {:7.2} ms, {:7.1} tokens/s, weights at {:5.1} GB/s",
            seconds * 1e3,
            rows as f64 / seconds,
            weight_bytes as f64 / seconds / 1e9
        );
    }
    let batch = step_batch(&runner, 1, 0, PROMPT);
    let seconds = best_seconds(&mut runner, &batch, 4)?;
    println!("prefill {PROMPT}: {:.0} ms, {:.1} tokens/s", seconds * 1e3, PROMPT as f64 / seconds);
    Ok(())
}

/// `sequences` runs of `length` tokens each behind `cached` ones; the last token of each is sampled from.
fn step_batch(runner: &CpuRunner, sequences: usize, cached: usize, length: usize) -> StepBatch {
    let spec = runner.spec();
    let blocks = (cached + length).div_ceil(spec.block_size);
    let run = |index: usize| SequenceRun {
        rows: (index * length) as u32..((index + 1) * length) as u32,
        cached: cached as u32,
        tables: vec![
            BlockTable {
                first: 0,
                blocks: (index * blocks..(index + 1) * blocks).map(|b| BlockId(b as u32)).collect(),
            };
            spec.kv_groups.len()
        ],
        slot: SlotId(index as u32),
        adapter: None,
        regime: 0,
        rewind: 0,
    };
    let sampling = RowSampling {
        params: SamplingParams::default().into(),
        draw: 0,
        suppressed: [].into(),
        allowed: None,
        logits: SamplingLogits::None,
    };
    let rows = sequences * length;
    let output = |index: usize| OutputRow {
        row: ((index + 1) * length - 1) as u32,
        kind: OutputKind::Sample(sampling.clone()),
    };
    StepBatch {
        tokens: (0..rows).map(|row| TokenInput::Known(TokenId(row as u32 % 1000))).collect(),
        positions: Positions::Text((0..rows).map(|row| (cached + row % length) as u32).collect()),
        runs: (0..sequences).map(run).collect(),
        outputs: (0..sequences).map(output).collect(),
        ..StepBatch::default()
    }
}

/// Bytes a second of summing a large buffer on all cores: what decoding can hope for.
fn read_speed() -> f64 {
    use rayon::prelude::*;
    const BYTES: usize = 1 << 30;
    let buffer = vec![1u64; BYTES / 8];
    let mut best = f64::INFINITY;
    for _ in 0..5 {
        let started = Instant::now();
        let sum: u64 = buffer.par_chunks(1 << 16).map(|part| part.iter().sum::<u64>()).sum();
        assert_eq!(sum, BYTES as u64 / 8);
        best = best.min(started.elapsed().as_secs_f64());
    }
    BYTES as f64 / best / 1e9
}
