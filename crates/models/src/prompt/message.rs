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

    /// The message as a template reads it: without fields that are `null` (but for `content`, if `keep_null`), and with
    /// its reasoning under all names.
    pub(crate) fn for_template(&self, keep_null: bool) -> Map<String, Value> {
        let mut fields = Map::from_iter([("role".to_owned(), Value::String(self.role.clone()))]);
        if let Some(content) =
            self.content.as_ref().filter(|content| keep_null || !content.is_null())
        {
            fields.insert("content".to_owned(), content.clone());
        }
        let extra = self.extra.iter().filter(|(_, value)| !value.is_null());
        fields.extend(extra.map(|(name, value)| (name.clone(), value.clone())));
        let names = ["reasoning_content", "thinking", "reasoning"];
        if let Some(reasoning) = names.iter().find_map(|name| fields.get(*name)).cloned() {
            fields.entry("thinking").or_insert_with(|| reasoning.clone());
            fields.insert("reasoning_content".to_owned(), reasoning);
        }
        fields
    }
}

/// Reads a field that is there, `null` included, as `Some`.
fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_wire_form_comes_back_as_it_was() {
        for wire in [
            json!({"role": "user", "content": "hi", "name": "ada"}),
            json!({"role": "user", "content": [{"type": "text", "text": "hi"}]}),
            json!({"role": "assistant", "content": null, "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "{}"}}]}),
            json!({"role": "tool", "tool_call_id": "c"}),
        ] {
            let message: ChatMessage = serde_json::from_value(wire.clone()).unwrap();
            assert_eq!(serde_json::to_value(&message).unwrap(), wire);
        }
    }

    #[test]
    fn nulls_are_left_out_and_reasoning_has_all_names() {
        let wire =
            json!({"role": "assistant", "content": null, "tool_calls": null, "reasoning": "r"});
        let message: ChatMessage = serde_json::from_value(wire).unwrap();
        let fields = Value::Object(message.for_template(false));
        assert_eq!(
            fields,
            json!({"role": "assistant", "reasoning": "r", "thinking": "r", "reasoning_content": "r"})
        );
        assert!(message.for_template(true)["content"].is_null());
    }
}
