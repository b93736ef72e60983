//! Loading: from a manifest to a model that answers.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

use foundation::{Bytes, model::ModelManifest};
use models::{
    Checkpoint, DecoderExecutionContract,
    dialect::{CALL_PARSER, REASONING_PARSER, Selection},
    generation::GenerationDefaults,
    prompt::{ChatTemplate, PromptError, Tokenizer},
};
use runtime::{
    backend::{Backend, LoadError, LoadOptions, MemoryPlan},
    engine::{Engine, EngineOptions},
    progress::ProgressEvent,
    speculation::{Method, PaceLimits, SpeculationOptions},
};

use crate::{
    constrain::LazyVocabulary,
    error::{Error, Result},
    model::{Model, ModelInfo, ModelParts},
    options::{ModelOptions, Speculation},
    settings::{Loaded, Setting},
};

/// Longest chat template, in bytes.
const MAX_TEMPLATE: u64 = 1 << 20;
/// Most threads for a backend that computes on the host: beyond any such machine, and few enough to start at once.
const MAX_THREADS: usize = 1024;

/// A checkpoint whose small files have been read: what is wrong with them is known before weights move.
pub(crate) struct Opened {
    checkpoint: Checkpoint,
    files: TextFiles,
}

/// Reads everything of `manifest` but its weights. Needs no device.
pub(crate) fn open(
    manifest: &ModelManifest,
    options: &ModelOptions,
    progress: &mut dyn FnMut(ProgressEvent) -> bool,
) -> Result<Opened> {
    options.validate()?;
    let checkpoint = Checkpoint::open(manifest)
        .map_err(|error| load_error(&manifest.path, LoadError::Checkpoint(error.to_string())))?;
    // A large tokenizer takes seconds.
    prepare(progress, "reading the tokenizer")?;
    let files = TextFiles::read(&checkpoint.layout.root, options)?;
    Ok(Opened { checkpoint, files })
}

/// Tells what comes next.
pub(crate) fn prepare(progress: &mut dyn FnMut(ProgressEvent) -> bool, detail: &str) -> Result<()> {
    match progress(ProgressEvent::Prepare { detail: detail.into() }) {
        true => Ok(()),
        false => Err(Error::Cancelled),
    }
}

/// Loads what was opened on `backend`.
pub(crate) fn load(
    opened: Opened,
    backend: &dyn Backend,
    manifest: &ModelManifest,
    options: &ModelOptions,
    device: Setting,
    progress: &mut dyn FnMut(ProgressEvent) -> bool,
) -> Result<Model> {
    let Opened { checkpoint, files } = opened;
    let failed = |source| load_error(&manifest.path, source);
    let load_options = options.load_options();
    let memory = backend.admit(manifest, &load_options).map_err(failed)?;
    let runner = backend.load(manifest, &load_options, progress).map_err(failed)?;
    let engine_options = options.engine_options();
    if let Some(speculation) = &engine_options.speculation {
        speculation.check(runner.spec()).map_err(|reason| failed(LoadError::Option(reason)))?;
    }
    let engine = Engine::start(runner, engine_options.clone());
    let info = model_info(&checkpoint, &engine, backend, &memory);
    let loaded = Loaded {
        options,
        load: &load_options,
        max_queue: engine_options.max_queue,
        stall_after: engine_options.stall_after,
        prefix_cache: engine_options.prefix_cache,
        memory: &memory,
        kv_dtype: engine.spec().kv_dtype,
        made_for: checkpoint.metadata.max_positions,
        has_template: files.template.is_some(),
        dialect: files.dialect,
    };
    let mut settings = vec![device];
    settings.extend(loaded.settings());
    warn_of_strange_tokens(manifest, files.tokenizer.as_ref(), info.vocab_size);
    let defaults = files.defaults.within(info.vocab_size);
    for finding in &defaults.findings {
        tracing::warn!(model = manifest.id.0.as_str(), "{finding}");
    }
    Ok(Model::new(ModelParts {
        id: manifest.id.clone(),
        path: checkpoint.layout.root,
        info,
        settings,
        memory,
        tokenizer: files.tokenizer,
        template: files.template,
        dialect: files.dialect,
        defaults,
        grammar: LazyVocabulary::new(),
        engine,
    }))
}

