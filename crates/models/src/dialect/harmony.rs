//! Harmony, the form of gpt-oss: an answer is a sequence of messages, each with a header.
//!
//! ```text
//! <|channel|>analysis<|message|>reasoning<|end|>
//! <|start|>assistant<|channel|>commentary to=functions.tool <|constrain|>json<|message|>{"key": "value"}<|call|>
//! <|start|>assistant<|channel|>final<|message|>content<|return|>
//! ```
//!
//! (Line ends are for the reader of this page.) The recipient may stand before the channel; the prompt may end after
//! `<|start|>assistant`; `<|call|>` and `<|return|>` are stop tokens and leave no text. What is said in `commentary` to nobody
//! is meant for the user.

use super::{
    Calls, Dialect, Ids, Reasoning,
    json::{Json, Scan, is_space},
    sink::Sink,
};

const START: &str = "<|start|>";
const CHANNEL: &str = "<|channel|>";
const CONSTRAIN: &str = "<|constrain|>";
const MESSAGE: &str = "<|message|>";
const END: &str = "<|end|>";
const CALL: &str = "<|call|>";
const RETURN: &str = "<|return|>";
const MARKS: &[&str] = &[START, CHANNEL, CONSTRAIN, MESSAGE, END, CALL, RETURN];
const RECIPIENT: &str = "to=";
/// What a recipient begins with who is a tool of the caller.
const FUNCTIONS: &str = "functions.";

pub(super) static HARMONY: Dialect = Dialect {
    name: "harmony",
    calls: Some(Calls {
        names: &["harmony", "openai", "gpt_oss"],
        told_by: is_harmony,
        marks: MARKS,
        ids: Ids::Long,
        inline: None,
    }),
    reasoning: Some(Reasoning {
        names: &["harmony", "openai_gptoss", "gpt_oss"],
        told_by: is_harmony,
        marks: MARKS,
        inline: None,
    }),
};

fn is_harmony(template: &str) -> bool {
    template.contains(CHANNEL) && template.contains(MESSAGE)
}

/// Reads a sequence of messages.
#[derive(Debug)]
pub(super) struct Messages {
    /// Tools were offered; otherwise a call is content.
    calls: bool,
    /// What may be the beginning of a mark.
    pending: String,
    /// The header, its marks included; of the message that is read, or that is beginning.
    header: String,
    body: Body,
    /// There was reasoning before.
    reasoned: bool,
}

/// What the text of a message is.
#[derive(Debug)]
enum Body {
    /// It has not begun: the header is being read.
    None,
    Reasoning,
    Content,
    Call(Arguments),
}

/// The arguments of a call, as far as they came.
#[derive(Debug)]
struct Arguments {
    name: String,
    stage: Stage,
    json: Json,
    /// What was read since the header or, after the arguments, since their end.
    text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Before,
    Within,
    After,
}

impl Messages {
    pub fn new(calls: bool) -> Self {
        Messages {
            calls,
            pending: String::new(),
            header: String::new(),
            body: Body::None,
            reasoned: false,
        }
    }

    pub fn push(&mut self, c: char, sink: &mut Sink) {
        self.pending.push(c);
        while !self.pending.is_empty() {
            if let Some(mark) = MARKS.iter().find(|mark| **mark == self.pending) {
                self.pending.clear();
                return self.on_mark(mark, sink);
            }
            if MARKS.iter().any(|mark| mark.starts_with(&self.pending)) {
                return;
            }
            let first = self.pending.remove(0);
            self.on_text(first, sink);
        }
    }

    pub fn finish(&mut self, sink: &mut Sink) {
        for c in std::mem::take(&mut self.pending).chars() {
            self.on_text(c, sink);
        }
        // A header that breaks off says nothing, unless it is that of a call.
        if matches!(self.body, Body::None) && self.calls && self.header.contains(RECIPIENT) {
            sink.content(&self.header);
        }
        self.end_message(sink);
    }

