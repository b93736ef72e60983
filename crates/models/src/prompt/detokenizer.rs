//! From a stream of tokens to a stream of text.

use foundation::TokenId;

use super::Tokenizer;

/// Decodes token by token. The pieces, joined, equal the whole decode.
pub struct DecodeStream {
    tokenizer: Tokenizer,
    skip_special: bool,
    tokens: Vec<TokenId>,
    sent: usize,
}

impl DecodeStream {
    /// A stream that begins before the first token of an answer.
    pub fn new(tokenizer: &Tokenizer, skip_special: bool) -> Self {
        DecodeStream { tokenizer: tokenizer.clone(), skip_special, tokens: Vec::new(), sent: 0 }
    }

    /// Takes the next token; returns the text that is now certain (often empty within a multi-byte character).
    pub fn push(&mut self, token: TokenId) -> String {
        self.tokens.push(token);
        let text = self.tokenizer.decode(&self.tokens, self.skip_special);
        if text.ends_with('\u{FFFD}') {
            return String::new();
        }
        let new = text.get(self.sent..).unwrap_or_default().to_owned();
        self.sent = text.len();
        new
    }

    /// Ends the stream: what was held back, incomplete characters as U+FFFD.
    pub fn finish(&mut self) -> String {
        let text = self.tokenizer.decode(&self.tokens, self.skip_special);
        let new = text.get(self.sent..).unwrap_or_default().to_owned();
        self.sent = text.len();
        new
    }
}
