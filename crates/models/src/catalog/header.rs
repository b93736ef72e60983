//! The header of a safetensors file, read with distrust.
//!
//! ```text
//! bytes 0..8     N, the length of the header: u64, little-endian
//! bytes 8..8+N   JSON: {"name": {"dtype": "BF16", "shape": [512, 128], "data_offsets": [0, 131072]}, ...,
//!                       "__metadata__": {"key": "text"}}, padded with spaces
//! bytes 8+N..    the tensors' bytes; data_offsets count from here
//! ```
//!
//! The format allows neither overlaps nor holes: the ranges tile the rest of the file. Everything here is a pure
//! function of the bytes and of the file's length.

use foundation::DType;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{error::Finding, json::UniqueMap};

/// Bytes in front of the header: its length.
pub const PREFIX: usize = 8;
/// Longest header that is read, in bytes; the limit of the format's own reader.
pub const MAX_HEADER: u64 = 100_000_000;
/// Most tensors in one file.
pub const MAX_TENSORS: usize = 1_000_000;
/// Most dimensions of a tensor.
pub const MAX_RANK: usize = 8;
/// Longest name of a tensor, in bytes.
pub const MAX_NAME: usize = 1024;
/// A damaged header can be wrong in a million places; this many are told.
const MAX_FINDINGS: usize = 16;

/// A tensor of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderTensor {
    /// Its name.
    pub name: String,
    /// Element type.
    pub dtype: DType,
    /// Shape, row-major.
    pub shape: Vec<usize>,
    /// First byte, from the start of the file.
    pub offset: u64,
    /// Length in bytes.
    pub bytes: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: (u64, u64),
}

/// The length of the JSON that follows `prefix` in a file of `file_len` bytes.
pub fn header_length(prefix: &[u8], file_len: u64) -> Result<usize, Finding> {
    let whole = || Finding::error("", format!("is {file_len} bytes long, which holds no header"));
    let prefix: [u8; PREFIX] =
        prefix.get(..PREFIX).and_then(|bytes| bytes.try_into().ok()).ok_or_else(whole)?;
    if file_len < PREFIX as u64 {
        return Err(whole().hint("the download is incomplete"));
    }
    if prefix == *b"version " {
        return Err(Finding::error("", "is a pointer of Git LFS, not the file that it points to")
            .hint("run `git lfs pull` in the checkpoint's directory"));
    }
    let length = u64::from_le_bytes(prefix);
    if length > MAX_HEADER {
        let message = format!("claims a header of {length} bytes; at most {MAX_HEADER} are read");
        return Err(Finding::error("", message).hint("this is no safetensors file"));
    }
    if length > file_len - PREFIX as u64 {
        let message = format!("claims a header of {length} bytes, but is {file_len} bytes long");
        return Err(Finding::error("", message).hint("the download is incomplete"));
    }
    Ok(length as usize)
}

/// The tensors that the header at the start of `bytes` describes, in the order of their place in a file of `file_len`
/// bytes. Subjects of the findings are tensor names, or empty where the whole file is meant.
pub fn parse_header(bytes: &[u8], file_len: u64) -> Result<Vec<HeaderTensor>, Vec<Finding>> {
    let length = header_length(bytes, file_len).map_err(|finding| vec![finding])?;
    let whole = |message: String| vec![Finding::error("", message)];
    let json = bytes
        .get(PREFIX..PREFIX + length)
        .ok_or_else(|| whole("its header is cut short".to_owned()))?;
    if json.first() != Some(&b'{') {
        return Err(whole("its header does not begin with {".to_owned()));
    }
    let entries: UniqueMap<Box<RawValue>> = serde_json::from_slice(json)
        .map_err(|error| whole(format!("its header is not valid JSON: {error}")))?;
    if entries.0.len() > MAX_TENSORS {
        let message = format!("holds {} tensors, at most {MAX_TENSORS} are read", entries.0.len());
        return Err(whole(message));
    }
    let data = PREFIX as u64 + length as u64;
    let mut findings = Vec::new();
    let mut tensors = Vec::with_capacity(entries.0.len());
    for (name, value) in entries.0 {
        match parse_entry(&name, &value, data, file_len) {
            Ok(tensor) => tensors.extend(tensor),
            Err(finding) => findings.push(finding),
        }
    }
    // Ranges that are wrong in themselves would be found to overlap as well; the cause alone is told.
    if findings.is_empty() {
        tensors.sort_by_key(|tensor| (tensor.offset, tensor.bytes));
        findings = check_tiling(&tensors, data, file_len);
    }
    if findings.is_empty() { Ok(tensors) } else { Err(capped(findings)) }
}

