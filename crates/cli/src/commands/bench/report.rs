//! How a bench is told: what was measured on what, then the numbers; as a table or as JSON.

use std::fmt::Write as _;

use serde::Serialize;
use serde_json::Value;
use tokenmill::{Bytes, Model, ModelInfo, Setting};

use super::{Bench, cost::HostCost, plot::Curve, stats::Summary, trace::Measures};
use crate::{
    error::Error,
    machine::{self, Processor},
    output::{BOLD, DIM},
};

/// What was measured on what.
#[derive(Serialize)]
pub struct Report {
    bench: &'static str,
    version: &'static str,
    commit: &'static str,
    model: String,
    /// What a picture calls it.
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    info: Option<ModelInfo>,
    synthetic: bool,
    processor: Processor,
    shape: Value,
    settings: Vec<Setting>,
    #[serde(skip_serializing_if = "Option::is_none")]
    floor: Option<Floor>,
}

/// A report with its results.
#[derive(Serialize)]
struct Whole<'a, R> {
    #[serde(flatten)]
    report: &'a Report,
    results: &'a R,
}

/// What no implementation can beat: what a step reads of the weights, at the speed of memory.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Floor {
    /// Sequences of the step.
    pub sequences: u32,
    /// Bytes of weights that it reads: not those of an embedding table that is no head, too; of experts as many as its sequences
    /// visit if they spread evenly.
    pub step_bytes: u64,
    /// What memory delivers at the most: on the processor to all threads, measured at this moment; on a GPU as measured for
    /// its kind, or what its pins could carry.
    pub memory_bytes_per_s: f64,
    /// The one over the other.
    pub time_per_output_token_ms: f64,
}

impl Floor {
    /// Of a step of `sequences` sequences on the device that the model runs on; `None` where nobody knows how fast its memory is.
    pub fn of(model: &Model, bench: &Bench<'_>, sequences: u32) -> Option<Self> {
        let info = model.info();
        let bandwidth = match &info.device_info {
            Some(device) => device.read_bytes_per_s?,
            None => {
                let all = machine::processor().threads;
                let threads = bench.settings.count("threads").map_or(all, |count| count as usize);
                machine::read_bandwidth(threads)
            }
        };
        Some(Floor::new(sequences, info.bytes_of_step(sequences), bandwidth))
    }

    /// How near a step of `ms` milliseconds comes to the floor: 100 is as fast as memory can be read.
    pub fn percent(&self, ms: f64) -> f64 {
        self.time_per_output_token_ms / ms * 100.0
    }

    fn new(sequences: u32, step_bytes: u64, memory_bytes_per_s: f64) -> Self {
        let time_per_output_token_ms = step_bytes as f64 / memory_bytes_per_s * 1e3;
        Floor { sequences, step_bytes, memory_bytes_per_s, time_per_output_token_ms }
    }
}

impl Report {
    /// Of a model in this process.
    pub fn new(bench: &'static str, model: &Model, context: &Bench<'_>, shape: Value) -> Self {
        let remote = Report::remote(bench, model.id().to_string(), shape);
        Report {
            info: Some(model.info().clone()),
            synthetic: context.target.synthetic.is_some(),
            settings: model.settings().to_vec(),
            ..remote
        }
    }

    /// Of a model behind an address.
    pub fn remote(bench: &'static str, model: String, shape: Value) -> Self {
        Report {
            bench,
            version: env!("CARGO_PKG_VERSION"),
            commit: env!("BUILD_COMMIT"),
            model,
            label: None,
            info: None,
            synthetic: false,
            processor: machine::processor(),
            shape,
            settings: Vec::new(),
            floor: None,
        }
    }

    /// With what no implementation can beat.
    pub fn with_floor(self, floor: Option<Floor>) -> Self {
        Report { floor, ..self }
    }

    /// With what a picture is to call it.
    pub fn with_label(self, label: Option<String>) -> Self {
        Report { label, ..self }
    }

    /// The results as a curve of a picture.
    pub fn curve(&self, results: &impl Serialize) -> Result<Curve, Error> {
        let broken = |error: serde_json::Error| Error::io("writing the results", error.into());
        let whole = serde_json::to_value(Whole { report: self, results }).map_err(broken)?;
        Curve::read(whole, None).map_err(Error::Usage)
    }

