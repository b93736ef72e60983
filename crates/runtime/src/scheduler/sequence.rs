//! One sequence as the scheduler sees it: its tokens, how far they are computed, the blocks it holds.

use foundation::{SlotId, TokenId};

use super::rank::Rank;
use crate::{
    batch::{StepId, TokenLogprobs},
    kv::{KeyChain, SequenceKv},
};

/// One sequence. Its life: waiting, running, perhaps back to waiting (preempted), gone.
#[derive(Debug)]
pub struct Sequence {
    /// Its place among all sequences.
    pub rank: Rank,
    /// Prompt and committed output.
    pub tokens: Vec<TokenId>,
    /// How many of `tokens` are the prompt.
    pub prompt_tokens: usize,
    /// Most tokens to generate.
    pub max_tokens: usize,
    /// Longest it may become, prompt and output together.
    pub max_length: usize,
    /// Tokens whose cache was computed by submitted steps.
    pub computed: usize,
    /// Tokens sampled by submitted steps and not committed yet.
    pub in_flight: usize,
    /// The step and output row that samples the last token in flight.
    pub last_output: (StepId, u32),
    /// Its blocks.
    pub kv: SequenceKv,
    /// The names of its full blocks.
    pub chain: KeyChain,
    /// Logical blocks that have been published.
    pub published: usize,
    /// The position regime of everything in its cache.
    pub regime: u32,
    /// Its slot while it runs.
    pub slot: Option<SlotId>,
    /// Prompt log-probabilities so far, from the first token on; `None`: not asked for.
    pub prompt_scores: Option<Vec<Option<TokenLogprobs>>>,
    /// It has taken part in a step before.
    pub started: bool,
    /// Which tokens it may go on with depends on the last one: it never runs ahead.
    pub constrained: bool,
    /// It is constrained, and which tokens it may go on with is still being worked out.
    pub awaits_mask: bool,
    /// So many of its tokens are on their way back from the host; until they are there it waits, and others go on.
    pub restoring: Option<usize>,
    /// Tokens were brought back since it last ran: it has had its chance.
    pub restored: bool,
    /// Guesses at what follows `tokens`, to be verified once no token is in flight: it does not run ahead while there are any.
    pub drafts: Vec<TokenId>,
}

impl Sequence {
    /// Length with the tokens in flight.
    pub fn length(&self) -> usize {
        self.tokens.len() + self.in_flight
    }

    /// Tokens generated, those in flight included.
    pub fn generated(&self) -> usize {
        self.length() - self.prompt_tokens
    }

    /// Tokens to compute before there is nothing more to know: the last token of a prompt that wants no output has
    /// no use.
    pub fn goal(&self) -> usize {
        if self.max_tokens == 0 { self.prompt_tokens - 1 } else { self.length() }
    }

    /// Tokens to compute until the next sample.
    pub fn remaining(&self) -> usize {
        self.goal().saturating_sub(self.computed)
    }

    /// One token at a time now: its prompt is done.
    pub fn decodes(&self) -> bool {
        self.generated() > 0 && self.remaining() == 1
    }

    /// The tokens in flight may be the last: whatever they are, a limit is reached.
    pub fn reaches_limit(&self) -> bool {
        self.max_tokens > 0
            && (self.generated() >= self.max_tokens || self.length() >= self.max_length)
    }

    /// Whether a step can be planned now. Not while tokens in flight decide what comes next: a limit, a change of
    /// regime, a constraint, or (after preemption) a prompt to compute again that is not fully known; nor before a
    /// constraint has decided.
    pub fn is_ready(&self, thresholds: &[usize]) -> bool {
        let regime = regime_of(self.length(), thresholds);
        !self.reaches_limit()
            && !self.awaits_mask
            && self.remaining() > 0
            && regime == self.regime
            && (self.in_flight == 0 || (self.decodes() && self.runs_ahead()))
    }

    /// It may go on while its last token is in flight.
    pub fn runs_ahead(&self) -> bool {
        !self.constrained && self.drafts.is_empty()
    }

    /// Some of its output is committed.
    pub fn has_output(&self) -> bool {
        self.tokens.len() > self.prompt_tokens
    }

    /// How many tokens may be guessed behind the committed ones: the guesses and the token after them stay within every limit,
    /// and the guesses within the regime.
    pub fn draft_room(&self, thresholds: &[usize]) -> usize {
        let length = self.tokens.len();
        let output = self.max_tokens.saturating_sub(length - self.prompt_tokens + 1);
        let whole = self.max_length.saturating_sub(length + 1);
        let next = thresholds.iter().find(|threshold| **threshold >= length);
        output.min(whole).min(next.map_or(usize::MAX, |threshold| threshold - length))
    }

    /// The most tokens that may come from a cache: all, or only those whose log-probabilities are not wanted any more.
    pub fn most_cached(&self) -> usize {
        match &self.prompt_scores {
            Some(scores) if scores.len() < self.prompt_tokens => scores.len().saturating_sub(1),
            _ => self.length(),
        }
    }

    /// Forgets everything computed: blocks and slot are free.
    pub fn restart(&mut self) -> Option<SlotId> {
        self.drafts.clear();
        self.restored = false;
        self.kv = SequenceKv::default();
        self.computed = 0;
        self.published = 0;
        self.slot.take()
    }
}

/// The regime of a sequence of `length` tokens.
pub fn regime_of(length: usize, thresholds: &[usize]) -> u32 {
    thresholds.iter().filter(|threshold| length > **threshold).count() as u32
}
