//! A conversation with a model.

use crate::{
    chat::{ChatMessage, ChatOptions},
    error::{Error, Result},
    generation::Generation,
    model::Model,
    options::GenerateOptions,
};

/// How a session talks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SessionOptions {
    /// What the model is told before the conversation.
    pub system: Option<String>,
    /// How the conversation is rendered.
    pub chat: ChatOptions,
    /// What each answer is asked for.
    pub generate: GenerateOptions,
}

/// A conversation: remembers what was said and sends it along. The prefix cache makes the repetition cheap.
#[derive(Debug)]
pub struct Session {
    model: Model,
    options: SessionOptions,
    history: Vec<ChatMessage>,
}

impl Session {
    pub(crate) fn new(model: Model, options: SessionOptions) -> Self {
        Session { model, options, history: Vec::new() }
    }

    /// The model.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// What was said so far, first to last; the system message is not among it.
    pub fn history(&self) -> &[ChatMessage] {
        &self.history
    }

    /// What each answer is asked for; changes hold from the next question on.
    pub fn options_mut(&mut self) -> &mut SessionOptions {
        &mut self.options
    }

    /// Asks, and streams the answer. The question enters the history at once, the answer as far as it was read:
    /// a cancelled answer stays as the part that was seen.
    pub fn ask(&mut self, _text: impl Into<String>) -> Result<Answer<'_>> {
        Err(Error::Internal("engine not connected".into()))
    }

    /// Forgets the conversation; the system message stays.
    pub fn reset(&mut self) {
        self.history.clear();
    }

    /// Forgets the last question and its answer; gives the question back.
    pub fn undo(&mut self) -> Option<String> {
        None
    }
}

/// An answer under way; remembers itself in the session's history when it ends or is dropped.
#[derive(Debug)]
pub struct Answer<'s> {
    #[expect(dead_code, reason = "filled in with the engine")]
    session: &'s mut Session,
    generation: Generation,
}

impl Answer<'_> {
    /// A handle that cancels the answer from another thread.
    pub fn cancellation_token(&self) -> crate::CancellationToken {
        self.generation.cancellation_token()
    }

    /// Waits for the end and gives the text. Blocks the thread.
    pub fn text(self) -> Result<String> {
        Err(Error::Internal("engine not connected".into()))
    }
}

impl Iterator for Answer<'_> {
    type Item = Result<crate::GenerationEvent>;

    fn next(&mut self) -> Option<Self::Item> {
        self.generation.next()
    }
}
