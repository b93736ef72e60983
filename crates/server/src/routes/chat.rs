//! `POST /v1/chat/completions`.

use std::sync::Arc;

use axum::{Extension, extract::State, response::Response};
use tokenmill::{Choice, FinishReason, Output, ToolCall};

use super::{
    answer::{answer, check_entries},
    chat_stream::ChatShape,
    prepare::{Load, prepare},
    stream::Chunks,
};
use crate::{
    body::JsonObject,
    error::ApiError,
    sse,
    state::{ServedModel, ServerState, unix_seconds},
    trace::RequestId,
    wire::{
        ChatRequest, Shared, Structured,
        logprobs::{ChatLogprobs, TokenNames, prompt_logprobs},
        reply::{AssistantMessage, ChatChoice, Ending, Head, Reply, Usage},
    },
};

/// Answers a chat, whole or as a stream.
pub async fn chat(
    State(state): State<Arc<ServerState>>,
    Extension(RequestId(request_id)): Extension<RequestId>,
    body: JsonObject,
) -> Result<Response, ApiError> {
    let (bytes, limits) = (body.bytes(), state.options.limits);
    let ChatRequest { shared, conversation, include_reasoning } =
        body.read(&state, move |map| ChatRequest::read(map, &limits)).await?;
    let served = state.find(shared.model.as_deref())?;
    log_user(&shared);
    let model = served.model.clone();
    let options = shared.options.clone();
    let entries = options.prompt_logprobs.map_or(0, |rivals| 1 + rivals as usize);
    let field = shared.constraint_field.clone();
    let load = Load { bytes, constrained: options.constraint.is_some() };
    let generation = prepare(&state, load, move || {
        let generation = model.chat(conversation.messages, conversation.options, options);
        let generation = generation.map_err(|error| Structured::rename(field.as_deref(), error))?;
        check_entries(generation.prompt().len(), entries, "prompt_logprobs")?;
        Ok(generation)
    })
    .await?;
    let head = head("chatcmpl", "chat.completion", &shared, &request_id, &served);
    let names = token_names(&shared, &served);
    match shared.stream {
        None => {
            let output = generation.output_async().await?;
            let tokens = output.prompt.len() * entries + output.usage.completion_tokens;
            answer(&state, tokens, move || whole(head, output, &shared, names, include_reasoning))
                .await
        }
        Some(stream) => {
            let choices = shared.options.n.unwrap_or(1) as usize;
            let head = Head { object: "chat.completion.chunk", ..head };
            let shape = ChatShape {
                choices,
                names,
                reasoning: include_reasoning,
                logprobs: shared.options.logprobs.is_some(),
                ids: shared.return_token_ids.unwrap_or(false),
            };
            let chunks = Chunks::new(head, stream, 1, choices, shape);
            Ok(sse::respond(vec![generation], chunks))
        }
    }
}

/// The head of a reply. The caller's name for the request, if there is one, becomes part of its id.
pub(super) fn head(
    prefix: &str,
    object: &'static str,
    shared: &Shared,
    request_id: &str,
    served: &ServedModel,
) -> Head {
    let name = shared.request_id.as_deref().unwrap_or(request_id);
    Head {
        id: format!("{prefix}-{name}"),
        object,
        created: unix_seconds(),
        model: served.name().to_owned(),
    }
}

/// How log-probabilities name tokens.
pub(super) fn token_names(shared: &Shared, served: &ServedModel) -> TokenNames {
    let by_id = shared.tokens_as_ids || !served.model.has_tokenizer();
    if by_id { TokenNames::Ids } else { TokenNames::Text }
}

/// The end user's name, where the caller gives one, stands in the log beside the request's id.
pub(super) fn log_user(shared: &Shared) {
    if let Some(user) = &shared.user {
        tracing::info!(user = ?user, "on behalf of");
    }
}

/// An answer cut off by the server is no answer.
pub(super) fn check_finished(reason: FinishReason) -> Result<(), ApiError> {
    match reason {
        FinishReason::Cancelled => Err(ApiError::draining()),
        FinishReason::Stop | FinishReason::ToolCalls | FinishReason::Length => Ok(()),
    }
}

fn message(
    text: Option<String>,
    reasoning: Option<String>,
    calls: Vec<ToolCall>,
    include_reasoning: bool,
) -> AssistantMessage {
    let text = text.unwrap_or_default();
    let says_otherwise = reasoning.is_some() || !calls.is_empty();
    AssistantMessage {
        role: "assistant",
        content: Some(text).filter(|text| !text.is_empty() || !says_otherwise),
        reasoning_content: reasoning.filter(|_| include_reasoning),
        tool_calls: calls.into_iter().map(Into::into).collect(),
        refusal: None,
    }
}

fn whole(
    head: Head,
    output: Output,
    shared: &Shared,
    names: TokenNames,
    include_reasoning: bool,
) -> Result<Reply<ChatChoice>, ApiError> {
    let ids = shared.return_token_ids.unwrap_or(false);
    let wants_logprobs = shared.options.logprobs.is_some();
    let choice = |(index, choice): (usize, Choice)| {
        check_finished(choice.finish_reason)?;
        Ok(ChatChoice {
            index,
            message: message(choice.text, choice.reasoning, choice.calls, include_reasoning),
            logprobs: wants_logprobs.then(|| ChatLogprobs::new(&choice.logprobs, names)),
            ending: Ending {
                finish_reason: Some(choice.finish_reason),
                stop_reason: choice.stop_reason,
            },
            token_ids: ids.then_some(choice.tokens),
        })
    };
    let choices = output.choices.into_iter().enumerate().map(choice);
    let mut reply = Reply::new(head, choices.collect::<Result<_, ApiError>>()?);
    let used = output.usage;
    reply.usage =
        Some(Some(Usage::new(used.prompt_tokens, used.completion_tokens, used.cached_tokens)));
    reply.prompt_token_ids = ids.then(|| output.prompt.to_vec());
    reply.prompt_logprobs =
        output.prompt_logprobs.map(|tokens| prompt_logprobs(tokens, u32::MAX, names));
    Ok(reply)
}
