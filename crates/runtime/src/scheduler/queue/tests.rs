use std::time::Duration;

use foundation::{DType, RequestId, SlotId, TokenId};

use super::*;
use crate::{
    backend::{KvGroupSpec, RunnerSpec},
    batch::StepId,
    kv::{ChainRoot, KeyChain, SequenceKv},
};

/// Blocks of 4 tokens in one full group.
fn kv(blocks: usize) -> KvCache {
    let spec = RunnerSpec {
        vocab_size: 8,
        hidden_size: 1,
        max_sequence_tokens: 1 << 20,
        max_step_tokens: 64,
        max_step_sequences: 4,
        block_size: 4,
        kv_groups: vec![KvGroupSpec { window: None, blocks }],
        regime_thresholds: vec![],
        mixes_prefill_and_decode: true,
        max_in_flight: 1,
        rewinds: true,
        kv_dtype: DType::F32,
    };
    KvCache::new(&spec, true)
}

fn limits() -> StepLimits {
    StepLimits {
        rows: 16,
        sequences: 4,
        chunk_with_decode: 16,
        chunk_alone: 16,
        mixes: true,
        regime_thresholds: vec![],
        draft_rows: 0,
        steps_run: false,
    }
}

/// Request `id` with a prompt of its own.
fn sequence(id: u64, prompt: usize, priority: i32) -> Sequence {
    let tokens = vec![TokenId(id as u32); prompt];
    let root = ChainRoot { kv_dtype: DType::F32, regime: 0, adapter: None, cache_salt: None };
    let mut chain = KeyChain::new(root, 4);
    chain.extend(&tokens);
    Sequence {
        rank: Rank::new(priority, RequestId(id)),
        tokens,
        prompt_tokens: prompt,
        max_tokens: 100,
        max_length: 1000,
        computed: 0,
        in_flight: 0,
        last_output: (StepId(0), 0),
        kv: SequenceKv::default(),
        chain,
        published: 0,
        regime: 0,
        slot: None,
        constrained: false,
        awaits_mask: false,
        drafts: Vec::new(),
        prompt_scores: None,
        started: false,
    }
}

struct NoChanges;

impl Changes for NoChanges {
    fn start(&mut self, sequence: &mut Sequence) {
        sequence.slot = Some(SlotId(0));
    }

    fn stop(&mut self, sequence: &mut Sequence) {
        sequence.restart();
    }
}

/// Carries a plan out and lets every finished prompt and decode row give a token.
fn run(queue: &mut RunnerQueue, kv: &KvCache, plan: &StepPlan) {
    queue.apply(plan, kv, &mut NoChanges);
    for run in &plan.runs {
        let sequence = queue.get_mut(run.rank).unwrap();
        kv.grow(&mut sequence.kv, sequence.computed + run.tokens);
        sequence.computed += run.tokens;
        if sequence.computed == sequence.tokens.len() {
            sequence.tokens.push(TokenId(0));
        }
    }
}

/// A step in short: request, tokens; in the plan's order.
fn runs(plan: &StepPlan) -> Vec<(u64, usize)> {
    plan.runs.iter().map(|run| (run.rank.id.0, run.tokens)).collect()
}

fn step(queue: &mut RunnerQueue, kv: &KvCache, limits: &StepLimits) -> Vec<(u64, usize)> {
    let plan = queue.plan(kv, limits);
    run(queue, kv, &plan);
    runs(&plan)
}

#[test]
fn decode_rows_always_take_part_and_prefill_fills_the_rest() {
    let (kv, limits) = (kv(100), limits());
    let mut queue = RunnerQueue::new(0);
    queue.push(sequence(1, 3, 0));
    assert_eq!(step(&mut queue, &kv, &limits), [(1, 3)]);
    queue.push(sequence(2, 20, 0));
    queue.push(sequence(3, 5, 0));
    assert_eq!(step(&mut queue, &kv, &limits), [(1, 1), (2, 15)]);
    assert_eq!(step(&mut queue, &kv, &limits), [(1, 1), (2, 5), (3, 5)]);
    assert_eq!(step(&mut queue, &kv, &limits), [(1, 1), (2, 1), (3, 1)]);
}

