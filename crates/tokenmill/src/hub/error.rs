//! Why a pull fails.

use std::{io, path::PathBuf};

/// Why a pull failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The reference is not ORG/NAME or ORG/NAME@REVISION.
    #[error("{0:?} is not a checkpoint name: ORG/NAME or ORG/NAME@REVISION")]
    Reference(String),
    /// No home directory is known and no cache was named.
    #[error("no place for the cache is known: set HF_HOME or HF_HUB_CACHE")]
    NoCache,
    /// The hub wants to know who asks (401).
    #[error("{url}: the hub wants a token (401): the name may be wrong, or the checkpoint is gated or private; {}",
        if *.token_sent { "the token that was sent is not valid" } else { "set HF_TOKEN" })]
    Unauthorized {
        /// What was asked for.
        url: String,
        /// A token was sent along.
        token_sent: bool,
    },
    /// The hub knows who asks and refuses (403).
    #[error("{url}: the hub refuses (403): {}{}",
        if *.token_sent { "accept the checkpoint's terms on its page with the account of this token" }
        else { "set HF_TOKEN to a token of an account that may read it" },
        .message.as_ref().map(|message| format!(" ({message})")).unwrap_or_default())]
    Forbidden {
        /// What was asked for.
        url: String,
        /// A token was sent along.
        token_sent: bool,
        /// What the hub said.
        message: Option<String>,
    },
    /// There is no such checkpoint, revision or file (404).
    #[error("{url}: not found (404): check the name and the revision{}",
        .message.as_ref().map(|message| format!(" ({message})")).unwrap_or_default())]
    NotFound {
        /// What was asked for.
        url: String,
        /// What the hub said.
        message: Option<String>,
    },
    /// The checkpoint has no weights that can be loaded.
    #[error("{name} has no safetensors weights{}", other_weights(.others))]
    NoWeights {
        /// ORG/NAME.
        name: String,
        /// Weight files of other formats that it has.
        others: Vec<String>,
    },
    /// The hub could not be reached, or the transfer broke, more often than retries are allowed.
    #[error(
        "{url}: {reason} ({attempts} attempt{}); what was loaded stays, a new pull goes on from there",
        if *.attempts == 1 { "" } else { "s" }
    )]
    Transfer {
        /// What was asked for.
        url: String,
        /// The last failure.
        reason: String,
        /// How often it was tried.
        attempts: u32,
    },
    /// The hub's answer makes no sense.
    #[error("{url}: {reason}")]
    Answer {
        /// What was asked for.
        url: String,
        /// What was seen and what was wanted.
        reason: String,
    },
    /// The bytes that came are not those that were promised. The file was removed.
    #[error(
        "{file}: {what} is {seen}, the hub promised {wanted}; the file was removed, pull again"
    )]
    Checksum {
        /// Its name in the repository.
        file: String,
        /// What differs: `size`, `sha256`, `git sha1`.
        what: &'static str,
        /// What came.
        seen: String,
        /// What was promised.
        wanted: String,
    },
    /// The disk is full.
    #[error("no space left for {}: {missing} more bytes are needed for this file; make room, a new pull goes on from there", .path.display())]
    DiskFull {
        /// The file being written.
        path: PathBuf,
        /// Bytes of the file that are still to come.
        missing: u64,
    },
    /// A file of the cache cannot be read or written.
    #[error("{}: {source}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The progress callback said stop; what was loaded stays for the next pull.
    #[error("pulling was cancelled")]
    Cancelled,
}

fn other_weights(others: &[String]) -> String {
    if others.is_empty() {
        return String::new();
    }
    format!("; it has {}, which cannot be loaded", others.join(", "))
}
