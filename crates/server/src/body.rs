//! Taking in a request's body: bounded in bytes, in time, and in how many are held at once.

use std::{sync::Arc, time::Duration};

use axum::{
    body::{Body, Bytes},
    extract::{FromRequest, Request},
    http::{HeaderMap, header},
};
use http_body_util::BodyExt;
use serde_json::{Map, Value};
use tokio::time::{Instant, timeout_at};

use crate::{error::ApiError, state::ServerState, wire::json::parse_object};

/// Bodies above this size (and those that do not say their size) count as large.
const SMALL_BODY_BYTES: u64 = 1 << 20;
/// Bodies above this size are parsed on a thread of their own kind, so that no other request waits.
const PARSE_INLINE_BYTES: usize = 64 << 10;
/// After a refusal, so much of the body is read and thrown away, so that a client that writes before it reads still
/// sees the reply; then the connection is cut.
const DISCARD_BYTES: u64 = 64 << 20;
/// And so long.
const DISCARD_TIME: Duration = Duration::from_secs(5);

/// A request's body, which must be a JSON object.
#[derive(Debug)]
pub struct JsonObject {
    /// The object.
    pub map: Map<String, Value>,
    /// Length of the body, in bytes.
    pub bytes: usize,
}

impl FromRequest<Arc<ServerState>> for JsonObject {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &Arc<ServerState>) -> Result<Self, ApiError> {
        let (head, body) = request.into_parts();
        if let Err(error) = check_head(&head.headers, state.options.max_body.0) {
            // A client that waits for leave to send its body is not given it.
            if !head.headers.contains_key(header::EXPECT) {
                discard(body);
            }
            return Err(error);
        }
        let _permit = match content_length(&head.headers) {
            Some(length) if length <= SMALL_BODY_BYTES => None,
            _ => Some(state.large_bodies.acquire().await.map_err(closed)?),
        };
        let body = read(body, state).await?;
        let bytes = body.len();
        Ok(JsonObject { map: parse(body).await?, bytes })
    }
}

fn check_head(headers: &HeaderMap, limit: u64) -> Result<(), ApiError> {
    let media = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let essence = media.unwrap_or_default().split(';').next().unwrap_or_default().trim();
    // Not a formality: a browser sends other types across origins without asking, JSON it must ask for.
    if !essence.eq_ignore_ascii_case("application/json") {
        let message =
            format!("content-type must be application/json, not {:?}", media.unwrap_or("absent"));
        return Err(ApiError::unsupported_media(message));
    }
    if let Some(encoding) = headers.get(header::CONTENT_ENCODING)
        && !encoding.as_bytes().eq_ignore_ascii_case(b"identity")
    {
        return Err(ApiError::unsupported_media("compressed bodies are not taken"));
    }
    match content_length(headers) {
        Some(length) if length > limit => Err(ApiError::body_too_large(limit)),
        _ => Ok(()),
    }
}

fn content_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

async fn read(mut body: Body, state: &ServerState) -> Result<Bytes, ApiError> {
    let limit = state.options.max_body.0;
    let allowed = state.options.body_timeout;
    let deadline = Instant::now() + allowed;
    let mut bytes = Vec::new();
    loop {
        let frame = match timeout_at(deadline, body.frame()).await {
            Err(_) => return Err(ApiError::body_timeout(allowed)),
            Ok(None) => return Ok(bytes.into()),
            Ok(Some(Err(error))) => {
                return Err(ApiError::bad_request(format!("the body broke off: {error}")));
            }
            Ok(Some(Ok(frame))) => frame,
        };
        let Some(data) = frame.data_ref() else { continue };
        if bytes.len() as u64 + data.len() as u64 > limit {
            discard(body);
            return Err(ApiError::body_too_large(limit));
        }
        bytes.extend_from_slice(data);
    }
}

async fn parse(bytes: Bytes) -> Result<Map<String, Value>, ApiError> {
    if bytes.len() <= PARSE_INLINE_BYTES {
        return Ok(parse_object(&bytes)?);
    }
    let parsed = tokio::task::spawn_blocking(move || parse_object(&bytes)).await;
    Ok(parsed.map_err(|_| ApiError::internal("parsing the body failed"))??)
}

/// Reads a refused body to its end, within bounds, while the reply is already on its way.
fn discard(mut body: Body) {
    tokio::spawn(async move {
        let deadline = Instant::now() + DISCARD_TIME;
        let mut left = DISCARD_BYTES;
        while let Ok(Some(Ok(frame))) = timeout_at(deadline, body.frame()).await {
            let length = frame.data_ref().map_or(0, |data| data.len() as u64);
            match left.checked_sub(length) {
                Some(rest) => left = rest,
                None => return,
            }
        }
    });
}

fn closed(_: tokio::sync::AcquireError) -> ApiError {
    ApiError::draining()
}
