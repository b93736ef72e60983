//! The request of `POST /v1/completions`.

use serde_json::{Map, Value};
use tokenmill::{Prompt, TokenId};

use super::{
    fields::{Field, Fields, Problem, Problems, Rule, field, only, shown, token_ids},
    limits::{Limits, MAX_LOGPROBS},
    sampling::{SHARED, SHARED_UNSUPPORTED, Shared},
    structured::STRUCTURED,
};

/// Fields of a completion beside the shared ones.
pub const COMPLETION: &[Field] = &[
    field("prompt", Rule::Shaped),
    field("echo", Rule::Boolean),
    field("logprobs", Rule::Integer(0, MAX_LOGPROBS)),
    field("best_of", Rule::Integer(1, u32::MAX as i64)),
    field("add_special_tokens", Rule::Boolean),
    field("parse_special", Rule::Boolean),
    only("suffix", &["\"\""]),
];

/// All tables of a completion request.
pub const TABLES: &[&[Field]] = &[SHARED, SHARED_UNSUPPORTED, STRUCTURED, COMPLETION];

/// Tokens generated where a completion does not say: what clients of this route have always been given.
pub const DEFAULT_MAX_TOKENS: u32 = 16;

/// A completion request, read.
#[derive(Clone, Debug, PartialEq)]
pub struct CompletionRequest {
    /// What it shares with chats.
    pub shared: Shared,
    /// The prompts, at least one.
    pub prompts: Vec<Prompt>,
    /// Repeat the prompt before its continuation.
    pub echo: bool,
}

impl CompletionRequest {
    /// Reads a request; reports everything wrong with it.
    pub fn read(
        map: Map<String, Value>,
        limits: &Limits,
    ) -> Result<CompletionRequest, Vec<Problem>> {
        let mut problems = Problems::default();
        let mut fields = Fields::open(TABLES, "", map, &mut problems);
        let mut shared = Shared::take(&mut fields, limits, &mut problems);
        let prompts = take_prompts(&mut fields, limits, &mut problems);
        let echo = fields.boolean("echo").unwrap_or(false);
        shared.options.logprobs = fields.integer("logprobs");
        shared.options.add_special_tokens = fields.boolean("add_special_tokens");
        shared.options.parse_special = fields.boolean("parse_special").unwrap_or(false);
        let best_of: Option<u32> = fields.integer("best_of");
        if best_of.is_some_and(|best_of| best_of != shared.options.n.unwrap_or(1)) {
            problems.add("best_of", "is supported only where it equals n");
        }
        let only_echo = shared.options.max_tokens == Some(0);
        if only_echo && (!echo || shared.stream.is_some()) {
            problems.add("max_tokens", "may be 0 only with echo and without stream");
        }
        fields.close(&mut problems);
        problems.into_result()?;
        shared.options.max_tokens.get_or_insert(DEFAULT_MAX_TOKENS);
        Ok(CompletionRequest { shared, prompts, echo })
    }
}

fn take_prompts(fields: &mut Fields, limits: &Limits, problems: &mut Problems) -> Vec<Prompt> {
    let items = match fields.value("prompt") {
        None => {
            problems.missing("prompt");
            return Vec::new();
        }
        Some(Value::String(text)) => return vec![Prompt::Text(text)],
        Some(Value::Array(items)) => items,
        Some(other) => {
            problems.wrong_type("prompt", "a string, token ids, or an array of either", &other);
            return Vec::new();
        }
    };
    if items.first().is_some_and(Value::is_number) {
        return take_ids("prompt", items, problems).into_iter().collect();
    }
    if items.is_empty() || items.len() > limits.max_prompts {
        problems.add(
            "prompt",
            format!("must have 1 to {} prompts, not {}", limits.max_prompts, items.len()),
        );
        return Vec::new();
    }
    let mut prompts = Vec::with_capacity(items.len());
    for (index, item) in items.into_iter().enumerate() {
        let path = format!("prompt[{index}]");
        match item {
            Value::String(text) => prompts.push(Prompt::Text(text)),
            Value::Array(ids) => prompts.extend(take_ids(&path, ids, problems)),
            other => problems.add(
                path,
                format!("must be a string or an array of token ids, not {}", shown(&other)),
            ),
        }
    }
    prompts
}

fn take_ids(path: &str, items: Vec<Value>, problems: &mut Problems) -> Option<Prompt> {
    if items.is_empty() {
        problems.add(path, "must have at least one token");
        return None;
    }
    let ids = token_ids(path, items, problems)?;
    Some(Prompt::Tokens(ids.into_iter().map(TokenId).collect()))
}
