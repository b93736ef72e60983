//! The chat template: a conversation to the text of a prompt.

use std::{
    collections::{BTreeMap, BTreeSet},
    error::Error as _,
    io,
    path::Path,
};

use minijinja::{Environment, ErrorKind, value::Serde};
use serde_json::{Map, Value};

use super::{
    ChatMessage, PromptError, Rendered, Tokenizer,
    control::{ControlSet, Mark, Origin, ROLES},
    environment::{NOW, Raised, environment},
    files,
    rewrite::rewritten,
    sentinel::{Sentinels, Strength, visit_strings},
};

/// Steps that any conversation may take: one an instruction, and one for each 64 bytes that are made.
///
/// The engine charges nothing where it walks a nest that shares its parts (`x = [x, x]`, again and again) to compare, sort or
/// spell it, nor where it joins lists that are themselves joined more than 32 times over. Such values grow by being
/// named and used again, so that naming is charged for: see [`rewritten`].
const FUEL: u64 = 2_000_000;
/// Further steps for each byte of the conversation.
const FUEL_PER_BYTE: u64 = 2;
/// Steps that no conversation may take.
const FUEL_LIMIT: u64 = 16_000_000;
/// Stack for each step. A template can nest one value in another with every eight steps, and dropping or printing the
/// nest recurses: at most 0.6 KiB a level (measured on printed mappings), so that 1 KiB a level is enough.
const STACK_PER_STEP: u64 = 128;
/// Stack for compiling any template, and further stack for each of its bytes: a chain of operators is a nest to the
/// compiler, which recurses at every one of them (at most 1.5 KiB a byte, measured on `-` and `+` unoptimised).
const STACK: u64 = 2 << 20;
const STACK_PER_BYTE: u64 = 4 << 10;
/// Bytes that any conversation may render to.
const OUTPUT_LIMIT: u64 = 16 << 20;
/// Further output bytes for each byte of the conversation.
const OUTPUT_PER_BYTE: u64 = 4;
/// The template of a plain conversation, and the one of a conversation with tools, where there are several.
const DEFAULT: &str = "default";
const TOOL_USE: &str = "tool_use";
/// Variables that are not keyword arguments.
const RESERVED: &[&str] = &["messages", "tools", "documents", "add_generation_prompt", NOW];

/// How to render a conversation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RenderOptions {
    /// End with the beginning of the assistant's answer.
    pub add_generation_prompt: bool,
    /// End within the last message, so that the model goes on with it. Excludes `add_generation_prompt`.
    pub continue_final_message: bool,
    /// The template to use where the checkpoint names several; `None`: `tool_use` with tools, else `default`.
    pub template_name: Option<String>,
    /// Documents for retrieval templates.
    pub documents: Option<Value>,
    /// Further variables of the template (`enable_thinking`, ...).
    pub kwargs: Map<String, Value>,
    /// What `strftime_now` calls now; `None`: the system's clock and time zone.
    pub now: Option<jiff::Zoned>,
}

/// A checkpoint's chat template, or its several named ones.
pub struct ChatTemplate {
    environment: Environment<'static>,
    sources: BTreeMap<String, String>,
    controls: ControlSet,
    /// The variables that they read.
    reads: BTreeSet<String>,
    /// The tokenizer's named tokens: `bos_token`, ...
    variables: Vec<(String, String)>,
}

impl ChatTemplate {
    /// Reads the template of the checkpoint directory `dir`; `None` where it has none.
    ///
    /// `chat_template.jinja` (and `additional_chat_templates/NAME.jinja`) beat the `chat_template` of
    /// `tokenizer_config.json`, a string or a list of named templates; last comes `chat_template.json`.
    ///
    /// # Errors
    /// When a file is there but cannot be read, or a template is malformed.
    pub fn from_dir(
        dir: &Path,
        tokenizer: &Tokenizer,
    ) -> Result<Option<ChatTemplate>, PromptError> {
        let mut sources = from_files(dir)?;
        for name in ["tokenizer_config.json", "chat_template.json"] {
            if sources.is_empty() {
                let path = dir.join(name);
                let config = files::read_object(&path)?;
                sources = from_config(config.get("chat_template"))
                    .map_err(|reason| files::malformed(&path, reason))?;
            }
        }
        if sources.is_empty() {
            return Ok(None);
        }
        Self::from_sources(sources, tokenizer).map(Some)
    }

