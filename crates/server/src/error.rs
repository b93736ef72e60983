//! Every way in which a request can fail, as status and OpenAI error body. The only file that maps errors to HTTP.

use std::time::Duration;

use axum::{
    Json,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Serialize;
use tokenmill::Error;

use crate::wire::{
    fields::{Problem, cut, quoted},
    json::JsonError,
};

/// Longest message of an error, in characters. What is at fault is cut before; this is the net under all of it.
const MAX_MESSAGE_CHARS: usize = 16 << 10;
/// And so much of it goes to the log.
const MAX_LOGGED_CHARS: usize = 400;

/// A failed request, ready to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiError {
    /// Status of the reply.
    pub status: StatusCode,
    /// What kind of error: `invalid_request_error`, `server_error`, ...
    pub kind: &'static str,
    /// A word that programs compare: `model_not_found`, `context_length_exceeded`, ...
    pub code: Option<&'static str>,
    /// The field at fault.
    pub param: Option<String>,
    /// What happened, for people.
    pub message: String,
    /// When to try again.
    pub retry_after: Option<Duration>,
    /// Clients that try again by themselves are told not to.
    pub no_retry: bool,
}

/// What the log says of an error reply; travels among the reply's extensions.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub code: &'static str,
    pub message: String,
}

/// The body of an error reply.
#[derive(Clone, Debug, Serialize)]
pub struct ErrorBody {
    error: ErrorFields,
}

#[derive(Clone, Debug, Serialize)]
struct ErrorFields {
    message: String,
    #[serde(rename = "type")]
    kind: &'static str,
    param: Option<String>,
    code: Option<&'static str>,
}

impl ApiError {
    fn new(status: StatusCode, kind: &'static str, message: impl Into<String>) -> Self {
        ApiError {
            status,
            kind,
            code: None,
            param: None,
            message: cut(message.into(), MAX_MESSAGE_CHARS),
            retry_after: None,
            no_retry: false,
        }
    }

    fn invalid(status: StatusCode, message: impl Into<String>) -> Self {
        Self::new(status, "invalid_request_error", message)
    }

