//! The tokenizer of a checkpoint: text to tokens and back.

use std::{path::Path, sync::Arc};

use foundation::TokenId;

use super::{Rendered, error::PromptError};

/// A checkpoint's tokenizer. Cheap to clone; threads may share it.
#[derive(Clone)]
pub struct Tokenizer {
    inner: Arc<tokenizers::Tokenizer>,
    special: Arc<SpecialTokens>,
}

/// The tokens with a role of their own, as the files name them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpecialTokens {
    /// Begins a sequence.
    pub bos: Option<(String, Option<TokenId>)>,
    /// Ends an answer. Generation may stop at more tokens: see [`crate::generation::GenerationDefaults`].
    pub eos: Option<(String, Option<TokenId>)>,
    /// Fills rows of a batch.
    pub pad: Option<(String, Option<TokenId>)>,
    /// Stands for text that the vocabulary cannot spell.
    pub unk: Option<(String, Option<TokenId>)>,
}

impl Tokenizer {
    /// Reads the tokenizer of the checkpoint directory `dir`; `None` where it has no `tokenizer.json`.
    pub fn from_dir(dir: &Path) -> Result<Option<Tokenizer>, PromptError> {
        let path = dir.join("tokenizer.json");
        if !path.exists() {
            return Ok(None);
        }
        let inner = tokenizers::Tokenizer::from_file(&path)
            .map_err(|error| PromptError::Malformed { path, reason: error.to_string() })?;
        Ok(Some(Tokenizer { inner: Arc::new(inner), special: Arc::default() }))
    }

    /// Encodes text from a request. Control-token strings in it stay plain text; with `add_special_tokens` the
    /// tokenizer's own frame (a beginning-of-sequence token, say) is put around it.
    pub fn encode(
        &self,
        text: &str,
        add_special_tokens: bool,
    ) -> Result<Vec<TokenId>, PromptError> {
        self.encode_trusted(text, add_special_tokens)
    }

    /// Encodes text whose author may write control tokens: an operator's raw prompt, a rendered golden. Equals what
    /// `transformers` makes of the same text.
    pub fn encode_trusted(
        &self,
        text: &str,
        add_special_tokens: bool,
    ) -> Result<Vec<TokenId>, PromptError> {
        let encoding = self
            .inner
            .encode_fast(text, add_special_tokens)
            .map_err(|error| PromptError::Encode(error.to_string()))?;
        Ok(encoding.get_ids().iter().copied().map(TokenId).collect())
    }

    /// Encodes a rendered conversation: the template's control tokens become ids, those spelled by the request do not.
    pub fn encode_template(&self, rendered: &Rendered) -> Result<Vec<TokenId>, PromptError> {
        self.encode_trusted(rendered.text(), false)
    }

    /// Decodes tokens; ids outside the vocabulary are passed over.
    pub fn decode(&self, tokens: &[TokenId], skip_special: bool) -> String {
        let ids: Vec<u32> = tokens.iter().map(|token| token.0).collect();
        self.inner.decode(&ids, skip_special).unwrap_or_default()
    }

    /// The vocabulary's own spelling of a token (`Ġhello`, `▁hello`, `<0x0A>`).
    pub fn token_text(&self, token: TokenId) -> Option<String> {
        self.inner.id_to_token(token.0)
    }

    /// The bytes that a token stands for.
    pub fn token_bytes(&self, token: TokenId) -> Option<Vec<u8>> {
        self.token_text(token).map(String::into_bytes)
    }

    /// The id of a token by its spelling.
    pub fn token_id(&self, text: &str) -> Option<TokenId> {
        self.inner.token_to_id(text).map(TokenId)
    }

    /// Whether a token is a control token (left out by `skip_special`).
    pub fn is_special(&self, token: TokenId) -> bool {
        self.inner
            .get_added_vocabulary()
            .is_special_token(&self.token_text(token).unwrap_or_default())
    }

    /// One more than the largest token id. May exceed or fall short of the model's `vocab_size`.
    pub fn vocab_size(&self) -> usize {
        self.inner.get_vocab_size(true)
    }

    /// The tokens with a role.
    pub fn special_tokens(&self) -> &SpecialTokens {
        &self.special
    }
}
