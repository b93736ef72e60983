//! Numbers that may only fall: lengths of files and functions, `unsafe` per crate. Places beyond
//! which `unsafe` and the environment are not known.
//!
//! `xtask/ratchet.toml` holds the limits for new code and the present numbers of what is over them.
//! A number that fell must be lowered there too (`cargo xtask tidy --tighten` does it), so that it
//! cannot rise again unseen; raising one is an edit that a reviewer sees.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Finding, Source};
use crate::error::Error;
use crate::repo::Repo;

/// Where the record lies.
const PATH: &str = "xtask/ratchet.toml";

const HEADER: &str = "\
# Numbers that may only fall; `cargo xtask tidy` checks them, `cargo xtask tidy --tighten` lowers
# them to what is there now. Raising one by hand is allowed, with a reason in the commit message.
# Lengths are lines; a file's leave out its `#[cfg(test)]` items.

";

/// The record.
#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// For everything that has no entry below.
    limits: Limits,
    /// `unsafe`.
    r#unsafe: Unsafe,
    /// The process environment.
    environment: Environment,
    /// Files over the limit, by path.
    #[serde(default)]
    files: BTreeMap<String, usize>,
    /// Functions over the limit, by `path::Type::name`.
    #[serde(default)]
    functions: BTreeMap<String, usize>,
}

#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Limits {
    file_lines: usize,
    function_lines: usize,
}

#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Unsafe {
    /// Files and folders that may hold `unsafe` at all.
    places: Vec<String>,
    /// How often the keyword stands in each crate's folder.
    count: BTreeMap<String, usize>,
}

#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Environment {
    /// Files and folders that may read variables. Settings that come from anywhere are settings
    /// that nobody finds.
    places: Vec<String>,
}

impl Record {
    /// Reads the record.
    pub fn read(repo: &Repo) -> Result<Record, Error> {
        let malformed = |message: String| Error::Malformed { place: PATH.to_owned(), message };
        let text = repo.text(PATH)?.ok_or_else(|| malformed("not UTF-8".to_owned()))?;
        toml::from_str(&text).map_err(|error| malformed(error.to_string()))
    }
}

/// Lowers every number of the record that is above what is there now, and writes it back.
pub fn tighten(repo: &Repo, sources: &BTreeMap<String, Source>) -> Result<(), Error> {
    let record = tightened(Record::read(repo)?, sources);
    let text = toml::to_string(&record)
        .map_err(|e| Error::Malformed { place: PATH.to_owned(), message: e.to_string() })?;
    let path = repo.root.join(PATH);
    std::fs::write(&path, format!("{HEADER}{text}")).map_err(|source| Error::File { path, source })
}

