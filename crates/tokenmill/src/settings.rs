//! Effective settings: what holds, and why.

use std::time::Duration;

use foundation::{Bytes, DType};
use models::dialect::{CALL_PARSER, REASONING_PARSER, Selection};
use runtime::backend::{LoadOptions, MemoryPlan};
use serde::Serialize;

use crate::{
    device::DeviceChoice,
    options::{ModelOptions, Speculation},
};

/// Where a value came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The caller said so.
    Given,
    /// A file of the checkpoint says so (`generation_config.json`, `config.json`).
    Checkpoint,
    /// Nobody said anything.
    Default,
    /// Follows from the device or from other settings.
    Derived,
}

/// One setting in effect.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Setting {
    /// Its name: `device`, `max_sequence_tokens`, `temperature`.
    pub name: &'static str,
    /// Its value, for people.
    pub value: String,
    /// Where the value came from.
    pub origin: Origin,
    /// Why it is so, where the origin alone does not say.
    pub why: String,
}

/// Where a value came from, with the words for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provenance {
    /// Where from.
    pub origin: Origin,
    /// Why it is so, where the origin alone does not say: `flag --max-num-seqs`, `the device's share`.
    pub why: String,
}

impl Provenance {
    /// From `origin`, because of `why`.
    pub fn new(origin: Origin, why: impl Into<String>) -> Self {
        Provenance { origin, why: why.into() }
    }

    fn built_in() -> Self {
        Provenance::new(Origin::Default, "built in")
    }

    fn of(self, name: &'static str, value: impl Into<String>) -> Setting {
        Setting { name, value: value.into(), origin: self.origin, why: self.why }
    }
}

impl ModelOptions {
    /// The same with every gap filled for which there is a built-in value.
    pub fn with_defaults(self) -> Self {
        let (load, engine) = (self.load_options(), self.engine_options());
        ModelOptions {
            max_step_sequences: Some(load.max_step_sequences),
            max_step_tokens: Some(load.max_step_tokens),
            kv_offload_memory: Some(load.kv_offload_memory.unwrap_or_default()),
            max_queue: Some(engine.max_queue),
            stall_after: Some(engine.stall_after),
            step_stretch: Some(engine.step_stretch.map_or(0.0, |stretch| stretch as f32)),
            prefix_cache: Some(engine.prefix_cache),
            batch_invariant: Some(load.batch_invariant),
            speculation: Some(self.speculation.unwrap_or(Speculation::Off)),
            speculative_tokens: Some(self.guesses()),
            prompt_lookup_min: Some(self.lookup().0),
            prompt_lookup_max: Some(self.lookup().1),
            ..self
        }
    }

    /// Where the value of a field that is there came from: as the caller noted it, else simply from the caller.
    fn provenance_of(&self, field: &str) -> Provenance {
        let noted = self.provenance.get(field).cloned();
        noted.unwrap_or_else(|| Provenance::new(Origin::Given, ""))
    }
}

/// What is known of a model once it is loaded.
pub(crate) struct Loaded<'a> {
    /// How it was asked for.
    pub options: &'a ModelOptions,
    /// The same with every gap filled.
    pub load: &'a LoadOptions,
    /// Requests that may wait.
    pub max_queue: usize,
    /// Time without the end of a step after which the engine counts as stalled.
    pub stall_after: Duration,
    /// Whether prefixes are kept.
    pub prefix_cache: bool,
    /// What the backend planned.
    pub memory: &'a MemoryPlan,
    /// Element type of the KV cache.
    pub kv_dtype: DType,
    /// The longest sequence the checkpoint was made for, in tokens.
    pub made_for: Option<usize>,
    /// Whether the model has a chat template.
    pub has_template: bool,
    /// How answers to chats are read.
    pub dialect: Selection,
}

