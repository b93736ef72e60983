//! Whole requests through the engine's core, without a thread; and what must come out alike however they are served.

use std::sync::Arc;

use foundation::{RequestId, TokenId};
use runtime::{
    backend::StepRunner,
    engine::{
        EngineCore, EngineEvent, EngineOptions, EngineRequest, MetricsSnapshot, Progress, Submitter,
    },
    sampling::{SamplingLogits, SamplingParams},
    speculation::{Method, PaceLimits, Proposer, SpeculationOptions},
};

use crate::{Oracle, Rng, SimClock};

/// Everything that a request's ticket gave.
pub type Events = Vec<EngineEvent>;

/// Longest prompt of [`prefix_hits`].
const LONGEST: usize = 130;

/// An engine that is stepped by hand.
pub struct Served {
    submitter: Submitter,
    core: EngineCore,
}

impl Served {
    /// An engine over `runner`.
    pub fn new(runner: Box<dyn StepRunner>, options: &EngineOptions) -> Served {
        let clock = Arc::new(SimClock::default());
        let (submitter, core) = EngineCore::with_submitter(runner, options, clock);
        Served { submitter, core }
    }

    /// The same, with what `proposer` guesses if the engine speculates.
    #[must_use]
    pub fn guessing(self, proposer: Box<dyn Proposer>) -> Served {
        Served { core: self.core.with_proposer(proposer), ..self }
    }

    /// The engine's numbers.
    pub fn metrics(&self) -> MetricsSnapshot {
        self.submitter.metrics()
    }

    /// Serves all requests together; gives each one's events.
    ///
    /// # Panics
    /// When a request is refused, or the engine's books do not balance.
    pub fn serve(&mut self, requests: &[EngineRequest]) -> Vec<Events> {
        let submit = |request: &EngineRequest| self.submitter.submit(request.clone());
        let tickets = requests.iter().map(|request| submit(request).expect("a ticket"));
        let mut tickets: Vec<_> = tickets.collect();
        while self.core.step() != Progress::Idle {
            self.core.check().expect("books that balance");
        }
        assert!(self.core.is_empty(), "something is left");
        let events = |ticket: &mut runtime::engine::Ticket| {
            std::iter::from_fn(|| ticket.try_next()).collect()
        };
        tickets.iter_mut().map(events).collect()
    }

    /// Serves one request.
    pub fn alone(&mut self, request: &EngineRequest) -> Events {
        self.serve(std::slice::from_ref(request)).pop().expect("one ticket")
    }
}

/// Options under which steps depend on no clock.
pub fn steady() -> EngineOptions {
    EngineOptions { step_target: None, ..EngineOptions::default() }
}

/// Made-up tokens below `vocab`; a shorter prompt of the same seed is the beginning of a longer one.
pub fn prompt(seed: u64, length: usize, vocab: usize) -> Vec<TokenId> {
    let mut rng = Rng::new(seed);
    (0..length).map(|_| TokenId(rng.within(0..vocab) as u32)).collect()
}

/// Sixteen requests that have little in common.
pub fn mixed(vocab: usize) -> Vec<EngineRequest> {
    let request = |index: u64| EngineRequest {
        sampling: SamplingParams {
            temperature: (index % 3) as f32 * 0.5,
            top_k: (index % 4) as u32 * 3,
            top_p: if index.is_multiple_of(5) { 0.8 } else { 1.0 },
            repetition_penalty: if index.is_multiple_of(2) { 1.2 } else { 1.0 },
            seed: index,
            ..SamplingParams::default()
        },
        logprobs: SamplingLogits::Top(index as u32 % 3),
        prompt_logprobs: index.is_multiple_of(4).then_some(2),
        stop_tokens: vec![TokenId(index as u32), TokenId(60 - index as u32)],
        min_tokens: index as u32 % 7,
        ..EngineRequest::new(prompt(index / 2, 3 + 9 * index as usize, vocab), 12 + index as u32)
    };
    (0..16).map(request).collect()
}

/// The same without penalties, so that all of them may be guessed about.
pub fn guessable(vocab: usize) -> Vec<EngineRequest> {
    let mut requests = mixed(vocab);
    requests.iter_mut().for_each(|request| request.sampling.repetition_penalty = 1.0);
    requests
}

/// Guesses that `requests`, the first of a new engine, will go as they went in `events`; one guess in `lies` is wrong.
pub fn oracle(requests: &[EngineRequest], events: &[Events], lies: u64, vocab: usize) -> Oracle {
    let oracle = Oracle::new(lies, vocab);
    for ((request, events), id) in requests.iter().zip(events).zip(1..) {
        let output = events.iter().filter_map(|event| match event {
            EngineEvent::Token { token, .. } => Some(*token),
            _ => None,
        });
        oracle.tell(RequestId(id), request.prompt.iter().copied().chain(output).collect());
    }
    oracle
}

