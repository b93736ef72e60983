//! Times of whole steps without an engine around them: decode steps two in flight, each reading what the last one sampled,
//! prefills of one prompt, and steps that verify guesses, one at a time as they must be.
//!
//! `cargo bench -p cuda --bench steps -- CONFIG_DIR [eager] [rule] [log] [prefill] [verify] [SIZES]` makes weights up from a `config.json` and
//! prints one line of JSON for each batch size and prompt length. With batch sizes (`8,32,64`) it times those, and no prefills; with
//! `prefill` it times prefills alone, more of each, and sizes are lengths of prompts; with `rule` it does not time products as it
//! loads, with `log` it tells on the standard error what that gave. `verify` times steps of 1, 2, 4 and 8 rows a sequence alone (1: a
//! decode step, one at a time); sizes are numbers of sequences. With `unready` the model was not told of guesses as it was loaded.
#![allow(clippy::print_stdout)]

use std::{error::Error, time::Instant};

use cuda::{
    backend::{CudaBackend, Modes},
    engine::products::Products,
};
use foundation::{
    BlockId, DType, SlotId, TokenId,
    model::{ModelManifest, WeightOrigin},
};
use runtime::{
    backend::{LoadOptions, StepRunner},
    batch::{
        BlockTable, OutputKind, OutputRow, Positions, SequenceRun, StepBatch, StepId, TokenInput,
    },
    sampling::{RowSampling, SamplingLogits, SamplingParams},
};

const BATCHES: [usize; 6] = [1, 8, 16, 32, 64, 128];
const PROMPTS: [usize; 3] = [512, 2048, 8000];
/// Tokens in the cache before the first timed step, and timed steps.
const CONTEXT: usize = 128;
const STEPS: usize = 256;
/// Timed steps that verify.
const VERIFIED: usize = 64;

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

