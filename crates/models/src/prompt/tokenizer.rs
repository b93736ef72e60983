//! The tokenizer of a checkpoint: text to tokens and back.

use std::{borrow::Cow, panic::AssertUnwindSafe, path::Path, sync::Arc};

use foundation::TokenId;
use serde::Deserialize;
use serde_json::{Map, Value};
use tokenizers::{AddedToken, Tokenizer as Library};

use super::{
    DecodeStream, Rendered,
    added::AddedTokens,
    control::Control,
    error::PromptError,
    files,
    least::LeastTokens,
    spelling::{Piece, Spelling},
};

/// A checkpoint's tokenizer. Cheap to clone; threads may share it.
#[derive(Clone)]
pub struct Tokenizer {
    inner: Arc<Inner>,
}

struct Inner {
    library: Library,
    added: AddedTokens,
    special: SpecialTokens,
    spelling: Spelling,
    least: Option<LeastTokens>,
    vocab_size: usize,
}

/// The tokens with a role of their own, as the files name them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpecialTokens {
    /// Begins a sequence.
    pub bos: Option<NamedToken>,
    /// Ends an answer. Generation may stop at more tokens: see [`crate::generation::GenerationDefaults`].
    pub eos: Option<NamedToken>,
    /// Fills rows of a batch.
    pub pad: Option<NamedToken>,
    /// Stands for text that the vocabulary cannot spell.
    pub unk: Option<NamedToken>,
    /// All tokens that the files name (`bos_token`, `eos_token`, `boi_token`, ...), by those names: variables of the
    /// chat template.
    pub named: Vec<(String, String)>,
}

/// A token by its spelling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedToken {
    /// The spelling.
    pub text: String,
    /// The id.
    pub id: TokenId,
}

impl Tokenizer {
    /// Reads the tokenizer of the checkpoint directory `dir`; `None` where it has no `tokenizer.json`.
    ///
    /// `tokenizer_config.json` and `special_tokens_map.json` add names of tokens. Which tokens frame a text is decided by
    /// the post-processor in `tokenizer.json` alone; `add_bos_token` and `add_eos_token` beside it have no effect, as
    /// in transformers 5.
    ///
    /// # Errors
    /// When a file is there but cannot be read, is too large, or is malformed.
    pub fn from_dir(dir: &Path) -> Result<Option<Tokenizer>, PromptError> {
        let path = dir.join("tokenizer.json");
        let Some(content) = files::read(&path, files::MAX_TOKENIZER)? else { return Ok(None) };
        let mut names = files::read_object(&dir.join("special_tokens_map.json"))?;
        names.extend(files::read_object(&dir.join("tokenizer_config.json"))?);
        Self::new(&content, &names).map(Some).map_err(|error| match error {
            PromptError::Tokenizer(reason) => files::malformed(&path, reason).into(),
            other => other,
        })
    }

    /// A tokenizer from the content of its `tokenizer.json` and the object of its `tokenizer_config.json`.
    ///
    /// # Errors
    /// [`PromptError::Tokenizer`] when the content is malformed.
    pub fn new(content: &[u8], config: &Map<String, Value>) -> Result<Tokenizer, PromptError> {
        guarded(|| Self::build(content, config))
            .unwrap_or_else(|| Err(PromptError::Tokenizer("the file is inconsistent".into())))
    }

    fn build(content: &[u8], config: &Map<String, Value>) -> Result<Tokenizer, PromptError> {
        let failed = |error: tokenizers::Error| PromptError::Tokenizer(error.to_string());
        check_spellings(content, config)?;
        let mut library = Library::from_bytes(content).map_err(failed)?;
        library.with_padding(None);
        library.with_truncation(None).map_err(failed)?;
        check_ids(content, &library)?;
        let named = named_tokens(config);
        complete(&mut library, config, &named);
        let vocab = library.get_vocab(true);
        let vocab_size = vocab.values().max().map_or(0, |id| *id as usize + 1);
        Ok(Tokenizer {
            inner: Arc::new(Inner {
                added: AddedTokens::new(&library)?,
                special: SpecialTokens::new(named, &library),
                spelling: Spelling::of(&library),
                least: LeastTokens::of(&library),
                vocab_size,
                library,
            }),
        })
    }

