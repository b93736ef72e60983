//! Sampling: rows of random logits, as a head leaves them in the second-level cache.

use std::sync::Arc;

use cuda::ops::sample::{
    Answer, Args, MOST_TOP, Packed, Plan, Problem, Sample, SampleRow, pack, traffic,
};
use runtime::{
    batch::{OutputKind, OutputRow, StepBatch},
    sampling::{RowSampling, SamplingLogits, SamplingParams},
};

use crate::runner::{Outcome, Runner};

const VOCAB: usize = 151_936;
/// Parts that a head's product would hand over.
const PARTS: usize = 594;

pub fn bench(runner: &Runner) -> Outcome {
    let greedy = SamplingParams::default();
    let warm = SamplingParams { temperature: 0.8, seed: 1, ..greedy.clone() };
    let kinds = [
        ("greedy by parts", greedy.clone(), SamplingLogits::None, PARTS),
        ("greedy", greedy.clone(), SamplingLogits::None, 0),
        ("temperature", warm.clone(), SamplingLogits::None, 0),
        ("top_p 0.95", SamplingParams { top_p: 0.95, ..warm.clone() }, SamplingLogits::None, 0),
        ("top_k 40", SamplingParams { top_k: 40, ..warm.clone() }, SamplingLogits::None, 0),
        ("greedy logprobs 5", greedy, SamplingLogits::Top(5), 0),
    ];
    for rows in [1, 64] {
        // Spreads that leave half of the vocabulary, or a few tokens, in the nucleus.
        for (spread, name) in [(1.0, "flat"), (3.5, "peaked")] {
            let logits = logits(rows, spread);
            for (kind, params, wanted, parts) in &kinds {
                let case = format!("sample {kind}, {name} {rows}x{VOCAB}");
                if runner.wants(&case) {
                    let packed = packed(rows, params, *wanted);
                    one(runner, &case, &logits, &packed, *parts)?;
                }
            }
        }
    }
    Ok(())
}

fn logits(rows: usize, spread: f32) -> Vec<f32> {
    let mut rng = fastrand::Rng::with_seed(7);
    let normal = |rng: &mut fastrand::Rng| {
        let (a, b) = (1.0 - rng.f32(), rng.f32());
        (-2.0 * a.ln()).sqrt() * (std::f32::consts::TAU * b).cos()
    };
    (0..rows * VOCAB).map(|_| spread * normal(&mut rng)).collect()
}

fn packed(rows: usize, params: &SamplingParams, logits: SamplingLogits) -> Packed {
    let params = Arc::new(params.clone());
    let row = |row: u32| {
        let sampling = RowSampling {
            params: Arc::clone(&params),
            draw: u64::from(row),
            suppressed: Arc::from([]),
            allowed: None,
            logits,
        };
        OutputRow { row, kind: OutputKind::Sample(sampling) }
    };
    let batch = StepBatch { outputs: (0..rows as u32).map(row).collect(), ..StepBatch::default() };
    pack(&batch, 0..rows, VOCAB)
}

fn one(runner: &Runner, case: &str, logits: &[f32], packed: &Packed, parts: usize) -> Outcome {
    let (gpu, stream) = (&runner.gpu, &runner.stream);
    let rows = packed.rows.len();
    let problem = Problem { rows, vocab: VOCAB, stride: VOCAB };
    let plan = Plan::new(&problem, gpu.limits())?;
    let op = Sample::load(gpu)?;
    let mut on_device = gpu.alloc::<f32>(logits.len())?;
    stream.upload(logits, on_device.view_mut())?;
    let mut d_rows = gpu.alloc::<SampleRow>(rows)?;
    stream.upload(&packed.rows, d_rows.view_mut())?;
    let mut count = gpu.alloc::<u32>(1)?;
    stream.upload(&[rows as u32], count.view_mut())?;
    let mut keys = gpu.alloc::<u64>(rows * PARTS)?;
    stream.upload(&vec![u64::from(u32::MAX) << 31; rows * PARTS], keys.view_mut())?;
    let mut scratch = gpu.alloc::<u8>(plan.scratch.bytes as usize)?;
    stream.zero(scratch.view_mut())?;
    let mut sampled = gpu.alloc::<i32>(rows)?;
    let mut answers = gpu.alloc::<Answer>(rows)?;
    let mut top_tokens = gpu.alloc::<u32>(rows * MOST_TOP)?;
    let mut top_logprobs = gpu.alloc::<f32>(rows * MOST_TOP)?;
    let (bias, words) = (gpu.alloc(0)?, gpu.alloc::<u32>(0)?);
    let mut counts = gpu.alloc::<u32>(0)?;
    runner.time(case, traffic(&problem), 20, |stream, _| {
        let args = Args {
            rows: d_rows.view(),
            row_count: count.view(),
            logits: on_device.view_mut(),
            bias: bias.view(),
            bans: words.view(),
            masks: words.view(),
            counts: counts.view_mut(),
            argmax: (parts > 0).then(|| (keys.view(), parts)),
            scratch: scratch.view_mut(),
            sampled: sampled.view_mut(),
            answers: answers.view_mut(),
            top_tokens: top_tokens.view_mut(),
            top_logprobs: top_logprobs.view_mut(),
        };
        op.launch(stream, &plan, packed.stages, args)
    })
}
