//! Whole replies: built and written where they may occupy a processor.

use std::sync::Arc;

use axum::{
    http::header,
    response::{IntoResponse, Response},
};
use serde::Serialize;
use tokenmill::Error;

use crate::{error::ApiError, state::ServerState, wire::limits::MAX_PROMPT_ENTRIES};

/// Replies with more tokens than these are large: they are built one for each processor at a time.
const LARGE_TOKENS: usize = 16 << 10;

/// Builds a reply and writes it as JSON, off the threads that serve connections. `tokens` is about how many it tells of.
pub async fn answer<T: Serialize>(
    state: &Arc<ServerState>,
    tokens: usize,
    build: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
) -> Result<Response, ApiError> {
    let _turn = state.turn(tokens > LARGE_TOKENS).await?;
    let write = move || {
        let reply = build()?;
        serde_json::to_vec(&reply).map_err(|error| ApiError::internal(error.to_string()))
    };
    let written = tokio::task::spawn_blocking(write).await;
    let bytes = written.map_err(|_| ApiError::internal("writing the reply failed"))??;
    Ok(([(header::CONTENT_TYPE, "application/json")], bytes).into_response())
}

/// Refuses a reply that would tell too much of its prompts. `entries` is what it tells of each of their tokens, over all
/// choices; `field` is what asks for most of it. Generations that were begun are cancelled by being dropped.
pub fn check_entries(prompt_tokens: usize, entries: usize, field: &str) -> Result<(), Error> {
    let wanted = prompt_tokens.saturating_mul(entries);
    if wanted <= MAX_PROMPT_ENTRIES {
        return Ok(());
    }
    let message = format!(
        "the reply would tell {wanted} entries of the prompt: {prompt_tokens} tokens x {entries} (each token and its \
         rivals, in every choice); at most {MAX_PROMPT_ENTRIES} are given: ask for fewer choices or rivals, or send less \
         at once"
    );
    Err(Error::InvalidRequest { field: field.to_owned(), message })
}
