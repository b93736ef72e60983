//! The table of options.

use super::Kind;

/// One option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionSpec {
    /// Name, as the flag spells it: `max-queue`.
    pub name: &'static str,
    /// The form of its value.
    pub kind: Kind,
    /// What it counts, for people: `tokens`, `seconds`; empty where the form says it.
    pub unit: &'static str,
    /// The default as a text that `kind` reads; `None`: decided when the model is known, or absent.
    pub default: Option<&'static str>,
    /// What is shown where there is no default: `the model's limit`.
    pub absent: &'static str,
    /// Who acts on it.
    pub scope: Scope,
    /// Never printed.
    pub secret: bool,
    /// One sentence of help.
    pub doc: &'static str,
}

/// Who acts on an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// How models are loaded and run.
    Model,
    /// How requests are served.
    Server,
    /// The program around both; not allowed in the file.
    Program,
}

impl OptionSpec {
    /// The environment variable: `TOKENMILL_MAX_QUEUE`.
    pub fn env(&self) -> String {
        format!("{ENV_PREFIX}{}", self.key().to_uppercase())
    }

    /// The key in the TOML file: `max_queue`.
    pub fn key(&self) -> String {
        self.name.replace('-', "_")
    }

    /// The flag: `--max-queue`.
    pub fn flag(&self) -> String {
        format!("--{}", self.name)
    }
}

/// What every environment variable of an option starts with.
pub(super) const ENV_PREFIX: &str = "TOKENMILL_";

/// Looks an option up by name.
pub fn find(name: &str) -> Option<&'static OptionSpec> {
    OPTIONS.iter().find(|option| option.name == name)
}

const fn model(name: &'static str, kind: Kind, doc: &'static str) -> OptionSpec {
    OptionSpec {
        name,
        kind,
        unit: "",
        default: None,
        absent: "none",
        scope: Scope::Model,
        secret: false,
        doc,
    }
}

const fn server(name: &'static str, kind: Kind, doc: &'static str) -> OptionSpec {
    OptionSpec { scope: Scope::Server, ..model(name, kind, doc) }
}

const fn program(name: &'static str, kind: Kind, doc: &'static str) -> OptionSpec {
    OptionSpec { scope: Scope::Program, ..model(name, kind, doc) }
}

impl OptionSpec {
    const fn or(self, default: &'static str) -> Self {
        OptionSpec { default: Some(default), ..self }
    }

    const fn absent(self, absent: &'static str) -> Self {
        OptionSpec { absent, ..self }
    }

    const fn unit(self, unit: &'static str) -> Self {
        OptionSpec { unit, ..self }
    }

    const fn secret(self) -> Self {
        OptionSpec { secret: true, ..self }
    }
}

const POSITIVE: Kind = Kind::Count { min: 1, max: u32::MAX as u64 };

