//! Everything that can go wrong, sorted by who can do something about it.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use foundation::ModelId;
use models::prompt::PromptError;
use runtime::{backend::LoadError, engine::Refusal};

use crate::hub;

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
    /// A field of the request has a value that it may not have. Where several have, the message goes on with the others.
    #[error("{field}: {message}")]
    InvalidRequest {
        /// The field, as it is spelled in [`GenerateOptions`](crate::GenerateOptions): `temperature`, `stop[2]`, `prompt[17]`.
        field: String,
        /// The value seen and the values allowed.
        message: String,
    },
    /// Prompt and requested output do not fit into the longest sequence the model serves.
    #[error(
        "the model's context holds {limit} tokens, but {least}{} were requested: {least}{tokens} of the prompt and \
         {requested} to generate", .tokens + .requested, least = if *.counted { "" } else { "at least " }
    )]
    ContextLengthExceeded {
        /// Tokens of the prompt; where they were not counted, so many at least.
        tokens: usize,
        /// Tokens to generate: `max_tokens` where the request gave it, else 1.
        requested: usize,
        /// The longest sequence, prompt and output together.
        limit: usize,
        /// Whether the prompt was tokenized. A text that is too long whatever its tokens are is refused before.
        counted: bool,
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
    #[error("loading {}: {}", .path.display(), without_path(.source, .path))]
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
    /// The hub or its cache could not serve.
    #[error(transparent)]
    Hub(#[from] hub::Error),
    /// The load was stopped by its progress callback.
    #[error("loading was cancelled")]
    Cancelled,
    /// The model computed no usable numbers for this request (a NaN among its logits, say). Others are not affected.
    #[error(
        "the model computed no usable numbers for this prompt, so that no token could be drawn: {0}; the checkpoint or \
         its kernels are at fault, other requests go on"
    )]
    NoNumbers(String),
    /// The constraint could not be followed to the end. What came before obeys it.
    #[error("the constraint could not be followed any further: {0}; a simpler one may work")]
    ConstraintLost(String),
    /// The request's own [time limit](crate::GenerateOptions::time_limit) was over before the answer was complete.
    #[error(
        "the answer was not complete within the request's time limit of {} s; ask for fewer tokens, or give it more time",
        .0.as_secs_f64()
    )]
    TimedOut(Duration),
    /// The generation broke off: device or engine failed under it. What came before is not whole.
    #[error("the generation broke off: {0}")]
    BrokeOff(String),
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
            | Error::NotFound(_)
            | Error::ConstraintLost(_)
            | Error::TimedOut(_) => Fate::Caller,
            Error::Busy { .. } | Error::Draining => Fate::Busy,
            Error::InvalidOption { .. }
            | Error::Load { .. }
            | Error::AlreadyLoaded(_)
            | Error::File { .. }
            | Error::Hub(_)
            | Error::Cancelled => Fate::Operator,
            Error::NoNumbers(_) | Error::BrokeOff(_) | Error::Failed(_) | Error::Internal(_) => {
                Fate::Ours
            }
        }
    }

    /// A refusal of the engine, for a request that may have `requested` more tokens.
    pub(crate) fn refused(refusal: Refusal, requested: usize) -> Self {
        match refusal {
            Refusal::TooLong { tokens, limit } => {
                Error::ContextLengthExceeded { tokens, requested, limit, counted: true }
            }
            Refusal::TooMany { wanted, limit } => Error::invalid(
                "n",
                format!(
                    "the request asks for {wanted} sequences, and at most {limit} may wait at once \
                     (max_queue); send fewer"
                ),
            ),
            Refusal::Busy { queued, limit, retry_after, .. } => {
                Error::Busy { queued, limit, retry_after }
            }
            Refusal::Draining => Error::Draining,
            Refusal::Unhealthy { reason } => Error::Failed(reason),
            Refusal::Invalid(fields) => {
                let findings = fields.into_iter().map(|f| (f.field.to_owned(), f.problem));
                Error::findings(findings.collect()).unwrap_or_else(|| {
                    Error::Internal("the engine refused a request without a reason".into())
                })
            }
        }
    }

    /// What the prompt room says about `field`.
    pub(crate) fn prompt(field: &str, error: PromptError) -> Self {
        match error {
            PromptError::Invalid { field, reason } => Error::invalid(field, reason),
            error if error.is_callers() => Error::invalid(field, error.to_string()),
            error => Error::Internal(error.to_string()),
        }
    }

    /// One error of several findings, each a field and what is wrong with it: the first names the field.
    pub(crate) fn findings(findings: Vec<(String, String)>) -> Option<Self> {
        let mut findings = findings.into_iter();
        let (field, mut message) = findings.next()?;
        for (field, problem) in findings {
            message.push_str(&format!("; {field}: {problem}"));
        }
        Some(Error::InvalidRequest { field, message })
    }

    pub(crate) fn invalid(field: impl Into<String>, message: impl Into<String>) -> Self {
        Error::InvalidRequest { field: field.into(), message: message.into() }
    }
}

/// What went wrong, without the path in front where the text begins with it.
fn without_path(source: &LoadError, path: &Path) -> String {
    let text = source.to_string();
    match text.strip_prefix(&format!("{}: ", path.display())) {
        Some(rest) => rest.to_owned(),
        None => text,
    }
}
