//! Rules about the source that no compiler checks. Every check is a pure function from what was
//! read to findings; all findings of all checks are printed at once.

mod directions;
mod docs;
mod manifests;
mod ratchet;
mod source;
mod vocabulary;
mod words;

use std::collections::BTreeMap;
use std::fmt;

use crate::error::Error;
use crate::repo::Repo;
use source::Source;

/// Options of `cargo xtask tidy`.
#[derive(clap::Args, Default)]
pub struct Options {
    /// Lower the recorded numbers in xtask/ratchet.toml to what is there now; never raises one.
    #[arg(long)]
    tighten: bool,
}

/// One thing to mend.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// Where: a file, perhaps with a line, or a crate.
    place: String,
    /// What is wrong, the number or name seen, what is wanted.
    message: String,
}

impl Finding {
    fn new(place: impl Into<String>, message: impl Into<String>) -> Finding {
        Finding { place: place.into(), message: message.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)
    }
}

/// Runs every check and prints every finding.
pub fn run(repo: &Repo, options: &Options) -> Result<(), Error> {
    let tree = Tree::read(repo)?;
    if options.tighten {
        ratchet::tighten(repo, &tree.sources)?;
    }
    let record = ratchet::Record::read(repo)?;
    let vocabulary = vocabulary::Vocabulary::gather(&tree);

    let mut findings = Vec::new();
    findings.extend(directions::check(&directions::edges(&repo.metadata)));
    findings.extend(manifests::check(&tree.texts));
    findings.extend(ratchet::check(&record, &tree.sources));
    findings.extend(words::check(&tree.texts));
    for (path, text) in docs::current(&tree.texts) {
        findings.extend(docs::check(path, text, &vocabulary));
    }

    findings.sort();
    for finding in &findings {
        println!("{finding}");
    }
    match findings.len() {
        0 => {
            println!("tidy: {} files, nothing to mend", tree.texts.len());
            Ok(())
        }
        count => Err(Error::Untidy(count)),
    }
}

/// Every text file of the repository, and every Rust file as syntax.
struct Tree {
    texts: BTreeMap<String, String>,
    sources: BTreeMap<String, Source>,
    /// All tracked paths, text or not.
    paths: Vec<String>,
}

impl Tree {
    fn read(repo: &Repo) -> Result<Tree, Error> {
        let paths = repo.files()?;
        let mut texts = BTreeMap::new();
        for path in &paths {
            if let Some(text) = repo.text(path)? {
                texts.insert(path.clone(), text);
            }
        }
        let mut sources = BTreeMap::new();
        for (path, text) in texts.iter().filter(|(path, _)| path.ends_with(".rs")) {
            sources.insert(path.clone(), Source::parse(path, text)?);
        }
        Ok(Tree { texts, sources, paths })
    }
}
