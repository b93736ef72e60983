//! Prompt lookup: texts repeat themselves, and what followed once follows again.
//!
//! A match finder as compressors have it: places with the same last few tokens hang on a chain, latest first, and the
//! chain is searched for the place with the longest end in common. A token costs one link and a proposal at most
//! `MOST_CANDIDATES` comparisons, however long the sequence.

use std::collections::HashMap;

use foundation::{RequestId, TokenId};

use super::{Ask, Proposer};

/// Places of a chain that are looked at, latest first.
const MOST_CANDIDATES: usize = 32;
/// Chains of an index that begins.
const FEWEST_CHAINS: usize = 256;
/// No place.
const NONE: u32 = u32::MAX;

/// Where each short stretch of one sequence's tokens occurred before. At most 12 bytes a token.
#[derive(Clone, Debug)]
pub struct NgramIndex {
    shortest: usize,
    longest: usize,
    /// The latest place of each chain; a power of two, at least as many as places.
    heads: Vec<u32>,
    /// For each place, the one before in its chain. The first place is behind `shortest` tokens.
    previous: Vec<u32>,
}

impl NgramIndex {
    /// An empty index for ends of `shortest` to `longest` tokens; both are at least 1.
    pub fn new(shortest: usize, longest: usize) -> Self {
        let shortest = shortest.max(1);
        let (heads, previous) = (vec![NONE; FEWEST_CHAINS], Vec::new());
        NgramIndex { shortest, longest: longest.max(shortest), heads, previous }
    }

    /// Up to `most` tokens that followed the longest end of `tokens` that occurred before, from its latest occurrence
    /// (among the last few that have its `shortest` tokens). A pure function of `tokens`, which only ever grow.
    ///
    /// An occurrence that overlaps the end repeats: after `a b a b a` come `b a b a`.
    pub fn propose(&mut self, tokens: &[TokenId], most: usize) -> Vec<TokenId> {
        self.extend(tokens);
        let Some(place) = self.find(tokens) else { return Vec::new() };
        let mut guesses: Vec<TokenId> = Vec::with_capacity(most);
        for at in place..place + most {
            let token = tokens.get(at).copied().unwrap_or_else(|| guesses[at - tokens.len()]);
            guesses.push(token);
        }
        guesses
    }

    /// Takes in every place that has a token behind it.
    fn extend(&mut self, tokens: &[TokenId]) {
        let places = tokens.len().saturating_sub(self.shortest);
        if places > self.heads.len() {
            self.heads = vec![NONE; places.next_power_of_two()];
            self.previous.clear();
        }
        for index in self.previous.len()..places {
            let chain = self.chain(&tokens[index..index + self.shortest]);
            let place = (index + self.shortest) as u32;
            self.previous.push(std::mem::replace(&mut self.heads[chain], place));
        }
    }

    /// The place before the end that has most in common with the end; the latest of equals.
    fn find(&self, tokens: &[TokenId]) -> Option<usize> {
        let end = tokens.len().checked_sub(self.shortest)?;
        let mut place = self.heads[self.chain(&tokens[end..])];
        let (mut best, mut length) = (None, self.shortest - 1);
        for _ in 0..MOST_CANDIDATES {
            if place == NONE || length == self.longest {
                break;
            }
            let here = place as usize;
            let common = common_end(&tokens[..here], tokens, self.longest);
            if common > length {
                (best, length) = (Some(here), common);
            }
            place = self.previous[here - self.shortest];
        }
        best
    }

    /// The chain of a stretch of `shortest` tokens. Others may share it.
    fn chain(&self, stretch: &[TokenId]) -> usize {
        let step = |hash: u64, token: &TokenId| {
            (hash.rotate_left(29) ^ u64::from(token.0)).wrapping_mul(0x9E37_79B9_7F4A_7C15)
        };
        let hash = stretch.iter().fold(0, step);
        (hash >> 32) as usize & (self.heads.len() - 1)
    }
}

/// Tokens at the end that both have, up to `most`.
fn common_end(a: &[TokenId], b: &[TokenId], most: usize) -> usize {
    a.iter().rev().zip(b.iter().rev()).take(most).take_while(|(a, b)| a == b).count()
}

/// Guesses by an index for each sequence, made when the sequence is first asked about.
#[derive(Debug)]
pub struct NgramProposer {
    shortest: usize,
    longest: usize,
    indices: HashMap<RequestId, NgramIndex>,
}

impl NgramProposer {
    /// Without sequences; see [`NgramIndex::new`].
    pub fn new(shortest: usize, longest: usize) -> Self {
        NgramProposer { shortest, longest, indices: HashMap::new() }
    }
}

impl Proposer for NgramProposer {
    fn propose(&mut self, asks: &[Ask<'_>]) -> Vec<Vec<TokenId>> {
        let (shortest, longest) = (self.shortest, self.longest);
        let guess = |ask: &Ask<'_>| {
            let index = self.indices.entry(ask.id);
            let index = index.or_insert_with(|| NgramIndex::new(shortest, longest));
            index.propose(ask.tokens, ask.most)
        };
        asks.iter().map(guess).collect()
    }