impl Loaded<'_> {
    /// What holds, and why: every option of a model that shapes how it runs.
    pub fn settings(&self) -> Vec<Setting> {
        let mut settings = self.numbers();
        settings.extend(self.speculation());
        settings.push(self.chat_template());
        settings.extend(self.parsers());
        let ignored = &self.options.ignored_config_keys;
        if !ignored.is_empty() {
            let name = "ignored_config_keys";
            settings.push(self.options.provenance_of(name).of(name, ignored.join(", ")));
        }
        settings
    }

    fn numbers(&self) -> Vec<Setting> {
        let number = |name, field: Option<usize>, value: usize| {
            self.given_or(name, field.is_some(), Provenance::built_in()).of(name, value.to_string())
        };
        let options = self.options;
        vec![
            self.max_sequence_tokens(),
            number("max_step_sequences", options.max_step_sequences, self.load.max_step_sequences),
            number("max_step_tokens", options.max_step_tokens, self.load.max_step_tokens),
            self.kv_memory(),
            self.kv_offload_memory(),
            self.memory_fraction(),
            self.kv_dtype(),
            self.given_or(
                "batch_invariant",
                options.batch_invariant.is_some(),
                Provenance::built_in(),
            )
            .of("batch_invariant", self.load.batch_invariant.to_string()),
            self.threads(),
            self.step_stretch(),
            number("max_queue", options.max_queue, self.max_queue),
            self.given_or("stall_after", options.stall_after.is_some(), Provenance::built_in())
                .of("stall_after", format!("{} s", self.stall_after.as_secs_f64())),
            self.given_or("prefix_cache", options.prefix_cache.is_some(), Provenance::built_in())
                .of("prefix_cache", self.prefix_cache.to_string()),
        ]
    }

    fn speculation(&self) -> [Setting; 4] {
        let options = self.options;
        let (shortest, longest) = options.lookup();
        let setting = |name, given: bool, value: String| {
            self.given_or(name, given, Provenance::built_in()).of(name, value)
        };
        let who = options.speculation.unwrap_or(Speculation::Off).name().to_owned();
        let count = |name, field: Option<usize>, value: usize| {
            setting(name, field.is_some(), value.to_string())
        };
        [
            setting("speculation", options.speculation.is_some(), who),
            count("speculative_tokens", options.speculative_tokens, options.guesses()),
            count("prompt_lookup_min", options.prompt_lookup_min, shortest),
            count("prompt_lookup_max", options.prompt_lookup_max, longest),
        ]
    }

    fn given_or(&self, field: &str, given: bool, otherwise: Provenance) -> Provenance {
        if given { self.options.provenance_of(field) } else { otherwise }
    }

    fn step_stretch(&self) -> Setting {
        let name = "step_stretch";
        let given = self.options.step_stretch;
        let stretch = self.options.engine_options().step_stretch;
        let value = stretch.map_or("no bound".to_owned(), |stretch| format!("{stretch} times"));
        self.given_or(name, given.is_some(), Provenance::built_in()).of(name, value)
    }

    fn max_sequence_tokens(&self) -> Setting {
        let (name, served) = ("max_sequence_tokens", self.memory.max_sequence_tokens);
        let provenance = match self.options.max_sequence_tokens {
            Some(asked) if asked == served => self.options.provenance_of(name),
            _ if self.made_for == Some(served) => Provenance::new(
                Origin::Checkpoint,
                "config.json: the longest sequence it was made for",
            ),
            _ => Provenance::new(
                Origin::Derived,
                format!(
                    "what the memory for KV blocks holds{}",
                    self.made_for.map_or(String::new(), |most| format!(", of at most {most}"))
                ),
            ),
        };
        provenance.of(name, served.to_string())
    }

    /// The cache takes what it may, or what all sequences together can fill, whichever is less.
    fn kv_memory(&self) -> Setting {
        let (name, memory) = ("kv_memory", self.memory);
        let (sequences, length) = (self.load.max_step_sequences, memory.max_sequence_tokens);
        let most = length.div_ceil(memory.block_size.max(1)).saturating_mul(sequences);
        let is_full = memory.kv_blocks.iter().max().is_some_and(|blocks| *blocks >= most);
        let provenance = match self.options.kv_memory {
            Some(allowed) if is_full => Provenance::new(
                Origin::Derived,
                format!(
                    "{sequences} sequences of {length} tokens fill no more; {allowed} were allowed"
                ),
            ),
            Some(_) => self.options.provenance_of(name),
            None if is_full => Provenance::new(
                Origin::Derived,
                format!("{sequences} sequences of {length} tokens fill no more"),
            ),
            None => Provenance::new(
                Origin::Derived,
                format!("the backend's share of {} available", memory.available),
            ),
        };
        provenance.of(name, format!("{} ({} a token)", memory.kv, memory.kv_per_token))
    }

    /// As many whole blocks as fit.
    fn kv_offload_memory(&self) -> Setting {
        let (name, given) = ("kv_offload_memory", self.options.kv_offload_memory.is_some());
        let provenance = self.given_or(name, given, Provenance::built_in());
        let tokens = self.memory.host_kv.0.checked_div(self.memory.kv_per_token.0).unwrap_or(0);
        match self.memory.host_kv {
            Bytes(0) => provenance.of(name, "0"),
            memory => provenance.of(name, format!("{memory} (some {tokens} tokens)")),
        }
    }

    fn memory_fraction(&self) -> Setting {
        let (name, available) = ("memory_fraction", self.memory.available);
        match self.options.memory_fraction {
            Some(part) => self.options.provenance_of(name).of(name, part.to_string()),
            None => Provenance::new(Origin::Derived, "the backend's share")
                .of(name, format!("{available} available")),
        }
    }

    fn kv_dtype(&self) -> Setting {
        let (name, value) = ("kv_dtype", self.kv_dtype.name().to_lowercase());
        let own = Provenance::new(Origin::Derived, "the backend's own");
        self.given_or(name, self.options.kv_dtype.is_some(), own).of(name, value)
    }

    fn threads(&self) -> Setting {
        let value = self.options.threads.map_or("all cores".to_owned(), |count| count.to_string());
        let given = self.options.threads.is_some();
        self.given_or("threads", given, Provenance::built_in()).of("threads", value)
    }

    fn chat_template(&self) -> Setting {
        let name = "chat_template";
        let checkpoint = |why: &str| Provenance::new(Origin::Checkpoint, why);
        match &self.options.chat_template {
            Some(file) => self.options.provenance_of(name).of(name, file.display().to_string()),
            None if self.has_template => checkpoint("").of(name, "the checkpoint's"),
            None => checkpoint("it has none").of(name, "none"),
        }
    }

    fn parsers(&self) -> [Setting; 2] {
        let setting = |name, given: bool, parser: Option<&str>| {
            let (origin, why) = match parser {
                Some(_) => (Origin::Checkpoint, "its chat template has the model write so"),
                None => (Origin::Derived, "the chat template tells of none that is known"),
            };
            let provenance = self.given_or(name, given, Provenance::new(origin, why));
            provenance.of(name, parser.unwrap_or("none"))
        };
        let (options, dialect) = (self.options, &self.dialect);
        [
            setting(CALL_PARSER, options.tool_call_parser.is_some(), dialect.call_parser()),
            setting(
                REASONING_PARSER,
                options.reasoning_parser.is_some(),
                dialect.reasoning_parser(),
            ),
        ]
    }
}

