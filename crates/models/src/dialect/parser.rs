//! The parser that callers hold.

use super::{
    DialectEvent, Ids, harmony::Messages, marked::Marked, selection::Selection, sink::Sink,
};

/// What is known before an answer begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ParserOptions {
    /// Tools were offered. Otherwise what looks like a call is text.
    pub calls: bool,
    /// The prompt has opened the reasoning: the answer begins within it.
    pub reasoning_open: bool,
    /// What ids are made of; must differ between the answers of a conversation.
    pub id_seed: u64,
}

/// Reads one answer. What it holds back is at most the beginning of a mark, white space before one, and the head of a call
/// until its tool is known.
#[derive(Debug)]
pub struct DialectParser {
    machine: Machine,
    sink: Sink,
}

#[derive(Debug)]
enum Machine {
    Marked(Marked),
    Messages(Messages),
}

impl DialectParser {
    /// A parser for one answer; `None` where nothing is to be told apart: all is content.
    pub fn new(selection: &Selection, options: ParserOptions) -> Option<DialectParser> {
        let calls = selection.calls().filter(|_| options.calls);
        let inline_calls = calls.and_then(|calls| calls.inline.as_ref());
        let inline_reasoning = selection.reasoning().and_then(|half| half.inline.as_ref());
        let machine = match selection.reads_messages() {
            true => Machine::Messages(Messages::new(calls.is_some())),
            false if inline_calls.is_none() && inline_reasoning.is_none() => return None,
            false => {
                let open = options.reasoning_open;
                Machine::Marked(Marked::new(inline_calls, inline_reasoning, open))
            }
        };
        let ids = calls.map_or(Ids::Long, |calls| calls.ids);
        Some(DialectParser { machine, sink: Sink::new(ids, options.id_seed) })
    }

    /// Takes more of the answer; gives what is certain now.
    pub fn push(&mut self, text: &str) -> Vec<DialectEvent> {
        for c in text.chars() {
            match &mut self.machine {
                Machine::Marked(machine) => machine.push(c, &mut self.sink),
                Machine::Messages(machine) => machine.push(c, &mut self.sink),
            }
        }
        self.sink.take()
    }

    /// The answer is over; gives what was held back.
    pub fn finish(&mut self) -> Vec<DialectEvent> {
        match &mut self.machine {
            Machine::Marked(machine) => machine.finish(&mut self.sink),
            Machine::Messages(machine) => machine.finish(&mut self.sink),
        }
        self.sink.take()
    }
}