#[test]
fn a_burst_of_decode_steps_goes_before_each_chunk() {
    let (kv, limits) = (kv(100), limits());
    let mut queue = RunnerQueue::new(2);
    queue.push(sequence(1, 3, 0));
    step(&mut queue, &kv, &limits);
    queue.push(sequence(2, 20, 0));
    let steps: Vec<_> = (0..6).map(|_| step(&mut queue, &kv, &limits)).collect();
    let decode = vec![(1, 1)];
    let (first, second) = (vec![(1, 1), (2, 15)], vec![(1, 1), (2, 5)]);
    assert_eq!(steps, [decode.clone(), decode.clone(), first, decode.clone(), decode, second]);
}

#[test]
fn a_runner_that_cannot_mix_alternates() {
    let (kv, limits) = (kv(100), StepLimits { mixes: false, ..limits() });
    let mut queue = RunnerQueue::new(0);
    queue.push(sequence(1, 3, 0));
    step(&mut queue, &kv, &limits);
    queue.push(sequence(2, 40, 0));
    let steps: Vec<_> = (0..4).map(|_| step(&mut queue, &kv, &limits)).collect();
    assert_eq!(steps, [vec![(1, 1)], vec![(2, 16)], vec![(1, 1)], vec![(2, 16)]]);
}

#[test]
fn chunks_beside_decode_rows_are_cut_by_cost() {
    let kv = kv(100);
    let mut cost = crate::scheduler::StepCost::new(Some(Duration::from_millis(40)));
    cost.record(40, Duration::from_millis(40));
    let limits = StepLimits {
        rows: 1000,
        chunk_with_decode: cost.chunk(true),
        chunk_alone: cost.chunk(false),
        ..limits()
    };
    let mut queue = RunnerQueue::new(0);
    queue.push(sequence(1, 200, 0));
    assert_eq!(step(&mut queue, &kv, &limits), [(1, 160)]);
    assert_eq!(step(&mut queue, &kv, &limits), [(1, 40)]);
    queue.push(sequence(2, 100, 0));
    assert_eq!(step(&mut queue, &kv, &limits), [(1, 1), (2, 40)]);
}

#[test]
fn priority_goes_first_then_arrival_and_nobody_overtakes() {
    let (kv, limits) = (kv(10), limits());
    let mut queue = RunnerQueue::new(0);
    queue.push(sequence(1, 4, 0));
    queue.push(sequence(2, 60, 0));
    queue.push(sequence(3, 4, 0));
    queue.push(sequence(4, 4, 1));
    // 2 needs more blocks than there are now: 3 must wait behind it.
    assert_eq!(step(&mut queue, &kv, &limits), [(4, 4), (1, 4)]);
    assert_eq!(step(&mut queue, &kv, &limits), [(4, 1), (1, 1)]);
}

#[test]
fn out_of_blocks_the_youngest_gives_way() {
    let (kv, limits) = (kv(4), limits());
    let mut queue = RunnerQueue::new(0);
    queue.push(sequence(1, 8, 0));
    queue.push(sequence(2, 8, 0));
    assert_eq!(step(&mut queue, &kv, &limits), [(1, 8), (2, 8)]);
    let plan = queue.plan(&kv, &limits);
    assert_eq!(plan.preempt, [Rank::new(0, RequestId(2))]);
    assert_eq!(runs(&plan), [(1, 1)]);
    run(&mut queue, &kv, &plan);
    assert_eq!((queue.running(), queue.waiting()), (1, 1));
    let victim = queue.get_mut(Rank::new(0, RequestId(2))).unwrap();
    assert_eq!((victim.computed, victim.kv.held(0), victim.slot), (0, 0, None));
    assert_eq!(victim.tokens.len(), 9, "what it has said stays said");
}

#[test]
fn a_plan_changes_nothing_and_repeats() {
    let (kv, limits) = (kv(20), limits());
    let mut queue = RunnerQueue::new(1);
    queue.push(sequence(1, 30, 0));
    queue.push(sequence(2, 9, 0));
    let plan = queue.plan(&kv, &limits);
    assert_eq!(plan, queue.plan(&kv, &limits));
    assert_eq!((plan.rows(), kv.available(0)), (16, 20));
}

