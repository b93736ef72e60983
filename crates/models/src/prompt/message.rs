//! One message of a conversation, in the wire form that clients and templates share.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A chat message. Every field reaches the template as it came, the unknown ones (`extra`) too.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ChatMessage {
    /// Who speaks: `system`, `user`, `assistant`, `tool`, ...
    pub role: String,
    /// A string, `null`, or a list of parts (`[{"type": "text", "text": ...}]`). `None`: the field is absent,
    /// which a template can tell from `null`.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub content: Option<Value>,
    /// Everything else: `name`, `tool_calls`, `tool_call_id`, `reasoning_content`, ...
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl ChatMessage {
    /// A message of plain text.
    pub fn new(role: impl Into<String>, content: impl Into<String>) -> Self {
        ChatMessage {
            role: role.into(),
            content: Some(Value::String(content.into())),
            extra: Map::new(),
        }
    }

    /// A message that the user wrote.
    pub fn user(content: impl Into<String>) -> Self {
        Self::new("user", content)
    }

    /// An instruction that stands above the conversation.
    pub fn system(content: impl Into<String>) -> Self {
        Self::new("system", content)
    }

    /// A message that the model wrote.
    pub fn assistant(content: impl Into<String>) -> Self {
        Self::new("assistant", content)
    }
}

/// Reads a field that is there, `null` included, as `Some`.
fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}
