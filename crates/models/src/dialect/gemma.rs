//! FunctionGemma and Gemma 4, which share a notation of their own and differ in its marks.
//!
//! ```text
//! <start_function_call>call:tool{key:<escape>value<escape>,list:[1,true]}<end_function_call>
//! <|tool_call>call:tool{key:<|"|>value<|"|>,list:[1,true]}<tool_call|>
//! ```
//!
//! Keys stand bare, or between quotes; strings between quotes, which are one token, so that nothing within needs an escape.
//! The notation is no JSON: arguments are translated, and told when the call is complete. Gemma 4 reasons between
//! `<|channel>thought` and `<channel|>`. Gemma 3 as such was taught no form of calls, and its template tells of none.

use super::{
    Calls, Dialect, Ids, InlineCalls, InlineReasoning, Reasoning,
    call::{CallReader, Step},
    json::is_space,
    sink::Sink,
};

/// The marks of one generation.
#[derive(Debug)]
struct Marks {
    open: &'static str,
    close: &'static str,
    quote: &'static str,
}

const FUNCTION_GEMMA: Marks =
    Marks { open: "<start_function_call>", close: "<end_function_call>", quote: "<escape>" };
const GEMMA4: Marks = Marks { open: "<|tool_call>", close: "<tool_call|>", quote: "<|\"|>" };

const CHANNEL: &str = "<|channel>";
const CHANNEL_END: &str = "<channel|>";

/// Objects and lists may be nested so deep.
const MAX_DEPTH: usize = 128;

pub(super) static GEMMA: Dialect = Dialect {
    name: "gemma",
    calls: Some(Calls {
        names: &["gemma", "functiongemma", "gemma4"],
        told_by: |template| {
            [FUNCTION_GEMMA, GEMMA4].iter().any(|marks| template.contains(marks.open))
        },
        marks: &[
            FUNCTION_GEMMA.open,
            FUNCTION_GEMMA.close,
            FUNCTION_GEMMA.quote,
            GEMMA4.open,
            GEMMA4.close,
            GEMMA4.quote,
        ],
        ids: Ids::Long,
        inline: Some(InlineCalls {
            openings: &[FUNCTION_GEMMA.open, GEMMA4.open],
            bare: None,
            reader: |opening| {
                let marks = if opening == GEMMA4.open { GEMMA4 } else { FUNCTION_GEMMA };
                Box::new(Reader { marks, text: String::new(), quoted: false })
            },
        }),
    }),
    reasoning: Some(Reasoning {
        names: &["gemma", "gemma4"],
        told_by: |template| template.contains(CHANNEL),
        marks: &[CHANNEL, CHANNEL_END],
        inline: Some(InlineReasoning { open: "<|channel>thought\n", close: CHANNEL_END }),
    }),
};

#[derive(Debug)]
struct Reader {
    marks: Marks,
    /// What was read after the opening.
    text: String,
    /// Within a string.
    quoted: bool,
}

impl CallReader for Reader {
    fn push(&mut self, c: char, sink: &mut Sink) -> Step {
        self.text.push(c);
        if self.text.ends_with(self.marks.quote) {
            self.quoted = !self.quoted;
        }
        if !self.quoted && self.text.ends_with(self.marks.close) {
            let body = &self.text[..self.text.len() - self.marks.close.len()];
            return if self.tell(body, sink) { Step::Done } else { Step::Broken };
        }
        if may_be_call(&self.text) { Step::More } else { Step::Broken }
    }

    /// The closing mark may be a stop token that left no text.
    fn finish(&mut self, sink: &mut Sink) -> bool {
        !self.quoted && self.tell(&self.text, sink)
    }
}

impl Reader {
    fn tell(&self, body: &str, sink: &mut Sink) -> bool {
        let Some((name, arguments)) = read_call(body, self.marks.quote) else { return false };
        sink.call(name, &arguments);
        true
    }
}

const PREFIX: &str = "call:";

/// Whether a call may go on from here; what stands between the braces is judged at the end.
fn may_be_call(text: &str) -> bool {
    match text.strip_prefix(PREFIX) {
        Some(rest) => rest.split_once('{').map_or(rest, |(name, _)| name).chars().all(is_name),
        None => PREFIX.starts_with(text),
    }
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '.')
}

/// Name and arguments, the latter as JSON.
fn read_call<'t>(text: &'t str, quote: &str) -> Option<(&'t str, String)> {
    let (name, _) = text.strip_prefix(PREFIX)?.split_once('{')?;
    let mut notation = Notation { rest: &text[PREFIX.len() + name.len()..], quote, depth: 0 };
    let mut json = String::new();
    notation.value(&mut json)?;
    let complete = notation.rest.trim().is_empty() && !name.is_empty();
    complete.then_some((name, json))
}

/// Translates the notation to JSON.
struct Notation<'t> {
    rest: &'t str,
    quote: &'t str,
    depth: usize,
}

impl Notation<'_> {
    fn value(&mut self, json: &mut String) -> Option<()> {
        self.skip_space();
        if self.take('{') {
            return self.members(json, ('{', '}'), |notation, json| {
                notation.key(json)?;
                json.push(':');
                notation.value(json)
            });
        }
        if self.take('[') {
            return self.members(json, ('[', ']'), Self::value);
        }
        let text = match self.quoted()? {
            Some(text) => quote_json(text),
            None => bare(self.until(&[',', '}', ']'])?),
        };
        json.push_str(&text);
        Some(())
    }

    /// Members, divided by commas, as far as the closing bracket.
    fn members(
        &mut self,
        json: &mut String,
        (open, close): (char, char),
        member: fn(&mut Self, &mut String) -> Option<()>,
    ) -> Option<()> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return None;
        }
        json.push(open);
        self.skip_space();
        if !self.take(close) {
            loop {
                member(self, json)?;
                self.skip_space();
                if self.take(close) {
                    break;
                }
                if !self.take(',') {
                    return None;
                }
                json.push(',');
                self.skip_space();
            }
        }
        json.push(close);
        self.depth -= 1;
        Some(())
    }

    fn key(&mut self, json: &mut String) -> Option<()> {
        let key = match self.quoted()? {
            Some(key) => key,
            None => self.until(&[':', ',', '{', '}', '[', ']'])?.trim(),
        };
        if key.is_empty() {
            return None;
        }
        json.push_str(&quote_json(key));
        self.skip_space();
        self.take(':').then_some(())
    }

    /// A string between quotes, if one begins here; `None`: it does not end.
    #[allow(clippy::option_option, reason = "three outcomes: no string, a string, a broken one")]
    fn quoted(&mut self) -> Option<Option<&str>> {
        let Some(rest) = self.rest.strip_prefix(self.quote) else { return Some(None) };
        let (text, rest) = rest.split_once(self.quote)?;
        self.rest = rest;
        Some(Some(text))
    }

    /// The text before the first of `ends`, which must come.
    fn until(&mut self, ends: &[char]) -> Option<&str> {
        let (text, rest) = self.rest.split_at(self.rest.find(ends)?);
        self.rest = rest;
        Some(text)
    }

    fn take(&mut self, c: char) -> bool {
        let rest = self.rest.strip_prefix(c);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn skip_space(&mut self) {
        self.rest = self.rest.trim_start_matches(is_space);
    }
}

/// A number or a word of JSON; what else stands bare is a string whose quotes were forgotten.
fn bare(text: &str) -> String {
    let text = text.trim();
    match serde_json::from_str::<serde_json::Value>(text) {
        Ok(_) => text.to_owned(),
        Err(_) => quote_json(text),
    }
}

fn quote_json(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
