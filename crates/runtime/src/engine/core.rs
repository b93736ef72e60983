//! The engine without its thread: commands in, steps out. A simulation drives it call by call.
//!
//! One turn of the loop takes commands, plans and submits a step, and commits the oldest step in flight. The plain
//! loop lets one step be in flight, the overlapped loop two: there step n+1 is planned and submitted while step n
//! runs, its rows read the tokens that step n samples on the device, and what was computed past a stop is discarded.

use std::{
    collections::VecDeque,
    sync::{Arc, mpsc::Receiver},
    time::Duration,
};

use foundation::{RequestId, TokenId};

use super::{
    Clock, EngineOptions, FinishReason,
    admission::Limits,
    deadlines::Deadlines,
    drafts::Drafts,
    inbox::{Command, EngineSide, Job, Shared, Submitter},
    masks::{MaskReply, Masks},
    offload::{COPY_POLL, Offload},
    pack::{InFlight, Packer, Sessions, Target, publish},
    session::{Session, Slots},
    workers::{AtOnce, Workers},
};
use crate::{
    backend::{RunnerSpec, StepError, StepRunner},
    batch::{RowOutput, SlotReset, StepBatch, StepId, StepOutput, TokenLogprobs},
    kv::{BlockLease, ChainRoot, KeyChain, KvCache, SequenceKv},
    scheduler::{
        Changes, Rank, RunnerQueue, Sequence, StepBounds, StepCost, StepLimits, StepPlan,
        sequence::regime_of,
    },
    speculation::Proposer,
};

/// What a call of [`EngineCore::step`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Something; there may be more.
    Worked,
    /// Nothing: masks or blocks are on their way, and it is for them that the next step waits, until a command comes or so much
    /// time has passed; `None`: until a command comes, there being nobody else who could go on.
    Waits(Option<Duration>),
    /// There is nothing to do until a command comes.
    Idle,
}

/// Owns the runner and every sequence.
pub struct EngineCore {
    spec: RunnerSpec,
    /// Steps that may be in flight: 1 or 2.
    depth: usize,
    max_length: usize,
    max_rows: usize,
    queue: RunnerQueue,
    sessions: Sessions,
    deadlines: Deadlines,
    slots: Slots,
    in_flight: VecDeque<InFlight>,
    last_step: StepId,
    last_end: Duration,
    cost: StepCost,
    kv: KvCache,
    masks: Masks,
    /// Guesses, where the engine speculates.
    drafts: Option<Drafts>,
    /// Copies of blocks to and from the host, where the runner has room for them.
    offload: Offload,
    no_tokens: Arc<[TokenId]>,
    shared: Arc<Shared>,
    inbox: Receiver<Command>,
    runner: Box<dyn StepRunner>,
}

impl EngineCore {
    /// A core and its callers' side, with no thread between them, nor beside them.
    pub fn with_submitter(
        runner: Box<dyn StepRunner>,
        options: &EngineOptions,
        clock: Arc<dyn Clock>,
    ) -> (Submitter, EngineCore) {
        let (submitter, side) = Submitter::new(runner.spec(), options, clock);
        (submitter, EngineCore::new(runner, options, side))
    }

    pub(super) fn new(
        runner: Box<dyn StepRunner>,
        options: &EngineOptions,
        side: EngineSide,
    ) -> Self {
        let spec = runner.spec().clone();
        let kv = KvCache::new(&spec, options.prefix_cache);
        let wanted_rows = options.max_step_tokens.unwrap_or(usize::MAX);
        EngineCore {
            depth: if options.overlap { spec.max_in_flight.clamp(1, 2) } else { 1 },
            max_length: Limits::new(&spec).max_sequence_tokens,
            max_rows: wanted_rows.clamp(1, spec.max_step_tokens),
            queue: RunnerQueue::new(options.decode_priority_burst),
            sessions: Sessions::new(),
            deadlines: Deadlines::default(),
            slots: Slots::new(spec.max_step_sequences),
            in_flight: VecDeque::new(),
            last_step: StepId(0),
            last_end: Duration::ZERO,
            cost: StepCost::new(StepBounds {
                target: options.step_target,
                stretch: options.step_stretch,
            }),
            offload: Offload::default(),
            kv,
            masks: Masks::new(Box::new(AtOnce), side.to_inbox),
            drafts: drafts(options, &spec),
            no_tokens: Arc::from([]),
            spec,
            shared: side.shared,
            inbox: side.inbox,
            runner,
        }
    }

