//! The API key guards every route but the health check.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use base64::{Engine, prelude::BASE64_STANDARD};
use subtle::{Choice, ConstantTimeEq};

use crate::{error::ApiError, state::ServerState};

/// Routes that need no key.
const OPEN: &[&str] = &["/health", "/ping"];

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
    if presented(request.headers()).is_some_and(|key| matches_any(&key, keys)) {
        return next.run(request).await;
    }
    let is_page = path == "/";
    let mut response = ApiError::unauthorized().into_response();
    if is_page {
        // A browser that opens the chat page then asks for a password, which is the key, and presents it ever after.
        let basic =
            HeaderValue::from_static("Basic realm=\"tokenmill: the password is the API key\"");
        response.headers_mut().insert(header::WWW_AUTHENTICATE, basic);
    }
    response
}

/// The key in `Authorization: Bearer KEY`, or the password in `Authorization: Basic ...`.
fn presented(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, credentials) = value.split_once(' ')?;
    let credentials = credentials.trim();
    if scheme.eq_ignore_ascii_case("bearer") {
        return Some(credentials.to_owned());
    }
    if scheme.eq_ignore_ascii_case("basic") {
        let pair = String::from_utf8(BASE64_STANDARD.decode(credentials).ok()?).ok()?;
        return Some(pair.split_once(':')?.1.to_owned());
    }
    None
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
        presented(&headers)
    }

    #[test]
    fn reads_bearer_keys_and_basic_passwords() {
        assert_eq!(key_of("Bearer s3cret").as_deref(), Some("s3cret"));
        assert_eq!(key_of("bearer  s3cret ").as_deref(), Some("s3cret"));
        // "user:s3:cret"
        assert_eq!(key_of("Basic dXNlcjpzMzpjcmV0").as_deref(), Some("s3:cret"));
        for bad in ["s3cret", "Bearer", "Basic ???", "Basic dXNlcg==", "Digest x"] {
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