fn main() -> Outcome {
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    let Some(config) = arguments.next() else {
        println!("name the directory of a config.json");
        return Ok(());
    };
    let rest: Vec<String> = arguments.collect();
    let asked = |word: &str| rest.iter().any(|argument| argument == word);
    let (graphs, prefills) = (!asked("eager"), asked("prefill"));
    let verifies = asked("verify");
    let words = ["eager", "prefill", "rule", "log", "verify", "unready"];
    let lists = rest.iter().filter(|argument| !words.contains(&argument.as_str()));
    let sizes = lists.flat_map(|list| list.split(',')).map(str::parse);
    let sizes: Vec<usize> = sizes.collect::<Result<_, _>>()?;
    let (batches, prompts) = match sizes.is_empty() {
        _ if verifies => (&[][..], &[][..]),
        true if prefills => (&[][..], &PROMPTS[..]),
        true => (&BATCHES[..], &PROMPTS[..]),
        false if prefills => (&[][..], &sizes[..]),
        false => (&sizes[..], &[][..]),
    };
    let repeats = if prefills { 7 } else { 4 };
    if asked("log") {
        let level = tracing::Level::DEBUG;
        tracing_subscriber::fmt()
            .with_max_level(level)
            .with_ansi(false)
            .with_writer(std::io::stderr)
            .init();
    }
    let Some(gpu) = cuda::testing::gpu() else { return Ok(()) };
    let manifest = ModelManifest {
        weights: WeightOrigin::Synthetic { seed: 7, dtype: DType::BF16 },
        ..ModelManifest::new(config.as_str(), &config)
    };
    let options = LoadOptions {
        max_sequence_tokens: Some(8192),
        max_step_sequences: 128,
        max_step_tokens: 8192,
        draft_tokens: if verifies && !asked("unready") { 7 } else { 0 },
        ..LoadOptions::default()
    };
    let start = Instant::now();
    let products = match asked("rule") {
        true => Products::ByRule,
        false => Products::Timed { folder: None },
    };
    let backend = CudaBackend::new(gpu, Modes { graphs, invariant: false }).with_products(products);
    let runner = backend.load_runner(&manifest, &options, &mut |_| true)?;
    println!(r#"{{"config": "{config}", "ready_s": {:.3}}}"#, start.elapsed().as_secs_f64());
    let mut bench = Bench { runner: Box::new(runner), step: 0 };
    for &batch in batches {
        let ms = bench.decode(batch)?;
        println!(r#"{{"config": "{config}", "decode": {batch}, "ms_per_step": {ms:.4}}}"#);
    }
    for &batch in sizes.iter().filter(|_| verifies) {
        for context in [CONTEXT, 7000] {
            for rows in [1, 2, 4, 8] {
                let ms = bench.verify(batch, rows, context)?;
                println!(
                    r#"{{"config": "{config}", "verify": {batch}, "rows": {rows}, "context": {context}, "ms_per_step": {ms:.4}}}"#
                );
            }
        }
    }
    for &prompt in prompts {
        let first = bench.prefill(prompt)?;
        let mut times: Vec<f64> =
            (1..repeats).map(|_| bench.prefill(prompt)).collect::<Outcome<Vec<f64>>>()?;
        times.sort_by(f64::total_cmp);
        let (median, best) = (times[times.len() / 2], times[0]);
        println!(
            r#"{{"config": "{config}", "prefill": {prompt}, "ms": {median:.3}, "best": {best:.3}, "first": {first:.3}}}"#
        );
    }
    Ok(())
}

struct Bench {
    runner: Box<dyn StepRunner>,
    step: u64,
}

impl Bench {
    /// Milliseconds of a decode step of `batch` sequences, greedy.
    fn decode(&mut self, batch: usize) -> Outcome<f64> {
        let mut begin = Instant::now();
        for at in 0..STEPS + 8 {
            if at == 8 {
                begin = Instant::now();
            }
            let step = self.decode_step(batch, at);
            self.runner.submit(step)?;
            if at > 0 {
                self.runner.wait()?;
            }
        }
        self.runner.wait()?;
        Ok(begin.elapsed().as_secs_f64() * 1e3 / STEPS as f64)
    }

    fn decode_step(&mut self, batch: usize, at: usize) -> StepBatch {
        self.step += 1;
        let cached = CONTEXT + at;
        let token = |row: usize| match at {
            0 => TokenInput::Known(TokenId(row as u32 + 1)),
            _ => TokenInput::Sampled { output: row as u32 },
        };
        StepBatch {
            step: StepId(self.step),
            tokens: (0..batch).map(token).collect(),
            positions: Positions::Text(vec![cached as u32; batch]),
            runs: (0..batch).map(|row| self.run(row as u32..row as u32 + 1, row, cached)).collect(),
            outputs: (0..batch).map(|row| greedy(row as u32)).collect(),
            ..StepBatch::default()
        }
    }

    /// Milliseconds of a step of `rows` rows of each of `batch` sequences behind `context` tokens, all of them sampled, none right.
    fn verify(&mut self, batch: usize, rows: usize, context: usize) -> Outcome<f64> {
        let mut begin = Instant::now();
        for at in 0..VERIFIED + 4 {
            if at == 4 {
                begin = Instant::now();
            }
            self.step += 1;
            let cached = context + at;
            let positions = (0..batch).flat_map(|_| cached..cached + rows);
            let run = |index: usize| {
                let first = (index * rows) as u32;
                let stride = (context + VERIFIED + 16).div_ceil(self.runner.spec().block_size);
                self.run_at(first..first + rows as u32, index, cached, stride)
            };
            let count = batch * rows;
            let step = StepBatch {
                step: StepId(self.step),
                tokens: (0..count).map(|row| TokenInput::Known(TokenId(row as u32 + 1))).collect(),
                positions: Positions::Text(positions.map(|at| at as u32).collect()),
                runs: (0..batch).map(run).collect(),
                outputs: (0..count).map(|row| greedy(row as u32)).collect(),
                ..StepBatch::default()
            };
            self.runner.submit(step)?;
            self.runner.wait()?;
        }
        Ok(begin.elapsed().as_secs_f64() * 1e3 / VERIFIED as f64)
    }

    /// Milliseconds from the submission of a prompt to its first token.
    fn prefill(&mut self, length: usize) -> Outcome<f64> {
        self.step += 1;
        let token = |at: usize| TokenInput::Known(TokenId((at * 7919 % 30_000) as u32));
        let batch = StepBatch {
            step: StepId(self.step),
            tokens: (0..length).map(token).collect(),
            positions: Positions::Text((0..length as u32).collect()),
            runs: vec![self.run(0..length as u32, 0, 0)],
            outputs: vec![greedy(length as u32 - 1)],
            ..StepBatch::default()
        };
        let begin = Instant::now();
        self.runner.submit(batch)?;
        self.runner.wait()?;
        Ok(begin.elapsed().as_secs_f64() * 1e3)
    }

    fn run(&self, rows: std::ops::Range<u32>, sequence: usize, cached: usize) -> SequenceRun {
        let stride = (CONTEXT + STEPS + 8).div_ceil(self.runner.spec().block_size);
        self.run_at(rows, sequence, cached, stride)
    }

    /// A run of a sequence that has `stride` blocks of its own.
    fn run_at(
        &self,
        rows: std::ops::Range<u32>,
        sequence: usize,
        cached: usize,
        stride: usize,
    ) -> SequenceRun {
        let spec = self.runner.spec();
        let blocks = (cached + rows.len()).div_ceil(spec.block_size);
        let first = sequence * stride;
        let table = BlockTable {
            first: 0,
            blocks: (first..first + blocks).map(|block| BlockId(block as u32)).collect(),
        };
        SequenceRun {
            rows,
            cached: cached as u32,
            tables: vec![table; spec.kv_groups.len()],
            slot: SlotId(sequence as u32),
            adapter: None,
            regime: 0,
            rewind: 0,
        }
    }
}

fn greedy(row: u32) -> OutputRow {
    let sampling = RowSampling {
        params: SamplingParams::default().into(),
        draw: 0,
        suppressed: [].into(),
        allowed: None,
        logits: SamplingLogits::None,
    };
    OutputRow { row, kind: OutputKind::Sample(sampling) }
}