    /// Encodes text from a request: special tokens that it spells stay plain text. With `add_special_tokens` the
    /// tokenizer's own frame (a beginning-of-sequence token, say) is put around it.
    ///
    /// # Errors
    /// [`PromptError::Encode`] when the vocabulary cannot spell the text.
    pub fn encode(
        &self,
        text: &str,
        add_special_tokens: bool,
    ) -> Result<Vec<TokenId>, PromptError> {
        let inner = &*self.inner;
        ids(|| {
            inner
                .added
                .encode(&inner.library, text, add_special_tokens, &|_, token, _| !token.special)
        })
    }

    /// Encodes text whose author may write control tokens (an operator's raw prompt): what `transformers` makes of it.
    ///
    /// # Errors
    /// [`PromptError::Encode`] when the vocabulary cannot spell the text.
    pub fn encode_trusted(
        &self,
        text: &str,
        add_special_tokens: bool,
    ) -> Result<Vec<TokenId>, PromptError> {
        ids(|| self.inner.library.encode_fast(text, add_special_tokens))
    }

    /// Encodes a rendered conversation: the template's control tokens become ids, those spelled by the request do not.
    ///
    /// # Errors
    /// [`PromptError::Encode`] when the vocabulary cannot spell the text.
    pub fn encode_template(&self, rendered: &Rendered) -> Result<Vec<TokenId>, PromptError> {
        let inner = &*self.inner;
        if !rendered.is_marked() {
            return self.encode_trusted(rendered.text(), false);
        }
        ids(|| {
            inner.added.encode(&inner.library, rendered.text(), false, &|id, token, range| {
                rendered.allows(id, token.special, &token.content, range)
            })
        })
    }

    /// A number of tokens above `limit` that `text` surely has, whoever wrote it, told without tokenizing it; `None`
    /// where tokenizing alone can tell. Linear in the text, and many times faster than tokenizing.
    pub fn surely_above(&self, text: &str, limit: usize) -> Option<usize> {
        self.inner.least?.above(text, limit)
    }

    /// Decodes tokens; ids outside the vocabulary are passed over, bytes that are no UTF-8 become U+FFFD.
    pub fn decode(&self, tokens: &[TokenId], skip_special: bool) -> String {
        if self.inner.spelling == Spelling::Joint {
            return self.decode_jointly(tokens, skip_special);
        }
        let mut stream = DecodeStream::new(self, skip_special);
        let mut text: String = tokens.iter().map(|token| stream.push(*token)).collect();
        text += &stream.finish();
        text
    }

    /// The library's own decode of all tokens at once.
    pub(crate) fn decode_jointly(&self, tokens: &[TokenId], skip_special: bool) -> String {
        let ids: Vec<u32> = tokens.iter().map(|token| token.0).collect();
        // A decoder of the library fails on nothing that the vocabulary of a consistent file can hold.
        guarded(|| self.inner.library.decode(&ids, skip_special).unwrap_or_default())
            .unwrap_or_default()
    }

    /// The vocabulary's own spelling of a token (`Ġhello`, `▁hello`, `<0x0A>`); `None` outside the vocabulary.
    pub fn token_text(&self, token: TokenId) -> Option<String> {
        self.inner.library.id_to_token(token.0)
    }

    /// The bytes that a token stands for in the middle of a text; `None` outside the vocabulary.
    pub fn token_bytes(&self, token: TokenId) -> Option<Vec<u8>> {
        let text = self.token_text(token)?;
        Some(match self.inner.spelling.piece(&text, false) {
            Some(Piece::Bytes(bytes)) => bytes,
            Some(Piece::Text(text)) => text.into_bytes(),
            None => text.into_bytes(),
        })
    }

    /// The id of a token by its vocabulary spelling.
    pub fn token_id(&self, text: &str) -> Option<TokenId> {
        self.inner.library.token_to_id(text).map(TokenId)
    }

    /// Whether the files mark a token special (left out by `skip_special`).
    pub fn is_special(&self, token: TokenId) -> bool {
        let added = self.inner.library.get_added_vocabulary();
        added.simple_id_to_token(token.0).is_some_and(|text| added.is_special_token(&text))
    }

