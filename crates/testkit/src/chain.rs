//! A constraint without a grammar: what may come depends on every token before.

use std::sync::Arc;

use foundation::TokenId;
use runtime::sampling::{Constraint, Follower, SharedConstraint, TokenMask};

use crate::rng::mix;

/// Allows a third of the vocabulary at each place, another third after other tokens; token 1 always.
#[derive(Clone, Debug)]
pub struct ChainConstraint {
    /// Size of the vocabulary.
    pub vocab_size: usize,
    /// Different seeds allow different tokens.
    pub seed: u64,
    /// After so many tokens nobody knows any more; `None`: it always goes on.
    pub lasts: Option<usize>,
}

impl ChainConstraint {
    /// As a request carries it.
    pub fn shared(self) -> SharedConstraint {
        SharedConstraint(Arc::new(self))
    }
}

impl Constraint for ChainConstraint {
    fn follow(&self) -> Result<Box<dyn Follower>, String> {
        Ok(Box::new(Link { chain: self.clone(), digest: self.seed, taken: 0 }))
    }
}

/// A place in the chain.
#[derive(Debug)]
struct Link {
    chain: ChainConstraint,
    digest: u64,
    taken: usize,
}

impl Link {
    fn allows(&self, token: u32) -> bool {
        token == 1 || mix(self.digest ^ u64::from(token)).is_multiple_of(3)
    }
}

impl Follower for Link {
    fn take(&mut self, token: TokenId) -> Result<(), String> {
        if !self.allows(token.0) {
            return Err(format!("token {token} was not allowed"));
        }
        self.digest = mix(self.digest ^ mix(u64::from(token.0)));
        self.taken += 1;
        match self.chain.lasts {
            Some(lasts) if self.taken >= lasts => Err("the chain ends".to_owned()),
            _ => Ok(()),
        }
    }

    fn allowed(&mut self) -> Result<TokenMask, String> {
        let vocab_size = self.chain.vocab_size;
        let mut words = vec![0; vocab_size.div_ceil(32)];
        let tokens = (0..vocab_size as u32).filter(|token| self.allows(*token));
        tokens.for_each(|token| words[token as usize / 32] |= 1 << (token % 32));
        Ok(words.into())
    }
}
