//! Settings in effect: flags, `TOKENMILL_*` variables and the file named by `--config`.

use std::{collections::BTreeMap, fs};

use server::settings::{Resolved, Settings};
use tokenmill::{Library, LibraryOptions, ModelOptions, Origin, Setting};

use crate::{environment, error::Error};

/// Resolves every setting; `flags` are those given on the command line.
pub fn resolve(flags: BTreeMap<String, String>) -> Result<Resolved, Error> {
    let config = flags.get("config").cloned().or_else(|| environment::text("TOKENMILL_CONFIG"));
    let file = config.map(read_file).transpose()?;
    Settings::resolve(flags, environment::tokenmill(), file.as_deref()).map_err(Error::Settings)
}

fn read_file(path: String) -> Result<String, Error> {
    fs::read_to_string(&path).map_err(|source| Error::file(path, source))
}

/// A library on the device that the settings name.
pub fn library(settings: &Resolved) -> Result<Library, Error> {
    let device = server::device(settings);
    Ok(Library::new(LibraryOptions { device, ..LibraryOptions::default() })?)
}

/// How models are loaded under the settings.
pub fn model_options(settings: &Resolved) -> ModelOptions {
    server::model_options(settings)
}

/// Where a setting of a model came from, and why.
pub fn origin(setting: &Setting) -> String {
    let origin = match setting.origin {
        Origin::Given => "given",
        Origin::Checkpoint => "checkpoint",
        Origin::Default => "default",
        Origin::Derived => "derived",
    };
    if setting.why.is_empty() { origin.to_owned() } else { format!("{origin}: {}", setting.why) }
}