    /// A template from its source, for an operator's own.
    ///
    /// # Errors
    /// [`PromptError::Template`] when the source is malformed.
    pub fn new(source: &str, tokenizer: &Tokenizer) -> Result<ChatTemplate, PromptError> {
        Self::from_sources(BTreeMap::from([(DEFAULT.to_owned(), source.to_owned())]), tokenizer)
    }

    fn from_sources(
        sources: BTreeMap<String, String>,
        tokenizer: &Tokenizer,
    ) -> Result<ChatTemplate, PromptError> {
        let (environment, reads) = compiled(&sources)?;
        let texts: Vec<&str> = sources.values().map(String::as_str).collect();
        Ok(ChatTemplate {
            controls: ControlSet::new(tokenizer.controls(&texts))?,
            variables: tokenizer.special_tokens().named.clone(),
            reads,
            environment,
            sources,
        })
    }

    /// Renders a conversation.
    ///
    /// Messages reach the template as they came, but for what transformers does: fields that are `null` are left out
    /// (unless the template asks whether `content` is none), and reasoning has all its names
    /// (`reasoning_content`, `thinking`).
    ///
    /// # Errors
    /// [`PromptError::Refused`] when the template raises an exception, [`PromptError::Invalid`] for a field that cannot be
    /// honoured, [`PromptError::Render`] when the template fails, [`PromptError::Exhausted`] when it takes too much.
    pub fn render(
        &self,
        messages: &[ChatMessage],
        tools: Option<&Value>,
        options: &RenderOptions,
    ) -> Result<Rendered, PromptError> {
        self.check(messages, options)?;
        let (name, source) = self.choose(tools, options)?;
        let keep_null = asks_whether_content_is_none(source);
        let mut conversation = Conversation {
            messages: messages.iter().map(|message| message.for_template(keep_null)).collect(),
            tools: tools.cloned().unwrap_or_default(),
            documents: options.documents.clone().unwrap_or_default(),
            kwargs: options.kwargs.clone(),
        };
        let texts = conversation.strings().into_iter().chain([source]);
        let sentinels = Sentinels::choose(&self.controls, texts).ok_or_else(|| {
            invalid("messages", "they use private characters of all ranges: leave some out")
        })?;
        let last = options.continue_final_message.then(|| conversation.tag_last(sentinels.tag()));
        let last = last.transpose()?;
        let fuel = fuel(&conversation);
        let run = Run { template: self, name, sentinels, last, options, fuel };
        on_deep_stack(fuel.saturating_mul(STACK_PER_STEP), || run.render(&conversation))
    }

    /// The source of the template that serves a plain conversation.
    pub fn source(&self) -> &str {
        let first = self.sources.values().next();
        self.sources.get(DEFAULT).or(first).map_or("", String::as_str)
    }

    /// The sources of all templates.
    pub fn sources(&self) -> impl Iterator<Item = &str> {
        self.sources.values().map(String::as_str)
    }

    /// Whether one of the templates reads `variable` (`tools`, `enable_thinking`).
    pub fn reads(&self, variable: &str) -> bool {
        self.reads.contains(variable)
    }

    /// The names of the templates.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.sources.keys().map(String::as_str)
    }

    fn check(&self, messages: &[ChatMessage], options: &RenderOptions) -> Result<(), PromptError> {
        if messages.is_empty() {
            return Err(invalid("messages", "is empty: at least one message is needed"));
        }
        for (index, message) in messages.iter().enumerate() {
            let role = message.role.as_str();
            if !ROLES.contains(&role) && self.controls.could_be_built_from(role) {
                return Err(invalid(
                    format!("messages[{index}].role"),
                    format!(
                        "{role:?} could become a control token; the usual roles are {}",
                        ROLES.join(", ")
                    ),
                ));
            }
        }
        if options.continue_final_message && options.add_generation_prompt {
            return Err(invalid(
                "continue_final_message",
                "excludes add_generation_prompt: the prompt ends within the last message or after it",
            ));
        }
        if options.documents.is_some() && !self.reads("documents") {
            let reason = "the chat template does not read them: the model would not hear of them";
            return Err(invalid("documents", reason));
        }
        options.kwargs.iter().try_for_each(|(name, value)| self.check_argument(name, value))
    }

    /// An argument that the template does not read would be ignored in silence.
    fn check_argument(&self, name: &str, value: &Value) -> Result<(), PromptError> {
        let field = || format!("chat_template_kwargs.{name}");
        if RESERVED.contains(&name) {
            return Err(invalid(field(), "is a variable that the request sets elsewhere"));
        }
        if !value.is_null() && !self.reads(name) {
            return Err(invalid(field(), "is not read by the chat template: leave it out"));
        }
        Ok(())
    }

    fn choose(
        &self,
        tools: Option<&Value>,
        options: &RenderOptions,
    ) -> Result<(&str, &str), PromptError> {
        let fallback =
            if tools.is_some() && self.sources.contains_key(TOOL_USE) { TOOL_USE } else { DEFAULT };
        let wanted = options.template_name.as_deref().unwrap_or(fallback);
        match self.sources.get_key_value(wanted) {
            Some((name, source)) => Ok((name, source)),
            None => Err(invalid(
                "chat_template",
                format!(
                    "{wanted:?} is none of the templates: {}",
                    self.names().collect::<Vec<_>>().join(", ")
                ),
            )),
        }
    }
}

