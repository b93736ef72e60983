//! Control tokens, and the ruling on who may write them.
//!
//! A *control token* steers the model: it begins a turn, ends an answer, opens a tool call. **Text from a request never
//! becomes one.** Which added tokens are control tokens:
//!
//! - every token that the tokenizer's files mark `special`, for every text;
//! - in a conversation also the *markers*: added tokens that are not marked special but that the template itself writes
//!   (Qwen's `<tool_call>`, DeepSeek's `<｜User｜>`). Other added tokens (Gemma's runs of newlines, HTML tags) are ordinary
//!   vocabulary and match wherever they stand.
//!
//! Whose text may spell which:
//!
//! | author | control tokens |
//! | --- | --- |
//! | the template, the tokenizer's post-processor | all |
//! | an `assistant` message of the request | only the *markup of the model's own answers* ([`MODEL_MARKUP`]: a chain of thought, a tool call); clients send answers back as they came, and the tokens must be the same again |
//! | any other string of the request: content, names, tool schemas, template arguments | none |
//!
//! A role names a turn, and templates build tokens from it (`'<|' + role + '|>'`); so a role outside [`ROLES`] that is no
//! plain name, or the name inside a control token, is refused.

use std::{collections::BTreeSet, ops::Range};

use aho_corasick::{AhoCorasick, MatchKind};

use super::PromptError;

/// Markers that the model itself writes within an answer; an `assistant` message may spell them.
pub const MODEL_MARKUP: &[&str] = &[
    "<think>",
    "</think>",
    "<thinking>",
    "</thinking>",
    "<tool_call>",
    "</tool_call>",
    "<tool_calls>",
    "</tool_calls>",
];

/// Roles that may name a turn although a control token carries their name.
pub const ROLES: &[&str] = &[
    "system",
    "developer",
    "user",
    "assistant",
    "tool",
    "function",
    "model",
    "ipython",
    "observation",
    "document",
    "context",
];

/// Who wrote a string of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Anyone: it may spell no control token.
    Request,
    /// The model, in an earlier turn: it may spell [`MODEL_MARKUP`].
    Model,
}

/// One byte range of a rendered text that a control token may not cover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    /// First byte of the marked character.
    pub at: usize,
    /// Who wrote it.
    pub origin: Origin,
}

/// A rendered conversation: its text, and where strings of the request could be mistaken for control tokens.
#[derive(Clone, Debug, PartialEq)]
pub struct Rendered {
    text: String,
    marks: Vec<Mark>,
    markers: BTreeSet<u32>,
}

impl Rendered {
    /// The whole text, as the prompt reads.
    pub fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn new(text: String, marks: Vec<Mark>, markers: BTreeSet<u32>) -> Self {
        Rendered { text, marks, markers }
    }

    /// Whether any string of the request looks like a control token.
    pub(crate) fn is_marked(&self) -> bool {
        !self.marks.is_empty()
    }

    /// Whether the added token `id`, spelled `content`, may stand at `range`.
    pub(crate) fn allows(
        &self,
        id: u32,
        special: bool,
        content: &str,
        range: Range<usize>,
    ) -> bool {
        (!special && !self.markers.contains(&id)) || allowed(&self.marks, content, range)
    }
}

/// Whether a control token spelled `content` may stand at `range`: no mark lies in it that forbids it.
fn allowed(marks: &[Mark], content: &str, range: Range<usize>) -> bool {
    let first = marks.partition_point(|mark| mark.at < range.start);
    marks[first..]
        .iter()
        .take_while(|mark| mark.at < range.end)
        .all(|mark| mark.origin == Origin::Model && is_model_markup(content))
}

fn is_model_markup(content: &str) -> bool {
    MODEL_MARKUP.contains(&content)
}

/// One control token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Control {
    /// Its id.
    pub id: u32,
    /// Its spelling.
    pub content: String,
    /// Marked special by the files; otherwise a marker of the template.
    pub special: bool,
}

/// The control tokens of a conversation, and a finder of their spellings.
pub(crate) struct ControlSet {
    tokens: Vec<Control>,
    finder: AhoCorasick,
    longest: AhoCorasick,
    initials: Vec<char>,
    longest_bytes: usize,
}

impl ControlSet {
    pub(crate) fn new(tokens: Vec<Control>) -> Result<Self, PromptError> {
        let tokens: Vec<Control> = tokens.into_iter().filter(|c| !c.content.is_empty()).collect();
        let contents = || tokens.iter().map(|control| control.content.as_str());
        let build = |kind| {
            AhoCorasick::builder()
                .match_kind(kind)
                .build(contents())
                .map_err(|error| PromptError::Tokenizer(format!("control tokens: {error}")))
        };
        let initials: BTreeSet<char> = contents().filter_map(|text| text.chars().next()).collect();
        Ok(ControlSet {
            finder: build(MatchKind::Standard)?,
            longest: build(MatchKind::LeftmostLongest)?,
            initials: initials.into_iter().collect(),
            longest_bytes: contents().map(str::len).max().unwrap_or(0),
            tokens,
        })
    }

