//! The chat page: one file inside the binary, nothing from elsewhere.

use axum::{
    http::header,
    response::{Html, IntoResponse, Response},
};

const PAGE: &str = include_str!("../page.html");

/// Scripts and styles of the page itself, requests to this server, nothing else; no other page may frame it.
const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// `GET /`.
pub async fn page() -> Response {
    let headers = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    (headers, Html(PAGE)).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_needs_nothing_from_elsewhere() {
        for outside in ["http://", "https://", "src=", "@import", "url("] {
            assert!(!PAGE.contains(outside), "the page contains {outside}");
        }
    }
}
