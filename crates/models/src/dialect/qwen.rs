//! Qwen 2.5 and 3, Hermes, and the many that were taught in their form.
//!
//! ```text
//! <think>
//! reasoning
//! </think>
//!
//! content
//! <tool_call>
//! {"name": "tool", "arguments": {"key": "value"}}
//! </tool_call>
//! ```
//!
//! A call counts from the end of its object on, closing mark or not: models forget the mark before they forget the brace.

use super::{
    Calls, Dialect, Ids, InlineCalls, InlineReasoning, Reasoning,
    call::{CallReader, ObjectCall, Step},
    json::is_space,
    sink::Sink,
};

const OPEN: &str = "<tool_call>";
const CLOSE: &str = "</tool_call>";
const THINK: &str = "<think>";
const THINK_END: &str = "</think>";

pub(super) static QWEN: Dialect = Dialect {
    name: "qwen",
    calls: Some(Calls {
        names: &["hermes", "qwen", "qwen2_5", "qwen3"],
        told_by: tells_of_calls,
        marks: &[OPEN, CLOSE],
        ids: Ids::Long,
        inline: Some(InlineCalls {
            openings: &[OPEN],
            bare: None,
            reader: |_| Box::new(Reader { call: ObjectCall::default(), closing: None }),
        }),
    }),
    reasoning: Some(Reasoning {
        names: &["qwen3", "qwen", "deepseek_r1"],
        told_by: |template| template.contains(THINK_END),
        marks: &[THINK, THINK_END],
        inline: Some(InlineReasoning { open: THINK, close: THINK_END }),
    }),
};

/// Other families put other things between the same marks: Qwen3-Coder `<function=...>`, GLM `<arg_key>`.
fn tells_of_calls(template: &str) -> bool {
    template.contains(OPEN) && !template.contains("<function=") && !template.contains("<arg_key>")
}

#[derive(Debug)]
struct Reader {
    call: ObjectCall,
    /// After the call: what is read of the closing mark.
    closing: Option<String>,
}

impl CallReader for Reader {
    fn push(&mut self, c: char, sink: &mut Sink) -> Step {
        let Some(closing) = &mut self.closing else {
            return match self.call.push(c, sink) {
                Step::Done => {
                    self.closing = Some(String::new());
                    Step::Complete
                }
                step => step,
            };
        };
        if closing.is_empty() && is_space(c) {
            return Step::More;
        }
        closing.push(c);
        match CLOSE.strip_prefix(closing.as_str()) {
            Some("") => Step::Done,
            Some(_) => Step::More,
            None => Step::Over,
        }
    }

    fn finish(&mut self, _sink: &mut Sink) -> bool {
        self.closing.is_some()
    }
}