/// An environment with every template in it, and the variables that they read.
fn compiled(
    sources: &BTreeMap<String, String>,
) -> Result<(Environment<'static>, BTreeSet<String>), PromptError> {
    let bytes: usize = sources.values().map(String::len).sum();
    let stack = (bytes as u64).saturating_mul(STACK_PER_BYTE).saturating_add(STACK);
    on_deep_stack(stack, || {
        let mut environment = environment();
        for (name, source) in sources {
            environment.add_template_owned(name.clone(), rewritten(source)).map_err(|error| {
                PromptError::Template {
                    name: Some(name.clone()).filter(|_| sources.len() > 1),
                    reason: error.to_string(),
                }
            })?;
        }
        let templates = environment.templates();
        let reads = templates.flat_map(|(_, template)| template.undeclared_variables(false));
        let reads = reads.collect();
        Ok((environment, reads))
    })
}

/// What a request brings to a template.
struct Conversation {
    messages: Vec<Map<String, Value>>,
    tools: Value,
    documents: Value,
    kwargs: Map<String, Value>,
}

impl Conversation {
    fn strings(&self) -> Vec<&str> {
        let mut strings: Vec<&str> = Vec::new();
        for map in self.messages.iter().chain([&self.kwargs]) {
            for (key, value) in map {
                strings.push(key);
                visit_strings(value, &mut |text| strings.push(text));
            }
        }
        for value in [&self.tools, &self.documents] {
            visit_strings(value, &mut |text| strings.push(text));
        }
        strings
    }

    fn marked(&self, sentinels: &Sentinels<'_>, strength: Strength) -> Conversation {
        let mark = |value| sentinels.mark_value(value, Origin::Request, strength);
        let message = |message: &Map<String, Value>| {
            let role = message.get("role").and_then(Value::as_str).unwrap_or_default();
            let origin = if role == "assistant" { Origin::Model } else { Origin::Request };
            sentinels.mark_map(message, origin, strength)
        };
        Conversation {
            messages: self.messages.iter().map(message).collect(),
            tools: mark(&self.tools),
            documents: mark(&self.documents),
            kwargs: sentinels.mark_map(&self.kwargs, Origin::Request, strength),
        }
    }

    /// Appends `tag` and a space to the text of the last message; returns that text.
    fn tag_last(&mut self, tag: char) -> Result<String, PromptError> {
        let field = format!("messages[{}].content", self.messages.len() - 1);
        let content = self.messages.last_mut().and_then(|message| message.get_mut("content"));
        let text = match content {
            Some(Value::String(text)) => Some(text),
            Some(Value::Array(parts)) => {
                parts.iter_mut().rev().find_map(|part| match part.get_mut("text") {
                    Some(Value::String(text)) => Some(text),
                    _ => None,
                })
            }
            _ => None,
        };
        let text = text.ok_or_else(|| {
            invalid(field, "holds no text that continue_final_message could continue")
        })?;
        let untagged = text.clone();
        text.extend([tag, ' ']);
        Ok(untagged)
    }
}

/// One rendering.
struct Run<'a> {
    template: &'a ChatTemplate,
    name: &'a str,
    sentinels: Sentinels<'a>,
    /// The text of the message to be continued.
    last: Option<String>,
    options: &'a RenderOptions,
    /// Steps that each pass may take.
    fuel: u64,
}

