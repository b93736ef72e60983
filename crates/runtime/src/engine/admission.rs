//! Which requests can be served at all. Pure: the same answer on every day.

use foundation::TokenId;

use super::request::{EngineRequest, InvalidField, Refusal};
use crate::{
    backend::{KvGroupSpec, RunnerSpec},
    sampling::{SamplingLogits, SamplingParams},
};

/// What a request is measured against.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Limits {
    /// Longest sequence, prompt and output together: the model's limit, or what the KV blocks hold.
    pub(crate) max_sequence_tokens: usize,
    vocab_size: usize,
}

impl Limits {
    pub(crate) fn new(spec: &RunnerSpec) -> Self {
        let held = spec.kv_groups.iter().map(|group| tokens_held(group, spec.block_size)).min();
        let max_sequence_tokens = spec.max_sequence_tokens.min(held.unwrap_or(usize::MAX));
        Limits { max_sequence_tokens, vocab_size: spec.vocab_size }
    }

    /// Refuses what can never be served: every meaningless parameter at once, else a prompt that does not fit.
    pub(crate) fn check(&self, request: &EngineRequest) -> Result<(), Refusal> {
        let problems = self.problems(request);
        if !problems.is_empty() {
            return Err(Refusal::Invalid(problems));
        }
        let tokens = request.prompt.len();
        let room = usize::from(request.max_tokens > 0);
        if tokens.saturating_add(room) > self.max_sequence_tokens {
            return Err(Refusal::TooLong { tokens, limit: self.max_sequence_tokens });
        }
        Ok(())
    }

    fn problems(&self, request: &EngineRequest) -> Vec<InvalidField> {
        let mut findings = Findings::default();
        findings.require(!request.prompt.is_empty(), "prompt", || "it has no tokens".into());
        self.check_ids(&mut findings, "prompt", request.prompt.iter().copied());
        self.check_ids(&mut findings, "stop_tokens", request.stop_tokens.iter().copied());
        self.check_ids(&mut findings, "eos_tokens", request.eos_tokens.iter().copied());
        findings.require(request.min_tokens <= request.max_tokens, "min_tokens", || {
            format!("{} exceeds max_tokens {}", request.min_tokens, request.max_tokens)
        });
        if let SamplingLogits::Top(top) = request.logprobs {
            self.check_top(&mut findings, "logprobs", top);
        }
        if let Some(top) = request.prompt_logprobs {
            self.check_top(&mut findings, "prompt_logprobs", top);
        }
        self.check_sampling(&mut findings, &request.sampling);
        findings.0
    }

    fn check_sampling(&self, findings: &mut Findings, params: &SamplingParams) {
        findings.number("temperature", params.temperature, "0 or more", |t| t >= 0.0);
        findings.number("top_p", params.top_p, "above 0, at most 1", |p| p > 0.0 && p <= 1.0);
        findings.number("min_p", params.min_p, "from 0 to 1", |p| (0.0..=1.0).contains(&p));
        let penalty = params.repetition_penalty;
        findings.number("repetition_penalty", penalty, "above 0", |penalty| penalty > 0.0);
        findings.number("frequency_penalty", params.frequency_penalty, "finite", |_| true);
        findings.number("presence_penalty", params.presence_penalty, "finite", |_| true);
        self.check_ids(findings, "logit_bias", params.logit_bias.iter().map(|(token, _)| *token));
        for (token, bias) in &params.logit_bias {
            findings.require(bias.is_finite(), "logit_bias", || {
                format!("token {token} has {bias}; it must be finite")
            });
        }
        self.check_ids(findings, "banned", params.banned.iter().copied());
    }

    fn check_top(&self, findings: &mut Findings, field: &'static str, top: u32) {
        findings.require(top as usize <= self.vocab_size, field, || {
            format!("{top} tokens wanted, the vocabulary has {}", self.vocab_size)
        });
    }

    /// Names the first id beyond the vocabulary; a prompt may have thousands.
    fn check_ids(
        &self,
        findings: &mut Findings,
        field: &'static str,
        mut ids: impl Iterator<Item = TokenId>,
    ) {
        let beyond = ids.find(|token| token.0 as usize >= self.vocab_size);
        findings.require(beyond.is_none(), field, || {
            let token = beyond.unwrap_or_default();
            format!("token {token} is not in the vocabulary of {}", self.vocab_size)
        });
    }
}

/// The longest sequence whose blocks one group can hold.
///
/// A window of `w` tokens lies in at most `ceil((w - 1) / block_size) + 1` blocks, however it is aligned; a sliding
/// group with so many serves any length, token by token if need be.
fn tokens_held(group: &KvGroupSpec, block_size: usize) -> usize {
    let sliding = group
        .window
        .is_some_and(|window| group.blocks > window.saturating_sub(1).div_ceil(block_size));
    if sliding { usize::MAX } else { group.blocks.saturating_mul(block_size) }
}

/// Everything wrong with a request.
#[derive(Default)]
struct Findings(Vec<InvalidField>);

impl Findings {
    fn require(&mut self, holds: bool, field: &'static str, problem: impl FnOnce() -> String) {
        if !holds {
            self.0.push(InvalidField { field, problem: problem() });
        }
    }

    fn number(
        &mut self,
        field: &'static str,
        value: f32,
        wanted: &str,
        holds: impl Fn(f32) -> bool,
    ) {
        self.require(value.is_finite() && holds(value), field, || {
            format!("{value} given, it must be {wanted}")
        });
    }
}
