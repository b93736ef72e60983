//! How the large products of a model are done: as an earlier start found fastest and kept, or as is fastest now.
//!
//! Each distinct product of the layers is timed at a few numbers of rows, the most work first, as long as the budget lasts; what is
//! left is done by the rule. Batch-invariant rows are never timed: their way must not depend on how many there are.

use std::{
    fmt,
    path::PathBuf,
    time::{Duration, Instant},
};

use half::bf16;
use models::semantic::FeedForward;

use crate::{
    driver::{DriverError, Stream, View},
    model::{buffers::Buffers, decoder::Decoder},
    ops::gemm::{Bench, Choices, Gemm, Output, Problem, Target},
    weights::{Matrix, Vector},
};

/// How the ways of large products are chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Products {
    /// By the rule alone.
    #[default]
    ByRule,
    /// The fastest of what is timed while a model is loaded, unless an earlier start has kept its choice in this folder.
    Timed {
        /// `None`: nothing is kept.
        folder: Option<PathBuf>,
    },
}

/// Numbers of rows that products are timed for: batches that decode and chunks of prompts. About as many take after them; what is
/// best for other numbers it is not, and the rule is better there.
const ROWS: [u32; 6] = [64, 128, 256, 512, 2048, 8192];
/// Time that may go by before the last product is begun, so that a model is ready soon.
const BUDGET: Duration = Duration::from_millis(500);
/// Shorter products are not timed: launching them takes as long as they do.
const WORTH_US: f64 = 10.0;
/// A way whose slowest round took so many times as long as its fastest is not kept: the device was busy with something else.
const STEADY: f64 = 1.3;
/// Bytes of weights that are read in turn, so that none is found in a cache.
const ROTATED: u64 = 256 << 20;

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Report {
    /// Products done as an earlier start found best.
    kept: usize,
    /// Products timed now.
    timed: usize,
    /// Products left to the rule.
    left: usize,
    took: Duration,
    file: Option<PathBuf>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { kept, timed, left, took, file } = self;
        write!(f, "matrix products: {timed} timed in {} ms, {kept} known", took.as_millis())?;
        match file {
            Some(file) => write!(f, " from {}", file.display())?,
            None => f.write_str(" (nothing is kept)")?,
        }
        write!(f, ", {left} by rule")
    }
}

/// A product that layers have in common.
#[derive(Debug, PartialEq)]
struct Product {
    /// For one row.
    problem: Problem,
    bias: Option<Vector>,
    weights: Vec<Matrix>,
}

/// Chooses for every product of `decoder` that is worth it, in steps of up to `most_rows`. Buffers are overwritten.
pub(super) fn choose(
    gemm: &mut Gemm,
    decoder: &Decoder,
    buffers: &mut Buffers,
    stream: &Stream,
    most_rows: usize,
    folder: Option<PathBuf>,
) -> Result<Report, DriverError> {
    let begin = Instant::now();
    let file = folder.map(|folder| folder.join(gemm.stamp().file_name()));
    let mut fresh = Choices::new(gemm.stamp().clone());
    let known = file.as_ref().map_or(fresh.clone(), |file| Choices::load(file, gemm.stamp()));
    let mut report = Report { file, ..Report::default() };
    let products = products(decoder);
    for (product, problem) in worth_timing(&products, most_rows) {
        if known.get(&problem).is_some_and(|choice| gemm.adopt(&problem, choice)) {
            report.kept += 1;
            continue;
        }
        let room = BUDGET.saturating_sub(begin.elapsed());
        let bench = bench(decoder, buffers, product, &problem);
        let Some((x, weights, y)) = bench.filter(|_| gemm.tuning_time(&problem) <= room) else {
            report.left += 1;
            continue;
        };
        let bias = product.bias.map(|bias| decoder.vector(bias));
        let mut bench = Bench { x, weights: &weights, bias, y };
        let start = Instant::now();
        let timings = gemm.tune(stream, &problem, &mut bench)?;
        tracing::debug!(?problem, took = ?start.elapsed(), ways = timings.len(), "a product is timed");
        let Some(choice) = gemm.choices().get(&problem) else {
            report.left += 1;
            continue;
        };
        report.timed += 1;
        for timing in &timings {
            tracing::debug!(?problem, ?timing, chosen = timing.choice == choice, "timed");
        }
        let chosen = timings.iter().find(|timing| timing.choice == choice);
        if chosen.is_some_and(|timing| timing.spread <= STEADY) {
            fresh.set(problem, choice);
        }
    }
    keep(&fresh, &mut report);
    report.took = begin.elapsed();
    Ok(report)
}

/// Adds what was found out, if anything was, to what the file holds by now. That nothing can be kept is no reason not to serve.
fn keep(fresh: &Choices, report: &mut Report) {
    if report.timed == 0 {
        return;
    }
    let Some(file) = &report.file else { return };
    let mut all = Choices::load(file, fresh.stamp());
    fresh.iter().for_each(|(problem, choice)| all.set(*problem, *choice));
    if let Err(error) = all.save(file) {
        tracing::warn!(%error, file = %file.display(), "the choices of matrix products are not kept");
        report.file = None;
    }
}

/// The products and rows to time, the most work first.
fn worth_timing(products: &[Product], most_rows: usize) -> Vec<(&Product, Problem)> {
    let most_rows = u32::try_from(most_rows).unwrap_or(u32::MAX);
    // The last is as many as there can be, where that is not nearly one of the others.
    let mut rows: Vec<u32> = ROWS.into_iter().filter(|rows| *rows <= most_rows).collect();
    if rows.last().is_some_and(|last| most_rows / 5 * 4 > *last) {
        rows.push(most_rows);
    }
    let all = products.iter().flat_map(|product| {
        rows.iter().map(move |&rows| (product, Problem { rows, ..product.problem }))
    });
    let mut worth: Vec<(&Product, Problem)> =
        all.filter(|(_, problem)| problem.least_micros() >= WORTH_US).collect();
    worth.sort_by_key(|(product, problem)| {
        std::cmp::Reverse(problem.traffic().flops * product.weights.len() as u64)
    });
    worth
}

