//! One sequence's place in a grammar.

use std::{fmt, sync::Arc};

use foundation::TokenId;
use llguidance::{Matcher, toktrie::TokEnv};
use runtime::sampling::{Follower, TokenMask};

use crate::{compiled::Beginning, error::sentence, vocabulary::Tokens};

/// A copy of the matcher, moved on by each token.
pub(crate) struct GrammarFollower {
    matcher: Matcher,
    tokens: Arc<Tokens>,
    /// What the constraint waits for.
    waiting: Option<Waiting>,
    /// No token of the output has come.
    first: bool,
}

/// The constraint has not begun.
struct Waiting {
    beginning: Arc<Beginning>,
    environment: TokEnv,
    /// The latest bytes of the output, less than the mark has.
    tail: Vec<u8>,
}

impl GrammarFollower {
    pub(crate) fn new(
        matcher: Matcher,
        tokens: Arc<Tokens>,
        beginning: Option<Arc<Beginning>>,
    ) -> Result<Self, String> {
        let environment = matcher.tok_env().map_err(sentence)?;
        let waiting =
            beginning.map(|beginning| Waiting { beginning, environment, tail: Vec::new() });
        Ok(GrammarFollower { matcher, tokens, waiting, first: true })
    }
}

impl Waiting {
    /// Whether the mark is complete with this token. One that goes on behind the mark has begun the constrained text without
    /// having been held against the constraint.
    fn ends_with(&mut self, token: TokenId) -> Result<bool, String> {
        if self.beginning.token == Some(token) {
            return Ok(true);
        }
        let mark = self.beginning.text.as_bytes();
        self.tail.extend(self.environment.tok_trie().token(token.0));
        let place = self.tail.windows(mark.len()).position(|window| window == mark);
        if place.is_some_and(|place| place + mark.len() < self.tail.len()) {
            return Err(format!(
                "token {token} spells the end of {:?} and more",
                self.beginning.text
            ));
        }
        let surplus = self.tail.len().saturating_sub(mark.len().saturating_sub(1));
        self.tail.drain(..surplus);
        Ok(place.is_some())
    }
}

impl fmt::Debug for GrammarFollower {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let waits = self.waiting.is_some();
        f.debug_struct("GrammarFollower").field("waits", &waits).finish_non_exhaustive()
    }
}

impl Follower for GrammarFollower {
    fn take(&mut self, token: TokenId) -> Result<(), String> {
        self.first = false;
        let Some(waiting) = &mut self.waiting else {
            return self.matcher.consume_token(token.0).map_err(sentence);
        };
        if waiting.ends_with(token)? {
            self.waiting = None;
        }
        Ok(())
    }

    fn allowed(&mut self) -> Result<TokenMask, String> {
        if self.waiting.is_some() {
            return Ok(self.tokens.without_ends());
        }
        // A matcher that has given up would answer with the end, as if the text were complete.
        let reason = self.matcher.stop_reason();
        if !reason.is_ok() {
            return Err(format!("the grammar was given up: {reason}"));
        }
        let mask = self.matcher.compute_mask_or_eos().map_err(sentence)?;
        let ends = mask.is_allowed(self.tokens.end().0);
        let words = self.tokens.mask(mask.as_slice(), self.first, ends);
        if words.iter().all(|word| *word == 0) {
            return Err("no token of the vocabulary can go on with it".to_owned());
        }
        Ok(words)
    }
}
