//! `POST /v1/completions`.

use std::sync::Arc;

use axum::{
    Extension, Json,
    extract::State,
    response::{IntoResponse, Response},
};
use futures::{StreamExt, future::try_join_all};
use tokenmill::{
    FinishReason, Generation, GenerationEvent, Model, Output, Prompt, TokenId, TokenLogprob,
    Usage as Counts,
};

use super::{
    chat::{check_finished, head, log_user, token_names},
    completion_stream::CompletionShape,
    stream::Chunks,
};
use crate::{
    body::JsonObject,
    error::ApiError,
    sse,
    state::{ServedModel, ServerState},
    trace::RequestId,
    wire::{
        CompletionRequest,
        logprobs::{CompletionLogprobs, TokenNames, prompt_logprobs},
        reply::{CompletionChoice, Ending, Reply, Usage},
    },
};

/// Continues prompts, whole or as a stream.
pub async fn completions(
    State(state): State<Arc<ServerState>>,
    Extension(RequestId(request_id)): Extension<RequestId>,
    JsonObject { map, bytes }: JsonObject,
) -> Result<Response, ApiError> {
    let mut request = CompletionRequest::read(map, &state.options.limits)?;
    let served = state.find(request.shared.model.as_deref())?;
    log_user(&request.shared);
    let form = Form::of(&request, &served);
    if request.echo && request.shared.options.logprobs > request.shared.options.prompt_logprobs {
        // The echoed prompt's tokens come with log-probabilities as the generated ones do.
        request.shared.options.prompt_logprobs = request.shared.options.logprobs;
    }
    let head = head("cmpl", "text_completion", &request.shared, &request_id, &served);
    let generations = start(&state, bytes, &served.model, &mut request).await?;
    if let Some(stream) = request.shared.stream {
        let (prompts, n) = (generations.len(), form.n);
        let chunks = Chunks::new(head, stream, prompts, n, CompletionShape::new(form, prompts));
        return Ok(sse::respond(generations, chunks));
    }
    let prompt_only = request.prompt_only;
    let outputs = generations
        .into_iter()
        .map(|generation| collect(generation, prompt_only.then_some(form.n)));
    let outputs = try_join_all(outputs).await?;
    let usage = outputs.iter().fold(Usage::default(), |sum, output| add(sum, output.usage));
    let mut choices = Vec::new();
    for (prompt, output) in outputs.into_iter().enumerate() {
        form.choices(prompt, output, &mut choices)?;
    }
    let mut reply = Reply::new(head, choices);
    reply.usage = Some(Some(usage));
    Ok(Json(reply).into_response())
}

/// Submits every prompt, all or none; a refusal names the prompt at fault.
async fn start(
    state: &Arc<ServerState>,
    bytes: usize,
    model: &Model,
    request: &mut CompletionRequest,
) -> Result<Vec<Generation>, ApiError> {
    let prompts: Vec<Prompt> = std::mem::take(&mut request.prompts);
    let several = prompts.len() > 1;
    let (model, options) = (model.clone(), request.shared.options.clone());
    let start = move || Ok(model.generate_all(prompts, options));
    let generations = super::prepare::prepare(state, bytes, start).await?;
    generations.map_err(|failure| {
        let error = ApiError::from(failure.error);
        match failure.prompt.filter(|_| several) {
            Some(index) => error.of_prompt(index),
            None => error,
        }
    })
}

/// Waits for the end; or, where `prompt_only` gives a number of choices, until the prompt has been taken in, and gives
/// so many empty ones.
async fn collect(
    mut generation: Generation,
    prompt_only: Option<usize>,
) -> Result<Output, ApiError> {
    let Some(n) = prompt_only else {
        return Ok(generation.output_async().await?);
    };
    match StreamExt::next(&mut generation).await {
        Some(Ok(GenerationEvent::Prompt { tokens, cached_tokens, logprobs })) => {
            let empty = tokenmill::Choice {
                reasoning: None,
                calls: Vec::new(),
                text: None,
                tokens: Vec::new(),
                logprobs: Vec::new(),
                finish_reason: FinishReason::Length,
                stop_reason: None,
            };
            let usage = Counts { prompt_tokens: tokens.len(), completion_tokens: 0, cached_tokens };
            Ok(Output { prompt: tokens, prompt_logprobs: logprobs, choices: vec![empty; n], usage })
        }
        Some(Err(error)) => Err(error.into()),
        _ => Err(ApiError::broke_off("the generation broke off")),
    }
}

fn add(sum: Usage, counts: Counts) -> Usage {
    Usage::new(
        sum.prompt_tokens + counts.prompt_tokens,
        sum.completion_tokens + counts.completion_tokens,
        sum.prompt_tokens_details.cached_tokens + counts.cached_tokens,
    )
}

/// What a completion reply shows, whole or streamed.
#[derive(Clone, Debug)]
pub struct Form {
    model: Model,
    /// Choices for each prompt.
    pub n: usize,
    /// How tokens are named.
    pub names: TokenNames,
    /// Log-probabilities of this many rivals.
    pub logprobs: Option<u32>,
    /// The same of prompts, in a field of its own.
    pub prompt_logprobs: Option<u32>,
    /// Repeat the prompt: for each prompt its text where it came as text.
    echo: Option<Vec<Option<String>>>,
    /// For each prompt: whether token ids are shown.
    ids: Vec<bool>,
    /// Whether the prompt's ids are shown.
    pub prompt_ids: bool,
}

