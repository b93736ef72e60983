//! What a caller may ask for: of one generation, and of a model when it is loaded.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use foundation::{Bytes, DType, TokenId};
use grammar::Constraint;

use crate::settings::Provenance;

/// What one generation is asked for. What is absent comes from the checkpoint's `generation_config.json`, then from the
/// built-in defaults.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GenerateOptions {
    /// Most tokens to generate; 0 only reads the prompt (and scores it, with `prompt_logprobs`). Built in: what the context
    /// still holds.
    pub max_tokens: Option<u32>,
    /// Tokens before which nothing ends the text, as in vLLM: no end-of-text or stop token is drawn among them, and a
    /// stop string ends the text only if it is complete behind them, wherever it begins. Built in: 0.
    pub min_tokens: Option<u32>,
    /// Divides the logits: any finite number from 0 up; 0 is greedy. The arithmetic holds however large it is (the draw
    /// becomes even), so the library sets no upper bound; the server keeps the OpenAI API's of 2. Built in: 1.
    pub temperature: Option<f32>,
    /// Keep the `k` likeliest tokens; 0: all. Built in: 0.
    pub top_k: Option<u32>,
    /// Keep the smallest set of tokens whose probability reaches `p`, above 0 up to 1. Built in: 1.
    pub top_p: Option<f32>,
    /// Keep tokens at least `min_p` times as likely as the likeliest, 0 to 1. Built in: 0.
    pub min_p: Option<f32>,
    /// Divides positive and multiplies negative logits of tokens seen in prompt or output, above 0. Built in: 1.
    pub repetition_penalty: Option<f32>,
    /// Subtracted for each earlier occurrence in the output, -2 to 2. Built in: 0.
    pub frequency_penalty: Option<f32>,
    /// Subtracted once if the token occurs in the output, -2 to 2. Built in: 0.
    pub presence_penalty: Option<f32>,
    /// Added to single logits.
    pub logit_bias: Vec<(TokenId, f32)>,
    /// Same seed, same request: same text, whatever runs beside it. Choice `i` draws from `seed + i`. Absent: random,
    /// and reported by [`Generation::seed`](crate::Generation::seed).
    pub seed: Option<u64>,
    /// Strings that end the text.
    pub stop: Vec<String>,
    /// Tokens that end the text, beside the checkpoint's own.
    pub stop_token_ids: Vec<TokenId>,
    /// Go on past the checkpoint's end-of-text tokens.
    pub ignore_eos: bool,
    /// Independent continuations of the same prompt, at least 1. Built in: 1.
    pub n: Option<u32>,
    /// Report each token's log-probability and those of this many likeliest tokens.
    pub logprobs: Option<u32>,
    /// The same for the tokens of the prompt.
    pub prompt_logprobs: Option<u32>,
    /// Leave the stop string that matched in the text.
    pub include_stop_str_in_output: bool,
    /// Leave control tokens out of the text. Built in: yes.
    pub skip_special_tokens: Option<bool>,
    /// Begin a text prompt with the control tokens that the tokenizer prescribes. Built in: yes.
    pub add_special_tokens: Option<bool>,
    /// Control tokens that a text prompt spells become control tokens: its author is trusted. Otherwise they stay text.
    pub parse_special: bool,
    /// Only requests of the same salt share cached prefixes.
    pub cache_salt: Option<String>,
    /// Lower runs earlier, one level being worth ten seconds of waiting. Built in: 0.
    pub priority: i32,
    /// Most time from here to the end of the answer; one that is not complete by then ends as
    /// [`Error::TimedOut`](crate::Error::TimedOut) and frees what it held. Built in: any time.
    pub time_limit: Option<Duration>,
    /// What the text must be; where a prompt leaves off within a model's reasoning, what comes behind that. The text is whole
    /// where the choice ends with [`FinishReason::Stop`](crate::FinishReason::Stop) and no stop string or token did it.
    pub constraint: Option<Constraint>,
}