/// A queue of sequences that decode, with so many guesses each.
fn guessing(kv: &KvCache, drafts: &[usize]) -> RunnerQueue {
    let mut queue = RunnerQueue::new(0);
    (1..).zip(drafts).for_each(|(id, _)| queue.push(sequence(id, 3, 0)));
    step(&mut queue, kv, &limits());
    for (sequence, drafts) in queue.running_mut().zip(drafts) {
        sequence.drafts = vec![TokenId(7); *drafts];
    }
    queue
}

fn drafts(plan: &StepPlan) -> Vec<usize> {
    plan.runs.iter().map(|run| run.drafts).collect()
}

#[test]
fn guesses_get_the_rows_that_decode_rows_and_prefills_leave() {
    let kv = kv(100);
    let limits = StepLimits { draft_rows: 12, ..limits() };
    let mut queue = guessing(&kv, &[4, 0, 9]);
    let plan = queue.plan(&kv, &limits);
    assert_eq!(runs(&plan), [(1, 1), (2, 1), (3, 1)]);
    assert_eq!(drafts(&plan), [4, 0, 5], "12 rows in all");
    assert_eq!(plan.rows(), 12);
    queue.push(sequence(4, 11, 0));
    let plan = queue.plan(&kv, &limits);
    assert_eq!((runs(&plan)[3], drafts(&plan)), ((4, 11), vec![1, 0, 1, 0]), "16 rows in all");
    queue.get_mut(Rank::new(0, RequestId(1))).unwrap().drafts.truncate(1);
    assert_eq!(drafts(&queue.plan(&kv, &limits)), [1, 0, 1, 0]);
    let few = StepLimits { draft_rows: 2, ..limits };
    assert_eq!(drafts(&queue.plan(&kv, &few)), [0; 4]);
}

#[test]
fn guesses_take_blocks_that_nobody_wants_and_preempt_nobody() {
    // Each holds one block of four, of which three are full.
    let limits = StepLimits { draft_rows: 16, ..limits() };
    let one_left = kv(3);
    let plan = guessing(&one_left, &[6, 6]).plan(&one_left, &limits);
    assert_eq!((drafts(&plan), plan.preempt.len()), (vec![4, 0], 0));
    let none_left = kv(2);
    let plan = guessing(&none_left, &[6, 6]).plan(&none_left, &limits);
    assert_eq!((drafts(&plan), plan.preempt.len()), (vec![0, 0], 0));
}

#[test]
fn sequences_with_guesses_wait_for_one_another() {
    let kv = kv(100);
    let limits = StepLimits { draft_rows: 16, steps_run: true, ..limits() };
    let mut queue = guessing(&kv, &[2, 2]);
    queue.running[0].in_flight = 1;
    assert!(queue.plan(&kv, &limits).is_empty(), "the first comes back with the step in flight");
    queue.push(sequence(3, 5, 0));
    assert_eq!(runs(&queue.plan(&kv, &limits)), [(2, 1), (3, 5)], "there is other work");
    queue.waiting.clear();
    queue.running[1].drafts.clear();
    assert_eq!(runs(&queue.plan(&kv, &limits)), [(2, 1)], "it has no guesses: it may run ahead");
}

#[test]
fn guesses_stay_within_every_limit() {
    let mut sequence = sequence(1, 10, 0);
    (sequence.max_tokens, sequence.max_length) = (6, 1000);
    sequence.tokens.push(TokenId(0));
    assert_eq!(sequence.draft_room(&[]), 4, "one of six is there, and one comes anyway");
    assert_eq!(sequence.draft_room(&[5, 13]), 2);
    assert_eq!(sequence.draft_room(&[11]), 0);
    sequence.max_length = 14;
    assert_eq!(sequence.draft_room(&[]), 2);
    sequence.max_length = 11;
    assert_eq!(sequence.draft_room(&[]), 0);
}
