//! From a choice's tokens to its text.

use std::sync::Arc;

use foundation::TokenId;
use models::prompt::{DecodeStream, Tokenizer};
use runtime::stop::{StopStrings, Streamed};

/// What becomes of a choice's text.
#[derive(Clone, Debug)]
pub(crate) struct TextRules {
    /// Strings that end the text.
    pub stop: Arc<[String]>,
    /// Leave what stopped the text in it.
    pub include_stop: bool,
    /// Leave control tokens out.
    pub skip_special: bool,
    /// A stop string counts only where it ends behind so many tokens.
    pub min_tokens: usize,
}

/// What a token gave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Piece {
    /// Text that is certain to belong to the output.
    pub text: String,
    /// The stop string that is complete now, as an index into the list; nothing comes after it.
    pub stop: Option<usize>,
}

/// Decodes a choice's tokens and watches for stop strings.
pub(super) struct TextStream {
    decoder: DecodeStream,
    matcher: StopStrings,
    rules: TextRules,
    tokens: usize,
}

impl TextStream {
    pub fn new(tokenizer: &Tokenizer, rules: &TextRules) -> Self {
        TextStream {
            decoder: DecodeStream::new(tokenizer, rules.skip_special),
            matcher: StopStrings::new(&rules.stop),
            rules: rules.clone(),
            tokens: 0,
        }
    }

    /// Takes the next token.
    pub fn push(&mut self, token: TokenId) -> Piece {
        self.tokens += 1;
        let text = self.decoder.push(token);
        self.watch(text)
    }

    /// Ends the text: what was held back comes out, unless it completes a stop string.
    pub fn finish(&mut self) -> Piece {
        let text = self.decoder.finish();
        let mut piece = self.watch(text);
        if piece.stop.is_none() {
            piece.text.push_str(&self.matcher.finish());
        }
        piece
    }

    fn watch(&mut self, text: String) -> Piece {
        if self.tokens <= self.rules.min_tokens {
            return Piece { text: self.matcher.pass(&text), stop: None };
        }
        match self.matcher.push(&text) {
            Streamed::Text(text) => Piece { text, stop: None },
            Streamed::Stopped { mut text, stop } => {
                if self.rules.include_stop {
                    text.push_str(&self.rules.stop[stop]);
                }
                Piece { text, stop: Some(stop) }
            }
        }
    }
}
