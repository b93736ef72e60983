//! What a generation gives: events as they come, and the whole.

use std::sync::Arc;

use foundation::TokenId;
use serde::Serialize;

/// What happens during a generation, in this order: one `Prompt`, any number of `Delta`s, one `Finished` for each choice.
#[derive(Clone, Debug, PartialEq)]
pub enum GenerationEvent {
    /// The prompt has been taken in.
    Prompt {
        /// Its tokens.
        tokens: Arc<[TokenId]>,
        /// How many of them were found in the prefix cache.
        cached_tokens: usize,
        /// Log-probabilities of its tokens, where asked for; the first has none.
        logprobs: Option<Vec<Option<TokenLogprob>>>,
    },
    /// A choice has grown.
    Delta {
        /// Which of the `n` choices.
        choice: usize,
        /// New content. Empty while a character is incomplete or a stop string may be beginning, and always where the
        /// checkpoint has no tokenizer.
        text: String,
        /// New reasoning; comes before the content.
        reasoning: String,
        /// What is new of calls of tools.
        calls: Vec<ToolCallDelta>,
        /// New tokens.
        tokens: Vec<TokenId>,
        /// Their log-probabilities, one a token; empty where not asked for.
        logprobs: Vec<TokenLogprob>,
    },
    /// A choice is complete.
    Finished {
        /// Which of the `n` choices.
        choice: usize,
        /// Why it ended.
        reason: FinishReason,
        /// What stopped it, where a stop string or one of `stop_token_ids` did.
        stop_reason: Option<StopReason>,
        /// What this choice took.
        usage: Usage,
    },
}

/// What is new of a call. Its parts come in this order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "part", rename_all = "snake_case")]
pub enum ToolCallDelta {
    /// A call begins.
    Start {
        /// Which call of the answer; counts from 0.
        index: usize,
        /// Its id, by which the tool's answer refers to it.
        id: String,
        /// The tool, as the model spelled it; it need not be one of those offered.
        name: String,
    },
    /// More of its arguments.
    Arguments {
        /// Which call.
        index: usize,
        /// What is new of the text of a JSON object.
        text: String,
    },
    /// It is complete.
    End {
        /// Which call.
        index: usize,
    },
    /// It is none after all: it broke off or is malformed. What the model wrote is content.
    Withdrawn {
        /// Which call.
        index: usize,
    },
}

/// A call of a tool, complete.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ToolCall {
    /// Its id, by which the tool's answer refers to it.
    pub id: String,
    /// The tool, as the model spelled it; it need not be one of those offered.
    pub name: String,
    /// The text of a JSON object.
    pub arguments: String,
}

/// Why a choice ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// An end-of-text token, a stop token or a stop string.
    Stop,
    /// The same, and the answer calls tools.
    ToolCalls,
    /// `max_tokens`, or the end of the context.
    Length,
    /// The caller cancelled it.
    Cancelled,
}

/// What stopped a choice, where the request named it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum StopReason {
    /// One of `stop_token_ids`.
    Token(TokenId),
    /// One of `stop`.
    Text(String),
}

/// Tokens taken and made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Usage {
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// Tokens generated; those past a stop string do not count.
    pub completion_tokens: usize,
    /// Tokens of the prompt that were found in the prefix cache.
    pub cached_tokens: usize,
}

/// One token's log-probability and its likeliest rivals.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TokenLogprob {
    /// The token.
    pub token: TokenId,
    /// Its text alone; empty without a tokenizer.
    pub text: String,
    /// Its bytes alone, which need not be UTF-8; empty without a tokenizer.
    pub bytes: Vec<u8>,
    /// Natural logarithm of its probability.
    pub logprob: f32,
    /// Its place among all tokens, 1 for the likeliest.
    pub rank: u32,
    /// The likeliest tokens, descending.
    pub top: Vec<TopLogprob>,
}

/// A likely token and its log-probability.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TopLogprob {
    /// The token.
    pub token: TokenId,
    /// Its text alone; empty without a tokenizer.
    pub text: String,
    /// Its bytes alone; empty without a tokenizer.
    pub bytes: Vec<u8>,
    /// Natural logarithm of its probability.
    pub logprob: f32,
}

/// A whole generation.
#[derive(Clone, Debug, PartialEq)]
pub struct Output {
    /// Tokens of the prompt.
    pub prompt: Arc<[TokenId]>,
    /// Log-probabilities of the prompt's tokens, where asked for; the first has none.
    pub prompt_logprobs: Option<Vec<Option<TokenLogprob>>>,
    /// The continuations, `n` of them.
    pub choices: Vec<Choice>,
    /// All choices together; the prompt counts once.
    pub usage: Usage,
}

/// A whole continuation.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// Its text; `None` where the checkpoint has no tokenizer. Of an answer to a chat, the content.
    pub text: Option<String>,
    /// Its reasoning, where there is some.
    pub reasoning: Option<String>,
    /// The calls of tools in it.
    pub calls: Vec<ToolCall>,
    /// Its tokens.
    pub tokens: Vec<TokenId>,
    /// Their log-probabilities, one a token; empty where not asked for.
    pub logprobs: Vec<TokenLogprob>,
    /// Why it ended.
    pub finish_reason: FinishReason,
    /// What stopped it, where a stop string or one of `stop_token_ids` did.
    pub stop_reason: Option<StopReason>,
}
