//! From the output rows of a step to what the kernels read, and back. Pure.

use std::ops::Range;

use foundation::TokenId;
use runtime::{
    batch::{OutputKind, OutputRow, RowOutput, StepBatch, TokenLogprobs},
    sampling::{RowSampling, SampleError, SamplingLogits, philox, score},
};

use super::layout::{Answer, Bias, CountReset, MOST_TOP, RowKind, SampleRow, Status, flag};

/// The kernels that a step's rows need; all `false`: rows that are greedy and nothing else, or no samples at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Stages {
    /// A row changes its logits, or is scored: the likeliest tokens by the head's product do not do.
    pub scans: bool,
    /// A row has a temperature.
    pub draws: bool,
    /// A row wants log-probabilities.
    pub logprobs: bool,
    /// A row has penalties.
    pub counts: bool,
}

impl Stages {
    /// What serves the rows of both.
    pub fn or(self, other: Stages) -> Stages {
        Stages {
            scans: self.scans || other.scans,
            draws: self.draws || other.draws,
            logprobs: self.logprobs || other.logprobs,
            counts: self.counts || other.counts,
        }
    }
}

/// Output rows as the kernels read them, and how their answers are to be read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Packed {
    /// One for each output row.
    pub rows: Vec<SampleRow>,
    /// What the rows' ranges of biases refer to.
    pub bias: Vec<Bias>,
    /// What the rows' ranges of forbidden tokens refer to.
    pub bans: Vec<u32>,
    /// What the rows' ranges of mask words refer to.
    pub masks: Vec<u32>,
    /// The kernels that the rows need.
    pub stages: Stages,
    /// How each row's answer is read.
    pub plans: Vec<RowPlan>,
}

/// How one row's answer is read.
#[derive(Clone, Debug, PartialEq)]
pub struct RowPlan {
    /// What the host needs beside the answer: values to copy from the device.
    pub copies: Copies,
    kind: Awaited,
}

/// A row of values that the host needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copies {
    /// None.
    Nothing,
    /// The raw logits, `vocab` of them.
    Logits,
    /// The hidden state after the final norm.
    Hidden,
}

#[derive(Clone, Debug, PartialEq)]
enum Awaited {
    /// A token; an error that the host saw, which only broken logits come before.
    Sampled {
        logprobs: Option<u32>,
        error: Option<SampleError>,
    },
    Scored {
        target: TokenId,
        top: u32,
        error: Option<SampleError>,
    },
    Values,
}

/// Packs `outputs` of a step for rows of `vocab` logits.
pub fn pack(batch: &StepBatch, outputs: Range<usize>, vocab: usize) -> Packed {
    let mut packed = Packed::default();
    for output in &batch.outputs[outputs] {
        let (row, plan) = match &output.kind {
            OutputKind::Sample(sampling) => {
                let slot = slot_of(batch, output);
                packed.sample(sampling, slot, vocab)
            }
            OutputKind::Score { target, top } => score_row(*target, *top, vocab),
            OutputKind::Logits => values(Copies::Logits),
            OutputKind::Hidden => values(Copies::Hidden),
        };
        packed.stages = packed.stages.or(stages_of(&row));
        packed.rows.push(row);
        packed.plans.push(plan);
    }
    packed
}

/// The slot of the run that an output's row belongs to.
fn slot_of(batch: &StepBatch, output: &OutputRow) -> u32 {
    let run = batch.runs.partition_point(|run| run.rows.end <= output.row);
    batch.runs.get(run).map_or(0, |run| run.slot.0)
}

fn stages_of(row: &SampleRow) -> Stages {
    Stages {
        scans: row.flags != 0 || row.kind == RowKind::Score as u32,
        draws: row.kind == RowKind::Sample as u32 && row.temperature > 0.0,
        logprobs: row.flags & flag::LOGPROBS != 0,
        counts: row.flags & flag::PENALTIES != 0,
    }
}

fn values(copies: Copies) -> (SampleRow, RowPlan) {
    (SampleRow::default(), RowPlan { copies, kind: Awaited::Values })
}

