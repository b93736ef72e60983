//! A small HTTP/1.1 client for load: one connection a request, answers read as they stream.

use std::{path::Path, time::Duration};

use http_body_util::{BodyExt, Full};
use hyper::{
    Method, Request, Response, StatusCode, Uri,
    body::{Bytes, Incoming},
    client::conn::http1,
    header,
};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use serde_json::Value;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    time::timeout,
};

use super::{tls::Tls, trace::Trace};
use crate::error::Error;

/// Most bytes of an error's body or of a model list that are read.
const MAX_BODY: usize = 1 << 20;
/// Most bytes of one line of a stream.
const MAX_LINE: usize = 16 << 20;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// An OpenAI-compatible server.
#[derive(Clone)]
pub struct Server {
    base: String,
    authority: String,
    address: String,
    key: Option<String>,
    /// For `https://`.
    tls: Option<Tls>,
}

impl Server {
    /// The server at `url`, with or without `/v1` at its end; without a scheme `http://` is meant. For `https://` the public authorities vouch, and those in
    /// the PEM file `authorities`.
    pub fn at(url: &str, key: Option<String>, authorities: Option<&Path>) -> Result<Self, Error> {
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
        })
    }

    /// The name of the first model that the server lists.
    pub async fn first_model(&self) -> Result<String, Error> {
        let response = self.send(Method::GET, "/v1/models", String::new()).await?;
        let body = self.whole_body(response.into_body()).await?;
        let value: Value = serde_json::from_slice(&body)
            .map_err(|error| self.failed(format!("/v1/models is no JSON: {error}")))?;
        let name = value["data"][0]["id"].as_str();
        name.map(str::to_owned).ok_or_else(|| self.failed("/v1/models lists no model"))
    }

    /// Sends a streaming completion request and notes when its tokens come.
    pub async fn complete(&self, body: String) -> Result<Trace, Error> {
        let mut trace = Trace::start();
        let response = self.send(Method::POST, "/v1/completions", body).await?;
        let mut lines = Lines::default();
        let mut body = response.into_body();
        let mut done = false;
        while let Some(frame) = body.frame().await {
            let frame =
                frame.map_err(|error| self.failed(format!("the stream broke off: {error}")))?;
            let Ok(data) = frame.into_data() else { continue };
            lines.push(&data).map_err(|message| self.failed(message))?;
            while let Some(line) = lines.next() {
                done |= self.take_line(&line, &mut trace)?;
            }
        }
        if done { Ok(trace) } else { Err(self.failed("the stream ended without [DONE]")) }
    }

    /// One line of the stream; `true` for its end mark.
    fn take_line(&self, line: &str, trace: &mut Trace) -> Result<bool, Error> {
        let Some(data) = line.strip_prefix("data:").map(str::trim) else { return Ok(false) };
        if data == "[DONE]" {
            return Ok(true);
        }
        let chunk: Chunk = serde_json::from_str(data)
            .map_err(|error| self.failed(format!("a chunk that does not read: {error}")))?;
        if let Some(error) = chunk.error {
            return Err(self.failed(format!("the request failed: {error}")));
        }
        if chunk.choices.iter().any(Choice::has_grown) {
            trace.tick(1);
        }
        if let Some(usage) = chunk.usage {
            trace.prompt_tokens = usage.prompt_tokens;
            trace.output_tokens = usage.completion_tokens;
        }
        Ok(false)
    }

    /// Sends a request over a connection of its own; any status but 200 is an error with the server's words.
    async fn send(
        &self,
        method: Method,
        path: &str,
        body: String,
    ) -> Result<Response<Incoming>, Error> {
        let request = self.request(method, path, body)?;
        let late = |_| self.failed("no connection within 10 s");
        let broken = |error: std::io::Error| self.failed(error.to_string());
        let connect = timeout(CONNECT_TIMEOUT, TcpStream::connect(&self.address)).await;
        let stream = connect.map_err(late)?.map_err(broken)?;
        // Small writes must leave at once; where the option is refused the times are merely worse.
        let _ = stream.set_nodelay(true);
        let Some(tls) = &self.tls else { return self.exchange(stream, request).await };
        let secured = timeout(CONNECT_TIMEOUT, tls.secure(stream)).await;
        self.exchange(secured.map_err(late)?.map_err(broken)?, request).await
    }

    fn request(
        &self,
        method: Method,
        path: &str,
        body: String,
    ) -> Result<Request<Full<Bytes>>, Error> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.base))
            .header(header::HOST, &self.authority)
            .header(header::CONTENT_TYPE, "application/json");
        if let Some(key) = &self.key {
            request = request.header(header::AUTHORIZATION, format!("Bearer {key}"));
        }
        let request = request.body(Full::new(Bytes::from(body)));
        request.map_err(|error| Error::Usage(format!("--bench-api-key: {error}")))
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

