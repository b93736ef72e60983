//! Reading calls: what all readers have in common, and the call that is a JSON object.

use std::fmt;

use super::{
    json::{Json, Scan, is_space},
    sink::Sink,
};

/// Reads what follows the opening of a call, in one dialect.
pub(crate) trait CallReader: fmt::Debug + Send {
    /// Takes the next character. Calls go to `sink` as they become certain.
    fn push(&mut self, c: char, sink: &mut Sink) -> Step;

    /// The answer is over. Whether everything since the last complete call (or the opening) is accounted for; else it
    /// is text.
    fn finish(&mut self, sink: &mut Sink) -> bool;
}

/// What a further character does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Reading goes on.
    More,
    /// Reading goes on, and everything up to here is accounted for.
    Complete,
    /// All calls are read, this character included.
    Done,
    /// All calls are read. What came since the last complete one, and this character, is to be read anew.
    Over,
    /// This character cannot be part of a call: what came before it since the last complete call is text, and it may be
    /// the beginning of something else.
    Broken,
}

/// A call written as a JSON object, `{"name": ..., "arguments": {...}}`, keys in any order, `parameters` as another name of
/// `arguments`. Arguments are told as they come where the name comes before them.
#[derive(Debug, Default)]
pub(super) struct ObjectCall {
    at: At,
    /// The key or value that is being read.
    text: String,
    key: Option<Key>,
    value: Json,
    name: Option<String>,
    arguments: Arguments,
    /// A call without arguments is none: for dialects without marks, in which `{"name": "Ada"}` is an answer.
    needs_arguments: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum At {
    #[default]
    Open,
    FirstKey,
    NextKey,
    Key,
    Colon,
    ValueStart,
    Value,
    AfterValue,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Key {
    Name,
    Arguments,
    /// `type`, always `function`, and `id`, in whose place another is made: templates disagree on its form.
    Other,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum Arguments {
    #[default]
    Missing,
    /// Told as they come.
    Streamed,
    /// Read before the name.
    Kept(String),
}

impl ObjectCall {
    /// A call that must have arguments.
    pub fn with_arguments() -> Self {
        ObjectCall { needs_arguments: true, ..ObjectCall::default() }
    }

    /// Passes over the opening brace, which was read already.
    pub fn open(&mut self) {
        self.at = At::FirstKey;
    }

    /// Takes the next character, from the opening brace on. [`Step::Done`]: the call is complete and told.
    pub fn push(&mut self, c: char, sink: &mut Sink) -> Step {
        match self.at {
            At::Key => self.in_key(c),
            At::Value => self.in_value(c, sink),
            _ if is_space(c) => Step::More,
            At::Open if c == '{' => self.go_on(At::FirstKey),
            At::FirstKey | At::NextKey if c == '"' => {
                self.begin(At::Key, c);
                Step::More
            }
            At::Colon if c == ':' => self.go_on(At::ValueStart),
            At::ValueStart => self.begin_value(c, sink),
            At::AfterValue if c == ',' => self.go_on(At::NextKey),
            At::AfterValue if c == '}' => self.close(sink),
            _ => Step::Broken,
        }
    }

    fn go_on(&mut self, at: At) -> Step {
        self.at = at;
        Step::More
    }

    fn begin(&mut self, at: At, c: char) -> Scan {
        self.at = at;
        self.text = c.to_string();
        self.value = Json::default();
        self.value.push(c)
    }

    fn in_key(&mut self, c: char) -> Step {
        self.text.push(c);
        match self.value.push(c) {
            Scan::More => Step::More,
            Scan::Done => match self.read_key() {
                Some(key) => {
                    self.key = Some(key);
                    self.go_on(At::Colon)
                }
                None => Step::Broken,
            },
            Scan::DoneBefore | Scan::Invalid => Step::Broken,
        }
    }

    /// `None`: the key is unknown, or was there before.
    fn read_key(&self) -> Option<Key> {
        match serde_json::from_str::<String>(&self.text).ok()?.as_str() {
            "name" => self.name.is_none().then_some(Key::Name),
            "arguments" | "parameters" => {
                (self.arguments == Arguments::Missing).then_some(Key::Arguments)
            }
            "type" | "id" => Some(Key::Other),
            _ => None,
        }
    }

    fn begin_value(&mut self, c: char, sink: &mut Sink) -> Step {
        if self.begin(At::Value, c) == Scan::Invalid {
            return Step::Broken;
        }
        if let (Some(Key::Arguments), '{', Some(name)) = (self.key, c, &self.name) {
            self.arguments = Arguments::Streamed;
            sink.start(name);
            sink.arguments("{");
        }
        Step::More
    }

    fn in_value(&mut self, c: char, sink: &mut Sink) -> Step {
        let scan = self.value.push(c);
        if !matches!(scan, Scan::More | Scan::Done) {
            return match scan {
                Scan::DoneBefore if self.take_value() => self.push(c, sink),
                _ => Step::Broken,
            };
        }
        if self.streams() {
            sink.arguments(c.encode_utf8(&mut [0; 4]));
        } else {
            self.text.push(c);
        }
        match scan {
            Scan::Done if !self.take_value() => Step::Broken,
            _ => Step::More,
        }
    }

    fn streams(&self) -> bool {
        self.key == Some(Key::Arguments) && self.arguments == Arguments::Streamed
    }

    /// Keeps the value that has ended; whether it may be one.
    fn take_value(&mut self) -> bool {
        self.at = At::AfterValue;
        if self.streams() {
            return true;
        }
        match self.key {
            Some(Key::Name) => {
                self.name = serde_json::from_str(&self.text).ok();
                self.name.as_ref().is_some_and(|name| !name.is_empty())
            }
            Some(Key::Arguments) => match arguments_of(&self.text) {
                Some(text) => {
                    self.arguments = Arguments::Kept(text);
                    true
                }
                None => false,
            },
            Some(Key::Other) | None => true,
        }
    }

    fn close(&mut self, sink: &mut Sink) -> Step {
        let Some(name) = &self.name else { return Step::Broken };
        match &self.arguments {
            Arguments::Streamed => sink.end(),
            Arguments::Kept(text) => sink.call(name, text),
            Arguments::Missing if self.needs_arguments => return Step::Broken,
            Arguments::Missing => sink.call(name, "{}"),
        }
        Step::Done
    }
}

/// The arguments that a value stands for: an object, the text of one in a string, or `null` for none.
fn arguments_of(value: &str) -> Option<String> {
    let value = value.trim();
    if value == "null" {
        return Some("{}".to_owned());
    }
    let text =
        if value.starts_with('"') { serde_json::from_str(value).ok()? } else { value.to_owned() };
    let is_object = serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(&text);
    is_object.is_ok().then_some(text)
}