/// A tokenizer may know more tokens than the model has rows: prompts with such a token are refused one by one.
fn warn_of_strange_tokens(
    manifest: &ModelManifest,
    tokenizer: Option<&Tokenizer>,
    vocab_size: usize,
) {
    let tokens = tokenizer.map_or(0, Tokenizer::vocab_size);
    if tokens > vocab_size {
        let model = manifest.id.0.as_str();
        tracing::warn!(model, tokens, vocab_size, "the tokenizer has more tokens than the model");
    }
}

fn model_info(
    checkpoint: &Checkpoint,
    engine: &Engine,
    backend: &dyn Backend,
    memory: &MemoryPlan,
) -> ModelInfo {
    let metadata = &checkpoint.metadata;
    let contract = checkpoint.contract.as_ref();
    ModelInfo {
        architecture: metadata.architecture.clone(),
        model_type: metadata.model_type.clone(),
        dtype: metadata.dtype.map_or_else(String::new, |dtype| dtype.name().to_lowercase()),
        parameters: metadata.parameters.unwrap_or_default(),
        weight_bytes: metadata.weight_bytes.unwrap_or_default().0,
        step_bytes: contract.map_or(0, |contract| kept(contract, memory, contract.step_bytes())),
        expert_bytes: contract
            .map_or(0, |contract| kept(contract, memory, contract.expert_bytes())),
        expert_share: contract.map_or(0.0, DecoderExecutionContract::expert_share),
        vocab_size: engine.spec().vocab_size,
        max_sequence_tokens: engine.max_sequence_tokens(),
        device: backend.name().to_owned(),
        device_info: backend.device(),
    }
}

/// What `part` of the weights takes as the backend keeps it, which may be in a smaller type than the checkpoint has.
fn kept(contract: &DecoderExecutionContract, memory: &MemoryPlan, part: Bytes) -> u64 {
    let stored = contract.weight_bytes().0.max(1);
    let kept = u128::from(part.0) * u128::from(memory.weights.0) / u128::from(stored);
    part.0.min(u64::try_from(kept).unwrap_or(u64::MAX))
}

/// What is read of a checkpoint beside its weights.
struct TextFiles {
    tokenizer: Option<Tokenizer>,
    template: Option<ChatTemplate>,
    dialect: Selection,
    defaults: GenerationDefaults,
}

impl TextFiles {
    fn read(path: &Path, options: &ModelOptions) -> Result<Self> {
        let failed =
            |error: PromptError| load_error(path, LoadError::Checkpoint(error.to_string()));
        let tokenizer = Tokenizer::from_dir(path).map_err(failed)?;
        let template = match (&tokenizer, &options.chat_template) {
            (Some(tokenizer), Some(file)) => Some(read_template(file, tokenizer)?),
            (Some(tokenizer), None) => ChatTemplate::from_dir(path, tokenizer).map_err(failed)?,
            (None, Some(_)) => {
                return Err(Error::InvalidOption {
                    option: "chat_template",
                    message: format!("{} has no tokenizer to use it with", path.display()),
                });
            }
            (None, None) => None,
        };
        let dialect = select_dialect(template.as_ref(), options)?;
        let defaults = GenerationDefaults::from_dir(path).map_err(|error| failed(error.into()))?;
        let defaults = match options.generation_config {
            // Where the text ends is no matter of taste: the end tokens stay.
            Some(false) => GenerationDefaults {
                eos_token_ids: defaults.eos_token_ids,
                ..GenerationDefaults::default()
            },
            _ => defaults,
        };
        Ok(TextFiles { tokenizer, template, dialect, defaults })
    }
}

fn read_template(file: &Path, tokenizer: &Tokenizer) -> Result<ChatTemplate> {
    let failed = |reason: String| Error::InvalidOption {
        option: "chat_template",
        message: format!("{}: {reason}", file.display()),
    };
    let source = template_source(file).map_err(|error| failed(error.to_string()))?;
    ChatTemplate::new(&source, tokenizer).map_err(|error| failed(error.to_string()))
}

/// Not more than a template can have: the file may be a device that never ends.
fn template_source(file: &Path) -> io::Result<String> {
    let mut source = String::new();
    File::open(file)?.take(MAX_TEMPLATE + 1).read_to_string(&mut source)?;
    if source.len() as u64 > MAX_TEMPLATE {
        return Err(io::Error::other(format!("more than {}", Bytes(MAX_TEMPLATE))));
    }
    Ok(source)
}

