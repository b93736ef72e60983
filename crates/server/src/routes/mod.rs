//! The routes, one file a noun.

mod answer;
mod chat;
mod chat_stream;
mod completion_form;
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
    cors::{AllowHeaders, AllowOrigin, CorsLayer},
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

/// Whether a text is an origin as browsers send it: `https://host` or `https://host:port`, `null`, or `*` for all.
pub fn is_origin(text: &str) -> bool {
    use axum::http::Uri;
    if text == "*" || text == "null" {
        return true;
    }
    let Some((scheme, host)) = text.split_once("://") else { return false };
    let plain = !host.is_empty() && !host.contains(['/', '?', '#', '@', '*']);
    let lower = !text.contains(|c: char| c.is_ascii_uppercase());
    plain
        && lower
        && !scheme.is_empty()
        && text.parse::<Uri>().is_ok_and(|uri| uri.host().is_some())
}

/// Cross-origin rules; `None`: browsers keep other origins out.
fn cors(origins: &[String]) -> Option<CorsLayer> {
    use axum::http::{HeaderValue, Method, header::RETRY_AFTER};
    if origins.is_empty() {
        return None;
    }
    let allowed = if origins.iter().any(|origin| origin == "*") {
        AllowOrigin::any()
    } else {
        let known = origins.iter().filter(|origin| is_origin(origin));
        AllowOrigin::list(known.filter_map(|origin| HeaderValue::from_str(origin).ok()))
    };
    let layer = CorsLayer::new()
        .allow_origin(allowed)
        .allow_methods([Method::GET, Method::POST])
        // Clients send headers of their own (`x-stainless-...`); what counts is the origin.
        .allow_headers(AllowHeaders::mirror_request())
        .expose_headers([RETRY_AFTER, trace::REQUEST_ID]);
    Some(layer)
}

#[cfg(test)]
mod tests {
    use super::is_origin;

    #[test]
    fn origins_are_told_from_what_no_browser_sends() {
        for good in ["*", "null", "https://a.example", "http://127.0.0.1:3000", "http://[::1]:80"] {
            assert!(is_origin(good), "{good}");
        }
        for bad in [
            "",
            "a.example",
            "https://",
            "https://a.example/",
            "https://A.example",
            "//a",
            "https://*.a",
        ] {
            assert!(!is_origin(bad), "{bad}");
        }
    }
}
