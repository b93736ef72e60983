//! Matrix products of many rows: every way to do each, in turns.

use cuda::{
    driver::cublaslt::Cublaslt,
    ops::gemm::{Bench, Choice, Gemm, Output, Problem, Route, Target, Timing},
};
use half::bf16;
use models::semantic::Activation;

use crate::runner::{Outcome, Runner};

/// `n` and `k` of the products of qwen3-8b and qwen3-0.6b; where `n` is that of gate and up, the gated product too.
const SHAPES: [(u32, u32, bool); 8] = [
    (6144, 4096, false),
    (4096, 4096, false),
    (24576, 4096, true),
    (4096, 12288, false),
    (4096, 1024, false),
    (1024, 2048, false),
    (6144, 1024, true),
    (1024, 3072, false),
];
const ROWS: [u32; 6] = [64, 128, 256, 512, 2048, 8000];
/// Weights are rotated over this many elements: far more than a cache holds.
const POOL: usize = 4 * 24576 * 4096;
/// Operations a second that an H200 multiplies at, measured: the floor where memory is not.
const FLOPS_A_SECOND: f64 = 780e12;
const BYTES_A_SECOND: f64 = 4.70e12;

pub fn bench(runner: &Runner) -> Outcome {
    if !runner.wants("gemm") {
        return Ok(());
    }
    let gpu = &runner.gpu;
    let mut gemm = Gemm::load(gpu)?;
    if let Ok(library) = Cublaslt::open(&[]) {
        gemm = gemm.with_library(library, gpu.alloc(64 << 20)?);
    }
    let most = *ROWS.last().expect("rows are listed") as usize;
    let (mut pool, mut x) = (gpu.alloc::<bf16>(POOL)?, gpu.alloc::<bf16>(most * 12288)?);
    let mut y = gpu.alloc::<bf16>(most * 24576)?;
    let mut rng = fastrand::Rng::with_seed(1);
    let some: Vec<bf16> = (0..1 << 22).map(|_| bf16::from_f32((rng.f32() - 0.5) * 0.1)).collect();
    for buffer in [&mut pool, &mut x] {
        for begin in (0..buffer.len()).step_by(some.len()) {
            let end = buffer.len().min(begin + some.len());
            runner.stream.upload(&some[..end - begin], buffer.view_mut().slice(begin..end))?;
        }
    }
    for (n, k, gated) in SHAPES {
        for rows in ROWS {
            let plain = Problem::plain(rows, n, k);
            let joined = Problem { output: Output::GateUp(Activation::Silu), ..plain };
            for problem in [Some(plain), gated.then_some(joined)].into_iter().flatten() {
                let each = n as usize * k as usize;
                let weights: Vec<_> = (0..(POOL / each).min(32))
                    .map(|i| pool.view().slice(i * each..(i + 1) * each))
                    .collect();
                let mut bench = Bench {
                    x: x.view().slice(0..rows as usize * k as usize),
                    weights: &weights,
                    bias: None,
                    y: Target::Bf16(
                        y.view_mut().slice(0..rows as usize * problem.columns() as usize),
                    ),
                };
                let timings = gemm.tune(&runner.stream, &problem, &mut bench)?;
                print(&problem, &timings);
            }
        }
    }
    Ok(())
}

fn print(problem: &Problem, timings: &[Timing]) {
    let library = timings.iter().filter(|timing| matches!(timing.choice, Choice::Library(_)));
    let library: Vec<f64> = library.map(|timing| timing.micros).collect();
    let least = |values: &[f64]| values.iter().copied().reduce(f64::min);
    let number =
        |value: Option<f64>| value.map_or("null".to_owned(), |value| format!("{value:.1}"));
    let ours = timings.iter().filter_map(|timing| match timing.choice {
        Choice::Ours(Route::Wgmma(tile)) => {
            let (columns, cluster, split) = (tile.columns, tile.cluster, tile.split);
            Some(format!("\"wgmma {columns}x{cluster}/{split}\": {:.1}", timing.micros))
        }
        Choice::Ours(Route::Portable(tile)) => {
            Some(format!("\"portable {:?}\": {:.1}", tile.size, timing.micros))
        }
        _ => None,
    });
    let ours: Vec<String> = ours.collect();
    let best = timings.iter().map(|timing| timing.micros).fold(f64::INFINITY, f64::min);
    let traffic = problem.traffic();
    let floor =
        (traffic.flops as f64 / FLOPS_A_SECOND).max(traffic.bytes as f64 / BYTES_A_SECOND) * 1e6;
    let Problem { rows, n, k, output, .. } = problem;
    println!(
        "{{\"case\": \"gemm {output:?} {n}x{k} rows {rows}\", \"us_p50\": {best:.2}, \"library_first_us\": {}, \
         \"library_best_us\": {}, \"ours_us\": {{{}}}, \"tflops\": {:.0}, \"percent_of_floor\": {:.0}}}",
        number(library.first().copied()),
        number(least(&library)),
        ours.join(", "),
        traffic.flops as f64 / best * 1e-6,
        100.0 * floor / best,
    );
}
