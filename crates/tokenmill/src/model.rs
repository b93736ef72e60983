//! A loaded model.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

use foundation::{Bytes, ModelId, TokenId};
use models::{
    dialect::Selection,
    generation::GenerationDefaults,
    prompt::{ChatTemplate, Rendered, Tokenizer},
};
use runtime::{
    backend::{DeviceInfo, MemoryPlan, RunnerSpec},
    engine::{Engine, EngineRequest, Health, MetricsSnapshot},
    sampling::{SamplingParams, SharedConstraint},
};
use serde::Serialize;

use crate::{
    chat::{ChatMessage, ChatOptions, ChatRequest},
    constrain::LazyVocabulary,
    error::{Error, Result},
    generation::{DialectRules, Generation, Lane, LaneRules, TextRules},
    options::GenerateOptions,
    prompt::Prompt,
    resolve::{ResolvedOptions, beyond, resolve},
    seed,
    session::{Session, SessionOptions},
    settings::Setting,
};

/// A loaded model. Clones share it; [`Library::unload`](crate::Library::unload), or the last clone dropped, frees it.
#[derive(Clone)]
pub struct Model {
    parts: Arc<ModelParts>,
}

/// What a model is made of.
pub(crate) struct ModelParts {
    pub id: ModelId,
    pub path: PathBuf,
    pub info: ModelInfo,
    pub settings: Vec<Setting>,
    pub memory: MemoryPlan,
    pub tokenizer: Option<Tokenizer>,
    pub template: Option<ChatTemplate>,
    pub dialect: Selection,
    pub defaults: GenerationDefaults,
    pub grammar: LazyVocabulary,
    pub engine: Engine,
}

/// What a loaded model is.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ModelInfo {
    /// The class that the configuration names: `LlamaForCausalLM`.
    pub architecture: String,
    /// The configuration's `model_type`.
    pub model_type: String,
    /// Element type of most weights.
    pub dtype: String,
    /// Number of weights.
    pub parameters: u64,
    /// Bytes of all weights on disk.
    pub weight_bytes: u64,
    /// Of these, what every step reads, however few its tokens: an embedding table that is no head, too, is left out, and experts.
    pub step_bytes: u64,
    /// Of all experts; 0 without any.
    pub expert_bytes: u64,
    /// The part of them that one token visits.
    pub expert_share: f64,
    /// Entries of the vocabulary; token ids are below it.
    pub vocab_size: usize,
    /// The longest sequence the model serves, prompt and output together, in tokens.
    pub max_sequence_tokens: usize,
    /// The backend that computes it: `cpu`, `cuda`.
    pub device: String,
    /// What that computes on; absent for the processor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_info: Option<DeviceInfo>,
}

impl ModelInfo {
    /// Bytes of weights that a step of `tokens` tokens reads at the least, experts being visited evenly.
    pub fn bytes_of_step(&self, tokens: u32) -> u64 {
        let untouched = (1.0 - self.expert_share).powf(f64::from(tokens));
        self.step_bytes + (self.expert_bytes as f64 * (1.0 - untouched)) as u64
    }
}

/// Why no prompt of several was taken in.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct PromptFailure {
    /// The prompt at fault, counted from 0; `None` where it is no single prompt's.
    pub prompt: Option<usize>,
    /// What is wrong.
    pub error: Error,
}

/// One prompt, ready to be submitted.
struct Start {
    prompt: Arc<[TokenId]>,
    rules: Arc<LaneRules>,
    seed: u64,
    /// One a choice.
    requests: Vec<EngineRequest>,
}

impl Model {
    pub(crate) fn new(parts: ModelParts) -> Self {
        Model { parts: Arc::new(parts) }
    }

    /// Continues a prompt. Refusals are immediate; everything later arrives through the [`Generation`].
    ///
    /// Text is tokenized on the caller's thread, which asynchronous code must keep off the threads of its runtime
    /// (`spawn_blocking`); a text that cannot fit is refused before.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`], [`Error::ContextLengthExceeded`], [`Error::NoTokenizer`] for what the caller must
    /// change; [`Error::Busy`], [`Error::Draining`] for what may work later; [`Error::Failed`] once the device has failed.
    pub fn generate(
        &self,
        prompt: impl Into<Prompt>,
        options: GenerateOptions,
    ) -> Result<Generation> {
        self.start_one(prompt.into(), &options, None)
    }