    /// Prints the report with its `results`: as JSON, or as the table that `fill` makes.
    pub fn tell<R: Serialize>(
        &self,
        bench: &Bench<'_>,
        results: &R,
        fill: impl FnOnce(&mut Table),
    ) -> Result<(), Error> {
        if bench.target.json {
            return bench.output.json(&Whole { report: self, results });
        }
        let mut table = Table::default();
        self.head(&mut table);
        fill(&mut table);
        self.foot(&mut table);
        bench.output.line(table.text.trim_end())
    }

    fn head(&self, table: &mut Table) {
        let _ = writeln!(table.text, "{BOLD}{} of {}{BOLD:#}", self.bench, self.model);
        if let Some(info) = &self.info {
            let made_up = if self.synthetic { ", made up" } else { "" };
            let weights = Bytes(info.weight_bytes);
            table.row("model", format!("{}, {} {weights}{made_up}", info.architecture, info.dtype));
            let device = info.device_info.as_ref();
            let device = device.map_or(info.device.clone(), |device| {
                format!("{}: {}, {}", info.device, device.name, device.driver)
            });
            table.row("device", device);
        }
        table.row(
            "processor",
            format!("{}, {} threads", self.processor.name, self.processor.threads),
        );
        let shape = self.shape.as_object().into_iter().flatten();
        let shape: Vec<String> = shape.map(|(key, value)| format!("{key} {value}")).collect();
        table.row("shape", shape.join(", "));
    }

    fn foot(&self, table: &mut Table) {
        if let Some(floor) = &self.floor {
            table.row(
                "floor",
                format!(
                    "{:.2} ms a step of {}: {} of weights read at {}/s",
                    floor.time_per_output_token_ms,
                    counted(floor.sequences),
                    Bytes(floor.step_bytes),
                    Bytes(floor.memory_bytes_per_s as u64)
                ),
            );
        }
    }
}

fn counted(sequences: u32) -> String {
    match sequences {
        1 => "one sequence".to_owned(),
        count => format!("{count} sequences"),
    }
}

/// Lines for people.
#[derive(Default)]
pub struct Table {
    text: String,
}

impl Table {
    /// A label and what belongs to it.
    pub fn row(&mut self, label: &str, text: impl AsRef<str>) {
        let _ = writeln!(self.text, "  {DIM}{label:<12}{DIM:#} {}", text.as_ref());
    }

    /// A line that belongs to no label.
    pub fn line(&mut self, text: &str) {
        let _ = writeln!(self.text, "  {text}");
    }

    /// What the columns below are.
    pub fn heading(&mut self, text: &str) {
        let _ = writeln!(self.text, "  {DIM}{text}{DIM:#}");
    }

    /// Rates and times.
    pub fn measures(&mut self, measures: &Measures) {
        self.row(
            "requests",
            format!(
                "{} in {:.2} s, {} prompt and {} output tokens",
                measures.requests, measures.wall_s, measures.prompt_tokens, measures.output_tokens
            ),
        );
        self.row(
            "rate",
            format!(
                "{:.1} output tokens/s, {:.1} prompt tokens/s, {:.1} in all",
                measures.output_tokens_per_s,
                measures.prompt_tokens_per_s,
                measures.total_tokens_per_s
            ),
        );
        let times = [
            ("TTFT", &measures.time_to_first_token),
            ("TPOT", &measures.time_per_output_token),
            ("ITL", &measures.inter_token_latency),
            ("request", &measures.request_latency),
        ];
        let _ = writeln!(
            self.text,
            "  {DIM}{:<12} {:>10} {:>10} {:>10} {:>10}{DIM:#}",
            "ms", "p50", "p90", "p99", "mean"
        );
        for (name, summary) in times {
            self.times(name, summary.as_ref());
        }
    }

    /// What the host had to do for it.
    pub fn cost(&mut self, cost: &HostCost) {
        let HostCost { processor_s, cores_busy, .. } = cost;
        self.row("host", format!("{cores_busy:.2} cores busy, {processor_s:.2} s of processor"));
    }

    /// One line of times.
    pub fn times(&mut self, name: &str, summary: Option<&Summary>) {
        let text = summary.map_or("-".to_owned(), |times| {
            let Summary { p50_ms, p90_ms, p99_ms, mean_ms, .. } = times;
            format!("{p50_ms:>10.2} {p90_ms:>10.2} {p99_ms:>10.2} {mean_ms:>10.2}")
        });
        self.row(name, text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_floor_is_the_bytes_of_a_step_at_the_speed_of_memory() {
        let floor = Floor::new(1, 3_000_000, 1e9);
        assert_eq!(floor.time_per_output_token_ms, 3.0);
        assert_eq!(floor.percent(4.0), 75.0);
    }
}
