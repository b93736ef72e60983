//! Whether requests can be served, in which version, and with what effect.

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    http::header,
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};

use crate::{
    error::ApiError,
    metrics,
    state::{ServerState, Stage},
};

/// `GET /health`: 200 if a request would be served now, else 503.
pub async fn health(State(state): State<Arc<ServerState>>) -> Result<Json<Value>, ApiError> {
    match state.stage() {
        Stage::Loading => return Err(ApiError::loading()),
        Stage::Draining | Stage::Ready => {}
    }
    let problems = state.problems();
    if !problems.is_empty() {
        return Err(ApiError::unhealthy(problems.join("; ")));
    }
    match state.stage() {
        Stage::Draining => Err(ApiError::draining()),
        _ => Ok(Json(json!({"status": "ok"}))),
    }
}

/// `GET /version`.
pub async fn version() -> Json<Value> {
    Json(json!({"version": env!("CARGO_PKG_VERSION")}))
}

/// `GET /metrics`.
pub async fn metrics(State(state): State<Arc<ServerState>>) -> Response {
    let text = metrics::render(&state.models(), &state.http);
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response()
}
