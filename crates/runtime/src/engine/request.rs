//! What a caller asks of the engine, and how the engine says no.

use std::{sync::Arc, time::Duration};

use foundation::TokenId;

use crate::{
    sampling::{SamplingLogits, SamplingParams, SharedConstraint},
    speculation::SpeculationOptions,
};

/// One sequence to continue: token ids in, token ids out. Text, templates and stop strings belong to the caller.
#[derive(Clone, Debug, PartialEq)]
pub struct EngineRequest {
    /// The tokens to continue; at least one, each below the vocabulary size.
    pub prompt: Arc<[TokenId]>,
    /// How tokens are chosen.
    pub sampling: SamplingParams,
    /// Most tokens to generate. 0 generates none: only prompt log-probabilities can come of it.
    pub max_tokens: u32,
    /// No stop or end token may be drawn before so many tokens have been generated.
    pub min_tokens: u32,
    /// The request's own stop tokens; they stop it whatever `ignore_eos` says.
    pub stop_tokens: Vec<TokenId>,
    /// The model's end tokens.
    pub eos_tokens: Vec<TokenId>,
    /// Generate on past the model's end tokens.
    pub ignore_eos: bool,
    /// What is wanted beside each generated token.
    pub logprobs: SamplingLogits,
    /// Log-probabilities of the prompt, with so many of the likeliest tokens at each position. Such a request computes
    /// its whole prompt, even where it is cached.
    pub prompt_logprobs: Option<u32>,
    /// Caches are shared only between requests of the same salt.
    pub cache_salt: Option<String>,
    /// A larger one is served sooner, each level being worth
    /// [ten seconds](crate::scheduler::rank::HEAD_START) of waiting; equal ones in order of arrival.
    pub priority: i32,
    /// Most time from submission to the end; then it ends as [`FinishReason::TimedOut`](super::FinishReason::TimedOut) at the next
    /// step boundary, wherever it is.
    pub time_limit: Option<Duration>,
    /// What the output must follow.
    pub constraint: Option<SharedConstraint>,
}

impl EngineRequest {
    /// A greedy request for up to `max_tokens` tokens, everything else off.
    pub fn new(prompt: impl Into<Arc<[TokenId]>>, max_tokens: u32) -> Self {
        EngineRequest {
            prompt: prompt.into(),
            sampling: SamplingParams::default(),
            max_tokens,
            min_tokens: 0,
            stop_tokens: Vec::new(),
            eos_tokens: Vec::new(),
            ignore_eos: false,
            logprobs: SamplingLogits::None,
            prompt_logprobs: None,
            cache_salt: None,
            priority: 0,
            time_limit: None,
            constraint: None,
        }
    }
}

/// How the engine runs. Every limit has its unit in its name or its text.
#[derive(Clone, Debug, PartialEq)]
pub struct EngineOptions {
    /// Most requests that wait for their first step; one more is refused as [`Refusal::Busy`].
    pub max_queue: usize,
    /// Share cached blocks between requests with equal beginnings.
    pub prefix_cache: bool,
    /// Most token rows in one step; `None`: what the runner allows.
    pub max_step_tokens: Option<usize>,
    /// Decode-only steps in a row while a prefill waits; then one step carries at least one prefill chunk.
    pub decode_priority_burst: u32,
    /// Prefill chunks are cut so that a step that also decodes takes about so long, by the measured cost of a row;
    /// steps that only prefill may take four times as long. `None`: chunks fill the token budget.
    pub step_target: Option<Duration>,
    /// Prefill chunks are cut, too, so that a step that also decodes takes about so many times as long as its decode rows
    /// take alone: nobody's text falters much because others bring prompts. `None`: they are not.
    pub step_stretch: Option<f64>,
    /// Plan and submit the next step while one runs, where the runner can.
    pub overlap: bool,
    /// Guess tokens and verify several in one step; `None`: one token a step.
    pub speculation: Option<SpeculationOptions>,
    /// Work is queued and no step has ended for so long: [`Health::ok`](super::Health) turns false.
    pub stall_after: Duration,
}

impl Default for EngineOptions {
    fn default() -> Self {
        EngineOptions {
            max_queue: 1024,
            prefix_cache: true,
            max_step_tokens: None,
            decode_priority_burst: 0,
            step_target: Some(Duration::from_millis(250)),
            step_stretch: Some(2.5),
            overlap: true,
            speculation: None,
            stall_after: Duration::from_secs(5),
        }
    }
}

/// Why a request did not get a ticket.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// It can never fit.
    #[error(
        "the prompt has {tokens} tokens; at most {limit} tokens fit, prompt and output together"
    )]
    TooLong {
        /// Tokens of the prompt.
        tokens: usize,
        /// Longest sequence that can be served, prompt and output together.
        limit: usize,
    },
    /// They belong together, and are more than may ever wait at once.
    #[error("{wanted} sequences at once, and at most {limit} may wait")]
    TooMany {
        /// Sequences wanted.
        wanted: usize,
        /// Sequences that may wait.
        limit: usize,
    },
    /// The queue is full, or has too few places left for all of them.
    #[error(
        "{queued} requests wait already and {limit} may: no room for {wanted} more; try again in {} s",
        retry_after.as_secs()
    )]
    Busy {
        /// Requests waiting.
        queued: usize,
        /// Requests that were to join them.
        wanted: usize,
        /// Requests that may wait.
        limit: usize,
        /// When a place is likely to be free: whole seconds, at least one.
        retry_after: Duration,
    },
    /// The engine finishes what it has and takes nothing new.
    #[error("the model is being drained and takes no new requests")]
    Draining,
    /// The engine has failed; it must be loaded anew.
    #[error("the model is unhealthy: {reason}")]
    Unhealthy {
        /// What happened.
        reason: String,
    },
    /// Parameters have no meaning; every finding.
    #[error("{}", list(.0))]
    Invalid(Vec<InvalidField>),
}

/// One parameter that has no meaning.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct InvalidField {
    /// Its name, as in [`EngineRequest`] or [`SamplingParams`].
    pub field: &'static str,
    /// The value seen and the value wanted.
    pub problem: String,
}

fn list(problems: &[InvalidField]) -> String {
    let lines: Vec<String> = problems.iter().map(InvalidField::to_string).collect();
    lines.join("; ")
}
