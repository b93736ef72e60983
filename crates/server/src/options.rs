//! The settings, sorted by who acts on them.

use std::{path::PathBuf, time::Duration};

use foundation::Bytes;
use tokenmill::{DeviceChoice, ModelOptions};

use crate::{settings::Resolved, wire::Limits};

/// How requests are served.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerOptions {
    /// Address to listen on.
    pub host: String,
    /// Port to listen on; 0 takes a free one.
    pub port: u16,
    /// Names under which the model is addressed; empty: its id. Only with a single model.
    pub served_names: Vec<String>,
    /// Keys of which clients must present one; empty: everybody is served.
    pub api_keys: Vec<String>,
    /// Origins whose pages may call the server from a browser; `*` means all.
    pub cors_origins: Vec<String>,
    /// Largest request body.
    pub max_body: Bytes,
    /// What one request may ask for.
    pub limits: Limits,
    /// Most connections at once.
    pub max_connections: usize,
    /// Time for a request's head to arrive.
    pub header_timeout: Duration,
    /// Time for a request's body to arrive.
    pub body_timeout: Duration,
    /// Time for running requests to finish once the server was told to end.
    pub drain_timeout: Duration,
}

impl Default for ServerOptions {
    /// The defaults of the table of settings.
    fn default() -> Self {
        let resolved = crate::settings::Settings::resolve(Default::default(), [], None);
        ServerOptions::from_settings(&resolved.expect("defaults resolve: checked by a test"))
    }
}

impl ServerOptions {
    /// Takes the server's part of the settings.
    pub fn from_settings(settings: &Resolved) -> ServerOptions {
        ServerOptions {
            host: settings.text("host").unwrap_or_default().to_owned(),
            port: number(settings, "port"),
            served_names: settings.list("served-model-name").to_vec(),
            api_keys: settings.list("api-key").to_vec(),
            cors_origins: settings.list("cors-origin").to_vec(),
            max_body: settings.bytes("max-body").unwrap_or_default(),
            limits: Limits {
                max_prompts: number(settings, "max-prompts"),
                max_choices: number(settings, "max-choices"),
            },
            max_connections: number(settings, "max-connections"),
            header_timeout: settings.seconds("header-timeout").unwrap_or_default(),
            body_timeout: settings.seconds("body-timeout").unwrap_or_default(),
            drain_timeout: settings.seconds("drain-timeout").unwrap_or_default(),
        }
    }
}

/// Takes the settings that say how models are loaded.
pub fn model_options(settings: &Resolved) -> ModelOptions {
    let count = |name: &str| settings.count(name).map(|count| count as usize);
    ModelOptions {
        max_sequence_tokens: count("max-model-len"),
        max_step_sequences: count("max-num-seqs"),
        max_step_tokens: count("max-num-batched-tokens"),
        kv_memory: settings.bytes("kv-memory"),
        threads: count("threads"),
        max_queue: count("max-queue"),
        prefix_cache: Some(!settings.switch("no-prefix-cache")),
        chat_template: settings.text("chat-template").map(PathBuf::from),
        ignored_config_keys: settings.list("ignore-config-key").to_vec(),
        ..ModelOptions::default()
    }
}

/// The device that the settings ask for.
pub fn device(settings: &Resolved) -> DeviceChoice {
    let word = settings.text("device").unwrap_or_default();
    word.parse().expect("the table lists the devices: checked by a test")
}

/// A count whose range in the table lies within the type.
fn number<T: TryFrom<u64> + Default>(settings: &Resolved, name: &str) -> T {
    settings.count(name).and_then(|count| T::try_from(count).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{Kind, OPTIONS, Settings, find};

    fn resolve(flags: &[(&str, &str)]) -> Resolved {
        let flags = flags.iter().map(|(name, text)| (name.to_string(), text.to_string()));
        Settings::resolve(flags.collect(), [], None).unwrap()
    }

    #[test]
    fn every_device_of_the_table_is_known() {
        let Kind::Choice(words) = find("device").unwrap().kind else { panic!("a choice") };
        for word in words {
            assert_eq!(device(&resolve(&[("device", word)])).name(), *word);
        }
    }

    #[test]
    fn every_model_and_server_option_reaches_somebody() {
        let everything = |settings: &Resolved| {
            let device = device(settings);
            format!(
                "{:?} {:?} {device:?}",
                ServerOptions::from_settings(settings),
                model_options(settings)
            )
        };
        let plain = everything(&resolve(&[]));
        for option in OPTIONS {
            if option.scope == crate::settings::Scope::Program {
                continue;
            }
            let text = match option.kind {
                Kind::Switch => "true",
                Kind::Choice(words) => words[words.len() - 1],
                _ => "77",
            };
            let changed = everything(&resolve(&[(option.name, text)]));
            assert_ne!(changed, plain, "nobody acts on --{}", option.name);
        }
    }

    #[test]
    fn defaults_are_those_of_the_table() {
        let options = ServerOptions::default();
        assert_eq!((options.host.as_str(), options.port), ("127.0.0.1", 8000));
        assert_eq!(options.max_body, Bytes::mib(32));
        assert_eq!(options.limits, Limits::default());
    }
}
