//! The chat template.

use std::path::Path;

use minijinja::value::Serde;
use serde_json::{Map, Value};

use super::{ChatMessage, PromptError, Rendered, Tokenizer};

/// How to render a conversation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RenderOptions {
    /// End with the beginning of the assistant's answer.
    pub add_generation_prompt: bool,
    /// End within the last message, so that the model goes on with it. Excludes `add_generation_prompt`.
    pub continue_final_message: bool,
    /// The template to use where the checkpoint names several; `None`: `tool_use` with tools, else `default`.
    pub template_name: Option<String>,
    /// Documents for retrieval templates.
    pub documents: Option<Value>,
    /// Further variables of the template (`enable_thinking`, ...).
    pub kwargs: Map<String, Value>,
    /// What `strftime_now` calls now; `None`: the system's clock and time zone.
    pub now: Option<jiff::Zoned>,
}

/// A checkpoint's chat template.
pub struct ChatTemplate {
    source: String,
}

impl ChatTemplate {
    /// Reads the template of the checkpoint directory `dir`; `None` where it has none.
    pub fn from_dir(
        dir: &Path,
        tokenizer: &Tokenizer,
    ) -> Result<Option<ChatTemplate>, PromptError> {
        let path = dir.join("chat_template.jinja");
        match std::fs::read_to_string(&path) {
            Ok(source) => Self::new(&source, tokenizer).map(Some),
            Err(_) => Ok(None),
        }
    }

    /// A template from its source, for `--chat-template`.
    pub fn new(source: &str, _tokenizer: &Tokenizer) -> Result<ChatTemplate, PromptError> {
        Ok(ChatTemplate { source: source.to_owned() })
    }

    /// Renders a conversation.
    ///
    /// # Errors
    /// [`PromptError::Refused`] when the template raises an exception; see the other variants for the rest.
    pub fn render(
        &self,
        messages: &[ChatMessage],
        tools: Option<&Value>,
        options: &RenderOptions,
    ) -> Result<Rendered, PromptError> {
        let environment = minijinja::Environment::new();
        let context = minijinja::context! {
            messages => Serde(messages),
            tools => Serde(tools),
            add_generation_prompt => options.add_generation_prompt,
        };
        let text = environment
            .render_str(&self.source, context)
            .map_err(|error| PromptError::Render(error.to_string()))?;
        Ok(Rendered::new(text))
    }

    /// The source of the template that serves a plain conversation.
    pub fn source(&self) -> &str {
        &self.source
    }
}
