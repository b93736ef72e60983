//! The seam for grammars: what decides, token by token, which tokens a sequence may go on with.
//!
//! The runtime knows tokens and masks only. Whoever compiles a grammar hands in a [`Constraint`]; each sequence gets a
//! [`Follower`] of its own, which hears every committed token and answers with the mask of the next one.

use std::{fmt, sync::Arc};

use foundation::TokenId;

/// Tokens that may be drawn, one bit each, little-endian words, as many words as the vocabulary fills.
pub type TokenMask = Arc<[u32]>;

/// A compiled grammar, shared by all sequences that follow it.
pub trait Constraint: fmt::Debug + Send + Sync {
    /// Follows it from the beginning. Called on the thread of whoever submits a request.
    ///
    /// # Errors
    /// Why it cannot be followed.
    fn follow(&self) -> Result<Box<dyn Follower>, String>;
}

/// One sequence's place in a constraint. It may take its time: it is asked beside the engine thread, and holds up its own
/// sequence alone. Some thread or other calls it, one at a time.
pub trait Follower: fmt::Debug + Send {
    /// Takes a token that was drawn; it does not end the output.
    ///
    /// # Errors
    /// Why the constraint cannot be followed any further.
    fn take(&mut self, token: TokenId) -> Result<(), String>;

    /// What may be drawn next, the tokens that end the output among it where it may end.
    ///
    /// # Errors
    /// Why nobody can tell. The sequence must not go on.
    fn allowed(&mut self) -> Result<TokenMask, String>;
}

/// The constraint of a request. Equal to its copies, and to nothing else.
#[derive(Clone, Debug)]
pub struct SharedConstraint(pub Arc<dyn Constraint>);

impl PartialEq for SharedConstraint {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// A follower and the mask that it gave for the token to come.
#[derive(Debug)]
pub(crate) struct Followed {
    follower: Box<dyn Follower>,
    allowed: TokenMask,
}

impl Followed {
    /// At the beginning of the output.
    pub(crate) fn new(constraint: &SharedConstraint) -> Result<Self, String> {
        let mut follower = constraint.0.follow()?;
        let allowed = follower.allowed()?;
        Ok(Followed { follower, allowed })
    }

    /// The place behind a committed token.
    pub(crate) fn take(mut self, token: TokenId) -> Result<Self, String> {
        self.follower.take(token)?;
        self.allowed = self.follower.allowed()?;
        Ok(self)
    }

    /// The mask of the token to come.
    pub(crate) fn allowed(&self) -> TokenMask {
        Arc::clone(&self.allowed)
    }
}
