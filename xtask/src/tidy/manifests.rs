//! What every crate's manifest takes from the workspace: edition, licence, lints, versions.

use std::collections::BTreeMap;

use toml::{Table, Value};

use super::Finding;

/// Fields of `[package]` that a crate inherits.
const INHERITED: &[&str] = &["version", "edition", "rust-version", "license", "publish"];

/// The licence of the project.
const LICENCE: &str = "Apache-2.0";

/// Checks the root manifest and each crate's.
pub fn check(texts: &BTreeMap<String, String>) -> Vec<Finding> {
    let manifests = texts.iter().filter(|(path, _)| path.ends_with("Cargo.toml"));
    manifests.flat_map(|(path, text)| check_one(path, text)).collect()
}

fn check_one(path: &str, text: &str) -> Vec<Finding> {
    let manifest: Table = match text.parse() {
        Ok(manifest) => manifest,
        Err(error) => return vec![Finding::new(path, format!("not TOML: {error}"))],
    };
    let messages = match path {
        "Cargo.toml" => check_workspace(&manifest),
        _ => check_crate(&manifest),
    };
    messages.into_iter().map(|message| Finding::new(path, message)).collect()
}

fn check_workspace(manifest: &Table) -> Vec<String> {
    let licence = at(manifest, &["workspace", "package", "license"]).and_then(Value::as_str);
    match licence == Some(LICENCE) {
        true => vec![],
        false => vec![format!("workspace.package.license is {licence:?}, not \"{LICENCE}\"")],
    }
}

fn check_crate(manifest: &Table) -> Vec<String> {
    let mut messages = Vec::new();
    for field in INHERITED {
        if !is_true(at(manifest, &["package", field, "workspace"])) {
            messages.push(format!("write `{field}.workspace = true` in [package]"));
        }
    }
    if !is_true(at(manifest, &["lints", "workspace"])) {
        messages.push("write `workspace = true` in [lints]".to_owned());
    }
    for section in ["dependencies", "dev-dependencies", "build-dependencies"] {
        let Some(dependencies) = manifest.get(section).and_then(Value::as_table) else { continue };
        for (name, value) in dependencies {
            let inherited = value.as_table().is_some_and(|table| is_true(table.get("workspace")));
            if !inherited {
                messages.push(format!(
                    "`{name}` has its own version; versions live in the root Cargo.toml"
                ));
            }
        }
    }
    messages
}

fn at<'a>(table: &'a Table, path: &[&str]) -> Option<&'a Value> {
    let (last, folders) = path.split_last()?;
    let mut table = table;
    for folder in folders {
        table = table.get(*folder)?.as_table()?;
    }
    table.get(*last)
}

fn is_true(value: Option<&Value>) -> bool {
    value.and_then(Value::as_bool) == Some(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "
        [package]
        name = 'a'
        version.workspace = true
        edition.workspace = true
        rust-version.workspace = true
        license.workspace = true
        publish.workspace = true
        [lints]
        workspace = true
        [dependencies]
        serde.workspace = true
        half = { workspace = true, features = ['x'] }
    ";

    #[test]
    fn an_inheriting_crate_passes() {
        assert_eq!(check_one("crates/a/Cargo.toml", GOOD), []);
    }

    #[test]
    fn everything_missing_is_said_at_once() {
        let found = check_one("crates/a/Cargo.toml", "[package]\nname = 'a'\nlicense = 'MIT'");
        assert_eq!(found.len(), INHERITED.len() + 1, "{found:?}");
    }

    #[test]
    fn a_version_of_its_own_is_found() {
        let text = format!("{GOOD}\n[dev-dependencies]\ntempfile = '3'");
        let found = check_one("crates/a/Cargo.toml", &text);
        assert!(found[0].message.starts_with("`tempfile`"), "{found:?}");
    }

    #[test]
    fn another_licence_is_found() {
        let text = "[workspace.package]\nlicense = 'MIT'";
        assert_eq!(check_one("Cargo.toml", text).len(), 1);
    }
}
