//! What a text may be asked to be.

use llguidance::api::TopLevelGrammar;
use serde_json::{Value, json};

use crate::{error::GrammarError, terminals};

/// Longest schema, and longest list of choices, in bytes.
pub const MAX_BYTES: usize = 64 << 10;
/// Longest regular expression, in bytes: alone, in a schema, or a grammar's terminal with all that it names written out. What
/// an expression costs grows with the square of its length: `a?` a thousand times takes 30 ms, 20,000 times 9 s.
pub const MAX_PATTERN_BYTES: usize = 2 << 10;
/// Longest grammar, and longest sum of a schema's expressions, in bytes.
pub const MAX_GRAMMAR_BYTES: usize = 8 << 10;
/// Deepest nesting, of values in a schema or of brackets in a regular expression or grammar.
pub const MAX_DEPTH: usize = 64;
/// Most alternatives of [`Constraint::Choice`].
pub const MAX_CHOICES: usize = 1024;

/// What the whole text must be.
#[derive(Clone, Debug, PartialEq)]
pub enum Constraint {
    /// Any JSON object.
    JsonObject,
    /// JSON that a schema describes. Keywords that are not honoured are errors.
    JsonSchema(Value),
    /// A match of a regular expression, from its first character to its last; the syntax is Rust's, without anchors,
    /// look-around and back-references.
    Regex(String),
    /// One of these texts.
    Choice(Vec<String>),
    /// A sentence of a grammar in Lark's syntax, as `llguidance` reads it; it begins with the rule `start`.
    Lark(String),
}

impl Constraint {
    /// What the compiler takes.
    pub(crate) fn source(&self) -> Result<TopLevelGrammar, GrammarError> {
        match self {
            Constraint::JsonObject => schema(&json!({"type": "object"})),
            Constraint::JsonSchema(value) => schema(value),
            Constraint::Regex(pattern) => regex(pattern),
            Constraint::Choice(texts) => choice(texts),
            Constraint::Lark(text) => lark(text),
        }
    }
}

fn at_most(what: &'static str, seen: usize, limit: usize) -> Result<(), GrammarError> {
    if seen > limit { Err(GrammarError::TooLarge { what, seen, limit }) } else { Ok(()) }
}

fn schema(value: &Value) -> Result<TopLevelGrammar, GrammarError> {
    at_most("it is nested in levels:", depth(value), MAX_DEPTH)?;
    at_most("its text has bytes:", value.to_string().len(), MAX_BYTES)?;
    check_patterns(value)?;
    if !value.is_object() && !value.is_boolean() {
        return Err(GrammarError::Unsupported("a schema is an object".into()));
    }
    if value.get("x-guidance").is_some() {
        let text = "the key x-guidance would change how the schema is compiled; it is not allowed";
        return Err(GrammarError::Unsupported(text.into()));
    }
    // Free white space is where a model that is unsure goes round and round: a space, or a line and its indent.
    let mut value = value.clone();
    if let Value::Object(map) = &mut value {
        map.insert("x-guidance".into(), json!({"whitespace_pattern": r"(\x20|\x0A\x20{0,32})?"}));
    }
    Ok(TopLevelGrammar::from_json_schema(value))
}

/// Levels of nesting, counted without recursion.
fn depth(value: &Value) -> usize {
    let mut deepest = 0;
    let mut open = vec![(value, 1)];
    while let Some((value, level)) = open.pop() {
        deepest = deepest.max(level);
        match value {
            Value::Array(items) => open.extend(items.iter().map(|item| (item, level + 1))),
            Value::Object(map) => open.extend(map.values().map(|item| (item, level + 1))),
            _ => {}
        }
    }
    deepest
}

/// Expressions in a schema, wherever they are; a property of that name with a long text for its default counts, too.
fn check_patterns(value: &Value) -> Result<(), GrammarError> {
    let (mut open, mut sum) = (vec![value], 0);
    while let Some(value) = open.pop() {
        match value {
            Value::Array(items) => open.extend(items),
            Value::Object(map) => {
                let alone = map.get("pattern").and_then(Value::as_str);
                let keys = map.get("patternProperties").and_then(Value::as_object);
                let keys = keys.into_iter().flat_map(|map| map.keys().map(String::as_str));
                for pattern in alone.into_iter().chain(keys) {
                    at_most("a pattern has bytes:", pattern.len(), MAX_PATTERN_BYTES)?;
                    sum += pattern.len();
                }
                open.extend(map.values());
            }
            _ => {}
        }
    }
    at_most("its patterns together have bytes:", sum, MAX_GRAMMAR_BYTES)
}

fn regex(pattern: &str) -> Result<TopLevelGrammar, GrammarError> {
    check_text(pattern, MAX_PATTERN_BYTES)?;
    let slashes = pattern.len() - pattern.trim_end_matches('\\').len();
    if slashes % 2 == 1 {
        return Err(GrammarError::Unsupported("the pattern ends within an escape".into()));
    }
    Ok(TopLevelGrammar::from_regex(pattern))
}

fn choice(texts: &[String]) -> Result<TopLevelGrammar, GrammarError> {
    if texts.is_empty() {
        return Err(GrammarError::Unsupported("there is nothing to choose from".into()));
    }
    at_most("its choices are", texts.len(), MAX_CHOICES)?;
    at_most("its text has bytes:", texts.iter().map(String::len).sum(), MAX_BYTES)?;
    if let Some(index) = texts.iter().position(String::is_empty) {
        return Err(GrammarError::Unsupported(format!("choice {index} is empty")));
    }
    // A string of the grammar is spelled as one of JSON.
    let texts: Vec<String> = texts.iter().map(|text| json!(text).to_string()).collect();
    Ok(TopLevelGrammar::from_lark(format!("start: {}", texts.join(" | "))))
}

fn lark(text: &str) -> Result<TopLevelGrammar, GrammarError> {
    check_text(text, MAX_GRAMMAR_BYTES)?;
    let longest = terminals::longest(text);
    at_most("a terminal, written out, has bytes:", longest, MAX_PATTERN_BYTES)?;
    let unspaced: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    if unspaced.contains("temperature=") {
        let text = "temperature= within a grammar is not honoured; the request has a field for it";
        return Err(GrammarError::Unsupported(text.into()));
    }
    Ok(TopLevelGrammar::from_lark(text.to_owned()))
}

/// Size and nesting of a regular expression or grammar.
fn check_text(text: &str, limit: usize) -> Result<(), GrammarError> {
    at_most("its text has bytes:", text.len(), limit)?;
    if text.trim().is_empty() {
        return Err(GrammarError::Unsupported("it is empty".into()));
    }
    at_most("its brackets are nested in levels:", brackets(text), MAX_DEPTH)
}

/// Deepest nesting of brackets. Those in strings and classes count, too: rather too many than too few.
fn brackets(text: &str) -> usize {
    let (mut level, mut deepest) = (0_usize, 0);
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => drop(characters.next()),
            '(' | '[' | '{' => level += 1,
            ')' | ']' | '}' => level = level.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(level);
    }
    deepest
}
