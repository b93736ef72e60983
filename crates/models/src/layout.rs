//! Which files make up a checkpoint, and where they lie.

mod hub;
mod index;

use std::path::{Path, PathBuf};

use foundation::Bytes;

pub use self::index::WeightIndex;
use crate::{
    error::{Error, Finding, Findings},
    files::{existing, is_there},
};

/// The files of a checkpoint directory.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelLayout {
    /// The directory that holds the files (for a hub cache: the snapshot).
    pub root: PathBuf,
    /// `config.json`.
    pub config: PathBuf,
    /// The safetensors files, in the order of their names; empty if weights were not asked for.
    pub weights: Vec<WeightFile>,
    /// Names of files that the index promises and that cannot be had; empty in a sound checkpoint.
    pub absent_weights: Vec<String>,
    /// Which tensor lies in which file, as the index of a sharded checkpoint claims.
    pub index: Option<WeightIndex>,
    /// `generation_config.json`.
    pub generation_config: Option<PathBuf>,
    /// `tokenizer.json`.
    pub tokenizer: Option<PathBuf>,
    /// `tokenizer_config.json`.
    pub tokenizer_config: Option<PathBuf>,
    /// `special_tokens_map.json`.
    pub special_tokens_map: Option<PathBuf>,
    /// `chat_template.jinja`, or `chat_template.json` of older checkpoints.
    pub chat_template: Option<PathBuf>,
    /// `modules.json` of sentence-transformers: the checkpoint was made for embedding.
    pub sentence_modules: Option<PathBuf>,
    /// What is worth knowing about the files; none of it an error.
    pub findings: Vec<Finding>,
}

/// A file of weights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WeightFile {
    /// Where it lies.
    pub path: PathBuf,
    /// Its length.
    pub bytes: u64,
}

impl ModelLayout {
    /// Finds the files of the checkpoint at `path`: a directory with `config.json` and safetensors, a snapshot of a hub
    /// cache, or a `models--ORG--NAME` directory of one (then `refs/main` names the snapshot).
    pub fn inspect(path: &Path) -> Result<Self, Error> {
        Self::sound(path, Self::survey)
    }

    /// Like [`ModelLayout::inspect`], for a directory whose weights are to be made up: it needs none.
    pub fn inspect_without_weights(path: &Path) -> Result<Self, Error> {
        Self::sound(path, Self::survey_without_weights)
    }

    /// The files that can be found; what is wrong with them joins `findings`. `None`: there is no checkpoint directory.
    pub fn survey(path: &Path, findings: &mut Findings) -> Option<Self> {
        let mut layout = Self::survey_without_weights(path, findings)?;
        layout.find_weights(findings);
        Some(layout)
    }

    /// Like [`ModelLayout::survey`], for a directory whose weights are to be made up.
    pub fn survey_without_weights(path: &Path, findings: &mut Findings) -> Option<Self> {
        let layout = findings.absorb(Self::files(path))?;
        if !is_there(&layout.config) {
            let message = "has no config.json";
            findings.push(
                Finding::error(layout.root.display().to_string(), message)
                    .hint("give the directory of a Hugging Face-format checkpoint"),
            );
        }
        Some(layout)
    }

    /// What `survey` finds, unless an error is among it.
    fn sound(
        path: &Path,
        survey: impl Fn(&Path, &mut Findings) -> Option<Self>,
    ) -> Result<Self, Error> {
        let mut found = Findings::default();
        let layout = survey(path, &mut found);
        let findings = found.into_result()?;
        let layout = layout.expect("where there is no layout there is an error");
        Ok(ModelLayout { findings, ..layout })
    }

    /// Length of all weight files together.
    pub fn weight_bytes(&self) -> Bytes {
        self.weights.iter().map(|file| Bytes(file.bytes)).sum()
    }

