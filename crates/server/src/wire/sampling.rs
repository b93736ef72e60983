//! What chat and completion requests have in common.

use std::time::Duration;

use serde_json::{Map, Value};
use tokenmill::{GenerateOptions, TokenId};

use super::{
    fields::{Field, Fields, Problems, Rule, field, only, quoted, shown},
    limits::{
        Limits, MAX_LOGIT_BIAS, MAX_LOGPROBS, MAX_NAME_BYTES, MAX_STOP_BYTES, MAX_STOP_STRINGS,
        MAX_STOP_TOKENS, MAX_TIMEOUT_S,
    },
    structured::Structured,
};

/// Fields that chat and completion requests share and the server honours.
pub const SHARED: &[Field] = &[
    field("model", Rule::Text),
    field("max_tokens", Rule::Integer(0, u32::MAX as i64)),
    field("min_tokens", Rule::Integer(0, u32::MAX as i64)),
    // The OpenAI API's bound; the library below takes any finite number from 0 up.
    field("temperature", Rule::Float(0.0, 2.0)),
    field("top_p", Rule::FloatAbove(0.0, 1.0)),
    field("top_k", Rule::Integer(-1, u32::MAX as i64)),
    field("min_p", Rule::Float(0.0, 1.0)),
    field("n", Rule::Integer(1, u32::MAX as i64)),
    field("stop", Rule::Shaped),
    field("stop_token_ids", Rule::Shaped),
    field("seed", Rule::Integer(i64::MIN, i64::MAX)),
    field("frequency_penalty", Rule::Float(-2.0, 2.0)),
    field("presence_penalty", Rule::Float(-2.0, 2.0)),
    field("repetition_penalty", Rule::FloatAbove(0.0, 100.0)),
    field("logit_bias", Rule::Shaped),
    field("prompt_logprobs", Rule::Integer(0, MAX_LOGPROBS)),
    field("ignore_eos", Rule::Boolean),
    field("include_stop_str_in_output", Rule::Boolean),
    field("skip_special_tokens", Rule::Boolean),
    field("stream", Rule::Boolean),
    field("stream_options", Rule::Shaped),
    field("return_token_ids", Rule::Boolean),
    field("return_tokens_as_token_ids", Rule::Boolean),
    field("timeout", Rule::FloatAbove(0.0, MAX_TIMEOUT_S)),
    field("priority", Rule::Integer(i32::MIN as i64, i32::MAX as i64)),
    field("cache_salt", Rule::Text),
    field("request_id", Rule::Text),
    field("user", Rule::Text),
];

/// Fields that chat and completion requests share and the server does not support, with the values that ask for
/// nothing else than what happens anyway.
pub const SHARED_UNSUPPORTED: &[Field] = &[
    only("use_beam_search", &["false"]),
    only("length_penalty", &["1"]),
    only("early_stopping", &["false"]),
    only("spaces_between_special_tokens", &["true"]),
    only("truncate_prompt_tokens", &[]),
    only("allowed_token_ids", &["[]"]),
    only("bad_words", &["[]"]),
    only("logits_processors", &["[]"]),
    only("prompt_embeds", &[]),
    only("mm_processor_kwargs", &["{}"]),
    only("kv_transfer_params", &["{}"]),
    only("vllm_xargs", &["{}"]),
    only("metadata", &["{}"]),
    only("store", &["false"]),
    only("service_tier", &["\"auto\"", "\"default\""]),
    only("safety_identifier", &[]),
    only("prompt_cache_key", &[]),
    only("prompt_cache_retention", &[]),
];

const STREAM_OPTIONS: &[Field] = &[
    field("include_usage", Rule::Boolean),
    field("continuous_usage_stats", Rule::Boolean),
    only("include_obfuscation", &["false"]),
];

/// What every generating request says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shared {
    /// Which model; `None`: the only one.
    pub model: Option<String>,
    /// What is asked of the generation.
    pub options: GenerateOptions,
    /// The field that constrains the text.
    pub constraint_field: Option<String>,
    /// How it is streamed; `None`: whole.
    pub stream: Option<StreamOptions>,
    /// Report token ids; `None`: where it makes sense.
    pub return_token_ids: Option<bool>,
    /// In log-probabilities, name tokens `token_id:N` and not by their text.
    pub tokens_as_ids: bool,
    /// The caller's name for the request.
    pub request_id: Option<String>,
    /// The caller's name for the end user; goes to the log.
    pub user: Option<String>,
}

/// What a stream carries beside text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamOptions {
    /// A last chunk with the usage and no choices.
    pub include_usage: bool,
    /// The usage so far in every chunk.
    pub continuous_usage: bool,
}

impl Shared {
    /// Takes the fields of [`SHARED`].
    pub fn take(fields: &mut Fields, limits: &Limits, problems: &mut Problems) -> Shared {
        let stream = fields.boolean("stream").unwrap_or(false);
        let stream_options = take_stream_options(fields, problems);
        if stream_options.is_some() && !stream {
            problems.add("stream_options", "is only allowed with stream");
        }
        let structured = Structured::take(fields, problems);
        let (constraint_field, constraint) =
            structured.map(|one| (one.field, one.constraint)).unzip();
        let options = take_options(fields, limits, problems);
        let shared = Shared {
            model: fields.text("model"),
            stream: stream.then(|| stream_options.unwrap_or_default()),
            return_token_ids: fields.boolean("return_token_ids"),
            tokens_as_ids: fields.boolean("return_tokens_as_token_ids").unwrap_or(false),
            request_id: take_name("request_id", fields, problems),
            user: fields.text("user"),
            options: GenerateOptions { constraint, ..options },
            constraint_field,
        };
        if stream && shared.options.prompt_logprobs.is_some() {
            problems.add("prompt_logprobs", "is not available with stream");
        }
        shared
    }
}