    /// Continues several prompts, each as [`generate`](Self::generate) would: either all are taken in or none is.
    ///
    /// # Errors
    /// Those of [`generate`](Self::generate), with the prompt at fault where it is one prompt's.
    pub fn generate_all(
        &self,
        prompts: Vec<Prompt>,
        options: GenerateOptions,
    ) -> std::result::Result<Vec<Generation>, PromptFailure> {
        self.start_all(prompts, &options, None)
    }

    fn start_one(
        &self,
        prompt: Prompt,
        options: &GenerateOptions,
        dialect: Option<DialectRules>,
    ) -> Result<Generation> {
        let started = self.start_all(vec![prompt], options, dialect);
        let mut generations = started.map_err(|failure| failure.error)?;
        Ok(generations.pop().expect("a generation for each prompt"))
    }

    fn start_all(
        &self,
        prompts: Vec<Prompt>,
        options: &GenerateOptions,
        dialect: Option<DialectRules>,
    ) -> std::result::Result<Vec<Generation>, PromptFailure> {
        let of_all = |error| PromptFailure { prompt: None, error };
        let resolved = self.resolve(options).map_err(of_all)?;
        let constraint = self.shared_constraint(options, dialect.as_ref()).map_err(of_all)?;
        let mut starts = Vec::with_capacity(prompts.len());
        for (index, prompt) in prompts.into_iter().enumerate() {
            let start = self.prepare(prompt, options, &resolved, dialect, constraint.as_ref());
            starts.push(start.map_err(|error| PromptFailure { prompt: Some(index), error })?);
        }
        let requests = starts.iter_mut().flat_map(|start| std::mem::take(&mut start.requests));
        let tickets = self.parts.engine.submit_all(requests.collect());
        let mut tickets =
            tickets.map_err(|refusal| of_all(Error::refused(refusal, 1)))?.into_iter();
        let generations = starts.into_iter().map(|start| {
            let tickets = tickets.by_ref().take(resolved.n as usize);
            let lanes = tickets.enumerate().map(|(choice, t)| Lane::new(choice, t, &start.rules));
            Generation::new(self.id().clone(), start.seed, start.prompt, lanes.collect())
        });
        Ok(generations.collect())
    }

    /// Answers a chat. As [`generate`](Self::generate), it works on the caller's thread before it returns. Reasoning and
    /// calls of tools are told from the content, as far as the model's way of writing them is known (the settings
    /// `tool_call_parser` and `reasoning_parser`).
    ///
    /// # Errors
    /// Those of [`generate`](Self::generate), and [`Error::NoChatTemplate`].
    pub fn chat(
        &self,
        messages: Vec<ChatMessage>,
        chat: ChatOptions,
        options: GenerateOptions,
    ) -> Result<Generation> {
        let request = ChatRequest { messages, options: chat };
        let rendered = self.rendered(&request)?;
        self.check_length(rendered.text(), &options)?;
        let rules = self.dialect_rules(&request, rendered.text());
        let dialect = match options.constraint {
            Some(_) => self.constrained_dialect(rules)?,
            None => Some(rules),
        };
        self.start_one(self.read_rendered(&rendered)?.into(), &options, dialect)
    }

    /// A conversation that remembers what was said.
    pub fn session(&self, options: SessionOptions) -> Session {
        Session::new(self.clone(), options)
    }

    /// The name under which it is addressed.
    pub fn id(&self) -> &ModelId {
        &self.parts.id
    }

    /// What it is.
    pub fn info(&self) -> &ModelInfo {
        &self.parts.info
    }

    /// The checkpoint directory.
    pub fn path(&self) -> &Path {
        &self.parts.path
    }

    /// The settings in effect and why they are so.
    pub fn settings(&self) -> &[Setting] {
        &self.parts.settings
    }