impl Run<'_> {
    /// Renders, and finds the request's characters that look like control tokens.
    ///
    /// Where the template does not look into the request's strings, marking all characters that can begin a control token
    /// changes nothing, and those marks hold whatever the template does. Where it does look, only spelled tokens are marked,
    /// so that it sees the rest as it is; that reading counts if its turns are those of the first one.
    fn render(&self, conversation: &Conversation) -> Result<Rendered, PromptError> {
        let controls = &self.template.controls;
        let strings = conversation.strings();
        let bytes: usize = strings.iter().map(|text| text.len()).sum();
        let plain = self.text(conversation, bytes)?;
        if !strings.iter().any(|text| self.sentinels.concerns(text)) {
            return Ok(Rendered::new(plain, Vec::new(), controls.markers()));
        }
        let (text, marks) = self.marked(conversation, Strength::Every, bytes)?;
        if text == plain {
            return Ok(Rendered::new(text, marks, controls.markers()));
        }
        let skeleton = controls.skeleton(&text, &marks);
        let spelled = self.marked(conversation, Strength::Spelled, bytes);
        match spelled {
            Ok((text, marks)) if controls.skeleton(&text, &marks) == skeleton => {
                Ok(Rendered::new(text, marks, controls.markers()))
            }
            _ => Ok(Rendered::new(text, marks, controls.markers())),
        }
    }

    fn marked(
        &self,
        conversation: &Conversation,
        strength: Strength,
        bytes: usize,
    ) -> Result<(String, Vec<Mark>), PromptError> {
        let text = self.text(&conversation.marked(&self.sentinels, strength), bytes)?;
        Ok(self.sentinels.restore(&text))
    }

    fn text(&self, conversation: &Conversation, bytes: usize) -> Result<String, PromptError> {
        let limit = OUTPUT_LIMIT + OUTPUT_PER_BYTE * bytes as u64;
        let mut environment = self.template.environment.clone();
        environment.set_fuel(Some(self.fuel));
        let mut out = Capped { bytes: Vec::new(), limit };
        let result = environment.get_template(self.name).and_then(|template| {
            template.render_captured_to(self.context(conversation), &mut out).map(|_| ())
        });
        if out.bytes.len() as u64 > limit {
            return Err(PromptError::Exhausted { what: "output bytes", limit });
        }
        result.map_err(|error| self.error(&error))?;
        let text =
            String::from_utf8(out.bytes).map_err(|error| PromptError::Render(error.to_string()))?;
        self.cut_at_tag(text)
    }

    fn context(&self, conversation: &Conversation) -> minijinja::Value {
        let Conversation { messages, tools, documents, kwargs } = conversation;
        let mut context: BTreeMap<&str, minijinja::Value> = BTreeMap::new();
        for (name, text) in &self.template.variables {
            context.insert(name, text.as_str().into());
        }
        for (name, value) in kwargs {
            context.insert(name, Serde(value).into());
        }
        context.insert("messages", Serde(messages).into());
        context.insert("tools", Serde(tools).into());
        context.insert("documents", Serde(documents).into());
        context.insert("add_generation_prompt", self.options.add_generation_prompt.into());
        if let Some(now) = &self.options.now {
            context.insert(NOW, now.to_string().into());
        }
        context.into()
    }

    fn error(&self, error: &minijinja::Error) -> PromptError {
        if error.kind() == ErrorKind::OutOfFuel {
            return PromptError::Exhausted { what: "steps", limit: self.fuel };
        }
        let mut source = error.source();
        while let Some(cause) = source {
            if let Some(Raised(message)) = cause.downcast_ref() {
                return PromptError::Refused(self.sentinels.restore(message).0);
            }
            source = cause.source();
        }
        PromptError::Render(self.sentinels.restore(&error.to_string()).0)
    }

    /// Ends the text where the last message does, if that is to be continued.
    fn cut_at_tag(&self, mut text: String) -> Result<String, PromptError> {
        let Some(last) = &self.last else { return Ok(text) };
        let tag = self.sentinels.tag();
        let restored = self.sentinels.restore(&text).0;
        let Some(at) = text.rfind(tag).filter(|_| restored.contains(last.trim())) else {
            return Err(invalid(
                "continue_final_message",
                "the chat template leaves out parts of the last message, so that it cannot be continued",
            ));
        };
        let spaced = text[at + tag.len_utf8()..].starts_with(' ');
        text.truncate(at);
        if !spaced {
            // The template trimmed the message; then the end of its text is trimmed as well.
            text.truncate(text.trim_end().len());
        }
        Ok(text)
    }
}

