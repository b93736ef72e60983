//! The events of a streamed answer, read in place: no line is copied, no text is kept.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, SeqAccess, Visitor},
};
use serde_json::Value;

/// Most bytes of one line of a stream.
const MAX_LINE: usize = 16 << 20;

/// Cuts a stream of bytes into lines.
#[derive(Default)]
pub struct Lines {
    /// A line that has begun.
    rest: Vec<u8>,
}

impl Lines {
    /// Hands every line that `bytes` end to `take`, without its end. A line that lies within `bytes` is not copied.
    pub fn push(
        &mut self,
        mut bytes: &[u8],
        mut take: impl FnMut(&[u8]) -> Result<(), String>,
    ) -> Result<(), String> {
        while let Some(length) = bytes.iter().position(|byte| *byte == b'\n') {
            let (line, rest) = (&bytes[..length], &bytes[length + 1..]);
            bytes = rest;
            if self.rest.is_empty() {
                take(line.trim_ascii_end())?;
            } else {
                self.rest.extend_from_slice(line);
                let taken = take(self.rest.trim_ascii_end());
                self.rest.clear();
                taken?;
            }
        }
        self.rest.extend_from_slice(bytes);
        if self.rest.len() > MAX_LINE {
            return Err("a line of the stream is too long".to_owned());
        }
        Ok(())
    }
}

/// What a line of the stream is.
#[derive(Debug)]
pub enum Event {
    /// A comment, an empty line, a field that does not matter here.
    Nothing,
    /// `[DONE]`.
    End,
    /// A piece of the answer, or what is told at its end.
    Piece(Piece),
}

impl Event {
    /// Reads a line.
    pub fn read(line: &[u8]) -> Result<Self, String> {
        let Some(data) = line.strip_prefix(b"data:") else { return Ok(Event::Nothing) };
        let data = data.trim_ascii();
        if data == b"[DONE]" {
            return Ok(Event::End);
        }
        let piece: Piece = serde_json::from_slice(data)
            .map_err(|error| format!("an event that does not read: {error}"))?;
        Ok(Event::Piece(piece))
    }
}

/// What is read of an event. Other servers send more, and that is their business.
#[derive(Debug, Deserialize)]
pub struct Piece {
    /// How the answer has grown.
    #[serde(default)]
    pub choices: Growth,
    /// What the server counted.
    #[serde(default)]
    pub usage: Option<Usage>,
    /// The request failed after it had begun.
    #[serde(default)]
    pub error: Option<Value>,
}

/// What the server counted for the whole request.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Usage {
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// Tokens of the answer.
    pub completion_tokens: usize,
    /// How the prompt's tokens came in.
    #[serde(default)]
    pub prompt_tokens_details: Option<PromptDetails>,
}

/// How the prompt's tokens came in.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct PromptDetails {
    /// Those that a cache had.
    #[serde(default)]
    pub cached_tokens: Option<usize>,
}

/// How an event makes the answer grow.
#[derive(Debug, Default, PartialEq)]
pub struct Growth {
    /// Token ids, where the server sends them.
    pub ids: usize,
    /// There is text: of the answer, of reasoning, of a call.
    pub has_text: bool,
    /// There is neither text nor id, but nothing else either: a token whose text is not whole yet.
    pub is_blank: bool,
    /// Why the answer ended.
    pub finish: Option<String>,
}

impl<'de> Deserialize<'de> for Growth {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Choices;
        impl<'de> Visitor<'de> for Choices {
            type Value = Growth;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a list of choices")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Growth, A::Error> {
                let mut growth = Growth::default();
                while let Some(choice) = list.next_element::<Choice>()? {
                    choice.add_to(&mut growth);
                }
                Ok(growth)
            }
        }
        deserializer.deserialize_seq(Choices)
    }
}

