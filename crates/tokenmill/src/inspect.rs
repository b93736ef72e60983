//! What a checkpoint is and what it needs, from its files alone.

use std::path::PathBuf;

use foundation::model::ModelManifest;
use models::{
    Finding, ModelLayout, ModelMetadata, Severity, Survey, TaskExecutionPlan,
    catalog::TensorInfo,
    generation::GenerationDefaults,
    prompt::{ChatTemplate, PromptError, Tokenizer},
    semantic::{Activation, FeedForward, GatedMlpSpec, LayerSpec, Mixer, RouterScores},
};
use runtime::backend::{Backend, LoadError, LoadOptions, MemoryPlan};
use serde::Serialize;

use crate::{
    backends::{self, Backends},
    error::Result,
    options::ModelOptions,
};

/// What a checkpoint is, what it needs, and who can run it. Everything wrong with it is listed at once.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct InspectReport {
    /// The checkpoint directory.
    pub path: PathBuf,
    /// What the files say, as far as they can be understood (see `findings`).
    pub model: Option<ModelSummary>,
    /// What is there beside the weights; absent where the directory itself cannot be read.
    pub files: Option<FileSummary>,
    /// Tensors that are there and that no weight of the model is read from.
    pub unread: Vec<TensorSummary>,
    /// What each backend says; nobody is asked about a checkpoint with findings.
    pub backends: Vec<BackendReport>,
    /// Everything that is wrong with the checkpoint, a line each.
    pub findings: Vec<String>,
    /// What is worth knowing although nothing is wrong: something passed over, something odd.
    pub notes: Vec<String>,
}

/// What a checkpoint is. What its files do not say, or say wrongly, is absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ModelSummary {
    /// The class that the configuration names: `LlamaForCausalLM`.
    pub architecture: Option<String>,
    /// The configuration's `model_type`.
    pub model_type: Option<String>,
    /// What it is for: `generation`, `embedding`, `sequence scoring`.
    pub task: Option<String>,
    /// Element type of most weights.
    pub dtype: Option<String>,
    /// Number of weights; absent where a weight file cannot be read.
    pub parameters: Option<u64>,
    /// Bytes of all weights on disk; absent where a weight file cannot be read.
    pub weight_bytes: Option<u64>,
    /// Longest sequence the checkpoint was made for, in tokens.
    pub max_positions: Option<usize>,
    /// Entries of the vocabulary.
    pub vocab_size: Option<usize>,
    /// Width of the residual stream.
    pub hidden_size: Option<usize>,
    /// Number of layers.
    pub layer_count: Option<usize>,
    /// Runs of like layers: count and meaning. Empty where the configuration cannot be understood.
    pub layers: Vec<LayerSummary>,
}

/// Layers that are alike.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LayerSummary {
    /// How many of them.
    pub count: usize,
    /// What they are, for people: `attention 32/8 x 128, window 4096; dense 14336 silu`.
    pub meaning: String,
}

/// A tensor by its header.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TensorSummary {
    /// Its name in the checkpoint.
    pub name: String,
    /// Element type.
    pub dtype: String,
    /// Shape, row-major.
    pub shape: Vec<usize>,
    /// Bytes.
    pub bytes: u64,
}

/// Files beside the weights.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FileSummary {
    /// Weight files.
    pub weights: usize,
    /// There is a tokenizer.
    pub tokenizer: bool,
    /// There is a chat template.
    pub chat_template: bool,
    /// There is a `generation_config.json`.
    pub generation_config: bool,
}

/// What a backend says about a checkpoint.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BackendReport {
    /// The backend: `cpu`, `cuda`.
    pub backend: String,
    /// This machine has a device for it.
    pub is_here: bool,
    /// It can run the model.
    pub admitted: bool,
    /// What it would take.
    pub memory: Option<MemoryReport>,
    /// Why not: no device, operations that the backend lacks, memory that is missing; and of a backend without a device, what
    /// the model would need there.
    pub problems: Vec<String>,
}

/// What a model takes on a backend, in bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MemoryReport {
    /// Weights as the backend keeps them.
    pub weights: u64,
    /// Of the weights, how much is mapped from the file and not copied.
    pub mapped: u64,
    /// Activations and scratch.
    pub workspace: u64,
    /// KV blocks.
    pub kv: u64,
    /// Weights and workspace.
    pub need_without_kv: u64,
    /// Weights, workspace and KV blocks.
    pub need: u64,
    /// KV of one token.
    pub kv_per_token: u64,
    /// Tokens that the KV blocks hold.
    pub kv_tokens: usize,
    /// Of the host's memory, for KV blocks that leave the device.
    pub host_kv: u64,
    /// Longest sequence that will be served, in tokens.
    pub max_sequence_tokens: usize,
    /// What the device has for all of this.
    pub available: u64,
}

impl InspectReport {
    /// Some backend can run the model.
    pub fn runs(&self) -> bool {
        self.backends.iter().any(|backend| backend.admitted)
    }
}

