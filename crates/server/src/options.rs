//! The settings, sorted by who acts on them.

use std::{path::PathBuf, time::Duration};

use foundation::{Bytes, DType};
use tokenmill::{DeviceChoice, ModelOptions, Origin, Provenance, Speculation};

use crate::{
    settings::{OptionSpec, Resolved, Source, find},
    wire::Limits,
};

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
    /// Time for probes and clients to hear that a model is lost, before the server ends.
    pub fault_linger: Duration,
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
            fault_linger: settings.seconds("fault-linger").unwrap_or_default(),
        }
    }
}

/// Fields of [`ModelOptions`] (and the library's device) with the setting that decides each.
const MODEL_FIELDS: &[(&str, &str)] = &[
    ("device", "device"),
    ("max_sequence_tokens", "max-model-len"),
    ("max_step_sequences", "max-num-seqs"),
    ("max_step_tokens", "max-num-batched-tokens"),
    ("step_stretch", "step-stretch"),
    ("kv_memory", "kv-memory"),
    ("kv_offload_memory", "kv-offload-memory"),
    ("memory_fraction", "memory-fraction"),
    ("kv_dtype", "kv-cache-dtype"),
    ("batch_invariant", "batch-invariant"),
    ("threads", "threads"),
    ("prefix_cache", "no-prefix-cache"),
    ("speculation", "speculate"),
    ("speculative_tokens", "speculative-tokens"),
    ("prompt_lookup_min", "prompt-lookup-min"),
    ("prompt_lookup_max", "prompt-lookup-max"),
    ("max_queue", "max-queue"),
    ("stall_after", "stall-after"),
    ("chat_template", "chat-template"),
    ("tool_call_parser", "tool-call-parser"),
    ("reasoning_parser", "reasoning-parser"),
    ("ignored_config_keys", "ignore-config-key"),
];

/// The words of `kv-cache-dtype`, but for `auto`, which leaves it to the backend.
const KV_TYPES: &[(&str, DType)] = &[("bf16", DType::BF16), ("fp8", DType::F8E4M3)];

/// The words of `speculate`.
const SPECULATIONS: [Speculation; 2] = [Speculation::Off, Speculation::Ngram];

/// Takes the settings that say how models are loaded, each with where it came from.
pub fn model_options(settings: &Resolved) -> ModelOptions {
    let count = |name: &str| settings.count(name).map(|count| count as usize);
    let provenance = |(field, name): &(&'static str, &str)| {
        let effective = settings.get(name);
        let origin = match effective.source {
            Source::Default => Origin::Default,
            Source::Flag | Source::Variable | Source::File => Origin::Given,
        };
        (*field, Provenance::new(origin, effective.place()))
    };
    ModelOptions {
        max_sequence_tokens: count("max-model-len"),
        // What nobody asked for gives way to fewer token rows.
        max_step_sequences: count("max-num-seqs")
            .filter(|_| settings.get("max-num-seqs").source != Source::Default),
        max_step_tokens: count("max-num-batched-tokens"),
        step_stretch: settings.times("step-stretch"),
        kv_memory: settings.bytes("kv-memory"),
        kv_offload_memory: settings.bytes("kv-offload-memory"),
        memory_fraction: settings.part("memory-fraction"),
        batch_invariant: Some(settings.switch("batch-invariant")),
        kv_dtype: settings.text("kv-cache-dtype").and_then(kv_dtype),
        threads: count("threads"),
        max_queue: count("max-queue"),
        stall_after: settings.seconds("stall-after"),
        prefix_cache: Some(!settings.switch("no-prefix-cache")),
        speculation: settings.text("speculate").and_then(speculation),
        speculative_tokens: count("speculative-tokens"),
        prompt_lookup_min: count("prompt-lookup-min"),
        prompt_lookup_max: count("prompt-lookup-max"),
        chat_template: settings.text("chat-template").map(PathBuf::from),
        tool_call_parser: settings.text("tool-call-parser").map(str::to_owned),
        reasoning_parser: settings.text("reasoning-parser").map(str::to_owned),
        ignored_config_keys: settings.list("ignore-config-key").to_vec(),
        provenance: MODEL_FIELDS.iter().map(provenance).collect(),
        ..ModelOptions::default()
    }
}