/// How a model is to be loaded. What is absent follows from the checkpoint and the device.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelOptions {
    /// The name under which the model is addressed; `None`: the reference it was loaded by.
    pub id: Option<String>,
    /// Longest sequence to serve, prompt and output together, in tokens (`--max-model-len`).
    pub max_sequence_tokens: Option<usize>,
    /// Most sequences in one step (`--max-num-seqs`).
    pub max_step_sequences: Option<usize>,
    /// Most token rows in one step (`--max-num-batched-tokens`).
    pub max_step_tokens: Option<usize>,
    /// How many times as long as its decode rows alone a step may take that also takes in prompts (`--step-stretch`), at least 1; 0: any
    /// time, for most tokens a second; `None`: 2.5.
    pub step_stretch: Option<f32>,
    /// Memory for the KV cache.
    pub kv_memory: Option<Bytes>,
    /// Memory on the host for KV blocks that leave the device (`--kv-offload-memory`); `None`: none, they are gone.
    pub kv_offload_memory: Option<Bytes>,
    /// Part of the device's memory that the model may take, above 0 up to 1 (`--memory-fraction`); `None`: 0.9 of a GPU's
    /// memory, all that is available on the cpu.
    pub memory_fraction: Option<f32>,
    /// Element type of the KV cache (`--kv-cache-dtype`); `None`: the backend's own.
    pub kv_dtype: Option<DType>,
    /// A row's result does not depend on the rows beside it, to the bit (`--batch-invariant`); `None`: it may on a GPU, in
    /// the last digits. On the cpu it never does.
    pub batch_invariant: Option<bool>,
    /// Threads for a backend's work on the host: computing, or reading weights.
    pub threads: Option<usize>,
    /// Requests that may wait (`--max-queue`).
    pub max_queue: Option<usize>,
    /// Time without the end of a step, while there is work, after which [`Model::health`](crate::Model::health) reports a
    /// stall (`--stall-after`); `None`: 5 s. To be raised where a single step takes longer.
    pub stall_after: Option<Duration>,
    /// Keep the KV cache of finished prompts for later requests that begin alike; `None`: yes.
    pub prefix_cache: Option<bool>,
    /// Guess tokens and verify several in one step (`--speculate`); `None`: no. What is said does not change.
    pub speculation: Option<Speculation>,
    /// Most tokens guessed at a time (`--speculative-tokens`); `None`: 7.
    pub speculative_tokens: Option<usize>,
    /// Prompt lookup: tokens at the end that must have occurred before, at least (`--prompt-lookup-min`); `None`: 3.
    pub prompt_lookup_min: Option<usize>,
    /// Prompt lookup: tokens at the end that are compared, at most (`--prompt-lookup-max`); `None`: 8.
    pub prompt_lookup_max: Option<usize>,
    /// A chat template to use instead of the checkpoint's own (`--chat-template`).
    pub chat_template: Option<PathBuf>,
    /// How calls of tools are told from text (`--tool-call-parser`), by name, or `none`; absent: as the chat template has
    /// the model write them.
    pub tool_call_parser: Option<String>,
    /// How reasoning is told from text (`--reasoning-parser`); likewise.
    pub reasoning_parser: Option<String>,
    /// Read `generation_config.json` for defaults; `None`: yes.
    pub generation_config: Option<bool>,
    /// Configuration keys to pass over although their meaning is unknown.
    pub ignored_config_keys: Vec<String>,
    /// Made-up weights instead of the checkpoint's, for benches.
    pub synthetic: Option<SyntheticWeights>,
    /// Where the caller has its values from, by the name of the field (and `device`, for the library's choice). It changes
    /// nothing but what [`Model::settings`](crate::Model::settings) says; a value without an entry is simply given.
    pub provenance: BTreeMap<&'static str, Provenance>,
}

/// Who guesses tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speculation {
    /// Nobody.
    Off,
    /// Prompt lookup: what followed the last occurrence of the text's end, in prompt or answer.
    Ngram,
}

impl Speculation {
    /// As settings have it: `none`, `ngram`.
    pub fn name(self) -> &'static str {
        match self {
            Speculation::Off => "none",
            Speculation::Ngram => "ngram",
        }
    }
}

/// Made-up weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyntheticWeights {
    /// Seed of the generator.
    pub seed: u64,
    /// Element type.
    pub dtype: DType,
}
