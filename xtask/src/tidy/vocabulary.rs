//! Everything that a document may name: paths, flags, subcommands, crates, names in the code.

use std::collections::{BTreeMap, BTreeSet};

use super::{Source, Tree};

/// What exists.
#[derive(Debug, Default)]
pub struct Vocabulary {
    /// Tracked files and the folders that hold them.
    pub paths: BTreeSet<String>,
    /// Folders under `crates/`.
    pub crates: BTreeSet<String>,
    /// Flags of our commands, without the dashes.
    pub flags: BTreeSet<String>,
    /// Subcommands of `tokenmill`.
    pub subcommands: BTreeSet<String>,
    /// Subcommands of `cargo xtask`.
    pub chores: BTreeSet<String>,
    /// Identifiers by the first folder (`models`, `xtask`), and under "" those of all, with the
    /// words of string literals: names that belong to files of models.
    pub names: BTreeMap<String, BTreeSet<String>>,
    /// Headings of each Markdown file, as the anchors that link to them.
    pub anchors: BTreeMap<String, BTreeSet<String>>,
}

impl Vocabulary {
    /// Gathers the words from the whole tree.
    pub fn gather(tree: &Tree) -> Vocabulary {
        let mut vocabulary = Vocabulary::default();
        for path in &tree.paths {
            vocabulary.add_path(path);
        }
        for (path, source) in &tree.sources {
            vocabulary.add_source(path, source);
        }
        for (path, text) in tree.texts.iter().filter(|(path, _)| path.ends_with(".md")) {
            let anchors = text.lines().filter_map(anchor).collect();
            vocabulary.anchors.insert(path.clone(), anchors);
        }
        vocabulary
    }

    /// Adds a file and its folders.
    pub fn add_path(&mut self, path: &str) {
        for (at, _) in path.match_indices('/') {
            self.paths.insert(path[..at].to_owned());
        }
        self.paths.insert(path.to_owned());
        if let Some((name, _)) = path.strip_prefix("crates/").and_then(|rest| rest.split_once('/'))
        {
            self.crates.insert(name.to_owned());
        }
    }

    /// Adds what a Rust file declares.
    pub fn add_source(&mut self, path: &str, source: &Source) {
        let inside = path.strip_prefix("crates/").unwrap_or(path);
        let folder = inside.split('/').next().unwrap_or(inside);
        self.names.entry(folder.to_owned()).or_default().extend(source.names.iter().cloned());
        let all = self.names.entry(String::new()).or_default();
        all.extend(source.names.iter().cloned());
        all.extend(source.literals.iter().cloned());

        match folder {
            "cli" => self.subcommands.extend(source.subcommands.iter().cloned()),
            "xtask" => self.chores.extend(source.subcommands.iter().cloned()),
            _ => {}
        }
        if folder == "xtask" && !path.ends_with("main.rs") {
            // Literals of the checks themselves are examples, not flags.
            self.flags.extend(source.flags.iter().cloned());
        } else if matches!(folder, "cli" | "server" | "xtask") {
            self.flags.extend(source.flags.iter().cloned());
            let literals = source.literals.iter();
            self.flags.extend(literals.map(|text| text.trim_start_matches("--").to_owned()));
        }
    }

    /// Whether the code of one crate (or, with "", of any) has the identifier.
    pub fn has_name(&self, folder: &str, name: &str) -> bool {
        self.names.get(folder).is_some_and(|names| names.contains(name))
    }
}

/// `## The crates, from the ground up` -> `the-crates-from-the-ground-up`.
fn anchor(line: &str) -> Option<String> {
    let title = line.strip_prefix('#')?.trim_start_matches('#').strip_prefix(' ')?;
    let letters = title.trim().to_lowercase();
    let letters = letters.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    Some(letters.map(|c| if c == ' ' { '-' } else { c }).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_become_anchors() {
        assert_eq!(anchor("## A `b`, from c").as_deref(), Some("a-b-from-c"));
        assert_eq!(anchor("no heading"), None);
    }

    #[test]
    fn folders_and_crates_come_from_the_paths() {
        let mut vocabulary = Vocabulary::default();
        vocabulary.add_path("crates/cpu/src/lib.rs");
        assert!(vocabulary.paths.contains("crates/cpu/src"));
        assert!(vocabulary.crates.contains("cpu"));
    }

    #[test]
    fn flags_of_our_commands_come_from_derives_and_from_tables() {
        let mut vocabulary = Vocabulary::default();
        let source = Source::parse("x.rs", "const A: &str = \"max-queue\";").unwrap();
        vocabulary.add_source("crates/server/src/x.rs", &source);
        vocabulary.add_source(
            "crates/cpu/src/y.rs",
            &Source::parse("y.rs", "f(\"no\")").unwrap_or_default(),
        );
        assert!(vocabulary.flags.contains("max-queue"));
        assert!(!vocabulary.flags.contains("no"));
    }
}
