//! The messages of a chat.

use serde_json::{Map, Value};
use tokenmill::ChatMessage;

use super::{
    fields::{Field, Fields, Problems, Rule, field, only, quoted, shown},
    limits::MAX_MESSAGES,
};

/// Who may speak.
const ROLES: &[&str] = &["system", "developer", "user", "assistant", "tool"];

const MESSAGE: &[Field] = &[
    field("role", Rule::Text),
    field("content", Rule::Shaped),
    field("name", Rule::Text),
    field("tool_calls", Rule::Shaped),
    field("tool_call_id", Rule::Text),
    field("reasoning_content", Rule::Text),
    field("reasoning", Rule::Text),
    only("refusal", &[]),
    only("audio", &[]),
    only("annotations", &["[]"]),
    only("function_call", &[]),
];

const PART: &[Field] = &[field("type", Rule::Text), field("text", Rule::Text)];

/// Takes the field `messages`.
pub fn take_messages(fields: &mut Fields, problems: &mut Problems) -> Vec<ChatMessage> {
    let path = fields.at("messages");
    let Some(items) = fields.array("messages", problems) else { return Vec::new() };
    if items.is_empty() || items.len() > MAX_MESSAGES {
        problems.add(path, format!("must have 1 to {MAX_MESSAGES} messages, not {}", items.len()));
        return Vec::new();
    }
    let mut messages = Vec::with_capacity(items.len());
    for (index, item) in items.into_iter().enumerate() {
        let path = format!("{path}[{index}]");
        match item {
            Value::Object(map) => messages.extend(read_message(path, map, problems)),
            other => problems.wrong_type(path, "an object", &other),
        }
    }
    messages
}

fn read_message(
    path: String,
    map: Map<String, Value>,
    problems: &mut Problems,
) -> Option<ChatMessage> {
    let mut fields = Fields::open(&[MESSAGE], path, map, problems);
    let role = read_role(&mut fields, problems);
    let content = fields
        .value("content")
        .map(|content| read_content(&fields.at("content"), content, problems));
    let mut extra = Map::new();
    for name in ["name", "tool_call_id", "reasoning_content", "reasoning"] {
        if let Some(text) = fields.text(name) {
            extra.insert(name.into(), Value::String(text));
        }
    }
    if let Some(mut calls) = fields.array("tool_calls", problems) {
        read_tool_calls(&fields.at("tool_calls"), &mut calls, problems);
        extra.insert("tool_calls".into(), Value::Array(calls));
    }
    let silent = content.is_none() && !extra.contains_key("tool_calls");
    if silent {
        problems.add(fields.at("content"), "is missing");
    }
    fields.close(problems);
    Some(ChatMessage { role: role?, content: Some(content.unwrap_or(Value::Null)), extra })
}

fn read_role(fields: &mut Fields, problems: &mut Problems) -> Option<String> {
    let path = fields.at("role");
    let Some(role) = fields.text("role") else {
        problems.add(path, "is missing");
        return None;
    };
    if !ROLES.contains(&role.as_str()) {
        problems.add(path, format!("must be one of {}, not {}", ROLES.join(", "), quoted(&role)));
        return None;
    }
    Some(role)
}

/// A string, or text parts, which are joined by line ends: most templates know strings alone.
fn read_content(path: &str, content: Value, problems: &mut Problems) -> Value {
    let parts = match content {
        Value::String(_) => return content,
        Value::Array(parts) => parts,
        other => {
            problems.wrong_type(path, "a string or an array of parts", &other);
            return Value::Null;
        }
    };
    let mut texts = Vec::with_capacity(parts.len());
    for (index, part) in parts.into_iter().enumerate() {
        let path = format!("{path}[{index}]");
        match part {
            Value::String(text) => texts.push(text),
            Value::Object(map) => texts.extend(read_part(path, map, problems)),
            other => problems.wrong_type(path, "an object", &other),
        }
    }
    Value::String(texts.join("\n"))
}

fn read_part(path: String, map: Map<String, Value>, problems: &mut Problems) -> Option<String> {
    match map.get("type") {
        Some(Value::String(kind)) if kind == "text" => {}
        Some(other) => {
            problems.add(
                format!("{path}.type"),
                format!("must be \"text\": this server takes no other parts, not {}", shown(other)),
            );
            return None;
        }
        None => {
            problems.add(format!("{path}.type"), "is missing");
            return None;
        }
    }
    let mut fields = Fields::open(&[PART], path, map, problems);
    fields.text("type");
    let text = fields.text("text");
    if text.is_none() {
        problems.add(fields.at("text"), "is missing");
    }
    fields.close(problems);
    text
}

/// Checks the calls an assistant made and turns each call's arguments, a JSON text on the wire, into the object that
/// templates print.
fn read_tool_calls(path: &str, calls: &mut [Value], problems: &mut Problems) {
    for (index, call) in calls.iter_mut().enumerate() {
        let path = format!("{path}[{index}]");
        let Some(function) = call.get_mut("function").and_then(Value::as_object_mut) else {
            problems.add(format!("{path}.function"), "must be an object with name and arguments");
            continue;
        };
        if !function.get("name").is_some_and(Value::is_string) {
            problems.add(format!("{path}.function.name"), "must be a string");
        }
        let Some(arguments) = function.get_mut("arguments") else { continue };
        let parsed = match &*arguments {
            Value::Object(_) => continue,
            Value::String(text) if text.is_empty() => Some(Value::Object(Map::new())),
            Value::String(text) => serde_json::from_str(text).ok().filter(Value::is_object),
            _ => None,
        };
        match parsed {
            Some(object) => *arguments = object,
            None => problems
                .add(format!("{path}.function.arguments"), "must be the text of a JSON object"),
        }
    }
}