    fn unavailable(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "service_unavailable", message).code(code)
    }

    fn code(self, code: &'static str) -> Self {
        ApiError { code: Some(code), ..self }
    }

    fn param(self, param: impl Into<String>) -> Self {
        ApiError { param: Some(param.into()), ..self }
    }

    fn retry(self, after: Duration) -> Self {
        ApiError { retry_after: Some(after), ..self }
    }

    /// 400: the body as a whole is at fault.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::invalid(StatusCode::BAD_REQUEST, message)
    }

    /// 401: no key, or a wrong one.
    pub fn unauthorized() -> Self {
        let message = "a valid API key is needed: send it as Authorization: Bearer KEY";
        Self::new(StatusCode::UNAUTHORIZED, "authentication_error", message).code("invalid_api_key")
    }

    /// 404: no such route.
    pub fn no_route(path: &str) -> Self {
        Self::invalid(StatusCode::NOT_FOUND, format!("there is nothing at {}", quoted(path)))
            .code("not_found")
    }

    /// 404: no such model.
    pub fn no_model(name: &str, known: &[String]) -> Self {
        let message =
            format!("the model {} does not exist; served: {}", quoted(name), known.join(", "));
        Self::invalid(StatusCode::NOT_FOUND, message).code("model_not_found").param("model")
    }

    /// 400: several models are served and the request names none.
    pub fn model_missing(known: &[String]) -> Self {
        Self::bad_request(format!("model is missing; served: {}", known.join(", "))).param("model")
    }

    /// 405: the route has other methods.
    pub fn method_not_allowed(method: &str, path: &str) -> Self {
        let message = format!("{} does not take {}", quoted(path), quoted(method));
        Self::invalid(StatusCode::METHOD_NOT_ALLOWED, message).code("method_not_allowed")
    }

    /// 408: the body did not arrive in time.
    pub fn body_timeout(limit: Duration) -> Self {
        let message = format!("the body did not arrive within {} s", limit.as_secs_f64());
        Self::invalid(StatusCode::REQUEST_TIMEOUT, message).code("timeout")
    }

    /// 413: the body is too large.
    pub fn body_too_large(limit: u64) -> Self {
        let message = format!("the body has more than {limit} bytes, the most this server takes");
        Self::invalid(StatusCode::PAYLOAD_TOO_LARGE, message).code("request_too_large")
    }

    /// 415: the body is no plain JSON.
    pub fn unsupported_media(message: impl Into<String>) -> Self {
        Self::invalid(StatusCode::UNSUPPORTED_MEDIA_TYPE, message).code("unsupported_media_type")
    }

    /// 400: fields at fault; all are named, the first as `param`.
    pub fn fields(problems: &[Problem]) -> Self {
        let lines: Vec<&str> = problems.iter().map(|problem| problem.message.as_str()).collect();
        let error = Self::bad_request(lines.join("; "));
        match problems.first() {
            Some(first) => error.param(first.param.clone()),
            None => error,
        }
    }

    /// 503: models are being loaded.
    pub fn loading() -> Self {
        Self::unavailable("loading", "the model is being loaded").retry(Duration::from_secs(5))
    }

    /// 503: the server finishes what it has and takes nothing new.
    pub fn draining() -> Self {
        Self::unavailable("draining", "the server is shutting down").retry(Duration::from_secs(5))
    }

    /// 503: the engine stands still, or has failed.
    pub fn unhealthy(message: impl Into<String>) -> Self {
        Self::unavailable("unhealthy", message)
    }

    /// 500: a defect.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "server_error", message).code("internal_error")
    }

    /// 503: too many large bodies are on their way.
    pub fn bodies_busy(retry: Duration) -> Self {
        Self::unavailable("busy", "too many large requests are arriving at once").retry(retry)
    }

    /// 500: the model gave no numbers that a token could be drawn from.
    pub fn no_numbers(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "server_error", message).code("no_numbers")
    }

    /// 500: the request was taken in and could not be finished.
    pub fn broke_off(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "server_error", message).code("broke_off")
    }

    /// 504: the request's own time limit was over. Trying again at once would only add to the load.
    pub fn timed_out(message: impl Into<String>) -> Self {
        let error = Self::new(StatusCode::GATEWAY_TIMEOUT, "timeout_error", message);
        ApiError { no_retry: true, ..error.code("timed_out") }
    }

    /// The body, as it is also sent in the middle of a stream.
    pub fn body(&self) -> ErrorBody {
        ErrorBody {
            error: ErrorFields {
                message: self.message.clone(),
                kind: self.kind,
                param: self.param.clone(),
                code: self.code,
            },
        }
    }

    /// What the log says of it.
    pub(crate) fn failure(&self) -> Failure {
        let message = cut(self.message.clone(), MAX_LOGGED_CHARS);
        Failure { code: self.code.unwrap_or(self.kind), message }
    }

    /// Says which of a request's prompts was refused.
    pub(crate) fn of_prompt(mut self, index: usize) -> Self {
        self.message = format!("prompt[{index}]: {}", self.message);
        if let Some(param) = &mut self.param
            && let Some(rest) = param.strip_prefix("prompt")
        {
            *param = format!("prompt[{index}]{rest}");
        }
        self
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(self.body())).into_response();
        response.extensions_mut().insert(self.failure());
        let headers = response.headers_mut();
        if let Some(after) = self.retry_after {
            let seconds = after.as_secs_f64().ceil().max(1.0) as u64;
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.no_retry {
            // The official clients heed it.
            headers.insert("x-should-retry", HeaderValue::from_static("false"));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

impl From<JsonError> for ApiError {
    fn from(error: JsonError) -> Self {
        ApiError::bad_request(error.to_string())
    }
}

impl From<Vec<Problem>> for ApiError {
    fn from(problems: Vec<Problem>) -> Self {
        ApiError::fields(&problems)
    }
}

impl From<Error> for ApiError {
    fn from(error: Error) -> Self {
        let message = error.to_string();
        match error {
            Error::InvalidRequest { field, .. } => ApiError::bad_request(message).param(field),
            Error::ContextLengthExceeded { .. } => {
                ApiError::bad_request(message).code("context_length_exceeded").param("prompt")
            }
            Error::NoTokenizer { .. } => ApiError::bad_request(message).code("no_tokenizer"),
            Error::NoChatTemplate { .. } => {
                ApiError::bad_request(message).code("no_chat_template").param("messages")
            }
            Error::NotFound(_) => {
                ApiError::invalid(StatusCode::NOT_FOUND, message).code("model_not_found")
            }
            Error::Busy { retry_after, .. } => {
                ApiError::new(StatusCode::TOO_MANY_REQUESTS, "rate_limit_error", message)
                    .code("queue_full")
                    .retry(retry_after)
            }
            Error::ConstraintLost(_) => ApiError::bad_request(message).code("constraint_lost"),
            Error::TimedOut(_) => ApiError::timed_out(message),
            Error::Draining => ApiError::draining(),
            Error::NoNumbers(_) => ApiError::no_numbers(message),
            Error::BrokeOff(_) => ApiError::broke_off(message),
            Error::Failed(_) => ApiError::unhealthy(message),
            // These arise while loading, not while serving: towards a client they are ours.
            Error::InvalidOption { .. }
            | Error::Load { .. }
            | Error::AlreadyLoaded(_)
            | Error::File { .. }
            | Error::Hub(_)
            | Error::Cancelled
            | Error::Internal(_) => ApiError::internal(message),
        }
    }
}

#[cfg(test)]
mod tests {
    use foundation::ModelId;
    use tokenmill::Fate;

    use super::*;

    fn status_and_code(error: Error) -> (u16, Option<&'static str>) {
        let error = ApiError::from(error);
        (error.status.as_u16(), error.code)
    }

    #[test]
    fn the_four_fates_have_their_statuses() {
        let invalid = Error::InvalidRequest { field: "top_p".into(), message: "is 7".into() };
        assert_eq!(invalid.fate(), Fate::Caller);
        assert_eq!(status_and_code(invalid), (400, None));
        let long =
            Error::ContextLengthExceeded { tokens: 9, requested: 1, limit: 8, counted: true };
        assert_eq!(status_and_code(long), (400, Some("context_length_exceeded")));
        let bare = Error::NoChatTemplate { model: ModelId("m".into()) };
        assert_eq!(status_and_code(bare), (400, Some("no_chat_template")));
        assert_eq!(status_and_code(Error::NotFound("m".into())), (404, Some("model_not_found")));
        assert_eq!(status_and_code(Error::Draining), (503, Some("draining")));
        assert_eq!(status_and_code(Error::Failed("x".into())), (503, Some("unhealthy")));
        assert_eq!(status_and_code(Error::BrokeOff("x".into())), (500, Some("broke_off")));
        assert_eq!(status_and_code(Error::NoNumbers("x".into())), (500, Some("no_numbers")));
        let late = Error::TimedOut(Duration::from_secs(2));
        assert_eq!(late.fate(), Fate::Caller);
        assert_eq!(status_and_code(late), (504, Some("timed_out")));
        assert_eq!(status_and_code(Error::Internal("x".into())), (500, Some("internal_error")));
    }

    #[test]
    fn busy_says_when_to_come_back_in_whole_seconds() {
        let retry_after = Duration::from_millis(1200);
        let response =
            ApiError::from(Error::Busy { queued: 4, limit: 4, retry_after }).into_response();
        assert_eq!(response.status(), 429);
        assert_eq!(response.headers()["retry-after"], "2");
    }

    #[test]
    fn a_request_whose_time_is_over_is_not_sent_again() {
        let response = ApiError::from(Error::TimedOut(Duration::from_secs(2))).into_response();
        assert_eq!(response.headers()["x-should-retry"], "false");
    }

    #[test]
    fn the_body_has_the_four_fields_also_where_they_are_null() {
        let body = serde_json::to_value(ApiError::bad_request("no").body()).unwrap();
        let want = serde_json::json!({"error": {
            "message": "no", "type": "invalid_request_error", "param": null, "code": null
        }});
        assert_eq!(body, want);
    }
}
