//! The structs that host and kernels of sampling exchange. They mirror `layout.cuh`.

use bytemuck::{Pod, Zeroable};

/// Most of the likeliest tokens that the device reports of a row; the host scores rows that ask for more.
pub const MOST_TOP: usize = 128;
/// Bins of the histogram over a row.
pub const BINS: usize = 2048;
/// Groups of threads of a block of the first pass, each with its likeliest token.
pub const GROUPS: usize = 64;
/// Tokens that one draw can sort.
pub const MOST_CANDIDATES: u32 = 4096;
/// The bit of a count that says that the token occurs in prompt or output.
pub const SEEN: u32 = 1 << 31;

/// What is made of a row of logits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum RowKind {
    /// Nothing: padding, or the host reads it.
    #[default]
    Nothing = 0,
    /// A token is sampled.
    Sample = 1,
    /// A given token is scored.
    Score = 2,
}

/// Bits of [`SampleRow::flags`].
pub mod flag {
    /// Bias, penalties, bans or a mask change the logits.
    pub const EDITS: u32 = 1;
    /// The changed row goes to scratch, because the raw one is read later.
    pub const KEEPS_RAW: u32 = 2;
    /// Tokens that the slot has seen are penalised, and the sampled one is counted.
    pub const PENALTIES: u32 = 4;
    /// Only the tokens of a mask are allowed.
    pub const MASK: u32 = 8;
    /// Log-probabilities are wanted.
    pub const LOGPROBS: u32 = 16;
}

/// What one output row asks of the sampler. All zeros: a row that is padding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct SampleRow {
    /// The random number of the draw, in `[0, 1)`.
    pub uniform: f64,
    /// A [`RowKind`].
    pub kind: u32,
    /// Of [`flag`].
    pub flags: u32,
    /// 0: greedy.
    pub temperature: f32,
    /// 1: off.
    pub top_p: f32,
    /// 0: off.
    pub min_p: f32,
    /// 0: off.
    pub top_k: u32,
    /// Repetition penalty.
    pub repetition: f32,
    /// Frequency penalty.
    pub frequency: f32,
    /// Presence penalty.
    pub presence: f32,
    /// Whose counts the penalties use.
    pub slot: u32,
    /// First of its entries in the list of biases; they are sorted by token, those of one token in the order they add up.
    pub bias_start: u32,
    /// How many there are.
    pub bias_count: u32,
    /// First of its entries in the list of forbidden tokens.
    pub ban_start: u32,
    /// How many there are.
    pub ban_count: u32,
    /// First of its words in the list of masks.
    pub mask_start: u32,
    /// How many there are; tokens beyond them are not allowed.
    pub mask_words: u32,
    /// The token to score.
    pub target: u32,
    /// How many of the likeliest tokens are wanted, at most [`MOST_TOP`].
    pub top: u32,
}
const _: () = assert!(size_of::<SampleRow>() == 80);

/// Added to one token's logit.
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct Bias {
    /// The token.
    pub token: u32,
    /// What is added.
    pub value: f32,
}

/// How a row ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Status {
    /// With an answer.
    Ok = 0,
    /// A raw logit is a NaN.
    RawNan = 1,
    /// A raw logit is infinite.
    RawInfinite = 2,
    /// Every raw logit is `-inf`.
    RawNothing = 3,
    /// The edits made a NaN.
    Nan = 4,
    /// The edits made an infinite logit.
    Infinite = 5,
    /// The edits forbid every token.
    Nothing = 6,
}

impl Status {
    /// The status of that number.
    pub fn of(number: u32) -> Option<Status> {
        const ALL: [Status; 7] = [
            Status::Ok,
            Status::RawNan,
            Status::RawInfinite,
            Status::RawNothing,
            Status::Nan,
            Status::Infinite,
            Status::Nothing,
        ];
        ALL.get(number as usize).copied()
    }
}

/// What a row gave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct Answer {
    /// The token; 0 where there is none.
    pub token: i32,
    /// A [`Status`].
    pub status: u32,
    /// The token whose logit is no number.
    pub at: u32,
    /// Of the token in the raw distribution, where asked for.
    pub logprob: f32,
    /// Its place among all tokens, 1 for the likeliest.
    pub rank: u32,
    /// How many of the likeliest tokens are reported.
    pub tops: u32,
}
const _: () = assert!(size_of::<Answer>() == 24);

/// A slot that begins anew, and the tokens its counts begin with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct CountReset {
    /// The slot.
    pub slot: u32,
    /// First of its prompt tokens in the list of tokens.
    pub prompt_start: u32,
    /// How many there are.
    pub prompt_count: u32,
    /// First of its generated tokens in the same list.
    pub generated_start: u32,
    /// How many there are.
    pub generated_count: u32,
    /// 0.
    pub unused: u32,
}
const _: () = assert!(size_of::<CountReset>() == 24);

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(super) struct SampleParams {
    pub(super) rows: u64,
    pub(super) row_count: u64,
    pub(super) logits: u64,
    pub(super) bias: u64,
    pub(super) bans: u64,
    pub(super) masks: u64,
    pub(super) counts: u64,
    pub(super) argmax: u64,
    pub(super) sampled: u64,
    pub(super) answers: u64,
    pub(super) top_tokens: u64,
    pub(super) top_logprobs: u64,
    pub(super) edited: u64,
    pub(super) partials: u64,
    pub(super) states: u64,
    pub(super) tickets: u64,
    pub(super) bin_weights: u64,
    pub(super) bin_counts: u64,
    pub(super) chunk_weights: u64,
    pub(super) groups: u64,
    pub(super) stride: u64,
    pub(super) vocab: u32,
    pub(super) chunk: u32,
    pub(super) chunks: u32,
    pub(super) capacity: u32,
    pub(super) argmax_parts: u32,
    pub(super) row_places: u32,
}
const _: () = assert!(size_of::<SampleParams>() == 192);

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(super) struct CountResetParams {
    pub(super) resets: u64,
    pub(super) tokens: u64,
    pub(super) counts: u64,
    pub(super) stride: u64,
}
const _: () = assert!(size_of::<CountResetParams>() == 32);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_found_by_their_number() {
        for number in 0..7 {
            assert_eq!(Status::of(number).map(|status| status as u32), Some(number));
        }
        assert_eq!(Status::of(7), None);
    }
}
