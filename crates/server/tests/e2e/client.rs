//! The plainest HTTP client: one request a connection, bytes as they come.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use serde_json::Value;

/// Longest wait for bytes. Tests do not depend on it: it turns a hang into a failure.
const PATIENCE: Duration = Duration::from_secs(120);

/// A reply, read whole.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Reply {
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    pub fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("no JSON: {}", self.text()))
    }

    /// The error's status, code and parameter.
    pub fn error(&self) -> (u16, String, String) {
        let error = &self.json()["error"];
        assert!(error["message"].as_str().is_some_and(|text| !text.is_empty()), "{error}");
        let word = |name: &str| error[name].as_str().unwrap_or("-").to_owned();
        (self.status, word("code"), word("param"))
    }
}

/// A connection with a request under way.
pub struct Exchange {
    reader: BufReader<TcpStream>,
}

impl Exchange {
    /// Connects and sends bytes.
    pub fn open(address: SocketAddr, bytes: &[u8]) -> Exchange {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(bytes).unwrap();
        Exchange { reader: BufReader::new(stream) }
    }

    /// Sends more; the server may have hung up already.
    pub fn send(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.reader.get_mut().write_all(bytes)
    }

    /// Reads status line and headers.
    pub fn head(&mut self) -> (u16, Vec<(String, String)>) {
        let status_line = self.line();
        let status = status_line.split(' ').nth(1).and_then(|word| word.parse().ok());
        let status = status.unwrap_or_else(|| panic!("no status in {status_line:?}"));
        let mut headers = Vec::new();
        loop {
            let line = self.line();
            let Some((name, value)) = line.split_once(':') else { return (status, headers) };
            headers.push((name.to_owned(), value.trim().to_owned()));
        }
    }

    /// Reads one chunk of a chunked body; empty at the end.
    pub fn chunk(&mut self) -> Vec<u8> {
        let size = self.line();
        let size =
            usize::from_str_radix(&size, 16).unwrap_or_else(|_| panic!("chunk size {size:?}"));
        let mut bytes = vec![0; size + 2];
        self.reader.read_exact(&mut bytes).unwrap();
        assert!(bytes.ends_with(b"\r\n"));
        bytes.truncate(size);
        bytes
    }

    /// Reads until the server hangs up, in whatever manner.
    pub fn read_to_end(&mut self, bytes: &mut Vec<u8>) {
        let _ = self.reader.read_to_end(bytes);
    }

    /// Reads the whole reply.
    pub fn finish(mut self) -> Reply {
        let (status, headers) = self.head();
        let chunked = headers.iter().any(|(name, value)| {
            name.eq_ignore_ascii_case("transfer-encoding") && value == "chunked"
        });
        let length = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
        let length: usize = length.map_or(0, |(_, value)| value.parse().unwrap());
        let mut body = Vec::new();
        if chunked {
            loop {
                let chunk = self.chunk();
                if chunk.is_empty() {
                    break;
                }
                body.extend(chunk);
            }
        } else {
            body.resize(length, 0);
            self.reader.read_exact(&mut body).unwrap();
        }
        Reply { status, headers, body }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.reader.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }
}

/// The bytes of a request.
pub fn request(method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut text = format!("{method} {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n");
    for (name, value) in headers {
        text += &format!("{name}: {value}\r\n");
    }
    if method == "POST" {
        text += &format!("Content-Length: {}\r\n", body.len());
    }
    text += "\r\n";
    [text.as_bytes(), body].concat()
}

/// The payloads of a stream of events, each checked for its form.
pub fn payloads(body: &str) -> Vec<String> {
    assert!(body.ends_with("\n\n"), "the last event is not closed: {body:?}");
    let events = body.strip_suffix("\n\n").unwrap_or(body).split("\n\n");
    let payload = |event: &str| {
        assert!(!event.contains('\n'), "an event of several lines: {event:?}");
        event.strip_prefix("data: ").unwrap_or_else(|| panic!("{event:?}")).to_owned()
    };
    events.filter(|event| !event.starts_with(':')).map(payload).collect()
}