/// One entry; `None` for `__metadata__`, which holds text for people.
fn parse_entry(
    name: &str,
    value: &RawValue,
    data: u64,
    file_len: u64,
) -> Result<Option<HeaderTensor>, Finding> {
    if name == "__metadata__" {
        return serde_json::from_str::<UniqueMap<String>>(value.get())
            .map(|_| None)
            .map_err(|error| Finding::error(name, format!("is no map of strings: {error}")));
    }
    if name.len() > MAX_NAME {
        let message = format!("has a name of {} bytes, at most {MAX_NAME} are read", name.len());
        let start: String = name.chars().take(40).collect();
        return Err(Finding::error(format!("{start}..."), message));
    }
    let entry: Entry = serde_json::from_str(value.get())
        .map_err(|error| Finding::error(name, format!("is not described as a tensor: {error}")))?;
    check_entry(name, &entry, data, file_len)
        .map(Some)
        .map_err(|message| Finding::error(name, message))
}

/// Type known, shape and range agreeing, range inside the file; all arithmetic checked.
fn check_entry(
    name: &str,
    entry: &Entry,
    data: u64,
    file_len: u64,
) -> Result<HeaderTensor, String> {
    let dtype: DType = entry.dtype.parse().map_err(|error| format!("has an {error}"))?;
    if dtype.name() != entry.dtype {
        return Err(format!(
            "has the type {:?}, which headers spell {:?}",
            entry.dtype,
            dtype.name()
        ));
    }
    if entry.shape.len() > MAX_RANK {
        return Err(format!("has {} dimensions, at most {MAX_RANK} are read", entry.shape.len()));
    }
    let (begin, end) = entry.data_offsets;
    let shape = &entry.shape;
    let wanted = shape
        .iter()
        .try_fold(dtype.size() as u64, |product, size| product.checked_mul(*size))
        .ok_or_else(|| format!("has the shape {shape:?}, whose size in bytes overflows"))?;
    let bytes = end
        .checked_sub(begin)
        .ok_or_else(|| format!("has the range {begin}..{end}, which ends before it begins"))?;
    if bytes != wanted {
        return Err(format!(
            "has the shape {shape:?} of {dtype}, {wanted} bytes, but the range {begin}..{end} of {bytes} bytes"
        ));
    }
    match data.checked_add(end) {
        Some(last) if last <= file_len => {}
        _ => {
            let room = file_len - data;
            return Err(format!(
                "has the range {begin}..{end}, but the file holds only {room} bytes of data"
            ));
        }
    }
    let sizes: Option<Vec<usize>> = shape.iter().map(|size| usize::try_from(*size).ok()).collect();
    let shape =
        sizes.ok_or_else(|| format!("has the shape {shape:?}, too large for this machine"))?;
    Ok(HeaderTensor { name: name.to_owned(), dtype, shape, offset: data + begin, bytes })
}

/// The ranges of `tensors` (sorted) must cover `data..file_len` exactly.
fn check_tiling(tensors: &[HeaderTensor], data: u64, file_len: u64) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut covered = data;
    let mut before = "the header";
    for tensor in tensors {
        if tensor.offset < covered {
            let message = format!("overlaps {before} by {} bytes", covered - tensor.offset);
            findings.push(Finding::error(tensor.name.clone(), message));
        } else if tensor.offset > covered {
            let message = format!("leaves {} unused bytes after {before}", tensor.offset - covered);
            findings.push(Finding::error(tensor.name.clone(), message));
        }
        covered = covered.max(tensor.offset + tensor.bytes);
        before = &tensor.name;
    }
    if covered < file_len {
        let message = format!("has {} bytes after its last tensor", file_len - covered);
        findings.push(Finding::error("", message));
    }
    findings
}

fn capped(mut findings: Vec<Finding>) -> Vec<Finding> {
    let more = findings.len().saturating_sub(MAX_FINDINGS);
    findings.truncate(MAX_FINDINGS);
    if more > 0 {
        findings.push(Finding::error("", format!("and {more} more findings in this header")));
    }
    findings
}

#[cfg(test)]
#[path = "header_attacks.rs"]
mod attacks;