/// Every option, in the order in which help and the start-up report show them.
pub const OPTIONS: &[OptionSpec] = &[
    program("config", Kind::Text, "TOML file with settings; flags and variables beat it"),
    program(
        "log-level",
        Kind::LogFilter,
        "What is logged: error, warn, info, debug, trace, or a filter such as server=debug",
    )
    .or("info"),
    program("log-format", Kind::Choice(&["text", "json"]), "How log lines look").or("text"),
    server("host", Kind::Text, "Address to listen on").or("127.0.0.1"),
    server("port", Kind::Count { min: 0, max: 65535 }, "Port to listen on; 0 takes a free one")
        .or("8000"),
    server(
        "served-model-name",
        Kind::List,
        "Names of the only model, of which replies carry the first; or one for each model, in their order",
    )
    .absent("the name given at start"),
    server(
        "api-key",
        Kind::List,
        "Keys that clients must present; without one every client is served",
    )
    .secret(),
    server(
        "cors-origin",
        Kind::List,
        "Origins whose pages may call the server from a browser, or *",
    ),
    model(
        "device",
        Kind::Choice(&["auto", "cpu", "cuda"]),
        "Where the model runs; cuda is the first GPU that CUDA_VISIBLE_DEVICES shows",
    )
    .or("auto"),
    model("max-model-len", POSITIVE, "Longest sequence, prompt and answer together")
        .unit("tokens")
        .absent("the model's own limit, or what fits"),
    model("max-num-seqs", POSITIVE, "Most sequences that one step advances")
        .unit("sequences")
        .or("64"),
    model("max-num-batched-tokens", POSITIVE, "Most token rows in one step")
        .unit("tokens")
        .or("2048"),
    model(
        "step-stretch",
        Kind::Times,
        "How many times as long as its decode rows alone a step may take that also takes in prompts; 0 has no bound: more tokens a second, and answers that falter when prompts come",
    )
    .or("2.5"),
    model("kv-memory", Kind::Bytes, "Memory for the key-value cache")
        .absent("decided from what is left"),
    model(
        "kv-offload-memory",
        Kind::Bytes,
        "Memory on the host for parts of a GPU's key-value cache that would be dropped, to be copied back when they are wanted again",
    )
    .or("0"),
    model("memory-fraction", Kind::Part, "Part of the device's memory that the model may take")
        .absent("0.9 of a GPU, all that is available on the cpu"),
    model(
        "kv-cache-dtype",
        Kind::Choice(&["auto", "bf16", "fp8"]),
        "Element type of the key-value cache; auto is the backend's own",
    )
    .or("auto"),
    model(
        "batch-invariant",
        Kind::Switch,
        "Have no answer depend on what is computed beside it, not in its last digit; slower on a GPU",
    )
    .or("false"),
    model("threads", POSITIVE, "Threads for a backend's work on the host")
        .absent("all cores"),
    model("no-prefix-cache", Kind::Switch, "Compute every prompt anew").or("false"),
    model(
        "speculate",
        Kind::Choice(&["none", "ngram"]),
        "Guess tokens and verify several in one step: ngram looks for what followed the text's end before; answers stay as they are",
    )
    .or("none"),
    model("speculative-tokens", POSITIVE, "Most tokens guessed at a time")
        .unit("tokens")
        .or("7"),
    model("prompt-lookup-min", POSITIVE, "Tokens that ngram wants to have occurred before, at least")
        .unit("tokens")
        .or("3"),
    model("prompt-lookup-max", POSITIVE, "Tokens that ngram compares, at most")
        .unit("tokens")
        .or("8"),
    model("max-queue", POSITIVE, "Most sequences that wait for their first step; more are refused")
        .unit("sequences")
        .or("1024"),
    model(
        "stall-after",
        Kind::Seconds,
        "Time without the end of a step, while there is work, after which /health answers 503",
    )
    .or("5"),
    model("chat-template", Kind::Text, "File with a chat template that replaces the checkpoint's")
        .absent("the checkpoint's"),
    model(
        "tool-call-parser",
        Kind::Text,
        "How calls of tools are told from text: hermes, llama3_json, mistral, gemma, harmony, or none",
    )
    .absent("as the chat template has it"),
    model(
        "reasoning-parser",
        Kind::Text,
        "How reasoning is told from text: qwen3, mistral, gemma, harmony, or none",
    )
    .absent("as the chat template has it"),
    model(
        "ignore-config-key",
        Kind::List,
        "Keys of config.json to pass over although their meaning is unknown",
    ),
    server("max-body", Kind::Bytes, "Largest request body; larger ones get 413").or("32MiB"),
    server("max-prompts", POSITIVE, "Most prompts in one completion request")
        .unit("prompts")
        .or("1024"),
    server("max-choices", POSITIVE, "Most answers that one request may ask for")
        .unit("answers")
        .or("128"),
    server("max-connections", POSITIVE, "Most connections at once; more wait to be accepted")
        .or("1024"),
    server("header-timeout", Kind::Seconds, "Time for a request's head to arrive").or("30"),
    server("body-timeout", Kind::Seconds, "Time for a request's body to arrive").or("60"),
    server("drain-timeout", Kind::Seconds, "Time for running requests to finish after SIGTERM")
        .or("30"),
    server(
        "fault-linger",
        Kind::Seconds,
        "Time for which /health answers 503 after the device failed, before the server ends with exit code 1",
    )
    .or("5"),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique_and_defaults_parse() {
        let mut seen = BTreeSet::new();
        for option in OPTIONS {
            assert!(seen.insert(option.name), "{} is there twice", option.name);
            assert!(!option.doc.ends_with('.'), "{}: help lines carry no full stop", option.name);
            if let Some(default) = option.default {
                assert!(option.kind.parse(default).is_ok(), "{}: {default}", option.name);
            }
            let spelled = option.name.chars().all(|c| c.is_ascii_lowercase() || c == '-');
            assert!(spelled, "{}: lower case and hyphens only", option.name);
        }
    }

    #[test]
    fn the_three_spellings_follow_from_the_name() {
        let option = find("max-queue").unwrap();
        assert_eq!(option.flag(), "--max-queue");
        assert_eq!(option.env(), "TOKENMILL_MAX_QUEUE");
        assert_eq!(option.key(), "max_queue");
    }
}
