//! A conversation on disk.

use std::{
    fs::OpenOptions,
    io::{self, Write},
    path::Path,
};

use serde_json::{Value, json};
use tokenmill::{ChatMessage, ModelId};

/// A conversation in both forms in which it can be kept.
pub struct Transcript {
    json: String,
    markdown: String,
}

/// The conversation with `model`.
pub fn of(model: &ModelId, system: Option<&str>, history: &[ChatMessage]) -> Transcript {
    let system = system.map(ChatMessage::system);
    let messages: Vec<&ChatMessage> = system.iter().chain(history).collect();
    let paragraphs = messages.iter().map(|message| {
        let text = match &message.content {
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
            None => String::new(),
        };
        format!("**{}**\n\n{text}\n", message.role)
    });
    let markdown = format!("# {model}\n\n{}", paragraphs.collect::<Vec<_>>().join("\n"));
    let document = json!({ "model": model, "messages": messages });
    Transcript { json: format!("{document:#}\n"), markdown }
}

/// Writes it, as JSON where the file's name ends in `.json`. A file that is there already is overwritten only
/// `again`.
pub fn write(path: &Path, transcript: &Transcript, again: bool) -> io::Result<()> {
    let json = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json"));
    let text = if json { &transcript.json } else { &transcript.markdown };
    let mut options = OpenOptions::new();
    options.write(true).truncate(again).create(again).create_new(!again);
    options.open(path)?.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_decides_the_form_and_nothing_is_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let history = [ChatMessage::user("hi"), ChatMessage::assistant("ho")];
        let transcript = of(&ModelId::from("m"), Some("be brief"), &history);
        let json = dir.path().join("a.json");
        write(&json, &transcript, false).unwrap();
        let value: Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
        assert_eq!(value["messages"][2]["content"], "ho");
        let error = write(&json, &transcript, false).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        write(&json, &transcript, true).unwrap();
        let markdown = dir.path().join("a.md");
        write(&markdown, &transcript, false).unwrap();
        let text = std::fs::read_to_string(markdown).unwrap();
        assert_eq!(
            text,
            "# m\n\n**system**\n\nbe brief\n\n**user**\n\nhi\n\n**assistant**\n\nho\n"
        );
    }
}
