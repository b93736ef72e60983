//! `POST /v1/completions`.

use std::sync::Arc;

use axum::{Extension, extract::State, response::Response};
use futures::future::try_join_all;
use tokenmill::{Generation, Model, Prompt, PromptFailure, Usage as Counts};

use super::{
    answer::{answer, check_entries},
    chat::{head, log_user},
    completion_form::Form,
    completion_stream::CompletionShape,
    stream::Chunks,
};
use crate::{
    body::JsonObject,
    error::ApiError,
    sse,
    state::ServerState,
    trace::RequestId,
    wire::{
        CompletionRequest, Structured,
        reply::{Reply, Usage},
    },
};

/// Continues prompts, whole or as a stream.
pub async fn completions(
    State(state): State<Arc<ServerState>>,
    Extension(RequestId(request_id)): Extension<RequestId>,
    body: JsonObject,
) -> Result<Response, ApiError> {
    let limits = state.options.limits;
    let bytes = body.bytes();
    let mut request = body.read(&state, move |map| CompletionRequest::read(map, &limits)).await?;
    let served = state.find(request.shared.model.as_deref())?;
    log_user(&request.shared);
    let form = Form::of(&request, &served)?;
    if request.echo && request.shared.options.logprobs > request.shared.options.prompt_logprobs {
        // The echoed prompt's tokens come with log-probabilities as the generated ones do.
        request.shared.options.prompt_logprobs = request.shared.options.logprobs;
    }
    let head = head("cmpl", "text_completion", &request.shared, &request_id, &served);
    let generations = start(&state, bytes, &served.model, &mut request, form.entries()).await?;
    if let Some(stream) = request.shared.stream {
        let (prompts, n) = (generations.len(), form.n);
        let chunks = Chunks::new(head, stream, prompts, n, CompletionShape::new(form, prompts));
        return Ok(sse::respond(generations, chunks));
    }
    let outputs = try_join_all(generations.into_iter().map(Generation::output_async)).await?;
    let usage = outputs.iter().fold(Usage::default(), |sum, output| add(sum, output.usage));
    let tokens = usage.prompt_tokens * form.entries().0 + usage.completion_tokens;
    answer(&state, tokens, move || {
        let mut choices = Vec::new();
        for (prompt, output) in outputs.into_iter().enumerate() {
            form.choices(prompt, output, &mut choices)?;
        }
        let mut reply = Reply::new(head, choices);
        reply.usage = Some(Some(usage));
        Ok(reply)
    })
    .await
}

/// Submits every prompt, all or none; a refusal names the prompt at fault.
async fn start(
    state: &Arc<ServerState>,
    bytes: usize,
    model: &Model,
    request: &mut CompletionRequest,
    (entries, field): (usize, &'static str),
) -> Result<Vec<Generation>, ApiError> {
    let prompts: Vec<Prompt> = std::mem::take(&mut request.prompts);
    let several = prompts.len() > 1;
    let (model, options) = (model.clone(), request.shared.options.clone());
    let start = move || -> Result<_, PromptFailure> {
        let generations = model.generate_all(prompts, options)?;
        let tokens = generations.iter().map(|generation| generation.prompt().len()).sum();
        check_entries(tokens, entries, field)
            .map_err(|error| PromptFailure { prompt: None, error })?;
        Ok(generations)
    };
    let start = move || Ok(start());
    let constrained = request.shared.options.constraint.is_some();
    let load = super::prepare::Load { bytes, constrained };
    let generations = super::prepare::prepare(state, load, start).await?;
    generations.map_err(|failure| {
        let field = request.shared.constraint_field.as_deref();
        let error = ApiError::from(Structured::rename(field, failure.error));
        match failure.prompt.filter(|_| several) {
            Some(index) => error.of_prompt(index),
            None => error,
        }
    })
}

fn add(sum: Usage, counts: Counts) -> Usage {
    Usage::new(
        sum.prompt_tokens + counts.prompt_tokens,
        sum.completion_tokens + counts.completion_tokens,
        sum.prompt_tokens_details.cached_tokens + counts.cached_tokens,
    )
}
