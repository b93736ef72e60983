//! The host tier: how fast blocks go and come, what that costs decode steps beside them, and what it saves when prompts come again
//! that the device could not keep.
//!
//! `cargo bench -p cuda --bench offload -- CONFIG_DIR` makes weights up from a `config.json` and prints lines of JSON.
#![allow(clippy::print_stdout)]

use std::{error::Error, sync::Arc, time::Instant};

use cuda::{
    backend::{CudaBackend, Modes},
    driver::{Gpu, PinnedRoom},
};
use foundation::{
    BlockId, Bytes, DType, SlotId, TokenId,
    model::{ModelManifest, WeightOrigin},
};
use runtime::{
    backend::{LoadOptions, StepRunner},
    batch::{
        BlockTable, CopyWay, HostCopy, HostSlot, OutputKind, OutputRow, Positions, SequenceRun,
        StepBatch, StepId, TokenInput,
    },
    engine::{EngineCore, EngineOptions, EngineRequest, Progress, SystemClock},
    sampling::{RowSampling, SamplingLogits, SamplingParams},
};

/// Sequences that decode, tokens in their cache, timed steps.
const BATCH: usize = 64;
const CONTEXT: usize = 128;
const STEPS: usize = 200;
/// Prompts that come twice, and their tokens.
const PROMPTS: usize = 24;
const TOKENS: usize = 2048;

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

fn main() -> Outcome {
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    let Some(config) = arguments.next() else {
        println!("name the directory of a config.json");
        return Ok(());
    };
    let Some(gpu) = cuda::testing::gpu() else { return Ok(()) };
    pin(&gpu)?;
    let mut bench = Bench { runner: load(&gpu, &config, None, Bytes::gib(4))?, step: 0 };
    for (way, name) in [(CopyWay::Out, "out"), (CopyWay::In, "in")] {
        for blocks in [1, 16, 128] {
            bench.rate(way, name, blocks)?;
        }
    }
    for (way, name) in [(CopyWay::Out, "out"), (CopyWay::In, "in")] {
        for copies in [0, 8, 32, 128] {
            let (ms, host_us) = bench.decode(way, copies)?;
            println!(
                r#"{{"decode": {BATCH}, "way": "{name}", "blocks_per_step": {copies}, "ms_per_step": {ms:.4}, "queue_us": {host_us:.0}}}"#
            );
        }
    }
    drop(bench);
    for memory in [0, 12] {
        again(load(&gpu, &config, Some(Bytes::gib(4)), Bytes::gib(memory))?, memory)?;
    }
    Ok(())
}