    /// One more than the largest token id. The model's own `vocab_size` may be larger (padding) or smaller.
    pub fn vocab_size(&self) -> usize {
        self.inner.vocab_size
    }

    /// The tokens with a role.
    pub fn special_tokens(&self) -> &SpecialTokens {
        &self.inner.special
    }

    pub(crate) fn spelling(&self) -> &Spelling {
        &self.inner.spelling
    }

    /// The control tokens of a conversation whose templates read `sources`.
    pub(crate) fn controls(&self, sources: &[&str]) -> Vec<Control> {
        let written = |content: &str| {
            !content.chars().all(|c| c.is_whitespace() || c == '▁')
                && sources.iter().any(|source| source.contains(content))
        };
        let mut controls: Vec<Control> = self
            .inner
            .added
            .iter()
            .filter(|(_, token)| token.special || written(&token.content))
            .map(|(id, token)| Control {
                id,
                content: token.content.clone(),
                special: token.special,
            })
            .collect();
        controls.sort_by_key(|control| control.id);
        controls
    }
}

/// Why a text has no tokens although the file was read: the library says it by a panic.
const GAVE_UP: &str = "its patterns give up on this text, or its definition is inconsistent";

/// What `work` gives; `None` if it panics. The library does on some malformed files, when they are read or when they are
/// used; that must not take the process with it.
fn guarded<T>(work: impl FnOnce() -> T) -> Option<T> {
    std::panic::catch_unwind(AssertUnwindSafe(work)).ok()
}

fn ids(
    encode: impl FnOnce() -> tokenizers::Result<tokenizers::Encoding>,
) -> Result<Vec<TokenId>, PromptError> {
    let encoding = guarded(encode)
        .ok_or_else(|| PromptError::Encode(GAVE_UP.to_owned()))?
        .map_err(|error| PromptError::Encode(error.to_string()))?;
    Ok(encoding.get_ids().iter().copied().map(TokenId).collect())
}

impl SpecialTokens {
    fn new(named: Vec<(String, String)>, library: &Library) -> Self {
        let token = |name: &str| {
            let text = &named.iter().find(|(known, _)| known == name)?.1;
            Some(NamedToken { text: text.clone(), id: TokenId(library.token_to_id(text)?) })
        };
        SpecialTokens {
            bos: token("bos_token"),
            eos: token("eos_token"),
            pad: token("pad_token"),
            unk: token("unk_token"),
            named,
        }
    }
}

/// The spelling of a token in a configuration file: a string, or an object with `content`.
fn spelling_of(value: &Value) -> Option<&str> {
    value.as_str().or_else(|| value.get("content")?.as_str()).filter(|text| !text.is_empty())
}

/// `bos_token`, `eos_token`, ... of a `tokenizer_config.json`, with the further ones of `extra_special_tokens`.
fn named_tokens(config: &Map<String, Value>) -> Vec<(String, String)> {
    let extra = config.get("extra_special_tokens").and_then(Value::as_object);
    let mut named: Vec<(String, String)> = Vec::new();
    for (name, value) in config.iter().chain(extra.into_iter().flatten()) {
        let known = named.iter().any(|(known, _)| known == name);
        if let Some(text) = spelling_of(value).filter(|_| name.ends_with("_token") && !known) {
            named.push((name.clone(), text.to_owned()));
        }
    }
    named
}

/// Longest spelling of an added token, in bytes. The automaton that finds such tokens takes the library time that grows with
/// the square of their length, and every string of a request is searched for their beginnings.
const MAX_SPELLING: usize = 4096;

/// The added tokens of a `tokenizer.json`, for a look at them before the library reads it.
#[derive(Deserialize)]
struct Preview<'a> {
    #[serde(borrow, default)]
    added_tokens: Vec<Spelled<'a>>,
}

#[derive(Deserialize)]
struct Spelled<'a> {
    #[serde(borrow)]
    content: Cow<'a, str>,
    id: Option<u32>,
}

