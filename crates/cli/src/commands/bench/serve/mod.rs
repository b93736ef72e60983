//! `tokenmill bench serve`: load over HTTP, against a server of our own or any OpenAI-compatible one.

mod ask;
mod pace;
mod point;

use std::time::Instant;

use futures::future;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use self::{
    ask::Form,
    pace::Pace,
    point::{Cost, Point},
};
use super::{
    Bench,
    client::{Ask, Limits, Server},
    cost::Meter,
    plot,
    report::Report,
    workload::{self, Shape, Vocabulary},
};
use crate::{
    args::{Endpoint, ServeLoadArgs},
    commands::serve::Background,
    environment,
    error::Error,
};

/// A server, ready for load.
struct Target {
    server: Server,
    /// The model's name there.
    model: String,
    vocabulary: Vocabulary,
    report: Report,
    /// The server, where it is our own.
    own: Option<Background>,
}

/// Measures and tells; fails when a request failed.
pub fn run(args: &ServeLoadArgs, bench: &Bench<'_>) -> Result<(), Error> {
    let picture = args.plot.as_deref().map(plot::Picture::create).transpose()?;
    let runtime = Runtime::new().map_err(|source| Error::io("starting the runtime", source))?;
    super::client::allow_many_sockets();
    let target = match &args.url {
        Some(url) => foreign(url, args, bench, &runtime)?,
        None => own(args, bench, &runtime)?,
    };
    let points = measure(args, bench, &target, &runtime);
    let Target { report, own, .. } = target;
    if let Some(own) = own {
        runtime.block_on(own.stop());
    }
    let points = points?;
    report.tell(bench, &points, |table| point::fill(table, &points))?;
    if let Some(picture) = picture {
        picture.write(&[report.curve(&points)?], args.plot_x)?;
    }
    let failed: usize = points.iter().map(|point| point.failed).sum();
    let all: usize = points.iter().map(|point| point.measures.requests).sum();
    match failed {
        0 => Ok(()),
        failed => Err(Error::Partly(format!("{failed} of {} requests failed", all + failed))),
    }
}

fn own(args: &ServeLoadArgs, bench: &Bench<'_>, runtime: &Runtime) -> Result<Target, Error> {
    let most = paces(args).into_iter().map(|pace| requests(args, pace)).max().unwrap_or(0);
    let model = bench.load(&[("max-queue", most.max(args.warmup))])?;
    let vocabulary = vocabulary(args, Some(model.info().vocab_size));
    let name = model.id().to_string();
    let report = Report::new("serve", &model, bench, shape(args, bench, vocabulary));
    let own = runtime.block_on(Background::start(vec![model], &bench.settings))?;
    let server = Server::at(own.url(), None, None, limits(args))?;
    let report = report.with_label(args.label.clone());
    Ok(Target { server, model: name, vocabulary, report, own: Some(own) })
}

fn foreign(
    url: &str,
    args: &ServeLoadArgs,
    bench: &Bench<'_>,
    runtime: &Runtime,
) -> Result<Target, Error> {
    let key = args.bench_api_key.clone().or_else(environment::openai_key);
    let server = Server::at(url, key, args.tls_ca.as_deref(), limits(args))?;
    let model = match &args.model_name {
        Some(name) => name.clone(),
        None => runtime.block_on(server.first_model())?,
    };
    let known = bench.reference().ok().map(|reference| vocabulary_of(bench, reference));
    let vocabulary = vocabulary(args, known.transpose()?);
    let report =
        Report::remote("serve", format!("{model} at {url}"), shape(args, bench, vocabulary));
    let report = report.with_label(args.label.clone());
    Ok(Target { server, model, vocabulary, report, own: None })
}

/// The entries of the vocabulary, from the checkpoint's files alone.
fn vocabulary_of(bench: &Bench<'_>, reference: &str) -> Result<usize, Error> {
    let report = bench.library()?.inspect(reference, &bench.model_options())?;
    let vocabulary = report.model.and_then(|model| model.vocab_size);
    vocabulary.ok_or_else(|| Error::CannotRun {
        reference: reference.to_owned(),
        reason: "its vocabulary is not known".into(),
    })
}

/// Chats are of words: no message is a list of token ids.
fn vocabulary(args: &ServeLoadArgs, known: Option<usize>) -> Vocabulary {
    match (args.endpoint, known) {
        (Endpoint::Completions, Some(entries)) => {
            Vocabulary::Ids(u32::try_from(entries).unwrap_or(u32::MAX))
        }
        _ => Vocabulary::Words,
    }
}

