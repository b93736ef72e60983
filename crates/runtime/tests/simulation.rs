//! The whole runtime on a fake model, from one seed: arrivals, cancels, preemption in tiny pools, prefix sharing,
//! The whole runtime on a fake model, from one seed: arrivals, cancels, preemption in tiny pools, prefix sharing,
//! faults, several choices for one prompt, time limits, full and sliding groups, regimes, masks and blocks that come late, guesses right
//! and wrong. Each seed has a mixture of its own. After each step every invariant is checked; in the end every ticket has ended exactly
//! once, every block is back, nobody was overtaken who should not have been, and every output is what the model gives alone.

#![expect(clippy::unwrap_used, reason = "helpers of tests may unwrap as tests do")]

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use foundation::{RequestId, TokenId};
use runtime::{
    backend::{HostTier, KvGroupSpec, RunnerSpec},
    engine::{
        Clock, EngineCore, EngineEvent, EngineOptions, EngineRequest, FinishReason, Progress,
        Refusal, Submitter, Ticket,
    },
    sampling::{SamplingLogits, SamplingParams},
    scheduler::Rank,
    speculation::{Method, PaceLimits, SpeculationOptions},
};
use testkit::{
    ChainConstraint, CopyTimes, FakeModel, FakeRunner, Fault, FaultKind, HeldWorkers, Oracle, Rng,
    SimClock,
};

/// How many seeds one run of the tests tries. A longer search needs no more than a greater number here.
const SEEDS: u64 = 10_000;
/// No simulation takes as many steps unless something turns in circles.
const MOST_STEPS: usize = 20_000;
/// Turns in which others begin before one that waits for a beginning which they share.
const MOST_OVERTAKEN: u64 = 40;
/// What a row takes.
const ROW: Duration = Duration::from_millis(1);
/// Between two turns of the engine.
const TURN: Duration = Duration::from_micros(100);

#[test]
fn every_seed_ends_well() {
    let next = AtomicU64::new(0);
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let mut seen = Seen::default();
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(|| search(&next))).collect();
        for worker in workers {
            match worker.join() {
                Ok(part) => seen.add(&part),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    });
    // A simulation that never meets the hard cases proves nothing.
    println!("{seen:?}");
    assert!(seen.finished > SEEDS && seen.cancelled > SEEDS / 10, "{seen:?}");
    assert!(seen.preemptions > SEEDS / 2 && seen.hit_tokens > 4 * SEEDS, "{seen:?}");
    assert!(seen.constrained > SEEDS / 2 && seen.lost > SEEDS / 20, "{seen:?}");
    assert!(seen.steps_without > SEEDS && seen.waits > SEEDS, "{seen:?}");
    assert!(seen.accepted > 2 * SEEDS && seen.rejected > 2 * SEEDS, "{seen:?}");
    assert!(seen.copied_out > 4 * SEEDS && seen.restored > SEEDS, "{seen:?}");
    assert!(seen.dropped > SEEDS && seen.void > SEEDS / 10, "{seen:?}");
    assert!(seen.failed > SEEDS / 20 && seen.refused > SEEDS / 10, "{seen:?}");
    assert!(seen.timed_out > SEEDS / 10 && seen.families > SEEDS / 4, "{seen:?}");
    assert!(seen.in_order > SEEDS, "{seen:?}");
}

/// Simulates seeds until there are none left.
fn search(next: &AtomicU64) -> Seen {
    let mut seen = Seen::default();
    loop {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        if seed >= SEEDS {
            return seen;
        }
        match std::panic::catch_unwind(|| Simulation::new(seed).run()) {
            Ok(Ok(one)) => seen.add(&one),
            Ok(Err(problem)) => panic!("seed {seed}: {problem}"),
            Err(_) => panic!("seed {seed}: panicked"),
        }
    }
}