    /// The same, with masks worked out by `workers`.
    #[must_use]
    pub fn with_workers(mut self, workers: Box<dyn Workers>) -> Self {
        self.masks.set_workers(workers);
        self
    }

    /// The same, speculating with what `proposer` guesses; nothing changes where it does not speculate.
    #[must_use]
    pub fn with_proposer(mut self, proposer: Box<dyn Proposer>) -> Self {
        self.drafts = self.drafts.map(|drafts| drafts.with_proposer(proposer));
        self
    }

    /// One turn of the loop.
    pub fn step(&mut self) -> Progress {
        while let Ok(command) = self.inbox.try_recv() {
            self.accept(command);
        }
        self.end_late_ones();
        let outcome = self.advance();
        let progress = outcome.unwrap_or_else(|error| {
            self.fail_all(&error.to_string());
            Progress::Idle
        });
        self.report(progress);
        progress
    }

    /// Blocks until a command comes; false: nobody is left who could send one.
    pub(super) fn wait_for_command(&mut self) -> bool {
        let command = self.inbox.recv();
        command.map(|command| self.accept(command)).is_ok()
    }

    /// Blocks until a command comes, or for so long, or until somebody's time is over. Masks come as commands; copies are asked
    /// after.
    pub(super) fn wait_for_news(&mut self, at_most: Option<Duration>) {
        let deadline = self.deadlines.next_in(self.shared.clock.now());
        let command = match at_most.into_iter().chain(deadline).min() {
            Some(at_most) => self.inbox.recv_timeout(at_most).ok(),
            None => self.inbox.recv().ok(),
        };
        if let Some(command) = command {
            self.accept(command);
        }
    }

    /// Ends every request whose time is over.
    fn end_late_ones(&mut self) {
        let now = self.shared.clock.now();
        while let Some(id) = self.deadlines.passed(now) {
            self.end(id, FinishReason::TimedOut);
        }
    }

    /// Submits the next step, and commits the oldest when enough are in flight or nothing could be submitted.
    fn advance(&mut self) -> Result<Progress, StepError> {
        let metrics = &self.shared.metrics;
        self.offload.take(&mut *self.runner, &mut self.kv, &mut self.queue, metrics)?;
        if let Some(at_most) = self.time_for_masks() {
            return Ok(Progress::Waits(Some(at_most)));
        }
        self.propose();
        let plan = self.plan();
        let submitted = !plan.is_empty();
        let moved = submitted || !plan.preempt.is_empty() || !plan.restore.is_empty();
        self.carry_out(&plan)?;
        // Behind the step, which has evicted what it had to.
        self.offload.save(&mut *self.runner, &mut self.kv)?;
        if self.in_flight.len() >= self.depth || (!submitted && !self.in_flight.is_empty()) {
            self.commit_oldest()?;
            return Ok(Progress::Worked);
        }
        if moved {
            return Ok(Progress::Worked);
        }
        let done = self.sessions.is_empty() && self.shared.stopping();
        if !done && self.offload.is_busy() {
            return Ok(Progress::Waits(Some(COPY_POLL)));
        }
        if self.sessions.is_empty() {
            return Ok(Progress::Idle);
        }
        if self.queue.iter().any(|sequence| sequence.awaits_mask) {
            return Ok(Progress::Waits(None));
        }
        // Admission and planner promise that this cannot be; without an answer the callers would wait for ever.
        Err(StepError::Invalid(format!("{} requests wait and none can run", self.sessions.len())))
    }

    /// How long the next step should wait for masks. Nobody is kept from going on while a step runs anyway, or where all are
    /// constrained.
    fn time_for_masks(&self) -> Option<Duration> {
        if !self.masks.are_due() {
            return None;
        }
        let others =
            self.in_flight.is_empty() && self.queue.iter().any(|sequence| !sequence.constrained);
        self.masks.worth_waiting(self.shared.clock.now(), others)
    }

    fn propose(&mut self) {
        if let Some(drafts) = &mut self.drafts {
            drafts.propose(&mut self.queue, &self.spec.regime_thresholds, self.depth > 1);
        }
    }

