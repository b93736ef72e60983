//! The packed step: plain data that says what a backend computes next.
//!
//! A step is one ragged batch of token rows. Each [`SequenceRun`] is a stretch of consecutive tokens of one
//! sequence: a prefill chunk, or a single decode token. Runs lie one after the other in [`StepBatch::tokens`].
//! A row, not the model, carries what differs between requests.

mod check;
mod host;

use std::{ops::Range, sync::Arc};

use foundation::{BlockId, SlotId, TokenId};

pub use self::host::{Copied, CopyId, CopyWay, HostCopy, HostSlot};
use crate::sampling::RowSampling;

/// Number of a step, counting up from 1 within one runner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StepId(pub u64);

/// One step's work. `T` is the number of token rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StepBatch {
    /// Which step this is.
    pub step: StepId,
    /// Input tokens, `T` of them, run after run.
    pub tokens: Vec<TokenInput>,
    /// Position of each token row.
    pub positions: Positions,
    /// The stretches, covering `0..T` in order.
    pub runs: Vec<SequenceRun>,
    /// The rows whose final hidden state is wanted, in ascending order of row.
    pub outputs: Vec<OutputRow>,
    /// Rows whose embedding is given instead of looked up (images, audio).
    pub embeddings: Vec<EmbeddingOverride>,
    /// Block copies to make before anything else (copy on write).
    pub block_copies: Vec<BlockCopy>,
    /// Slots that start anew before this step, with the tokens whose counts they start from.
    pub slot_resets: Vec<SlotReset>,
}

/// Where a token row's id comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenInput {
    /// Known on the host.
    Known(TokenId),
    /// What output row `output` of the step submitted before this one samples: it never passes the host.
    Sampled {
        /// Index into the previous step's `outputs`.
        output: u32,
    },
}

/// Positions of the token rows.
#[derive(Clone, Debug, PartialEq)]
pub enum Positions {
    /// One plane, `T` values.
    Text(Vec<u32>),
    /// Three planes (time, height, width), `T` values each: multimodal rotary embedding.
    Planes3([Vec<u32>; 3]),
}

impl Default for Positions {
    fn default() -> Self {
        Positions::Text(Vec::new())
    }
}

/// Consecutive tokens of one sequence.
#[derive(Clone, Debug, PartialEq)]
pub struct SequenceRun {
    /// Rows of the packed batch; never empty.
    pub rows: Range<u32>,
    /// Tokens of the sequence already in the cache before this step. The run's token `i` is the sequence's
    /// token `cached + i`.
    pub cached: u32,
    /// One table for each KV group, in the order of [`RunnerSpec::kv_groups`](crate::backend::RunnerSpec).
    pub tables: Vec<BlockTable>,
    /// Place of the sequence's per-session state (penalty counts, linear state).
    pub slot: SlotId,
    /// Weight-delta slot (LoRA); `None`: the base model.
    pub adapter: Option<u32>,
    /// Which position regime applies (see [`RunnerSpec::regime_thresholds`](crate::backend::RunnerSpec)).
    pub regime: u32,
    /// Tokens by which linear state is taken back before this run.
    pub rewind: u32,
}

/// The blocks of one sequence in one KV group.
///
/// Sequence token `t` lies in `blocks[t / block_size - first]` at offset `t % block_size`. Blocks before `first`
/// have left the window and are never read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BlockTable {
    /// Logical index of `blocks[0]`.
    pub first: u32,
    /// Physical blocks.
    pub blocks: Vec<BlockId>,
}

/// A row whose final hidden state is wanted, and what for.
#[derive(Clone, Debug, PartialEq)]
pub struct OutputRow {
    /// Row of the packed batch.
    pub row: u32,
    /// What is made of it.
    pub kind: OutputKind,
}

/// What is made of an output row.
#[derive(Clone, Debug, PartialEq)]
pub enum OutputKind {
    /// Sample the next token.
    Sample(RowSampling),
    /// Log-probability of a known next token (prompt log-probabilities, echo).
    Score {
        /// The token whose log-probability is wanted.
        target: TokenId,
        /// How many of the likeliest tokens to report beside it.
        top: u32,
    },
    /// All logits, raw (tests, classifiers).
    Logits,
    /// The hidden state after the final norm (embedding).
    Hidden,
}

/// A row whose embedding is given.
#[derive(Clone, Debug, PartialEq)]
pub struct EmbeddingOverride {
    /// Rows of the packed batch.
    pub rows: Range<u32>,
    /// `rows.len() * hidden` values, row-major.
    pub values: Arc<[f32]>,
}

/// Copy one block's contents to another within a KV group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockCopy {
    /// Index of the KV group.
    pub group: u32,
    /// Read.
    pub from: BlockId,
    /// Written.
    pub to: BlockId,
}

/// A slot begins to serve another sequence.
#[derive(Clone, Debug, PartialEq)]
pub struct SlotReset {
    /// The slot.
    pub slot: SlotId,
    /// Prompt tokens: repetition penalty counts them; empty where no penalty is asked for.
    pub prompt: Arc<[TokenId]>,
    /// Tokens generated so far (a recomputed sequence), for all penalties.
    pub generated: Arc<[TokenId]>,
}

/// What a step gave, one entry for each of [`StepBatch::outputs`], in the same order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StepOutput {
    /// Which step it was.
    pub step: StepId,
    /// The rows.
    pub rows: Vec<RowOutput>,
}

/// What one output row gave.
#[derive(Clone, Debug, PartialEq)]
pub enum RowOutput {
    /// A sampled token.
    Sampled {
        /// The token.
        token: TokenId,
        /// Its natural-log probability and the likeliest alternatives, where asked for.
        logprobs: Option<TokenLogprobs>,
    },
    /// The log-probability of the given token.
    Scored(TokenLogprobs),
    /// All logits, `vocab_size` of them.
    Logits(Vec<f32>),
    /// The hidden state, `hidden_size` values.
    Hidden(Vec<f32>),
    /// This row has no answer (logits that are no numbers, every token forbidden); its request fails alone. Whatever
    /// later reads the row as [`TokenInput::Sampled`] may compute anything: the result is discarded.
    Failed(String),
}

/// Log-probabilities at one position, from the model's raw distribution (before temperature and filters).
#[derive(Clone, Debug, PartialEq)]
pub struct TokenLogprobs {
    /// The token that stands there.
    pub token: TokenId,
    /// Its natural-log probability.
    pub logprob: f32,
    /// Its place among all tokens, 1 for the likeliest.
    pub rank: u32,
    /// The likeliest tokens, descending; equal ones by ascending id.
    pub top: Vec<(TokenId, f32)>,
}