/// What the simulations met.
#[derive(Debug, Default)]
struct Seen {
    finished: u64,
    cancelled: u64,
    failed: u64,
    refused: u64,
    /// Of the finished ones, those with a constraint.
    constrained: u64,
    /// Constraints that could not be followed to the end.
    lost: u64,
    /// Turns that did something while a mask was not there.
    steps_without: u64,
    /// Turns that waited for masks.
    waits: u64,
    preemptions: u64,
    hit_tokens: u64,
    /// Guesses that were right.
    accepted: u64,
    /// Guesses that were not, or came behind one that was not, or behind an end.
    rejected: u64,
    /// Tokens that came back from the host.
    restored: u64,
    /// Blocks that went there.
    copied_out: u64,
    /// Of these, the ones that were evicted on the way.
    void: u64,
    /// Blocks that were evicted and lay nowhere else.
    dropped: u64,
    steps: u64,
    /// Requests whose time was over.
    timed_out: u64,
    /// Prompts that several choices were asked for.
    families: u64,
    /// Requests that began while no other one was before them.
    in_order: u64,
    /// The most requests that began before one that was to be before them.
    most_overtaken: u64,
}

impl Seen {
    fn add(&mut self, one: &Seen) {
        self.finished += one.finished;
        self.cancelled += one.cancelled;
        self.failed += one.failed;
        self.refused += one.refused;
        self.constrained += one.constrained;
        self.lost += one.lost;
        self.steps_without += one.steps_without;
        self.waits += one.waits;
        self.preemptions += one.preemptions;
        self.hit_tokens += one.hit_tokens;
        self.accepted += one.accepted;
        self.rejected += one.rejected;
        self.restored += one.restored;
        self.copied_out += one.copied_out;
        self.void += one.void;
        self.dropped += one.dropped;
        self.steps += one.steps;
        self.timed_out += one.timed_out;
        self.families += one.families;
        self.in_order += one.in_order;
        self.most_overtaken = self.most_overtaken.max(one.most_overtaken);
    }
}

/// A request under way, and what its ticket has told.
struct Open {
    request: EngineRequest,
    rank: Rank,
    /// It has heard something: it has begun, or ended.
    begun: bool,
    /// Requests that have begun meanwhile and were to begin after it.
    overtaken: u64,
    /// Gone once the caller has dropped it.
    ticket: Option<Ticket>,
    events: Vec<EngineEvent>,
}

/// What a seed's requests are like: where everything is likely, much never happens together.
struct Mixture {
    /// Requests arrive in one of so many turns.
    arrivals: usize,
    /// And so many more right behind one, at the most.
    crowd: usize,
    /// Somebody changes his mind in one of so many turns.
    second_thoughts: usize,
    time_limits: bool,
    priorities: bool,
    families: bool,
    constraints: bool,
    penalties: bool,
    scores: bool,
}

impl Mixture {
    fn new(rng: &mut Rng) -> Mixture {
        Mixture {
            arrivals: rng.pick(&[1, 3, 3, 10]),
            crowd: rng.pick(&[0, 0, 8]),
            second_thoughts: rng.pick(&[3, 12, 12, 100]),
            time_limits: rng.one_in(3),
            priorities: rng.one_in(2),
            families: rng.one_in(2),
            constraints: !rng.one_in(3),
            penalties: !rng.one_in(4),
            scores: !rng.one_in(3),
        }
    }
}

struct Simulation {
    rng: Rng,
    model: FakeModel,
    fault: Option<Fault>,
    submitter: Submitter,
    core: EngineCore,
    clock: SimClock,
    /// Masks that are not there yet.
    masks: HeldWorkers,
    /// Who guesses, where it is not prompt lookup.
    oracle: Option<Oracle>,
    /// One of them comes in one of so many turns.
    mask_turns: usize,
    vocab_size: usize,
    mixture: Mixture,
    /// Rows of a step.
    most_rows: u32,
    prefix_cache: bool,
    /// Beginnings that prompts share.
    stems: Vec<Vec<TokenId>>,
    open: BTreeMap<RequestId, Open>,
    to_come: usize,
    seen: Seen,
}

