//! `tokenmill bench serve`: load over HTTP, against a server of our own or any OpenAI-compatible one.

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::future;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::{runtime::Runtime, time};

use super::{
    Bench,
    http::Server,
    report::Report,
    trace::{Measures, Trace},
    workload,
};
use crate::{args::ServeLoadArgs, commands::serve::Background, error::Error};

/// What came out.
#[derive(Serialize)]
struct Results {
    failed: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_failure: Option<String>,
    #[serde(flatten)]
    measures: Measures,
}

/// Measures and tells; fails when a request failed.
pub fn run(args: &ServeLoadArgs, bench: &Bench<'_>) -> Result<(), Error> {
    let runtime = Runtime::new().map_err(|source| Error::io("starting the runtime", source))?;
    let shape = shape(args, bench);
    let (report, results) = match &args.url {
        Some(url) => against_url(url, args, bench, &runtime, shape)?,
        None => against_own(args, bench, &runtime, shape)?,
    };
    report.tell(bench, &results, |table| {
        if let Some(failure) = &results.first_failure {
            table.row("failed", format!("{} requests; the first: {failure}", results.failed));
        }
        table.measures(&results.measures);
    })?;
    match results.failed {
        0 => Ok(()),
        failed => Err(Error::Partly(format!("{failed} of {} requests failed", args.requests))),
    }
}

fn against_own(
    args: &ServeLoadArgs,
    bench: &Bench<'_>,
    runtime: &Runtime,
    shape: Value,
) -> Result<(Report, Results), Error> {
    let model = bench.load(&[("max-queue", args.requests)])?;
    let name = model.id().to_string();
    let report = Report::new("serve", &model, bench, shape);
    let prompts = token_prompts(args, bench, model.info().vocab_size);
    let own = runtime.block_on(Background::start(vec![model], &bench.settings))?;
    let server = Server::at(own.url(), None, None)?;
    let results = drive(server, bodies(&name, prompts, args), args, bench, runtime);
    runtime.block_on(own.stop());
    Ok((report, results?))
}

fn against_url(
    url: &str,
    args: &ServeLoadArgs,
    bench: &Bench<'_>,
    runtime: &Runtime,
    shape: Value,
) -> Result<(Report, Results), Error> {
    let server = Server::at(url, args.bench_api_key.clone(), args.tls_ca.as_deref())?;
    let name = match &args.model_name {
        Some(name) => name.clone(),
        None => runtime.block_on(server.first_model())?,
    };
    let prompts = match bench.reference() {
        Ok(reference) => token_prompts(args, bench, vocabulary(bench, reference)?),
        Err(_) => {
            let (requests, words) = (args.requests as usize, args.prompt_len as usize);
            let prompts = workload::text_prompts(bench.target.seed, requests, words);
            prompts.into_iter().map(Value::from).collect()
        }
    };
    let report = Report::remote("serve", format!("{name} at {url}"), shape);
    let results = drive(server, bodies(&name, prompts, args), args, bench, runtime)?;
    Ok((report, results))
}

/// The entries of the vocabulary, from the checkpoint's files alone.
fn vocabulary(bench: &Bench<'_>, reference: &str) -> Result<usize, Error> {
    let report = bench.library()?.inspect(reference, &bench.model_options())?;
    let vocabulary = report.model.and_then(|model| model.vocab_size);
    vocabulary.ok_or_else(|| Error::CannotRun {
        reference: reference.to_owned(),
        reason: "its vocabulary is not known".into(),
    })
}

fn token_prompts(args: &ServeLoadArgs, bench: &Bench<'_>, vocabulary: usize) -> Vec<Value> {
    let (requests, length) = (args.requests as usize, args.prompt_len as usize);
    let vocabulary = u32::try_from(vocabulary).unwrap_or(u32::MAX);
    let prompts = workload::token_prompts(bench.target.seed, requests, length, vocabulary);
    prompts.into_iter().map(Value::from).collect()
}

