//! Requests straight into the engine, all at once.

use futures::{StreamExt, future};
use serde_json::{Value, json};
use tokenmill::{GenerateOptions, GenerationEvent, Model, TokenId};
use tokio::runtime::Runtime;

use super::{
    cost::{HostCost, Meter},
    trace::Trace,
};
use crate::{
    args::{DrawFlags, decimal},
    error::Error,
    interrupt::Interrupts,
};

/// What every request of a burst asks for: `output_len` tokens, drawn as `flags` say, whatever ends a text.
pub fn options(output_len: u32, flags: &DrawFlags) -> GenerateOptions {
    GenerateOptions {
        max_tokens: Some(output_len),
        temperature: Some(flags.temperature),
        top_p: flags.top_p,
        top_k: flags.top_k,
        ignore_eos: true,
        ..GenerateOptions::default()
    }
}

/// How tokens are drawn, with what the checkpoint says where the command line said nothing.
pub fn drawing(model: &Model, options: &GenerateOptions) -> Result<Value, Error> {
    let sampling = model.resolve(options)?.sampling;
    Ok(match sampling.temperature {
        0.0 => json!({ "temperature": 0 }),
        temperature => json!({
            "temperature": decimal(temperature), "top_p": decimal(sampling.top_p),
            "top_k": sampling.top_k, "min_p": decimal(sampling.min_p),
        }),
    })
}

/// What came of a burst.
pub struct Burst {
    /// One a request.
    pub traces: Vec<Trace>,
    /// Processor time from the first request to the last token.
    pub cost: HostCost,
}

/// Sends every prompt at once and waits for all answers, each of as many tokens as were asked for.
pub fn run_all(
    runtime: &Runtime,
    model: &Model,
    prompts: Vec<Vec<u32>>,
    options: &GenerateOptions,
    interrupts: &Interrupts,
) -> Result<Burst, Error> {
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let _stop_on_interrupt = interrupts.during(move || {
        stop.send_replace(true);
    });
    let meter = Meter::start();
    let traces = runtime.block_on(async {
        let tasks = prompts.into_iter().map(|prompt| {
            let (model, options, mut stopped) = (model.clone(), options.clone(), stopped.clone());
            tokio::spawn(async move {
                tokio::select! {
                    trace = run_one(model, prompt, options) => trace,
                    _ = stopped.wait_for(|stop| *stop) => Err(Error::Interrupted),
                }
            })
        });
        future::join_all(tasks.collect::<Vec<_>>()).await
    });
    let cost = meter.stop();
    let joined = traces
        .into_iter()
        .map(|trace| trace.map_err(|error| Error::io("a request's task", error.into()))?);
    Ok(Burst { traces: joined.collect::<Result<_, Error>>()?, cost })
}

async fn run_one(model: Model, prompt: Vec<u32>, options: GenerateOptions) -> Result<Trace, Error> {
    let tokens: Vec<TokenId> = prompt.into_iter().map(TokenId).collect();
    let wanted = options.max_tokens.map_or(0, |tokens| tokens as usize);
    let mut trace = Trace::start();
    trace.prompt_tokens = tokens.len();
    let mut generation = model.generate(tokens, options)?;
    while let Some(event) = StreamExt::next(&mut generation).await {
        if let GenerationEvent::Delta { tokens, .. } = event? {
            trace.tick(tokens.len());
        }
    }
    match trace.output_tokens == wanted {
        true => Ok(trace),
        false => Err(Error::Partly(format!(
            "an answer has {} tokens, and {wanted} were asked for: what was measured is other work",
            trace.output_tokens
        ))),
    }
}
