//! Which tokens a sequence has seen, for penalties.

use std::collections::HashMap;

use foundation::TokenId;

/// The tokens of one sequence: all that occur, and how often each was generated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenCounts {
    /// Occurrences in the output; 0 for a token that only the prompt has.
    generated: HashMap<TokenId, u32>,
}

impl TokenCounts {
    /// Counts of a sequence that begins with `prompt` and has generated `generated` so far.
    pub fn new(prompt: &[TokenId], generated: &[TokenId]) -> Self {
        let mut counts =
            TokenCounts { generated: prompt.iter().map(|token| (*token, 0)).collect() };
        generated.iter().for_each(|token| counts.add(*token));
        counts
    }

    /// One more generated token.
    pub fn add(&mut self, token: TokenId) {
        *self.generated.entry(token).or_default() += 1;
    }

    /// Every token that occurs, with its occurrences in the output. In no order.
    pub fn iter(&self) -> impl Iterator<Item = (TokenId, u32)> + '_ {
        self.generated.iter().map(|(token, count)| (*token, *count))
    }
}
