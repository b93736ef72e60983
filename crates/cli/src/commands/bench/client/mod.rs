//! A small HTTP/1.1 client for load: one connection a request, answers read as they stream. It believes a server nothing that
//! cannot be true, and waits for none forever.

mod claims;
mod events;
mod tls;

use std::{
    future::Future,
    path::Path,
    time::{Duration, Instant},
};

use http_body_util::{BodyExt, Full};
use hyper::{
    Method, Request, Response, StatusCode, Uri,
    body::{Bytes, Incoming},
    client::conn::http1,
    header,
};
use hyper_util::rt::TokioIo;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::Value;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    time::{timeout, timeout_at},
};

use self::{
    events::{Event, Lines, Piece, Usage},
    tls::Tls,
};
use super::trace::Trace;
use crate::error::Error;

/// Most bytes of an error's body or of a model list that are read.
const MAX_BODY: usize = 1 << 20;
/// Most events for whose times room is made beforehand.
const MAX_RESERVED: usize = 1 << 16;

/// How long a server may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Until there is a connection, and until it is secured.
    pub connect: Duration,
    /// From the request to the first token.
    pub first: Duration,
    /// From token to token, and from the last one to the end.
    pub stall: Duration,
    /// From the request to the end of the answer.
    pub whole: Duration,
}