/// What page-locked memory costs to get.
fn pin(gpu: &Arc<Gpu>) -> Outcome {
    for _ in 0..2 {
        let begin = Instant::now();
        let room = PinnedRoom::new(gpu, 1 << 30)?;
        println!(r#"{{"pin_gib": 1, "seconds": {:.3}}}"#, begin.elapsed().as_secs_f64());
        drop(room);
    }
    Ok(())
}

fn load(
    gpu: &Arc<Gpu>,
    config: &str,
    kv: Option<Bytes>,
    host: Bytes,
) -> Outcome<Box<dyn StepRunner>> {
    let manifest = ModelManifest {
        weights: WeightOrigin::Synthetic { seed: 7, dtype: DType::BF16 },
        ..ModelManifest::new(config, config)
    };
    let options = LoadOptions {
        max_sequence_tokens: Some(8192),
        max_step_sequences: 128,
        max_step_tokens: 8192,
        kv_memory: kv,
        kv_offload_memory: Some(host),
        ..LoadOptions::default()
    };
    let begin = Instant::now();
    let backend = CudaBackend::new(Arc::clone(gpu), Modes::default());
    let runner = backend.load_runner(&manifest, &options, &mut |_| true)?;
    let seconds = begin.elapsed().as_secs_f64();
    println!(
        r#"{{"kv_blocks": {:?}, "host": {:?}, "load_s": {seconds:.2}}}"#,
        runner.spec().kv_groups.iter().map(|group| group.blocks).collect::<Vec<_>>(),
        runner.spec().host.as_ref().map(|tier| &tier.slots)
    );
    Ok(Box::new(runner))
}

struct Bench {
    runner: Box<dyn StepRunner>,
    step: u64,
}

/// Copies of the first group's blocks, spread over the arena.
fn copies(runner: &dyn StepRunner, count: usize, from: usize) -> Vec<HostCopy> {
    let spec = runner.spec();
    let slots = spec.host.as_ref().map_or(1, |tier| tier.slots[0]);
    let blocks = spec.kv_groups[0].blocks;
    let copy = |at: usize| HostCopy {
        group: 0,
        // Behind what decodes.
        block: BlockId((blocks - 1 - (from + at) * 37 % (blocks / 2)) as u32),
        slot: HostSlot(((from + at) % slots) as u32),
    };
    (0..count).map(copy).collect()
}

impl Bench {
    /// Batches of so many blocks, one after the other, nothing beside them.
    fn rate(&mut self, way: CopyWay, name: &str, blocks: usize) -> Outcome {
        let bytes = self.runner.spec().host.as_ref().map_or(0, |tier| tier.block_bytes[0]);
        let (mut best, mut queue) = (f64::INFINITY, f64::INFINITY);
        for round in 0..8 {
            let list = copies(&*self.runner, blocks, round * blocks);
            let begin = Instant::now();
            self.runner.copy(way, &list)?;
            queue = queue.min(begin.elapsed().as_secs_f64());
            let copied = loop {
                if let Some(copied) = self.runner.copied()? {
                    break copied;
                }
            };
            best = best.min(copied.time.as_secs_f64());
        }
        let gb_per_s = bytes as f64 * blocks as f64 / best / 1e9;
        println!(
            r#"{{"copy": "{name}", "blocks": {blocks}, "block_bytes": {bytes}, "gb_per_s": {gb_per_s:.2}, "us": {:.1}, "queue_us": {:.1}}}"#,
            best * 1e6,
            queue * 1e6
        );
        Ok(())
    }

    /// Milliseconds of a decode step with so many blocks copied in each, and microseconds of queueing them.
    fn decode(&mut self, way: CopyWay, blocks: usize) -> Outcome<(f64, f64)> {
        let (mut begin, mut queue, mut under_way, mut made) = (Instant::now(), 0.0, 0, 0);
        for at in 0..STEPS + 8 {
            if at == 8 {
                (begin, queue) = (Instant::now(), 0.0);
            }
            let step = self.decode_step(at);
            self.runner.submit(step)?;
            let asked = Instant::now();
            while self.runner.copied()?.is_some() {
                under_way -= 1;
            }
            if blocks > 0 && under_way < 2 {
                let list = copies(&*self.runner, blocks, made * blocks);
                self.runner.copy(way, &list)?;
                (under_way, made) = (under_way + 1, made + 1);
            }
            queue += asked.elapsed().as_secs_f64();
            if at > 0 {
                self.runner.wait()?;
            }
        }
        self.runner.wait()?;
        let seconds = begin.elapsed().as_secs_f64();
        while under_way > 0 {
            under_way -= usize::from(self.runner.copied()?.is_some());
        }
        println!(r#"{{"batches": {made}, "steps": {}}}"#, STEPS + 8);
        Ok((seconds * 1e3 / STEPS as f64, queue * 1e6 / STEPS as f64))
    }

    fn decode_step(&mut self, at: usize) -> StepBatch {
        self.step += 1;
        let cached = CONTEXT + at;
        let token = |row: usize| match at {
            0 => TokenInput::Known(TokenId(row as u32 + 1)),
            _ => TokenInput::Sampled { output: row as u32 },
        };
        StepBatch {
            step: StepId(self.step),
            tokens: (0..BATCH).map(token).collect(),
            positions: Positions::Text(vec![cached as u32; BATCH]),
            runs: (0..BATCH).map(|row| self.run(row, cached)).collect(),
            outputs: (0..BATCH).map(|row| greedy(row as u32)).collect(),
            ..StepBatch::default()
        }
    }

    fn run(&self, row: usize, cached: usize) -> SequenceRun {
        let spec = self.runner.spec();
        let blocks = (cached + 1).div_ceil(spec.block_size);
        let first = row * (CONTEXT + STEPS + 8).div_ceil(spec.block_size);
        let blocks = (first..first + blocks).map(|block| BlockId(block as u32)).collect();
        SequenceRun {
            rows: row as u32..row as u32 + 1,
            cached: cached as u32,
            tables: vec![BlockTable { first: 0, blocks }; spec.kv_groups.len()],
            slot: SlotId(row as u32),
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

/// The same prompts three times, one after the other: more than the device keeps.
fn again(runner: Box<dyn StepRunner>, memory: u64) -> Outcome {
    let vocab = runner.spec().vocab_size;
    let clock = Arc::new(SystemClock::default());
    let (submitter, mut core) =
        EngineCore::with_submitter(runner, &EngineOptions::default(), clock);
    let mut texts: Vec<Vec<String>> = Vec::new();
    for round in 0..3 {
        let (begin, before) = (Instant::now(), submitter.metrics());
        let mut said = Vec::new();
        for seed in 0..PROMPTS {
            let token = |at: usize| TokenId(((at * 7919 + seed * 104_729) % (vocab - 1)) as u32);
            let prompt: Vec<TokenId> = (0..TOKENS).map(token).collect();
            let mut ticket = submitter
                .submit(EngineRequest { ignore_eos: true, ..EngineRequest::new(prompt, 16) })?;
            while core.step() != Progress::Idle {}
            let events = std::iter::from_fn(|| ticket.try_next());
            said.push(
                events
                    .filter(|e| format!("{e:?}").starts_with("Token"))
                    .map(|e| format!("{e:?}"))
                    .collect(),
            );
        }
        texts.push(said);
        let (seconds, seen) = (begin.elapsed().as_secs_f64(), submitter.metrics());
        println!(
            r#"{{"offload_gib": {memory}, "round": {round}, "prompts": {PROMPTS}, "tokens": {TOKENS}, "seconds": {seconds:.3}, "computed": {}, "restored": {}, "out": {}, "in": {}, "void": {}, "lost": {}}}"#,
            seen.computed_tokens - before.computed_tokens,
            seen.restored_tokens - before.restored_tokens,
            seen.kv_blocks_out - before.kv_blocks_out,
            seen.kv_blocks_in - before.kv_blocks_in,
            seen.kv_blocks_void - before.kv_blocks_void,
            seen.kv_blocks_lost - before.kv_blocks_lost
        );
    }
    let same = texts[0].iter().zip(&texts[2]).filter(|(a, b)| a == b).count();
    println!(r#"{{"offload_gib": {memory}, "same_texts": {same}, "of": {PROMPTS}}}"#);
    Ok(())
}
