//! `tokenmill bench latency`: one batch, again and again.

use serde::Serialize;
use serde_json::json;
use tokio::runtime::Runtime;

use super::{
    Bench,
    cost::HostCost,
    engine,
    report::{Floor, Report},
    trace::{Measures, Trace, prefill_rate, span},
    workload,
};
use crate::{args::LatencyArgs, error::Error, progress::Progress};

/// What came out.
#[derive(Serialize)]
struct Results {
    /// Prompt tokens a second until the last sequence had its first token; mean of the repetitions.
    prefill_tokens_per_s: f64,
    /// Of the time of a further token, the part that memory at its best would take; median.
    #[serde(skip_serializing_if = "Option::is_none")]
    percent_of_floor: Option<f64>,
    /// Of engine and bench, which are one process, over all repetitions.
    host: HostCost,
    #[serde(flatten)]
    measures: Measures,
}

/// Measures and tells.
pub fn run(args: &LatencyArgs, bench: &Bench<'_>) -> Result<(), Error> {
    let model = bench.load(&[("max-num-seqs", args.batch), ("max-queue", args.batch)])?;
    let together = model.runner().max_step_sequences;
    if args.batch as usize > together {
        bench.output.warn(format_args!(
            "a step advances {together} sequences: the batch of {} is not computed at once",
            args.batch
        ));
    }
    let runtime = Runtime::new().map_err(|source| Error::io("starting the runtime", source))?;
    let mut progress = Progress::new(bench.output, &bench.interrupts);
    let total = u64::from(args.warmup + args.iterations);
    let options = engine::options(args.output_len, &args.draw);
    let drawing = engine::drawing(&model, &options)?;
    let (mut measured, mut host): (Vec<Vec<Trace>>, _) = (Vec::new(), HostCost::default());
    for iteration in 0..total {
        if !progress.counting("measuring", iteration, total) {
            return Err(Error::Interrupted);
        }
        // Another seed each time: no prompt may be found in the prefix cache.
        let seed = bench.target.seed.wrapping_mul(1_000_003).wrapping_add(iteration);
        let vocabulary = model.info().vocab_size as u32;
        let prompts = workload::token_prompts(
            seed,
            args.batch as usize,
            args.prompt_len as usize,
            vocabulary,
        );
        let burst = engine::run_all(&runtime, &model, prompts, &options, &bench.interrupts)?;
        if iteration >= u64::from(args.warmup) {
            measured.push(burst.traces);
            host += burst.cost;
        }
    }
    progress.clear();
    let wall_s = measured.iter().map(|traces| span(traces).as_secs_f64()).sum();
    let prefill = measured.iter().map(|traces| prefill_rate(traces)).sum::<f64>();
    let (measures, floor) =
        (Measures::over(&measured.concat(), wall_s), Floor::of(&model, bench, args.batch));
    let step = measures.time_per_output_token.as_ref().map(|times| times.p50_ms);
    let results = Results {
        prefill_tokens_per_s: prefill / measured.len() as f64,
        percent_of_floor: floor.as_ref().zip(step).map(|(floor, ms)| floor.percent(ms)),
        host,
        measures,
    };
    let shape = json!({
        "batch": args.batch, "prompt_len": args.prompt_len, "output_len": args.output_len,
        "iterations": args.iterations, "warmup": args.warmup, "seed": bench.target.seed,
        "sampling": drawing,
    });
    let report = Report::new("latency", &model, bench, shape).with_floor(floor);
    report.tell(bench, &results, |table| {
        table.row("prefill", format!("{:.1} tokens/s", results.prefill_tokens_per_s));
        table.measures(&results.measures);
        table.cost(&results.host);
        if let Some(percent) = results.percent_of_floor {
            table.row("of floor", format!("{percent:.1} % at the median TPOT"));
        }
    })
}
