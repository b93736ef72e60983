//! `tokenmill bench throughput`: many requests at once, through the whole engine.

use serde_json::json;
use tokio::runtime::Runtime;

use super::{
    Bench, engine,
    report::{Floor, Report},
    trace::Measures,
    workload,
};
use crate::{args::ThroughputArgs, error::Error};

/// Measures and tells.
pub fn run(args: &ThroughputArgs, bench: &Bench<'_>) -> Result<(), Error> {
    let model = bench.load(&[("max-queue", args.requests)])?;
    let runtime = Runtime::new().map_err(|source| Error::io("starting the runtime", source))?;
    let vocabulary = model.info().vocab_size as u32;
    let (requests, prompt_len) = (args.requests as usize, args.prompt_len as usize);
    let prompts = workload::token_prompts(bench.target.seed, requests, prompt_len, vocabulary);
    let traces = engine::run_all(&runtime, &model, prompts, args.output_len, &bench.interrupts)?;
    let results = Measures::of(&traces);
    let shape = json!({
        "requests": args.requests, "prompt_len": args.prompt_len, "output_len": args.output_len,
        "seed": bench.target.seed,
    });
    let report =
        Report::new("throughput", &model, bench, shape).with_floor(Floor::of(&model, bench));
    report.tell(bench, &results, |table| table.measures(&results))
}