/// The setting that tells which device was chosen: `backend`, because of `why` where nobody named one.
pub(crate) fn device(
    choice: DeviceChoice,
    backend: &str,
    why: String,
    options: &ModelOptions,
) -> Setting {
    let provenance = match choice {
        DeviceChoice::Auto => Provenance::new(Origin::Derived, why),
        _ => options.provenance_of("device"),
    };
    provenance.of("device", backend)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(length: usize, blocks: usize) -> MemoryPlan {
        MemoryPlan {
            weights: Bytes(1),
            mapped: Bytes(0),
            workspace: Bytes(1),
            kv: Bytes::mib(1),
            kv_per_token: Bytes(64),
            kv_blocks: vec![blocks],
            host_kv: Bytes(0),
            host_blocks: vec![0],
            block_size: 16,
            max_sequence_tokens: length,
            available: Bytes::mib(8),
        }
    }

    fn told(options: &ModelOptions, memory: &MemoryPlan, name: &str) -> (String, Origin, String) {
        let loaded = Loaded {
            options,
            load: &options.load_options(),
            max_queue: 256,
            stall_after: Duration::from_secs(5),
            prefix_cache: true,
            memory,
            kv_dtype: DType::F32,
            made_for: Some(128),
            has_template: true,
            dialect: Selection::new(
                Some("<tool_call>"),
                options.tool_call_parser.as_deref(),
                options.reasoning_parser.as_deref(),
            )
            .unwrap(),
        };
        let found = loaded.settings().into_iter().find(|setting| setting.name == name);
        let Setting { value, origin, why, .. } = found.unwrap();
        (value, origin, why)
    }

    #[test]
    fn what_nobody_gave_is_no_given_value() {
        let plan = plan(128, 8);
        for setting in [
            "max_step_sequences",
            "max_step_tokens",
            "step_stretch",
            "threads",
            "max_queue",
            "stall_after",
            "kv_offload_memory",
            "prefix_cache",
            "batch_invariant",
            "speculation",
            "speculative_tokens",
            "prompt_lookup_min",
            "prompt_lookup_max",
        ] {
            let (_, origin, why) = told(&ModelOptions::default(), &plan, setting);
            assert_eq!((origin, why.as_str()), (Origin::Default, "built in"), "{setting}");
        }
    }

    #[test]
    fn the_callers_word_on_where_a_value_came_from_stands() {
        let plan = plan(128, 8);
        let mut options = ModelOptions {
            max_step_sequences: Some(4),
            prefix_cache: Some(true),
            threads: Some(2),
            ..ModelOptions::default()
        };
        options
            .provenance
            .insert("max_step_sequences", Provenance::new(Origin::Given, "flag --max-num-seqs"));
        options.provenance.insert("prefix_cache", Provenance::built_in());
        let origin = |name: &str| told(&options, &plan, name);
        assert_eq!(
            origin("max_step_sequences"),
            ("4".to_owned(), Origin::Given, "flag --max-num-seqs".to_owned())
        );
        assert_eq!(origin("prefix_cache").1, Origin::Default);
        assert_eq!(origin("threads"), ("2".to_owned(), Origin::Given, String::new()));
    }

    #[test]
    fn what_lies_on_the_host_is_told_in_tokens_too() {
        let asked = ModelOptions { kv_offload_memory: Some(Bytes::mib(2)), ..Default::default() };
        let plan = MemoryPlan { host_kv: Bytes::mib(1), ..plan(128, 8) };
        let (value, origin, _) = told(&asked, &plan, "kv_offload_memory");
        assert_eq!((value.as_str(), origin), ("1.0 MiB (some 16384 tokens)", Origin::Given));
    }

    #[test]
    fn a_length_is_asked_for_or_the_checkpoints_or_what_fits() {
        let asked = ModelOptions { max_sequence_tokens: Some(64), ..ModelOptions::default() };
        let none = ModelOptions::default();
        let origin = |options, length| told(options, &plan(length, 8), "max_sequence_tokens").1;
        assert_eq!(origin(&asked, 64), Origin::Given);
        assert_eq!(origin(&none, 128), Origin::Checkpoint);
        assert_eq!(origin(&none, 96), Origin::Derived);
    }

    #[test]
    fn the_cache_has_the_type_that_was_asked_for_or_the_backends_own() {
        let plan = plan(128, 8);
        let asked = ModelOptions { kv_dtype: Some(DType::F32), ..ModelOptions::default() };
        assert_eq!(told(&asked, &plan, "kv_dtype").1, Origin::Given);
        let (value, origin, _) = told(&ModelOptions::default(), &plan, "kv_dtype");
        assert_eq!((value.as_str(), origin), ("f32", Origin::Derived));
        let part = ModelOptions { memory_fraction: Some(0.5), ..ModelOptions::default() };
        assert_eq!(told(&part, &plan, "memory_fraction").0, "0.5");
        let (value, origin, _) = told(&ModelOptions::default(), &plan, "memory_fraction");
        assert_eq!((value.as_str(), origin), ("8.0 MiB available", Origin::Derived));
    }

    #[test]
    fn parsers_are_given_or_told_by_the_template() {
        let plan = plan(128, 8);
        let (calls, origin, _) = told(&ModelOptions::default(), &plan, "tool_call_parser");
        assert_eq!((calls.as_str(), origin), ("hermes", Origin::Checkpoint));
        let (reasoning, origin, _) = told(&ModelOptions::default(), &plan, "reasoning_parser");
        assert_eq!((reasoning.as_str(), origin), ("none", Origin::Derived));
        let asked =
            ModelOptions { tool_call_parser: Some("none".into()), ..ModelOptions::default() };
        let (calls, origin, _) = told(&asked, &plan, "tool_call_parser");
        assert_eq!((calls.as_str(), origin), ("none", Origin::Given));
    }

    #[test]
    fn cache_memory_is_given_only_where_it_is_what_was_given() {
        let asked = ModelOptions { kv_memory: Some(Bytes::mib(2)), ..ModelOptions::default() };
        // 64 sequences of 128 tokens are 512 blocks of 16.
        let (_, origin, why) = told(&asked, &plan(128, 512), "kv_memory");
        assert_eq!(origin, Origin::Derived);
        assert!(why.contains("64 sequences of 128") && why.contains("2.0 MiB"), "{why}");
        assert_eq!(told(&asked, &plan(128, 511), "kv_memory").1, Origin::Given);
        let (_, origin, why) = told(&ModelOptions::default(), &plan(128, 511), "kv_memory");
        assert_eq!(origin, Origin::Derived);
        assert!(why.contains("8.0 MiB available"), "{why}");
    }
}
