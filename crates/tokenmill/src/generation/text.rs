//! From a choice's tokens to its text.

use std::sync::Arc;

use foundation::TokenId;
use models::prompt::{DecodeStream, Tokenizer};

use super::stop::{Scanned, StopStrings};

/// What becomes of a choice's text.
#[derive(Clone, Debug)]
pub(crate) struct TextRules {
    /// Strings that end the text.
    pub stop: Arc<[String]>,
    /// Leave the stop string that matched in the text.
    pub include_stop: bool,
    /// Leave control tokens out.
    pub skip_special: bool,
    /// Tokens within which no stop string is looked for.
    pub min_tokens: usize,
}

/// Decodes a choice's tokens and watches for stop strings.
pub(super) struct TextStream {
    decoder: DecodeStream,
    scanner: StopStrings,
    rules: TextRules,
    tokens: usize,
}

impl TextStream {
    pub fn new(tokenizer: &Tokenizer, rules: &TextRules) -> Self {
        TextStream {
            decoder: DecodeStream::new(tokenizer, rules.skip_special),
            scanner: StopStrings::new(Arc::clone(&rules.stop)),
            rules: rules.clone(),
            tokens: 0,
        }
    }

    /// Takes the next token.
    pub fn push(&mut self, token: TokenId) -> Scanned {
        self.tokens += 1;
        let piece = self.decoder.push(token);
        self.scan(&piece)
    }

    /// Ends the text: what was held back comes out, unless it completes a stop string.
    pub fn finish(&mut self) -> Scanned {
        let piece = self.decoder.finish();
        let mut scanned = self.scan(&piece);
        if scanned.stop.is_none() {
            scanned.text.push_str(&self.scanner.release());
        }
        scanned
    }

    fn scan(&mut self, piece: &str) -> Scanned {
        if self.tokens <= self.rules.min_tokens {
            return Scanned { text: piece.to_owned(), stop: None };
        }
        let mut scanned = self.scanner.push(piece);
        if let Some(stop) = scanned.stop.filter(|_| self.rules.include_stop) {
            scanned.text.push_str(&self.rules.stop[stop]);
        }
        scanned
    }
}