fn score_row(target: TokenId, top: u32, vocab: usize) -> (SampleRow, RowPlan) {
    let error = beyond([target].iter(), vocab);
    let on_host = top as usize > MOST_TOP;
    let copies = if on_host && error.is_none() { Copies::Logits } else { Copies::Nothing };
    let plan = RowPlan { copies, kind: Awaited::Scored { target, top, error: error.clone() } };
    if on_host || error.is_some() {
        return (SampleRow::default(), plan);
    }
    let row = SampleRow {
        kind: RowKind::Score as u32,
        flags: flag::LOGPROBS,
        target: target.0,
        top,
        ..SampleRow::default()
    };
    (row, plan)
}

/// The first token that the vocabulary does not have.
fn beyond<'a>(mut tokens: impl Iterator<Item = &'a TokenId>, vocab: usize) -> Option<SampleError> {
    let token = *tokens.find(|token| token.0 as usize >= vocab)?;
    Some(SampleError::Beyond { token, vocab_size: vocab })
}

impl Packed {
    fn sample(&mut self, sampling: &RowSampling, slot: u32, vocab: usize) -> (SampleRow, RowPlan) {
        let params = &sampling.params;
        let biased = params.logit_bias.iter().map(|(token, _)| token);
        let banned = params.banned.iter().chain(sampling.suppressed.iter());
        let error = beyond(biased.chain(banned), vocab);
        let logprobs = match sampling.logits {
            SamplingLogits::None => None,
            SamplingLogits::Top(top) => Some(top),
        };
        let on_host = logprobs.is_some_and(|top| top as usize > MOST_TOP) && error.is_none();
        let copies = if on_host { Copies::Logits } else { Copies::Nothing };
        let mut row = SampleRow {
            kind: RowKind::Sample as u32,
            temperature: params.temperature.max(0.0),
            top_p: params.top_p,
            min_p: params.min_p,
            top_k: if (params.top_k as usize) < vocab { params.top_k } else { 0 },
            slot,
            ..SampleRow::default()
        };
        // A row that fails on the host is sampled all the same: broken logits come before what the host found.
        if error.is_none() {
            self.edits(&mut row, sampling);
            if row.temperature > 0.0 {
                row.uniform = philox::uniform(params.seed, sampling.draw);
            }
            if let Some(top) = logprobs {
                row.flags |= if on_host { 0 } else { flag::LOGPROBS };
                row.flags |= if row.flags & flag::EDITS != 0 { flag::KEEPS_RAW } else { 0 };
                row.top = if on_host { 0 } else { top };
            }
        } else {
            row.temperature = 0.0;
        }
        (row, RowPlan { copies, kind: Awaited::Sampled { logprobs, error } })
    }

    /// Bias, penalties, forbidden and allowed tokens.
    fn edits(&mut self, row: &mut SampleRow, sampling: &RowSampling) {
        let params = &sampling.params;
        row.bias_start = self.bias.len() as u32;
        row.bias_count = params.logit_bias.len() as u32;
        let entry = |(token, value): &(TokenId, f32)| Bias { token: token.0, value: *value };
        self.bias.extend(params.logit_bias.iter().map(entry));
        // Stable: entries for one token add up in the order they were given.
        self.bias[row.bias_start as usize..].sort_by_key(|bias| bias.token);
        row.ban_start = self.bans.len() as u32;
        let banned = params.banned.iter().chain(sampling.suppressed.iter());
        self.bans.extend(banned.map(|token| token.0));
        row.ban_count = self.bans.len() as u32 - row.ban_start;
        if params.needs_counts() {
            row.flags |= flag::PENALTIES;
            row.repetition = params.repetition_penalty;
            row.frequency = params.frequency_penalty;
            row.presence = params.presence_penalty;
        }
        if let Some(allowed) = &sampling.allowed {
            row.flags |= flag::MASK;
            row.mask_start = self.masks.len() as u32;
            row.mask_words = allowed.len() as u32;
            self.masks.extend_from_slice(allowed);
        }
        if row.flags != 0 || row.bias_count > 0 || row.ban_count > 0 {
            row.flags |= flag::EDITS;
        }
    }
}

