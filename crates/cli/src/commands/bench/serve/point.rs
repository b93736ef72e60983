//! What came of requests at one pace, and how it is told.

use std::fmt::Write as _;

use serde::Serialize;

use super::pace::Pace;
use crate::commands::bench::{
    client::Sample,
    cost::HostCost,
    report::Table,
    stats::Summary,
    trace::{self, Measures, Trace},
};

/// From so many tokens an event on, times between events are told to be no times between tokens.
const MANY_TOKENS: f64 = 1.05;

/// What came of requests at one pace.
#[derive(Serialize)]
pub struct Point {
    /// How they were sent.
    #[serde(flatten)]
    pub pace: Pace,
    /// Most that were under way at once.
    pub peak_concurrency: usize,
    /// Requests that failed: they have no part in rates and times, but for the stretch of time.
    pub failed: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_failure: Option<String>,
    /// Tokens that came for them.
    failed_output_tokens: usize,
    /// Answers with fewer tokens than were demanded.
    pub short_answers: usize,
    /// Requests whose tokens the server did not count.
    pub estimated: usize,
    /// How much later than planned requests were sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    sending_lag: Option<Summary>,
    /// Processor time of this process.
    #[serde(flatten)]
    cost: Cost,
    /// Rates and times.
    #[serde(flatten)]
    pub measures: Measures,
}

/// Whose processor time it is.
#[derive(Clone, Copy, Debug, Serialize)]
pub enum Cost {
    /// The client's alone.
    #[serde(rename = "client")]
    Client(HostCost),
    /// That of client, server and engine, which are one process.
    #[serde(rename = "host")]
    Whole(HostCost),
}

impl Point {
    /// Of all requests that were sent.
    pub fn new(pace: Pace, samples: Vec<Sample>, cost: Cost) -> Self {
        let wall_s = trace::span(samples.iter().map(|sample| &sample.trace)).as_secs_f64();
        let peak_concurrency = trace::peak(samples.iter().map(|sample| &sample.trace));
        let lags: Vec<_> = samples.iter().map(|sample| sample.trace.lag()).collect();
        let (mut traces, mut failures): (Vec<Trace>, Vec<Sample>) = Default::default();
        for sample in samples {
            match sample.failure {
                None => traces.push(sample.trace),
                Some(_) => failures.push(sample),
            }
        }
        let count = |is: fn(&Trace) -> bool| traces.iter().filter(|trace| is(trace)).count();
        Point {
            pace,
            peak_concurrency,
            failed: failures.len(),
            failed_output_tokens: failures.iter().map(|sample| sample.trace.output_tokens).sum(),
            first_failure: failures
                .iter()
                .find_map(|sample| Some(sample.failure.as_ref()?.sentence())),
            short_answers: count(|trace| trace.is_short),
            estimated: count(|trace| trace.is_estimated),
            sending_lag: matches!(pace, Pace::Rate(_)).then(|| Summary::of(&lags)).flatten(),
            cost,
            measures: Measures::over(&traces, wall_s),
        }
    }

    /// Everything that rates and times do not say, and without which they would mislead.
    pub fn remarks(&self) -> Vec<(&'static str, String)> {
        let mut remarks = Vec::new();
        if let Some(failure) = &self.first_failure {
            let (failed, tokens) = (self.failed, self.failed_output_tokens);
            remarks.push((
                "failed",
                format!(
                    "{failed} requests, their {tokens} tokens in no rate; the first: {failure}"
                ),
            ));
        }
        if self.short_answers > 0 {
            let text = format!(
                "{} answers have fewer tokens than were asked for, though ignore_eos was sent",
                self.short_answers
            );
            remarks.push(("short", text));
        }
        if self.estimated > 0 {
            let text = format!(
                "of {} requests estimated, for no usage was sent: a token an event, prompts as sent",
                self.estimated
            );
            remarks.push(("counts", text));
        }
        let Measures { prompt_tokens, cached_tokens, tokens_per_event, .. } = self.measures;
        if cached_tokens > 0 {
            let percent = cached_tokens as f64 / prompt_tokens as f64 * 100.0;
            remarks.push(("cached", format!("{percent:.1} % of the prompt tokens")));
        }
        if tokens_per_event > MANY_TOKENS {
            let text = format!(
                "{tokens_per_event:.2} tokens each in the mean; ITL is from event to event"
            );
            remarks.push(("events", text));
        }
        if let Some(lag) = &self.sending_lag {
            let text = format!(
                "{:.2} ms behind the plan in the median, {:.2} at most; times count from the plan",
                lag.p50_ms, lag.max_ms
            );
            remarks.push(("sent", text));
        }
        if self.pace != Pace::Together(u32::try_from(self.peak_concurrency).unwrap_or(u32::MAX)) {
            remarks.push(("together", format!("{} requests at most", self.peak_concurrency)));
        }
        remarks
    }

    /// Whose processor time is told, and how many cores that kept busy.
    fn cost(&self) -> (&'static str, f64) {
        match self.cost {
            Cost::Client(cost) => ("client", cost.cores_busy),
            Cost::Whole(cost) => ("host", cost.cores_busy),
        }
    }

