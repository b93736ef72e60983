//! What the documents name must exist: paths, links, flags, subcommands, names in the code.
//!
//! Only what stands in backticks, in fenced blocks of commands and in links is read; prose is free.

use std::collections::BTreeMap;

use super::Finding;
use super::vocabulary::Vocabulary;

/// Documents about the present. A change log and a log of experiments speak of the past.
pub fn current(texts: &BTreeMap<String, String>) -> impl Iterator<Item = (&str, &str)> {
    let past = |path: &str| matches!(path, "CHANGELOG.md" | "docs/lab-log.md");
    texts
        .iter()
        .filter(move |(path, _)| path.ends_with(".md") && !past(path))
        .map(|(path, text)| (path.as_str(), text.as_str()))
}

/// Findings for every name in the document that nothing bears.
pub fn check(path: &str, text: &str, vocabulary: &Vocabulary) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (line, piece) in pieces(text) {
        let dead = match &piece {
            Piece::Link(target) => dead_link(path, target, vocabulary),
            Piece::Code(code) => dead_names(path, code, vocabulary),
            Piece::Command(command) => dead_words(path, command, vocabulary),
            Piece::Picture(line) => dead_paths(path, line, vocabulary),
        };
        let place = format!("{path}:{line}");
        findings.extend(dead.into_iter().map(|message| Finding::new(&place, message)));
    }
    findings
}

/// A part of a document that names things.
#[derive(Debug, PartialEq)]
enum Piece {
    /// The target of `[text](target)`.
    Link(String),
    /// What stands between backticks.
    Code(String),
    /// A line of a fenced block of commands.
    Command(String),
    /// A line of a fenced block of text.
    Picture(String),
}

/// How a line of a fenced block is read.
type Reader = fn(String) -> Piece;

/// The reader by the block's language; a block of JSON or Rust names nothing of ours.
fn reader(language: &str) -> Option<Reader> {
    match language {
        "sh" | "bash" | "console" => Some(Piece::Command),
        "" | "text" => Some(Piece::Picture),
        _ => None,
    }
}

fn pieces(text: &str) -> Vec<(usize, Piece)> {
    let mut pieces = Vec::new();
    let mut block: Option<Option<Reader>> = None;
    let mut continued = String::new();
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        if let Some(language) = line.trim_start().strip_prefix("```") {
            block = match block {
                Some(_) => None,
                None => Some(reader(language.trim())),
            };
            continue;
        }
        match block {
            Some(Some(reader)) => match line.strip_suffix('\\') {
                Some(begun) => continued.push_str(begun),
                None => {
                    let command = std::mem::take(&mut continued) + line;
                    pieces.push((number, reader(command)));
                }
            },
            Some(None) => {}
            None => pieces.extend(inline(line).into_iter().map(|piece| (number, piece))),
        }
    }
    pieces
}

fn inline(line: &str) -> Vec<Piece> {
    let code = line.split('`').skip(1).step_by(2).map(|code| Piece::Code(code.to_owned()));
    let links = line.split("](").skip(1).filter_map(|rest| {
        let (target, _) = rest.split_once(')')?;
        Some(Piece::Link(target.to_owned()))
    });
    code.chain(links).collect()
}

fn dead_link(document: &str, target: &str, vocabulary: &Vocabulary) -> Vec<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return vec![];
    }
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let path = match path {
        "" => document.to_owned(),
        path => relative(document, path),
    };
    if !vocabulary.paths.contains(&path) {
        return vec![format!("links to `{path}`, which does not exist")];
    }
    let anchors = vocabulary.anchors.get(&path);
    match anchor.is_empty() || anchors.is_none_or(|anchors| anchors.contains(anchor)) {
        true => vec![],
        false => vec![format!("links to `#{anchor}`, a heading that {path} does not have")],
    }
}

/// What is dead in one backticked piece: a command line, a path, or a name in the code.
fn dead_names(document: &str, code: &str, vocabulary: &Vocabulary) -> Vec<String> {
    match code.contains(' ') || code.starts_with("--") {
        true => dead_words(document, code, vocabulary),
        false if code.starts_with(VARIABLE) => {
            dead_variable(code, vocabulary).into_iter().collect()
        }
        false if code.contains("::") => dead_item(code, vocabulary).into_iter().collect(),
        false if is_camel_case(code) => {
            let message = format!("`{code}` stands nowhere in the code");
            (!vocabulary.has_name("", code)).then_some(message).into_iter().collect()
        }
        false => dead_path(document, code, vocabulary).into_iter().collect(),
    }
}

