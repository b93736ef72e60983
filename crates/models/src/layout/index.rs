//! `model.safetensors.index.json`: which tensor lies in which file.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use serde::Deserialize;

use crate::{
    error::{Error, Finding, Findings},
    files::{MAX_INDEX, read_capped},
    json::UniqueMap,
};

/// The claims of an index; the files' own headers decide whether they hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WeightIndex {
    /// The files, each once, in the order of their names.
    pub files: Vec<String>,
    /// Tensor name to its place in `files`.
    pub tensors: BTreeMap<String, usize>,
}

/// `metadata` beside the map holds sizes for people; the files' lengths are what counts.
#[derive(Deserialize)]
struct Raw {
    weight_map: UniqueMap<String>,
}

impl WeightIndex {
    /// Reads and checks the index at `path`.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let bytes = read_capped(path, MAX_INDEX)?;
        Self::parse(&bytes).map_err(|error| match error {
            Error::Findings(findings) => {
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                Error::Findings(findings.into_iter().map(|finding| named(finding, &name)).collect())
            }
            other => other,
        })
    }

    /// Checks the text of an index.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let raw: Raw = serde_json::from_slice(bytes)
            .map_err(|error| Finding::error("", format!("is not a valid index: {error}")))?;
        let entries = raw.weight_map.0;
        let mut findings = Findings::default();
        let names: BTreeSet<&str> = entries.iter().map(|(_, file)| file.as_str()).collect();
        for name in &names {
            if !is_plain_file_name(name) {
                let message =
                    format!("names the file {name:?}, which is not a plain *.safetensors name");
                findings.push(
                    Finding::error("", message)
                        .hint("a file outside the checkpoint's own directory is never read"),
                );
            }
        }
        if entries.is_empty() {
            findings.push(Finding::error("", "names no tensors"));
        }
        findings.into_result()?;
        let files: Vec<String> = names.into_iter().map(str::to_owned).collect();
        let place = |file: &String| files.binary_search(file).expect("files holds every name");
        let tensors = entries.iter().map(|(name, file)| (name.clone(), place(file))).collect();
        Ok(WeightIndex { files, tensors })
    }
}

fn named(mut finding: Finding, file: &str) -> Finding {
    finding.subject = file.to_owned();
    finding
}

/// One path component, so that no index can point out of its directory.
fn is_plain_file_name(name: &str) -> bool {
    name.ends_with(".safetensors")
        && !name.starts_with('.')
        && name.len() <= 255
        && !name.contains(['/', '\\', '\0'])
}