/// Lets this process have as many sockets as it may: a stream each takes one, two where the server is in the process, too. Where
/// that is refused, the requests that get none say so.
pub fn allow_many_sockets() {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// A request, ready to be sent.
#[derive(Clone, Debug)]
pub struct Ask {
    /// Where to.
    pub path: &'static str,
    /// JSON.
    pub body: Bytes,
    /// Token ids or words of the prompt; there are at least as many tokens.
    pub prompt_units: usize,
    /// The prompt is of token ids, and so has about as many tokens.
    pub is_ids: bool,
    /// Most tokens of the answer.
    pub output_tokens: usize,
    /// The answer is to have just as many.
    pub is_exact: bool,
}

/// What came of a request.
#[derive(Debug)]
pub struct Sample {
    /// What came when.
    pub trace: Trace,
    /// Why it does not count.
    pub failure: Option<Error>,
}

/// An OpenAI-compatible server.
#[derive(Clone)]
pub struct Server {
    base: String,
    authority: String,
    address: String,
    key: Option<String>,
    /// For `https://`.
    tls: Option<Tls>,
    limits: Limits,
}

impl Server {
    /// The server at `url`, with or without `/v1` at its end; without a scheme `http://` is meant. For `https://` the public authorities vouch, and those in
    /// the PEM file `authorities`.
    pub fn at(
        url: &str,
        key: Option<String>,
        authorities: Option<&Path>,
        limits: Limits,
    ) -> Result<Self, Error> {
        let wrong = |message: &str| Error::Usage(format!("--url {url}: {message}"));
        let whole = if url.contains("://") { url.to_owned() } else { format!("http://{url}") };
        let uri: Uri = whole.parse().map_err(|_| wrong("this is no address"))?;
        let authority = uri.authority().ok_or_else(|| wrong("it names no host"))?;
        let (tls, port) = match uri.scheme_str() {
            Some("http") => (None, 80),
            Some("https") => (Some(Tls::new(authority.host(), authorities)?), 443),
            _ => return Err(wrong("it begins neither with http:// nor with https://")),
        };
        let path = uri.path().trim_end_matches('/').trim_end_matches("/v1");
        let port = authority.port_u16().unwrap_or(port);
        Ok(Server {
            base: path.to_owned(),
            authority: authority.to_string(),
            address: format!("{}:{port}", authority.host()),
            key,
            tls,
            limits,
        })
    }

    /// The name of the first model that the server lists.
    pub async fn first_model(&self) -> Result<String, Error> {
        let limit = self.limits.first;
        let answer = async {
            let response = self.send(Method::GET, "/v1/models", Bytes::new()).await?;
            self.whole_body(response.into_body()).await
        };
        let late = |_| self.late("/v1/models was not answered", limit, "--first-token-timeout");
        let body = timeout(limit, answer).await.map_err(late)??;
        let value: Value = serde_json::from_slice(&body)
            .map_err(|error| self.failed(format!("/v1/models is no JSON: {error}")))?;
        let name = value["data"][0]["id"].as_str();
        name.map(str::to_owned).ok_or_else(|| self.failed("/v1/models lists no model"))
    }

    /// Sends a request that was to be sent at `due`, and notes when the tokens of the streamed answer come. What came of an
    /// answer that failed is in its trace, too.
    pub async fn stream(&self, ask: &Ask, due: Instant) -> Sample {
        let mut trace = Trace::due(due);
        trace.reserve(ask.output_tokens.min(MAX_RESERVED));
        let whole = self.limits.whole;
        let outcome = timeout(whole, self.follow(ask, &mut trace)).await;
        let late = || self.late("the answer was not whole", whole, "--request-timeout");
        let outcome = outcome.unwrap_or_else(|_| Err(late()));
        trace.end();
        Sample { trace, failure: outcome.err() }
    }

    async fn follow(&self, ask: &Ask, trace: &mut Trace) -> Result<(), Error> {
        let response = self.in_time(trace, self.send(Method::POST, ask.path, ask.body.clone()));
        let mut body = response.await??.into_body();
        let (mut lines, mut answer) = (Lines::default(), Answer::default());
        while let Some(frame) = self.in_time(trace, body.frame()).await? {
            // Before anything is read: what reading costs is no latency of the server's.
            let now = Instant::now();
            let frame =
                frame.map_err(|error| self.failed(format!("the stream broke off: {error}")))?;
            let Some(data) = frame.data_ref() else { continue };
            let taken = lines.push(data, |line| answer.take(Event::read(line)?, now, trace));
            taken.map_err(|message| self.failed(message))?;
        }
        if !answer.is_whole {
            return Err(self.failed("the stream ended without [DONE]"));
        }
        claims::settle(ask, answer.usage, trace).map_err(|message| self.failed(message))
    }

    /// What `step` gives, unless the next token takes too long.
    async fn in_time<T>(&self, trace: &Trace, step: impl Future<Output = T>) -> Result<T, Error> {
        let (limit, what, flag) = match trace.has_begun() {
            false => (self.limits.first, "no token came", "--first-token-timeout"),
            true => (self.limits.stall, "no further token came", "--stall-timeout"),
        };
        let late = |_| self.late(what, limit, flag);
        timeout_at((trace.progressed() + limit).into(), step).await.map_err(late)
    }

    fn late(&self, what: &str, limit: Duration, flag: &str) -> Error {
        self.failed(format!("{what} within {} s ({flag})", limit.as_secs_f64()))
    }

    /// Sends a request over a connection of its own; any status but 200 is an error with the server's words.
    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<Response<Incoming>, Error> {
        let request = self.request(method, path, body)?;
        let limit = self.limits.connect;
        let late = |_| self.late("there was no connection", limit, "--connect-timeout");
        let broken = |error: std::io::Error| self.failed(error.to_string());
        let connect = timeout(limit, TcpStream::connect(&self.address)).await;
        let stream = connect.map_err(late)?.map_err(broken)?;
        // Small writes must leave at once; where the option is refused the times are merely worse.
        let _ = stream.set_nodelay(true);
        let Some(tls) = &self.tls else { return self.exchange(stream, request).await };
        let secured = timeout(limit, tls.secure(stream)).await;
        self.exchange(secured.map_err(late)?.map_err(broken)?, request).await
    }

    fn request(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<Request<Full<Bytes>>, Error> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.base))
            .header(header::HOST, &self.authority)
            .header(header::CONTENT_TYPE, "application/json");
        if let Some(key) = &self.key {
            request = request.header(header::AUTHORIZATION, format!("Bearer {key}"));
        }
        let request = request.body(Full::new(body));
        request.map_err(|error| Error::Usage(format!("the key for --url: {error}")))
    }

    async fn exchange(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, Error> {
        let broken = |error: hyper::Error| self.failed(error.to_string());
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
        tokio::spawn(connection);
        let response = sender.send_request(request).await.map_err(broken)?;
        let status = response.status();
        if status == StatusCode::OK {
            return Ok(response);
        }
        let body = self.whole_body(response.into_body()).await.unwrap_or_default();
        Err(self.failed(format!("{status}: {}", reason(&body))))
    }

    async fn whole_body(&self, mut body: Incoming) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| self.failed(error.to_string()))?;
            bytes.extend_from_slice(frame.data_ref().map_or(&[], |data| data));
            if bytes.len() > MAX_BODY {
                return Err(self.failed("the answer is too large"));
            }
        }
        Ok(bytes)
    }

    fn failed(&self, message: impl Into<String>) -> Error {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        Error::Remote { url: format!("{scheme}://{}", self.authority), message: message.into() }
    }
}