/// Inspects a checkpoint with every backend of this build. `reference` is a directory or ORG/NAME in the hub cache.
///
/// An unreadable or unfit checkpoint is no error but a report with findings; an error means that nothing was found there.
pub fn inspect(reference: &str, options: &ModelOptions) -> Result<InspectReport> {
    crate::Library::new(crate::LibraryOptions::default())?.inspect(reference, options)
}

/// What `manifest` names, as each of `backends` sees it.
pub(crate) fn report(
    manifest: &ModelManifest,
    options: &ModelOptions,
    backends: &Backends,
) -> InspectReport {
    let survey = Survey::of(manifest);
    let usable = !survey.findings.has_errors();
    let found = survey.findings.clone().into_result();
    let mut findings = found.unwrap_or_else(models::Error::into_findings);
    let files = survey.layout.as_ref().map(|layout| file_summary(layout, &survey, &mut findings));
    let (wrong, notes): (Vec<_>, Vec<_>) =
        findings.into_iter().partition(|finding| finding.severity == Severity::Error);
    let asks = options.load_options();
    // A checkpoint that cannot be read gets no second list of the same findings from each backend.
    let backends = match usable {
        true => ask_all(backends, manifest, &asks),
        false => Vec::new(),
    };
    InspectReport {
        path: survey.layout.as_ref().map_or(&manifest.path, |layout| &layout.root).clone(),
        model: survey.metadata.as_ref().map(|metadata| summary(metadata, &survey)),
        files,
        unread: unread(&survey),
        backends,
        findings: wrong.iter().map(Finding::to_string).collect(),
        notes: notes.iter().map(Finding::to_string).collect(),
    }
}

fn unread(survey: &Survey) -> Vec<TensorSummary> {
    let decoder = survey.task.as_ref().and_then(TaskExecutionPlan::decoder);
    let tensors = decoder.zip(survey.catalog.as_ref());
    let tensors = tensors.map(|(decoder, catalog)| decoder.unread(catalog)).unwrap_or_default();
    let summary = |tensor: &TensorInfo| TensorSummary {
        name: tensor.name.clone(),
        dtype: tensor.dtype.name().to_lowercase(),
        shape: tensor.shape.clone(),
        bytes: tensor.region.bytes,
    };
    tensors.into_iter().map(summary).collect()
}

fn ask_all(
    backends: &Backends,
    manifest: &ModelManifest,
    options: &LoadOptions,
) -> Vec<BackendReport> {
    let here = backends.found().iter().map(|backend| ask(backend.as_ref(), manifest, options));
    let absent = backends.no_cuda().map(|reason| BackendReport {
        backend: "cuda".to_owned(),
        is_here: false,
        admitted: false,
        memory: None,
        problems: [vec![reason.to_owned()], backends::what_cuda_would_say(manifest, options)]
            .concat(),
    });
    here.chain(absent).collect()
}

fn ask(backend: &dyn Backend, manifest: &ModelManifest, options: &LoadOptions) -> BackendReport {
    let (memory, problems) = match backend.admit(manifest, options) {
        Ok(plan) => (Some(MemoryReport::from(&plan)), Vec::new()),
        Err(error) => (None, problems(&error)),
    };
    BackendReport {
        backend: backend.name().to_owned(),
        is_here: true,
        admitted: memory.is_some(),
        memory,
        problems,
    }
}

/// What is wrong, one by one.
pub(crate) fn problems(error: &LoadError) -> Vec<String> {
    match error {
        LoadError::MissingCapability(missing) => missing.iter().map(ToString::to_string).collect(),
        error => vec![error.to_string()],
    }
}

/// What lies beside the weights. The text files are read as a load would read them, so that what is wrong with them is
/// found here.
fn file_summary(layout: &ModelLayout, survey: &Survey, findings: &mut Vec<Finding>) -> FileSummary {
    let mut absorb = |subject: &str, error: PromptError| {
        // Several files lean on the configuration: that it cannot be read is told once.
        let message = error.to_string();
        if !findings.iter().any(|finding| finding.to_string() == message) {
            findings.push(Finding::error(subject, message));
        }
    };
    let tokenizer = Tokenizer::from_dir(&layout.root).unwrap_or_else(|error| {
        absorb("tokenizer.json", error);
        None
    });
    let template = tokenizer.as_ref().and_then(|tokenizer| {
        ChatTemplate::from_dir(&layout.root, tokenizer).unwrap_or_else(|error| {
            absorb("chat template", error);
            None
        })
    });
    let rows = survey.metadata.as_ref().and_then(|metadata| metadata.vocab_size);
    match GenerationDefaults::from_dir(&layout.root) {
        Ok(defaults) => findings.extend(defaults.within(rows.unwrap_or(usize::MAX)).findings),
        Err(error) => absorb("generation_config.json", error.into()),
    }
    findings.extend(tokenizer.as_ref().and_then(|tokenizer| strange_tokens(tokenizer, survey)));
    FileSummary {
        weights: layout.weights.len(),
        tokenizer: tokenizer.is_some(),
        chat_template: template.is_some(),
        generation_config: layout.generation_config.is_some(),
    }
}

