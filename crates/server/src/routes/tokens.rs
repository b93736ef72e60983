//! Text to tokens and back.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use tokenmill::TokenId;

use super::{
    answer::answer,
    prepare::{Load, prepare},
};
use crate::{
    body::JsonObject,
    error::ApiError,
    state::ServerState,
    wire::{
        DetokenizeRequest, TokenizeInput, TokenizeRequest,
        reply::{DetokenizeReply, TokenizeReply},
    },
};

/// `POST /tokenize`: of a text or of a rendered chat.
pub async fn tokenize(
    State(state): State<Arc<ServerState>>,
    body: JsonObject,
) -> Result<Response, ApiError> {
    let bytes = body.bytes();
    let request = body.read(&state, TokenizeRequest::read).await?;
    let model = state.find(request.model.as_deref())?.model;
    let reply = prepare(&state, Load::plain(bytes), move || {
        let tokens = match &request.input {
            TokenizeInput::Text { text, add_special_tokens, parse_special: true } => {
                model.tokenize_trusted(text, *add_special_tokens)?
            }
            TokenizeInput::Text { text, add_special_tokens, .. } => {
                model.tokenize(text, *add_special_tokens)?
            }
            TokenizeInput::Chat(conversation) => model.render_chat(conversation)?,
        };
        let spell = || tokens.iter().map(|token| model.token_text(*token)).collect();
        Ok(TokenizeReply {
            count: tokens.len(),
            max_model_len: model.info().max_sequence_tokens,
            token_strs: request.return_token_strs.then(spell),
            tokens,
        })
    });
    let reply = reply.await?;
    answer(&state, reply.count, move || Ok(reply)).await
}

/// `POST /detokenize`.
pub async fn detokenize(
    State(state): State<Arc<ServerState>>,
    body: JsonObject,
) -> Result<Response, ApiError> {
    let bytes = body.bytes();
    let request = body.read(&state, DetokenizeRequest::read).await?;
    let model = state.find(request.model.as_deref())?.model;
    let vocabulary = model.info().vocab_size;
    if let Some(index) = request.tokens.iter().position(|token| *token as usize >= vocabulary) {
        let token = request.tokens[index];
        let mut problems = crate::wire::fields::Problems::default();
        problems
            .add(format!("tokens[{index}]"), format!("must be below {vocabulary}, not {token}"));
        problems.into_result()?;
    }
    let tokens = request.tokens.len();
    let reply = prepare(&state, Load::plain(bytes), move || {
        let tokens: Vec<TokenId> = request.tokens.into_iter().map(TokenId).collect();
        let prompt = model.detokenize(&tokens, request.skip_special_tokens)?;
        Ok(DetokenizeReply { prompt })
    });
    let reply = reply.await?;
    answer(&state, tokens, move || Ok(reply)).await
}