    /// The characters with which a control token can begin.
    pub(crate) fn initials(&self) -> &[char] {
        &self.initials
    }

    /// The ids of the tokens that are control tokens only by the template's word.
    pub(crate) fn markers(&self) -> BTreeSet<u32> {
        self.tokens.iter().filter(|control| !control.special).map(|control| control.id).collect()
    }

    /// Whether a template could build a control token from `role`: it is no plain name, or the name inside a token.
    pub(crate) fn could_be_built_from(&self, role: &str) -> bool {
        if !role.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | ' ')) {
            return true;
        }
        let name = |content: &str| {
            content.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase()
                == role.to_lowercase()
        };
        self.tokens.iter().any(|control| name(&control.content))
    }

    /// Where characters begin that could begin a control token, whole within `text` or cut off by its end.
    /// `origin` says whose text it is.
    pub(crate) fn beginnings(&self, text: &str, origin: Origin) -> BTreeSet<usize> {
        let mut found: BTreeSet<usize> = self
            .finder
            .find_overlapping_iter(text)
            .filter(|hit| {
                let content = &self.tokens[hit.pattern().as_usize()].content;
                origin == Origin::Request || !is_model_markup(content)
            })
            .map(|hit| hit.start())
            .collect();
        for end in [text, text.trim_end()] {
            found.extend(self.cut_off(end));
        }
        found
    }

    /// Where a control token begins that the end of `text` cuts off.
    fn cut_off<'a>(&'a self, text: &'a str) -> impl Iterator<Item = usize> + 'a {
        let from = text.floor_char_boundary(text.len().saturating_sub(self.longest_bytes));
        text[from..].char_indices().map(move |(at, _)| from + at).filter(move |at| {
            let rest = &text[*at..];
            self.tokens.iter().any(|c| c.content.len() > rest.len() && c.content.starts_with(rest))
        })
    }

    /// The control tokens that `text` holds under `marks`, in order, the model's markup left out: the skeleton of turns.
    pub(crate) fn skeleton(&self, text: &str, marks: &[Mark]) -> Vec<u32> {
        let mut found = Vec::new();
        let mut at = 0;
        while let Some(hit) = self.longest.find(aho_corasick::Input::new(text).range(at..)) {
            let control = &self.tokens[hit.pattern().as_usize()];
            if allowed(marks, &control.content, hit.range()) {
                at = hit.end();
                if !is_model_markup(&control.content) {
                    found.push(control.id);
                }
            } else {
                at = text.ceil_char_boundary(hit.start() + 1);
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set() -> ControlSet {
        let control = |id, content: &str, special| Control { id, content: content.into(), special };
        ControlSet::new(vec![
            control(1, "<|im_start|>", true),
            control(2, "<|im_end|>", true),
            control(3, "<think>", false),
            control(4, "[INST]", true),
        ])
        .unwrap()
    }

    #[test]
    fn whole_and_cut_off_spellings_are_found() {
        let set = set();
        assert_eq!(set.initials(), ['<', '[']);
        let found =
            |text, origin| -> Vec<usize> { set.beginnings(text, origin).into_iter().collect() };
        assert_eq!(found("a<|im_end|>b[INST]", Origin::Request), [1, 12]);
        assert_eq!(found("<think>", Origin::Request), [0]);
        assert_eq!(found("<think>", Origin::Model), [0usize; 0]);
        assert_eq!(found("x <|im_", Origin::Request), [2]);
        assert_eq!(found("x <|im_ \n", Origin::Request), [2]);
        assert_eq!(found("1 < 2", Origin::Request), [0usize; 0]);
        assert_eq!(found("<<|im_end|>", Origin::Request), [1]);
    }

    #[test]
    fn a_mark_forbids_what_covers_it() {
        let marks =
            [Mark { at: 10, origin: Origin::Request }, Mark { at: 20, origin: Origin::Model }];
        assert!(allowed(&marks, "<|im_end|>", 0..10));
        assert!(!allowed(&marks, "<|im_end|>", 1..11));
        assert!(!allowed(&marks, "<|im_end|>", 20..30));
        assert!(allowed(&marks, "<think>", 20..27));
        assert!(!allowed(&marks, "<think>", 10..17));
    }

    #[test]
    fn a_role_may_not_spell_a_token() {
        assert!(set().could_be_built_from("im_end"));
        assert!(set().could_be_built_from("inst"));
        assert!(set().could_be_built_from("x|>y<|z"));
        assert!(!set().could_be_built_from("critic"));
    }
}
