//! What can go wrong between a request's text and its tokens.

/// An error of the prompt room. [`PromptError::is_callers`] tells whose fault it is.
#[derive(Debug, thiserror::Error)]
pub enum PromptError {
    /// A file of the checkpoint cannot be used.
    #[error(transparent)]
    Checkpoint(#[from] crate::Error),
    /// The tokenizer's definition is malformed.
    #[error("the tokenizer is malformed: {0}")]
    Tokenizer(String),
    /// The chat template's source is malformed.
    #[error("the chat template{} is malformed: {reason}", name.as_ref().map(|name| format!(" {name:?}")).unwrap_or_default())]
    Template {
        /// Its name, where a checkpoint has several.
        name: Option<String>,
        /// What is wrong, and where.
        reason: String,
    },
    /// The tokenizer cannot encode a text.
    #[error("the tokenizer cannot encode the text: {0}")]
    Encode(String),
    /// The template refuses the messages (`raise_exception`): the caller's fault, in the template's words.
    #[error("the chat template refuses these messages: {0}")]
    Refused(String),
    /// Rendering failed, because the messages lack what the template needs or the template is broken.
    #[error("the chat template fails on these messages: {0}")]
    Render(String),
    /// A message or an option that cannot be honoured.
    #[error("{field}: {reason}")]
    Invalid {
        /// The request field, as a path (`messages[2].role`).
        field: String,
        /// What was seen and what is wanted.
        reason: String,
    },
    /// Rendering took more than its share of time or memory.
    #[error("the chat template exceeds its limit of {limit} {what}")]
    Exhausted {
        /// What ran out: steps, output bytes.
        what: &'static str,
        /// How much there was.
        limit: u64,
    },
}

impl PromptError {
    /// Whether the request caused the error; otherwise a file of the checkpoint did.
    pub fn is_callers(&self) -> bool {
        match self {
            PromptError::Encode(_)
            | PromptError::Refused(_)
            | PromptError::Render(_)
            | PromptError::Exhausted { .. }
            | PromptError::Invalid { .. } => true,
            PromptError::Checkpoint(_)
            | PromptError::Tokenizer(_)
            | PromptError::Template { .. } => false,
        }
    }
}
