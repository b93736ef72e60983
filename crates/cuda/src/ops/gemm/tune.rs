//! Timing the ways to do a product, once, before serving.

use half::bf16;

use super::{
    Args, Gemm, Problem, Target,
    choices::{Choice, pick},
    plan::candidates,
};
use crate::driver::{DriverError, Event, Stream, View};

/// The library's algorithms that are tried.
const ALGORITHMS: usize = 8;
/// Each candidate's time is the median of this many rounds.
const ROUNDS: usize = 5;
/// Launches of a candidate in a round, at least.
const LAUNCHES: usize = 4;

/// Memory to time a problem with: lengths as in [`Args`]. Results are overwritten. Zeros would flatter: use real weights.
#[derive(Debug)]
pub struct Bench<'a> {
    /// `[rows, k]`, finite numbers.
    pub x: View<'a, bf16>,
    /// Several `[n, k]`, as of the layers of a model: read in turn, so that no cache holds what a real step would not find there.
    pub weights: &'a [View<'a, bf16>],
    /// `[n]`, where the problem has a bias.
    pub bias: Option<View<'a, f32>>,
    /// `[rows, columns]`.
    pub y: Target<'a>,
}

/// A way to do a product, and its time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Timing {
    /// The way.
    pub choice: Choice,
    /// Microseconds a launch.
    pub micros: f64,
}

impl Gemm {
    /// Times every way worth trying, keeps the fastest for this problem, and tells all times, the rule's own way first.
    ///
    /// The ways take turns, round after round: a device that grows hot or reaches its power limit slows all of them alike.
    pub fn tune(
        &mut self,
        stream: &Stream,
        problem: &Problem,
        bench: &mut Bench<'_>,
    ) -> Result<Vec<Timing>, DriverError> {
        let mut timed: Vec<(Choice, Vec<f64>)> =
            self.ways(problem).into_iter().map(|way| (way, Vec::new())).collect();
        for round in 0..=ROUNDS {
            let mut failed = Vec::new();
            for (at, (choice, micros)) in timed.iter_mut().enumerate() {
                match self.time(stream, problem, *choice, bench) {
                    // The first round loads code and warms clocks.
                    Ok(_) if round == 0 => {}
                    Ok(time) => micros.push(time),
                    Err(error) if error.is_fault() => return Err(error),
                    Err(error) => {
                        tracing::debug!(%error, ?choice, "not timed");
                        failed.push(at);
                    }
                }
            }
            failed.iter().rev().for_each(|&at| drop(timed.remove(at)));
        }
        let timings: Vec<Timing> = timed
            .into_iter()
            .map(|(choice, micros)| Timing { choice, micros: median(micros) })
            .collect();
        let micros: Vec<f64> = timings.iter().map(|timing| timing.micros).collect();
        if let Some(best) = pick(&micros) {
            self.adopt(problem, timings[best].choice);
        }
        Ok(timings)
    }

    fn ways(&self, problem: &Problem) -> Vec<Choice> {
        let algorithms =
            self.library.iter().flat_map(|library| library.algorithms(problem, ALGORITHMS));
        let ours = candidates(problem, &self.limits).into_iter();
        algorithms.map(Choice::Library).chain(ours.map(Choice::Ours)).collect()
    }

    /// Microseconds a launch, over one pass of the weights.
    fn time(
        &mut self,
        stream: &Stream,
        problem: &Problem,
        choice: Choice,
        bench: &mut Bench<'_>,
    ) -> Result<f64, DriverError> {
        self.adopt(problem, choice);
        let plan = self.plan(problem).map_err(|error| DriverError::Invalid(error.to_string()))?;
        let launches = LAUNCHES.max(bench.weights.len());
        let (begin, end) = (Event::new(stream.gpu())?, Event::new(stream.gpu())?);
        begin.record(stream)?;
        for &w in bench.weights.iter().cycle().take(launches) {
            let args =
                Args { x: bench.x, w, bias: bench.bias, y: bench.y.reborrow(), live_rows: None };
            self.launch(stream, &plan, args)?;
        }
        end.record(stream)?;
        end.synchronize()?;
        Ok(f64::from(end.elapsed_ms(&begin)?) * 1000.0 / launches as f64)
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::INFINITY)
}
