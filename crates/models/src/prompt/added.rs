//! Encoding with a say in which added tokens match.
//!
//! The library matches every added token wherever its spelling stands. Here each match is asked for permission first; the
//! rest (normaliser, splitting, model, post-processor) is the library's own, over the whole text at once, so that
//! without a refusal the tokens are the library's.

use std::{collections::HashMap, ops::Range};

use aho_corasick::{AhoCorasick, Input, MatchKind};
use tokenizers::{
    AddedToken, Encoding, Model, NormalizedString, Normalizer, OffsetType, PreTokenizedString,
    PreTokenizer, Token, Tokenizer as Library, normalizer::Range as Referential,
};

use super::PromptError;

/// The added tokens of a tokenizer, ready to be matched.
pub(crate) struct AddedTokens {
    by_id: HashMap<u32, AddedToken>,
    literal: Matcher,
    normalized: Matcher,
}

/// May the added token `id` stand at this byte range of the original text?
pub(crate) type Permission<'a> = &'a dyn Fn(u32, &AddedToken, Range<usize>) -> bool;

/// A piece of text: plain, or one added token.
type Piece = (NormalizedString, Option<Vec<Token>>);

impl AddedTokens {
    pub(crate) fn new(library: &Library) -> Result<Self, PromptError> {
        let by_id: HashMap<u32, AddedToken> =
            library.get_added_tokens_decoder().into_iter().collect();
        let mut ids: Vec<u32> = by_id.keys().copied().collect();
        ids.sort_unstable();
        let (normalized, literal): (Vec<u32>, Vec<u32>) =
            ids.into_iter().partition(|id| by_id[id].normalized);
        let spelled = |id: u32| (by_id[&id].content.clone(), id);
        let normalize = |id: u32| {
            let mut text = NormalizedString::from(by_id[&id].content.as_str());
            if let Some(normalizer) = library.get_normalizer() {
                normalizer.normalize(&mut text).map_err(tokenizer_error)?;
            }
            Ok((text.get().to_owned(), id))
        };
        Ok(AddedTokens {
            literal: Matcher::new(literal.into_iter().map(spelled).collect())?,
            normalized: Matcher::new(
                normalized.into_iter().map(normalize).collect::<Result<_, PromptError>>()?,
            )?,
            by_id,
        })
    }

    /// All added tokens by id.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &AddedToken)> {
        self.by_id.iter().map(|(id, token)| (*id, token))
    }

    /// Encodes `text` with `library`; an added token matches only where `permit` says so.
    pub(crate) fn encode(
        &self,
        library: &Library,
        text: &str,
        add_special_tokens: bool,
        permit: Permission<'_>,
    ) -> tokenizers::Result<Encoding> {
        let mut pieces = PreTokenizedString::from(text);
        pieces.split(|_, piece| Ok(self.split(piece, &self.literal, permit)))?;
        pieces.split(|_, mut piece| {
            if let Some(normalizer) = library.get_normalizer() {
                normalizer.normalize(&mut piece)?;
            }
            Ok(self.split(piece, &self.normalized, permit))
        })?;
        if let Some(pre_tokenizer) = library.get_pre_tokenizer() {
            pre_tokenizer.pre_tokenize(&mut pieces)?;
        }
        pieces.tokenize(|piece| library.get_model().tokenize(piece.get()))?;
        let encoding = pieces.into_encoding(None, 0, OffsetType::None)?;
        library.post_process(encoding, None, add_special_tokens)
    }

    /// Cuts a piece at the permitted matches.
    fn split(
        &self,
        piece: NormalizedString,
        matcher: &Matcher,
        permit: Permission<'_>,
    ) -> Vec<Piece> {
        let text = piece.get();
        let offset = piece.offsets_original().0;
        let original = |range: Range<usize>| {
            let range =
                piece.convert_offsets(Referential::Normalized(range.clone())).unwrap_or(range);
            offset + range.start..offset + range.end
        };
        let mut cuts = Vec::new();
        let (mut search, mut done) = (0, 0);
        while let Some((id, range)) = matcher.next(text, search, |id, range| {
            self.by_id.get(&id).is_some_and(|token| permit(id, token, original(range)))
        }) {
            search = range.end;
            let token = &self.by_id[&id];
            if token.single_word && !stands_alone(text, &range) {
                continue;
            }
            let range = with_spaces(token, text, range, done);
            if done < range.start {
                cuts.push((None, done..range.start));
            }
            done = range.end;
            cuts.push((Some(id), range));
        }
        if done < text.len() || cuts.is_empty() {
            cuts.push((None, done..text.len()));
        }
        cuts.into_iter().filter_map(|(id, range)| cut(&piece, id, range)).collect()
    }
}

