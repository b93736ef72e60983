//! Mistral.
//!
//! ```text
//! [TOOL_CALLS][{"name": "tool", "arguments": {"key": "value"}}, {"name": "tool", "arguments": {}}]
//! [TOOL_CALLS]tool[ARGS]{"key": "value"}[TOOL_CALLS]tool[ARGS]{}
//! [TOOL_CALLS]tool[CALL_ID]123456789[ARGS]{"key": "value"}
//! ```
//!
//! Older models write the first form, newer ones the second or third; some leave `[ARGS]` out. Reasoning stands between
//! `[THINK]` and `[/THINK]`. The templates demand ids of nine letters and digits.

use super::{
    Calls, Dialect, Ids, InlineCalls, InlineReasoning, Reasoning,
    call::{CallReader, ObjectCall, Step},
    json::{Json, Scan, is_space},
    sink::Sink,
};

const OPEN: &str = "[TOOL_CALLS]";
const ARGS: &str = "[ARGS]";
const CALL_ID: &str = "[CALL_ID]";
const THINK: &str = "[THINK]";
const THINK_END: &str = "[/THINK]";

pub(super) static MISTRAL: Dialect = Dialect {
    name: "mistral",
    calls: Some(Calls {
        names: &["mistral"],
        told_by: |template| template.contains(OPEN),
        marks: &[OPEN, ARGS, CALL_ID],
        ids: Ids::Nine,
        inline: Some(InlineCalls {
            openings: &[OPEN],
            bare: None,
            reader: |_| Box::new(Reader::default()),
        }),
    }),
    reasoning: Some(Reasoning {
        names: &["mistral"],
        told_by: |template| template.contains(THINK_END),
        marks: &[THINK, THINK_END],
        inline: Some(InlineReasoning { open: THINK, close: THINK_END }),
    }),
};

#[derive(Debug, Default)]
struct Reader {
    at: At,
    /// The name and the marks after it.
    head: String,
    call: ObjectCall,
    arguments: Json,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum At {
    #[default]
    Start,
    /// The name of the newer forms, as far as the arguments.
    Head,
    Arguments,
    /// An object of the list, or one without a list.
    Object {
        listed: bool,
    },
    /// After an object of the list.
    Comma,
    /// After a call of the newer forms, or one without a list.
    End,
}

impl CallReader for Reader {
    fn push(&mut self, c: char, sink: &mut Sink) -> Step {
        match self.at {
            At::Start if is_space(c) => Step::More,
            At::Start if c == '[' => self.go_on(At::Object { listed: true }),
            At::Start if c == '{' => {
                self.at = At::Object { listed: false };
                self.call.push(c, sink)
            }
            At::Start | At::Head => self.in_head(c, sink),
            At::Arguments => self.in_arguments(c, sink),
            At::Object { listed } => match self.call.push(c, sink) {
                Step::Done => {
                    self.call = ObjectCall::default();
                    self.at = if listed { At::Comma } else { At::End };
                    Step::Complete
                }
                step => step,
            },
            At::Comma if is_space(c) => Step::More,
            At::Comma if c == ',' => self.go_on(At::Object { listed: true }),
            At::Comma if c == ']' => Step::Done,
            At::Comma | At::End => Step::Over,
        }
    }

    fn finish(&mut self, _sink: &mut Sink) -> bool {
        matches!(self.at, At::Comma | At::End)
    }
}

impl Reader {
    fn go_on(&mut self, at: At) -> Step {
        self.at = at;
        Step::More
    }

    fn in_head(&mut self, c: char, sink: &mut Sink) -> Step {
        self.at = At::Head;
        if c == '{' {
            let Some(name) = name_in(&self.head) else { return Step::Broken };
            sink.start(name);
            self.at = At::Arguments;
            return self.in_arguments(c, sink);
        }
        self.head.push(c);
        if may_be_head(&self.head) { Step::More } else { Step::Broken }
    }

    fn in_arguments(&mut self, c: char, sink: &mut Sink) -> Step {
        let scan = self.arguments.push(c);
        if scan == Scan::Invalid {
            return Step::Broken;
        }
        sink.arguments(c.encode_utf8(&mut [0; 4]));
        if scan == Scan::More {
            return Step::More;
        }
        sink.end();
        self.at = At::End;
        Step::Complete
    }
}

/// The name in a complete head.
fn name_in(head: &str) -> Option<&str> {
    let head = head.trim_end();
    let head = head.strip_suffix(ARGS).unwrap_or(head);
    let name = head.split_once(CALL_ID).map_or(head, |(name, _)| name).trim_end();
    (!name.is_empty() && !name.contains('[')).then_some(name)
}

/// Whether a head may go on from here: a name, perhaps an id, perhaps the mark of the arguments, perhaps white space.
fn may_be_head(head: &str) -> bool {
    let (name, marks) = head.split_at(head.find(|c| !is_name(c)).unwrap_or(head.len()));
    if name.is_empty() {
        return false;
    }
    let after_id = marks.strip_prefix(CALL_ID).map(|rest| rest.trim_start_matches(is_name));
    let rest = after_id.unwrap_or(marks);
    let blank = |text: &str| text.chars().all(is_space);
    let begins_id = after_id.is_none() && CALL_ID.starts_with(rest);
    begins_id || ARGS.starts_with(rest) || rest.strip_prefix(ARGS).is_some_and(blank) || blank(rest)
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ':' | '/')
}
