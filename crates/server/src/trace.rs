//! One span, one log line, one count and one id for every request.

use std::{sync::Arc, time::Instant};

use axum::{
    extract::{MatchedPath, Request, State},
    http::{HeaderMap, HeaderName, HeaderValue},
    middleware::Next,
    response::Response,
};
use tracing::Instrument;
use uuid::Uuid;

use crate::{error::Failure, state::ServerState, wire::fields::cut};

/// The header that carries a request's id in both directions.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// So much of a path goes to the log, in characters.
const MAX_PATH_CHARS: usize = 200;

/// Longest id taken from a client, in bytes.
const MAX_ID_BYTES: usize = 128;

/// The id of a request, as other parts find it in its extensions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestId(pub String);

/// Gives the request an id, a span and a place in the counters.
pub async fn follow(
    State(state): State<Arc<ServerState>>,
    mut request: Request,
    next: Next,
) -> Response {
    let id = id_of(request.headers());
    let route = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned());
    // Unknown paths share one label: clients must not be able to grow the counters.
    let route = route.unwrap_or_else(|| "other".to_owned());
    let method = request.method().clone();
    let path = cut(request.uri().path().to_owned(), MAX_PATH_CHARS);
    let span = tracing::info_span!("request", request_id = %id, %method, %route);
    request.extensions_mut().insert(RequestId(id.clone()));
    let start = Instant::now();
    let mut response = next.run(request).instrument(span.clone()).await;
    let status = response.status().as_u16();
    state.http.count(&route, method.as_str(), status);
    let head_ms = start.elapsed().as_millis() as u64;
    let failure = response.extensions_mut().remove::<Failure>();
    span.in_scope(|| log(status, &path, head_ms, failure));
    if let Ok(value) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(REQUEST_ID, value);
    }
    response
}

/// The request's line. What is the server's own fault is for the operator to see.
fn log(status: u16, path: &str, head_ms: u64, failure: Option<Failure>) {
    match failure {
        None => tracing::info!(status, path, head_ms, "answered"),
        Some(Failure { code, message }) if status == 500 => {
            tracing::error!(status, path, head_ms, code, message, "failed");
        }
        Some(Failure { code, .. }) => tracing::info!(status, path, head_ms, code, "refused"),
    }
}

/// The client's id if it is short and plain, else a new one.
fn id_of(headers: &HeaderMap) -> String {
    let given = headers.get(REQUEST_ID).and_then(|value| value.to_str().ok());
    match given {
        Some(id)
            if (1..=MAX_ID_BYTES).contains(&id.len())
                && id.bytes().all(|b| b.is_ascii_graphic()) =>
        {
            id.to_owned()
        }
        _ => Uuid::new_v4().simple().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(value: &str) -> String {
        let mut headers = HeaderMap::new();
        headers.insert(REQUEST_ID, value.parse().unwrap());
        id_of(&headers)
    }

    #[test]
    fn plain_ids_are_kept_and_others_replaced() {
        assert_eq!(id("job-17/a"), "job-17/a");
        for odd in ["", "two words", &"x".repeat(129)] {
            assert_eq!(id(odd).len(), 32, "{odd}");
        }
        assert_ne!(id_of(&HeaderMap::new()), id_of(&HeaderMap::new()));
    }
}