fn cut(piece: &NormalizedString, id: Option<u32>, range: Range<usize>) -> Option<Piece> {
    let slice = piece.slice(Referential::Normalized(range))?;
    let token = id.map(|id| {
        let value = slice.get().to_owned();
        let len = value.len();
        vec![Token::new(id, value, (0, len))]
    });
    Some((slice, token))
}

/// Whether no word continues on either side of `range`.
fn stands_alone(text: &str, range: &Range<usize>) -> bool {
    let word = |c: char| c.is_alphanumeric() || c == '_';
    !text[..range.start].ends_with(word) && !text[range.end..].starts_with(word)
}

/// `range` and the white space that the token swallows.
fn with_spaces(token: &AddedToken, text: &str, range: Range<usize>, done: usize) -> Range<usize> {
    let start =
        if token.lstrip { text[..range.start].trim_end().len().max(done) } else { range.start };
    let rest = &text[range.end..];
    let end = if token.rstrip { text.len() - rest.trim_start().len() } else { range.end };
    start..end
}

/// Finds spellings, the longest first.
struct Matcher {
    finder: AhoCorasick,
    /// Sorted by spelling.
    tokens: Vec<(String, u32)>,
    /// For a token of `tokens`: the longest other one that it begins with, if there is one.
    shorter: Vec<Option<usize>>,
}

impl Matcher {
    fn new(mut tokens: Vec<(String, u32)>) -> Result<Self, PromptError> {
        tokens.retain(|(text, _)| !text.is_empty());
        tokens.sort_unstable();
        let finder = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(tokens.iter().map(|(text, _)| text))
            .map_err(|error| PromptError::Tokenizer(format!("added tokens: {error}")))?;
        let shorter = longest_prefixes(&tokens);
        Ok(Matcher { finder, tokens, shorter })
    }

    /// The first permitted match from byte `from` on.
    fn next(
        &self,
        text: &str,
        mut from: usize,
        permit: impl Fn(u32, Range<usize>) -> bool,
    ) -> Option<(u32, Range<usize>)> {
        loop {
            let hit = self.finder.find(Input::new(text).range(from..))?;
            let mut candidate = Some(hit.pattern().as_usize());
            while let Some(index) = candidate {
                let (spelling, id) = &self.tokens[index];
                let range = hit.start()..hit.start() + spelling.len();
                if permit(*id, range.clone()) {
                    return Some((*id, range));
                }
                candidate = self.shorter[index];
            }
            from = text.ceil_char_boundary(hit.start() + 1);
        }
    }
}

/// For each of the sorted `tokens`: the longest other one that it begins with.
fn longest_prefixes(tokens: &[(String, u32)]) -> Vec<Option<usize>> {
    // Those that the token at hand begins with, each longer than the one before: in sorted order they form a stack.
    let mut open: Vec<usize> = Vec::new();
    let mut prefixes = Vec::with_capacity(tokens.len());
    for (index, (text, _)) in tokens.iter().enumerate() {
        let begins_with = |other: &str| text.len() > other.len() && text.starts_with(other);
        while open.last().is_some_and(|last| !begins_with(&tokens[*last].0)) {
            open.pop();
        }
        prefixes.push(open.last().copied());
        open.push(index);
    }
    prefixes
}

fn tokenizer_error(error: tokenizers::Error) -> PromptError {
    PromptError::Tokenizer(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_token_gives_way_to_the_longest_that_it_begins_with() {
        let tokens = ["<a", "<", "<ab>", "<abc>", "<ab", "b"];
        let tokens = tokens.iter().zip(0..).map(|(text, id)| ((*text).to_owned(), id)).collect();
        let matcher = Matcher::new(tokens).unwrap();
        let next = |refused: &[u32]| matcher.next("x<ab>", 0, |id, _| !refused.contains(&id));
        assert_eq!(next(&[]), Some((2, 1..5)));
        assert_eq!(next(&[2]), Some((4, 1..4)));
        assert_eq!(next(&[2, 4]), Some((0, 1..3)));
        assert_eq!(next(&[2, 4, 0]), Some((1, 1..2)));
        assert_eq!(next(&[2, 4, 0, 1]), Some((5, 3..4)));
        assert_eq!(next(&[2, 4, 0, 1, 5]), None);
    }
}