fn select_dialect(template: Option<&ChatTemplate>, options: &ModelOptions) -> Result<Selection> {
    let source = template.map(|template| template.sources().collect::<Vec<_>>().join("\n"));
    let (calls, reasoning) = (&options.tool_call_parser, &options.reasoning_parser);
    Selection::new(source.as_deref(), calls.as_deref(), reasoning.as_deref()).map_err(|error| {
        let PromptError::Invalid { field, reason } = error else {
            return Error::Internal(error.to_string());
        };
        let option = if field == CALL_PARSER { CALL_PARSER } else { REASONING_PARSER };
        Error::InvalidOption { option, message: reason }
    })
}

fn load_error(path: &Path, source: LoadError) -> Error {
    match source {
        LoadError::Cancelled => Error::Cancelled,
        source => Error::Load { path: path.to_owned(), source },
    }
}

impl ModelOptions {
    /// Checks every value.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] for the first that may not be.
    pub fn validate(&self) -> Result<()> {
        let counts = [
            ("max_sequence_tokens", self.max_sequence_tokens),
            ("max_step_sequences", self.max_step_sequences),
            ("max_step_tokens", self.max_step_tokens),
            ("threads", self.threads),
            ("max_queue", self.max_queue),
            ("speculative_tokens", self.speculative_tokens),
            ("prompt_lookup_min", self.prompt_lookup_min),
            ("prompt_lookup_max", self.prompt_lookup_max),
        ];
        for (option, value) in counts {
            if value == Some(0) {
                let message = "0 is not allowed; at least 1".to_owned();
                return Err(Error::InvalidOption { option, message });
            }
        }
        self.check_step()?;
        self.check_threads()?;
        self.check_lookup()?;
        self.check_offload()?;
        self.check_stretch()?;
        self.check_memory()
    }

    /// Blocks are kept on the host for those that begin alike.
    fn check_offload(&self) -> Result<()> {
        match self.kv_offload_memory.unwrap_or_default() {
            Bytes(1..) if self.prefix_cache == Some(false) => Err(Error::InvalidOption {
                option: "kv_offload_memory",
                message: "without a prefix cache nothing that lies on the host is ever found again"
                    .to_owned(),
            }),
            _ => Ok(()),
        }
    }

    /// Every sequence of a step takes at least one of its token rows.
    fn check_step(&self) -> Result<()> {
        let tokens = self.load_options().max_step_tokens;
        match self.max_step_sequences.filter(|sequences| *sequences > tokens) {
            None => Ok(()),
            Some(sequences) => Err(Error::InvalidOption {
                option: "max_step_sequences",
                message: format!(
                    "{sequences} sequences need as many token rows, and a step has {tokens} \
                     (max_step_tokens)"
                ),
            }),
        }
    }

    fn check_lookup(&self) -> Result<()> {
        let (shortest, longest) = self.lookup();
        match shortest > longest {
            false => Ok(()),
            true => Err(Error::InvalidOption {
                option: "prompt_lookup_min",
                message: format!(
                    "{shortest} is more than the {longest} tokens that are compared \
                     (prompt_lookup_max)"
                ),
            }),
        }
    }

    /// Tokens at the end that prompt lookup compares, at least and at most.
    pub(crate) fn lookup(&self) -> (usize, usize) {
        let Method::Ngram { shortest, longest } = SpeculationOptions::default().method;
        (self.prompt_lookup_min.unwrap_or(shortest), self.prompt_lookup_max.unwrap_or(longest))
    }

    /// Most tokens guessed at a time.
    pub(crate) fn guesses(&self) -> usize {
        self.speculative_tokens.unwrap_or(PaceLimits::default().most)
    }

    fn speculation(&self) -> Option<SpeculationOptions> {
        self.speculation.filter(|speculation| *speculation != Speculation::Off)?;
        let (shortest, longest) = self.lookup();
        Some(SpeculationOptions {
            method: Method::Ngram { shortest, longest },
            pace: PaceLimits { most: self.guesses(), ..PaceLimits::default() },
            ..SpeculationOptions::default()
        })
    }

