//! Names: of a checkpoint on the hub, and of a file in it. Both come from outside and become paths, so both are checked
//! letter by letter.

use std::{
    fmt,
    path::{Component, Path},
    str::FromStr,
};

use super::Error;

/// The branch meant by a reference without a revision.
const DEFAULT_REVISION: &str = "main";
/// Longest organisation, name or revision, in bytes.
const MAX_PART: usize = 128;
/// Longest file name in a repository, in bytes.
const MAX_FILE_NAME: usize = 512;

/// ORG/NAME or ORG/NAME@REVISION.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HubReference {
    /// Who publishes it.
    pub organisation: String,
    /// What it is called.
    pub name: String,
    /// Branch, tag, `refs/pr/N`, or a full commit hash.
    pub revision: String,
}

impl HubReference {
    /// ORG/NAME.
    pub fn repository(&self) -> String {
        format!("{}/{}", self.organisation, self.name)
    }
}

impl FromStr for HubReference {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let bad = || Error::Reference(text.to_owned());
        let (repository, revision) = text.split_once('@').unwrap_or((text, DEFAULT_REVISION));
        let (organisation, name) = repository.split_once('/').ok_or_else(bad)?;
        if !is_name(organisation) || !is_name(name) || !revision.split('/').all(is_name) {
            return Err(bad());
        }
        Ok(HubReference {
            organisation: organisation.to_owned(),
            name: name.to_owned(),
            revision: revision.to_owned(),
        })
    }
}

impl fmt::Display for HubReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.organisation, self.name)?;
        if self.revision != DEFAULT_REVISION {
            write!(f, "@{}", self.revision)?;
        }
        Ok(())
    }
}

/// Letters, digits, `-`, `_` and `.`, beginning with none of the marks that mean something to a file system or a
/// command line.
fn is_name(text: &str) -> bool {
    let letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    (1..=MAX_PART).contains(&text.len())
        && text.chars().all(letter)
        && !text.starts_with(['.', '-'])
        && !text.contains("..")
}

/// Whether `text` can stand as the name of a blob or commit: no separators, no leading dot.
pub(super) fn is_hash(text: &str) -> bool {
    (1..=MAX_PART).contains(&text.len())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
}

/// Whether a file name of a repository stays inside the directory it is joined to.
pub(super) fn is_inside(file: &str) -> bool {
    (1..=MAX_FILE_NAME).contains(&file.len())
        && !file.contains(['\\', '\0', ':'])
        && !file.split('/').any(str::is_empty)
        && Path::new(file).components().all(|part| matches!(part, Component::Normal(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_names_and_revisions() {
        let plain: HubReference = "Qwen/Qwen3-0.6B".parse().unwrap();
        assert_eq!(
            (plain.repository().as_str(), plain.revision.as_str()),
            ("Qwen/Qwen3-0.6B", "main")
        );
        let pinned: HubReference = "a/b@refs/pr/7".parse().unwrap();
        assert_eq!(pinned.revision, "refs/pr/7");
        assert_eq!(pinned.to_string(), "a/b@refs/pr/7");
    }

    #[test]
    fn refuses_names_that_would_leave_the_cache() {
        for text in [
            "", "gpt2", "a/", "/b", "a/b/c", "../b", "a/..", "a/b@", "a/b@../x", "a/b@x//y",
            "a b/c", "a/b%2f", "-a/b", ".a/b", "a/b@-x", "a\\b/c",
        ] {
            assert!(text.parse::<HubReference>().is_err(), "{text:?} was taken");
        }
        assert!(format!("a/{}", "b".repeat(MAX_PART + 1)).parse::<HubReference>().is_err());
    }

    #[test]
    fn refuses_file_names_that_would_leave_the_snapshot() {
        for file in ["config.json", "1_Pooling/config.json", ".gitattributes", "a b.json"] {
            assert!(is_inside(file), "{file:?} was refused");
        }
        for file in
            ["", "/etc/passwd", "../x", "a/../x", "a//x", "./x", "a\\..\\x", "C:x", "a/", "x\0"]
        {
            assert!(!is_inside(file), "{file:?} was taken");
        }
    }
}
