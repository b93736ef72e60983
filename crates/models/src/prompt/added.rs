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
    tokens: Vec<(String, u32)>,
    /// For a token: others whose spelling it begins with, the longest first.
    shorter: HashMap<u32, Vec<(usize, u32)>>,
}

impl Matcher {
    fn new(mut tokens: Vec<(String, u32)>) -> Result<Self, PromptError> {
        tokens.retain(|(text, _)| !text.is_empty());
        let finder = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(tokens.iter().map(|(text, _)| text))
            .map_err(|error| PromptError::Tokenizer(format!("added tokens: {error}")))?;
        let ids: HashMap<&str, u32> =
            tokens.iter().map(|(text, id)| (text.as_str(), *id)).collect();
        let shorter = tokens
            .iter()
            .map(|(text, id)| {
                let begins = |at: usize| Some((at, *ids.get(text.get(..at)?)?));
                (*id, (1..text.len()).rev().filter_map(begins).collect::<Vec<_>>())
            })
            .filter(|(_, shorter)| !shorter.is_empty())
            .collect();
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
            let id = self.tokens[hit.pattern().as_usize()].1;
            if permit(id, hit.range()) {
                return Some((id, hit.range()));
            }
            let shorter = self.shorter.get(&id).into_iter().flatten();
            let mut shorter = shorter.map(|(len, id)| (*id, hit.start()..hit.start() + len));
            if let Some(found) = shorter.find(|(id, range)| permit(*id, range.clone())) {
                return Some(found);
            }
            from = text.ceil_char_boundary(hit.start() + 1);
        }
    }
}

fn tokenizer_error(error: tokenizers::Error) -> PromptError {
    PromptError::Tokenizer(error.to_string())
}
