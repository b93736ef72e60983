//! The directories of a hub cache: `models--ORG--NAME/{blobs,refs,snapshots/REV}`.

use std::path::{Path, PathBuf};

use foundation::Bytes;

use crate::{
    error::{Error, Finding},
    files::{is_there, read_capped},
};

/// A ref holds a commit id of 40 characters.
const MAX_REF: Bytes = Bytes::kib(4);

/// The directory with the checkpoint's files: `path` itself, or the snapshot that its `refs/main` names.
pub(super) fn resolve(path: &Path) -> Result<PathBuf, Error> {
    let subject = path.display().to_string();
    match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => {}
        Ok(_) => {
            return Err(Finding::error(subject, "is not a directory")
                .hint("give the directory that holds config.json")
                .into());
        }
        Err(error) => return Err(Finding::unreadable(path, &error).into()),
    }
    let snapshots = path.join("snapshots");
    if is_there(&path.join("config.json")) || !snapshots.is_dir() {
        return Ok(path.to_owned());
    }
    let revision = match path.join("refs/main") {
        main if is_there(&main) => read_ref(&main)?,
        _ => only_snapshot(&snapshots)?,
    };
    let snapshot = snapshots.join(&revision);
    if !snapshot.is_dir() {
        return Err(Finding::error(
            subject,
            format!("refs/main names snapshot {revision}, which is not there"),
        )
        .hint("the download is incomplete: fetch it again")
        .into());
    }
    Ok(snapshot)
}

fn read_ref(path: &Path) -> Result<String, Error> {
    let text = String::from_utf8_lossy(&read_capped(path, MAX_REF)?).trim().to_owned();
    let is_revision = !text.is_empty()
        && text.len() <= 64
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if !is_revision {
        let message = format!("holds {text:?}, which is no revision");
        return Err(Finding::error(path.display().to_string(), message).into());
    }
    Ok(text)
}

fn only_snapshot(snapshots: &Path) -> Result<String, Error> {
    let entries = std::fs::read_dir(snapshots).map_err(|error| Error::io(snapshots, error))?;
    let names: Vec<String> =
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    match names.as_slice() {
        [name] => Ok(name.clone()),
        _ => Err(Finding::error(
            snapshots.display().to_string(),
            format!("holds {} snapshots and there is no refs/main to choose one", names.len()),
        )
        .hint("give the snapshot's own directory")
        .into()),
    }
}