    fn on_mark(&mut self, mark: &str, sink: &mut Sink) {
        match mark {
            MESSAGE => {
                if matches!(self.body, Body::None) {
                    self.header.push_str(mark);
                    self.begin_body(sink);
                }
            }
            START | CHANNEL | CONSTRAIN => {
                if !matches!(self.body, Body::None) {
                    self.end_message(sink);
                }
                self.header.push_str(mark);
            }
            _ => self.end_message(sink),
        }
    }

    fn on_text(&mut self, c: char, sink: &mut Sink) {
        let mut bytes = [0; 4];
        let text: &str = c.encode_utf8(&mut bytes);
        match &mut self.body {
            Body::Reasoning => sink.reasoning(text),
            Body::Content => sink.content(text),
            Body::Call(call) => {
                if !call.push(c, sink) {
                    self.call_broke(sink);
                    sink.content(text);
                }
            }
            Body::None => {
                self.header.push(c);
                if is_headless(&self.header) {
                    sink.content(&self.header);
                    self.body = Body::Content;
                }
            }
        }
    }

    fn begin_body(&mut self, sink: &mut Sink) {
        let word = |after: &str| {
            let (_, rest) = self.header.split_once(after)?;
            rest.split(|c: char| c.is_whitespace() || c == '<').next().filter(|w| !w.is_empty())
        };
        let recipient = word(RECIPIENT).map(|name| name.strip_prefix(FUNCTIONS).unwrap_or(name));
        self.body = match (word(CHANNEL), recipient) {
            (_, Some(name)) if self.calls => Body::Call(Arguments::new(name)),
            (Some("analysis"), _) => Body::Reasoning,
            _ => Body::Content,
        };
        if matches!(self.body, Body::Reasoning) {
            if self.reasoned {
                sink.reasoning("\n");
            }
            self.reasoned = true;
        }
    }

    fn end_message(&mut self, sink: &mut Sink) {
        if let Body::Call(call) = &mut self.body
            && !call.end(sink)
        {
            self.call_broke(sink);
        }
        self.body = Body::None;
        self.header.clear();
    }

    /// What was read as a call is content, and so is the rest of the message.
    fn call_broke(&mut self, sink: &mut Sink) {
        if let Body::Call(call) = &self.body {
            match call.stage {
                Stage::After => sink.content(&call.text),
                _ => sink.withdraw(&format!("{}{}", self.header, call.text)),
            }
        }
        self.body = Body::Content;
    }
}

impl Arguments {
    fn new(name: &str) -> Self {
        Arguments {
            name: name.to_owned(),
            stage: Stage::Before,
            json: Json::default(),
            text: String::new(),
        }
    }

    /// Takes the next character; whether it may be part of the call.
    fn push(&mut self, c: char, sink: &mut Sink) -> bool {
        match self.stage {
            Stage::Before if c == '{' => {
                self.stage = Stage::Within;
                sink.start(&self.name);
            }
            Stage::Before | Stage::After if is_space(c) => {
                self.text.push(c);
                return true;
            }
            Stage::Before | Stage::After => return false,
            Stage::Within => {}
        }
        let scan = self.json.push(c);
        if scan == Scan::Invalid {
            return false;
        }
        self.text.push(c);
        sink.arguments(c.encode_utf8(&mut [0; 4]));
        if scan != Scan::More {
            sink.end();
            self.stage = Stage::After;
            self.text.clear();
        }
        true
    }

    /// The message is over; whether the call is complete. A tool without parameters may be called with no text at all.
    fn end(&mut self, sink: &mut Sink) -> bool {
        if self.stage == Stage::Before {
            sink.call(&self.name, "{}");
            self.stage = Stage::After;
        }
        self.stage == Stage::After
    }
}

/// Whether what should be a header is text that forgot one: before the first mark only a recipient may stand.
fn is_headless(header: &str) -> bool {
    let text = header.trim_start();
    let recipient = text.starts_with(RECIPIENT) || RECIPIENT.starts_with(text);
    !header.contains("<|") && !recipient
}
