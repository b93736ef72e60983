//! A constraint, compiled.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use foundation::TokenId;
use llguidance::Matcher;
use runtime::sampling::{Constraint as Seam, Follower};

use crate::{error::sentence, follower::GrammarFollower, vocabulary::Tokens};

/// A constraint, compiled against a vocabulary. Any number of sequences may follow it.
#[derive(Clone)]
pub struct Compiled {
    /// The matcher at its beginning, to be copied.
    start: Arc<Mutex<Matcher>>,
    tokens: Arc<Tokens>,
    /// What the output is free up to and with.
    beginning: Option<Arc<Beginning>>,
}

/// Where the constrained text begins.
pub(crate) struct Beginning {
    /// Behind this text.
    pub(crate) text: String,
    /// The token that is it, be it a control token.
    pub(crate) token: Option<TokenId>,
}

impl Compiled {
    pub(crate) fn new(start: Matcher, tokens: Arc<Tokens>) -> Self {
        Compiled { start: Arc::new(Mutex::new(start)), tokens, beginning: None }
    }

    /// The same constraint for what comes behind the first `mark`: the end of a model's reasoning. Before it the output is
    /// free, but may not end. `token`: the token that is the mark, if there is one; others may spell it, too.
    #[must_use]
    pub fn after(self, mark: &str, token: Option<TokenId>) -> Self {
        Compiled { beginning: Some(Arc::new(Beginning { text: mark.to_owned(), token })), ..self }
    }
}

impl fmt::Debug for Compiled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compiled").field("waits", &self.beginning.is_some()).finish_non_exhaustive()
    }
}

impl Seam for Compiled {
    fn follow(&self) -> Result<Box<dyn Follower>, String> {
        // Deep: followers that shared the lexer's states would wait for each other.
        let matcher = self.start.lock().unwrap_or_else(PoisonError::into_inner).deep_clone();
        if let Some(error) = matcher.get_error() {
            return Err(sentence(error));
        }
        let follower =
            GrammarFollower::new(matcher, Arc::clone(&self.tokens), self.beginning.clone())?;
        Ok(Box::new(follower))
    }
}