    /// What the backend's runner can do.
    pub fn runner(&self) -> &RunnerSpec {
        self.parts.engine.spec()
    }

    /// What it takes on its device.
    pub fn memory(&self) -> &MemoryPlan {
        &self.parts.memory
    }

    /// The checkpoint's sampling defaults and end tokens.
    pub fn generation_defaults(&self) -> &GenerationDefaults {
        &self.parts.defaults
    }

    /// What would hold for a request with these options, and where each value would come from.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for values that may not be.
    pub fn resolve(&self, options: &GenerateOptions) -> Result<ResolvedOptions> {
        resolve(options, &self.parts.defaults, self.parts.info.vocab_size)
    }

    /// The tokenizer; without one only token ids can be read and written.
    pub fn tokenizer(&self) -> Option<&Tokenizer> {
        self.parts.tokenizer.as_ref()
    }

    /// Whether text can be read and written.
    pub fn has_tokenizer(&self) -> bool {
        self.tokenizer().is_some()
    }

    /// Whether chats can be rendered.
    pub fn has_chat_template(&self) -> bool {
        self.parts.template.is_some()
    }

    /// Whether the chat template reads `variable`: `tools`, `enable_thinking`.
    pub fn template_reads(&self, variable: &str) -> bool {
        self.parts.template.as_ref().is_some_and(|template| template.reads(variable))
    }

    /// The tokens of `text`. Strings that look like control tokens stay text; `add_special_tokens` begins with the
    /// control tokens that the tokenizer prescribes.
    ///
    /// # Errors
    /// [`Error::NoTokenizer`], or [`Error::InvalidRequest`] for text that cannot be read.
    pub fn tokenize(&self, text: &str, add_special_tokens: bool) -> Result<Vec<TokenId>> {
        let tokenizer = self.need_tokenizer("a text prompt")?;
        let tokens = tokenizer.encode(text, add_special_tokens);
        tokens.map_err(|error| Error::prompt("prompt", error))
    }

    /// The tokens of a `text` whose author may write control tokens: what it spells of them becomes them.
    ///
    /// # Errors
    /// Those of [`tokenize`](Self::tokenize).
    pub fn tokenize_trusted(&self, text: &str, add_special_tokens: bool) -> Result<Vec<TokenId>> {
        let tokenizer = self.need_tokenizer("a text prompt")?;
        let tokens = tokenizer.encode_trusted(text, add_special_tokens);
        tokens.map_err(|error| Error::prompt("prompt", error))
    }

    /// The text of `tokens`.
    ///
    /// # Errors
    /// [`Error::NoTokenizer`], or [`Error::InvalidRequest`] for ids beyond the vocabulary.
    pub fn detokenize(&self, tokens: &[TokenId], skip_special_tokens: bool) -> Result<String> {
        let tokenizer = self.need_tokenizer("text")?;
        self.check_tokens("tokens", tokens)?;
        Ok(tokenizer.decode(tokens, skip_special_tokens))
    }

    /// One token as it is spelled in the vocabulary; `None` for ids that have no entry.
    pub fn token_text(&self, token: TokenId) -> Option<String> {
        self.tokenizer()?.token_text(token)
    }

    /// The prompt of a chat. What users say never becomes a control token.
    ///
    /// # Errors
    /// [`Error::NoTokenizer`], [`Error::NoChatTemplate`], or [`Error::InvalidRequest`] for messages that the template
    /// refuses.
    pub fn render_chat(&self, request: &ChatRequest) -> Result<Vec<TokenId>> {
        self.read_rendered(&self.rendered(request)?)
    }

    /// Tools that no template tells the model of, or whose calls nobody would find, would be ignored in silence.
    fn check_tools(&self, template: &ChatTemplate) -> Result<()> {
        let model = self.id();
        if !template.reads("tools") {
            let message = format!(
                "the chat template of {model} does not mention tools, so that the model would not hear of them; load it \
                 with a template that does (--chat-template FILE), or leave tools out"
            );
            return Err(Error::invalid("tools", message));
        }
        if self.parts.dialect.lacks_calls() {
            let message = format!(
                "how {model} writes calls is not known from its chat template; name a form with --tool-call-parser, or none \
                 to have calls as text"
            );
            return Err(Error::invalid("tools", message));
        }
        Ok(())
    }