/// What is read of a chunk. Other servers send more, and that is their business.
#[derive(Deserialize)]
struct Chunk {
    #[serde(default)]
    choices: Vec<Choice>,
    usage: Option<Usage>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Choice {
    #[serde(default)]
    text: String,
    #[serde(default)]
    token_ids: Option<Vec<u32>>,
}

#[derive(Deserialize)]
struct Usage {
    prompt_tokens: usize,
    completion_tokens: usize,
}

impl Choice {
    fn has_grown(&self) -> bool {
        !self.text.is_empty() || self.token_ids.as_ref().is_some_and(|ids| !ids.is_empty())
    }
}

/// Cuts a stream of bytes into lines.
#[derive(Default)]
struct Lines {
    rest: Vec<u8>,
    read: usize,
}

impl Lines {
    fn push(&mut self, bytes: &[u8]) -> Result<(), &'static str> {
        self.rest.drain(..std::mem::take(&mut self.read));
        self.rest.extend_from_slice(bytes);
        if self.rest.len() > MAX_LINE { Err("a line of the stream is too long") } else { Ok(()) }
    }

    fn next(&mut self) -> Option<String> {
        let rest = &self.rest[self.read..];
        let length = rest.iter().position(|byte| *byte == b'\n')?;
        let line = String::from_utf8_lossy(&rest[..length]).trim_end_matches('\r').to_owned();
        self.read += length + 1;
        Some(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_out_whole_however_they_arrive() {
        let stream = "data: a\r\n\ndata: žluť\n";
        for cut in 0..stream.len() {
            let mut lines = Lines::default();
            let mut seen = Vec::new();
            for part in [&stream.as_bytes()[..cut], &stream.as_bytes()[cut..]] {
                lines.push(part).unwrap();
                seen.extend(std::iter::from_fn(|| lines.next()));
            }
            assert_eq!(seen, ["data: a", "", "data: žluť"], "cut at {cut}");
        }
    }

    #[test]
    fn an_address_is_taken_with_and_without_its_version() {
        for url in ["http://host:1/v1", "http://host:1", "http://host:1/", "host:1"] {
            let server = Server::at(url, None, None).unwrap();
            assert_eq!((server.base.as_str(), server.address.as_str()), ("", "host:1"), "{url}");
        }
        assert_eq!(Server::at("http://host/api/v1/", None, None).unwrap().base, "/api");
        assert_eq!(Server::at("http://host", None, None).unwrap().address, "host:80");
        assert_eq!(Server::at("https://host", None, None).unwrap().address, "host:443");
        assert_eq!(Server::at("https://[::1]:8", None, None).unwrap().address, "[::1]:8");
        assert!(Server::at("ftp://host", None, None).is_err());
        assert_eq!(Server::at("host", None, None).unwrap().address, "host:80");
    }

    #[test]
    fn chunks_tick_and_usage_counts() {
        let server = Server::at("http://host", None, None).unwrap();
        let mut trace = Trace::start();
        let mut take = |line: &str| server.take_line(line, &mut trace);
        assert!(!take(r#"data: {"choices":[{"text":""}]}"#).unwrap());
        assert!(!take(r#"data: {"choices":[{"text":"a"}],"usage":null}"#).unwrap());
        assert!(!take(": a comment").unwrap());
        assert!(
            !take(r#"data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":9}}"#)
                .unwrap()
        );
        assert!(take("data: [DONE]").unwrap());
        assert!(take(r#"data: {"error":{"message":"x"}}"#).is_err());
        assert_eq!((trace.prompt_tokens, trace.output_tokens), (3, 9));
        assert!(trace.time_to_first().is_some());
    }
}