fn kv_dtype(word: &str) -> Option<DType> {
    KV_TYPES.iter().find(|(known, _)| *known == word).map(|(_, dtype)| *dtype)
}

fn speculation(word: &str) -> Option<Speculation> {
    SPECULATIONS.into_iter().find(|speculation| speculation.name() == word)
}

/// The option of the table that decides a field of [`ModelOptions`], if one does.
pub fn option_of_field(field: &str) -> Option<&'static OptionSpec> {
    let (_, name) = MODEL_FIELDS.iter().find(|(known, _)| *known == field)?;
    find(name)
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
    use crate::settings::{Kind, OPTIONS, Scope, Settings, SettingsFile};

    fn resolve(flags: &[(&str, &str)]) -> Resolved {
        let flags = flags.iter().map(|(name, text)| (name.to_string(), text.to_string()));
        Settings::resolve(flags.collect(), [], None).unwrap()
    }

    /// A value that is not the default.
    fn another(option: &OptionSpec) -> &'static str {
        match option.kind {
            Kind::Switch => "true",
            Kind::Choice(words) => words[words.len() - 1],
            Kind::Part => "0.7",
            Kind::Times => "1.5",
            _ => "77",
        }
    }

    #[test]
    fn every_word_but_auto_is_an_element_type_of_the_cache() {
        let Kind::Choice(words) = find("kv-cache-dtype").unwrap().kind else { panic!("a choice") };
        let known: Vec<&str> = KV_TYPES.iter().map(|(word, _)| *word).collect();
        assert_eq!(words, [&["auto"], &known[..]].concat());
    }

    #[test]
    fn every_word_of_speculate_is_known() {
        let Kind::Choice(words) = find("speculate").unwrap().kind else { panic!("a choice") };
        assert_eq!(words, SPECULATIONS.map(Speculation::name));
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
            if option.scope == Scope::Program {
                continue;
            }
            let text = another(option);
            let changed = everything(&resolve(&[(option.name, text)]));
            assert_ne!(changed, plain, "nobody acts on --{}", option.name);
        }
    }

    #[test]
    fn every_model_setting_carries_where_it_came_from() {
        for option in OPTIONS.iter().filter(|option| option.scope == Scope::Model) {
            let text = another(option);
            let (field, _) = MODEL_FIELDS.iter().find(|(_, name)| *name == option.name).unwrap();
            let provenance =
                |settings: &Resolved| model_options(settings).provenance[field].clone();
            let default = provenance(&resolve(&[]));
            assert_eq!(default, Provenance::new(Origin::Default, "built in"), "{}", option.name);
            let flag = provenance(&resolve(&[(option.name, text)]));
            assert_eq!(flag, Provenance::new(Origin::Given, format!("flag {}", option.flag())));
            let env = [(option.env(), text.to_owned())];
            let variable = provenance(&Settings::resolve(Default::default(), env, None).unwrap());
            assert_eq!(variable.why, format!("variable {}", option.env()));
            assert_eq!(option_of_field(field), Some(option));
        }
        let file = Settings::resolve(
            Default::default(),
            [],
            Some(SettingsFile { path: "mill.toml", text: "threads = 2" }),
        )
        .unwrap();
        let threads = &model_options(&file).provenance["threads"];
        assert_eq!(*threads, Provenance::new(Origin::Given, "key threads of the settings file"));
    }

    #[test]
    fn defaults_of_the_table_are_those_of_the_library() {
        let built_in = ModelOptions::default().with_defaults();
        let table = model_options(&resolve(&[]));
        let table = ModelOptions { provenance: Default::default(), ..table };
        assert_eq!(table.with_defaults(), built_in);
    }

    #[test]
    fn sequences_that_nobody_asked_for_give_way_to_few_token_rows() {
        let few = resolve(&[("max-num-batched-tokens", "4")]);
        assert!(model_options(&few).validate().is_ok());
        let asked = resolve(&[("max-num-batched-tokens", "4"), ("max-num-seqs", "64")]);
        assert!(model_options(&asked).validate().is_err());
    }

    #[test]
    fn defaults_are_those_of_the_table() {
        let options = ServerOptions::default();
        assert_eq!((options.host.as_str(), options.port), ("127.0.0.1", 8000));
        assert_eq!(options.max_body, Bytes::mib(32));
        assert_eq!(options.limits, Limits::default());
    }
}