/// The distinct products of the layers, each with its weights in all of them.
fn products(decoder: &Decoder) -> Vec<Product> {
    let mut products: Vec<Product> = Vec::new();
    let mut add = |matrix: Matrix, bias: Option<Vector>, output: Output| {
        let problem = Problem {
            rows: 1,
            n: matrix.rows as u32,
            k: matrix.cols as u32,
            bias: bias.is_some(),
            output,
            invariant: false,
        };
        match products.iter_mut().find(|product| product.problem == problem) {
            Some(product) => product.weights.push(matrix),
            None => products.push(Product { problem, bias, weights: vec![matrix] }),
        }
    };
    let added = |is_added| if is_added { Output::AddF32 } else { Output::Bf16 };
    for (index, weights) in decoder.weights.parts.layers.iter().enumerate() {
        add(weights.qkv, weights.qkv_bias, Output::Bf16);
        add(weights.output, weights.output_bias, added(decoder.mixer_is_added(index)));
        let FeedForward::Dense(mlp) = &decoder.layers[index].spec.feed_forward else { continue };
        if let Some(dense) = weights.dense() {
            add(dense.gate_up, dense.gate_up_bias, Output::GateUp(mlp.activation));
            add(dense.down, dense.down_bias, added(decoder.ff_is_added(index)));
        }
    }
    products
}

/// What the product is timed on: rows of the embedding in `x`'s place, which are numbers as good as any, the layers' weights in turn,
/// and a buffer of its results. `None` where one of them is too short.
fn bench<'a>(
    decoder: &'a Decoder,
    buffers: &'a mut Buffers,
    product: &Product,
    problem: &Problem,
) -> Option<(View<'a, bf16>, Vec<View<'a, bf16>>, Target<'a>)> {
    let embedding = decoder.matrix(decoder.weights.parts.embedding);
    let x = problem.rows as usize * problem.k as usize;
    let len = problem.rows as usize * problem.columns() as usize;
    let halves = match problem.output {
        Output::GateUp(_) => &mut buffers.inner,
        _ if buffers.qkv.len() >= len => &mut buffers.qkv,
        _ => &mut buffers.y,
    };
    let y = match problem.output {
        Output::Bf16 | Output::GateUp(_) if halves.len() >= len => {
            Target::Bf16(halves.view_mut().slice(0..len))
        }
        Output::F32 | Output::AddF32 if buffers.h.len() >= len => {
            Target::F32(buffers.h.view_mut().slice(0..len))
        }
        _ => return None,
    };
    let rotated = ROTATED.div_ceil(product.weights[0].bytes()) as usize;
    let weights = product.weights.iter().take(rotated).map(|matrix| decoder.matrix(*matrix));
    (embedding.len() >= x).then(|| (embedding.slice(0..x), weights.collect(), y))
}

#[cfg(test)]
mod tests {
    use models::semantic::Activation;

    use super::*;
    use crate::ops::gemm::{Choice, Route, Stamp};

    fn product(n: u32, k: u32, output: Output, layers: usize) -> Product {
        let matrix = Matrix { address: 0, rows: n as usize, cols: k as usize };
        let problem = Problem { output, ..Problem::plain(1, n, k) };
        Product { problem, bias: None, weights: vec![matrix; layers] }
    }

    #[test]
    fn what_takes_longest_comes_first_and_what_takes_no_time_not_at_all() {
        let products = [
            product(1024, 2048, Output::AddF32, 28),
            product(6144, 1024, Output::GateUp(Activation::Silu), 28),
            product(64, 64, Output::Bf16, 28),
        ];
        let worth = worth_timing(&products, 3000);
        let seen: Vec<(u32, u32)> =
            worth.iter().map(|(_, problem)| (problem.n, problem.rows)).collect();
        assert_eq!(
            seen,
            [(6144, 3000), (6144, 2048), (1024, 3000), (1024, 2048)],
            "rows up to the most there can be, that one too"
        );
        assert_eq!(worth_timing(&products, 2048)[0].1.rows, 2048);
        assert_eq!(worth_timing(&products, 2500)[0].1.rows, 2048, "nearly the same");
        assert!(worth_timing(&products, 64).is_empty());
    }

    #[test]
    fn a_report_says_where_choices_come_from_and_that_they_are_not_kept() {
        let folder = tempfile::tempdir().unwrap();
        let stamp = Stamp { device: "X".to_owned(), driver: 1, library: 0 };
        let choices = |rows| {
            let mut choices = Choices::new(stamp.clone());
            choices.set(Problem::plain(rows, 8, 8), Choice::Ours(Route::Cublaslt));
            choices
        };
        let file = folder.path().join(stamp.file_name());
        let mut report = Report { file: Some(file.clone()), kept: 3, ..Report::default() };
        keep(&Choices::new(stamp.clone()), &mut report);
        assert!(!file.exists(), "nothing is new");
        report.timed = 2;
        keep(&choices(1), &mut report);
        keep(&choices(2), &mut report);
        assert_eq!(Choices::load(&file, &stamp).iter().count(), 2, "neither replaces the other's");
        let told = format!("2 timed in 0 ms, 3 known from {}, 0 by rule", file.display());
        assert_eq!(report.to_string(), format!("matrix products: {told}"));
        report.file = Some(file.join("below a file"));
        keep(&choices(3), &mut report);
        assert!(report.to_string().contains("nothing is kept"), "{report}");
    }
}