impl Simulation {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let spec = spec(&mut rng);
        let options = EngineOptions {
            max_queue: rng.within(2..12),
            prefix_cache: !rng.one_in(6),
            max_step_tokens: None,
            decode_priority_burst: rng.within(0..4) as u32,
            step_target: rng.pick(&[None, Some(Duration::from_millis(10))]),
            step_stretch: rng.pick(&[None, Some(1.5), Some(3.0)]),
            overlap: !rng.one_in(4),
            speculation: (!rng.one_in(3)).then(|| speculation(&mut rng)),
            stall_after: Duration::from_secs(5),
        };
        let most_rows = spec.max_step_tokens as u32;
        let fault = rng.one_in(8).then(|| Fault {
            step: rng.within(1..60) as u64,
            kind: rng.pick(&[FaultKind::Submit, FaultKind::Wait, FaultKind::Row]),
        });
        let clock = SimClock::default();
        let runner = FakeRunner::new(spec.clone())
            .with_fault(fault)
            .with_clock(clock.clone(), ROW)
            .with_copy_times(copy_times(&mut rng));
        let model = FakeModel::new(&spec);
        let (submitter, core) =
            EngineCore::with_submitter(Box::new(runner), &options, Arc::new(clock.clone()));
        let masks = HeldWorkers::default();
        let mut core = core.with_workers(Box::new(masks.clone()));
        let oracle = rng.one_in(2).then(|| Oracle::new(rng.pick(&[0, 3, 10]), spec.vocab_size));
        if let Some(oracle) = &oracle {
            core = core.with_proposer(Box::new(oracle.clone()));
        }
        let mask_turns = rng.pick(&[1, 2, 5, 30]);
        let stems = (0..3).map(|_| {
            let length = rng.within(1..60);
            tokens(&mut rng, length, spec.vocab_size)
        });
        let stems = stems.collect();
        let to_come = rng.within(4..24);
        let mixture = Mixture::new(&mut rng);
        let prefix_cache = options.prefix_cache;
        let open = BTreeMap::new();
        Simulation {
            rng,
            model,
            fault,
            submitter,
            core,
            clock,
            masks,
            oracle,
            mask_turns,
            vocab_size: spec.vocab_size,
            mixture,
            most_rows,
            prefix_cache,
            stems,
            open,
            to_come,
            seen: Seen::default(),
        }
    }

    fn run(mut self) -> Result<Seen, String> {
        for _ in 0..MOST_STEPS {
            self.arrivals();
            self.second_thoughts();
            self.masks_come();
            let progress = self.core.step();
            let late = self.masks.held() > 0 && progress == Progress::Worked;
            self.seen.steps_without += u64::from(late);
            self.seen.waits += u64::from(matches!(progress, Progress::Waits(_)));
            self.core.check()?;
            self.listen();
            self.judge_order()?;
            if progress == Progress::Idle && self.to_come == 0 {
                return self.end();
            }
            let waits = matches!(progress, Progress::Waits(_));
            self.clock.advance(if waits { ROW } else { TURN });
        }
        Err("it does not end".into())
    }

    fn arrivals(&mut self) {
        while self.to_come > 0 && self.rng.one_in(self.mixture.arrivals) {
            for _ in 0..self.rng.within(0..self.mixture.crowd + 1) + 1 {
                if self.to_come > 0 {
                    self.arrival();
                }
            }
            if self.rng.one_in(4) {
                break;
            }
        }
    }

    /// The tokens of a request's sequence, undisturbed.
    fn truth(&self, request: &EngineRequest) -> Vec<TokenId> {
        let expected = self.model.alone(request, self.submitter.max_sequence_tokens());
        let output = expected.tokens.iter().map(|(token, _)| *token);
        request.prompt.iter().copied().chain(output).collect()
    }

    /// One request, or several choices for one prompt.
    fn arrival(&mut self) {
        self.to_come -= 1;
        let first = self.request();
        let choices = match self.mixture.families && self.rng.one_in(3) {
            true => self.rng.within(2..5),
            false => 1,
        };
        let mut requests = vec![first; choices];
        for (choice, request) in requests.iter_mut().enumerate() {
            request.sampling.seed = request.sampling.seed.wrapping_add(choice as u64);
        }
        self.submit(requests);
    }

    fn submit(&mut self, requests: Vec<EngineRequest>) {
        match self.submitter.submit_all(requests.clone()) {
            Ok(tickets) => {
                self.seen.families += u64::from(tickets.len() > 1);
                for (request, ticket) in requests.into_iter().zip(tickets) {
                    let (id, now) = (ticket.id(), self.clock.now());
                    let rank = Rank::new(request.priority, now, id);
                    let (ticket, events) = (Some(ticket), Vec::new());
                    let open = Open { request, rank, begun: false, overtaken: 0, ticket, events };
                    if let Some(oracle) = &self.oracle {
                        oracle.tell(id, self.truth(&open.request));
                    }
                    self.open.insert(id, open);
                }
            }
            Err(Refusal::TooMany { wanted, limit }) => {
                assert!(wanted > limit, "{wanted} of {limit}");
                self.seen.refused += 1;
            }
            Err(Refusal::TooLong { tokens, limit }) => {
                assert!(tokens + 1 > limit, "{tokens} tokens fit {limit}");
                self.seen.refused += 1;
            }
            Err(Refusal::Busy { queued, limit, .. }) => {
                assert!(queued + requests.len() > limit, "busy with {queued} of {limit}");
                self.seen.refused += 1;
            }
            Err(Refusal::Unhealthy { .. }) => assert!(self.fault.is_some(), "no fault"),
            Err(other) => panic!("{other}"),
        }
    }

    fn request(&mut self) -> EngineRequest {
        let (rng, mixture, vocab) = (&mut self.rng, &self.mixture, self.vocab_size);
        // Of a handful of tokens, too many may be forbidden at once.
        let tiny = vocab < 20;
        let mut prompt = rng.pick(&self.stems);
        prompt.truncate(rng.within(1..prompt.len() + 1));
        if !rng.one_in(3) {
            let length = rng.within(0..30);
            prompt.extend(tokens(rng, length, vocab));
        }
        let max_tokens = if rng.one_in(12) { 0 } else { rng.within(1..30) as u32 };
        let stops = if tiny { rng.within(0..5) / 4 } else { rng.within(0..4) };
        let stop_tokens: Vec<TokenId> = (0..stops).map(|_| token(rng, vocab)).collect();
        let constrained = !tiny && mixture.constraints && rng.one_in(3);
        EngineRequest {
            sampling: sampling(rng, vocab, mixture.penalties),
            min_tokens: if rng.one_in(3) {
                rng.within(0..max_tokens as usize + 1) as u32
            } else {
                0
            },
            stop_tokens,
            eos_tokens: vec![TokenId(1)],
            ignore_eos: if tiny { !rng.one_in(4) } else { rng.one_in(3) },
            logprobs: rng.pick(&[
                SamplingLogits::None,
                SamplingLogits::Top(0),
                SamplingLogits::Top(3),
            ]),
            prompt_logprobs: rng
                .pick(&[None, None, None, Some(0), Some(2)])
                .filter(|_| mixture.scores),
            cache_salt: rng.pick(&[None, None, Some("salt".to_owned())]),
            priority: if mixture.priorities { rng.pick(&[0, 0, 0, 1]) } else { 0 },
            time_limit: (mixture.time_limits && rng.one_in(2))
                .then(|| Duration::from_micros(rng.within(0..40_000) as u64)),
            constraint: constrained.then(|| {
                let lasts = rng.one_in(4).then(|| rng.within(1..20));
                ChainConstraint { vocab_size: vocab, seed: rng.within(0..1000) as u64, lasts }
                    .shared()
            }),
            ..EngineRequest::new(prompt, max_tokens)
        }
    }

    /// Some callers cancel, some just go.
    fn second_thoughts(&mut self) {
        if self.open.is_empty() || !self.rng.one_in(self.mixture.second_thoughts) {
            return;
        }
        let ids: Vec<RequestId> = self.open.keys().copied().collect();
        let id = self.rng.pick(&ids);
        let open = self.open.get_mut(&id).unwrap();
        if self.rng.one_in(2) {
            open.ticket = None;
        } else if let Some(ticket) = &open.ticket {
            ticket.cancel();
        }
    }

    /// Masks come in any order, and as late as they like.
    fn masks_come(&mut self) {
        while self.masks.held() > 0 && self.rng.one_in(self.mask_turns) {
            self.masks.release(self.rng.within(0..self.masks.held()));
        }
    }

    fn listen(&mut self) {
        for open in self.open.values_mut() {
            while let Some(event) = open.ticket.as_mut().and_then(Ticket::try_next) {
                open.events.push(event);
            }
        }
    }

    /// Whoever has begun in this turn was to begin before all who still wait. Only for a beginning that somebody else is just
    /// computing does one wait while others overtake.
    fn judge_order(&mut self) -> Result<(), String> {
        let new = |open: &&mut Open| !open.begun && !open.events.is_empty();
        // What wants no output may have nothing to compute, and nothing to wait for.
        let starts = |open: &Open| {
            open.request.max_tokens > 0 && matches!(open.events[0], EngineEvent::Started { .. })
        };
        let mut last = None;
        for open in self.open.values_mut().filter(new) {
            open.begun = true;
            if starts(open) {
                last = last.max(Some(open.rank));
                self.seen.in_order += 1;
            }
        }
        let waits = |open: &&mut Open| !open.begun && open.ticket.is_some();
        for open in self.open.values_mut().filter(waits).filter(|open| Some(open.rank) < last) {
            open.overtaken += 1;
            self.seen.most_overtaken = self.seen.most_overtaken.max(open.overtaken);
            if !self.prefix_cache || open.overtaken > MOST_OVERTAKEN {
                return Err(format!("{:?} was overtaken {} times", open.rank, open.overtaken));
            }
        }
        Ok(())
    }

    fn end(mut self) -> Result<Seen, String> {
        self.listen();
        if !self.core.is_empty() {
            return Err("blocks or requests are left".into());
        }
        let max_length = self.submitter.max_sequence_tokens();
        for (id, open) in &self.open {
            if open.ticket.is_some() {
                self.judge(open, max_length)
                    .map_err(|problem| format!("request {id}: {problem}"))?;
            }
        }
        for open in self.open.values() {
            match open.events.last() {
                Some(EngineEvent::Finished { reason: FinishReason::Cancelled, .. }) => {
                    self.seen.cancelled += 1;
                }
                Some(EngineEvent::Finished {
                    reason: FinishReason::Failed(_) | FinishReason::NoNumbers(_),
                    ..
                }) => {
                    self.seen.failed += 1;
                }
                Some(EngineEvent::Finished { reason: FinishReason::TimedOut, .. }) => {
                    self.seen.timed_out += 1;
                }
                Some(EngineEvent::Finished { reason: FinishReason::ConstraintLost(_), .. }) => {
                    self.seen.lost += 1;
                }
                Some(EngineEvent::Finished { .. }) => {
                    self.seen.finished += 1;
                    self.seen.constrained += u64::from(open.request.constraint.is_some());
                }
                // The caller has gone.
                _ => {}
            }
        }
        let metrics = self.submitter.metrics();
        self.seen.preemptions = metrics.preemptions;
        self.seen.hit_tokens = metrics.prefix_hit_tokens;
        self.seen.accepted = metrics.accepted_tokens;
        self.seen.rejected = metrics.draft_tokens - metrics.accepted_tokens;
        self.seen.restored = metrics.restored_tokens;
        self.seen.copied_out = metrics.kv_blocks_out;
        self.seen.void = metrics.kv_blocks_void;
        self.seen.dropped = metrics.kv_blocks_lost;
        self.seen.steps = metrics.steps;
        Ok(self.seen)
    }

    /// Exactly one end, in the right order, with the tokens that the model gives alone.
    fn judge(&self, open: &Open, max_length: usize) -> Result<(), String> {
        let expected = self.model.alone(&open.request, max_length);
        let Some((EngineEvent::Finished { reason, usage }, before)) = open.events.split_last()
        else {
            return Err(format!("no end: {:?}", open.events));
        };
        let mut tokens = Vec::new();
        let mut scores = None;
        for (at, event) in before.iter().enumerate() {
            match event {
                EngineEvent::Started { .. } if at == 0 => {}
                EngineEvent::PromptLogprobs(all) if at == 1 => scores = Some(all.clone()),
                EngineEvent::Token { token, logprobs } => tokens.push((*token, logprobs.clone())),
                other => return Err(format!("event {at} is {other:?}")),
            }
        }
        if usage.generated_tokens as usize != tokens.len() {
            return Err(format!("{} tokens, usage says {}", tokens.len(), usage.generated_tokens));
        }
        let whole = match reason {
            FinishReason::Cancelled => false,
            FinishReason::TimedOut => {
                let limit =
                    open.request.time_limit.ok_or("its time was over, and it had all of it")?;
                // With the step that runs then, at the latest.
                let late = ROW * self.most_rows + 2 * TURN;
                if usage.total_time < limit || usage.total_time > limit + late {
                    return Err(format!("{limit:?} were over after {:?}", usage.total_time));
                }
                false
            }
            FinishReason::Failed(_) | FinishReason::NoNumbers(_) if self.fault.is_some() => false,
            reason => {
                if *reason != expected.reason {
                    return Err(format!("ended by {reason:?}, alone by {:?}", expected.reason));
                }
                true
            }
        };
        let wanted = if whole { &expected.tokens[..] } else { &expected.tokens[..tokens.len()] };
        if tokens != wanted {
            return Err(format!("gave {tokens:?}\nalone {wanted:?}"));
        }
        if (whole || scores.is_some()) && scores != expected.prompt_logprobs {
            return Err(format!("scores {scores:?}\nalone {:?}", expected.prompt_logprobs));
        }
        Ok(())
    }
}

