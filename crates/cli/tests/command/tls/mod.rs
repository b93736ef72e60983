//! A server behind TLS that answers every completion with two tokens. Its certificate is for `localhost`, valid from 2020
//! to 2120, and vouched for by `authority.pem`, an authority whose key nobody has kept.

use std::{
    io::{self, BufReader, Read, Write},
    net::TcpListener,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
};

use tokio_rustls::rustls::{
    ServerConfig, ServerConnection, StreamOwned,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};

use crate::standin::Request;

/// Starts the server and gives its port; it lives as long as the tests.
pub fn serve() -> u16 {
    let certificate = CertificateDer::from_pem_file(file("server.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_file(file("server.key")).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
            // A client that trusts nobody hangs up in the middle.
            thread::spawn(move || answer(StreamOwned::new(connection, stream)).ok());
        }
    });
    port
}

/// Path of the authority's certificate.
pub fn authority() -> String {
    file("authority.pem").into_os_string().into_string().unwrap()
}

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/command/tls").join(name)
}

const STREAM: &str = r#"data: {"choices":[{"text":"a"}]}

data: {"choices":[{"text":"b"}]}

data: {"choices":[],"usage":{"prompt_tokens":4,"completion_tokens":2}}

data: [DONE]

"#;

/// Answers one request and closes.
fn answer(stream: impl Read + Write) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    let request = Request::read(&mut stream)?;
    let body = if request.path == "/v1/models" { r#"{"data":[{"id":"m"}]}"# } else { STREAM };
    let length = body.len();
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n");
    let stream = stream.get_mut();
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())?;
    stream.flush()
}