/// No added token is longer than [`MAX_SPELLING`], be it of `tokenizer.json` or of the configuration beside it.
fn check_spellings(content: &[u8], config: &Map<String, Value>) -> Result<(), PromptError> {
    // What this does not understand the library will not either, and has better words for it.
    let preview = serde_json::from_slice::<Preview<'_>>(content).ok();
    let own = preview.iter().flat_map(|file| &file.added_tokens).map(|token| &*token.content);
    let named = named_tokens(config);
    let mut configured: Vec<&str> = named.iter().map(|(_, text)| text.as_str()).collect();
    config.values().for_each(|value| spellings(value, &mut configured));
    match own.chain(configured).find(|text| text.len() > MAX_SPELLING) {
        Some(text) => {
            let start: String = text.chars().take(40).collect();
            Err(PromptError::Tokenizer(format!(
                "the added token {start:?}... is spelled with {} bytes, at most {MAX_SPELLING} are read",
                text.len()
            )))
        }
        None => Ok(()),
    }
}

/// Every added token has the id that the file gives it. The library numbers those that do not fit its vocabulary anew, and the
/// model would read other tokens than the file means.
fn check_ids(content: &[u8], library: &Library) -> Result<(), PromptError> {
    let preview = serde_json::from_slice::<Preview<'_>>(content).ok();
    let moved = preview.iter().flat_map(|file| &file.added_tokens).find_map(|token| {
        let given = token.id?;
        let id = library.token_to_id(&token.content);
        (id != Some(given)).then_some((token, given, id))
    });
    let Some((token, given, id)) = moved else { return Ok(()) };
    let place = id.map_or("no place".to_owned(), |id| format!("id {id}"));
    Err(PromptError::Tokenizer(format!(
        "the added token {:?} has id {given}, but {place} in the vocabulary that the file describes: another entry takes its \
         place, or ids are left out",
        token.content
    )))
}

/// Every spelling in `value` that has no name: strings in lists, and objects with `content` in lists and objects.
fn spellings<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
    match value {
        Value::Object(map) => match map.get("content").and_then(Value::as_str) {
            Some(text) => found.push(text),
            None => map.values().filter(|v| !v.is_string()).for_each(|v| spellings(v, found)),
        },
        Value::Array(list) => list.iter().for_each(|value| match value {
            Value::String(text) => found.push(text),
            other => spellings(other, found),
        }),
        _ => {}
    }
}

/// Adds what the configuration knows beyond `tokenizer.json`: further added tokens, and that named tokens are special.
fn complete(library: &mut Library, config: &Map<String, Value>, named: &[(String, String)]) {
    let decoder = config.get("added_tokens_decoder").and_then(Value::as_object);
    let mut listed: Vec<(u32, AddedToken)> = decoder
        .into_iter()
        .flatten()
        .filter_map(|(id, token)| Some((id.parse().ok()?, added_token(token)?)))
        .collect();
    listed.sort_by_key(|(id, _)| *id);
    let is_added = |library: &Library, text: &str| {
        library.get_added_vocabulary().get_vocab().contains_key(text)
    };
    let missing: Vec<AddedToken> = listed
        .into_iter()
        .map(|(_, token)| token)
        .filter(|token| !is_added(library, &token.content))
        .collect();
    library.add_tokens(&missing);
    let lists = ["additional_special_tokens", "extra_special_tokens"];
    let extra = lists.iter().filter_map(|list| config.get(*list)?.as_array()).flatten();
    let special: Vec<AddedToken> = named
        .iter()
        .map(|(_, text)| text.as_str())
        .chain(extra.filter_map(spelling_of))
        .filter(|text| !library.get_added_vocabulary().is_special_token(text))
        .map(|text| AddedToken::from(text, true))
        .collect();
    library.add_special_tokens(&special);
}

fn added_token(value: &Value) -> Option<AddedToken> {
    let flag = |name: &str| value.get(name).and_then(Value::as_bool).unwrap_or(false);
    Some(
        AddedToken::from(spelling_of(value)?, flag("special"))
            .single_word(flag("single_word"))
            .lstrip(flag("lstrip"))
            .rstrip(flag("rstrip"))
            .normalized(flag("normalized")),
    )
}
