//! The process environment, read in this file only.

use std::{env, ffi::OsString, path::PathBuf};

/// What the environment says about the hub and its cache.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    /// `HF_HUB_CACHE`: the cache of hub checkpoints.
    pub hub_cache: Option<PathBuf>,
    /// `HF_HOME`: the directory that holds `hub` and `token`.
    pub hf_home: Option<PathBuf>,
    /// `XDG_CACHE_HOME`: where caches go unless told otherwise.
    pub cache_home: Option<PathBuf>,
    /// `HOME`.
    pub home: Option<PathBuf>,
    /// `HF_TOKEN`: sent to the hub for gated and private checkpoints.
    pub token: Option<String>,
    /// `HF_TOKEN_PATH`: a file that holds the token.
    pub token_path: Option<PathBuf>,
    /// `HF_ENDPOINT`: a hub other than the public one.
    pub endpoint: Option<String>,
}

impl Environment {
    /// Reads the variables of this process. Empty ones count as absent.
    pub fn of_process() -> Self {
        Self::read(|name| env::var_os(name))
    }

    fn read(get: impl Fn(&str) -> Option<OsString>) -> Self {
        let set = |name| get(name).filter(|value: &OsString| !value.is_empty());
        let path = |name| set(name).map(PathBuf::from);
        let text = |name| set(name).map(|value| value.to_string_lossy().trim().to_owned());
        Environment {
            hub_cache: path("HF_HUB_CACHE"),
            hf_home: path("HF_HOME"),
            cache_home: path("XDG_CACHE_HOME"),
            home: path("HOME"),
            token: text("HF_TOKEN"),
            token_path: path("HF_TOKEN_PATH"),
            endpoint: text("HF_ENDPOINT"),
        }
    }

    /// Where hub checkpoints are cached: `HF_HUB_CACHE`, else `hub` in `HF_HOME`, else
    /// `~/.cache/huggingface/hub`. `None` where no home directory is known.
    pub fn cache_dir(&self) -> Option<PathBuf> {
        self.hub_cache.clone().or_else(|| Some(self.huggingface_home()?.join("hub")))
    }

    /// Where this project keeps what it can make again: `tokenmill` in `XDG_CACHE_HOME` or `~/.cache`. `None` where no
    /// home directory is known.
    pub fn own_cache(&self) -> Option<PathBuf> {
        Some(self.caches()?.join("tokenmill"))
    }

    /// The hub token: `HF_TOKEN`, else what a login left in `HF_TOKEN_PATH` or in `token` beside the cache.
    pub fn hub_token(&self) -> Option<String> {
        let file = || {
            let path =
                self.token_path.clone().or_else(|| Some(self.huggingface_home()?.join("token")));
            std::fs::read_to_string(path?).ok()
        };
        let token = self.token.clone().or_else(file)?.trim().to_owned();
        (!token.is_empty()).then_some(token)
    }

    fn huggingface_home(&self) -> Option<PathBuf> {
        self.hf_home.clone().or_else(|| Some(self.caches()?.join("huggingface")))
    }

    fn caches(&self) -> Option<PathBuf> {
        self.cache_home.clone().or_else(|| Some(self.home.as_ref()?.join(".cache")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(values: &[(&str, &str)]) -> Environment {
        Environment::read(|name| {
            values.iter().find(|row| row.0 == name).map(|row| OsString::from(row.1))
        })
    }

    #[test]
    fn the_nearest_variable_names_the_cache() {
        let all =
            [("HF_HUB_CACHE", "/a"), ("HF_HOME", "/b"), ("XDG_CACHE_HOME", "/c"), ("HOME", "/d")];
        let wanted = ["/a", "/b/hub", "/c/huggingface/hub", "/d/.cache/huggingface/hub"];
        for (skip, path) in wanted.iter().enumerate() {
            assert_eq!(environment(&all[skip..]).cache_dir(), Some(PathBuf::from(path)));
        }
        assert_eq!(environment(&[]).cache_dir(), None);
    }

    #[test]
    fn the_token_of_a_login_is_found() {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("token"), "secret\n").unwrap();
        let home = home.path().to_str().unwrap();
        assert_eq!(environment(&[("HF_HOME", home)]).hub_token().as_deref(), Some("secret"));
        let both = [("HF_HOME", home), ("HF_TOKEN", "nearer")];
        assert_eq!(environment(&both).hub_token().as_deref(), Some("nearer"));
        assert_eq!(environment(&[]).hub_token(), None);
    }

    #[test]
    fn an_empty_variable_is_an_absent_one() {
        let seen = environment(&[("HF_TOKEN", ""), ("HF_HUB_CACHE", ""), ("HOME", "/d")]);
        assert_eq!(seen.token, None);
        assert_eq!(seen.cache_dir(), Some(PathBuf::from("/d/.cache/huggingface/hub")));
        assert_eq!(environment(&[("HF_TOKEN", "x\n")]).token.as_deref(), Some("x"));
    }
}