fn dead_paths(document: &str, line: &str, vocabulary: &Vocabulary) -> Vec<String> {
    line.split_whitespace().filter_map(|word| dead_path(document, word, vocabulary)).collect()
}

/// What is dead in a command line: flags and subcommands of our own commands, and paths.
fn dead_words(document: &str, line: &str, vocabulary: &Vocabulary) -> Vec<String> {
    let mut dead = Vec::new();
    for command in line.split(['|', ';']).flat_map(|part| part.split("&&")) {
        let words: Vec<&str> = command.split('#').next().unwrap_or("").split_whitespace().collect();
        let words = match words.split_first() {
            Some((&"$", rest)) => rest,
            _ => &words[..],
        };
        dead.extend(words.iter().filter_map(|word| dead_path(document, word, vocabulary)));
        let (commands, arguments) = ours(words);
        if let Some((set, name)) = commands.zip(arguments.first()) {
            let (known, program) = match set {
                Program::Xtask => (&vocabulary.chores, "cargo xtask"),
                Program::Tokenmill => (&vocabulary.subcommands, "tokenmill"),
            };
            if is_word(name) && !known.contains(*name) {
                dead.push(format!("`{program} {name}` does not exist"));
            }
        }
        let flags = arguments.iter().filter_map(|word| flag(word));
        dead.extend(
            flags
                .filter(|flag| !vocabulary.flags.contains(*flag))
                .map(|flag| format!("`--{flag}` is no flag of ours")),
        );
    }
    dead
}

#[derive(Clone, Copy)]
enum Program {
    Xtask,
    Tokenmill,
}

/// Which of our programs a command line calls, and the words after it. Words that no foreign
/// program claims are taken as ours, so that a bare `--flag` is looked up.
fn ours<'a>(words: &'a [&'a str]) -> (Option<Program>, &'a [&'a str]) {
    let words = match words.iter().position(|word| !is_assignment(word)) {
        Some(first) => &words[first..],
        None => words,
    };
    match words {
        ["cargo", "xtask", rest @ ..] => (Some(Program::Xtask), rest),
        ["cargo", rest @ ..] => match rest.iter().position(|word| *word == "--") {
            Some(at) if rest.contains(&"run") => (Some(Program::Tokenmill), &rest[at + 1..]),
            _ => (None, &[]),
        },
        [program, rest @ ..] if program.rsplit('/').next() == Some("tokenmill") => {
            (Some(Program::Tokenmill), rest)
        }
        [first, ..] if first.starts_with("--") => (None, words),
        _ => (None, &[]),
    }
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_uppercase() || c == '_')
    })
}

fn is_word(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.chars().all(|c| c.is_ascii_lowercase() || c == '-')
}

/// `--max-queue=3,` -> `max-queue`. Flags that every command has are not looked up.
fn flag(word: &str) -> Option<&str> {
    let name = word.strip_prefix("--")?;
    let end = name.find(|c: char| !(c.is_ascii_alphanumeric() || c == '-')).unwrap_or(name.len());
    let name = &name[..end];
    let is_flag = name.starts_with(|c: char| c.is_ascii_lowercase());
    (is_flag && !matches!(name, "help" | "version")).then_some(name)
}

/// What the variable of every setting begins with; the rest is the name of its flag.
const VARIABLE: &str = "TOKENMILL_";

fn dead_variable(code: &str, vocabulary: &Vocabulary) -> Option<String> {
    let name = code.strip_prefix(VARIABLE)?.split('=').next()?;
    let flag = name.to_lowercase().replace('_', "-");
    let is_placeholder = name == "*" || name == "NAME";
    (!is_placeholder && !vocabulary.flags.contains(&flag))
        .then(|| format!("`{VARIABLE}{name}`: there is no setting `{flag}`"))
}

/// `models::Checkpoint::open`: each name must be in the code of the crate.
fn dead_item(code: &str, vocabulary: &Vocabulary) -> Option<String> {
    let mut names = code.split("::");
    let folder = names.next()?;
    if !vocabulary.crates.contains(folder) {
        return None;
    }
    let names = names.map(|name| {
        let end = name.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(name.len());
        &name[..end]
    });
    let mut dead = names.filter(|name| !name.is_empty() && !vocabulary.has_name(folder, name));
    dead.next().map(|name| format!("`{code}`: the crate `{folder}` has no `{name}`"))
}