    fn plan(&mut self) -> StepPlan {
        let decoding = self.queue.decoding();
        let decode_alone = self.queue.prefill_waits() && self.cost.wants_probe(decoding);
        if decode_alone {
            self.cost.probes(decoding);
        }
        let limits = StepLimits {
            rows: self.max_rows,
            sequences: self.spec.max_step_sequences.min(self.max_rows),
            chunk_with_decode: self.cost.chunk(decoding),
            chunk_alone: self.cost.chunk(0),
            decode_alone,
            mixes: self.spec.mixes_prefill_and_decode,
            regime_thresholds: self.spec.regime_thresholds.clone(),
            draft_rows: self.drafts.as_ref().map_or(0, Drafts::step_rows),
            steps_run: !self.in_flight.is_empty(),
            cache_cost: self.kv.has_host().then(|| self.offload.cost(self.cost.per_row())),
        };
        self.queue.plan(&self.kv, &limits)
    }

    fn carry_out(&mut self, plan: &StepPlan) -> Result<(), StepError> {
        self.shared.metrics.preemptions.add(plan.preempt.len() as u64);
        let (queue, kv, mut moves) = self.moves();
        queue.apply(plan, kv, &mut moves);
        let slot_resets = moves.resets;
        // In front of the step, whose blocks are yet to be taken.
        self.offload.bring(&plan.restore, &mut *self.runner, &mut self.kv, &self.queue)?;
        if plan.is_empty() {
            return Ok(());
        }
        let step = StepId(self.last_step.0 + 1);
        if let Some(drafts) = &mut self.drafts {
            drafts.sent(plan, &mut self.queue, &self.shared.metrics);
        }
        let (batch, targets, sources) = self.pack(plan, step, slot_resets);
        let submitted = self.shared.clock.now();
        let id = self.runner.submit(batch)?;
        drop(sources);
        if id != step {
            let text = format!("step {} was submitted, the runner names it {}", step.0, id.0);
            return Err(StepError::Invalid(text));
        }
        self.last_step = step;
        let (rows, prefill_rows, decodes) = (plan.rows(), plan.prefill_rows(), plan.decodes());
        self.in_flight.push_back(InFlight {
            step,
            targets,
            rows,
            prefill_rows,
            decodes,
            submitted,
        });
        Ok(())
    }

    /// The queue, the cache, and what must change beside them when sequences start or stop.
    fn moves(&mut self) -> (&mut RunnerQueue, &KvCache, Moves<'_>) {
        let moves = Moves {
            sessions: &mut self.sessions,
            slots: &mut self.slots,
            shared: &self.shared,
            resets: Vec::new(),
        };
        (&mut self.queue, &self.kv, moves)
    }

    fn pack(
        &mut self,
        plan: &StepPlan,
        step: StepId,
        slot_resets: Vec<SlotReset>,
    ) -> (StepBatch, Vec<Target>, Vec<BlockLease>) {
        let mut packer = Packer::new(&self.kv, step);
        packer.batch.slot_resets = slot_resets;
        let mut sources = Vec::new();
        for admission in plan.admit.iter().filter(|admission| admission.hit.copy_last) {
            let sequence = self.queue.get_mut(admission.rank).expect("it was admitted");
            let copies = self.kv.copy_last(&mut sequence.kv);
            packer.batch.block_copies.extend(copies.copies);
            sources.extend(copies.sources);
        }
        for run in &plan.runs {
            let sequence =
                self.queue.get_mut(run.rank).expect("a plan runs sequences of the queue");
            let session = self.sessions.get(&run.rank.id).expect("a sequence has a session");
            packer.push(run, sequence, session);
        }
        let (batch, targets) = packer.finish();
        (batch, targets, sources)
    }

    fn commit_oldest(&mut self) -> Result<(), StepError> {
        let output = self.runner.wait()?;
        let step = self.in_flight.pop_front().expect("a step is in flight");
        if output.step != step.step || output.rows.len() != step.targets.len() {
            return Err(StepError::Invalid(format!(
                "step {} gave {} rows, expected {} of step {}",
                output.step.0,
                output.rows.len(),
                step.targets.len(),
                step.step.0
            )));
        }
        let now = self.shared.clock.now();
        self.measure(&step, now);
        self.masks.begin_round(now);
        self.commit(step, output, now)
    }

    fn measure(&mut self, step: &InFlight, now: Duration) {
        let time = now.saturating_sub(step.submitted.max(self.last_end));
        self.last_end = now;
        self.cost.record(step.decodes, step.prefill_rows, time);
        if step.prefill_rows == 0 {
            self.masks.decoded(time);
        }
        let metrics = &self.shared.metrics;
        metrics.steps.add(1);
        metrics.computed_tokens.add(step.rows as u64);
        metrics.step_time.observe(time.as_secs_f64());
        metrics.step_tokens.observe(step.rows as f64);
        self.shared.stepped();
    }

