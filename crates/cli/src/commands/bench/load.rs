//! `tokenmill bench load`: how long every phase of loading takes.

use std::time::Instant;

use serde::Serialize;
use serde_json::json;
use tokenmill::{Bytes, GenerateOptions, ProgressEvent, TokenId};

use super::{
    Bench,
    report::{Report, Table},
};
use crate::{args::LoadArgs, error::Error, progress::Progress};

/// One stretch of a load.
#[derive(Debug, Serialize)]
struct Phase {
    name: String,
    seconds: f64,
    /// Weights made resident in it.
    bytes: u64,
}

/// One load.
#[derive(Serialize)]
struct Load {
    /// From the call to the model being ready, seconds.
    ready_s: f64,
    /// The first token after that, seconds: pages that were only mapped are read now.
    first_token_s: f64,
    /// Giving the memory back, seconds.
    unload_s: f64,
    phases: Vec<Phase>,
}

/// Measures and tells.
pub fn run(args: &LoadArgs, bench: &Bench<'_>) -> Result<(), Error> {
    let library = bench.library()?;
    let reference = bench.reference()?;
    let mut loads = Vec::new();
    let mut report = None;
    for _ in 0..args.iterations {
        let mut progress = Progress::new(bench.output, &bench.interrupts);
        let mut phases = Phases::start();
        let start = Instant::now();
        let model = library.load(reference, bench.model_options(), &mut |event| {
            phases.note(&event);
            progress.loading(event)
        })?;
        let ready_s = start.elapsed().as_secs_f64();
        let phases = phases.end();
        progress.clear();
        let first = Instant::now();
        let options = GenerateOptions { max_tokens: Some(1), ..GenerateOptions::default() };
        model.generate(vec![TokenId(0)], options)?.output()?;
        let first_token_s = first.elapsed().as_secs_f64();
        let shape = json!({ "iterations": args.iterations });
        report.get_or_insert_with(|| Report::new("load", &model, bench, shape));
        let id = model.id().clone();
        drop(model);
        let unload = Instant::now();
        library.unload(&id)?;
        let unload_s = unload.elapsed().as_secs_f64();
        loads.push(Load { ready_s, first_token_s, unload_s, phases });
    }
    let report = report.expect("at least one load: the command line asks for it");
    report.tell(bench, &loads, |table| loads.iter().for_each(|load| fill(table, load)))
}

fn fill(table: &mut Table, load: &Load) {
    for phase in &load.phases {
        let rate = match phase.bytes {
            0 => String::new(),
            bytes => {
                format!("  {} at {}/s", Bytes(bytes), Bytes((bytes as f64 / phase.seconds) as u64))
            }
        };
        table.row("phase", format!("{:>9.3} s  {}{rate}", phase.seconds, phase.name));
    }
    table.row("ready", format!("{:>9.3} s", load.ready_s));
    table.row("first token", format!("{:>9.3} s after", load.first_token_s));
    table.row("unload", format!("{:>9.3} s", load.unload_s));
}

/// Cuts a load into stretches of like events.
struct Phases {
    done: Vec<Phase>,
    name: String,
    since: Instant,
    /// Bytes resident when the running stretch began, and now.
    before: u64,
    now: u64,
}

impl Phases {
    fn start() -> Self {
        let name = "inspecting".to_owned();
        Phases { done: Vec::new(), name, since: Instant::now(), before: 0, now: 0 }
    }

    fn note(&mut self, event: &ProgressEvent) {
        let name = match event {
            // Its detail names single weights, which are no phases.
            ProgressEvent::LoadWeights { .. } => "weights",
            ProgressEvent::Prepare { detail } => detail,
            ProgressEvent::Ready => "ready",
        };
        if name != self.name {
            self.close();
            self.name = name.to_owned();
        }
        if let ProgressEvent::LoadWeights { current, .. } = event {
            self.now = current.0;
        }
    }

    fn close(&mut self) {
        let seconds = self.since.elapsed().as_secs_f64();
        let name = std::mem::take(&mut self.name);
        self.done.push(Phase { name, seconds, bytes: self.now.saturating_sub(self.before) });
        self.since = Instant::now();
        self.before = self.now;
    }

    fn end(mut self) -> Vec<Phase> {
        self.close();
        self.done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_kind_of_event_begins_a_phase() {
        let mut phases = Phases::start();
        phases.note(&ProgressEvent::load_weights(0, 10, "embedding"));
        phases.note(&ProgressEvent::load_weights(6, 10, "layer 0"));
        phases.note(&ProgressEvent::load_weights(10, 10, "head"));
        phases.note(&ProgressEvent::Prepare { detail: "warm-up".into() });
        phases.note(&ProgressEvent::Ready);
        let seen: Vec<(String, u64)> =
            phases.end().into_iter().map(|phase| (phase.name, phase.bytes)).collect();
        let wanted = [("inspecting", 0), ("weights", 10), ("warm-up", 0), ("ready", 0)];
        assert_eq!(seen, wanted.map(|(name, bytes)| (name.to_owned(), bytes)));
    }
}
