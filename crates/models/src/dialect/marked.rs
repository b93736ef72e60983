//! Answers in which marks stand around reasoning and calls.
//!
//! Reasoning is looked for at the beginning alone, calls after it. Line ends that only set parts off from each other are
//! dropped, as the templates of Qwen do when they put the parts together again: around reasoning, after it, before a call
//! and between calls.

use super::{
    InlineCalls, InlineReasoning,
    call::{CallReader, Step},
    sink::Sink,
};

#[derive(Debug)]
pub(super) struct Marked {
    calls: Option<&'static InlineCalls>,
    reasoning: Option<&'static InlineReasoning>,
    mode: Mode,
    /// What may be the beginning of a mark.
    pending: String,
    /// White space that may turn out to only set parts off.
    held: String,
    /// The part that is read has text already.
    begun: bool,
    after: After,
}

#[derive(Debug)]
enum Mode {
    Reasoning,
    Content,
    /// The reader, and what it has read since the last complete call.
    Call(Box<dyn CallReader>, String),
}

/// What stands before the content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum After {
    Nothing,
    Reasoning,
    Text,
    Call,
}

/// A mark that was found.
enum Mark {
    ReasoningOpens,
    ReasoningCloses,
    CallOpens(&'static str),
}

impl Marked {
    pub fn new(
        calls: Option<&'static InlineCalls>,
        reasoning: Option<&'static InlineReasoning>,
        reasoning_open: bool,
    ) -> Self {
        let in_reasoning = reasoning_open && reasoning.is_some();
        Marked {
            calls,
            reasoning,
            mode: if in_reasoning { Mode::Reasoning } else { Mode::Content },
            pending: String::new(),
            held: String::new(),
            begun: false,
            after: After::Nothing,
        }
    }

    pub fn push(&mut self, c: char, sink: &mut Sink) {
        let Mode::Call(reader, raw) = &mut self.mode else {
            self.pending.push(c);
            return self.settle(sink);
        };
        match reader.push(c, sink) {
            Step::More => raw.push(c),
            Step::Complete => raw.clear(),
            Step::Done => self.call_ended(),
            Step::Over => {
                let rest = std::mem::take(raw);
                self.call_ended();
                rest.chars().chain([c]).for_each(|c| self.push(c, sink));
            }
            Step::Broken => {
                let raw = std::mem::take(raw);
                self.call_broke(&raw, sink);
                self.push(c, sink);
            }
        }
    }

    pub fn finish(&mut self, sink: &mut Sink) {
        match &mut self.mode {
            Mode::Call(reader, raw) => {
                if !reader.finish(sink) && !raw.trim().is_empty() {
                    sink.withdraw(raw);
                }
            }
            Mode::Reasoning => self.flush_pending(sink),
            Mode::Content => {
                self.flush_pending(sink);
                if self.after != After::Call {
                    sink.content(self.held_text());
                }
            }
        }
    }

    /// Looks for a mark in what is pending; lets go of what cannot begin one.
    fn settle(&mut self, sink: &mut Sink) {
        while !self.pending.is_empty() {
            if let Some(mark) = self.find(|text, pending| text == pending) {
                self.pending.clear();
                return self.on_mark(mark);
            }
            if self.find(|text, pending| text.starts_with(pending)).is_some() {
                return;
            }
            let first = self.pending.remove(0);
            self.on_text(first, sink);
        }
    }

    /// The first mark that may stand here and passes the test.
    fn find(&self, test: fn(&str, &str) -> bool) -> Option<Mark> {
        let matches = |text: &str| test(text, &self.pending);
        let in_reasoning = matches!(self.mode, Mode::Reasoning);
        if let Some(reasoning) = self.reasoning {
            if in_reasoning && matches(reasoning.close) {
                return Some(Mark::ReasoningCloses);
            }
            // Where the prompt has opened it, some models open it once more.
            if !self.begun && self.after == After::Nothing && matches(reasoning.open) {
                return Some(Mark::ReasoningOpens);
            }
        }
        let calls = self.calls.filter(|_| !in_reasoning)?;
        let nothing_before = !self.begun && self.after != After::Call;
        let bare = calls.bare.filter(|_| nothing_before);
        let mut openings = calls.openings.iter().copied().chain(bare);
        openings.find(|text| matches(text)).map(Mark::CallOpens)
    }

    fn on_mark(&mut self, mark: Mark) {
        match mark {
            Mark::ReasoningOpens => {
                self.held.clear();
                self.mode = Mode::Reasoning;
            }
            Mark::ReasoningCloses => {
                self.held.clear();
                self.mode = Mode::Content;
                (self.begun, self.after) = (false, After::Reasoning);
            }
            Mark::CallOpens(opening) => {
                let Some(calls) = self.calls else { return };
                let raw = std::mem::take(&mut self.held) + opening;
                self.mode = Mode::Call((calls.reader)(opening), raw);
            }
        }
    }

    fn on_text(&mut self, c: char, sink: &mut Sink) {
        if self.holds(c) {
            self.held.push(c);
            return;
        }
        if matches!(self.mode, Mode::Reasoning) {
            if self.begun {
                sink.reasoning(&self.held);
            }
            sink.reasoning(c.encode_utf8(&mut [0; 4]));
        } else {
            sink.content(self.held_text());
            sink.content(c.encode_utf8(&mut [0; 4]));
            self.after = After::Text;
        }
        self.held.clear();
        self.begun = true;
    }

    /// What is held back, as content: the line ends that set it off from the reasoning are no part of it.
    fn held_text(&self) -> &str {
        let first = !self.begun && self.after == After::Reasoning;
        if first { self.held.trim_start_matches('\n') } else { &self.held }
    }

    /// Whether `c` is white space that a mark may follow.
    fn holds(&self, c: char) -> bool {
        if matches!(self.mode, Mode::Reasoning) {
            return c == '\n';
        }
        let mark_may_follow = self.calls.is_some() || !self.begun;
        let sets_off = c == '\n'
            || (c.is_whitespace()
                && (!self.held.is_empty() || !self.begun || self.after == After::Call));
        mark_may_follow && sets_off
    }

    fn call_ended(&mut self) {
        self.mode = Mode::Content;
        (self.begun, self.after) = (true, After::Call);
    }

    fn call_broke(&mut self, raw: &str, sink: &mut Sink) {
        sink.withdraw(raw);
        self.mode = Mode::Content;
        (self.begun, self.after) = (true, After::Text);
    }

    fn flush_pending(&mut self, sink: &mut Sink) {
        for c in std::mem::take(&mut self.pending).chars() {
            self.on_text(c, sink);
        }
    }
}