    fn commit(
        &mut self,
        step: InFlight,
        output: StepOutput,
        now: Duration,
    ) -> Result<(), StepError> {
        for (target, row) in step.targets.into_iter().zip(output.rows) {
            let rank = target.rank;
            if !self.counts(&target) {
                continue;
            }
            match row {
                RowOutput::Sampled { token, logprobs } => {
                    self.commit_token(rank, token, logprobs, now);
                }
                RowOutput::Scored(score) => self.commit_score(rank, score),
                RowOutput::Failed(reason) => self.finish(rank, FinishReason::NoNumbers(reason)),
                RowOutput::Logits(_) | RowOutput::Hidden(_) => {
                    let text = "a row gave what nobody asked for: logits or hidden state";
                    return Err(StepError::Invalid(text.into()));
                }
            }
        }
        Ok(())
    }

    /// Whether a row's answer counts: always, but behind a guess only if it was right. What was computed of the guess is the
    /// sequence's then, unless its blocks are gone meanwhile.
    fn counts(&mut self, target: &Target) -> bool {
        let Some(guess) = target.guess else { return true };
        let sequence = self.queue.get_mut(target.rank);
        let Some(sequence) = sequence.filter(|sequence| guess.is_right(sequence)) else {
            return false;
        };
        if sequence.computed + 1 == guess.length {
            sequence.computed = guess.length;
        }
        // Its answer comes with the step, as one in flight does.
        sequence.in_flight += 1;
        if let Some(drafts) = &mut self.drafts {
            drafts.accepted(target.rank.id, &self.shared.metrics);
        }
        true
    }

    /// A row of a sequence that has ended meanwhile is discarded.
    fn commit_token(
        &mut self,
        rank: Rank,
        token: TokenId,
        logprobs: Option<TokenLogprobs>,
        now: Duration,
    ) {
        let session = self.sessions.get_mut(&rank.id);
        let (Some(sequence), Some(session)) = (self.queue.get_mut(rank), session) else { return };
        sequence.in_flight -= 1;
        sequence.tokens.push(token);
        let generated = sequence.tokens.len() - sequence.prompt_tokens;
        let limit =
            generated >= sequence.max_tokens || sequence.tokens.len() >= sequence.max_length;
        let end = session.token(token, logprobs, limit, now, &self.shared.metrics);
        match end {
            Some(reason) => self.finish(rank, reason),
            None => {
                if let Some(place) = session.send_off() {
                    sequence.awaits_mask = true;
                    self.masks.ask(rank.id, place, token);
                }
                self.go_on(rank);
            }
        }
    }

    /// A mask is there: its row can go on. A request that has ended meanwhile has no use for it.
    fn accept_mask(&mut self, reply: MaskReply) {
        self.masks.arrived(&reply);
        let waited = self.shared.clock.now().saturating_sub(reply.asked);
        self.shared.metrics.mask_time.observe(waited.as_secs_f64());
        let session = self.sessions.get_mut(&reply.id);
        match (session, reply.outcome) {
            (Some(session), Ok(place)) => {
                session.welcome(place);
                let sequence = self.queue.get_mut(session.rank);
                sequence.expect("a session has a sequence").awaits_mask = false;
            }
            (None, Ok(place)) => self.masks.discard(place),
            (_, Err(reason)) => self.end(reply.id, FinishReason::ConstraintLost(reason)),
        }
    }

    /// After a token: names the block it completed, or starts anew where it changes the regime.
    fn go_on(&mut self, rank: Rank) {
        let Some(sequence) = self.queue.get_mut(rank) else { return };
        let regime = regime_of(sequence.tokens.len(), &self.spec.regime_thresholds);
        if regime == sequence.regime {
            publish(&self.kv, sequence);
            return;
        }
        // The planner waits at such a token, so none is in flight behind it.
        sequence.regime = regime;
        sequence.chain = sequence.chain.restarted(regime);
        sequence.chain.extend(&sequence.tokens);
        let (queue, _, mut moves) = self.moves();
        queue.requeue(rank, &mut moves);
    }

    fn commit_score(&mut self, rank: Rank, score: TokenLogprobs) {
        let session = self.sessions.get(&rank.id);
        let (Some(sequence), Some(session)) = (self.queue.get_mut(rank), session) else { return };
        let Some(scores) = &mut sequence.prompt_scores else { return };
        scores.push(Some(score));
        if scores.len() == sequence.prompt_tokens {
            session.prompt_scores(scores);
            if sequence.max_tokens == 0 {
                self.finish(rank, FinishReason::Length);
            }
        }
    }

