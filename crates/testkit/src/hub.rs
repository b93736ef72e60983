//! A hub of a few files on a port of this machine, which can be told to misbehave: HTTP/1.1, one request a connection.
//! Its only repository is `org/name`, with the one revision `main`.

#![allow(clippy::unwrap_used, reason = "a mock that cannot work fails its test")]

use std::{
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

use sha1::Sha1;
use sha2::{Digest, Sha256};

/// A file of the repository.
#[derive(Clone)]
pub struct File {
    name: String,
    bytes: Vec<u8>,
    etag: String,
    large: bool,
}

impl File {
    /// A file that git keeps itself: named by git's sha1.
    pub fn small(name: &str, bytes: &[u8]) -> Self {
        let mut digest = Sha1::new_with_prefix(format!("blob {}\0", bytes.len()));
        digest.update(bytes);
        let etag = hex(&digest.finalize());
        File { name: name.to_owned(), bytes: bytes.to_owned(), etag, large: false }
    }

    /// A file in large-file storage: named by its sha256, told in the `X-Linked-*` headers.
    pub fn large(name: &str, bytes: Vec<u8>) -> Self {
        File { name: name.to_owned(), etag: sha256(&bytes), bytes, large: true }
    }
}

/// What a request was.
#[derive(Clone, Debug)]
pub struct Seen {
    /// `GET`, `HEAD`.
    pub method: String,
    /// What was asked for, with its query.
    pub path: String,
    /// The header of that name.
    pub authorization: Option<String>,
    /// The header of that name.
    pub range: Option<String>,
}

/// What the hub does, and what it has seen.
struct State {
    commit: String,
    files: Vec<File>,
    seen: Vec<Seen>,
    status: Option<u16>,
    ranges: bool,
    cut: Option<(String, usize)>,
    weights_at: Option<String>,
}

/// A running hub.
pub struct MockHub {
    address: String,
    state: Arc<Mutex<State>>,
}

impl MockHub {
    /// A hub whose repository has `files` at `commit`.
    pub fn start(commit: &str, files: Vec<File>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(Mutex::new(State {
            commit: commit.to_owned(),
            files,
            seen: Vec::new(),
            status: None,
            ranges: true,
            cut: None,
            weights_at: None,
        }));
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&shared);
                // A client that hangs up early is part of some tests.
                thread::spawn(move || serve(stream, &shared).ok());
            }
        });
        MockHub { address, state }
    }

    /// Its address.
    pub fn url(&self) -> String {
        self.address.clone()
    }

    /// All requests so far.
    pub fn seen(&self) -> Vec<Seen> {
        self.state.lock().unwrap().seen.clone()
    }

    /// How many requests of that method had `part` in their path.
    pub fn count(&self, method: &str, part: &str) -> usize {
        let matches = |seen: &&Seen| seen.method == method && seen.path.contains(part);
        self.seen().iter().filter(matches).count()
    }

    /// Answers every request with `status` from now on.
    pub fn answer_everything(&self, status: u16) {
        self.state.lock().unwrap().status = Some(status);
    }

    /// Sends whole files from now on, whatever part is asked for.
    pub fn ignore_ranges(&self) {
        self.state.lock().unwrap().ranges = false;
    }

    /// Hangs up once, after `bytes` bytes of `file`.
    pub fn cut(&self, file: &str, bytes: usize) {
        self.state.lock().unwrap().cut = Some((file.to_owned(), bytes));
    }

    /// Changes a byte of `file` but not its name.
    pub fn corrupt(&self, file: &str) {
        let mut state = self.state.lock().unwrap();
        let file = state.files.iter_mut().find(|f| f.name == file).unwrap();
        *file.bytes.last_mut().unwrap() ^= 1;
    }

    /// Sends requests for large files to another port.
    pub fn redirect_weights_to(&self, store: &MockHub) {
        self.state.lock().unwrap().weights_at = Some(store.url());
    }
}

/// As the hub writes it: lower-case hex.
pub fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn serve(mut stream: TcpStream, state: &Mutex<State>) -> std::io::Result<()> {
    let request = read_request(&stream)?;
    let (head, body) = answer(&request, &mut state.lock().unwrap());
    stream.write_all(format!("HTTP/1.1 {head}connection: close\r\n\r\n").as_bytes())?;
    if request.method != "HEAD" {
        stream.write_all(&body)?;
    }
    stream.flush()
}

fn read_request(stream: &TcpStream) -> std::io::Result<Seen> {
    let mut lines = BufReader::new(stream).lines();
    let first = lines.next().unwrap_or(Ok(String::new()))?;
    let mut words = first.split(' ').map(str::to_owned);
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let mut seen = Seen { method, path, authorization: None, range: None };
    for line in lines {
        let line = line?;
        let Some((name, value)) = line.split_once(": ") else { break };
        match name.to_lowercase().as_str() {
            "authorization" => seen.authorization = Some(value.to_owned()),
            "range" => seen.range = Some(value.to_owned()),
            _ => {}
        }
    }
    Ok(seen)
}

/// Status line with headers, and the bytes that are really sent.
fn answer(request: &Seen, state: &mut State) -> (String, Vec<u8>) {
    state.seen.push(request.clone());
    if let Some(status) = state.status {
        return (format!("{status} no\r\ncontent-length: 0\r\n"), Vec::new());
    }
    if request.path.starts_with("/api/models/org/name/revision/main") {
        let body = listing(state);
        return (format!("200 OK\r\ncontent-length: {}\r\n", body.len()), body);
    }
    let prefix = format!("/org/name/resolve/{}/", state.commit);
    let file = request.path.strip_prefix(&prefix);
    match file.and_then(|name| state.files.iter().find(|file| file.name == name)).cloned() {
        Some(file) => answer_file(request, state, &file),
        None => ("404 no\r\ncontent-length: 0\r\n".to_owned(), Vec::new()),
    }
}

fn listing(state: &State) -> Vec<u8> {
    let files: Vec<_> = state
        .files
        .iter()
        .map(|file| serde_json::json!({"rfilename": file.name, "size": file.bytes.len()}))
        .collect();
    serde_json::json!({"sha": state.commit, "siblings": files}).to_string().into_bytes()
}

fn answer_file(request: &Seen, state: &mut State, file: &File) -> (String, Vec<u8>) {
    let total = file.bytes.len();
    let linked = format!("x-linked-etag: \"{}\"\r\nx-linked-size: {total}\r\n", file.etag);
    if let (true, Some(store)) = (file.large, &state.weights_at) {
        let location = format!("location: {store}{}\r\n", request.path);
        return (format!("302 Found\r\ncontent-length: 0\r\n{linked}{location}"), Vec::new());
    }
    let name = if file.large { linked } else { format!("etag: \"{}\"\r\n", file.etag) };
    let start = request.range.as_ref().filter(|_| state.ranges).map_or(0, |range| {
        range.trim_start_matches("bytes=").trim_end_matches('-').parse::<usize>().unwrap()
    });
    let mut body = file.bytes[start..].to_vec();
    let length = body.len();
    if request.method == "GET"
        && let Some((_, bytes)) = state.cut.take_if(|(cut, _)| *cut == file.name)
    {
        body.truncate(bytes);
    }
    let status = match start {
        0 => "200 OK\r\n".to_owned(),
        _ => format!("206 Part\r\ncontent-range: bytes {start}-{}/{total}\r\n", total - 1),
    };
    (format!("{status}content-length: {length}\r\n{name}"), body)
}
