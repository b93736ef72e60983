//! The hub's HTTP interface. Redirects are followed by hand: the token goes to the hub's own host and port, never to the
//! host that a redirect names.

use std::{io::Read, time::Duration};

use serde::Deserialize;
use ureq::{
    Agent, Body,
    http::{HeaderMap, Response, Uri},
};

use super::{
    Error, HubOptions, HubReference,
    reference::{is_hash, is_inside},
};

/// Redirects followed for one request.
const MAX_REDIRECTS: usize = 5;
/// Longest file list that is read, in bytes.
const MAX_LISTING: u64 = 32 << 20;
/// Longest error text that is read, in bytes.
const MAX_MESSAGE: u64 = 4 << 10;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest silence of a connection.
const READ_TIMEOUT: Duration = Duration::from_secs(30);

/// What one try gave: the final word, or a failure that a new try may mend.
pub(super) enum Failure {
    /// Trying again may help, not before the pause that the hub asked for.
    Transient { reason: String, pause: Option<Duration> },
    /// Trying again gives the same.
    Final(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Final(error)
    }
}

/// A revision's commit and files.
pub(super) struct Listing {
    pub commit: String,
    pub files: Vec<RemoteFile>,
}

/// A file of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RemoteFile {
    /// Its name, `/` between directories; stays inside the directory it is joined to.
    pub name: String,
    /// Its size, where the hub told.
    pub bytes: Option<u64>,
}

/// Who a file's contents are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    /// Name of the blob: sha256 of a large file, git's sha1 of a small one.
    pub etag: String,
    /// Bytes.
    pub bytes: u64,
}

/// A connection to a hub.
pub(super) struct Client<'o> {
    agent: Agent,
    options: &'o HubOptions,
    endpoint: String,
}

#[derive(Deserialize)]
struct WireListing {
    sha: String,
    #[serde(default)]
    siblings: Vec<WireFile>,
}

#[derive(Deserialize)]
struct WireFile {
    rfilename: String,
    size: Option<u64>,
}

impl<'o> Client<'o> {
    pub fn new(options: &'o HubOptions) -> Self {
        let agent = Agent::config_builder()
            .max_redirects(0)
            .max_redirects_will_error(false)
            .http_status_as_error(false)
            .timeout_connect(Some(CONNECT_TIMEOUT))
            .timeout_recv_response(Some(READ_TIMEOUT))
            .timeout_per_read(Some(READ_TIMEOUT))
            .user_agent(concat!("tokenmill/", env!("CARGO_PKG_VERSION")))
            .build()
            .new_agent();
        let endpoint = options.endpoint.trim_end_matches('/').to_owned();
        Client { agent, options, endpoint }
    }

    pub fn listing_url(&self, reference: &HubReference) -> String {
        let revision = escape(&reference.revision, false);
        format!(
            "{}/api/models/{}/revision/{revision}?blobs=true",
            self.endpoint,
            reference.repository()
        )
    }

    pub fn file_url(&self, reference: &HubReference, commit: &str, file: &str) -> String {
        let (repository, file) = (reference.repository(), escape(file, true));
        format!("{}/{repository}/resolve/{commit}/{file}", self.endpoint)
    }

    /// The commit and the files at `url`. Every name is checked here, so that no later step can leave the cache.
    pub fn list(&self, url: &str) -> Result<Listing, Failure> {
        let mut response = self.get(url, None)?;
        let body = response.body_mut().with_config().limit(MAX_LISTING).read_to_vec();
        let body = body.map_err(|error| transient(&error))?;
        let answer = |reason| Error::Answer { url: url.to_owned(), reason };
        let wire: WireListing = serde_json::from_slice(&body)
            .map_err(|error| answer(format!("the file list cannot be read: {error}")))?;
        if !is_hash(&wire.sha) {
            return Err(answer(format!("{:?} is no commit hash", wire.sha)).into());
        }
        if let Some(bad) = wire.siblings.iter().find(|file| !is_inside(&file.rfilename)) {
            let name = &bad.rfilename;
            return Err(
                answer(format!("file name {name:?} would leave the snapshot: refused")).into()
            );
        }
        let file = |file: WireFile| RemoteFile { name: file.rfilename, bytes: file.size };
        Ok(Listing { commit: wire.sha, files: wire.siblings.into_iter().map(file).collect() })
    }