    fn files(path: &Path) -> Result<Self, Error> {
        let root = hub::resolve(path)?;
        Ok(ModelLayout {
            config: root.join("config.json"),
            weights: Vec::new(),
            absent_weights: Vec::new(),
            index: None,
            generation_config: existing(&root, "generation_config.json"),
            tokenizer: existing(&root, "tokenizer.json"),
            tokenizer_config: existing(&root, "tokenizer_config.json"),
            special_tokens_map: existing(&root, "special_tokens_map.json"),
            chat_template: existing(&root, "chat_template.jinja")
                .or_else(|| existing(&root, "chat_template.json")),
            sentence_modules: existing(&root, "modules.json"),
            findings: Vec::new(),
            root,
        })
    }

    /// The single file if there is one (as `transformers` prefers it), else the shards that the index names.
    fn find_weights(&mut self, findings: &mut Findings) {
        let single = existing(&self.root, SINGLE);
        let index = existing(&self.root, INDEX);
        match (single, index) {
            (Some(single), index) => {
                if index.is_some() {
                    let message = format!("is passed over, because there is a {SINGLE}");
                    findings.push(Finding::warning(INDEX, message));
                }
                self.weights.extend(findings.absorb(weight_file(single)));
            }
            (None, Some(path)) => {
                self.index = findings.absorb(WeightIndex::read(&path));
                self.find_shards(findings);
            }
            (None, None) => findings.push(no_weights(&self.root)),
        }
    }

    /// Every shard that the index names; all that are missing are reported.
    fn find_shards(&mut self, findings: &mut Findings) {
        let names = self.index.as_ref().map(|index| index.files.clone()).unwrap_or_default();
        for name in names {
            match findings.absorb(shard(&self.root, &name)) {
                Some(file) => self.weights.push(file),
                None => self.absent_weights.push(name),
            }
        }
    }
}

const SINGLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";

fn weight_file(path: PathBuf) -> Result<WeightFile, Error> {
    match std::fs::metadata(&path) {
        Ok(metadata) if metadata.is_file() => Ok(WeightFile { path, bytes: metadata.len() }),
        Ok(_) => Err(Finding::error(path.display().to_string(), "is not a regular file").into()),
        Err(error) => Err(Finding::unreadable(&path, &error).into()),
    }
}

/// The shard that the index calls `name`.
fn shard(root: &Path, name: &str) -> Result<WeightFile, Error> {
    existing(root, name).map_or_else(
        || {
            let message = format!("is named by {INDEX}, but is not there");
            let hint = "the download is incomplete: fetch the missing file";
            Err(Finding::error(name, message).hint(hint).into())
        },
        weight_file,
    )
}

/// Says what is there instead of weights that can be read.
fn no_weights(root: &Path) -> Finding {
    let subject = root.display().to_string();
    let names = file_names(root);
    let with = |endings: &[&str]| -> Vec<&str> {
        let matches = |name: &&String| endings.iter().any(|ending| name.ends_with(ending));
        names.iter().filter(matches).map(String::as_str).collect()
    };
    let safetensors = with(&[".safetensors"]);
    let others = with(&[".bin", ".gguf", ".pt", ".pth", ".onnx", ".h5", ".msgpack"]);
    if !safetensors.is_empty() {
        let message = format!("has {} but neither {SINGLE} nor {INDEX}", listed(&safetensors));
        Finding::error(subject, message).hint("fetch the index, or rename a single file")
    } else if !others.is_empty() {
        let message = format!("has no safetensors weights, only {}", listed(&others));
        Finding::error(subject, message)
            .hint("other formats are not read; convert the checkpoint to safetensors")
    } else {
        Finding::error(subject, format!("has no weights: neither {SINGLE} nor {INDEX}"))
    }
}

fn file_names(root: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(root).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// The first few of `names`, and how many more there are.
fn listed(names: &[&str]) -> String {
    const SHOWN: usize = 3;
    let shown = names[..names.len().min(SHOWN)].join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

#[cfg(test)]
mod tests;
