//! How a model's text says "this is reasoning" and "this is a call of a tool".
//!
//! Knows: the marks that families of models write around reasoning and calls, and how to tell from a chat template which
//! ones a model was taught. Does not know: tokens, HTTP, which tools there are.
//!
//! A [`Dialect`] is one entry of [`DIALECTS`]. [`Selection::new`] picks the parsers for a template, [`DialectParser`] reads
//! an answer as it grows. The parser goes character by character, so that how a stream was cut into pieces cannot matter.
//!
//! Two rules for calls, the same in all dialects:
//!
//! - A call of a tool that nobody offered is passed on as a call. The caller's loop knows its tools and can answer the model
//!   with "no such tool"; as text the user would see markup, and the model would not learn of its mistake.
//! - A call that breaks off or is malformed comes back as the text that the model wrote. Where parts of it have been told
//!   already, [`DialectEvent::ToolCallWithdrawn`] takes them back first.

mod call;
mod event;
mod gemma;
mod harmony;
mod json;
mod llama3;
mod marked;
mod mistral;
mod parser;
mod qwen;
mod selection;
mod sink;
#[cfg(test)]
mod tests;

pub use event::DialectEvent;
pub use parser::{DialectParser, ParserOptions};
pub use selection::{CALL_PARSER, REASONING_PARSER, Selection};

use call::CallReader;

/// Every dialect. The first whose marks a template mentions is the model's, so that the more peculiar ones stand first.
pub static DIALECTS: &[&Dialect] =
    &[&harmony::HARMONY, &gemma::GEMMA, &mistral::MISTRAL, &llama3::LLAMA3, &qwen::QWEN];

/// How one family of models writes.
#[derive(Debug)]
pub struct Dialect {
    /// Its name here.
    pub name: &'static str,
    /// Calls, where the family was taught any.
    pub(crate) calls: Option<Calls>,
    /// Reasoning, where the family was taught any.
    pub(crate) reasoning: Option<Reasoning>,
}

/// How calls are written.
#[derive(Debug)]
pub(crate) struct Calls {
    /// What `--tool-call-parser` calls it; the first is the one that is printed.
    pub names: &'static [&'static str],
    /// Whether a template with this source has its model write calls so.
    pub told_by: fn(&str) -> bool,
    /// All texts of the syntax that may be special tokens.
    pub marks: &'static [&'static str],
    /// What the family's templates demand of a call's id.
    pub ids: Ids,
    /// Calls within a text; `None`: answers are messages with headers, which one dialect reads as a whole.
    pub inline: Option<InlineCalls>,
}

/// Calls that stand within a text.
#[derive(Debug)]
pub(crate) struct InlineCalls {
    /// The texts that begin a call.
    pub openings: &'static [&'static str],
    /// The text that begins a call where nothing stands before it in the answer.
    pub bare: Option<&'static str>,
    /// A reader for what follows that opening.
    pub reader: fn(&str) -> Box<dyn CallReader>,
}

/// What ids look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ids {
    /// `call_` and 24 letters and digits.
    Long,
    /// Nine letters and digits.
    Nine,
}

/// How reasoning is written.
#[derive(Debug)]
pub(crate) struct Reasoning {
    /// What `--reasoning-parser` calls it; the first is the one that is printed.
    pub names: &'static [&'static str],
    /// Whether a template with this source has its model reason so.
    pub told_by: fn(&str) -> bool,
    /// All texts of the syntax that may be special tokens.
    pub marks: &'static [&'static str],
    /// Reasoning before a text; `None`: answers are messages with headers.
    pub inline: Option<InlineReasoning>,
}

/// Reasoning that stands before a text.
#[derive(Debug)]
pub(crate) struct InlineReasoning {
    /// The text that begins it.
    pub open: &'static str,
    /// The text that ends it.
    pub close: &'static str,
}
