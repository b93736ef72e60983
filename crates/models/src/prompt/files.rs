//! Reading the small files of a checkpoint, with limits.

use std::{
    fs::File,
    io::{ErrorKind, Read},
    path::{Path, PathBuf},
};

use serde_json::{Map, Value};

use super::PromptError;

/// Largest `tokenizer.json`, bytes; the largest known ones have 40 MB.
pub(crate) const TOKENIZER_LIMIT: u64 = 256 << 20;
/// Largest configuration file, bytes.
pub(crate) const CONFIG_LIMIT: u64 = 32 << 20;
/// Largest chat template, bytes.
pub(crate) const TEMPLATE_LIMIT: u64 = 4 << 20;

/// Reads a file of at most `limit` bytes; `None` where there is none.
pub(crate) fn read(path: &Path, limit: u64) -> Result<Option<Vec<u8>>, PromptError> {
    let failed = |source| PromptError::Read { path: path.to_owned(), source };
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let bytes = file.metadata().map_err(failed)?.len();
    let mut content = Vec::new();
    file.take(limit + 1).read_to_end(&mut content).map_err(failed)?;
    if content.len() as u64 > limit {
        return Err(PromptError::FileTooLarge { path: path.to_owned(), bytes, limit });
    }
    Ok(Some(content))
}

/// Reads a JSON object; empty where there is no such file.
pub(crate) fn read_object(path: &Path) -> Result<Map<String, Value>, PromptError> {
    let Some(content) = read(path, CONFIG_LIMIT)? else { return Ok(Map::new()) };
    serde_json::from_slice(&content).map_err(|error| malformed(path, error.to_string()))
}

/// Reads UTF-8 text; `None` where there is no such file.
pub(crate) fn read_text(path: &Path, limit: u64) -> Result<Option<String>, PromptError> {
    let Some(content) = read(path, limit)? else { return Ok(None) };
    String::from_utf8(content).map(Some).map_err(|error| malformed(path, error.to_string()))
}

pub(crate) fn malformed(path: impl Into<PathBuf>, reason: impl Into<String>) -> PromptError {
    PromptError::Malformed { path: path.into(), reason: reason.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_and_absence() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        assert_eq!(read(&path, 3).unwrap(), None);
        std::fs::write(&path, "four").unwrap();
        assert!(matches!(
            read(&path, 3),
            Err(PromptError::FileTooLarge { bytes: 4, limit: 3, .. })
        ));
        assert_eq!(read(&path, 4).unwrap(), Some(b"four".to_vec()));
        assert!(matches!(read_object(&path), Err(PromptError::Malformed { .. })));
    }
}