    /// Who the file at `url` is, without its bytes. A redirect that already tells is not followed: addresses of a store
    /// behind the hub may be signed for `GET` alone.
    pub fn identify(&self, url: &str) -> Result<Identity, Failure> {
        let tells = |headers: &HeaderMap| headers.contains_key("x-linked-etag");
        let response = self.request(url, "HEAD", None, tells)?;
        let headers = response.headers();
        let answer = |reason: String| Error::Answer { url: url.to_owned(), reason };
        let etag = header(headers, "x-linked-etag").or_else(|| header(headers, "etag"));
        let etag = etag.ok_or_else(|| answer("no ETag, so the file cannot be checked".into()))?;
        let etag = etag.trim_start_matches("W/").trim_matches('"').to_owned();
        if !is_hash(&etag) {
            return Err(answer(format!("ETag {etag:?} cannot name a file")).into());
        }
        let bytes = header(headers, "x-linked-size").or_else(|| header(headers, "content-length"));
        let bytes = bytes
            .and_then(|text| text.parse().ok())
            .ok_or_else(|| answer("no size, so the file cannot be checked".into()))?;
        Ok(Identity { etag, bytes })
    }

    /// The bytes at `url` from `start` on, or all of them where the server does not know ranges. Gives the position of
    /// the first byte.
    pub fn read_from(&self, url: &str, start: u64) -> Result<(impl Read + use<>, u64), Failure> {
        let range = (start > 0).then(|| format!("bytes={start}-"));
        let response = self.get(url, range.as_deref())?;
        let partial = response.status().as_u16() == 206;
        if partial {
            let seen = header(response.headers(), "content-range").unwrap_or_default();
            if !seen.starts_with(&format!("bytes {start}-")) {
                let reason = format!("asked for bytes from {start} on, got {seen:?}");
                return Err(Error::Answer { url: url.to_owned(), reason }.into());
            }
        }
        let reader = response.into_body().into_with_config().limit(u64::MAX).reader();
        Ok((reader, if partial { start } else { 0 }))
    }

    /// One request, with its redirects up to one that `is_enough`.
    fn request(
        &self,
        url: &str,
        method: &str,
        range: Option<&str>,
        is_enough: impl Fn(&HeaderMap) -> bool,
    ) -> Result<Response<Body>, Failure> {
        let home = parse(url)?;
        let mut target = home.clone();
        for _ in 0..=MAX_REDIRECTS {
            let response = self.send(&home, &target, method, range)?;
            if !response.status().is_redirection() {
                return self.accept(url, response);
            }
            if is_enough(response.headers()) {
                return Ok(response);
            }
            let Some(location) = header(response.headers(), "location") else {
                let reason = format!("redirect ({}) without a location", response.status());
                return Err(Error::Answer { url: url.to_owned(), reason }.into());
            };
            target = join(&target, &location)?;
        }
        let reason = format!("more than {MAX_REDIRECTS} redirects");
        Err(Error::Answer { url: url.to_owned(), reason }.into())
    }

    fn get(&self, url: &str, range: Option<&str>) -> Result<Response<Body>, Failure> {
        self.request(url, "GET", range, |_| false)
    }

