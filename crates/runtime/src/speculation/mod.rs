//! Speculative decoding: propose, verify, accept.
//!
//! A [`Proposer`] guesses how a sequence goes on. The next step computes the guesses together with the sequence's last
//! token, as further rows of its run, and samples after each row what it would have sampled there anyway: with the
//! parameters, the suppressed tokens and the random number of that place in the output. As long as a sample is the
//! guess that the row behind it read, that row's sample counts too; the first sample that differs is itself the next
//! token, and what was computed behind it is forgotten.
//!
//! **Nothing is lost by it.** A guess is a point mass `q(d) = 1`. The rule of speculative sampling accepts it with
//! probability `min(1, p(d) / q(d)) = p(d)` and draws otherwise from what is left of `p`, which is `p` without `d`, scaled up.
//! "Draw from `p`, and see whether it is `d`" does both at once. More than that: a draw is a function of seed and place
//! alone ([`philox`](crate::sampling::philox)), so the text is, token for token, the one that comes without speculation,
//! for greedy rows and for sampled ones, and so are its log-probabilities. (So far as a row's logits do not depend on how
//! many rows its run has: always on the CPU, batch-invariant on a GPU.)
//!
//! What is where: [`ngram`] guesses, [`pace`] decides how much guessing pays; the engine's `drafts` keeps both for each
//! request, the planner gives rows and blocks, the commit accepts.

pub mod ngram;
pub mod pace;

use std::fmt;

use foundation::{RequestId, TokenId};

pub use ngram::{NgramIndex, NgramProposer};
pub use pace::{Pace, PaceLimits};

use crate::backend::RunnerSpec;

/// Guesses how sequences go on. A guess may be wrong: it costs rows of a step, and never changes what is said.
///
/// Prompt lookup is one; a small draft model, or the model's own heads for tokens further ahead, would be others. It is
/// asked for all sequences at once, so that it may compute them as a batch. A guess counts as certain (see the
/// [module](self)): a proposer that has a distribution gives its likeliest tokens.
pub trait Proposer: fmt::Debug + Send {
    /// For each ask, in order, what may follow: at most [`Ask::most`] tokens of the vocabulary, fewer or none where it has
    /// no idea.
    fn propose(&mut self, asks: &[Ask<'_>]) -> Vec<Vec<TokenId>>;

    /// The request has ended. (It may never have been asked about.)
    fn forget(&mut self, id: RequestId);
}

/// One sequence whose continuation is to be guessed.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// Whose; between two asks its tokens only grow.
    pub id: RequestId,
    /// Prompt and committed output.
    pub tokens: &'a [TokenId],
    /// Most tokens that are of use; at least 1.
    pub most: usize,
}

/// Who guesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// What followed the last occurrence of the longest end of the sequence that occurred before, in prompt or output.
    Ngram {
        /// Tokens that must be the same, at least.
        shortest: usize,
        /// Tokens that are compared, at most.
        longest: usize,
    },
}

/// How an engine speculates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SpeculationOptions {
    /// Who guesses.
    pub method: Method,
    /// Most rows of a step for sequences that decode, guesses included: in large batches every row costs.
    pub step_rows: usize,
    /// When guessing pays.
    pub pace: PaceLimits,
}

impl Default for SpeculationOptions {
    fn default() -> Self {
        SpeculationOptions {
            method: Method::Ngram { shortest: 3, longest: 8 },
            step_rows: 64,
            pace: PaceLimits::default(),
        }
    }
}

impl SpeculationOptions {
    /// Who guesses, made.
    pub fn proposer(&self) -> Box<dyn Proposer> {
        match self.method {
            Method::Ngram { shortest, longest } => Box::new(NgramProposer::new(shortest, longest)),
        }
    }

    /// Why a runner cannot verify guesses, if it cannot.
    ///
    /// # Errors
    /// What it lacks.
    pub fn check(&self, spec: &RunnerSpec) -> Result<(), String> {
        if !spec.rewinds {
            return Err("speculation: the model keeps a state that cannot be taken back by the \
                        tokens of a wrong guess; switch speculation off"
                .to_owned());
        }
        if !spec.mixes_prefill_and_decode {
            return Err("speculation: the backend cannot mix runs of several rows with single \
                        ones; switch speculation off"
                .to_owned());
        }
        Ok(())
    }
}