/// All points, one after the other.
fn measure(
    args: &ServeLoadArgs,
    bench: &Bench<'_>,
    target: &Target,
    runtime: &Runtime,
) -> Result<Vec<Point>, Error> {
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let _stop_on_interrupt = bench.interrupts.during(move || {
        stop.send_replace(true);
    });
    let until_stopped = |work| {
        let mut stopped = stopped.clone();
        async move {
            tokio::select! {
                done = work => done,
                _ = stopped.wait_for(|stop| *stop) => Err(Error::Interrupted),
            }
        }
    };
    let paces = paces(args);
    let load = Load { args, bench, target };
    let warm: future::BoxFuture<'_, _> = Box::pin(load.warm_up());
    runtime.block_on(until_stopped(warm))?;
    let mut points = Vec::new();
    for (index, pace) in paces.iter().enumerate() {
        let point: future::BoxFuture<'_, _> = Box::pin(load.point(index as u64 + 1, *pace));
        points.extend(runtime.block_on(until_stopped(point))?);
        if let Some(point) = points.last().filter(|_| paces.len() > 1) {
            bench.output.note(point.line());
        }
    }
    Ok(points)
}

/// What sends load to a target.
struct Load<'a> {
    args: &'a ServeLoadArgs,
    bench: &'a Bench<'a>,
    target: &'a Target,
}

impl Load<'_> {
    /// Requests that are not measured, all at once. If one fails there is nothing to measure.
    async fn warm_up(&self) -> Result<Option<Point>, Error> {
        let asks = self.asks(0, self.args.warmup);
        let (server, now) = (&self.target.server, Instant::now());
        let samples = asks.iter().flatten().map(|ask| server.stream(ask, now));
        let failure = future::join_all(samples).await.into_iter().find_map(|sample| sample.failure);
        failure.map_or(Ok(None), Err)
    }

    /// Requests at one pace. Each point has prompts of its own: none may find those of another one in a cache.
    async fn point(&self, index: u64, pace: Pace) -> Result<Option<Point>, Error> {
        let asks = self.asks(index, requests(self.args, pace));
        let meter = Meter::start();
        let seed = self.bench.target.seed;
        let samples = pace.send(self.target.server.clone(), asks, seed).await;
        let cost = meter.stop();
        let cost = match self.target.own {
            Some(_) => Cost::Whole(cost),
            None => Cost::Client(cost),
        };
        Ok(Some(Point::new(pace, samples, cost)))
    }

    fn asks(&self, index: u64, count: u32) -> Vec<Vec<Ask>> {
        let args = self.args;
        let shape = Shape {
            lengths: args.lengths,
            prompt_len: args.prompt_len as usize,
            output_len: args.output_len as usize,
            vocabulary: self.target.vocabulary,
        };
        let seed = self.bench.target.seed.wrapping_mul(1_000_003).wrapping_add(index);
        let form = Form {
            model: &self.target.model,
            endpoint: args.endpoint,
            draw: &args.draw,
            first_seed: args.request_seed,
            ignore_eos: !args.allow_eos,
        };
        form.asks(&workload::chains(seed, count as usize, &shape))
    }
}

fn paces(args: &ServeLoadArgs) -> Vec<Pace> {
    match &args.rate[..] {
        [] => args.concurrency.iter().map(|count| Pace::Together(*count)).collect(),
        rates => rates.iter().map(|rate| Pace::Rate(*rate)).collect(),
    }
}

/// Enough for the pace to be kept up for a while, unless it was said how many.
fn requests(args: &ServeLoadArgs, pace: Pace) -> u32 {
    let enough = match pace {
        Pace::Together(count) => count.saturating_mul(4).max(64),
        Pace::Rate(_) => 64,
    };
    args.requests.unwrap_or(enough)
}

fn limits(args: &ServeLoadArgs) -> Limits {
    Limits {
        connect: args.connect_timeout,
        first: args.first_token_timeout,
        stall: args.stall_timeout,
        whole: args.request_timeout,
    }
}

fn shape(args: &ServeLoadArgs, bench: &Bench<'_>, vocabulary: Vocabulary) -> Value {
    let prompts = match vocabulary {
        Vocabulary::Ids(_) => "token ids",
        Vocabulary::Words => "words",
    };
    let mut shape = json!({
        "endpoint": args.endpoint.name(), "lengths": args.lengths.to_string(),
        "prompt_len": args.prompt_len, "output_len": args.output_len, "prompts": prompts,
        "ignore_eos": !args.allow_eos, "warmup": args.warmup, "seed": bench.target.seed,
        "temperature": args.draw.temperature_decimal(),
    });
    let optional = [
        ("requests", args.requests.map(Value::from)),
        ("top_p", args.draw.top_p_decimal().map(Value::from)),
        ("top_k", args.draw.top_k.map(Value::from)),
        ("request_seed", args.request_seed.map(Value::from)),
    ];
    for (name, value) in optional {
        if let Some(value) = value {
            shape[name] = value;
        }
    }
    shape
}
