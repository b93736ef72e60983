//! What replies look like.

use std::sync::Arc;

use serde::Serialize;
use tokenmill::{FinishReason, StopReason, TokenId};

use super::logprobs::{ChatLogprobs, CompletionLogprobs, PromptLogprobs};

/// What every reply and every chunk of a stream begins with.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Head {
    /// `chatcmpl-...` or `cmpl-...`.
    pub id: String,
    /// What kind of object it is.
    pub object: &'static str,
    /// Seconds since 1970.
    pub created: u64,
    /// The name of the model.
    pub model: String,
}

/// Tokens taken and made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Usage {
    /// Of all prompts.
    pub prompt_tokens: usize,
    /// Of all choices.
    pub completion_tokens: usize,
    /// Both.
    pub total_tokens: usize,
    /// More about the prompts.
    pub prompt_tokens_details: PromptTokensDetails,
}

/// More about the prompts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PromptTokensDetails {
    /// Tokens found in the prefix cache.
    pub cached_tokens: usize,
}

impl Usage {
    /// Counts in one number each.
    pub fn new(prompt: usize, completion: usize, cached: usize) -> Usage {
        Usage {
            prompt_tokens: prompt,
            completion_tokens: completion,
            total_tokens: prompt + completion,
            prompt_tokens_details: PromptTokensDetails { cached_tokens: cached },
        }
    }
}

/// A whole chat reply or a chunk of one; a completion or a chunk of one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Reply<C> {
    /// How it begins.
    #[serde(flatten)]
    pub head: Head,
    /// The answers, or what is new of them.
    pub choices: Vec<C>,
    /// In a stream: absent, null, or a value, as `stream_options` ask.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Option<Usage>>,
    /// The tokens of the prompt (chats; completions carry them in their choices).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_token_ids: Option<Vec<TokenId>>,
    /// Log-probabilities of the prompt (likewise).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_logprobs: Option<PromptLogprobs>,
}

impl<C> Reply<C> {
    /// A reply of these choices and nothing else.
    pub fn new(head: Head, choices: Vec<C>) -> Self {
        Reply { head, choices, usage: None, prompt_token_ids: None, prompt_logprobs: None }
    }
}

/// How a choice ended; null while it goes on.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Ending {
    /// `stop`, `tool_calls` or `length`.
    pub finish_reason: Option<FinishReason>,
    /// The stop string or stop token of the request that ended it.
    pub stop_reason: Option<StopReason>,
}

/// A whole answer to a chat.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ChatChoice {
    /// Which answer.
    pub index: usize,
    /// What the model says.
    pub message: AssistantMessage,
    /// Where asked for.
    pub logprobs: Option<ChatLogprobs>,
    /// How it ended.
    #[serde(flatten)]
    pub ending: Ending,
    /// Where asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_ids: Option<Vec<TokenId>>,
}

/// What the model says.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AssistantMessage {
    /// `assistant`.
    pub role: &'static str,
    /// The text; null where the answer is calls or reasoning alone.
    pub content: Option<String>,
    /// The reasoning before it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_content: Option<String>,
    /// The calls of tools.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// Never given.
    pub refusal: Option<()>,
}

/// A call of a tool.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ToolCall {
    /// Its id, by which the tool's answer refers to it.
    pub id: String,
    /// `function`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// What is called.
    pub function: CalledFunction,
}

/// What a call calls.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CalledFunction {
    /// The function.
    pub name: String,
    /// The text of a JSON object.
    pub arguments: String,
}

impl From<tokenmill::ToolCall> for ToolCall {
    fn from(call: tokenmill::ToolCall) -> Self {
        let tokenmill::ToolCall { id, name, arguments } = call;
        ToolCall { id, kind: "function", function: CalledFunction { name, arguments } }
    }
}

/// What is new of a call. The first of a call has its id, type and name, the others have more of its arguments.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ToolCallDelta {
    /// Which call of the answer.
    pub index: usize,
    /// Its id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// `function`.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<&'static str>,
    /// What is called.
    pub function: CalledFunctionDelta,
}

/// What is new of what a call calls.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CalledFunctionDelta {
    /// The function.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// More of the text of a JSON object.
    pub arguments: String,
}

/// What is new of an answer to a chat.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ChatChunkChoice {
    /// Which answer.
    pub index: usize,
    /// What is new.
    pub delta: Delta,
    /// Where asked for.
    pub logprobs: Option<ChatLogprobs>,
    /// In the last chunk of the choice: how it ended.
    #[serde(flatten)]
    pub ending: Ending,
    /// Where asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_ids: Option<Vec<TokenId>>,
}

/// What is new of an answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Delta {
    /// In the first chunk of the choice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<&'static str>,
    /// New text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// New reasoning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_content: Option<String>,
    /// What is new of calls.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCallDelta>,
}

/// A whole completion, or what is new of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CompletionChoice {
    /// Which one: of prompt `p` with `n` choices each, choice `c` is `p * n + c`.
    pub index: usize,
    /// The text; empty without a tokenizer.
    pub text: String,
    /// Where asked for.
    pub logprobs: Option<CompletionLogprobs>,
    /// How it ended.
    #[serde(flatten)]
    pub ending: Ending,
    /// Where asked for, and always without a tokenizer or with a prompt of token ids.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_ids: Option<Vec<TokenId>>,
    /// The tokens of the prompt, where asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_token_ids: Option<Arc<[TokenId]>>,
    /// Log-probabilities of the prompt, where asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_logprobs: Option<PromptLogprobs>,
}

/// The reply of `/tokenize`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TokenizeReply {
    /// Number of tokens.
    pub count: usize,
    /// The longest sequence the model serves, in tokens.
    pub max_model_len: usize,
    /// The tokens.
    pub tokens: Vec<TokenId>,
    /// How each is spelled in the vocabulary, where asked for.
    pub token_strs: Option<Vec<Option<String>>>,
}

/// The reply of `/detokenize`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DetokenizeReply {
    /// The text.
    pub prompt: String,
}

/// One entry of `/v1/models`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ModelCard {
    /// The name that requests use.
    pub id: String,
    /// `model`.
    pub object: &'static str,
    /// When it was loaded, in seconds since 1970.
    pub created: u64,
    /// `tokenmill`.
    pub owned_by: &'static str,
    /// The model behind the name.
    pub root: String,
    /// Nothing: there are no adapters.
    pub parent: Option<()>,
    /// The longest sequence, prompt and answer together, in tokens.
    pub max_model_len: usize,
}
