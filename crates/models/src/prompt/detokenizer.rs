//! From a stream of tokens to a stream of text.

use foundation::TokenId;

use super::{
    Tokenizer,
    spelling::{Piece, Spelling},
};

/// Decodes token by token: text goes out as soon as its characters are complete, and is never taken back. The pieces,
/// joined, are [`Tokenizer::decode`] of all tokens.
///
/// The work for a token is bounded by the token's length, however long the stream is. Bytes that are no UTF-8 become U+FFFD:
/// with a byte-level vocabulary one for each maximal invalid sequence, with sentencepiece byte tokens one for each byte.
/// (The library's decoder for the latter gives up the valid characters of a run of byte tokens too when one byte of the run is
/// stray. A stream has sent them by then, rightly.)
pub struct DecodeStream {
    tokenizer: Tokenizer,
    skip_special: bool,
    /// Special tokens that are not skipped.
    kept: Vec<TokenId>,
    state: State,
}

/// By the tokenizer's [`Spelling`].
enum State {
    Separate(Separate),
    Joint(Joint),
}

impl DecodeStream {
    /// A stream that begins before the first token of a text.
    pub fn new(tokenizer: &Tokenizer, skip_special: bool) -> Self {
        let state = match tokenizer.spelling() {
            Spelling::ByteLevel => State::Separate(Separate::default()),
            Spelling::Pieces { strip, .. } => State::Separate(Separate {
                per_byte: true,
                strip: strip.unwrap_or_default(),
                ..Separate::default()
            }),
            Spelling::Joint => State::Joint(Joint::default()),
        };
        DecodeStream { tokenizer: tokenizer.clone(), skip_special, kept: Vec::new(), state }
    }

    /// Skips none of `tokens`, special or not: somebody reads them as marks.
    pub fn keeping(self, tokens: Vec<TokenId>) -> Self {
        DecodeStream { kept: tokens, ..self }
    }

    /// Takes the next token; returns the text that is now certain (empty within a character of several tokens).
    pub fn push(&mut self, token: TokenId) -> String {
        let skipped = self.skip_special && self.tokenizer.is_special(token);
        if skipped && !self.kept.contains(&token) {
            return String::new();
        }
        match &mut self.state {
            State::Separate(state) => {
                let Some(text) = self.tokenizer.token_text(token) else { return String::new() };
                let first = !std::mem::replace(&mut state.begun, true);
                let piece = self.tokenizer.spelling().piece(&text, first);
                piece.map_or_else(String::new, |piece| state.push(piece))
            }
            State::Joint(state) => state.push(&self.tokenizer, token),
        }
    }

    /// Ends the stream: what was held back, incomplete characters as U+FFFD.
    pub fn finish(&mut self) -> String {
        match &mut self.state {
            State::Separate(state) => state.finish(),
            State::Joint(state) => state.finish(&self.tokenizer),
        }
    }
}

/// Tokens that spell bytes or text, each for itself.
#[derive(Default)]
struct Separate {
    /// The bytes of a character that is not complete yet: at most three.
    pending: Vec<u8>,
    /// Whether every stray byte is a U+FFFD of its own.
    per_byte: bool,
    /// How often this character is still cut off the beginning of the text.
    strip: (char, usize),
    /// Whether a token has come.
    begun: bool,
}

impl Separate {
    fn push(&mut self, piece: Piece) -> String {
        let text = match piece {
            Piece::Bytes(bytes) => {
                self.pending.extend(bytes);
                self.take_complete()
            }
            Piece::Text(text) => self.take_rest() + &text,
        };
        self.stripped(text)
    }

    fn finish(&mut self) -> String {
        let text = self.take_rest();
        self.stripped(text)
    }

    /// Takes the complete characters and the invalid sequences off `pending`.
    fn take_complete(&mut self) -> String {
        let mut text = String::new();
        loop {
            let error = match std::str::from_utf8(&self.pending) {
                Ok(valid) => {
                    text.push_str(valid);
                    self.pending.clear();
                    return text;
                }
                Err(error) => error,
            };
            let valid: Vec<u8> = self.pending.drain(..error.valid_up_to()).collect();
            text.push_str(&String::from_utf8_lossy(&valid));
            let Some(invalid) = error.error_len() else { return text };
            self.pending.drain(..invalid);
            text.push_str(&"\u{FFFD}".repeat(if self.per_byte { invalid } else { 1 }));
        }
    }

    /// Takes what is pending, although no more bytes will complete it.
    fn take_rest(&mut self) -> String {
        let rest = std::mem::take(&mut self.pending);
        if self.per_byte {
            "\u{FFFD}".repeat(rest.len())
        } else {
            String::from_utf8_lossy(&rest).into_owned()
        }
    }

    fn stripped(&mut self, mut text: String) -> String {
        let (cut, times) = &mut self.strip;
        while *times > 0 && text.starts_with(*cut) {
            text.remove(0);
            *times -= 1;
        }
        if !text.is_empty() {
            *times = 0;
        }
        text
    }
}

/// Tokens that decode in company only: a window of recent tokens is decoded again and again.
#[derive(Default)]
struct Joint {
    window: Vec<TokenId>,
    /// The tokens of the window whose text has gone out.
    sent: usize,
}

impl Joint {
    /// Tokens are held back for an incomplete character at most so long.
    const PATIENCE: usize = 16;

    fn push(&mut self, tokenizer: &Tokenizer, token: TokenId) -> String {
        self.window.push(token);
        let new = self.unsent(tokenizer);
        let incomplete = new.is_empty() || new.ends_with('\u{FFFD}');
        if incomplete && self.window.len() - self.sent < Self::PATIENCE {
            return String::new();
        }
        self.window.drain(..self.sent);
        self.sent = self.window.len();
        new
    }

    fn finish(&mut self, tokenizer: &Tokenizer) -> String {
        let new = self.unsent(tokenizer);
        self.sent = self.window.len();
        new
    }

    fn unsent(&self, tokenizer: &Tokenizer) -> String {
        let whole = tokenizer.decode_jointly(&self.window, false);
        let sent = tokenizer.decode_jointly(&self.window[..self.sent], false);
        whole.strip_prefix(sent.as_str()).map(str::to_owned).unwrap_or_default()
    }
}
