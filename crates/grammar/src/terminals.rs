//! How long a grammar's expressions are once the terminals that they name are written out.
//!
//! What an expression costs grows with the square of its length, and terminals are expressions that may name others: a dozen
//! that each name the next one twice are a short text and a very long expression. This reads a grammar roughly, and rather
//! counts too much than too little; whether it is one at all is for the compiler to say.

use std::collections::HashMap;

/// What a definition consists of.
#[derive(Debug, Default)]
struct Body<'a> {
    /// Bytes of its own, white space and comments between them left out.
    bytes: usize,
    /// Bytes of its longest string or expression.
    literal: usize,
    /// The names it holds.
    names: Vec<&'a str>,
}

/// Bytes of the longest expression in a grammar: a terminal, written out, or a string or expression in a rule.
pub(crate) fn longest(text: &str) -> usize {
    let bodies = bodies(text);
    let mut known = HashMap::new();
    let lengths = bodies.iter().map(|(name, body)| match is_terminal(name) {
        true => written_out(name, &bodies, &mut known).max(body.literal),
        false => body.literal,
    });
    lengths.max().unwrap_or(0)
}

fn is_terminal(name: &str) -> bool {
    name.trim_start_matches('_').starts_with(|first: char| first.is_uppercase())
}

/// Bytes of a terminal with all that it names; one that names itself counts once, for the compiler refuses it. Goes as deep as
/// there are terminals, which the length of a grammar bounds.
fn written_out<'a>(
    name: &'a str,
    bodies: &HashMap<&'a str, Body<'a>>,
    known: &mut HashMap<&'a str, usize>,
) -> usize {
    if let Some(length) = known.get(name) {
        return *length;
    }
    let Some(body) = bodies.get(name) else { return 0 };
    known.insert(name, body.bytes);
    let names = body.names.iter().filter(|name| is_terminal(name));
    let length = names
        .fold(body.bytes, |length, name| length.saturating_add(written_out(name, bodies, known)));
    known.insert(name, length);
    length
}

/// Every definition. What precedes the first one, and directives between them, belong to some other body: too much, again.
fn bodies(text: &str) -> HashMap<&str, Body<'_>> {
    let mut bodies: HashMap<&str, Body<'_>> = HashMap::new();
    let (mut defined, mut rest, mut level) = ("", text, 0_usize);
    // Where among its body's names the last one stands that is in no bracket.
    let mut last = None;
    while let Some(token) = token(rest) {
        rest = &rest[token.text().len()..];
        let body = bodies.entry(defined).or_default();
        match token {
            Token::Blank(_) => continue,
            Token::Literal(text) => body.literal = body.literal.max(text.len()),
            Token::Name(name) => {
                if level == 0 {
                    last = Some(body.names.len());
                }
                body.names.push(name);
            }
            Token::Other("[" | "{") => level += 1,
            Token::Other("]" | "}") => level = level.saturating_sub(1),
            // The last name, be there a priority or attributes behind it, was not named here but is defined from here on.
            Token::Other(":") if level == 0 => {
                defined = last.take().map_or("", |at| body.names.remove(at));
                body.bytes -= defined.len();
                continue;
            }
            Token::Other(_) => {}
        }
        body.bytes += token.text().len();
    }
    bodies
}

/// A piece of a grammar, as its compiler divides it.
#[derive(Clone, Copy, Debug)]
enum Token<'a> {
    /// White space, or a comment.
    Blank(&'a str),
    /// A string or an expression.
    Literal(&'a str),
    /// Of a rule or a terminal.
    Name(&'a str),
    Other(&'a str),
}

impl<'a> Token<'a> {
    fn text(self) -> &'a str {
        match self {
            Token::Blank(text) | Token::Literal(text) | Token::Name(text) | Token::Other(text) => {
                text
            }
        }
    }
}

/// What `text` begins with.
fn token(text: &str) -> Option<Token<'_>> {
    let first = text.chars().next()?;
    let upto = |end: Option<usize>| &text[..end.unwrap_or(text.len())];
    Some(match first {
        '#' => Token::Blank(upto(text.find('\n'))),
        '/' if text.starts_with("//") => Token::Blank(upto(text.find('\n'))),
        '"' | '/' => Token::Literal(upto(literal(text, first))),
        '<' => Token::Other(upto(special(text).or(Some(1)))),
        '_' | 'a'..='z' | 'A'..='Z' => Token::Name(name(text)),
        ':' if text.starts_with("::") => Token::Other(&text[..2]),
        c if c.is_whitespace() => Token::Blank(&text[..c.len_utf8()]),
        c => Token::Other(&text[..c.len_utf8()]),
    })
}

/// The name that a text begins with: letters of one case.
fn name(text: &str) -> &str {
    let lower = text.trim_start_matches('_').starts_with(|c: char| c.is_ascii_lowercase());
    let is_of = |c: char| {
        let letter = if lower { c.is_ascii_lowercase() } else { c.is_ascii_uppercase() };
        letter || c.is_ascii_digit() || c == '_' || c == '-'
    };
    &text[..text.find(|c: char| !is_of(c)).unwrap_or(text.len())]
}

/// Where the string or expression ends that a text begins with.
fn literal(text: &str, mark: char) -> Option<usize> {
    let mut escaped = false;
    for (at, character) in text.char_indices().skip(1) {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == mark => return Some(at + c.len_utf8()),
            _ => {}
        }
    }
    None
}

/// Where the token in angle brackets ends that a text begins with.
fn special(text: &str) -> Option<usize> {
    let end =
        text.char_indices().skip(1).find(|(_, c)| matches!(c, '<' | '>') || c.is_whitespace());
    end.filter(|(at, c)| *c == '>' && *at > 1).map(|(at, _)| at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminals_are_written_out() {
        for (text, wanted) in [
            ("start: \"abc\"", 5),
            ("start: a\na: /x[.]y\\/z/ b // a comment: T\n", 10),
            ("start: T\nT: \"ab\" | /c/", 4 + 1 + 3),
            ("start: A A\nA: B B\nB: C C\nC: \"123456\"", 2 + 2 * (2 + 2 * 8)),
            ("start: T\nT:\n  \"ab\"\n  | \"cd\"\n", 4 + 1 + 4),
            ("%ignore /[ \\t]+/\nstart: \"a\"", 8),
            ("start: \"T\" r\nr: T | U\nT[lazy]: \"x\"\nU.2: T T", 2 + 2 * 3 + 4),
            ("start: %json {\"pattern\": \"0123456789\"}", 12),
            ("start: LOOP\nLOOP: LOOP \"a\"", 4 + 3 + 4 + 3),
            // What would hide a definition from a less careful reader.
            ("start: T\nT[\nlazy\n]: U U\nU: \"1234567890\"", 2 + 2 * 12),
            ("start: </x> T\nT: U U\nU: \"1234567890\" /y/", 2 + 2 * 15),
            ("start: /a\nT: \"b/ U\nU: \"1234567890\"", 12),
            ("start: Ux\nU: \"1234567890\"\nx: /y/", 12),
            ("no grammar", 0),
            ("\u{0}é:[", 0),
            ("", 0),
        ] {
            assert_eq!(longest(text), wanted, "{text}");
        }
    }

    #[test]
    fn doubling_saturates() {
        let doubled = (0..200).map(|at| format!("T{at}: T{} T{}\n", at + 1, at + 1));
        let text = format!("start: T0\n{}T200: \"a\"", doubled.collect::<String>());
        assert_eq!(longest(&text), usize::MAX);
    }
}
