//! A request that was accepted: what its caller wants, what it has been told, and when.

use std::{sync::Arc, time::Duration};

use foundation::{SlotId, TokenId};

use super::{
    EngineEvent, FinishReason, Usage,
    inbox::{Job, QueuePlace},
    metrics::Metrics,
    ticket::Responder,
};
use crate::{
    batch::TokenLogprobs,
    sampling::{RowSampling, SamplingLogits, SamplingParams, TokenMask, constraint::Followed},
    scheduler::{Rank, Sequence},
};

/// The engine's side of one ticket.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) rank: Rank,
    /// When its time is over.
    pub(super) deadline: Option<Duration>,
    responder: Responder,
    sampling: Arc<SamplingParams>,
    logprobs: SamplingLogits,
    pub(super) prompt_logprobs: Option<u32>,
    min_tokens: usize,
    /// Tokens that end the output.
    stops: Arc<[TokenId]>,
    /// Tokens that may not be drawn before `min_tokens`: the stops, and the end tokens even where they are ignored.
    no_tokens: Arc<[TokenId]>,
    constraint: Constraint,
    times: Times,
    prompt_tokens: u32,
    cached_tokens: u32,
    generated_tokens: u32,
    /// Its place in the bounded queue, until it first runs.
    place: Option<QueuePlace>,
}

/// What an output has to follow.
#[derive(Debug)]
enum Constraint {
    /// Nothing.
    Free,
    /// The place behind its last token, with the mask of the next.
    Here(Followed),
    /// A worker has the place, and moves it on.
    Away,
}

impl Constraint {
    /// The mask of a row that is planned.
    fn allowed(&self) -> Option<TokenMask> {
        match self {
            Constraint::Free => None,
            Constraint::Here(place) => Some(place.allowed()),
            Constraint::Away => unreachable!("a row whose mask is not there is not planned"),
        }
    }
}

#[derive(Debug)]
struct Times {
    submitted: Duration,
    started: Option<Duration>,
    first_token: Option<Duration>,
    last_token: Option<Duration>,
}

impl Session {
    /// Takes the job apart; the prompt goes to the scheduler's sequence.
    pub(super) fn new(job: Job, no_tokens: Arc<[TokenId]>) -> (Session, Arc<[TokenId]>) {
        let request = job.request;
        let mut stops = request.stop_tokens;
        if !request.ignore_eos {
            stops.extend(request.eos_tokens);
        }
        stops.sort_unstable();
        stops.dedup();
        let session = Session {
            rank: Rank::new(request.priority, job.submitted, job.id),
            deadline: request.time_limit.map(|limit| job.submitted.saturating_add(limit)),
            responder: job.responder,
            sampling: Arc::new(request.sampling),
            logprobs: request.logprobs,
            prompt_logprobs: request.prompt_logprobs,
            min_tokens: request.min_tokens as usize,
            stops: stops.into(),
            no_tokens,
            constraint: match job.constraint {
                Some(place) => Constraint::Here(place),
                None => Constraint::Free,
            },
            times: Times {
                submitted: job.submitted,
                started: None,
                first_token: None,
                last_token: None,
            },
            prompt_tokens: request.prompt.len() as u32,
            cached_tokens: 0,
            generated_tokens: 0,
            place: Some(job.place),
        };
        (session, request.prompt)
    }

    /// What the row that samples token number `draw` of the output carries.
    pub(super) fn row_sampling(&self, draw: usize) -> RowSampling {
        let suppressed = if draw < self.min_tokens { &self.stops } else { &self.no_tokens };
        RowSampling {
            params: Arc::clone(&self.sampling),
            draw: draw as u64,
            suppressed: Arc::clone(suppressed),
            allowed: self.constraint.allowed(),
            logits: self.logprobs,
        }
    }

    /// The tokens that penalty counts of the sequence start from; none where there are no penalties.
    pub(super) fn counted(&self, sequence: &Sequence) -> (Arc<[TokenId]>, Arc<[TokenId]>) {
        if !self.sampling.needs_counts() {
            return (Arc::clone(&self.no_tokens), Arc::clone(&self.no_tokens));
        }
        let (prompt, generated) = sequence.tokens.split_at(sequence.prompt_tokens);
        (prompt.into(), generated.into())
    }