/// What an error body says.
fn reason(body: &[u8]) -> String {
    let value: Option<Value> = serde_json::from_slice(body).ok();
    let message = value.as_ref().and_then(|value| value["error"]["message"].as_str());
    let text = message.map_or_else(|| String::from_utf8_lossy(body).into_owned(), str::to_owned);
    text.chars().take(500).collect()
}

/// What is known of an answer beside its times.
#[derive(Default)]
struct Answer {
    usage: Option<Usage>,
    is_whole: bool,
}

impl Answer {
    /// Heeds an event that came at a moment.
    fn take(&mut self, event: Event, now: Instant, trace: &mut Trace) -> Result<(), String> {
        let Piece { choices, usage, error } = match event {
            Event::Nothing => return Ok(()),
            Event::End => {
                self.is_whole = true;
                return Ok(());
            }
            Event::Piece(piece) => piece,
        };
        if let Some(error) = error {
            return Err(format!("the request failed: {error}"));
        }
        if choices.ids > 0 || choices.has_text {
            trace.tick_at(now, choices.ids.max(1));
        } else if choices.is_blank {
            trace.blank_at(now);
        }
        self.usage = usage.or(self.usage);
        match choices.finish.as_deref() {
            Some(reason @ ("abort" | "error")) => Err(format!("the answer ended by {reason}")),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        connect: Duration::from_secs(1),
        first: Duration::from_secs(1),
        stall: Duration::from_secs(1),
        whole: Duration::from_secs(1),
    };

    fn at(url: &str) -> Result<Server, Error> {
        Server::at(url, None, None, LIMITS)
    }

    #[test]
    fn an_address_is_taken_with_and_without_its_version() {
        for url in ["http://host:1/v1", "http://host:1", "http://host:1/", "host:1"] {
            let server = at(url).unwrap();
            assert_eq!((server.base.as_str(), server.address.as_str()), ("", "host:1"), "{url}");
        }
        assert_eq!(at("http://host/api/v1/").unwrap().base, "/api");
        assert_eq!(at("http://host").unwrap().address, "host:80");
        assert_eq!(at("https://host").unwrap().address, "host:443");
        assert_eq!(at("https://[::1]:8").unwrap().address, "[::1]:8");
        assert!(at("ftp://host").is_err());
        assert_eq!(at("host").unwrap().address, "host:80");
    }

    #[test]
    fn events_tick_and_the_last_usage_counts() {
        let (mut answer, mut trace, now) = (Answer::default(), Trace::start(), Instant::now());
        let mut take = |data: &str| {
            let event = Event::read(format!("data: {data}").as_bytes())?;
            answer.take(event, now, &mut trace)
        };
        for data in [
            r#"{"choices":[{"text":""}]}"#,
            r#"{"choices":[{"text":"a"}],"usage":null}"#,
            r#"{"choices":[{"text":"","token_ids":[7,8]}]}"#,
            r#"{"choices":[{"text":""}]}"#,
            r#"{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":9}}"#,
            "[DONE]",
        ] {
            take(data).unwrap();
        }
        let failed = take(r#"{"error":{"message":"out of blocks"}}"#).unwrap_err();
        assert!(failed.contains("out of blocks"), "{failed}");
        assert!(take(r#"{"choices":[{"text":"","finish_reason":"abort"}]}"#).is_err());
        assert!(answer.is_whole);
        assert_eq!(answer.usage.map(|usage| usage.completion_tokens), Some(9));
        assert_eq!((trace.output_tokens, trace.texts()), (4, 2));
    }
}
