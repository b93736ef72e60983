//! Models that come in the binary. They are put into a directory and read from there, as any other checkpoint is.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::error::{Error, Result};

/// A model that comes in the binary.
pub struct BuiltIn {
    /// What it is called, wherever a model is named.
    pub name: &'static str,
    /// Bytes of its files.
    pub bytes: u64,
    place: fn(&Path) -> std::io::Result<PathBuf>,
}

/// The built-in models of this build.
pub fn all() -> Vec<BuiltIn> {
    #[cfg(feature = "demo")]
    let models = vec![BuiltIn { name: demo::NAME, bytes: demo::bytes(), place: demo::place }];
    #[cfg(not(feature = "demo"))]
    let models = Vec::new();
    models
}

/// The built-in model of that name.
pub fn find(name: &str) -> Option<BuiltIn> {
    all().into_iter().find(|model| model.name == name)
}

/// Where the files of built-in models are put.
#[derive(Debug, Default)]
pub struct Place {
    /// Kept between runs; used if it can be written.
    cache: Option<PathBuf>,
    /// Made where the cache cannot be used; goes away with this value.
    temporary: std::sync::OnceLock<TempDir>,
}

impl Place {
    /// Below `cache` if there is one.
    pub fn new(cache: Option<PathBuf>) -> Self {
        Place { cache, temporary: std::sync::OnceLock::new() }
    }

    /// The checkpoint directory of a built-in model; its files are written first if they are not there.
    ///
    /// # Errors
    /// [`Error::NotFound`] where neither the cache nor a temporary directory can be written.
    pub fn directory(&self, model: &BuiltIn) -> Result<PathBuf> {
        if let Some(cache) = &self.cache {
            match (model.place)(cache) {
                Ok(directory) => return Ok(directory),
                Err(error) => {
                    tracing::debug!(cache = %cache.display(), %error, "no place for a built-in model");
                }
            }
        }
        let failed = |error| {
            Error::NotFound(format!(
                "no place for the files of {} ({}): {error}; name a directory that can be written in \
                 XDG_CACHE_HOME or TMPDIR",
                model.name,
                foundation::Bytes(model.bytes),
            ))
        };
        (model.place)(self.temporary().map_err(failed)?).map_err(failed)
    }

    fn temporary(&self) -> std::io::Result<&Path> {
        if self.temporary.get().is_none() {
            let made = tempfile::Builder::new().prefix("tokenmill-").tempdir()?;
            // Another thread may have been faster: its directory stays, this one goes.
            drop(self.temporary.set(made));
        }
        Ok(self.temporary.get().expect("just set").path())
    }
}

#[cfg(all(test, feature = "demo"))]
mod tests {
    use super::*;

    #[test]
    fn a_built_in_model_goes_into_the_cache() {
        let cache = tempfile::tempdir().unwrap();
        let place = Place::new(Some(cache.path().join("not/there/yet")));
        let directory = place.directory(&find("demo").unwrap()).unwrap();
        assert!(directory.starts_with(cache.path()) && directory.join("config.json").is_file());
        assert!(find("Demo").is_none());
    }

    #[test]
    fn without_a_cache_the_files_go_away_with_the_library() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for cache in [None, Some(file.path().to_owned())] {
            let place = Place::new(cache);
            let directory = place.directory(&find("demo").unwrap()).unwrap();
            assert!(directory.join("config.json").is_file());
            drop(place);
            assert!(!directory.exists());
        }
    }
}
