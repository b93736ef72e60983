//! `tokenmill bench throughput`: many requests at once, through the whole engine.

use serde::Serialize;
use serde_json::json;
use tokio::runtime::Runtime;

use super::{
    Bench,
    cost::HostCost,
    engine,
    report::{Floor, Report},
    trace::Measures,
    workload,
};
use crate::{args::ThroughputArgs, error::Error};

/// What came out.
#[derive(Serialize)]
struct Results {
    /// Of engine and bench, which are one process.
    host: HostCost,
    #[serde(flatten)]
    measures: Measures,
}

/// Measures and tells.
pub fn run(args: &ThroughputArgs, bench: &Bench<'_>) -> Result<(), Error> {
    let model = bench.load_unbounded(&[("max-queue", args.requests)])?;
    let runtime = Runtime::new().map_err(|source| Error::io("starting the runtime", source))?;
    let vocabulary = model.info().vocab_size as u32;
    let (requests, prompt_len) = (args.requests as usize, args.prompt_len as usize);
    let prompts = workload::token_prompts(bench.target.seed, requests, prompt_len, vocabulary);
    let options = engine::options(args.output_len, &args.draw);
    let drawing = engine::drawing(&model, &options)?;
    let burst = engine::run_all(&runtime, &model, prompts, &options, &bench.interrupts)?;
    let results = Results { host: burst.cost, measures: Measures::of(&burst.traces) };
    let shape = json!({
        "requests": args.requests, "prompt_len": args.prompt_len, "output_len": args.output_len,
        "seed": bench.target.seed, "sampling": drawing,
    });
    let report =
        Report::new("throughput", &model, bench, shape).with_floor(Floor::of(&model, bench, 1));
    report.tell(bench, &results, |table| {
        table.measures(&results.measures);
        table.cost(&results.host);
    })
}