#[derive(Deserialize)]
struct Choice {
    #[serde(default)]
    text: Option<Extent>,
    #[serde(default)]
    delta: Option<Delta>,
    #[serde(default)]
    token_ids: Option<Extent>,
    #[serde(default)]
    finish_reason: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Delta {
    role: Option<Extent>,
    content: Option<Extent>,
    reasoning: Option<Extent>,
    reasoning_content: Option<Extent>,
    tool_calls: Option<Extent>,
}

impl Choice {
    fn add_to(self, growth: &mut Growth) {
        let Delta { role, content, reasoning, reasoning_content, tool_calls } =
            self.delta.unwrap_or_default();
        let texts = [self.text, content, reasoning, reasoning_content, tool_calls];
        let ids = self.token_ids.map_or(0, |ids| ids.0);
        let has_text = texts.iter().flatten().any(|extent| extent.0 > 0);
        growth.ids += ids;
        growth.has_text |= has_text;
        // The event that opens a chat names the role, the one that ends an answer the reason: neither is a token.
        growth.is_blank |= ids == 0 && !has_text && role.is_none() && self.finish_reason.is_none();
        if self.finish_reason.is_some() {
            growth.finish = self.finish_reason;
        }
    }
}

/// The length of a text or a list, all that matters of it.
struct Extent(usize);

impl<'de> Deserialize<'de> for Extent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Length;
        impl<'de> Visitor<'de> for Length {
            type Value = Extent;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a text or a list")
            }

            fn visit_str<E>(self, text: &str) -> Result<Extent, E> {
                Ok(Extent(text.len()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Extent, A::Error> {
                let mut length = 0;
                while list.next_element::<IgnoredAny>()?.is_some() {
                    length += 1;
                }
                Ok(Extent(length))
            }
        }
        deserializer.deserialize_any(Length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_out_whole_however_they_arrive() {
        let stream = "data: a\r\n\ndata: žluť\n".as_bytes();
        for cut in 0..stream.len() {
            let (mut lines, mut seen) = (Lines::default(), Vec::new());
            for part in [&stream[..cut], &stream[cut..]] {
                let take = |line: &[u8]| {
                    seen.push(String::from_utf8(line.to_vec()).unwrap());
                    Ok(())
                };
                lines.push(part, take).unwrap();
            }
            assert_eq!(seen, ["data: a", "", "data: žluť"], "cut at {cut}");
        }
    }

    #[test]
    fn a_line_without_an_end_is_not_collected_for_ever() {
        let mut lines = Lines::default();
        let part = vec![b'x'; MAX_LINE / 2 + 1];
        assert!(lines.push(&part, |_| Ok(())).is_ok());
        assert!(lines.push(&part, |_| Ok(())).is_err());
    }

    fn growth(choice: &str) -> Growth {
        match Event::read(format!(r#"data: {{"choices":[{choice}]}}"#).as_bytes()) {
            Ok(Event::Piece(piece)) => piece.choices,
            other => panic!("{choice}: {other:?}"),
        }
    }

    #[test]
    fn only_what_makes_the_answer_longer_is_growth() {
        let text = Growth { has_text: true, ..Growth::default() };
        for choice in [
            r#"{"text":"a","finish_reason":null}"#,
            r#"{"text":"\u00e9\n","logprobs":null}"#,
            r#"{"delta":{"content":"a"}}"#,
            r#"{"delta":{"reasoning_content":"a","content":null}}"#,
            r#"{"delta":{"tool_calls":[{"index":0}]}}"#,
        ] {
            assert_eq!(growth(choice), text, "{choice}");
        }
        let ids = growth(r#"{"text":"","token_ids":[1,2]}"#);
        assert_eq!((ids.ids, ids.has_text, ids.is_blank), (2, false, false));
        assert!(growth(r#"{"text":""}"#).is_blank);
        assert_eq!(growth(r#"{"delta":{"role":"assistant","content":""}}"#), Growth::default());
        let end = Growth { finish: Some("length".into()), ..Growth::default() };
        assert_eq!(growth(r#"{"text":"","finish_reason":"length"}"#), end);
    }

    #[test]
    fn what_is_no_event_is_passed_over_and_what_does_not_read_is_an_error() {
        for line in ["", ": alive", "event: x", "id: 3"] {
            assert!(matches!(Event::read(line.as_bytes()), Ok(Event::Nothing)), "{line}");
        }
        assert!(matches!(Event::read(b"data: [DONE]"), Ok(Event::End)));
        for line in [
            "data: {",
            r#"data: {"choices":{}}"#,
            r#"data: {"usage":{"prompt_tokens":-1,"completion_tokens":2}}"#,
            r#"data: {"choices":[{"text":7}]}"#,
        ] {
            assert!(Event::read(line.as_bytes()).is_err(), "{line}");
        }
    }
}
