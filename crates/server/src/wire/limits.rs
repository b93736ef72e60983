//! What one request may ask for.

/// Limits that the operator sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most prompts in one completion request.
    pub max_prompts: usize,
    /// Most answers to one prompt (`n`).
    pub max_choices: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { max_prompts: 1024, max_choices: 128 }
    }
}

/// Most stop strings.
pub const MAX_STOP_STRINGS: usize = 64;
/// Longest stop string, in bytes: that much text may have to be held back.
pub const MAX_STOP_BYTES: usize = 1024;
/// Most stop token ids.
pub const MAX_STOP_TOKENS: usize = 256;
/// Most entries of `logit_bias`.
pub const MAX_LOGIT_BIAS: usize = 1024;
/// Most log-probabilities at one position.
pub const MAX_LOGPROBS: i64 = 20;
/// Longest `request_id` and `cache_salt`, in bytes.
pub const MAX_NAME_BYTES: usize = 256;
/// Longest `timeout`, in seconds: a week.
pub const MAX_TIMEOUT_S: f64 = 604_800.0;
/// Most messages in one chat.
pub const MAX_MESSAGES: usize = 16_384;
/// Most entries that a reply gives of prompts: for each token of a prompt one in every choice, and one more for each of its
/// rivals. A small request could otherwise ask for gigabytes.
pub const MAX_PROMPT_ENTRIES: usize = 1 << 20;
