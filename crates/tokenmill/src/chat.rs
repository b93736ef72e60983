//! Conversations on their way into a prompt.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// One message of a conversation.
///
/// `content` is a string, or a list of parts as the chat template of the checkpoint understands them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChatMessage {
    /// `system`, `developer`, `user`, `assistant`, `tool`.
    pub role: String,
    /// Text or parts; `null` for an assistant message with tool calls alone.
    #[serde(default)]
    pub content: Value,
    /// Everything else that templates read: `name`, `tool_calls`, `tool_call_id`, `reasoning_content`.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl ChatMessage {
    /// A message of `role` that says `text`.
    pub fn new(role: impl Into<String>, text: impl Into<String>) -> Self {
        ChatMessage { role: role.into(), content: Value::String(text.into()), extra: Map::new() }
    }

    /// What the model is told before the conversation.
    pub fn system(text: impl Into<String>) -> Self {
        Self::new("system", text)
    }

    /// What the user says.
    pub fn user(text: impl Into<String>) -> Self {
        Self::new("user", text)
    }

    /// What the model said.
    pub fn assistant(text: impl Into<String>) -> Self {
        Self::new("assistant", text)
    }
}

/// How a conversation is rendered.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChatOptions {
    /// Tools offered to the model: a JSON array of definitions, handed to the template.
    pub tools: Option<Value>,
    /// End the prompt where the assistant's answer begins; `None`: yes, unless the last message is continued.
    pub add_generation_prompt: Option<bool>,
    /// Continue the last message instead of answering it.
    pub continue_final_message: bool,
    /// Keyword arguments for the template (`enable_thinking`, ...).
    pub template_kwargs: Map<String, Value>,
}

/// A conversation and how it is rendered.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChatRequest {
    /// The messages, first to last.
    pub messages: Vec<ChatMessage>,
    /// How they are rendered.
    pub options: ChatOptions,
}