    /// The first step was planned.
    pub(super) fn start(&mut self, cached_tokens: usize, now: Duration, metrics: &Metrics) {
        self.place = None;
        self.times.started = Some(now);
        self.cached_tokens = cached_tokens as u32;
        metrics.queue_time.observe((now - self.times.submitted).as_secs_f64());
        metrics.prompt_tokens.add(u64::from(self.prompt_tokens));
        self.responder.send(EngineEvent::Started { cached_tokens: self.cached_tokens });
    }

    /// The prompt's log-probabilities are complete.
    pub(super) fn prompt_scores(&self, scores: &[Option<TokenLogprobs>]) {
        self.responder.send(EngineEvent::PromptLogprobs(scores.to_vec()));
    }

    /// A token was committed. Tells whether the output ends with it, and why.
    pub(super) fn token(
        &mut self,
        token: TokenId,
        logprobs: Option<TokenLogprobs>,
        reaches_limit: bool,
        now: Duration,
        metrics: &Metrics,
    ) -> Option<FinishReason> {
        self.generated_tokens += 1;
        metrics.generation_tokens.add(1);
        match self.times.last_token.replace(now) {
            Some(last) => metrics.inter_token_latency.observe((now - last).as_secs_f64()),
            None => {
                self.times.first_token = Some(now);
                let waited = now - self.times.submitted;
                metrics.time_to_first_token.observe(waited.as_secs_f64());
            }
        }
        self.responder.send(EngineEvent::Token { token, logprobs });
        if self.stops.binary_search(&token).is_ok() {
            return Some(FinishReason::Stop { token });
        }
        reaches_limit.then_some(FinishReason::Length)
    }

    /// Takes its place in the constraint away, where it is here: to be moved on, or because the request ends.
    pub(super) fn send_off(&mut self) -> Option<Followed> {
        match std::mem::replace(&mut self.constraint, Constraint::Away) {
            Constraint::Here(place) => Some(place),
            other => {
                self.constraint = other;
                None
            }
        }
    }

    /// Its place in the constraint is back, with the mask of the next token.
    pub(super) fn welcome(&mut self, place: Followed) {
        self.constraint = Constraint::Here(place);
    }

    /// Whether it has to wait for a mask.
    pub(super) fn awaits_mask(&self) -> bool {
        matches!(self.constraint, Constraint::Away)
    }

    /// The last word.
    pub(super) fn finish(self, reason: FinishReason, now: Duration, metrics: &Metrics) {
        let total_time = now - self.times.submitted;
        let count = match &reason {
            FinishReason::Stop { .. } | FinishReason::StopText => &metrics.requests_stopped,
            FinishReason::Length => &metrics.requests_length,
            FinishReason::Cancelled => &metrics.requests_cancelled,
            FinishReason::TimedOut => &metrics.requests_timed_out,
            FinishReason::NoNumbers(_)
            | FinishReason::ConstraintLost(_)
            | FinishReason::Failed(_) => &metrics.requests_failed,
        };
        count.add(1);
        metrics.e2e_latency.observe(total_time.as_secs_f64());
        metrics.request_prompt_tokens.observe(f64::from(self.prompt_tokens));
        metrics.request_generation_tokens.observe(f64::from(self.generated_tokens));
        let since = |moment: Duration| moment - self.times.submitted;
        let usage = Usage {
            prompt_tokens: self.prompt_tokens,
            cached_tokens: self.cached_tokens,
            generated_tokens: self.generated_tokens,
            queue_time: since(self.times.started.unwrap_or(now)),
            time_to_first_token: self.times.first_token.map(since),
            total_time,
        };
        self.responder.finish(reason, usage);
    }
}

/// The slots that no running sequence has.
#[derive(Debug)]
pub(super) struct Slots(Vec<SlotId>);

impl Slots {
    pub(super) fn new(count: usize) -> Self {
        Slots((0..count as u32).rev().map(SlotId).collect())
    }

    pub(super) fn take(&mut self) -> SlotId {
        self.0.pop().expect("no more sequences run than there are slots")
    }

    pub(super) fn give_back(&mut self, slot: Option<SlotId>) {
        self.0.extend(slot);
    }

    pub(super) fn free(&self) -> usize {
        self.0.len()
    }
}