/// Serves `requests` on new engines that speculate: with prompt lookup, with an oracle that is always right, and with one that lies
/// once in three times. `plain` is how they went without. Gives each way's name, events and numbers.
///
/// # Panics
/// Where nothing was guessed, or nothing guessed was right.
pub fn speculated(
    requests: &[EngineRequest],
    plain: &[Events],
    engine: impl Fn(&EngineOptions) -> Served,
    vocab: usize,
) -> Vec<(&'static str, Vec<Events>, MetricsSnapshot)> {
    let options = EngineOptions { speculation: Some(eager()), ..steady() };
    let served = |what, mut engine: Served| {
        let events = engine.serve(requests);
        let seen = engine.metrics();
        assert!(seen.draft_tokens > 0, "{what}: nothing was guessed");
        (what, events, seen)
    };
    let foreseen = |lies| {
        let engine = engine(&options).guessing(Box::new(oracle(requests, plain, lies, vocab)));
        let (what, events, seen) = served("foreseen", engine);
        assert!(seen.accepted_tokens > 0, "{what}: nothing was right");
        (what, events, seen)
    };
    vec![served("looked up", engine(&options)), foreseen(0), foreseen(3)]
}

/// Guesses whether it pays or not.
pub fn eager() -> SpeculationOptions {
    let pace = PaceLimits { break_even: 0.0, break_even_in_company: 0.0, ..PaceLimits::default() };
    let method = Method::Ngram { shortest: 1, longest: 4 };
    SpeculationOptions { method, pace, ..SpeculationOptions::default() }
}

/// The events without what may differ: times, and what was cached.
pub fn essence(events: &[EngineEvent]) -> Events {
    let plain = |event: &EngineEvent| match event {
        EngineEvent::Started { .. } => EngineEvent::Started { cached_tokens: 0 },
        EngineEvent::Finished { reason, .. } => {
            EngineEvent::Finished { reason: reason.clone(), usage: Default::default() }
        }
        other => other.clone(),
    };
    events.iter().map(plain).collect()
}

/// Tokens of the prompt that were found in the cache.
///
/// # Panics
/// When the request never began.
pub fn cached(events: &[EngineEvent]) -> u32 {
    match events.first() {
        Some(EngineEvent::Started { cached_tokens }) => *cached_tokens,
        other => panic!("{other:?}"),
    }
}

/// 0 where two servings are equal to the bit, else infinite.
pub fn bitwise(a: &[EngineEvent], b: &[EngineEvent]) -> f32 {
    if essence(a) == essence(b) { 0.0 } else { f32::INFINITY }
}

/// How far two servings of one request are apart: the largest difference of a generated token's log-probability while the
/// tokens are the same, and the lead that the first other token had to overcome. Needs two rivals beside each token.
pub fn distance(a: &[EngineEvent], b: &[EngineEvent]) -> f32 {
    let tokens = |events: &[EngineEvent]| -> Vec<_> {
        let token = |event: &EngineEvent| match event {
            EngineEvent::Token { logprobs, .. } => Some(logprobs.clone().expect("asked for")),
            _ => None,
        };
        events.iter().filter_map(token).collect()
    };
    let (a, b) = (tokens(a), tokens(b));
    let mut worst = if a.len() == b.len() { 0.0f32 } else { f32::INFINITY };
    for (a, b) in a.iter().zip(&b) {
        if a.token != b.token {
            let lead = |top: &[(TokenId, f32)]| top[0].1 - top[1].1;
            return worst.max(lead(&a.top)).max(lead(&b.top));
        }
        worst = worst.max((a.logprob - b.logprob).abs());
    }
    worst
}

/// Prompts of every length from 1 to 130: cold, and twice with what a longer one left in `warm`'s cache. Gives the largest
/// distance, and what is more than `allowed` apart or was not found in the cache.
///
/// Both engines have blocks of 16 tokens; `cold` keeps no prefixes.
pub fn prefix_hits(
    warm: &mut Served,
    cold: &mut Served,
    vocab: usize,
    distance: impl Fn(&[EngineEvent], &[EngineEvent]) -> f32,
    allowed: f32,
) -> (f32, Vec<String>) {
    let (mut worst, mut findings) = (0.0f32, Vec::new());
    warm.alone(&EngineRequest::new(prompt(5, LONGEST, vocab), 1));
    for length in 1..=LONGEST {
        let request = EngineRequest {
            logprobs: SamplingLogits::Top(2),
            ..EngineRequest::new(prompt(5, length, vocab), 4)
        };
        let expected = cold.alone(&request);
        assert_eq!(cached(&expected), 0, "cold is cold");
        for round in 0..2 {
            let hit = warm.alone(&request);
            let apart = distance(&hit, &expected);
            worst = worst.max(apart);
            // At least one token is computed: its logits are wanted.
            let wanted = (length - 1) / 16 * 16;
            let wanted = if length % 16 == 0 { length - 1 } else { wanted };
            if apart > allowed || cached(&hit) as usize != wanted {
                let found = cached(&hit);
                findings.push(format!(
                    "length {length}, round {round}: {found} cached of {wanted}, {apart} apart"
                ));
            }
        }
    }
    (worst, findings)
}

/// What two servings of the same requests gave differently.
pub fn differences(a: &[Events], b: &[Events]) -> Vec<String> {
    assert_eq!(a.len(), b.len(), "as many tickets");
    let pairs = a.iter().map(|a| essence(a)).zip(b.iter().map(|b| essence(b))).enumerate();
    let differ = |(index, (a, b)): (usize, (Events, Events))| {
        let at = a.iter().zip(&b).position(|(a, b)| a != b);
        let at = at.or((a.len() != b.len()).then_some(a.len().min(b.len())))?;
        Some(format!("request {index}, event {at}: {:?} and {:?}", a.get(at), b.get(at)))
    };
    pairs.filter_map(differ).collect()
}
