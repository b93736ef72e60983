//! The API key guards every route but the health check and the chat page, which has no secrets and asks for the key.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    http::{HeaderMap, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use subtle::{Choice, ConstantTimeEq};

use crate::{error::ApiError, state::ServerState};

/// Routes that need no key.
const OPEN: &[&str] = &["/", "/health", "/ping"];

/// Lets a request through if it carries one of the keys.
pub async fn require_key(
    State(state): State<Arc<ServerState>>,
    request: Request,
    next: Next,
) -> Response {
    let keys = &state.options.api_keys;
    let path = request.uri().path();
    if keys.is_empty() || OPEN.contains(&path) {
        return next.run(request).await;
    }
    if presented(request.headers()).is_some_and(|key| matches_any(key, keys)) {
        return next.run(request).await;
    }
    ApiError::unauthorized().into_response()
}

/// The key in `Authorization: Bearer KEY`.
fn presented(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, credentials) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| credentials.trim())
}

/// Compares with every key, in a time that does not depend on where they differ.
fn matches_any(presented: &str, keys: &[String]) -> bool {
    let equal = |key: &String| presented.as_bytes().ct_eq(key.as_bytes());
    keys.iter().map(equal).fold(Choice::from(0), |any, equal| any | equal).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key_of(value: &str) -> Option<String> {
        let mut headers = HeaderMap::new();
        headers.insert(header::AUTHORIZATION, value.parse().unwrap());
        presented(&headers).map(str::to_owned)
    }

    #[test]
    fn reads_bearer_keys() {
        assert_eq!(key_of("Bearer s3cret").as_deref(), Some("s3cret"));
        assert_eq!(key_of("bearer  s3cret ").as_deref(), Some("s3cret"));
        for bad in ["s3cret", "Bearer", "Basic dXNlcjpzMzpjcmV0", "Digest x"] {
            assert_eq!(key_of(bad), None, "{bad}");
        }
    }

    #[test]
    fn any_of_the_keys_will_do() {
        let keys = ["one".to_owned(), "two".to_owned()];
        assert!(matches_any("two", &keys));
        for wrong in ["", "on", "onee", "three", "one "] {
            assert!(!matches_any(wrong, &keys), "{wrong}");
        }
    }
}