    fn check_threads(&self) -> Result<()> {
        match self.threads.filter(|threads| *threads > MAX_THREADS) {
            None => Ok(()),
            Some(threads) => Err(Error::InvalidOption {
                option: "threads",
                message: format!("{threads} are more than {MAX_THREADS}"),
            }),
        }
    }

    fn check_stretch(&self) -> Result<()> {
        match self
            .step_stretch
            .filter(|stretch| *stretch != 0.0 && (stretch.is_nan() || *stretch < 1.0))
        {
            None => Ok(()),
            Some(stretch) => Err(Error::InvalidOption {
                option: "step_stretch",
                message: format!("a step cannot be {stretch} times as long; at least 1, or 0"),
            }),
        }
    }

    fn check_memory(&self) -> Result<()> {
        match self.memory_fraction.filter(|part| !(*part > 0.0 && *part <= 1.0)) {
            None => Ok(()),
            Some(part) => Err(Error::InvalidOption {
                option: "memory_fraction",
                message: format!("{part} is no part of the memory; a number above 0, up to 1"),
            }),
        }
    }

    pub(crate) fn load_options(&self) -> LoadOptions {
        let built_in = LoadOptions::default();
        let max_step_tokens = self.max_step_tokens.unwrap_or(built_in.max_step_tokens);
        LoadOptions {
            max_sequence_tokens: self.max_sequence_tokens,
            max_step_sequences: self
                .max_step_sequences
                .unwrap_or(built_in.max_step_sequences.min(max_step_tokens)),
            max_step_tokens,
            kv_memory: self.kv_memory,
            kv_offload_memory: self.kv_offload_memory,
            memory_fraction: self.memory_fraction,
            kv_dtype: self.kv_dtype,
            draft_tokens: self.speculation().map_or(0, |speculation| speculation.pace.most),
            batch_invariant: self.batch_invariant.unwrap_or(built_in.batch_invariant),
            threads: self.threads,
        }
    }

    pub(crate) fn engine_options(&self) -> EngineOptions {
        let built_in = EngineOptions::default();
        EngineOptions {
            max_queue: self.max_queue.unwrap_or(built_in.max_queue),
            prefix_cache: self.prefix_cache.unwrap_or(built_in.prefix_cache),
            stall_after: self.stall_after.unwrap_or(built_in.stall_after),
            step_stretch: match self.step_stretch {
                None => built_in.step_stretch,
                Some(stretch) => (stretch > 0.0).then_some(f64::from(stretch)),
            },
            speculation: self.speculation(),
            ..built_in
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_that_cannot_be_are_refused_by_name() {
        let refused = |options: ModelOptions| match options.validate() {
            Err(Error::InvalidOption { option, .. }) => option,
            other => panic!("{other:?}"),
        };
        let base = ModelOptions::default;
        assert_eq!(refused(ModelOptions { max_queue: Some(0), ..base() }), "max_queue");
        assert_eq!(refused(ModelOptions { threads: Some(1025), ..base() }), "threads");
        let part = |part| ModelOptions { memory_fraction: Some(part), ..base() };
        assert_eq!(refused(part(0.0)), "memory_fraction");
        assert_eq!(refused(part(1.5)), "memory_fraction");
        assert!(part(1.0).validate().is_ok());
        let offload = ModelOptions { kv_offload_memory: Some(Bytes::gib(1)), ..base() };
        assert!(offload.validate().is_ok());
        let in_vain = ModelOptions { prefix_cache: Some(false), ..offload };
        assert_eq!(refused(in_vain.clone()), "kv_offload_memory");
        assert!(ModelOptions { kv_offload_memory: Some(Bytes(0)), ..in_vain }.validate().is_ok());
        let many = ModelOptions { max_step_sequences: Some(2049), ..base() };
        assert_eq!(refused(many.clone()), "max_step_sequences");
        assert!(ModelOptions { max_step_tokens: Some(2049), ..many }.validate().is_ok());
    }

    #[test]
    fn a_small_step_advances_as_many_sequences_as_it_has_rows() {
        let options = ModelOptions { max_step_tokens: Some(8), ..ModelOptions::default() };
        assert!(options.validate().is_ok());
        assert_eq!(options.load_options().max_step_sequences, 8);
        assert_eq!(ModelOptions::default().load_options().max_step_sequences, 64);
    }
}
