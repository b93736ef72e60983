//! The cache on disk, laid out as all Hugging Face tools lay it out:
//!
//! ```text
//! CACHE/models--ORG--NAME/refs/REVISION            the commit that a branch or tag points to
//!                        /blobs/ETAG               contents, named by their checksum
//!                        /blobs/ETAG.incomplete    contents cut off
//!                        /snapshots/COMMIT/FILE    links to ../../blobs/ETAG
//!      /.locks/models--ORG--NAME/ETAG.lock         held while a blob is written
//! ```

use std::{
    collections::HashSet,
    fs::{self, File, TryLockError},
    io,
    path::{Path, PathBuf},
};

use super::{Error, HubReference, reference::is_hash};

/// Longest `refs` file that is read, in bytes.
const MAX_REF: u64 = 256;
const PREFIX: &str = "models--";

/// A cache of hub checkpoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    root: PathBuf,
}

/// A checkpoint found in the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CachedModel {
    /// ORG/NAME.
    pub repository: String,
    /// The revision found: `main` if it is there.
    pub revision: String,
    /// Its commit.
    pub commit: String,
    /// Its directory.
    pub path: PathBuf,
}

/// What a pull that did not come to its end left: files, but no revision that is whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leftover {
    /// ORG/NAME.
    pub repository: String,
    /// Bytes on disk.
    pub bytes: u64,
    /// Its directory in the cache.
    pub path: PathBuf,
}