/// That the tokenizer knows more tokens than the model has rows.
fn strange_tokens(tokenizer: &Tokenizer, survey: &Survey) -> Option<Finding> {
    let (tokens, rows) = (tokenizer.vocab_size(), survey.metadata.as_ref()?.vocab_size?);
    let message = format!("has {tokens} tokens, but the model's vocabulary has {rows}");
    let finding = Finding::warning("tokenizer.json", message);
    (tokens > rows).then(|| finding.hint("prompts with a token beyond are refused"))
}

fn summary(metadata: &ModelMetadata, survey: &Survey) -> ModelSummary {
    let decoder = survey.task.as_ref().and_then(TaskExecutionPlan::decoder);
    let layers = decoder.map(|decoder| decoder.semantic.layers.as_slice()).unwrap_or_default();
    let named = |name: &String| Some(name.clone()).filter(|name| !name.is_empty());
    ModelSummary {
        architecture: named(&metadata.architecture),
        model_type: named(&metadata.model_type),
        task: metadata.task.map(str::to_owned),
        dtype: metadata.dtype.map(|dtype| dtype.name().to_lowercase()),
        parameters: metadata.parameters,
        weight_bytes: metadata.weight_bytes.map(|bytes| bytes.0),
        max_positions: metadata.max_positions,
        vocab_size: metadata.vocab_size,
        hidden_size: metadata.hidden_size,
        layer_count: metadata.layers,
        layers: layer_summaries(layers),
    }
}

/// Kinds of layers in the order in which they first appear.
fn layer_summaries(layers: &[LayerSpec]) -> Vec<LayerSummary> {
    let mut summaries: Vec<LayerSummary> = Vec::new();
    for meaning in layers.iter().map(describe) {
        match summaries.iter_mut().find(|summary| summary.meaning == meaning) {
            Some(summary) => summary.count += 1,
            None => summaries.push(LayerSummary { count: 1, meaning }),
        }
    }
    summaries
}

fn describe(layer: &LayerSpec) -> String {
    let Mixer::Attention(attention) = &layer.mixer;
    let reach = attention.window.map_or("all tokens".to_owned(), |w| format!("window of {w}"));
    let norm = attention.qk_norm.map_or("", |_| ", normed queries and keys");
    let cap = attention.softcap.map_or(String::new(), |cap| format!(", scores capped at {cap}"));
    let bias = if attention.qkv_bias { ", biases" } else { "" };
    format!(
        "attention of {} heads on {} of {}, {reach}{norm}{cap}{bias}; {}",
        attention.heads,
        attention.kv_heads,
        attention.head_dim,
        describe_feed_forward(&layer.feed_forward),
    )
}

fn describe_feed_forward(feed_forward: &FeedForward) -> String {
    let routed = match feed_forward {
        FeedForward::Dense(mlp) => return format!("dense {}", describe_mlp(mlp)),
        FeedForward::Routed(routed) => routed,
    };
    let scores = match routed.router.scores {
        RouterScores::Softmax => "softmax",
        RouterScores::Sigmoid => "sigmoid",
    };
    let groups = routed
        .router
        .groups
        .map_or(String::new(), |groups| format!(", of {} of {} groups", groups.kept, groups.count));
    let shared = routed
        .shared
        .map_or(String::new(), |shared| format!(", and {} for all", describe_mlp(&shared.mlp)));
    format!(
        "{} of {} experts of {} by {scores}{groups}{shared}",
        routed.per_token,
        routed.experts,
        describe_mlp(&routed.expert),
    )
}

fn describe_mlp(mlp: &GatedMlpSpec) -> String {
    format!("{} ({})", mlp.intermediate_size, activation_name(mlp.activation))
}

fn activation_name(activation: Activation) -> &'static str {
    match activation {
        Activation::Silu => "silu",
        Activation::GeluTanh => "gelu, tanh form",
        Activation::GeluErf => "gelu",
    }
}

impl From<&MemoryPlan> for MemoryReport {
    fn from(plan: &MemoryPlan) -> Self {
        let tokens = plan.kv.0.checked_div(plan.kv_per_token.0).unwrap_or(0);
        let fixed = plan.weights.0.saturating_add(plan.workspace.0);
        MemoryReport {
            weights: plan.weights.0,
            mapped: plan.mapped.0,
            workspace: plan.workspace.0,
            kv: plan.kv.0,
            need_without_kv: fixed,
            need: fixed.saturating_add(plan.kv.0),
            kv_per_token: plan.kv_per_token.0,
            host_kv: plan.host_kv.0,
            kv_tokens: usize::try_from(tokens).unwrap_or(usize::MAX),
            max_sequence_tokens: plan.max_sequence_tokens,
            available: plan.available.0,
        }
    }
}
