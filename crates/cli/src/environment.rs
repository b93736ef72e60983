//! Every environment variable that the command reads itself, and the places on disk that follow from them.

use std::{env, ffi::OsString, path::PathBuf};

/// A variable that has an effect, for `doctor`.
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// What it does.
    pub meaning: &'static str,
    /// Its value must not be shown.
    pub secret: bool,
}

const fn variable(name: &'static str, meaning: &'static str) -> Variable {
    Variable { name, meaning, secret: false }
}

const fn secret(name: &'static str, meaning: &'static str) -> Variable {
    Variable { name, meaning, secret: true }
}

/// Variables that have an effect beside the `TOKENMILL_*` settings of `serve`.
pub const VARIABLES: &[Variable] = &[
    variable("HF_HOME", "home of the Hugging Face cache"),
    variable("HF_HUB_CACHE", "directory of downloaded models"),
    variable("HF_ENDPOINT", "hub to download from"),
    secret("HF_TOKEN", "token for gated models"),
    secret("OPENAI_API_KEY", "key that bench serve --url sends where --bench-api-key gives none"),
    variable("XDG_CACHE_HOME", "parent of the cache when HF_HOME is not set"),
    variable("XDG_STATE_HOME", "parent of the chat history"),
    variable("NO_COLOR", "no colours"),
    variable("CLICOLOR_FORCE", "colours even where there is no terminal"),
    variable("CUDA_VISIBLE_DEVICES", "GPUs that CUDA shows"),
];

/// A variable that is set and not empty.
pub fn text(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

/// The key for servers that speak the OpenAI API, by the name that their other clients know.
pub fn openai_key() -> Option<String> {
    text("OPENAI_API_KEY")
}

/// All variables that begin with `TOKENMILL_`.
pub fn tokenmill() -> Vec<(String, String)> {
    let text = |value: OsString| value.to_string_lossy().into_owned();
    env::vars_os()
        .map(|(name, value)| (text(name), text(value)))
        .filter(|(name, _)| name.starts_with("TOKENMILL_"))
        .collect()
}

/// Where the lines typed at the chat prompt are kept: `$XDG_STATE_HOME/tokenmill/history`.
/// `None` when neither that variable nor a home directory is known.
pub fn history_file() -> Option<PathBuf> {
    let state = text("XDG_STATE_HOME")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
        .or_else(|| env::home_dir().map(|home| home.join(".local/state")))?;
    Some(state.join("tokenmill/history"))
}