impl Cache {
    /// The cache in directory `root`, which need not exist yet.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Cache { root: root.into() }
    }

    /// The directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The snapshot of `reference`, if the cache has it.
    pub fn find(&self, reference: &HubReference) -> Option<PathBuf> {
        let directory = self.repository(reference);
        let commit = read_ref(&directory.join("refs").join(&reference.revision));
        let commit = commit.unwrap_or_else(|| reference.revision.clone());
        let snapshot = directory.join("snapshots").join(commit);
        snapshot.is_dir().then_some(snapshot)
    }

    /// The revisions of `reference`'s repository that the cache has, by name.
    pub fn revisions(&self, reference: &HubReference) -> Vec<String> {
        let refs = self.repository(reference).join("refs");
        let mut found = Vec::new();
        collect_files(&refs, &mut found);
        let name = |path: PathBuf| Some(path.strip_prefix(&refs).ok()?.to_str()?.to_owned());
        let mut names: Vec<String> = found.into_iter().filter_map(name).collect();
        names.sort();
        names
    }

    /// Every checkpoint of the cache, by name: the `main` revision where there is one, else the first.
    ///
    /// # Errors
    /// The cache exists and cannot be read.
    pub fn models(&self) -> Result<Vec<CachedModel>, Error> {
        let repositories = self.repositories()?.into_iter();
        Ok(repositories.filter_map(|reference| self.model_of(reference)).collect())
    }

    /// What pulls left that did not come to their end, by name.
    ///
    /// # Errors
    /// The cache exists and cannot be read.
    pub fn leftovers(&self) -> Result<Vec<Leftover>, Error> {
        let broken = self.repositories()?.into_iter();
        let broken = broken.filter(|reference| self.model_of(reference.clone()).is_none());
        let leftover = |reference: HubReference| {
            let path = self.repository(&reference);
            Leftover { repository: reference.repository(), bytes: bytes_under(&path), path }
        };
        Ok(broken.map(leftover).collect())
    }

    /// Every repository that has a directory, by name.
    fn repositories(&self) -> Result<Vec<HubReference>, Error> {
        let entries = match fs::read_dir(&self.root) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(Error::File { path: self.root.clone(), source }),
        };
        let directories = entries.flatten().filter(|entry| entry.path().is_dir());
        let names = directories.filter_map(|entry| entry.file_name().into_string().ok());
        let mut found: Vec<HubReference> = names.filter_map(|name| reference_of(&name)).collect();
        found.sort_by_key(HubReference::repository);
        Ok(found)
    }

    fn model_of(&self, mut reference: HubReference) -> Option<CachedModel> {
        if self.find(&reference).is_none() {
            reference.revision = self.revisions(&reference).into_iter().next()?;
        }
        let path = self.find(&reference)?;
        let commit = path.file_name()?.to_str()?.to_owned();
        Some(CachedModel {
            repository: reference.repository(),
            revision: reference.revision,
            commit,
            path,
        })
    }

    /// Removes every revision of `reference`'s repository. Gives the bytes freed, `None` where there was nothing.
    ///
    /// # Errors
    /// A file cannot be removed.
    pub fn remove(&self, reference: &HubReference) -> Result<Option<u64>, Error> {
        let directory = self.repository(reference);
        if !directory.is_dir() {
            return Ok(None);
        }
        let bytes = bytes_under(&directory);
        let failed = |source| Error::File { path: directory.clone(), source };
        fs::remove_dir_all(&directory).map_err(failed)?;
        let locks = self.locks(reference);
        match fs::remove_dir_all(&locks) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                Err(Error::File { path: locks, source })
            }
            _ => Ok(Some(bytes)),
        }
    }

    /// Where the blob `etag` lies or will lie.
    pub(super) fn blob(&self, reference: &HubReference, etag: &str) -> PathBuf {
        self.repository(reference).join("blobs").join(etag)
    }

    /// The directory of a commit's files.
    pub(super) fn snapshot(&self, reference: &HubReference, commit: &str) -> PathBuf {
        self.repository(reference).join("snapshots").join(commit)
    }

    /// Takes the lock of blob `etag`; `waiting` is called if another process holds it. Dropping the file releases it.
    pub(super) fn lock(
        &self,
        reference: &HubReference,
        etag: &str,
        waiting: impl FnOnce() -> Result<(), Error>,
    ) -> Result<File, Error> {
        let path = self.locks(reference).join(format!("{etag}.lock"));
        let failed = |source| Error::File { path: path.clone(), source };
        create_parent(&path)?;
        let file = File::options().create(true).append(true).open(&path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) => waiting()?,
            Err(TryLockError::Error(source)) => return Err(failed(source)),
        }
        file.lock().map_err(failed)?;
        Ok(file)
    }

    /// Makes `file` of the snapshot of `commit` point to blob `etag`. Under the blob's lock: two pulls of the same file would
    /// take turns at removing and making the link.
    pub(super) fn link(
        &self,
        reference: &HubReference,
        commit: &str,
        file: &str,
        etag: &str,
    ) -> Result<(), Error> {
        let link = self.snapshot(reference, commit).join(file);
        create_parent(&link)?;
        let up = "../".repeat(file.matches('/').count() + 2);
        let target = PathBuf::from(format!("{up}blobs/{etag}"));
        if fs::read_link(&link).is_ok_and(|old| old == target) {
            return Ok(());
        }
        let _lock = self.lock(reference, etag, || Ok(()))?;
        if fs::read_link(&link).is_ok_and(|old| old == target) {
            return Ok(());
        }
        let failed = |source| Error::File { path: link.clone(), source };
        match fs::remove_file(&link) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => return Err(failed(source)),
            _ => {}
        }
        link_to(&target, &self.blob(reference, etag), &link).map_err(failed)
    }

    /// Records the commit that `reference`'s revision points to. Written last, so a revision that can be found is whole.
    pub(super) fn record(&self, reference: &HubReference, commit: &str) -> Result<(), Error> {
        if reference.revision == commit {
            return Ok(());
        }
        let path = self.repository(reference).join("refs").join(&reference.revision);
        create_parent(&path)?;
        fs::write(&path, commit).map_err(|source| Error::File { path, source })
    }

    fn repository(&self, reference: &HubReference) -> PathBuf {
        self.root.join(directory_name(reference))
    }

    fn locks(&self, reference: &HubReference) -> PathBuf {
        self.root.join(".locks").join(directory_name(reference))
    }
}

fn reference_of(directory: &str) -> Option<HubReference> {
    let (organisation, name) = directory.strip_prefix(PREFIX)?.split_once("--")?;
    format!("{organisation}/{name}").parse().ok()
}

fn directory_name(reference: &HubReference) -> String {
    format!("{PREFIX}{}--{}", reference.organisation, reference.name)
}

fn read_ref(path: &Path) -> Option<String> {
    if fs::metadata(path).ok()?.len() > MAX_REF {
        return None;
    }
    let commit = fs::read_to_string(path).ok()?.trim().to_owned();
    is_hash(&commit).then_some(commit)
}

pub(super) fn create_parent(path: &Path) -> Result<(), Error> {
    let parent = path.parent().expect("every path of the cache has a parent");
    fs::create_dir_all(parent).map_err(|source| Error::File { path: parent.to_owned(), source })
}

