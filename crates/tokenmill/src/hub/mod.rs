//! Brings checkpoints from the hub into the cache.
//!
//! Knows: the hub's HTTP interface, which files a model needs, the on-disk cache that all Hugging Face tools share.
//! Does not know: what the files mean.
//!
//! A pull asks for the file list of a revision, then brings file by file: who it is (one `HEAD`), whether it is here
//! already, the rest of its bytes, its checksum, its place in the snapshot. Every step can be cut off and taken up
//! again: partial files stay as `.incomplete`, complete ones are never loaded twice.

mod cache;
mod checksum;
mod client;
mod download;
mod error;
mod reference;
mod select;
mod watched;

use std::{fmt, path::PathBuf, time::Duration};

pub(crate) use cache::bytes_under;
pub use cache::{Cache, CachedModel, Leftover};
pub use error::Error;
pub use reference::HubReference;
pub use watched::TICK;

use crate::config::Environment;

/// The public hub.
pub const PUBLIC_ENDPOINT: &str = "https://huggingface.co";

/// Which hub, and where its checkpoints go.
#[derive(Clone, PartialEq, Eq)]
pub struct HubOptions {
    /// The hub: [`PUBLIC_ENDPOINT`] unless `HF_ENDPOINT` says otherwise.
    pub endpoint: String,
    /// Sent to the hub (and to no other host) for gated and private checkpoints.
    pub token: Option<String>,
    /// The cache directory, laid out as other tools lay it out.
    pub cache_dir: PathBuf,
    /// How often a failed transfer is tried again before the pull fails.
    pub retries: u32,
    /// Pause before the first new try; each later one is twice as long, up to 30 s.
    pub backoff: Duration,
}

impl HubOptions {
    /// What the environment says: `HF_ENDPOINT`, `HF_TOKEN` or the token file, `HF_HUB_CACHE` or `HF_HOME`.
    ///
    /// # Errors
    /// [`Error::NoCache`] where no place for the cache is known.
    pub fn from_environment(environment: &Environment) -> Result<Self, Error> {
        Ok(HubOptions {
            endpoint: environment.endpoint.clone().unwrap_or_else(|| PUBLIC_ENDPOINT.to_owned()),
            token: environment.hub_token(),
            cache_dir: environment.cache_dir().ok_or(Error::NoCache)?,
            retries: 5,
            backoff: Duration::from_millis(500),
        })
    }
}

/// The token is not printed.
impl fmt::Debug for HubOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HubOptions")
            .field("endpoint", &self.endpoint)
            .field("token", &self.token.as_ref().map(|_| "..."))
            .field("cache_dir", &self.cache_dir)
            .field("retries", &self.retries)
            .field("backoff", &self.backoff)
            .finish()
    }
}

/// What happens during a pull.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PullEvent {
    /// The file list is known.
    Plan {
        /// The commit.
        commit: String,
        /// Files to have.
        files: usize,
        /// Their bytes, as far as the hub told.
        bytes: u64,
    },
    /// Another process pulls the same file; this one waits for it.
    Waiting {
        /// Its name in the repository.
        file: String,
    },
    /// A file grows.
    File {
        /// Its name in the repository.
        file: String,
        /// Bytes there are.
        current: u64,
        /// Bytes in all.
        total: u64,
    },
    /// A file is complete and checked.
    Done {
        /// Its name in the repository.
        file: String,
        /// Its bytes.
        bytes: u64,
        /// It was in the cache already.
        cached: bool,
    },
    /// Nothing new: asked now and then, so that a pull can be cancelled while it waits for the hub or for another process.
    Tick,
    /// A transfer failed and is tried again.
    Retry {
        /// What was asked for.
        file: String,
        /// Which attempt failed, from 1.
        attempt: u32,
        /// Why.
        reason: String,
    },
}

/// What a pull brought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pulled {
    /// The checkpoint directory (a snapshot of the cache).
    pub path: PathBuf,
    /// The commit.
    pub commit: String,
    /// Bytes that came over the network.
    pub downloaded: u64,
    /// Bytes that were there already.
    pub cached: u64,
}

/// Brings `reference` (ORG/NAME, ORG/NAME@REVISION) into the cache and gives its directory. What is there already is
/// not loaded again; what was cut off is resumed. `progress` is called at least every [`TICK`] and returns `false` to
/// cancel, which is heeded at once: a thread that waits for the hub is left behind, and ends without writing more.
///
/// # Errors
/// See [`Error`]; what was loaded stays for the next pull, except a file whose checksum is wrong.
pub fn pull(
    reference: &str,
    options: &HubOptions,
    progress: &mut dyn FnMut(PullEvent) -> bool,
) -> Result<Pulled, Error> {
    let reference: HubReference = reference.parse()?;
    let options = options.clone();
    watched::run(progress, move |teller| bring_all(&reference, &options, teller))
}

fn bring_all(
    reference: &HubReference,
    options: &HubOptions,
    teller: watched::Teller,
) -> Result<Pulled, Error> {
    let mut pull = download::Pull::new(reference, options, teller);
    let listing = pull.list()?;
    let files = select::needed(reference, listing.files)?;
    pull.announce(&listing.commit, &files)?;
    for file in &files {
        pull.bring(&listing.commit, file)?;
    }
    pull.finish(&listing.commit)
}
