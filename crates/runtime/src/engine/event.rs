//! What a ticket hears from the engine.

use std::time::Duration;

use foundation::TokenId;

use crate::batch::TokenLogprobs;

/// One event of a ticket. Order: `Started`, `PromptLogprobs` (if asked for), any number of `Token`, one `Finished`.
/// A request that ends early leaves events out, never `Finished`.
#[derive(Clone, Debug, PartialEq)]
pub enum EngineEvent {
    /// The first step has been planned.
    Started {
        /// Prompt tokens whose cache was found and not computed again.
        cached_tokens: u32,
    },
    /// One entry for each prompt token; the first token has nothing before it, so its entry is `None`.
    PromptLogprobs(Vec<Option<TokenLogprobs>>),
    /// A generated token. A stop token is delivered too, right before `Finished`.
    Token {
        /// The token.
        token: TokenId,
        /// Its log-probability and the likeliest alternatives, where asked for.
        logprobs: Option<TokenLogprobs>,
    },
    /// The last event of every ticket.
    Finished {
        /// Why it ended.
        reason: FinishReason,
        /// What it took.
        usage: Usage,
    },
}

/// Why a request ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FinishReason {
    /// A stop or end token was generated.
    Stop {
        /// Which one.
        token: TokenId,
    },
    /// The caller found a stop string in the text ([`Ticket::stop`](super::Ticket::stop)).
    StopText,
    /// `max_tokens` or the longest sequence was reached.
    Length,
    /// The caller cancelled, or dropped the ticket.
    Cancelled,
    /// Its time was over ([`EngineRequest::time_limit`](super::EngineRequest::time_limit)).
    TimedOut,
    /// The model gave no usable numbers for this request, so that no token could be drawn; the text says what was seen.
    /// Other requests go on.
    NoNumbers(String),
    /// The constraint could not be followed any further, a grammar that has become too complex, say; the text says why.
    /// What came before obeys it.
    ConstraintLost(String),
    /// The engine could not go on; the text says why.
    Failed(String),
}

/// What a request took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens of the prompt.
    pub prompt_tokens: u32,
    /// Of these, how many were found in the cache.
    pub cached_tokens: u32,
    /// Tokens generated, a stop token included.
    pub generated_tokens: u32,
    /// From submission to the first step.
    pub queue_time: Duration,
    /// From submission to the first token; `None`: there was none.
    pub time_to_first_token: Option<Duration>,
    /// From submission to the end.
    pub total_time: Duration,
}