/// A small machine of some kind.
fn spec(rng: &mut Rng) -> RunnerSpec {
    let block_size = rng.pick(&[1, 2, 4, 8]);
    let max_step_sequences = rng.within(1..7);
    let full = |rng: &mut Rng| KvGroupSpec { window: None, blocks: rng.within(8..40) };
    let sliding = |rng: &mut Rng| {
        let window = rng.within(1..24);
        let least = (window - 1).div_ceil(block_size) + 1;
        KvGroupSpec { window: Some(window), blocks: least + rng.within(0..30) }
    };
    let kv_groups = match rng.within(0..4) {
        0 => vec![full(rng)],
        1 => vec![sliding(rng)],
        2 => vec![full(rng), sliding(rng)],
        _ => vec![full(rng), sliding(rng), sliding(rng)],
    };
    let spec = RunnerSpec {
        vocab_size: rng.pick(&[6, 61, 61, 61, 61]),
        rewinds: !rng.one_in(20),
        max_sequence_tokens: rng.within(40..140),
        max_step_tokens: rng.within(max_step_sequences..48),
        max_step_sequences,
        block_size,
        kv_groups,
        regime_thresholds: if rng.one_in(3) { vec![rng.within(5..60)] } else { vec![] },
        mixes_prefill_and_decode: !rng.one_in(4),
        max_in_flight: rng.within(1..4),
        ..FakeRunner::small_spec()
    };
    let sizes = |rng: &mut Rng| spec.kv_groups.iter().map(|_| rng.within(0..60)).collect();
    let host = (!rng.one_in(3))
        .then(|| HostTier { slots: sizes(rng), block_bytes: vec![1 << 20; spec.kv_groups.len()] });
    RunnerSpec { host, ..spec }
}

