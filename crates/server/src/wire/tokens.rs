//! The requests of `POST /tokenize` and `POST /detokenize`.

use serde_json::{Map, Value};
use tokenmill::ChatRequest as Conversation;

use super::{
    chat::{CONVERSATION, take_conversation},
    fields::{Field, Fields, Problem, Problems, Rule, field, only},
};

const TOKENIZE: &[Field] = &[field("model", Rule::Text), field("return_token_strs", Rule::Boolean)];

const OF_TEXT: &[Field] = &[
    field("prompt", Rule::Text),
    field("add_special_tokens", Rule::Boolean),
    field("parse_special", Rule::Boolean),
];

const OF_CHAT: &[Field] = &[only("mm_processor_kwargs", &["{}"])];

const DETOKENIZE: &[Field] = &[
    field("model", Rule::Text),
    field("tokens", Rule::Shaped),
    field("skip_special_tokens", Rule::Boolean),
];

/// Tables of `/tokenize` with `prompt`.
pub const TEXT_TABLES: &[&[Field]] = &[TOKENIZE, OF_TEXT];
/// Tables of `/tokenize` with `messages`.
pub const CHAT_TABLES: &[&[Field]] = &[TOKENIZE, CONVERSATION, OF_CHAT];
/// Tables of `/detokenize`.
pub const DETOKENIZE_TABLES: &[&[Field]] = &[DETOKENIZE];

/// A request for tokens.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenizeRequest {
    /// Which model; `None`: the only one.
    pub model: Option<String>,
    /// Report how each token is spelled, too.
    pub return_token_strs: bool,
    /// What is tokenized.
    pub input: TokenizeInput,
}

/// What is tokenized.
#[derive(Clone, Debug, PartialEq)]
pub enum TokenizeInput {
    /// A text.
    Text {
        /// The text.
        text: String,
        /// Begin with the control tokens that the tokenizer prescribes.
        add_special_tokens: bool,
        /// Control tokens that the text spells become control tokens.
        parse_special: bool,
    },
    /// A conversation, rendered.
    Chat(Box<Conversation>),
}

impl TokenizeRequest {
    /// Reads a request; reports everything wrong with it.
    pub fn read(map: Map<String, Value>) -> Result<TokenizeRequest, Vec<Problem>> {
        let mut problems = Problems::default();
        let is_chat = map.get("messages").is_some_and(|messages| !messages.is_null());
        let tables = if is_chat { CHAT_TABLES } else { TEXT_TABLES };
        let mut fields = Fields::open(tables, "", map, &mut problems);
        let model = fields.text("model");
        let return_token_strs = fields.boolean("return_token_strs").unwrap_or(false);
        let input = if is_chat {
            TokenizeInput::Chat(Box::new(take_conversation(&mut fields, &mut problems)))
        } else {
            take_text(&mut fields, &mut problems)
        };
        fields.close(&mut problems);
        problems.into_result()?;
        Ok(TokenizeRequest { model, return_token_strs, input })
    }
}

fn take_text(fields: &mut Fields, problems: &mut Problems) -> TokenizeInput {
    let text = fields.text("prompt");
    if text.is_none() {
        problems.missing("prompt");
    }
    let add_special_tokens = fields.boolean("add_special_tokens").unwrap_or(true);
    let parse_special = fields.boolean("parse_special").unwrap_or(false);
    TokenizeInput::Text { text: text.unwrap_or_default(), add_special_tokens, parse_special }
}

/// A request for the text of tokens.
#[derive(Clone, Debug, PartialEq)]
pub struct DetokenizeRequest {
    /// Which model; `None`: the only one.
    pub model: Option<String>,
    /// The tokens.
    pub tokens: Vec<u32>,
    /// Leave control tokens out.
    pub skip_special_tokens: bool,
}

impl DetokenizeRequest {
    /// Reads a request; reports everything wrong with it.
    pub fn read(map: Map<String, Value>) -> Result<DetokenizeRequest, Vec<Problem>> {
        let mut problems = Problems::default();
        let mut fields = Fields::open(DETOKENIZE_TABLES, "", map, &mut problems);
        let model = fields.text("model");
        let skip_special_tokens = fields.boolean("skip_special_tokens").unwrap_or(false);
        let tokens = fields.token_ids("tokens", &mut problems);
        if tokens.is_none() {
            problems.missing("tokens");
        }
        fields.close(&mut problems);
        problems.into_result()?;
        Ok(DetokenizeRequest { model, tokens: tokens.unwrap_or_default(), skip_special_tokens })
    }
}