    fn accept(&mut self, command: Command) {
        match command {
            Command::Submit(jobs) => jobs.into_iter().for_each(|job| self.accept_job(job)),
            Command::Cancel(id) => self.end(id, FinishReason::Cancelled),
            Command::StopText(id) => self.end(id, FinishReason::StopText),
            Command::CancelAll => {
                let ids: Vec<RequestId> = self.sessions.keys().copied().collect();
                ids.into_iter().for_each(|id| self.end(id, FinishReason::Cancelled));
            }
            Command::Mask(reply) => self.accept_mask(*reply),
            Command::Wake => {}
        }
    }

    /// Ends a request by its caller's wish; one that has ended already stays as it ended.
    fn end(&mut self, id: RequestId, reason: FinishReason) {
        if let Some(rank) = self.sessions.get(&id).map(|session| session.rank) {
            self.finish(rank, reason);
        }
    }

    fn accept_job(&mut self, job: Job) {
        if self.sessions.is_empty() {
            // Work begins now: the time before was idleness, not a stall.
            self.shared.stepped();
        }
        let sequence = self.sequence(&job);
        if let Some(drafts) = &mut self.drafts
            && !sequence.constrained
            && !job.request.sampling.needs_counts()
        {
            drafts.begin(sequence.rank.id);
        }
        let (session, _) = Session::new(job, Arc::clone(&self.no_tokens));
        let rank = session.rank;
        if let Some(moment) = session.deadline {
            self.deadlines.add(moment, rank.id);
        }
        self.sessions.insert(rank.id, session);
        let nothing_to_compute = sequence.remaining() == 0;
        let wants_nothing = sequence.max_tokens == 0 && sequence.prompt_scores.is_none();
        if let Some(reason) = self.shared.fault() {
            self.finish(rank, FinishReason::Failed(reason));
        } else if self.shared.stopping() {
            self.finish(rank, FinishReason::Cancelled);
        } else if nothing_to_compute || wants_nothing {
            self.answer_at_once(&sequence);
        } else {
            self.queue.push(sequence);
        }
    }

    /// A request without output whose prompt needs no computing.
    fn answer_at_once(&mut self, sequence: &Sequence) {
        let now = self.shared.clock.now();
        if let Some(session) = self.sessions.get_mut(&sequence.rank.id) {
            session.start(0, now, &self.shared.metrics);
            if let Some(scores) = &sequence.prompt_scores {
                session.prompt_scores(scores);
            }
        }
        self.finish(sequence.rank, FinishReason::Length);
    }

    fn sequence(&self, job: &Job) -> Sequence {
        let request = &job.request;
        let regime = regime_of(request.prompt.len(), &self.spec.regime_thresholds);
        let root = ChainRoot {
            kv_dtype: self.spec.kv_dtype,
            regime,
            adapter: None,
            cache_salt: request.cache_salt.clone(),
        };
        let mut chain = KeyChain::new(root, self.spec.block_size);
        chain.extend(&request.prompt);
        Sequence {
            rank: Rank::new(request.priority, job.submitted, job.id),
            tokens: request.prompt.to_vec(),
            prompt_tokens: request.prompt.len(),
            max_tokens: request.max_tokens as usize,
            max_length: self.max_length,
            computed: 0,
            in_flight: 0,
            last_output: (StepId(0), 0),
            kv: SequenceKv::default(),
            chain,
            published: 0,
            regime,
            slot: None,
            prompt_scores: request.prompt_logprobs.map(|_| vec![None]),
            started: false,
            constrained: request.constraint.is_some(),
            awaits_mask: false,
            restoring: None,
            restored: false,
            drafts: Vec::new(),
        }
    }

    /// Ends a request: blocks and slot are free, the caller has its answer. Rows in flight find nobody.
    fn finish(&mut self, rank: Rank, reason: FinishReason) {
        if let Some(mut sequence) = self.queue.remove(rank) {
            self.slots.give_back(sequence.restart());
        }
        if let Some(drafts) = &mut self.drafts {
            drafts.forget(rank.id);
        }
        if let Some(mut session) = self.sessions.remove(&rank.id) {
            if let Some(moment) = session.deadline {
                self.deadlines.remove(moment, rank.id);
            }
            if let Some(place) = session.send_off() {
                self.masks.discard(place);
            }
            session.finish(reason, self.shared.clock.now(), &self.shared.metrics);
        }
    }