impl RowPlan {
    /// The row's output from the device's answer. `top_tokens` and `top_logprobs` are the row's, `values` what
    /// [`RowPlan::copies`] asks for.
    pub fn answer(
        &self,
        answer: &Answer,
        top_tokens: &[u32],
        top_logprobs: &[f32],
        values: &[f32],
    ) -> RowOutput {
        let tops = || {
            let pairs = top_tokens.iter().zip(top_logprobs).take(answer.tops as usize);
            TokenLogprobs {
                token: TokenId(answer.token.unsigned_abs()),
                logprob: answer.logprob,
                rank: answer.rank,
                top: pairs.map(|(token, logprob)| (TokenId(*token), *logprob)).collect(),
            }
        };
        match &self.kind {
            Awaited::Values if self.copies == Copies::Hidden => RowOutput::Hidden(values.to_vec()),
            Awaited::Values => RowOutput::Logits(values.to_vec()),
            Awaited::Scored { error: Some(error), .. } => RowOutput::Failed(error.to_string()),
            Awaited::Scored { target, top, .. } if self.copies == Copies::Logits => {
                scored(score(values, *target, *top).map_err(|error| error.to_string()))
            }
            Awaited::Scored { .. } => scored(failure(answer, None).map_or(Ok(tops()), Err)),
            Awaited::Sampled { logprobs, error } => {
                let token = TokenId(answer.token.unsigned_abs());
                let logprobs = match (failure(answer, error.as_ref()), logprobs) {
                    (Some(failure), _) => return RowOutput::Failed(failure),
                    (None, None) => None,
                    (None, Some(top)) if self.copies == Copies::Logits => {
                        match score(values, token, *top) {
                            Ok(logprobs) => Some(logprobs),
                            Err(error) => return RowOutput::Failed(error.to_string()),
                        }
                    }
                    (None, Some(_)) => Some(tops()),
                };
                RowOutput::Sampled { token, logprobs }
            }
        }
    }
}

fn scored(logprobs: Result<TokenLogprobs, String>) -> RowOutput {
    match logprobs {
        Ok(logprobs) => RowOutput::Scored(logprobs),
        Err(error) => RowOutput::Failed(error),
    }
}

/// Why the row has no answer: broken logits, then what the host found, then what the edits did.
fn failure(answer: &Answer, host: Option<&SampleError>) -> Option<String> {
    let not_finite = |logit| SampleError::NotFinite { token: TokenId(answer.at), logit };
    let (is_raw, error) = match Status::of(answer.status) {
        Some(Status::Ok) => return host.map(SampleError::to_string),
        Some(Status::RawNan) => (true, not_finite(f32::NAN)),
        Some(Status::RawInfinite) => (true, not_finite(f32::INFINITY)),
        Some(Status::RawNothing) => (true, SampleError::NothingAllowed),
        Some(Status::Nan) => (false, not_finite(f32::NAN)),
        Some(Status::Infinite) => (false, not_finite(f32::INFINITY)),
        Some(Status::Nothing) => (false, SampleError::NothingAllowed),
        None => return Some(format!("the sampler answered with status {}", answer.status)),
    };
    let error = if is_raw { &error } else { host.unwrap_or(&error) };
    Some(error.to_string())
}

/// Slots that begin anew, as the kernel reads them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resets {
    /// The resets.
    pub resets: Vec<CountReset>,
    /// What their ranges refer to.
    pub tokens: Vec<u32>,
}

/// Packs the resets of a step.
///
/// # Panics
/// Where a slot is not below `slots`: the caller has validated the step.
pub fn pack_resets(batch: &StepBatch, slots: usize) -> Resets {
    let mut packed = Resets::default();
    for reset in &batch.slot_resets {
        let slot = reset.slot.0;
        assert!((slot as usize) < slots, "reset of slot {slot} of {slots}");
        let prompt_start = packed.tokens.len() as u32;
        packed.tokens.extend(reset.prompt.iter().map(|token| token.0));
        let generated_start = packed.tokens.len() as u32;
        packed.tokens.extend(reset.generated.iter().map(|token| token.0));
        packed.resets.push(CountReset {
            slot,
            prompt_start,
            prompt_count: reset.prompt.len() as u32,
            generated_start,
            generated_count: reset.generated.len() as u32,
            unused: 0,
        });
    }
    packed
}

#[cfg(test)]
mod tests;