/// From at once to longer than a step.
fn copy_times(rng: &mut Rng) -> CopyTimes {
    let most = Duration::from_micros(rng.pick(&[0, 100, 1000, 5000]));
    CopyTimes { least: most / 10, most, rng: Rng::new(rng.next_u64()) }
}

/// Guessing of some kind, mostly where it does not pay.
fn speculation(rng: &mut Rng) -> SpeculationOptions {
    let shortest = rng.within(1..4);
    SpeculationOptions {
        method: Method::Ngram { shortest, longest: rng.within(shortest..6) },
        step_rows: rng.pick(&[2, 6, 64]),
        pace: PaceLimits {
            most: rng.within(1..9),
            break_even: rng.pick(&[0.0, 0.0, 0.4]),
            break_even_in_company: rng.pick(&[0.0, 1.0]),
            pause: rng.within(1..8),
            longest_pause: 16,
        },
    }
}

fn sampling(rng: &mut Rng, vocab_size: usize, penalties: bool) -> SamplingParams {
    if rng.one_in(3) {
        return SamplingParams::default();
    }
    // Penalties count tokens, and rows that count are not guessed about.
    let (repetition_penalty, frequency_penalty, presence_penalty) = if penalties && rng.one_in(2) {
        (rng.pick(&[1.0, 1.3]), rng.pick(&[0.0, 0.5]), rng.pick(&[0.0, 0.25]))
    } else {
        (1.0, 0.0, 0.0)
    };
    SamplingParams {
        temperature: rng.pick(&[0.0, 0.7, 1.5]),
        top_k: rng.pick(&[0, 0, 5]),
        top_p: rng.pick(&[1.0, 0.8]),
        min_p: rng.pick(&[0.0, 0.1]),
        repetition_penalty,
        frequency_penalty,
        presence_penalty,
        logit_bias: rng.pick(&[vec![], vec![(TokenId(vocab_size as u32 * 7 / 61), 2.0)]]),
        banned: rng.pick(&[vec![], vec![TokenId(vocab_size as u32 - 1)]]),
        seed: rng.next_u64(),
    }
}

fn token(rng: &mut Rng, vocab_size: usize) -> TokenId {
    TokenId(rng.within(0..vocab_size) as u32)
}

fn tokens(rng: &mut Rng, count: usize, vocab_size: usize) -> Vec<TokenId> {
    (0..count).map(|_| token(rng, vocab_size)).collect()
}
