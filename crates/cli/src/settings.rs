//! Settings in effect: flags, `TOKENMILL_*` variables and the file named by `--config`.

use std::collections::BTreeMap;

use server::settings::{Resolved, Settings, SettingsFile};
use tokenmill::{Library, LibraryOptions, ModelOptions, Origin, Setting};

use crate::{
    bounded::{self, MAX_SETTINGS},
    environment,
    error::Error,
};

/// Resolves every setting; `flags` are those given on the command line.
pub fn resolve(flags: BTreeMap<String, String>) -> Result<Resolved, Error> {
    let flag = flags.get("config").map(|path| (path.clone(), "flag --config"));
    let variable = || Some((environment::text("TOKENMILL_CONFIG")?, "variable TOKENMILL_CONFIG"));
    let file = flag.or_else(variable).map(|(path, place)| read_file(path, place)).transpose()?;
    let file = file.as_ref().map(|(path, text)| SettingsFile { path, text });
    Settings::resolve(flags, environment::tokenmill(), file).map_err(Error::Settings)
}

/// The file at `path`, which `place` names, and its text.
fn read_file(path: String, place: &str) -> Result<(String, String), Error> {
    match bounded::read_file(&path, MAX_SETTINGS) {
        Ok(text) => Ok((path, text)),
        Err(error) => Err(Error::Usage(format!("{place}: {path}: {error}"))),
    }
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

/// A setting of a model as its user knows it: under the name of its flag, where it has one.
pub fn name(setting: &Setting) -> &'static str {
    server::option_of_field(setting.name).map_or(setting.name, |option| option.name)
}

/// Its value as the flag says it: of a switch yes or no, also where it says the opposite of the field.
pub fn value(setting: &Setting) -> &str {
    match (setting.name, setting.value.as_str()) {
        ("prefix_cache", "true") | ("batch_invariant", "false") => "no",
        ("prefix_cache", "false") | ("batch_invariant", "true") => "yes",
        (_, value) => value,
    }
}

/// Where it came from, and why.
pub fn origin(setting: &Setting) -> String {
    let (origin, why) = (setting.origin, setting.why.as_str());
    match origin {
        Origin::Given if why.is_empty() => "given".to_owned(),
        // The reason is the place: `flag --threads`.
        Origin::Given => why.to_owned(),
        Origin::Default => "default".to_owned(),
        Origin::Checkpoint => described("checkpoint", why),
        Origin::Derived => described("derived", why),
    }
}

fn described(origin: &str, why: &str) -> String {
    if why.is_empty() { origin.to_owned() } else { format!("{origin}: {why}") }
}
