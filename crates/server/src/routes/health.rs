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
    state::{ServedModel, ServerState, Stage},
};

/// `GET /health`: 200 if a request would be served now, else 503.
pub async fn health(State(state): State<Arc<ServerState>>) -> Result<Json<Value>, ApiError> {
    match state.stage() {
        Stage::Loading => return Err(ApiError::loading()),
        Stage::Draining => return Err(ApiError::draining()),
        Stage::Ready => {}
    }
    let problems: Vec<String> = state.models().iter().filter_map(problem).collect();
    if problems.is_empty() {
        return Ok(Json(json!({"status": "ok"})));
    }
    Err(ApiError::unhealthy(problems.join("; ")))
}

fn problem(served: &ServedModel) -> Option<String> {
    let health = served.model.health();
    if health.ok {
        return None;
    }
    let why = health.problem.unwrap_or_else(|| "takes no requests".to_owned());
    Some(format!("{}: {why}", served.name()))
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
