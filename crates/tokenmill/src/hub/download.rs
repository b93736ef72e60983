//! One pull: file after file, each tried until it is there or no try is left.

use std::{
    fs::{self, File},
    io::{self, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    time::Duration,
};

use super::{
    Cache, Error, HubOptions, HubReference, PullEvent, Pulled,
    cache::create_parent,
    checksum::Checksum,
    client::{Client, Failure, Identity, Listing, RemoteFile},
    watched::Teller,
};

/// Bytes read from the connection at once.
const CHUNK: usize = 256 << 10;
/// Bytes between two progress events of a file.
const REPORT_EVERY: u64 = 4 << 20;
const MAX_PAUSE: Duration = Duration::from_secs(30);

/// A pull under way.
pub(super) struct Pull<'p> {
    client: Client<'p>,
    cache: Cache,
    reference: &'p HubReference,
    options: &'p HubOptions,
    teller: Teller,
    downloaded: u64,
    cached: u64,
}

impl<'p> Pull<'p> {
    pub fn new(reference: &'p HubReference, options: &'p HubOptions, teller: Teller) -> Self {
        Pull {
            client: Client::new(options),
            cache: Cache::new(&options.cache_dir),
            reference,
            options,
            teller,
            downloaded: 0,
            cached: 0,
        }
    }

    /// The revision's commit and files.
    pub fn list(&mut self) -> Result<Listing, Error> {
        let url = self.client.listing_url(self.reference);
        let what = self.reference.to_string();
        self.trying(&what, &url, |pull| pull.client.list(&url))
    }

    /// Tells what will be brought.
    pub fn announce(&mut self, commit: &str, files: &[RemoteFile]) -> Result<(), Error> {
        self.tell(PullEvent::Plan {
            commit: commit.to_owned(),
            files: files.len(),
            bytes: files.iter().filter_map(|file| file.bytes).fold(0, u64::saturating_add),
        })
    }

    /// Brings one file: from the cache, or over the network.
    pub fn bring(&mut self, commit: &str, file: &RemoteFile) -> Result<(), Error> {
        let url = self.client.file_url(self.reference, commit, &file.name);
        let identity = self.trying(&file.name, &url, |pull| pull.client.identify(&url))?;
        self.teller.check()?;
        let blob = self.cache.blob(self.reference, &identity.etag);
        let received = self.bring_blob(&file.name, &url, &identity, &blob)?;
        self.cache.link(self.reference, commit, &file.name, &identity.etag)?;
        self.downloaded += received.unwrap_or(0);
        // A transfer that began anew brought more than the file holds.
        self.cached += identity.bytes.saturating_sub(received.unwrap_or(0));
        let cached = received.is_none();
        self.tell(PullEvent::Done { file: file.name.clone(), bytes: identity.bytes, cached })
    }

    /// Records the revision, now that all of it is there.
    pub fn finish(self, commit: &str) -> Result<Pulled, Error> {
        self.cache.record(self.reference, commit)?;
        Ok(Pulled {
            path: self.cache.snapshot(self.reference, commit),
            commit: commit.to_owned(),
            downloaded: self.downloaded,
            cached: self.cached,
        })
    }

    /// Makes the blob be there; gives the bytes that came over the network, `None` if it was there already.
    fn bring_blob(
        &mut self,
        file: &str,
        url: &str,
        identity: &Identity,
        blob: &Path,
    ) -> Result<Option<u64>, Error> {
        if is_whole(blob, identity) {
            return Ok(None);
        }
        let (cache, reference) = (self.cache.clone(), self.reference);
        let _lock = cache.lock(reference, &identity.etag, || {
            self.tell(PullEvent::Waiting { file: file.to_owned() })
        })?;
        self.teller.check()?;
        if is_whole(blob, identity) {
            return Ok(None);
        }
        let mut partial = Partial::open(file, blob, identity.clone())?;
        self.trying(file, url, |pull| pull.transfer(url, &mut partial))?;
        let received = partial.received;
        partial.complete(blob)?;
        Ok(Some(received))
    }

    /// One try to bring the rest of a file.
    fn transfer(&mut self, url: &str, partial: &mut Partial) -> Result<(), Failure> {
        if partial.bytes == partial.identity.bytes {
            return Ok(());
        }
        let (mut reader, start) = self.client.read_from(url, partial.bytes)?;
        self.teller.check()?;
        if start != partial.bytes {
            partial.restart()?;
        }
        let mut chunk = vec![0; CHUNK];
        let mut reported = partial.bytes;
        self.tell(partial.event())?;
        loop {
            let read = reader
                .read(&mut chunk)
                .map_err(|error| Failure::Transient { reason: error.to_string(), pause: None })?;
            if read == 0 {
                break;
            }
            self.teller.check()?;
            partial.append(&chunk[..read])?;
            if partial.bytes - reported >= REPORT_EVERY {
                reported = partial.bytes;
                self.tell(partial.event())?;
            }
        }
        if partial.bytes < partial.identity.bytes {
            let (seen, wanted) = (partial.bytes, partial.identity.bytes);
            let reason = format!("the connection ended after {seen} of {wanted} bytes");
            return Err(Failure::Transient { reason, pause: None });
        }
        Ok(self.tell(partial.event())?)
    }

