//! A loaded model.

use std::{path::Path, sync::Arc};

use foundation::{ModelId, TokenId};
use serde::Serialize;

use crate::{
    chat::{ChatMessage, ChatOptions, ChatRequest},
    error::{Error, Result},
    generation::Generation,
    options::GenerateOptions,
    prompt::Prompt,
    session::{Session, SessionOptions},
    settings::Setting,
};

/// A loaded model. Clones share it; the last clone dropped (and [`Library::unload`](crate::Library::unload)) frees it.
#[derive(Clone, Debug)]
pub struct Model {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    id: ModelId,
    info: ModelInfo,
}

/// What a loaded model is.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ModelInfo {
    /// The class that the configuration names: `LlamaForCausalLM`.
    pub architecture: String,
    /// The configuration's `model_type`.
    pub model_type: String,
    /// Element type of most weights.
    pub dtype: String,
    /// Number of weights.
    pub parameters: u64,
    /// Bytes of all weights on disk.
    pub weight_bytes: u64,
    /// Entries of the vocabulary; token ids are below it.
    pub vocab_size: usize,
    /// The longest sequence the model serves, prompt and output together, in tokens.
    pub max_sequence_tokens: usize,
    /// The backend that computes it: `cpu`.
    pub device: String,
}

impl Model {
    /// The name under which it is addressed.
    pub fn id(&self) -> &ModelId {
        &self.inner.id
    }

    /// What it is.
    pub fn info(&self) -> &ModelInfo {
        &self.inner.info
    }

    /// The checkpoint directory.
    pub fn path(&self) -> &Path {
        Path::new("")
    }

    /// The settings in effect and why they are so.
    pub fn settings(&self) -> &[Setting] {
        &[]
    }

    /// Whether text can be read and written; without a tokenizer only token ids can.
    pub fn has_tokenizer(&self) -> bool {
        false
    }

    /// Whether chats can be rendered.
    pub fn has_chat_template(&self) -> bool {
        false
    }

    /// The tokens of `text`. Strings that look like control tokens stay text; `add_special_tokens` begins with the
    /// control tokens that the tokenizer prescribes.
    pub fn tokenize(&self, _text: &str, _add_special_tokens: bool) -> Result<Vec<TokenId>> {
        Err(Error::Internal("engine not connected".into()))
    }

    /// The text of `tokens`.
    pub fn detokenize(&self, _tokens: &[TokenId], _skip_special_tokens: bool) -> Result<String> {
        Err(Error::Internal("engine not connected".into()))
    }

    /// One token as it is spelled in the vocabulary; `None` for ids that have no entry.
    pub fn token_text(&self, _token: TokenId) -> Option<String> {
        None
    }

    /// The prompt of a chat. What users say never becomes a control token.
    pub fn render_chat(&self, _request: &ChatRequest) -> Result<Vec<TokenId>> {
        Err(Error::NoChatTemplate { model: self.id().clone() })
    }

    /// Continues a prompt. Refusals are immediate; everything later arrives through the [`Generation`].
    pub fn generate(
        &self,
        _prompt: impl Into<Prompt>,
        _options: GenerateOptions,
    ) -> Result<Generation> {
        Err(Error::Internal("engine not connected".into()))
    }

    /// Answers a chat.
    pub fn chat(
        &self,
        _messages: Vec<ChatMessage>,
        _chat: ChatOptions,
        _options: GenerateOptions,
    ) -> Result<Generation> {
        Err(Error::Internal("engine not connected".into()))
    }

    /// A conversation that remembers what was said.
    pub fn session(&self, options: SessionOptions) -> Session {
        Session::new(self.clone(), options)
    }

    /// Takes no new requests; those that run finish.
    pub fn drain(&self) {}

    /// The engine's numbers at this moment.
    pub fn metrics(&self) -> runtime::engine::MetricsSnapshot {
        runtime::engine::MetricsSnapshot::default()
    }

    /// Whether a new request would be served.
    pub fn health(&self) -> runtime::engine::Health {
        runtime::engine::Health {
            ok: true,
            problem: None,
            draining: false,
            last_step_age: None,
            queued: 0,
            running: 0,
        }
    }
}
