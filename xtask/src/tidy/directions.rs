//! Imports between our crates run downwards only, along the edges of one table.

use cargo_metadata::{DependencyKind, Metadata};

use super::Finding;

/// A crate and the crates of ours that it may import.
struct Room {
    name: &'static str,
    may_import: &'static [&'static str],
}

/// The map, from the ground up. `testkit` serves tests, so it is no one's normal dependency.
const ROOMS: &[Room] = &[
    Room { name: "foundation", may_import: &[] },
    Room { name: "demo", may_import: &[] },
    Room { name: "models", may_import: &["foundation"] },
    Room { name: "runtime", may_import: &["foundation"] },
    Room { name: "grammar", may_import: &["foundation", "runtime"] },
    Room { name: "cpu", may_import: &["foundation", "models", "runtime"] },
    Room { name: "cuda", may_import: &["foundation", "models", "runtime"] },
    Room {
        name: "tokenmill",
        may_import: &["foundation", "models", "runtime", "grammar", "cpu", "cuda", "demo"],
    },
    Room { name: "server", may_import: &["foundation", "runtime", "tokenmill"] },
    Room { name: "cli", may_import: &["foundation", "tokenmill", "server"] },
    Room { name: "testkit", may_import: &["foundation", "models", "runtime"] },
    Room { name: "xtask", may_import: &[] },
];

/// Libraries that bring a whole subject with them, and the only crates that may know the subject.
const SUBJECTS: &[(&str, &[&str])] = &[
    ("axum", &["server"]),
    ("clap", &["server", "cli", "xtask"]),
    ("llguidance", &["grammar"]),
    ("memmap2", &["models"]),
    ("minijinja", &["models"]),
    ("tokenizers", &["models"]),
    ("ureq", &["tokenmill"]),
    ("syn", &["xtask"]),
];

/// One import: `from` depends on `to`.
#[derive(Debug, Clone)]
pub struct Edge {
    from: String,
    to: String,
    /// Whether it is only there for tests.
    for_tests: bool,
}

/// Every dependency that a workspace package names.
pub fn edges(metadata: &Metadata) -> Vec<Edge> {
    let packages = metadata.workspace_packages();
    let edges = packages.iter().flat_map(|package| {
        package.dependencies.iter().map(|dependency| Edge {
            from: package.name.to_string(),
            to: dependency.name.clone(),
            for_tests: dependency.kind == DependencyKind::Development,
        })
    });
    edges.collect()
}

/// Findings for every import that the tables do not allow.
pub fn check(edges: &[Edge]) -> Vec<Finding> {
    edges.iter().filter_map(|edge| refused(edge).map(|why| Finding::new(&edge.from, why))).collect()
}

fn refused(edge: &Edge) -> Option<String> {
    let Some(room) = ROOMS.iter().find(|room| room.name == edge.from) else {
        return Some("not on the map; give it a row in xtask/src/tidy/directions.rs".to_owned());
    };
    let to = edge.to.as_str();
    if edge.for_tests {
        return None;
    }
    if ROOMS.iter().any(|room| room.name == to) && !room.may_import.contains(&to) {
        let may = room.may_import.join(", ");
        return Some(format!("imports `{to}`, but of our crates it may import only [{may}]"));
    }
    let (_, knowers) = SUBJECTS.iter().find(|(library, _)| *library == to)?;
    (!knowers.contains(&room.name))
        .then(|| format!("imports `{to}`, a subject that only [{}] may know", knowers.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(from: &str, to: &str, for_tests: bool) -> Vec<Finding> {
        check(&[Edge { from: from.to_owned(), to: to.to_owned(), for_tests }])
    }

    #[test]
    fn downward_imports_pass() {
        assert_eq!(findings("cpu", "models", false), []);
        assert_eq!(findings("server", "tokenmill", false), []);
        assert_eq!(findings("models", "serde", false), []);
    }

    #[test]
    fn runtime_does_not_know_models() {
        let found = findings("runtime", "models", false);
        assert!(found[0].message.contains("imports `models`"), "{found:?}");
    }

    #[test]
    fn upward_imports_are_found() {
        assert_eq!(findings("foundation", "runtime", false).len(), 1);
        assert_eq!(findings("cpu", "server", false).len(), 1);
    }

    #[test]
    fn testkit_is_for_tests_alone() {
        assert_eq!(findings("cpu", "testkit", true), []);
        assert_eq!(findings("cpu", "testkit", false).len(), 1);
    }

    #[test]
    fn a_subject_stays_with_the_crates_that_know_it() {
        assert_eq!(findings("server", "axum", false), []);
        assert_eq!(findings("tokenmill", "axum", false).len(), 1);
    }

    #[test]
    fn a_crate_off_the_map_is_found() {
        assert_eq!(findings("newcomer", "serde", false).len(), 1);
    }
}