    fn dialect_rules(&self, request: &ChatRequest, prompt: &str) -> DialectRules {
        let selection = self.parts.dialect;
        let options = &request.options;
        let last = request.messages.last().filter(|_| options.continue_final_message);
        let reasoning_open = match last.and_then(|message| message.content.as_ref()) {
            Some(content) => content.as_str().is_some_and(|t| selection.leaves_reasoning_open(t)),
            None => selection.opens_reasoning(prompt),
        };
        DialectRules {
            selection,
            calls: options.tools.is_some(),
            one_call: options.parallel_tool_calls == Some(false),
            reasoning_open,
        }
    }

    /// The engine's numbers.
    pub fn metrics(&self) -> MetricsSnapshot {
        self.parts.engine.metrics()
    }

    /// Whether a request would be served.
    pub fn health(&self) -> Health {
        self.parts.engine.health()
    }

    /// Takes no new requests; those that run finish. Returns at once.
    pub fn drain(&self) {
        self.parts.engine.drain();
    }

    /// Ends every request as cancelled. Returns at once.
    pub fn cancel_all(&self) {
        self.parts.engine.cancel_all();
    }

    /// Ends everything and frees the device's memory; gives the bytes.
    pub(crate) fn free(&self) -> Bytes {
        self.parts.engine.shutdown();
        let memory = &self.parts.memory;
        [memory.weights, memory.workspace, memory.kv].into_iter().sum()
    }

    pub(crate) fn lazy_vocabulary(&self) -> &LazyVocabulary {
        &self.parts.grammar
    }

    pub(crate) fn need_tokenizer(&self, wanted: &str) -> Result<&Tokenizer> {
        self.tokenizer().ok_or_else(|| Error::NoTokenizer {
            model: self.id().clone(),
            wanted: wanted.to_owned(),
        })
    }

    fn prompt_tokens(
        &self,
        prompt: Prompt,
        options: &GenerateOptions,
        add_special_tokens: bool,
    ) -> Result<Arc<[TokenId]>> {
        let tokens = match prompt {
            Prompt::Text(text) => {
                self.check_length(&text, options)?;
                match options.parse_special {
                    true => self.tokenize_trusted(&text, add_special_tokens)?.into(),
                    false => self.tokenize(&text, add_special_tokens)?.into(),
                }
            }
            Prompt::Tokens(tokens) => tokens,
        };
        self.check_tokens("prompt", &tokens)?;
        if tokens.is_empty() {
            return Err(Error::invalid("prompt", "it has no tokens; at least one is needed"));
        }
        Ok(tokens)
    }

    fn rendered(&self, request: &ChatRequest) -> Result<Rendered> {
        self.need_tokenizer("a chat")?;
        let template = self.parts.template.as_ref();
        let template = template.ok_or(Error::NoChatTemplate { model: self.id().clone() })?;
        if request.options.tools.is_some() {
            self.check_tools(template)?;
        }
        let options = request.options.render_options();
        let rendered = template.render(&request.messages, request.options.tools.as_ref(), &options);
        rendered.map_err(|error| Error::prompt("messages", error))
    }

    fn read_rendered(&self, rendered: &Rendered) -> Result<Vec<TokenId>> {
        let tokens = self.need_tokenizer("a chat")?.encode_template(rendered);
        tokens.map_err(|error| Error::prompt("messages", error))
    }

    /// Refuses a text that cannot fit, whatever its tokens are, before it costs the time to tokenize it.
    fn check_length(&self, text: &str, options: &GenerateOptions) -> Result<()> {
        let (limit, requested) = (self.parts.info.max_sequence_tokens, requested(options));
        let room = limit.saturating_sub(requested);
        let tokens = self.tokenizer().and_then(|tokenizer| tokenizer.surely_above(text, room));
        tokens.map_or(Ok(()), |tokens| {
            Err(Error::ContextLengthExceeded { tokens, requested, limit, counted: false })
        })
    }

