//! The fake model itself: what it answers, worked out from the true sequence alone.

use foundation::TokenId;
use runtime::{
    backend::RunnerSpec,
    batch::TokenLogprobs,
    engine::{EngineRequest, FinishReason},
    sampling::{RowSampling, TokenCounts, sample, score},
};

use crate::rng::mix;

/// What one place of a fake KV block holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    /// The token computed there.
    pub token: TokenId,
    /// Its position.
    pub position: u32,
    /// The regime it was computed under.
    pub regime: u32,
}

/// A model whose logits are a hash of the tokens that each KV group lets it see.
#[derive(Clone, Debug)]
pub struct FakeModel {
    spec: RunnerSpec,
}

/// What a request should give when nothing disturbs it.
#[derive(Clone, Debug, PartialEq)]
pub struct Expected {
    /// The tokens, with their log-probabilities where asked for.
    pub tokens: Vec<(TokenId, Option<TokenLogprobs>)>,
    /// The prompt's log-probabilities, where asked for.
    pub prompt_logprobs: Option<Vec<Option<TokenLogprobs>>>,
    /// How it ends.
    pub reason: FinishReason,
}

impl FakeModel {
    /// The model that a runner of this spec runs.
    pub fn new(spec: &RunnerSpec) -> Self {
        FakeModel { spec: spec.clone() }
    }

    /// One row of logits from the cells that each group shows, oldest first.
    pub fn logits<I: Iterator<Item = Cell>>(&self, groups: impl Iterator<Item = I>) -> Vec<f32> {
        let mut digest = 0u64;
        for group in groups {
            digest = mix(digest ^ 0xA5A5);
            for cell in group {
                let place = u64::from(cell.position) << 32 | u64::from(cell.token.0);
                digest = mix(digest ^ mix(place) ^ u64::from(cell.regime));
            }
        }
        (0..self.spec.vocab_size as u64).map(|token| logit(mix(digest ^ mix(token + 1)))).collect()
    }

    /// The row after the last of `tokens`, of a sequence in `regime`.
    fn row(&self, tokens: &[TokenId], regime: u32) -> Vec<f32> {
        let cell = |at: usize| Cell { token: tokens[at], position: at as u32, regime };
        let groups = self.spec.kv_groups.iter().map(|group| {
            let first = group.window.map_or(0, |window| tokens.len().saturating_sub(window));
            (first..tokens.len()).map(cell)
        });
        self.logits(groups)
    }

    /// What `request` gives alone, on an engine that serves sequences of up to `max_length` tokens.
    ///
    /// # Panics
    /// When a row cannot be sampled.
    pub fn alone(&self, request: &EngineRequest, max_length: usize) -> Expected {
        let mut tokens = request.prompt.to_vec();
        let mut given = Vec::new();
        let mut counts = TokenCounts::new(&tokens, &[]);
        let mut reason = FinishReason::Length;
        let constraint = request.constraint.as_ref();
        let mut follower = constraint.map(|shared| shared.0.follow().expect("it can be followed"));
        while given.len() < request.max_tokens as usize && tokens.len() < max_length {
            let mut logits = self.row(&tokens, self.regime(tokens.len()));
            let mut sampling = row_sampling(request, given.len());
            sampling.allowed = follower.as_mut().map(|f| f.allowed().expect("a mask"));
            let sampled =
                sample(&mut logits, &sampling, Some(&counts)).expect("a fake row samples");
            let token = sampled.token;
            given.push((token, sampled.logprobs));
            tokens.push(token);
            counts.add(token);
            if stops(request).contains(&token) {
                reason = FinishReason::Stop { token };
                break;
            }
            let full = given.len() >= request.max_tokens as usize || tokens.len() >= max_length;
            let lost = follower.as_mut().filter(|_| !full).and_then(|f| f.take(token).err());
            if let Some(text) = lost {
                reason = FinishReason::ConstraintLost(text);
                break;
            }
        }
        let prompt_logprobs = request.prompt_logprobs.map(|top| self.score(&request.prompt, top));
        Expected { tokens: given, prompt_logprobs, reason }
    }

    fn score(&self, prompt: &[TokenId], top: u32) -> Vec<Option<TokenLogprobs>> {
        let regime = self.regime(prompt.len());
        let scored = (1..prompt.len()).map(|at| {
            let row = self.row(&prompt[..at], regime);
            Some(score(&row, prompt[at], top).expect("a fake row is a distribution"))
        });
        std::iter::once(None).chain(scored).collect()
    }

    fn regime(&self, length: usize) -> u32 {
        self.spec.regime_thresholds.iter().filter(|threshold| length > **threshold).count() as u32
    }
}

fn stops(request: &EngineRequest) -> Vec<TokenId> {
    let eos = request.eos_tokens.iter().filter(|_| !request.ignore_eos);
    request.stop_tokens.iter().chain(eos).copied().collect()
}

fn row_sampling(request: &EngineRequest, draw: usize) -> RowSampling {
    let suppressed = if draw < request.min_tokens as usize { stops(request) } else { Vec::new() };
    RowSampling {
        params: request.sampling.clone().into(),
        draw: draw as u64,
        suppressed: suppressed.into(),
        allowed: None,
        logits: request.logprobs,
    }
}

/// In `[-4, 4)`, from the upper 24 bits.
fn logit(hash: u64) -> f32 {
    (hash >> 40) as f32 / (1u64 << 21) as f32 - 4.0
}
