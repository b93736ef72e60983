//! Every tensor of a checkpoint, from the headers of its files alone.

pub mod header;

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsStr,
    fs::File,
    os::unix::fs::FileExt,
    path::Path,
};

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
    lost: Lost,
}

/// What files that cannot be read may hold.
#[derive(Clone, Debug, Default, PartialEq)]
enum Lost {
    /// Every file was read.
    #[default]
    Nothing,
    /// What the index says of them.
    Named(BTreeSet<String>),
    /// No index tells.
    Anything,
}

impl TensorCatalog {
    /// Reads the header of every weight file of `layout` and checks it against the file's length, against the other
    /// files and against the index. No weight is read.
    pub fn from_layout(layout: &ModelLayout) -> Result<Self, Error> {
        let mut findings = Findings::default();
        let catalog = Self::survey(layout, &mut findings);
        findings.into_result().map(|_| catalog)
    }

    /// The tensors of the files that can be read; what is wrong with them and with the others joins `findings`.
    pub fn survey(layout: &ModelLayout, findings: &mut Findings) -> Self {
        let mut catalog = TensorCatalog::default();
        let mut unread: Vec<&str> = layout.absent_weights.iter().map(String::as_str).collect();
        for (file, weights) in layout.weights.iter().enumerate() {
            match findings.absorb(read_header(&weights.path, weights.bytes)) {
                Some(tensors) => {
                    tensors
                        .into_iter()
                        .for_each(|tensor| catalog.add(file, tensor, layout, findings));
                }
                None => unread.push(file_name(&weights.path)),
            }
        }
        if let Some(index) = &layout.index {
            let lost = index
                .tensors
                .iter()
                .filter(|(_, file)| unread.contains(&index.files[**file].as_str()));
            let lost: BTreeSet<String> = lost.map(|(name, _)| name.clone()).collect();
            catalog.compare(index, &lost, layout, findings);
            catalog.lost = if unread.is_empty() { Lost::Nothing } else { Lost::Named(lost) };
        } else if !unread.is_empty() {
            catalog.lost = Lost::Anything;
        }
        catalog
    }

    /// Whether every file of the checkpoint was read.
    pub fn is_whole(&self) -> bool {
        self.lost == Lost::Nothing
    }

    /// Whether the tensor called `name` may lie in a file that could not be read.
    pub fn may_have_lost(&self, name: &str) -> bool {
        match &self.lost {
            Lost::Nothing => false,
            Lost::Named(names) => names.contains(name),
            Lost::Anything => true,
        }
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

    /// The index and the headers must tell the same story. Of a file that cannot be read all tensors are `lost`: saying
    /// so for each would hide the cause.
    fn compare(
        &self,
        index: &WeightIndex,
        lost: &BTreeSet<String>,
        layout: &ModelLayout,
        findings: &mut Findings,
    ) {
        let place = |tensor: &TensorInfo| file_name(&layout.weights[tensor.region.file].path);
        for (name, file) in &index.tensors {
            let claimed = index.files[*file].as_str();
            let message = match self.tensors.get(name) {
                Some(tensor) if place(tensor) == claimed => continue,
                Some(tensor) => {
                    format!("lies in {}, but the index says {claimed}", place(tensor))
                }
                None if lost.contains(name) => continue,
                None => format!("is not in {claimed}, where the index says it is"),
            };
            findings.push(Finding::error(name.clone(), message));
        }
        for (name, tensor) in &self.tensors {
            if !index.tensors.contains_key(name) {
                let message = format!("lies in {}, but the index does not know it", place(tensor));
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

/// The last part of the path. Shards are named in UTF-8, by the index.
fn file_name(path: &Path) -> &str {
    path.file_name().and_then(OsStr::to_str).unwrap_or_default()
}

#[cfg(test)]
mod tests;
