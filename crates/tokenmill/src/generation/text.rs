//! From a choice's tokens to its text, and from the text to what it says.

use std::sync::Arc;

use foundation::TokenId;
use models::{
    dialect::{DialectEvent, DialectParser, ParserOptions, Selection},
    prompt::{DecodeStream, Tokenizer},
};
use runtime::stop::{StopStrings, Streamed};

use super::event::ToolCallDelta;
use crate::seed;

/// What becomes of a choice's text.
#[derive(Clone, Debug)]
pub(crate) struct TextRules {
    /// Strings that end the text.
    pub stop: Arc<[String]>,
    /// Leave what stopped the text in it.
    pub include_stop: bool,
    /// Leave control tokens out.
    pub skip_special: bool,
    /// A stop string counts only where it ends behind so many tokens.
    pub min_tokens: usize,
    /// How reasoning and calls are told from content; absent: all is content.
    pub dialect: Option<DialectRules>,
}

/// How the answer to a chat is read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DialectRules {
    /// The model's parsers.
    pub selection: Selection,
    /// Tools were offered.
    pub calls: bool,
    /// The answer ends with its first call.
    pub one_call: bool,
    /// The prompt leaves off within the reasoning.
    pub reasoning_open: bool,
}

impl DialectRules {
    fn parser(&self) -> Option<DialectParser> {
        let options = ParserOptions {
            calls: self.calls,
            reasoning_open: self.reasoning_open,
            id_seed: seed::random(),
        };
        DialectParser::new(&self.selection, options)
    }

    /// The special tokens that are marks for the parser.
    fn marks(&self, tokenizer: &Tokenizer) -> Vec<TokenId> {
        let ids = self.selection.marks(self.calls).filter_map(|mark| tokenizer.token_id(mark));
        ids.filter(|id| tokenizer.is_special(*id)).collect()
    }
}

/// What a token gave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Piece {
    /// Text that is certain to belong to the output.
    pub text: String,
    /// The same of the reasoning.
    pub reasoning: String,
    /// What is new of calls.
    pub calls: Vec<ToolCallDelta>,
    /// What ends the text here; nothing comes after it.
    pub end: Option<TextEnd>,
}

impl Piece {
    fn take(&mut self, event: DialectEvent) {
        let call = match event {
            DialectEvent::Reasoning(text) => return self.reasoning.push_str(&text),
            DialectEvent::Content(text) => return self.text.push_str(&text),
            DialectEvent::ToolCallStart { index, id, name } => {
                ToolCallDelta::Start { index, id, name }
            }
            DialectEvent::ToolCallArguments { index, delta } => {
                ToolCallDelta::Arguments { index, text: delta }
            }
            DialectEvent::ToolCallEnd { index } => ToolCallDelta::End { index },
            DialectEvent::ToolCallWithdrawn { index } => ToolCallDelta::Withdrawn { index },
        };
        self.calls.push(call);
    }
}

/// What ends a text before the model does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TextEnd {
    /// A stop string, as an index into the list.
    StopString(usize),
    /// The only call that the request allows.
    FirstCall,
}

/// Decodes a choice's tokens, watches for stop strings, and tells reasoning and calls from content.
pub(super) struct TextStream {
    decoder: DecodeStream,
    matcher: StopStrings,
    parser: Option<DialectParser>,
    rules: TextRules,
    tokens: usize,
    /// Calls that are complete.
    calls: usize,
}

impl TextStream {
    pub fn new(tokenizer: &Tokenizer, rules: &TextRules) -> Self {
        let dialect = rules.dialect.as_ref();
        let parser = dialect.and_then(DialectRules::parser);
        let marks = dialect.filter(|_| parser.is_some()).map(|dialect| dialect.marks(tokenizer));
        let decoder = DecodeStream::new(tokenizer, rules.skip_special);
        TextStream {
            decoder: decoder.keeping(marks.unwrap_or_default()),
            matcher: StopStrings::new(&rules.stop),
            parser,
            rules: rules.clone(),
            tokens: 0,
            calls: 0,
        }
    }

    /// Takes the next token.
    pub fn push(&mut self, token: TokenId) -> Piece {
        self.tokens += 1;
        let text = self.decoder.push(token);
        let (text, stop) = self.watch(text);
        self.read(&text, stop, stop.is_some())
    }

    /// Ends the text: what was held back comes out, unless it completes a stop string.
    pub fn finish(&mut self) -> Piece {
        let text = self.decoder.finish();
        let (mut text, stop) = self.watch(text);
        if stop.is_none() {
            text.push_str(&self.matcher.finish());
        }
        self.read(&text, stop, true)
    }

    /// Whether a call is complete.
    pub fn has_calls(&self) -> bool {
        self.calls > 0
    }

    /// The text that is certain, and the stop string that is complete now.
    fn watch(&mut self, text: String) -> (String, Option<usize>) {
        if self.tokens <= self.rules.min_tokens {
            return (self.matcher.pass(&text), None);
        }
        match self.matcher.push(&text) {
            Streamed::Text(text) => (text, None),
            Streamed::Stopped { mut text, stop } => {
                if self.rules.include_stop {
                    text.push_str(&self.rules.stop[stop]);
                }
                (text, Some(stop))
            }
        }
    }

    fn read(&mut self, text: &str, stop: Option<usize>, last: bool) -> Piece {
        let end = stop.map(TextEnd::StopString);
        let Some(parser) = &mut self.parser else {
            return Piece { text: text.to_owned(), end, ..Piece::default() };
        };
        let mut events = parser.push(text);
        if last {
            events.extend(parser.finish());
        }
        let one_call = self.rules.dialect.is_some_and(|dialect| dialect.one_call);
        let mut piece = Piece { end, ..Piece::default() };
        for event in events {
            if one_call && self.calls > 0 {
                break;
            }
            self.calls += usize::from(matches!(event, DialectEvent::ToolCallEnd { .. }));
            piece.take(event);
        }
        if one_call && self.calls > 0 {
            piece.end = Some(TextEnd::FirstCall);
        }
        piece
    }
}