/// Steps that a conversation may take.
fn fuel(conversation: &Conversation) -> u64 {
    let bytes: u64 = conversation.strings().iter().map(|text| text.len() as u64).sum();
    FUEL.saturating_add(FUEL_PER_BYTE.saturating_mul(bytes)).min(FUEL_LIMIT)
}

/// Runs `work` on a thread with so many bytes of stack. Untouched pages of it cost nothing, so that an ordinary template
/// pays for starting a thread alone.
fn on_deep_stack<T: Send>(
    stack: u64,
    work: impl FnOnce() -> Result<T, PromptError> + Send,
) -> Result<T, PromptError> {
    let stack = usize::try_from(stack).unwrap_or(usize::MAX);
    let builder = std::thread::Builder::new().name("chat-template".into()).stack_size(stack);
    std::thread::scope(|scope| {
        let thread = builder.spawn_scoped(scope, work).map_err(|error| {
            PromptError::Render(format!("no thread with a stack of {stack} bytes: {error}"))
        })?;
        thread
            .join()
            .unwrap_or_else(|_| Err(PromptError::Render("the template engine panicked".into())))
    })
}

/// A buffer with a limit.
struct Capped {
    bytes: Vec<u8>,
    limit: u64,
}

impl io::Write for Capped {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.extend_from_slice(bytes);
        if self.bytes.len() as u64 > self.limit {
            return Err(io::Error::from(io::ErrorKind::FileTooLarge));
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// `chat_template.jinja` and `additional_chat_templates/*.jinja`.
fn from_files(dir: &Path) -> Result<BTreeMap<String, String>, PromptError> {
    let mut sources = BTreeMap::new();
    if let Some(source) = files::read_template(&dir.join("chat_template.jinja"))? {
        sources.insert(DEFAULT.to_owned(), source);
    }
    let more = dir.join("additional_chat_templates");
    if !crate::files::is_there(&more) {
        return Ok(sources);
    }
    let entries = std::fs::read_dir(&more).map_err(|error| crate::Error::io(&more, error))?;
    for path in entries.flatten().map(|entry| entry.path()) {
        let name = path.file_stem().and_then(|name| name.to_str()).map(str::to_owned);
        let is_template = path.extension().is_some_and(|extension| extension == "jinja");
        if let Some(name) = name.filter(|_| is_template)
            && let Some(source) = files::read_template(&path)?
        {
            sources.insert(name, source);
        }
    }
    Ok(sources)
}

/// The `chat_template` of a configuration: a string, a list of `{name, template}`, or an object by name.
fn from_config(value: Option<&Value>) -> Result<BTreeMap<String, String>, String> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let sources = match value {
        None | Some(Value::Null) => Some(BTreeMap::new()),
        Some(Value::String(source)) => Some(BTreeMap::from([(DEFAULT.to_owned(), source.clone())])),
        Some(Value::Array(list)) => list
            .iter()
            .map(|entry| Some((text(&entry["name"])?, text(&entry["template"])?)))
            .collect(),
        Some(Value::Object(map)) => {
            map.iter().map(|(name, source)| Some((name.clone(), text(source)?))).collect()
        }
        Some(_) => None,
    };
    sources.ok_or_else(|| {
        "chat_template is neither a string nor a list of {name, template}".to_owned()
    })
}

/// Whether a template tests `content is none`: then a `null` there has a meaning.
fn asks_whether_content_is_none(source: &str) -> bool {
    source.match_indices("content").any(|(at, word)| {
        let after =
            source[at + word.len()..].trim_start_matches(['\'', '"', ']', ')']).trim_start();
        let Some(test) = after.strip_prefix("is ") else { return false };
        let test = test.trim_start();
        test.strip_prefix("not ").unwrap_or(test).trim_start().to_lowercase().starts_with("none")
    })
}

fn invalid(field: impl Into<String>, reason: impl Into<String>) -> PromptError {
    PromptError::Invalid { field: field.into(), reason: reason.into() }
}