    /// The runner is lost: every request fails, once; none is taken any more.
    fn fail_all(&mut self, reason: &str) {
        tracing::error!(reason, "the engine failed");
        self.shared.fail(reason.to_owned());
        self.in_flight.clear();
        self.offload.give_up(&mut self.kv, &mut self.queue);
        let ranks: Vec<Rank> = self.sessions.values().map(|session| session.rank).collect();
        for rank in ranks {
            self.finish(rank, FinishReason::Failed(reason.to_owned()));
        }
    }

    fn report(&self, progress: Progress) {
        use std::sync::atomic::Ordering::Relaxed;
        let metrics = &self.shared.metrics;
        let (used, total) = self.kv.usage();
        metrics.kv_blocks_used.set(used as u64);
        metrics.kv_blocks_total.set(total as u64);
        metrics.kv_blocks_lost.set(self.kv.lost());
        let (used, total) = self.kv.host_usage();
        metrics.host_blocks_used.set(used as u64);
        metrics.host_blocks_total.set(total as u64);
        metrics.running.set(self.queue.running() as u64);
        metrics.waiting.set(self.queue.waiting() as u64);
        self.shared.running.store(self.queue.running(), Relaxed);
        if progress == Progress::Idle {
            self.shared.idle();
        }
    }

    /// Every rule that must hold between two steps; the text names one that does not. For tests.
    pub fn check(&self) -> Result<(), String> {
        let restoring = self.offload.holding();
        self.kv.check(self.queue.iter().map(|sequence| &sequence.kv).chain(restoring))?;
        let sequences = self.queue.iter().count();
        if sequences != self.sessions.len() {
            return Err(format!("{sequences} sequences, {} sessions", self.sessions.len()));
        }
        let limited = self.sessions.values().filter(|session| session.deadline.is_some()).count();
        if limited != self.deadlines.len() {
            return Err(format!("{limited} requests with a deadline of {}", self.deadlines.len()));
        }
        for sequence in self.queue.iter() {
            let session = self.sessions.get(&sequence.rank.id);
            if session.is_some_and(|session| session.awaits_mask() != sequence.awaits_mask) {
                return Err(format!("request {}: is its mask there?", sequence.rank.id));
            }
        }
        let slots = self.slots.free() + self.queue.running();
        if slots != self.spec.max_step_sequences {
            return Err(format!("{slots} slots of {}", self.spec.max_step_sequences));
        }
        Ok(())
    }

    /// Whether nothing is held: no request, no block, no step in flight. For tests.
    pub fn is_empty(&self) -> bool {
        let copies = self.kv.is_copying() || self.offload.is_busy();
        let held = self.kv.usage().0;
        self.sessions.is_empty() && self.in_flight.is_empty() && held == 0 && !copies
    }
}

/// Guesses as the options have it. The loader has said so where the runner cannot verify any.
fn drafts(options: &EngineOptions, spec: &RunnerSpec) -> Option<Drafts> {
    let speculation = options.speculation?;
    if let Err(reason) = speculation.check(spec) {
        tracing::warn!(reason, "the engine runs without speculation");
        return None;
    }
    Some(Drafts::new(speculation, speculation.proposer()))
}

/// What changes beside queue and cache when a sequence starts or stops to run.
struct Moves<'a> {
    sessions: &'a mut Sessions,
    slots: &'a mut Slots,
    shared: &'a Shared,
    resets: Vec<SlotReset>,
}

impl Changes for Moves<'_> {
    fn start(&mut self, sequence: &mut Sequence) {
        let slot = self.slots.take();
        sequence.slot = Some(slot);
        let session = self.sessions.get_mut(&sequence.rank.id).expect("a sequence has a session");
        let (prompt, generated) = session.counted(sequence);
        self.resets.push(SlotReset { slot, prompt, generated });
        if sequence.started {
            return;
        }
        sequence.started = true;
        let metrics = &self.shared.metrics;
        metrics.prefix_query_tokens.add(sequence.prompt_tokens as u64);
        metrics.prefix_hit_tokens.add(sequence.computed as u64);
        session.start(sequence.computed, self.shared.clock.now(), metrics);
        // A prompt of one token: its only entry is `None`, and no row will give another.
        if let Some(scores) =
            sequence.prompt_scores.as_ref().filter(|scores| scores.len() == sequence.prompt_tokens)
        {
            session.prompt_scores(scores);
        }
    }

    fn stop(&mut self, sequence: &mut Sequence) {
        self.slots.give_back(sequence.restart());
    }
}
