//! A proposer that knows how sequences go on, and now and then says something else.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use foundation::{RequestId, TokenId};
use runtime::speculation::{Ask, Proposer};

use crate::rng::mix;

/// Guesses what it has been told. Copies know the same.
#[derive(Clone, Debug)]
pub struct Oracle {
    truths: Arc<Mutex<HashMap<RequestId, Vec<TokenId>>>>,
    /// One guess in so many is wrong.
    lies: u64,
    vocab_size: u32,
}

impl Oracle {
    /// One guess in `lies` is wrong (0: none), of a vocabulary of at least two tokens.
    pub fn new(lies: u64, vocab_size: usize) -> Self {
        Oracle { truths: Arc::default(), lies, vocab_size: vocab_size as u32 }
    }

    /// Tells what a request's sequence will be, prompt and output.
    pub fn tell(&self, id: RequestId, tokens: Vec<TokenId>) {
        self.truths().insert(id, tokens);
    }

    fn truths(&self) -> MutexGuard<'_, HashMap<RequestId, Vec<TokenId>>> {
        self.truths.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn guess(&self, id: RequestId, place: usize, truth: TokenId) -> TokenId {
        let lies = self.lies > 0 && mix(id.0 << 32 ^ place as u64).is_multiple_of(self.lies);
        if lies { TokenId((truth.0 + 1) % self.vocab_size) } else { truth }
    }
}

impl Proposer for Oracle {
    fn propose(&mut self, asks: &[Ask<'_>]) -> Vec<Vec<TokenId>> {
        let truths = self.truths();
        let guesses = |ask: &Ask<'_>| {
            let known = truths.get(&ask.id).map_or(&[][..], Vec::as_slice);
            let to_come = known.iter().enumerate().skip(ask.tokens.len()).take(ask.most);
            to_come.map(|(place, truth)| self.guess(ask.id, place, *truth)).collect()
        };
        asks.iter().map(guesses).collect()
    }

    fn forget(&mut self, id: RequestId) {
        self.truths().remove(&id);
    }
}
