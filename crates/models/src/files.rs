//! Reading small files of a checkpoint without trusting their size or their kind.

use std::{
    fs::File,
    io::Read,
    path::{Path, PathBuf},
};

use foundation::Bytes;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use crate::{
    error::{Error, Finding},
    json::UniqueValue,
};

/// Largest `config.json` (and files like it) that is read.
pub const MAX_CONFIG: Bytes = Bytes::mib(4);
/// Largest `model.safetensors.index.json` that is read.
pub const MAX_INDEX: Bytes = Bytes::mib(64);

/// The whole of a regular file of at most `cap` bytes.
///
/// Anything but a regular file is refused before it is opened: a FIFO would block for ever, a device has no end.
pub fn read_capped(path: &Path, cap: Bytes) -> Result<Vec<u8>, Error> {
    let subject = path.display().to_string();
    let unreadable = |error| Error::from(Finding::unreadable(path, &error));
    let metadata = std::fs::metadata(path).map_err(unreadable)?;
    if !metadata.is_file() {
        return Err(Finding::error(subject, "is not a regular file").into());
    }
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(unreadable)?;
    file.take(cap.0 + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > cap.0 {
        let size = Bytes(metadata.len());
        return Err(Finding::error(subject, format!("is {size}, at most {cap} is read"))
            .hint("no real file of this kind is so large; the checkpoint is damaged")
            .into());
    }
    Ok(bytes)
}

/// The JSON object in a file of at most `cap` bytes. A key that is there twice is an error: two readers of the file would
/// see two different models.
pub fn read_json_object(path: &Path, cap: Bytes) -> Result<Map<String, Value>, Error> {
    let bytes = read_capped(path, cap)?;
    let subject = path.display().to_string();
    // Whether the text just ends is lost where an error is told with its key.
    if serde_json::from_slice::<IgnoredAny>(&bytes).is_err_and(|error| error.is_eof()) {
        return Err(Finding::error(subject, "is JSON that ends too early")
            .hint("the download may be incomplete")
            .into());
    }
    match serde_json::from_slice(&bytes) {
        Ok(UniqueValue(Value::Object(object))) => Ok(object),
        Ok(_) => Err(Finding::error(subject, "is JSON, but not an object").into()),
        Err(error) => Err(Finding::error(subject, format!("is not valid JSON: {error}")).into()),
    }
}

/// `dir/name` if something is there, be it a link to nothing: that is for whoever reads it to refuse.
pub fn existing(dir: &Path, name: &str) -> Option<PathBuf> {
    let path = dir.join(name);
    is_there(&path).then_some(path)
}

/// Whether something is at `path`, be it a link to nothing. A broken link counts: passing it over would be to read
/// another checkpoint than the one that was meant.
pub fn is_there(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_one_byte_over_the_cap_is_refused_with_both_sizes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.json");
        std::fs::write(&path, vec![b' '; 1025]).unwrap();
        assert_eq!(read_capped(&path, Bytes(1025)).unwrap().len(), 1025);
        let error = read_capped(&path, Bytes::kib(1)).unwrap_err().to_string();
        assert!(error.contains("is 1.0 KiB, at most 1.0 KiB is read"), "{error}");
    }

    #[test]
    fn a_directory_is_not_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let error = read_capped(dir.path(), Bytes::kib(1)).unwrap_err().to_string();
        assert!(error.contains("is not a regular file"), "{error}");
    }

    #[test]
    fn json_that_is_no_object_and_json_that_is_none_are_told_apart() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.json");
        for (text, message) in [
            ("[1]", "not an object"),
            ("{\"a\":", "ends too early"),
            ("{\"a\":1,\"a\":1}", "the key \"a\" is there twice"),
            ("{\"a\":{\"b\":1e999}}", "a: b: number out of range at line 1 column"),
            ("{\"a\":Infinity}", "a: expected value at line 1 column"),
        ] {
            std::fs::write(&path, text).unwrap();
            let error = read_json_object(&path, MAX_CONFIG).unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
    }
}