/// The requests' bodies, made before the clock starts.
fn bodies(model: &str, prompts: Vec<Value>, args: &ServeLoadArgs) -> Vec<String> {
    let body = |prompt| {
        let mut body = json!({
            "model": model, "prompt": prompt, "max_tokens": args.output_len, "temperature": 0,
            "stream": true, "stream_options": { "include_usage": true },
        });
        if !args.allow_eos {
            body["ignore_eos"] = true.into();
        }
        body.to_string()
    };
    prompts.into_iter().map(body).collect()
}

/// Sends all requests at their times and waits for the answers.
fn drive(
    server: Server,
    bodies: Vec<String>,
    args: &ServeLoadArgs,
    bench: &Bench<'_>,
    runtime: &Runtime,
) -> Result<Results, Error> {
    let (stop, mut stopped) = tokio::sync::watch::channel(false);
    let _stop_on_interrupt = bench.interrupts.during(move || {
        stop.send_replace(true);
    });
    let answers = runtime.block_on(async {
        let all = async {
            match args.rate {
                Some(rate) => {
                    let arrivals =
                        workload::poisson_arrivals(bench.target.seed, bodies.len(), rate);
                    at_their_times(server, bodies, arrivals).await
                }
                None => some_at_a_time(server, bodies, args.concurrency as usize).await,
            }
        };
        tokio::select! {
            answers = all => Ok(answers),
            _ = stopped.wait_for(|stop| *stop) => Err(Error::Interrupted),
        }
    })?;
    let (traces, failures): (Vec<_>, Vec<_>) = answers.into_iter().partition(Result::is_ok);
    let traces: Vec<Trace> = traces.into_iter().flatten().collect();
    Ok(Results {
        failed: failures.len(),
        first_failure: failures.into_iter().find_map(Result::err).map(|error| error.sentence()),
        measures: Measures::of(&traces),
    })
}

type Answers = Vec<Result<Trace, Error>>;

async fn at_their_times(server: Server, bodies: Vec<String>, arrivals: Vec<Duration>) -> Answers {
    let start = time::Instant::now();
    let send = |(body, arrival): (String, Duration)| {
        let server = server.clone();
        spawned(async move {
            time::sleep_until(start + arrival).await;
            server.complete(body).await
        })
    };
    future::join_all(bodies.into_iter().zip(arrivals).map(send)).await
}

async fn some_at_a_time(server: Server, bodies: Vec<String>, concurrency: usize) -> Answers {
    let workers = concurrency.min(bodies.len());
    let shared = Arc::new((AtomicUsize::new(0), bodies));
    let worker = |_| {
        let (server, shared) = (server.clone(), Arc::clone(&shared));
        tokio::spawn(async move {
            let (next, bodies) = &*shared;
            let mut answers = Vec::new();
            while let Some(body) = bodies.get(next.fetch_add(1, Ordering::Relaxed)) {
                answers.push(server.complete(body.clone()).await);
            }
            answers
        })
    };
    let answers = future::join_all((0..workers).map(worker)).await;
    answers
        .into_iter()
        .flat_map(|joined| joined.unwrap_or_else(|error| vec![Err(lost(error))]))
        .collect()
}

/// Runs beside the others, on any thread.
async fn spawned(
    request: impl Future<Output = Result<Trace, Error>> + Send + 'static,
) -> Result<Trace, Error> {
    tokio::spawn(request).await.unwrap_or_else(|error| Err(lost(error)))
}

fn lost(error: tokio::task::JoinError) -> Error {
    Error::io("a request's task", error.into())
}

fn shape(args: &ServeLoadArgs, bench: &Bench<'_>) -> Value {
    let mut shape = json!({
        "requests": args.requests, "prompt_len": args.prompt_len, "output_len": args.output_len,
        "seed": bench.target.seed,
    });
    match args.rate {
        Some(rate) => shape["rate_per_s"] = rate.into(),
        None => shape["concurrency"] = args.concurrency.into(),
    }
    shape
}
