//! Requests straight into the engine, all at once.

use futures::{StreamExt, future};
use tokenmill::{GenerateOptions, GenerationEvent, Model, TokenId};
use tokio::runtime::Runtime;

use super::trace::Trace;
use crate::{error::Error, interrupt::Interrupts};

/// Sends every prompt at once and waits for all answers, each of exactly `output_len` greedy tokens.
pub fn run_all(
    runtime: &Runtime,
    model: &Model,
    prompts: Vec<Vec<u32>>,
    output_len: u32,
    interrupts: &Interrupts,
) -> Result<Vec<Trace>, Error> {
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let _stop_on_interrupt = interrupts.during(move || {
        stop.send_replace(true);
    });
    let traces = runtime.block_on(async {
        let tasks = prompts.into_iter().map(|prompt| {
            let (model, mut stopped) = (model.clone(), stopped.clone());
            tokio::spawn(async move {
                tokio::select! {
                    trace = run_one(model, prompt, output_len) => trace,
                    _ = stopped.wait_for(|stop| *stop) => Err(Error::Interrupted),
                }
            })
        });
        future::join_all(tasks.collect::<Vec<_>>()).await
    });
    traces
        .into_iter()
        .map(|trace| trace.map_err(|error| Error::io("a request's task", error.into()))?)
        .collect()
}

async fn run_one(model: Model, prompt: Vec<u32>, output_len: u32) -> Result<Trace, Error> {
    let tokens: Vec<TokenId> = prompt.into_iter().map(TokenId).collect();
    let options = GenerateOptions {
        max_tokens: Some(output_len),
        temperature: Some(0.0),
        ignore_eos: true,
        ..GenerateOptions::default()
    };
    let mut trace = Trace::start();
    trace.prompt_tokens = tokens.len();
    let mut generation = model.generate(tokens, options)?;
    while let Some(event) = StreamExt::next(&mut generation).await {
        if let GenerationEvent::Delta { tokens, .. } = event? {
            trace.tick(tokens.len());
        }
    }
    Ok(trace)
}
