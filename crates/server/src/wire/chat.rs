//! The request of `POST /v1/chat/completions`.

use serde_json::{Map, Value};
use tokenmill::{ChatOptions, ChatRequest as Conversation};

use super::{
    fields::{Field, Fields, Problem, Problems, Rule, field, only, shown},
    limits::{Limits, MAX_LOGPROBS},
    message::take_messages,
    sampling::{SHARED, SHARED_UNSUPPORTED, Shared},
    structured::STRUCTURED,
};

/// The messages and everything that shapes their prompt; `/tokenize` has the same.
pub const CONVERSATION: &[Field] = &[
    field("messages", Rule::Shaped),
    field("add_generation_prompt", Rule::Boolean),
    field("continue_final_message", Rule::Boolean),
    field("chat_template_kwargs", Rule::Shaped),
    field("tools", Rule::Shaped),
    field("tool_choice", Rule::Shaped),
    field("documents", Rule::Shaped),
    only("add_special_tokens", &["false"]),
    only("chat_template", &[]),
];

/// Fields of a chat beside the shared ones.
pub const CHAT: &[Field] = &[
    field("max_completion_tokens", Rule::Integer(1, u32::MAX as i64)),
    field("logprobs", Rule::Boolean),
    field("top_logprobs", Rule::Integer(0, MAX_LOGPROBS)),
    only("echo", &["false"]),
    only("best_of", &["1"]),
    only("reasoning_effort", &[]),
    field("include_reasoning", Rule::Boolean),
    field("parallel_tool_calls", Rule::Boolean),
    only("modalities", &[r#"["text"]"#]),
    only("audio", &[]),
    only("prediction", &[]),
    only("verbosity", &[]),
    only("web_search_options", &[]),
    only("functions", &["[]"]),
    only("function_call", &["\"none\""]),
];

/// All tables of a chat request.
pub const TABLES: &[&[Field]] = &[SHARED, SHARED_UNSUPPORTED, STRUCTURED, CONVERSATION, CHAT];

/// A chat request, read.
#[derive(Clone, Debug, PartialEq)]
pub struct ChatRequest {
    /// What it shares with completions.
    pub shared: Shared,
    /// The messages and how they are rendered.
    pub conversation: Conversation,
    /// Tell the reasoning.
    pub include_reasoning: bool,
}

impl ChatRequest {
    /// Reads a request; reports everything wrong with it.
    pub fn read(map: Map<String, Value>, limits: &Limits) -> Result<ChatRequest, Vec<Problem>> {
        let mut problems = Problems::default();
        let mut fields = Fields::open(TABLES, "", map, &mut problems);
        let mut shared = Shared::take(&mut fields, limits, &mut problems);
        take_max_tokens(&mut fields, &mut shared, &mut problems);
        take_logprobs(&mut fields, &mut shared, &mut problems);
        let mut conversation = take_conversation(&mut fields, &mut problems);
        conversation.options.parallel_tool_calls = fields.boolean("parallel_tool_calls");
        let include_reasoning = fields.boolean("include_reasoning").unwrap_or(true);
        fields.close(&mut problems);
        problems.into_result()?;
        Ok(ChatRequest { shared, conversation, include_reasoning })
    }
}

/// `max_tokens` is the old name of `max_completion_tokens`; both may be given if they agree.
fn take_max_tokens(fields: &mut Fields, shared: &mut Shared, problems: &mut Problems) {
    let old = shared.options.max_tokens;
    if old == Some(0) {
        problems.add("max_tokens", "must be at least 1, not 0");
    }
    let Some(new) = fields.integer("max_completion_tokens") else { return };
    if old.is_some_and(|old| old != new) {
        problems.add(
            "max_completion_tokens",
            "differs from max_tokens, its older name; give one of them",
        );
    }
    if shared.options.min_tokens.is_some_and(|min| min > new) {
        problems.add("min_tokens", format!("must be at most max_completion_tokens ({new})"));
    }
    shared.options.max_tokens = Some(new);
}

fn take_logprobs(fields: &mut Fields, shared: &mut Shared, problems: &mut Problems) {
    let wanted = fields.boolean("logprobs").unwrap_or(false);
    let top = fields.integer("top_logprobs");
    if top.is_some_and(|top: u32| top > 0) && !wanted {
        problems.add("top_logprobs", "is only allowed with logprobs");
    }
    shared.options.logprobs = wanted.then(|| top.unwrap_or(0));
}

/// Takes the fields of [`CONVERSATION`].
pub(super) fn take_conversation(fields: &mut Fields, problems: &mut Problems) -> Conversation {
    let missing = fields.at("messages");
    let messages = take_messages(fields, problems);
    if messages.is_empty() {
        problems.missing(missing);
    }
    let options = ChatOptions {
        tools: take_tools(fields, problems),
        documents: take_documents(fields, problems),
        add_generation_prompt: fields.boolean("add_generation_prompt"),
        continue_final_message: fields.boolean("continue_final_message").unwrap_or(false),
        template_kwargs: fields.object("chat_template_kwargs", problems).unwrap_or_default(),
        ..ChatOptions::default()
    };
    if options.continue_final_message && options.add_generation_prompt == Some(true) {
        problems.add("continue_final_message", "is not allowed with add_generation_prompt");
    }
    Conversation { messages, options }
}

/// Documents for templates that retrieve from them.
fn take_documents(fields: &mut Fields, problems: &mut Problems) -> Option<Value> {
    let documents = fields.array("documents", problems)?;
    for (index, document) in documents.iter().enumerate() {
        if !document.is_object() {
            problems.wrong_type(format!("documents[{index}]"), "an object", document);
        }
    }
    Some(Value::Array(documents))
}

/// Tools go to the template. With `tool_choice` `none` the model is not told of them, so that it cannot call any.
fn take_tools(fields: &mut Fields, problems: &mut Problems) -> Option<Value> {
    let choice = fields.value("tool_choice");
    let tools = fields.array("tools", problems);
    match &choice {
        None => {}
        Some(Value::String(word)) if word == "none" || word == "auto" => {}
        Some(other) => problems.add(
            fields.at("tool_choice"),
            format!(
                "must be \"none\" or \"auto\", not {}: a call can only be forced by constrained decoding, which answers without \
                 tools alone have yet (response_format)",
                shown(other)
            ),
        ),
    }
    for (index, tool) in tools.iter().flatten().enumerate() {
        let named = tool.pointer("/function/name").is_some_and(Value::is_string);
        if tool.get("type").and_then(Value::as_str) != Some("function") || !named {
            problems.add(
                format!("tools[{index}]"),
                "must have type \"function\" and a function with a name",
            );
        }
    }
    if choice.as_ref().and_then(Value::as_str) == Some("none") {
        return None;
    }
    tools.filter(|tools| !tools.is_empty()).map(Value::Array)
}