/// Two humps or more, letters and digits only: a type, not a word.
fn is_camel_case(code: &str) -> bool {
    let humps = code.as_bytes().windows(2);
    let humps = humps.filter(|pair| pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase());
    code.starts_with(|c: char| c.is_ascii_uppercase())
        && code.chars().all(|c| c.is_ascii_alphanumeric())
        && humps.count() >= 1
}

/// Endings that make a text with a slash a path of this repository, whatever it begins with.
const ENDINGS: &[&str] = &[".rs", ".md", ".cu", ".py"];

fn dead_path(document: &str, text: &str, vocabulary: &Vocabulary) -> Option<String> {
    let text = text.trim_matches(|c: char| "\"'(),.;:".contains(c) && c != '.');
    let text = text.trim_end_matches(['.', '/']);
    let text = text.split_once(":").map_or(text, |(path, _line)| path);
    if !text.chars().all(|c| c.is_ascii_alphanumeric() || "_-./*{,}".contains(c)) {
        return None;
    }
    let has_ending = ENDINGS.iter().any(|ending| text.ends_with(ending));
    let dead = expand(text).into_iter().find(|path| {
        let Some((first, rest)) = path.split_once('/') else {
            return has_ending
                && !vocabulary.paths.iter().any(|known| file_name(known) == path.as_str());
        };
        let candidates = match first {
            "" => return false,
            "." | ".." => vec![relative(document, path)],
            _ if vocabulary.crates.contains(first) => vec![
                format!("crates/{path}"),
                format!("crates/{first}/src/{rest}"),
                format!("crates/{first}/src/{rest}.rs"),
                path.clone(),
            ],
            _ if has_ending => vec![path.clone(), relative(document, path)],
            _ if vocabulary.paths.contains(first) => vec![path.clone()],
            _ => return false,
        };
        !candidates.iter().any(|candidate| exists(candidate, vocabulary))
    })?;
    Some(format!("`{dead}` does not exist"))
}

/// Whether a file or folder of that path exists; `*` and words in capitals stand for any name.
fn exists(pattern: &str, vocabulary: &Vocabulary) -> bool {
    if !pattern.split('/').any(is_placeholder) {
        return vocabulary.paths.contains(pattern);
    }
    vocabulary.paths.iter().any(|path| {
        path.split('/').count() == pattern.split('/').count()
            && path.split('/').zip(pattern.split('/')).all(|(part, wanted)| {
                part == wanted || (is_placeholder(wanted) && part.ends_with(ending(wanted)))
            })
    })
}

/// `NAME.rs`, `NAME`, `*.rs`.
fn is_placeholder(part: &str) -> bool {
    let stem = part.split('.').next().unwrap_or(part);
    stem == "*" || stem == "NAME" || stem == "NNNN"
}