    fn check_tokens(&self, field: &str, tokens: &[TokenId]) -> Result<()> {
        let vocab_size = self.parts.info.vocab_size;
        let strange = tokens.iter().position(|token| token.0 as usize >= vocab_size);
        strange.map_or(Ok(()), |index| {
            Err(Error::invalid(format!("{field}[{index}]"), beyond(tokens[index], vocab_size)))
        })
    }

    /// What the engine is asked for to continue one prompt.
    fn prepare(
        &self,
        prompt: Prompt,
        options: &GenerateOptions,
        resolved: &ResolvedOptions,
        dialect: Option<DialectRules>,
        constraint: Option<&SharedConstraint>,
    ) -> Result<Start> {
        if !options.stop.is_empty() {
            self.need_tokenizer("`stop`")?;
        }
        let prompt = self.prompt_tokens(prompt, options, resolved.add_special_tokens)?;
        let max_tokens = self.max_tokens(prompt.len(), options, resolved)?;
        let rules = Arc::new(self.lane_rules(prompt.len(), options, resolved, dialect));
        let seed = options.seed.unwrap_or_else(seed::random);
        let requests = (0..resolved.n).map(|choice| EngineRequest {
            prompt: Arc::clone(&prompt),
            sampling: SamplingParams {
                seed: seed.wrapping_add(choice.into()),
                ..resolved.sampling.clone()
            },
            max_tokens,
            min_tokens: resolved.min_tokens,
            stop_tokens: options.stop_token_ids.clone(),
            eos_tokens: resolved.eos_tokens.clone(),
            ignore_eos: options.ignore_eos,
            logprobs: resolved.logprobs,
            // The choices share the prompt: one of them tells.
            prompt_logprobs: options.prompt_logprobs.filter(|_| choice == 0),
            cache_salt: options.cache_salt.clone(),
            priority: options.priority.saturating_neg(),
            time_limit: options.time_limit,
            constraint: constraint.cloned(),
        });
        let requests = requests.collect();
        Ok(Start { prompt, rules, seed, requests })
    }

    /// Most tokens to generate after a prompt of `tokens`. What the request asks for must fit; what the checkpoint
    /// recommends is cut to what fits.
    fn max_tokens(
        &self,
        tokens: usize,
        options: &GenerateOptions,
        resolved: &ResolvedOptions,
    ) -> Result<u32> {
        let limit = self.parts.info.max_sequence_tokens;
        let requested = requested(options);
        let room = limit.saturating_sub(tokens);
        if tokens > limit || requested > room {
            return Err(Error::ContextLengthExceeded { tokens, requested, limit, counted: true });
        }
        let room = u32::try_from(room).unwrap_or(u32::MAX);
        let max_tokens = resolved.max_tokens.map_or(room, |tokens| tokens.min(room));
        // The engine refuses a minimum above the maximum; a default maximum gives way.
        Ok(max_tokens.max(resolved.min_tokens.min(room)))
    }

    fn lane_rules(
        &self,
        prompt_tokens: usize,
        options: &GenerateOptions,
        resolved: &ResolvedOptions,
        dialect: Option<DialectRules>,
    ) -> LaneRules {
        LaneRules {
            tokenizer: self.parts.tokenizer.clone(),
            text: TextRules {
                stop: options.stop.clone().into(),
                include_stop: options.include_stop_str_in_output,
                skip_special: resolved.skip_special_tokens,
                min_tokens: resolved.min_tokens as usize,
                dialect,
            },
            stop_token_ids: options.stop_token_ids.clone(),
            eos_token_ids: resolved.eos_tokens.clone(),
            prompt_tokens,
            prompt_logprobs: options.prompt_logprobs.is_some(),
            time_limit: options.time_limit,
        }
    }
}

impl fmt::Debug for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Model").field("id", self.id()).field("info", self.info()).finish()
    }
}

/// Room that must be left after the prompt.
fn requested(options: &GenerateOptions) -> usize {
    options.max_tokens.map_or(1, |tokens| tokens as usize)
}