#[cfg(unix)]
fn link_to(relative: &Path, _blob: &Path, link: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(relative, link)
}

#[cfg(not(unix))]
fn link_to(_relative: &Path, blob: &Path, link: &Path) -> io::Result<()> {
    fs::copy(blob, link).map(drop)
}

/// Links to directories are not followed: they may lead back up, and then there is no end.
fn collect_files(directory: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => collect_files(&path, found),
            _ if path.is_dir() => {}
            _ => found.push(path),
        }
    }
}

/// Bytes of the files in `directory`, each counted once however many links point to it.
pub(crate) fn bytes_under(directory: &Path) -> u64 {
    let mut files = Vec::new();
    collect_files(directory, &mut files);
    let real: HashSet<PathBuf> = files.iter().filter_map(|path| path.canonicalize().ok()).collect();
    real.iter().filter_map(|path| Some(fs::metadata(path).ok()?.len())).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(cache: &Cache, reference: &HubReference, commit: &str) {
        let blob = cache.blob(reference, "e1");
        create_parent(&blob).unwrap();
        fs::write(&blob, "{}").unwrap();
        cache.link(reference, commit, "config.json", "e1").unwrap();
        cache.link(reference, commit, "1_Pooling/config.json", "e1").unwrap();
        cache.record(reference, commit).unwrap();
    }

    #[test]
    fn finds_what_was_recorded_by_branch_and_by_commit() {
        let root = tempfile::tempdir().unwrap();
        let cache = Cache::new(root.path());
        let main: HubReference = "org/name".parse().unwrap();
        assert_eq!(cache.find(&main), None);
        put(&cache, &main, "abc");
        let path = cache.find(&main).unwrap();
        assert_eq!(fs::read_to_string(path.join("1_Pooling/config.json")).unwrap(), "{}");
        assert_eq!(cache.find(&"org/name@abc".parse().unwrap()), Some(path));
        assert_eq!(cache.find(&"org/name@other".parse().unwrap()), None);
    }

    #[test]
    fn lists_and_removes() {
        let root = tempfile::tempdir().unwrap();
        let cache = Cache::new(root.path());
        assert_eq!(cache.models().unwrap(), []);
        put(&cache, &"b/y@v1".parse().unwrap(), "c2");
        put(&cache, &"a/x".parse().unwrap(), "c1");
        let models = cache.models().unwrap();
        let seen: Vec<_> =
            models.iter().map(|m| (m.repository.as_str(), m.revision.as_str())).collect();
        assert_eq!(seen, [("a/x", "main"), ("b/y", "v1")]);
        assert_eq!(bytes_under(&models[0].path), 2);
        assert!(cache.remove(&"a/x".parse().unwrap()).unwrap() > Some(1));
        assert_eq!(cache.remove(&"a/x".parse().unwrap()).unwrap(), None);
        assert_eq!(cache.models().unwrap().len(), 1);
    }

    #[test]
    fn what_a_broken_pull_left_is_found_and_removed() {
        let root = tempfile::tempdir().unwrap();
        let cache = Cache::new(root.path());
        put(&cache, &"a/x".parse().unwrap(), "c1");
        let broken: HubReference = "b/y".parse().unwrap();
        let partial = cache.blob(&broken, "e1.incomplete");
        create_parent(&partial).unwrap();
        fs::write(&partial, "half").unwrap();
        let left = cache.leftovers().unwrap();
        assert_eq!((left.len(), left[0].repository.as_str(), left[0].bytes), (1, "b/y", 4));
        assert_eq!(cache.remove(&broken).unwrap(), Some(4));
        assert_eq!(cache.leftovers().unwrap(), []);
    }

    #[cfg(unix)]
    #[test]
    fn links_to_directories_are_not_followed() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("file"), "12").unwrap();
        std::os::unix::fs::symlink(root.path(), root.path().join("up")).unwrap();
        std::os::unix::fs::symlink(root.path(), root.path().join("again")).unwrap();
        assert_eq!(bytes_under(root.path()), 2);
    }

    #[test]
    fn a_ref_that_is_no_hash_leads_nowhere() {
        let root = tempfile::tempdir().unwrap();
        let cache = Cache::new(root.path());
        let main: HubReference = "org/name".parse().unwrap();
        put(&cache, &main, "abc");
        fs::write(cache.repository(&main).join("refs/main"), "../../x").unwrap();
        assert_eq!(cache.find(&main), None);
    }
}
