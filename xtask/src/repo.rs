//! The repository as the chores see it: where it is, which files git tracks, what cargo knows.

use cargo_metadata::{Metadata, MetadataCommand};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::Error;
use crate::process;

/// The repository.
pub struct Repo {
    /// Its root folder.
    pub root: PathBuf,
    /// What cargo says about the workspace's own packages; dependencies are named, not resolved.
    pub metadata: Metadata,
}

impl Repo {
    /// The repository that this program was built from.
    pub fn find() -> Result<Repo, Error> {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let manifest = here.join("../Cargo.toml");
        let metadata = MetadataCommand::new().manifest_path(manifest).no_deps().exec()?;
        Ok(Repo { root: metadata.workspace_root.clone().into_std_path_buf(), metadata })
    }

    /// Paths of the files that git tracks or would add, relative to the root, sorted. A file that
    /// was deleted but is not yet staged is left out.
    pub fn files(&self) -> Result<Vec<String>, Error> {
        let mut git = Command::new("git");
        git.current_dir(&self.root).args(["ls-files", "-z", "--cached", "--others"]);
        let listed = process::read(git.arg("--exclude-standard"))?;
        let mut files: Vec<String> = listed
            .split('\0')
            .filter(|path| !path.is_empty() && self.root.join(path).is_file())
            .map(str::to_owned)
            .collect();
        files.sort();
        files.dedup();
        Ok(files)
    }

    /// The bytes of one file, by its path relative to the root.
    pub fn bytes(&self, path: &str) -> Result<Vec<u8>, Error> {
        let path = self.root.join(path);
        std::fs::read(&path).map_err(|source| Error::File { path, source })
    }

    /// A file as text; `None` for a file that is not UTF-8.
    pub fn text(&self, path: &str) -> Result<Option<String>, Error> {
        Ok(String::from_utf8(self.bytes(path)?).ok())
    }

    /// `cargo`, in the root.
    pub fn cargo(&self) -> Command {
        let mut command = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
        command.current_dir(&self.root);
        command
    }

    /// Where cargo builds.
    pub fn target(&self) -> &Path {
        self.metadata.target_directory.as_std_path()
    }
}
