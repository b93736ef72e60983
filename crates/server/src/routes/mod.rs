//! The routes, one file a noun.

mod chat;
mod chat_stream;
mod completion_stream;
mod completions;
mod health;
mod models;
mod page;
mod prepare;
mod stream;
mod tally;
mod tokens;

use std::sync::Arc;

use axum::{
    Router,
    extract::Request,
    middleware::from_fn_with_state,
    response::IntoResponse,
    routing::{get, post},
};
use tower_http::{
    catch_panic::CatchPanicLayer,
    cors::{AllowOrigin, CorsLayer},
};

use crate::{auth, error::ApiError, state::ServerState, trace};

/// Every route, with everything that stands around it.
///
/// From the outside in: the request's id and log line, cross-origin rules, the net under panics, the key, the route.
pub fn router(state: Arc<ServerState>) -> Router {
    let router = Router::new()
        .route("/", get(page::page))
        .route("/health", get(health::health))
        .route("/ping", get(health::health).post(health::health))
        .route("/version", get(health::version))
        .route("/metrics", get(health::metrics))
        .route("/v1/models", get(models::list))
        .route("/v1/models/{*id}", get(models::one))
        .route("/v1/chat/completions", post(chat::chat))
        .route("/v1/completions", post(completions::completions))
        .route("/tokenize", post(tokens::tokenize))
        .route("/detokenize", post(tokens::detokenize))
        .fallback(no_route)
        .method_not_allowed_fallback(wrong_method)
        .layer(from_fn_with_state(state.clone(), auth::require_key))
        .layer(CatchPanicLayer::custom(|_| {
            ApiError::internal("a defect; see the log").into_response()
        }));
    let router = match cors(&state.options.cors_origins) {
        Some(cors) => router.layer(cors),
        None => router,
    };
    router.layer(from_fn_with_state(state.clone(), trace::follow)).with_state(state)
}

async fn no_route(request: Request) -> ApiError {
    ApiError::no_route(request.uri().path())
}

async fn wrong_method(request: Request) -> ApiError {
    ApiError::method_not_allowed(request.method().as_str(), request.uri().path())
}

/// Cross-origin rules; `None`: browsers keep other origins out.
fn cors(origins: &[String]) -> Option<CorsLayer> {
    use axum::http::{Method, header};
    if origins.is_empty() {
        return None;
    }
    let allowed = if origins.iter().any(|origin| origin == "*") {
        AllowOrigin::any()
    } else {
        AllowOrigin::list(origins.iter().filter_map(|origin| origin.parse().ok()))
    };
    let layer = CorsLayer::new()
        .allow_origin(allowed)
        .allow_methods([Method::GET, Method::POST])
        .allow_headers([header::AUTHORIZATION, header::CONTENT_TYPE, trace::REQUEST_ID])
        .expose_headers([header::RETRY_AFTER, trace::REQUEST_ID]);
    Some(layer)
}