    fn forget(&mut self, id: RequestId) {
        self.indices.remove(&id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampling::philox;

    fn tokens(ids: &[u32]) -> Vec<TokenId> {
        ids.iter().map(|id| TokenId(*id)).collect()
    }

    fn proposed(ids: &[u32], shortest: usize, longest: usize, most: usize) -> Vec<u32> {
        let guesses = NgramIndex::new(shortest, longest).propose(&tokens(ids), most);
        guesses.iter().map(|token| token.0).collect()
    }

    #[test]
    fn what_followed_once_is_proposed() {
        assert_eq!(proposed(&[1, 2, 3, 4, 5, 6, 1, 2, 3], 2, 4, 2), [4, 5]);
        assert_eq!(proposed(&[1, 2, 3, 4, 5, 6, 1, 2, 3], 4, 4, 2), [0; 0], "three are the same");
        assert_eq!(proposed(&[1, 2, 3], 2, 4, 2), [0; 0]);
        assert_eq!(proposed(&[1], 2, 4, 2), [0; 0]);
        assert_eq!(proposed(&[], 1, 1, 2), [0; 0]);
    }

    #[test]
    fn the_longest_end_counts_and_of_equals_the_latest() {
        let ids = [7, 1, 2, 30, 8, 1, 2, 40, 9, 1, 2, 50, 7, 1, 2];
        assert_eq!(proposed(&ids, 2, 4, 1), [30], "7 1 2 is longer than 1 2");
        assert_eq!(proposed(&ids, 2, 2, 1), [50]);
    }

    #[test]
    fn an_occurrence_that_overlaps_the_end_repeats() {
        assert_eq!(proposed(&[5, 5, 5, 5], 2, 3, 4), [5, 5, 5, 5]);
        assert_eq!(proposed(&[9, 1, 2, 1, 2, 1], 2, 3, 5), [2, 1, 2, 1, 2]);
    }

    /// Every place is looked at, by the definition.
    fn plain(tokens: &[TokenId], shortest: usize, longest: usize) -> Option<usize> {
        let common = |place: &usize| common_end(&tokens[..*place], tokens, longest);
        let places = (1..tokens.len()).filter(|place| common(place) >= shortest);
        // Of equals, `max_by_key` gives the last.
        places.max_by_key(common)
    }

    #[test]
    fn growing_token_by_token_finds_what_a_plain_search_finds() {
        for seed in 0..20 {
            let (shortest, longest) = (1 + seed as usize % 3, 3 + seed as usize % 4);
            let kinds = [3.0, 12.0, 40.0][seed as usize % 3];
            let all: Vec<TokenId> = (0..700)
                .map(|draw| TokenId((philox::uniform(seed, draw) * kinds) as u32))
                .collect();
            let mut index = NgramIndex::new(shortest, longest);
            let mut found = 0;
            for end in 0..all.len() {
                let tokens = &all[..end];
                // In long chains the plain search sees further back.
                index.extend(tokens);
                let place = index.find(tokens);
                let wanted = plain(tokens, shortest, longest);
                let length = |place: Option<usize>| {
                    place.map_or(0, |place| common_end(&tokens[..place], tokens, longest))
                };
                if kinds > 3.0 && shortest > 1 {
                    assert_eq!(place, wanted, "seed {seed}, {end} tokens");
                } else {
                    assert_eq!(place.is_some(), wanted.is_some());
                    assert!(length(place) <= length(wanted));
                }
                found += usize::from(place.is_some());
            }
            assert!(found > 0);
        }
    }

    #[test]
    fn an_index_takes_at_most_twelve_bytes_a_token() {
        for length in [1_000, 1_025, 100_000] {
            let tokens: Vec<TokenId> = (0..length).map(|id| TokenId(id as u32 % 100)).collect();
            let mut index = NgramIndex::new(3, 8);
            assert_eq!(index.propose(&tokens, 3)[0].0, length as u32 % 100);
            let words = index.heads.len() + index.previous.len();
            assert!(words * 4 <= length * 12, "{words} words for {length} tokens");
        }
    }

    #[test]
    fn sequences_are_told_apart_and_forgotten() {
        let mut proposer = NgramProposer::new(1, 2);
        let (one, two) = (tokens(&[1, 2, 1]), tokens(&[1, 3, 1]));
        let ask = |id, tokens| Ask { id: RequestId(id), tokens, most: 1 };
        let guesses = proposer.propose(&[ask(1, &one), ask(2, &two)]);
        assert_eq!(guesses, [tokens(&[2]), tokens(&[3])]);
        proposer.forget(RequestId(1));
        assert_eq!(proposer.indices.len(), 1);
    }
}
