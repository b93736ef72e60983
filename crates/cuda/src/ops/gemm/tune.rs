//! Timing the ways to do a product, once, before serving.

use std::time::Duration;

use half::bf16;

use super::{
    Args, Gemm, Plan, Problem, Route, Target,
    choices::{Choice, pick},
    plan::candidates,
};
use crate::driver::{DriverError, Event, Stream, View};

/// The library's algorithms that are tried.
const ALGORITHMS: usize = 8;
/// Rounds that are timed, behind one that has the library load its code; a way's time is that of its fastest.
const ROUNDS: usize = 3;
/// A way that took so many times as long as the fastest is not timed again.
const HOPELESS: f64 = 1.08;
/// A round launches a way until so many microseconds should be over, but at most so many times.
const ROUND_US: f64 = 150.0;
const MOST_LAUNCHES: usize = 16;

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
    /// Its slowest round as a multiple of its fastest: how quiet the device was.
    pub spread: f64,
}

/// A way, and the microseconds of its rounds.
struct Way {
    choice: Choice,
    rounds: Vec<f64>,
}

impl Gemm {
    /// About how long [`Self::tune`] takes, where the library's code has been loaded.
    pub fn tuning_time(&self, problem: &Problem) -> Duration {
        let ways = ALGORITHMS + candidates(problem, &self.limits).len();
        // Most ways are timed but once.
        let launches = 1.0 + 1.5 * launches(problem) as f64;
        Duration::from_secs_f64(ways as f64 * problem.least_micros() * launches * 1e-6)
    }

    /// Times every way worth trying, keeps the fastest for this problem, and tells all times, the rule's own way first. Of a
    /// single way nothing is timed.
    ///
    /// The ways take turns, round after round: a device that grows hot or reaches its power limit slows all of them alike.
    pub fn tune(
        &mut self,
        stream: &Stream,
        problem: &Problem,
        bench: &mut Bench<'_>,
    ) -> Result<Vec<Timing>, DriverError> {
        let way = |choice| Way { choice, rounds: Vec::new() };
        let mut ways: Vec<Way> = self.ways(problem).into_iter().map(way).collect();
        if ways.len() < 2 {
            return Ok(Vec::new());
        }
        let events = (Event::new(stream.gpu())?, Event::new(stream.gpu())?);
        for round in 0..=ROUNDS {
            let best = ways.iter().filter_map(Way::micros).fold(f64::INFINITY, f64::min);
            let mut failed = Vec::new();
            for (at, way) in ways.iter_mut().enumerate() {
                let is_hopeless = way.micros().is_some_and(|micros| micros > best * HOPELESS);
                // This crate's code is loaded already; the first way of all warms the clocks.
                let is_warm = matches!(way.choice, Choice::Ours(_)) && at > 0;
                if is_hopeless || (round == 0 && is_warm) {
                    continue;
                }
                let launches = if round == 0 { 1 } else { launches(problem) };
                match self.time(stream, problem, way.choice, bench, launches, &events) {
                    Ok(_) if round == 0 => {}
                    Ok(time) => way.rounds.push(time),
                    Err(error) if error.is_fault() => return Err(error),
                    Err(error) => {
                        tracing::debug!(%error, choice = ?way.choice, "not timed");
                        failed.push(at);
                    }
                }
            }
            failed.iter().rev().for_each(|&at| drop(ways.remove(at)));
        }
        let timings: Vec<Timing> = ways.iter().filter_map(Way::timing).collect();
        let micros: Vec<f64> = timings.iter().map(|timing| timing.micros).collect();
        if let Some(best) = pick(&micros) {
            self.adopt(problem, timings[best].choice);
        }
        Ok(timings)
    }

    /// The ways worth trying, the rule's own first.
    fn ways(&self, problem: &Problem) -> Vec<Choice> {
        let algorithms =
            self.library.iter().flat_map(|library| library.algorithms(problem, ALGORITHMS));
        let library: Vec<Choice> = algorithms.map(Choice::Library).collect();
        let ours = candidates(problem, &self.limits).into_iter().map(Choice::Ours);
        match Plan::new(problem, &self.limits, !library.is_empty()) {
            Ok(Plan { route: Route::Cublaslt, .. }) => library.into_iter().chain(ours).collect(),
            _ => ours.chain(library).collect(),
        }
    }

    /// Microseconds a launch, over so many launches with the weights in turn.
    fn time(
        &mut self,
        stream: &Stream,
        problem: &Problem,
        choice: Choice,
        bench: &mut Bench<'_>,
        launches: usize,
        (begin, end): &(Event, Event),
    ) -> Result<f64, DriverError> {
        if !self.adopt(problem, choice) {
            return Err(DriverError::Invalid(format!("gemm: {choice:?} is not possible")));
        }
        let plan = self.plan(problem).map_err(|error| DriverError::Invalid(error.to_string()))?;
        begin.record(stream)?;
        for &w in bench.weights.iter().cycle().take(launches) {
            let args =
                Args { x: bench.x, w, bias: bench.bias, y: bench.y.reborrow(), live_rows: None };
            self.launch(stream, &plan, args)?;
        }
        end.record(stream)?;
        end.synchronize()?;
        Ok(f64::from(end.elapsed_ms(begin)?) * 1000.0 / launches as f64)
    }
}

impl Way {
    fn micros(&self) -> Option<f64> {
        self.rounds.iter().copied().min_by(f64::total_cmp)
    }

    fn timing(&self) -> Option<Timing> {
        let slowest = self.rounds.iter().copied().max_by(f64::total_cmp)?;
        let micros = self.micros()?;
        Some(Timing { choice: self.choice, micros, spread: slowest / micros })
    }
}

fn launches(problem: &Problem) -> usize {
    ((ROUND_US / problem.least_micros()).ceil() as usize).clamp(1, MOST_LAUNCHES)
}
