//! The small files of a checkpoint that this room reads.

use std::path::Path;

use foundation::Bytes;
use serde_json::{Map, Value};

use crate::{
    error::{Error, Finding},
    files::{is_there, read_capped, read_json_object},
};

/// Largest `tokenizer.json`; the largest known ones have 40 MB.
pub(crate) const MAX_TOKENIZER: Bytes = Bytes::mib(256);
/// Largest `tokenizer_config.json`; some list thousands of added tokens.
const MAX_CONFIG: Bytes = Bytes::mib(32);
/// Largest chat template; the largest known ones have 60 kB.
const MAX_TEMPLATE: Bytes = Bytes::kib(512);

/// The content of a file; `None` where there is none.
pub(crate) fn read(path: &Path, cap: Bytes) -> Result<Option<Vec<u8>>, Error> {
    is_there(path).then(|| read_capped(path, cap)).transpose()
}

/// The JSON object in a file; empty where there is none.
pub(crate) fn read_object(path: &Path) -> Result<Map<String, Value>, Error> {
    let object = is_there(path).then(|| read_json_object(path, MAX_CONFIG)).transpose()?;
    Ok(object.unwrap_or_default())
}

/// The source of a template; `None` where there is none.
pub(crate) fn read_template(path: &Path) -> Result<Option<String>, Error> {
    let Some(content) = read(path, MAX_TEMPLATE)? else { return Ok(None) };
    String::from_utf8(content).map(Some).map_err(|error| malformed(path, error.to_string()))
}

/// The finding that a file does not hold what its name promises.
pub(crate) fn malformed(path: &Path, reason: impl Into<String>) -> Error {
    Finding::error(path.display().to_string(), reason).into()
}