    /// A line while a sweep goes on.
    pub fn line(&self) -> String {
        let Measures { requests, wall_s, output_tokens_per_s, .. } = self.measures;
        let label = self.pace.label();
        format!(
            "{label}: {requests} requests in {wall_s:.2} s, {output_tokens_per_s:.1} output tokens/s"
        )
    }
}

/// Fills in one point at length, or several as a table.
pub fn fill(table: &mut Table, points: &[Point]) {
    let [point] = points else { return fill_sweep(table, points) };
    table.measures(&point.measures);
    for (name, text) in point.remarks() {
        table.row(name, text);
    }
    let (who, cores) = point.cost();
    table.row(who, format!("{cores:.2} cores busy{}", whose(who)));
}

fn whose(who: &str) -> &'static str {
    if who == "host" { ": client, server and engine are one process" } else { "" }
}

fn fill_sweep(table: &mut Table, points: &[Point]) {
    let rate = matches!(points.first(), Some(Point { pace: Pace::Rate(_), .. }));
    table.heading(&format!(
        "{:>8} {:>10} {:>10} {} {:>6}",
        if rate { "rate" } else { "together" },
        "output/s",
        "total/s",
        ["TTFT", "TPOT", "ITL"]
            .map(|name| format!(" {name:>5} p50 {:>9} {:>9}", "p90", "p99"))
            .concat(),
        "cores",
    ));
    for point in points {
        let Measures { output_tokens_per_s, total_tokens_per_s, .. } = point.measures;
        let measures = &point.measures;
        let times = [
            &measures.time_to_first_token,
            &measures.time_per_output_token,
            &measures.inter_token_latency,
        ];
        let mut text = format!(
            "{:>8} {output_tokens_per_s:>10.1} {total_tokens_per_s:>10.1} ",
            point.pace.label()
        );
        for times in times {
            let _ = match times {
                Some(times) => write!(
                    text,
                    " {:>9.2} {:>9.2} {:>9.2}",
                    times.p50_ms, times.p90_ms, times.p99_ms
                ),
                None => write!(text, " {:>9} {:>9} {:>9}", "-", "-", "-"),
            };
        }
        let _ = write!(text, " {:>6.2}", point.cost().1);
        table.line(&text);
    }
    let who = points.first().map_or("client", |point| point.cost().0);
    table.line(&format!("tokens/s, times in ms, busy cores of the {who}{}", whose(who)));
    for point in points {
        for (name, text) in point.remarks() {
            table.row(&format!("{} {name}", point.pace.label()), text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    fn sample(change: impl Fn(&mut Trace), failure: Option<&str>) -> Sample {
        let mut trace = Trace::start();
        trace.prompt_tokens = 10;
        trace.tick(1);
        change(&mut trace);
        Sample { trace, failure: failure.map(|text| Error::Usage(text.to_owned())) }
    }

    fn remarks(samples: Vec<Sample>, pace: Pace) -> Vec<(&'static str, String)> {
        Point::new(pace, samples, Cost::Client(HostCost::default())).remarks()
    }

    #[test]
    fn what_went_well_needs_no_remark() {
        let names = |pace| -> Vec<&str> {
            let remarks = remarks(vec![sample(|_| {}, None)], pace);
            remarks.into_iter().map(|(name, _)| name).collect()
        };
        assert_eq!(names(Pace::Together(1)), [""; 0]);
        assert_eq!(names(Pace::Together(2)), ["together"], "there were too few requests for two");
        assert_eq!(names(Pace::Rate(1.0)), ["sent", "together"]);
    }

    #[test]
    fn whatever_would_mislead_is_remarked_on() {
        let samples = vec![
            sample(|_| {}, Some("it broke off")),
            sample(|trace| trace.is_short = true, None),
            sample(|trace| trace.is_estimated = true, None),
            sample(|trace| trace.cached_tokens = 5, None),
            sample(|trace| trace.tick(4), None),
        ];
        let told = remarks(samples, Pace::Together(5));
        for (name, words) in [
            ("failed", ["1 requests", "it broke off"]),
            ("short", ["1 answers", "ignore_eos"]),
            ("counts", ["of 1 requests", "estimated"]),
            ("cached", ["12.5 %", "prompt"]),
            ("events", ["1.60 tokens", "ITL"]),
        ] {
            let text = told.iter().find(|(named, _)| *named == name).map(|(_, text)| text);
            let text = text.unwrap_or_else(|| panic!("no {name} in {told:?}"));
            assert!(words.iter().all(|word| text.contains(word)), "{name}: {text}");
        }
    }

    #[test]
    fn tokens_of_failures_are_in_no_rate() {
        let samples = vec![sample(|_| {}, None), sample(|trace| trace.tick(7), Some("x"))];
        let point = Point::new(Pace::Together(2), samples, Cost::Whole(HostCost::default()));
        assert_eq!((point.failed, point.failed_output_tokens), (1, 8));
        assert_eq!((point.measures.requests, point.measures.output_tokens), (1, 1));
    }
}