    /// Tries until it works, the failure is final, or no try is left.
    fn trying<T>(
        &mut self,
        file: &str,
        url: &str,
        mut attempt: impl FnMut(&mut Self) -> Result<T, Failure>,
    ) -> Result<T, Error> {
        let mut backoff = self.options.backoff;
        let mut attempts = 1;
        loop {
            let (reason, pause) = match attempt(self) {
                Ok(value) => return Ok(value),
                Err(Failure::Final(error)) => return Err(error),
                Err(Failure::Transient { reason, pause }) => (reason, pause),
            };
            if attempts > self.options.retries {
                return Err(Error::Transfer { url: url.to_owned(), reason, attempts });
            }
            self.tell(PullEvent::Retry { file: file.to_owned(), attempt: attempts, reason })?;
            std::thread::sleep(pause.unwrap_or(backoff).min(MAX_PAUSE));
            backoff = backoff.saturating_mul(2);
            attempts += 1;
        }
    }

    fn tell(&mut self, event: PullEvent) -> Result<(), Error> {
        self.teller.tell(event)
    }
}

/// Whether `blob` is there with the right size. Its checksum was proved before it got its name.
fn is_whole(blob: &Path, identity: &Identity) -> bool {
    fs::metadata(blob).is_ok_and(|file| file.len() == identity.bytes)
}

/// A file that has not all its bytes yet, and the checksum of those it has.
struct Partial {
    name: String,
    path: PathBuf,
    file: File,
    identity: Identity,
    /// Bytes of the file that are there.
    bytes: u64,
    /// Bytes that came since it was opened.
    received: u64,
    checksum: Checksum,
}

impl Partial {
    /// Opens what an earlier pull left of `blob`, or starts anew. The caller holds the blob's lock.
    fn open(name: &str, blob: &Path, identity: Identity) -> Result<Self, Error> {
        let mut path = blob.as_os_str().to_owned();
        path.push(".incomplete");
        let path = PathBuf::from(path);
        create_parent(&path)?;
        let failed = |source| Error::File { path: path.clone(), source };
        let options = File::options().create(true).read(true).append(true).open(&path);
        let mut file = options.map_err(failed)?;
        let mut checksum = Checksum::new(&identity);
        let mut bytes = file.metadata().map_err(failed)?.len();
        if bytes > identity.bytes {
            file.set_len(0).map_err(failed)?;
            bytes = 0;
        }
        checksum.read_all(&mut file).map_err(failed)?;
        Ok(Partial { name: name.to_owned(), path, file, identity, bytes, received: 0, checksum })
    }

    fn restart(&mut self) -> Result<(), Error> {
        self.checksum = Checksum::new(&self.identity);
        self.bytes = 0;
        let emptied = self.file.set_len(0).and_then(|()| self.file.seek(SeekFrom::Start(0)));
        emptied.map(drop).map_err(|source| self.failed(source))
    }

    fn append(&mut self, chunk: &[u8]) -> Result<(), Error> {
        let total = self.bytes.saturating_add(chunk.len() as u64);
        if total > self.identity.bytes {
            return Err(self.reject(
                "size",
                format!("at least {total} bytes"),
                self.identity.bytes,
            ));
        }
        self.file.write_all(chunk).map_err(|source| self.failed(source))?;
        self.checksum.update(chunk);
        self.bytes = total;
        self.received += chunk.len() as u64;
        Ok(())
    }

    /// Checks the contents and gives them their name.
    fn complete(self, blob: &Path) -> Result<(), Error> {
        if let Some((what, seen)) = self.checksum.mismatch(&self.identity) {
            return Err(self.reject(what, seen, &self.identity.etag));
        }
        self.file.sync_all().map_err(|source| self.failed(source))?;
        fs::rename(&self.path, blob).map_err(|source| self.failed(source))
    }

    /// Removes what is certainly wrong, so that the next pull starts anew.
    fn reject(&self, what: &'static str, seen: String, wanted: impl ToString) -> Error {
        match fs::remove_file(&self.path) {
            Ok(()) => {
                Error::Checksum { file: self.name.clone(), what, seen, wanted: wanted.to_string() }
            }
            Err(source) => Error::File { path: self.path.clone(), source },
        }
    }

    fn failed(&self, source: io::Error) -> Error {
        let path = self.path.clone();
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Error::DiskFull { path, missing: self.identity.bytes.saturating_sub(self.bytes) }
            }
            _ => Error::File { path, source },
        }
    }

    fn event(&self) -> PullEvent {
        PullEvent::File { file: self.name.clone(), current: self.bytes, total: self.identity.bytes }
    }
}
