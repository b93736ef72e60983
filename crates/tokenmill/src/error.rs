//! Everything that can go wrong, sorted by who can do something about it.

use std::{path::PathBuf, time::Duration};

use foundation::ModelId;
use runtime::backend::LoadError;

/// Result of the facade's calls.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Who can do something about an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fate {
    /// The request is wrong; the same request will fail again.
    Caller,
    /// Nothing is wrong; the same request may succeed later.
    Busy,
    /// The set-up is wrong: a file, an option, memory. Nothing that a caller sends can mend it.
    Operator,
    /// A defect or a device fault.
    Ours,
}

/// Why a call failed. Each variant exists because some caller acts differently on it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A field of the request has a value that it may not have.
    #[error("{field}: {message}")]
    InvalidRequest {
        /// The field, as it is spelled in [`GenerateOptions`](crate::GenerateOptions): `temperature`, `stop[2]`, `prompt[17]`.
        field: String,
        /// The value seen and the values allowed.
        message: String,
    },
    /// Prompt and requested output do not fit into the longest sequence the model serves.
    #[error(
        "the prompt has {tokens} tokens and at least one must be generated, but the model's context holds {limit} tokens"
    )]
    ContextLengthExceeded {
        /// Tokens of the prompt.
        tokens: usize,
        /// The longest sequence, prompt and output together.
        limit: usize,
    },
    /// Text was given or asked for, but the checkpoint has no tokenizer. Token ids work.
    #[error("{model} has no tokenizer: {wanted} needs one; prompts of token ids work without")]
    NoTokenizer {
        /// The model.
        model: ModelId,
        /// What needed it.
        wanted: String,
    },
    /// A chat was asked for, but the checkpoint has no chat template.
    #[error(
        "{model} has no chat template: load it with one (--chat-template FILE), or send a plain prompt"
    )]
    NoChatTemplate {
        /// The model.
        model: ModelId,
    },
    /// No model of that name is loaded, or no checkpoint is found under the reference.
    #[error("{0}")]
    NotFound(String),
    /// Too many requests wait already.
    #[error("{queued} requests are waiting and the queue holds {limit}: try again in {} s", .retry_after.as_secs().max(1))]
    Busy {
        /// Requests waiting.
        queued: usize,
        /// Places in the queue.
        limit: usize,
        /// When a place is likely to be free.
        retry_after: Duration,
    },
    /// The model finishes what it has and takes nothing new.
    #[error("the model is shutting down and takes no new requests")]
    Draining,
    /// An option of the library or of a model has a value that it may not have.
    #[error("{option}: {message}")]
    InvalidOption {
        /// The option, as it is spelled in [`ModelOptions`](crate::ModelOptions).
        option: &'static str,
        /// The value seen and the values allowed.
        message: String,
    },
    /// The checkpoint could not be loaded. The text lists every finding.
    #[error("loading {}: {source}", .path.display())]
    Load {
        /// The checkpoint.
        path: PathBuf,
        /// Why.
        source: LoadError,
    },
    /// Another model is loaded under the same name.
    #[error(
        "a model named {0} is loaded already: unload it first, or load this one under another name"
    )]
    AlreadyLoaded(ModelId),
    /// A file of the checkpoint or of the cache cannot be read.
    #[error("{}: {source}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The load was stopped by its progress callback.
    #[error("loading was cancelled")]
    Cancelled,
    /// The model's device or engine has failed; every request gets this until the model is loaded anew.
    #[error("the model has failed: {0}")]
    Failed(String),
    /// A defect.
    #[error("internal error: {0}")]
    Internal(String),
}

impl Error {
    /// Who can do something about it.
    pub fn fate(&self) -> Fate {
        match self {
            Error::InvalidRequest { .. }
            | Error::ContextLengthExceeded { .. }
            | Error::NoTokenizer { .. }
            | Error::NoChatTemplate { .. }
            | Error::NotFound(_) => Fate::Caller,
            Error::Busy { .. } | Error::Draining => Fate::Busy,
            Error::InvalidOption { .. }
            | Error::Load { .. }
            | Error::AlreadyLoaded(_)
            | Error::File { .. }
            | Error::Cancelled => Fate::Operator,
            Error::Failed(_) | Error::Internal(_) => Fate::Ours,
        }
    }

    pub(crate) fn invalid(field: impl Into<String>, message: impl Into<String>) -> Self {
        Error::InvalidRequest { field: field.into(), message: message.into() }
    }
}