    fn send(
        &self,
        home: &Uri,
        target: &Uri,
        method: &str,
        range: Option<&str>,
    ) -> Result<Response<Body>, Failure> {
        let mut request = ureq::http::Request::builder().method(method).uri(target);
        // Compressed contents would not have the size and the checksum that are promised.
        request = request.header("accept-encoding", "identity");
        if let Some(range) = range {
            request = request.header("range", range);
        }
        let at_home = home.authority() == target.authority() && home.scheme() == target.scheme();
        if let Some(token) = self.options.token.as_ref().filter(|_| at_home) {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let request = request.body(()).map_err(|error| Error::Answer {
            url: target.to_string(),
            reason: format!("the request cannot be made: {error}"),
        })?;
        self.agent.run(request).map_err(|error| transient(&error))
    }

    /// Sorts answers into success, failures that a new try may mend, and failures that it may not.
    fn accept(&self, url: &str, mut response: Response<Body>) -> Result<Response<Body>, Failure> {
        let status = response.status().as_u16();
        if (200..300).contains(&status) {
            return Ok(response);
        }
        if matches!(status, 408 | 416 | 429 | 500..) {
            let pause =
                header(response.headers(), "retry-after").and_then(|text| text.parse().ok());
            let reason = format!("the server answers {status}");
            return Err(Failure::Transient { reason, pause: pause.map(Duration::from_secs) });
        }
        let message = header(response.headers(), "x-error-message")
            .or_else(|| response.body_mut().with_config().limit(MAX_MESSAGE).read_to_string().ok());
        let message = message.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
        let (url, token_sent) = (url.to_owned(), self.options.token.is_some());
        Err(Failure::Final(match status {
            401 => Error::Unauthorized { url, token_sent },
            403 => Error::Forbidden { url, token_sent, message },
            404 => Error::NotFound { url, message },
            _ => Error::Answer { url, reason: format!("the server answers {status}") },
        }))
    }
}

fn transient(error: &ureq::Error) -> Failure {
    Failure::Transient { reason: error.to_string(), pause: None }
}

fn parse(url: &str) -> Result<Uri, Error> {
    url.parse().map_err(|error| Error::Answer {
        url: url.to_owned(),
        reason: format!("not an address: {error}"),
    })
}

/// `location` as seen from `base`: whole, from the root, or beside it.
fn join(base: &Uri, location: &str) -> Result<Uri, Error> {
    if location.contains("://") {
        return parse(location);
    }
    let scheme = base.scheme_str().unwrap_or("https");
    let authority = base.authority().map(|authority| authority.as_str()).unwrap_or_default();
    if location.starts_with("//") {
        return parse(&format!("{scheme}:{location}"));
    }
    if location.starts_with('/') {
        return parse(&format!("{scheme}://{authority}{location}"));
    }
    let directory = base.path().rsplit_once('/').map_or("", |(directory, _)| directory);
    parse(&format!("{scheme}://{authority}{directory}/{location}"))
}

fn header(headers: &HeaderMap, name: &str) -> Option<String> {
    Some(headers.get(name)?.to_str().ok()?.to_owned())
}

/// Percent-encodes what is not unreserved (RFC 3986); `/` stays where it separates directories.
fn escape(text: &str, keep_slash: bool) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(byte.into());
            }
            b'/' if keep_slash => out.push('/'),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations_are_read_from_where_they_stand() {
        let base: Uri = "https://hub.test:1234/a/b/c".parse().unwrap();
        for (location, wanted) in [
            ("http://cdn.test/x?y=1", "http://cdn.test/x?y=1"),
            ("//cdn.test/x", "https://cdn.test/x"),
            ("/x/y", "https://hub.test:1234/x/y"),
            ("d", "https://hub.test:1234/a/b/d"),
        ] {
            assert_eq!(join(&base, location).ok().unwrap().to_string(), wanted);
        }
    }

    #[test]
    fn names_are_escaped_into_addresses() {
        assert_eq!(escape("refs/pr/1", false), "refs%2Fpr%2F1");
        assert_eq!(escape("dir/a b+ü.json", true), "dir/a%20b%2B%C3%BC.json");
    }
}
