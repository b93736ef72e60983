//! Every tensor of a checkpoint, from the headers of its files alone.

pub mod header;

use std::{collections::BTreeMap, fs::File, os::unix::fs::FileExt, path::Path};

use foundation::{Bytes, DType};

use self::header::{HeaderTensor, PREFIX, header_length, parse_header};
use crate::{
    error::{Error, Finding, Findings},
    layout::{ModelLayout, WeightIndex},
    weights::FileRegion,
};

/// A tensor as its file's header describes it, every number checked.
#[derive(Clone, Debug, PartialEq)]
pub struct TensorInfo {
    /// Name in the checkpoint.
    pub name: String,
    /// Element type.
    pub dtype: DType,
    /// Shape, row-major; `shape.product() * dtype.size() == region.bytes`.
    pub shape: Vec<usize>,
    /// Where it lies: inside its file, apart from every other tensor.
    pub region: FileRegion,
}

/// All tensors of a checkpoint by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TensorCatalog {
    tensors: BTreeMap<String, TensorInfo>,
}

impl TensorCatalog {
    /// Reads the header of every weight file of `layout` and checks it against the file's length, against the other
    /// files and against the index. No weight is read.
    pub fn from_layout(layout: &ModelLayout) -> Result<Self, Error> {
        let mut findings = Findings::default();
        let mut catalog = TensorCatalog::default();
        for (file, weights) in layout.weights.iter().enumerate() {
            let Some(tensors) = findings.absorb(read_header(&weights.path, weights.bytes)) else {
                continue;
            };
            for tensor in tensors {
                catalog.add(file, tensor, layout, &mut findings);
            }
        }
        // A file whose header cannot be read misses all its tensors: saying so for each would hide the cause.
        if let (Some(index), false) = (&layout.index, findings.has_errors()) {
            catalog.compare(index, &mut findings);
        }
        findings.into_result().map(|_| catalog)
    }

    /// The tensor called `name`.
    pub fn get(&self, name: &str) -> Option<&TensorInfo> {
        self.tensors.get(name)
    }

    /// All tensors in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = &TensorInfo> {
        self.tensors.values()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.tensors.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.tensors.is_empty()
    }

    /// Bytes of all tensors together.
    pub fn bytes(&self) -> Bytes {
        self.iter().map(|tensor| Bytes(tensor.region.bytes)).sum()
    }

    /// Elements of all tensors together.
    pub fn elements(&self) -> u64 {
        self.iter().map(|tensor| tensor.region.bytes / tensor.dtype.size() as u64).sum()
    }

    fn add(
        &mut self,
        file: usize,
        tensor: HeaderTensor,
        layout: &ModelLayout,
        findings: &mut Findings,
    ) {
        if let Some(other) = self.tensors.get(&tensor.name) {
            let message = format!(
                "lies in two files, {} and {}",
                file_name(&layout.weights[other.region.file].path),
                file_name(&layout.weights[file].path)
            );
            findings.push(Finding::error(tensor.name, message));
            return;
        }
        let region = FileRegion {
            tensor: tensor.name.clone(),
            file,
            offset: tensor.offset,
            bytes: tensor.bytes,
        };
        let info = TensorInfo {
            name: tensor.name.clone(),
            dtype: tensor.dtype,
            shape: tensor.shape,
            region,
        };
        self.tensors.insert(tensor.name, info);
    }

    /// The index and the headers must tell the same story.
    fn compare(&self, index: &WeightIndex, findings: &mut Findings) {
        for (name, file) in &index.tensors {
            let claimed = &index.files[*file];
            let message = match self.tensors.get(name) {
                Some(tensor) if tensor.region.file == *file => continue,
                Some(tensor) => {
                    let actual = &index.files[tensor.region.file];
                    format!("lies in {actual}, but the index says {claimed}")
                }
                None => format!("is not in {claimed}, where the index says it is"),
            };
            findings.push(Finding::error(name.clone(), message));
        }
        for (name, tensor) in &self.tensors {
            if !index.tensors.contains_key(name) {
                let file = &index.files[tensor.region.file];
                let message = format!("lies in {file}, but the index does not know it");
                findings.push(
                    Finding::error(name.clone(), message)
                        .hint("index and shards are of different checkpoints"),
                );
            }
        }
    }
}

/// The tensors of the file at `path`, which is `bytes` long.
fn read_header(path: &Path, bytes: u64) -> Result<Vec<HeaderTensor>, Error> {
    let named = |findings: Vec<Finding>| {
        let file = file_name(path);
        let with_file = |mut finding: Finding| {
            let separator = if finding.subject.is_empty() { "" } else { ": " };
            finding.subject = format!("{file}{separator}{}", finding.subject);
            finding
        };
        Error::Findings(findings.into_iter().map(with_file).collect())
    };
    let unreadable = |error| Error::from(Finding::unreadable(path, &error));
    let file = File::open(path).map_err(unreadable)?;
    let mut head = vec![0; PREFIX];
    if bytes >= PREFIX as u64 {
        file.read_exact_at(&mut head, 0).map_err(unreadable)?;
    }
    let length = header_length(&head, bytes).map_err(|finding| named(vec![finding]))?;
    head.resize(PREFIX + length, 0);
    file.read_exact_at(&mut head[PREFIX..], PREFIX as u64).map_err(unreadable)?;
    parse_header(&head, bytes).map_err(named)
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests;
