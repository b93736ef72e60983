//! TLS for load against servers behind `https://`.

use std::{io, path::Path, sync::Arc};

use tokio::net::TcpStream;
use tokio_rustls::{
    TlsConnector,
    client::TlsStream,
    rustls::{
        ClientConfig, RootCertStore,
        crypto::ring,
        pki_types::{CertificateDer, ServerName, pem::PemObject},
    },
};

use crate::error::Error;

/// How connections to one host are secured.
#[derive(Clone)]
pub struct Tls {
    connector: TlsConnector,
    name: ServerName<'static>,
}

impl Tls {
    /// For `host`, for whose certificate a public authority must vouch, or one in the PEM file `authorities`.
    pub fn new(host: &str, authorities: Option<&Path>) -> Result<Self, Error> {
        // An IPv6 address stands in brackets in an address, and without them in a certificate.
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let name = ServerName::try_from(host.clone())
            .map_err(|_| Error::Usage(format!("--url: {host} is no name of a host")))?;
        let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
        if let Some(path) = authorities {
            add_authorities(&mut roots, path)?;
        }
        let failed = |error| Error::io("setting TLS up", io::Error::other(error));
        let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(failed)?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Tls { connector: TlsConnector::from(Arc::new(config)), name })
    }

    /// Shakes hands over `stream`.
    pub async fn secure(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        self.connector.connect(self.name.clone(), stream).await
    }
}

fn add_authorities(roots: &mut RootCertStore, path: &Path) -> Result<(), Error> {
    let wrong = |message: String| Error::Usage(format!("--tls-ca {}: {message}", path.display()));
    let certificates: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect)
        .map_err(|error| wrong(error.to_string()))?;
    if certificates.is_empty() {
        return Err(wrong("it holds no certificate in PEM form".into()));
    }
    for certificate in certificates {
        roots.add(certificate).map_err(|error| wrong(error.to_string()))?;
    }
    Ok(())
}