fn take_options(fields: &mut Fields, limits: &Limits, problems: &mut Problems) -> GenerateOptions {
    let options = GenerateOptions {
        max_tokens: fields.integer("max_tokens"),
        min_tokens: fields.integer("min_tokens"),
        temperature: fields.float("temperature"),
        // -1 and 0 both mean all.
        top_k: fields.integer("top_k").map(|k: i64| k.max(0) as u32),
        top_p: fields.float("top_p"),
        min_p: fields.float("min_p"),
        repetition_penalty: fields.float("repetition_penalty"),
        frequency_penalty: fields.float("frequency_penalty"),
        presence_penalty: fields.float("presence_penalty"),
        logit_bias: take_logit_bias(fields, problems),
        seed: fields.integer("seed").map(|seed: i64| seed as u64),
        stop: take_stop(fields, problems),
        stop_token_ids: take_stop_tokens(fields, problems),
        ignore_eos: fields.boolean("ignore_eos").unwrap_or(false),
        n: fields.integer("n"),
        prompt_logprobs: fields.integer("prompt_logprobs"),
        include_stop_str_in_output: fields.boolean("include_stop_str_in_output").unwrap_or(false),
        skip_special_tokens: fields.boolean("skip_special_tokens"),
        cache_salt: take_name("cache_salt", fields, problems),
        priority: fields.integer("priority").unwrap_or(0),
        time_limit: fields.float("timeout").map(Duration::from_secs_f32),
        ..GenerateOptions::default()
    };
    if let Some(n) = options.n.filter(|n| *n > limits.max_choices) {
        problems
            .add("n", format!("must be a whole number from 1 to {}, not {n}", limits.max_choices));
    }
    if let (Some(min), Some(max)) = (options.min_tokens, options.max_tokens)
        && min > max
    {
        problems.add("min_tokens", format!("must be at most max_tokens ({max}), not {min}"));
    }
    options
}

fn take_stream_options(fields: &mut Fields, problems: &mut Problems) -> Option<StreamOptions> {
    let map = fields.object("stream_options", problems)?;
    let mut inner = Fields::open(&[STREAM_OPTIONS], "stream_options", map, problems);
    let options = StreamOptions {
        include_usage: inner.boolean("include_usage").unwrap_or(false),
        continuous_usage: inner.boolean("continuous_usage_stats").unwrap_or(false),
    };
    inner.close(problems);
    Some(options)
}

/// A short text that names something: no control characters, bounded.
fn take_name(name: &str, fields: &mut Fields, problems: &mut Problems) -> Option<String> {
    let text = fields.text(name)?;
    if text.is_empty() || text.len() > MAX_NAME_BYTES || text.chars().any(char::is_control) {
        problems.add(
            fields.at(name),
            format!("must have 1 to {MAX_NAME_BYTES} bytes and no control characters"),
        );
        return None;
    }
    Some(text)
}

fn take_stop(fields: &mut Fields, problems: &mut Problems) -> Vec<String> {
    let items = match fields.value("stop") {
        None => return Vec::new(),
        Some(Value::Array(items)) => items,
        Some(one) => vec![one],
    };
    if items.len() > MAX_STOP_STRINGS {
        problems.add(
            "stop",
            format!("has {} strings; at most {MAX_STOP_STRINGS} are allowed", items.len()),
        );
        return Vec::new();
    }
    let mut strings = Vec::new();
    for (index, item) in items.into_iter().enumerate() {
        match item {
            Value::String(text) if (1..=MAX_STOP_BYTES).contains(&text.len()) => strings.push(text),
            other => problems.add(
                format!("stop[{index}]"),
                format!("must be a string of 1 to {MAX_STOP_BYTES} bytes, not {}", shown(&other)),
            ),
        }
    }
    strings
}

fn take_stop_tokens(fields: &mut Fields, problems: &mut Problems) -> Vec<TokenId> {
    let ids = fields.token_ids("stop_token_ids", problems).unwrap_or_default();
    if ids.len() > MAX_STOP_TOKENS {
        problems.add(
            "stop_token_ids",
            format!("has {} ids; at most {MAX_STOP_TOKENS} are allowed", ids.len()),
        );
    }
    ids.into_iter().map(TokenId).collect()
}

/// `{"1234": -100}`: token ids as texts, biases from -100 to 100.
fn take_logit_bias(fields: &mut Fields, problems: &mut Problems) -> Vec<(TokenId, f32)> {
    let map: Map<String, Value> = fields.object("logit_bias", problems).unwrap_or_default();
    if map.len() > MAX_LOGIT_BIAS {
        problems.add(
            "logit_bias",
            format!("has {} entries; at most {MAX_LOGIT_BIAS} are allowed", map.len()),
        );
        return Vec::new();
    }
    let mut biases: Vec<(TokenId, f32)> = Vec::new();
    for (key, value) in map {
        let path = format!("logit_bias[{}]", quoted(&key));
        let bias = value.as_f64().filter(|bias| (-100.0..=100.0).contains(bias));
        match (key.parse::<u32>(), bias) {
            (Err(_), _) => problems.add(path, "must have a token id for its key"),
            (_, None) => problems
                .add(path, format!("must be a number from -100 to 100, not {}", shown(&value))),
            // "7" and "07" are two keys and one token.
            (Ok(id), _) if biases.iter().any(|(known, _)| known.0 == id) => {
                problems.add(path, "names a token that another key names too");
            }
            (Ok(id), Some(bias)) => biases.push((TokenId(id), bias as f32)),
        }
    }
    biases
}
