//! A server that stands in for others: it lists a model, and answers each request as a test says.

use std::{
    io::{self, BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    sync::Arc,
    thread,
};

use serde_json::Value;

/// What came over a connection.
pub struct Request {
    pub path: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Request {
    pub fn read(stream: &mut impl BufRead) -> io::Result<Self> {
        let mut line = || -> io::Result<String> {
            let mut line = String::new();
            stream.read_line(&mut line)?;
            Ok(line.trim_end().to_owned())
        };
        let path = line()?.split(' ').nth(1).unwrap_or_default().to_owned();
        let mut headers = Vec::new();
        while let Some((name, value)) = line()?.split_once(": ") {
            headers.push((name.to_lowercase(), value.to_owned()));
        }
        let mut request = Request { path, headers, body: Vec::new() };
        let length = request.header("content-length").map_or(0, |text| text.parse().unwrap());
        request.body = vec![0; length];
        stream.read_exact(&mut request.body)?;
        Ok(request)
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

/// Starts a server that answers with `answer` whatever is posted, and gives its address; it lives as long as the tests.
pub fn serve(answer: impl Fn(&Request, &mut TcpStream) + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let answer = Arc::new(answer);
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let answer = Arc::clone(&answer);
            thread::spawn(move || -> io::Result<()> {
                let request = Request::read(&mut BufReader::new(stream.try_clone()?))?;
                if request.path == "/v1/models" {
                    return stream.write_all(&[HEAD, br#"{"data":[{"id":"m"}]}"#].concat());
                }
                answer(&request, &mut stream);
                Ok(())
            });
        }
    });
    url
}

/// The body ends with the connection.
const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n";

/// Begins a stream.
pub fn begin(stream: &mut TcpStream) {
    let _ = stream.write_all(HEAD);
}

/// Sends an event; `false` when nobody listens any more.
pub fn event(stream: &mut TcpStream, data: &str) -> bool {
    stream.write_all(format!("data: {data}\n\n").as_bytes()).is_ok()
}

/// A token's event.
pub const TOKEN: &str = r#"{"choices":[{"text":"a","finish_reason":null}]}"#;

/// A whole stream of the given events.
pub fn stream(events: &[&str]) -> impl Fn(&Request, &mut TcpStream) + use<> {
    let events: Vec<String> = events.iter().map(|event| event.to_string()).collect();
    move |_, stream| {
        begin(stream);
        for data in &events {
            event(stream, data);
        }
    }
}
