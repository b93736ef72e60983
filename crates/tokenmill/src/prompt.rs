//! What a generation continues.

use std::sync::Arc;

use foundation::TokenId;

/// What a generation continues: text, or token ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Prompt {
    /// Text, which the checkpoint's tokenizer reads. Strings that look like control tokens stay text.
    Text(String),
    /// Token ids, which need no tokenizer.
    Tokens(Arc<[TokenId]>),
}

impl From<&str> for Prompt {
    fn from(text: &str) -> Self {
        Prompt::Text(text.to_owned())
    }
}

impl From<String> for Prompt {
    fn from(text: String) -> Self {
        Prompt::Text(text)
    }
}

impl From<Vec<TokenId>> for Prompt {
    fn from(tokens: Vec<TokenId>) -> Self {
        Prompt::Tokens(tokens.into())
    }
}

impl From<&[TokenId]> for Prompt {
    fn from(tokens: &[TokenId]) -> Self {
        Prompt::Tokens(tokens.into())
    }
}

impl From<Arc<[TokenId]>> for Prompt {
    fn from(tokens: Arc<[TokenId]>) -> Self {
        Prompt::Tokens(tokens)
    }
}