/// Findings for every number over its limit, and for every record above its number.
pub fn check(record: &Record, sources: &BTreeMap<String, Source>) -> Vec<Finding> {
    let lengths = Measured::of(sources);
    let mut findings = Vec::new();
    let unsafes = |source: &Source| source.unsafes;
    findings.extend(misplaced(&record.r#unsafe.places, sources, unsafes, "`unsafe`"));
    let reads = |source: &Source| source.environment_reads;
    findings.extend(misplaced(&record.environment.places, sources, reads, "`env::var`"));
    findings.extend(compare(&lengths.files, &record.files, record.limits.file_lines, "lines"));
    findings.extend(compare(
        &lengths.functions,
        &record.functions,
        record.limits.function_lines,
        "lines in the function",
    ));
    findings.extend(compare(&lengths.unsafes, &record.r#unsafe.count, 0, "times `unsafe`"));
    findings
}

/// What is there now.
struct Measured {
    files: BTreeMap<String, usize>,
    functions: BTreeMap<String, usize>,
    unsafes: BTreeMap<String, usize>,
}

impl Measured {
    fn of(sources: &BTreeMap<String, Source>) -> Measured {
        let mut measured = Measured {
            files: BTreeMap::new(),
            functions: BTreeMap::new(),
            unsafes: BTreeMap::new(),
        };
        for (path, source) in sources {
            measured.files.insert(path.clone(), source.lines);
            for (name, lines) in &source.functions {
                measured.functions.insert(format!("{path}::{name}"), *lines);
            }
            *measured.unsafes.entry(crate_of(path).to_owned()).or_default() += source.unsafes;
        }
        measured
    }
}

fn compare(
    now: &BTreeMap<String, usize>,
    recorded: &BTreeMap<String, usize>,
    limit: usize,
    unit: &str,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (place, &number) in now {
        let allowed = recorded.get(place).copied().unwrap_or(limit);
        if number > allowed {
            let message = format!(
                "{number} {unit}, at most {allowed}; do with less, or raise it in {PATH} and say why"
            );
            findings.push(Finding::new(place, message));
        }
    }
    for (place, &number) in recorded {
        let there = now.get(place).copied().unwrap_or(0);
        if there < number {
            let message = format!(
                "{there} {unit}, but {PATH} still says {number}: run `cargo xtask tidy --tighten`"
            );
            findings.push(Finding::new(place, message));
        }
    }
    findings
}

/// Findings for files outside the places in which a thing may be done at all.
fn misplaced(
    places: &[String],
    sources: &BTreeMap<String, Source>,
    times: fn(&Source) -> usize,
    what: &str,
) -> Vec<Finding> {
    let allowed = |path: &str| {
        places.iter().any(|place| {
            path.strip_prefix(place.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    };
    let wrong = sources.iter().filter(|(path, source)| times(source) > 0 && !allowed(path));
    wrong
        .map(|(path, source)| {
            let (times, places) = (times(source), places.join(", "));
            Finding::new(path, format!("{times} times {what}; it is allowed only in {places}"))
        })
        .collect()
}

fn tightened(mut record: Record, sources: &BTreeMap<String, Source>) -> Record {
    let now = Measured::of(sources);
    lower(&mut record.files, &now.files, record.limits.file_lines);
    lower(&mut record.functions, &now.functions, record.limits.function_lines);
    lower(&mut record.r#unsafe.count, &now.unsafes, 0);
    record
}

fn lower(recorded: &mut BTreeMap<String, usize>, now: &BTreeMap<String, usize>, limit: usize) {
    for (place, number) in recorded.iter_mut() {
        *number = (*number).min(now.get(place).copied().unwrap_or(0));
    }
    recorded.retain(|_, number| *number > limit);
}

/// `crates/cpu/src/simd/dot.rs` belongs to `cpu`.
fn crate_of(path: &str) -> &str {
    let inside = path.strip_prefix("crates/").unwrap_or(path);
    inside.split('/').next().unwrap_or(inside)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources(path: &str, text: &str) -> BTreeMap<String, Source> {
        BTreeMap::from([(path.to_owned(), Source::parse(path, text).unwrap())])
    }

    fn record(text: &str) -> Record {
        toml::from_str(text).unwrap()
    }

    const SMALL: &str = "
        limits = { file_lines = 3, function_lines = 2 }
        unsafe = { places = ['crates/a/src/raw'], count = { a = 1 } }
        environment = { places = ['crates/a/src/settings.rs'] }
    ";
    const UNSAFE: &str = "fn f() { unsafe { g() } }";

    #[test]
    fn what_is_within_the_limits_passes() {
        assert_eq!(check(&record(SMALL), &sources("crates/a/src/raw/x.rs", UNSAFE)), []);
    }

    #[test]
    fn unsafe_elsewhere_is_found() {
        let found = check(&record(SMALL), &sources("crates/a/src/rawer.rs", UNSAFE));
        assert!(found[0].message.starts_with("1 times `unsafe`; it is allowed only"), "{found:?}");
    }

    #[test]
    fn reading_the_environment_elsewhere_is_found() {
        let text = "fn f() { std::env::var(\"A\").ok(); }";
        let mut record = record(SMALL);
        record.r#unsafe.count.clear();
        assert_eq!(check(&record, &sources("crates/a/src/settings.rs", text)), []);
        assert_eq!(check(&record, &sources("crates/a/src/other.rs", text)).len(), 1);
    }

    #[test]
    fn more_unsafe_than_recorded_is_found_and_so_is_less() {
        let twice = "fn f() { unsafe { g() }; unsafe { g() } }";
        let found = check(&record(SMALL), &sources("crates/a/src/raw/x.rs", twice));
        assert_eq!((found.len(), found[0].place.as_str()), (1, "a"));
        let found = check(&record(SMALL), &sources("crates/a/src/raw/x.rs", "fn f() {}"));
        assert!(found[0].message.contains("--tighten"), "{found:?}");
    }

    #[test]
    fn long_files_and_functions_are_found_and_a_record_excuses_them() {
        let long = sources("xtask/src/b.rs", "fn f() {\n\n\n}\n");
        let mut record = record(
            "limits = { file_lines = 3, function_lines = 2 }\nunsafe = { places = [], count = {} }\nenvironment = { places = [] }",
        );
        let places: Vec<_> = check(&record, &long).into_iter().map(|found| found.place).collect();
        assert_eq!(places, ["xtask/src/b.rs", "xtask/src/b.rs::f"]);
        record.files.insert("xtask/src/b.rs".to_owned(), 4);
        record.functions.insert("xtask/src/b.rs::f".to_owned(), 4);
        assert_eq!(check(&record, &long), []);
    }

    #[test]
    fn tightening_lowers_and_drops_but_never_raises() {
        let long = sources("xtask/src/b.rs", "fn f() {\n\n\n}\n");
        let mut loose = record(
            "limits = { file_lines = 3, function_lines = 2 }\nunsafe = { places = [], count = { gone = 2 } }\nenvironment = { places = [] }",
        );
        loose.files = BTreeMap::from([("xtask/src/b.rs".to_owned(), 9), ("gone.rs".to_owned(), 9)]);
        loose.functions = BTreeMap::from([("xtask/src/b.rs::f".to_owned(), 3)]);
        let tight = tightened(loose, &long);
        assert_eq!(tight.files, BTreeMap::from([("xtask/src/b.rs".to_owned(), 4)]));
        assert_eq!(tight.functions, BTreeMap::from([("xtask/src/b.rs::f".to_owned(), 3)]));
        assert!(tight.r#unsafe.count.is_empty());
    }
}