/// An echoed prompt.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Echo {
    /// Its text.
    pub text: String,
    /// Its tokens' log-probabilities; empty lists where not asked for.
    pub logprobs: CompletionLogprobs,
    /// Where the text after it begins, in characters.
    pub offset: usize,
}

impl Form {
    fn of(request: &CompletionRequest, served: &ServedModel) -> Form {
        let shared = &request.shared;
        let text_of = |prompt: &Prompt| match prompt {
            Prompt::Text(text) => Some(text.clone()),
            Prompt::Tokens(_) => None,
        };
        // Who asks in ids, or of a model that has no texts, is answered in ids as well.
        let shows_ids = |prompt: &Prompt| {
            let by_default = matches!(prompt, Prompt::Tokens(_)) || !served.model.has_tokenizer();
            shared.return_token_ids.unwrap_or(by_default)
        };
        Form {
            model: served.model.clone(),
            n: shared.options.n.unwrap_or(1) as usize,
            names: token_names(shared, served),
            logprobs: shared.options.logprobs,
            prompt_logprobs: shared.options.prompt_logprobs,
            echo: request.echo.then(|| request.prompts.iter().map(text_of).collect()),
            ids: request.prompts.iter().map(shows_ids).collect(),
            prompt_ids: shared.return_token_ids.unwrap_or(false),
        }
    }

    /// Whether token ids are shown for a prompt's choices.
    pub fn shows_ids(&self, prompt: usize) -> bool {
        self.ids.get(prompt).copied().unwrap_or(false)
    }

    /// What is repeated of a prompt; nothing where no echo was asked for.
    pub fn echo(
        &self,
        prompt: usize,
        tokens: &[TokenId],
        logprobs: Option<&[Option<TokenLogprob>]>,
    ) -> Result<Echo, ApiError> {
        let Some(texts) = &self.echo else { return Ok(Echo::default()) };
        let text_of = |tokens: &[TokenId], skip_special: bool| match self.model.has_tokenizer() {
            true => self.model.detokenize(tokens, skip_special),
            false => Ok(String::new()),
        };
        let given = texts.get(prompt).cloned().flatten();
        let from_text = given.is_some();
        let text = match given {
            Some(text) => text,
            None => text_of(tokens, false)?,
        };
        let mut echo = Echo { offset: text.chars().count(), text, ..Echo::default() };
        let Some(rivals) = self.logprobs else { return Ok(echo) };
        let mut offset = 0;
        for (token, logprob) in tokens.iter().zip(logprobs.unwrap_or_default()) {
            match logprob {
                Some(logprob) => {
                    echo.logprobs.push(&at_most(logprob, rivals), self.names, &mut offset);
                }
                None => {
                    let text = text_of(&[*token], false)?;
                    echo.logprobs.push_first(*token, &text, self.names, &mut offset);
                    // The control token that a tokenizer puts before a text is no part of that text.
                    if from_text && text_of(&[*token], true)?.is_empty() {
                        offset = 0;
                    }
                }
            }
        }
        Ok(echo)
    }

    /// Log-probabilities of generated tokens, behind those of the echo.
    pub fn extend(
        &self,
        logprobs: &mut CompletionLogprobs,
        tokens: &[TokenLogprob],
        offset: &mut usize,
    ) {
        for token in tokens {
            logprobs.push(token, self.names, offset);
        }
    }

    fn choices(
        &self,
        prompt: usize,
        output: Output,
        choices: &mut Vec<CompletionChoice>,
    ) -> Result<(), ApiError> {
        let echo = self.echo(prompt, &output.prompt, output.prompt_logprobs.as_deref())?;
        let prompt_logprobs = self.prompt_logprobs.and_then(|rivals| {
            let tokens = output.prompt_logprobs.as_deref()?;
            let tokens: Vec<_> = tokens
                .iter()
                .map(|token| token.as_ref().map(|token| at_most(token, rivals)))
                .collect();
            Some(prompt_logprobs(&tokens, self.names))
        });
        for (index, choice) in output.choices.into_iter().enumerate() {
            check_finished(choice.finish_reason)?;
            let mut own = echo.clone();
            self.extend(&mut own.logprobs, &choice.logprobs, &mut own.offset);
            choices.push(CompletionChoice {
                index: prompt * self.n + index,
                text: own.text + &choice.text.unwrap_or_default(),
                logprobs: self.logprobs.map(|_| own.logprobs),
                ending: Ending {
                    finish_reason: Some(choice.finish_reason),
                    stop_reason: choice.stop_reason,
                },
                token_ids: self.shows_ids(prompt).then_some(choice.tokens),
                prompt_token_ids: self.prompt_ids.then(|| output.prompt.to_vec()),
                prompt_logprobs: prompt_logprobs.clone(),
            });
        }
        Ok(())
    }
}

/// The same with at most that many rivals.
fn at_most(token: &TokenLogprob, rivals: u32) -> TokenLogprob {
    let mut token = token.clone();
    token.top.truncate(rivals as usize);
    token
}