fn ending(part: &str) -> &str {
    part.find('.').map_or("", |at| &part[at..])
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// `src/{a,b}.rs` -> `src/a.rs`, `src/b.rs`.
fn expand(text: &str) -> Vec<String> {
    let parts = text.split_once('{').and_then(|(head, rest)| {
        let (choices, tail) = rest.split_once('}')?;
        Some((head, choices, tail))
    });
    match parts {
        Some((head, choices, tail)) => {
            choices.split(',').map(|choice| format!("{head}{choice}{tail}")).collect()
        }
        None => vec![text.to_owned()],
    }
}

/// A path as seen from the folder of the document.
fn relative(document: &str, path: &str) -> String {
    let folder = document.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "." | "" => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::source::Source;

    fn vocabulary() -> Vocabulary {
        let mut vocabulary = Vocabulary::default();
        for path in [
            "README.md",
            "docs/a.md",
            "crates/models/src/family/llama.rs",
            "fixtures/qwen3/config.json",
        ] {
            vocabulary.add_path(path);
        }
        let cli = "#[derive(Subcommand)] enum C { Run { #[arg(long)] max_tokens: u32 }, Serve }";
        let xtask = "#[derive(Subcommand)] enum C { Ci { #[arg(long)] quick: bool } }";
        let models = "struct Checkpoint; impl Checkpoint { fn open() {} } const A: &str = \"LlamaForCausalLM\";";
        for (path, text) in [
            ("crates/cli/src/main.rs", cli),
            ("xtask/src/main.rs", xtask),
            ("crates/models/src/family/llama.rs", models),
        ] {
            vocabulary.add_source(path, &Source::parse(path, text).unwrap());
        }
        vocabulary.anchors.insert("docs/a.md".to_owned(), ["the-map".to_owned()].into());
        vocabulary
    }

    fn messages(text: &str) -> Vec<String> {
        let findings = check("docs/a.md", text, &vocabulary());
        findings.into_iter().map(|finding| finding.message).collect()
    }

    #[test]
    fn living_paths_pass() {
        let text = "`crates/models/src/family/llama.rs`, `models/family/NAME.rs`, `models/family/`, \
            `crates/*/src`, `llama.rs`, `fixtures/{qwen3,qwen3}/config.json`, `/v1/models`, `org/name`";
        assert_eq!(messages(text), [""; 0]);
    }

    #[test]
    fn dead_paths_are_found() {
        for dead in [
            "crates/models/src/gone.rs",
            "models/gone",
            "gone.rs",
            "fixtures/gone",
            "lost/and/gone.md",
            "crates/NAME/tests",
        ] {
            assert_eq!(messages(&format!("see `{dead}`.")), [format!("`{dead}` does not exist")]);
        }
    }

    #[test]
    fn links_are_followed_from_the_document_with_their_anchors() {
        assert_eq!(
            messages("[a](../README.md) [b](#the-map) [c](a.md#the-map) [d](https://docs.rs)"),
            [""; 0]
        );
        assert_eq!(messages("[a](README.md)").len(), 1);
        assert_eq!(messages("[a](a.md#no-map)").len(), 1);
    }

    #[test]
    fn flags_and_subcommands_are_looked_up_in_our_commands_only() {
        let good = "`--max-tokens`\n```sh\n$ HF_TOKEN=x tokenmill run fixtures/qwen3 \\\n  --max-tokens 3\n\
            cargo run --release -p cli -- run x --max-tokens=4\ncargo xtask ci --quick # --why\n\
            curl --silent x\ncargo build --release\n```";
        assert_eq!(messages(good), [""; 0]);
        assert_eq!(messages("`--gone`"), ["`--gone` is no flag of ours"]);
        assert_eq!(messages("`TOKENMILL_MAX_TOKENS=3`, `TOKENMILL_*`"), [""; 0]);
        assert_eq!(messages("`TOKENMILL_GONE`").len(), 1);
        assert_eq!(messages("`tokenmill fly`"), ["`tokenmill fly` does not exist"]);
        assert_eq!(messages("`cargo xtask fly`"), ["`cargo xtask fly` does not exist"]);
        assert_eq!(
            messages("```sh\ntokenmill serve x --gone\n```"),
            ["`--gone` is no flag of ours"]
        );
        assert_eq!(messages("```sh\nls fixtures/gone\n```"), ["`fixtures/gone` does not exist"]);
    }

    #[test]
    fn blocks_of_other_languages_are_not_read() {
        let picture = "```text\n tokenmill the facade |-----> fixtures/gone\n```";
        assert_eq!(messages(picture), ["`fixtures/gone` does not exist"]);
        assert_eq!(messages("```json\n{\"a\": \"fixtures/gone\"}\n```\n`fixtures/qwen3`"), [""; 0]);
    }

    #[test]
    fn names_in_the_code_are_looked_up() {
        assert_eq!(
            messages("`models::Checkpoint::open()`, `LlamaForCausalLM`, `std::fs::Gone`"),
            [""; 0]
        );
        assert_eq!(
            messages("`models::Gone`"),
            ["`models::Gone`: the crate `models` has no `Gone`"]
        );
        assert_eq!(messages("`GoneAway`"), ["`GoneAway` stands nowhere in the code"]);
    }

    #[test]
    fn documents_about_the_past_are_left_alone() {
        let texts =
            ["CHANGELOG.md", "README.md", "docs/lab-log.md"].map(|p| (p.to_owned(), String::new()));
        let texts = BTreeMap::from(texts);
        assert_eq!(current(&texts).map(|(path, _)| path).collect::<Vec<_>>(), ["README.md"]);
    }
}
