use std::time::Duration;

use foundation::{DType, RequestId, SlotId, TokenId};

use super::*;
use crate::{
    backend::{HostTier, KvGroupSpec, RunnerSpec},
    batch::StepId,
    kv::{ChainRoot, KeyChain, SequenceKv},
    scheduler::{StepBounds, StepCost},
};

/// Blocks of 4 tokens in one full group.
fn kv(blocks: usize) -> KvCache {
    KvCache::new(&spec(blocks), true)
}

fn spec(blocks: usize) -> RunnerSpec {
    RunnerSpec {
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
        host: None,
        kv_dtype: DType::F32,
    }
}

fn limits() -> StepLimits {
    StepLimits {
        rows: 16,
        sequences: 4,
        chunk_with_decode: 16,
        chunk_alone: 16,
        decode_alone: false,
        mixes: true,
        regime_thresholds: vec![],
        draft_rows: 0,
        steps_run: false,
        cache_cost: None,
    }
}

fn rank(id: u64, priority: i32) -> Rank {
    Rank::new(priority, Duration::ZERO, RequestId(id))
}

/// Request `id` with a prompt of its own.
fn sequence(id: u64, prompt: usize, priority: i32) -> Sequence {
    let tokens = vec![TokenId(id as u32); prompt];
    let root = ChainRoot { kv_dtype: DType::F32, regime: 0, adapter: None, cache_salt: None };
    let mut chain = KeyChain::new(root, 4);
    chain.extend(&tokens);
    Sequence {
        rank: rank(id, priority),
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
        restoring: None,
        restored: false,
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
    let target = Some(Duration::from_millis(40));
    let mut cost = StepCost::new(StepBounds { target, stretch: None });
    cost.record(0, 40, Duration::from_millis(40));
    let limits = StepLimits {
        rows: 1000,
        chunk_with_decode: cost.chunk(1),
        chunk_alone: cost.chunk(0),
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
    assert_eq!(plan.preempt, [rank(2, 0)]);
    assert_eq!(runs(&plan), [(1, 1)]);
    run(&mut queue, &kv, &plan);
    assert_eq!((queue.running(), queue.waiting()), (1, 1));
    let victim = queue.get_mut(rank(2, 0)).unwrap();
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
    queue.get_mut(rank(1, 0)).unwrap().drafts.truncate(1);
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

/// A cache of 16 blocks whose host keeps the first three of a prompt of request `id` that others have driven out.
fn kv_with_three_on_the_host(id: u64) -> KvCache {
    let host = HostTier { slots: vec![40], block_bytes: vec![1000] };
    let groups = vec![KvGroupSpec { window: None, blocks: 16 }];
    let spec = RunnerSpec { kv_groups: groups, host: Some(host), ..spec(16) };
    let mut kv = KvCache::new(&spec, true);
    let fill = |kv: &KvCache, id, tokens| {
        let sequence = sequence(id, tokens, 0);
        let mut held = kv.begin(&kv.find(&[], 0, false));
        kv.grow(&mut held, tokens);
        kv.publish(&held, sequence.chain.keys(), 0);
    };
    fill(&kv, id, 12);
    fill(&kv, 90, 52);
    let mut copies = Vec::new();
    kv.begin_out(3, &mut copies);
    assert_eq!((copies.len(), kv.end_out(&copies)), (3, 0));
    fill(&kv, 91, 12);
    kv
}

#[test]
fn a_beginning_on_the_host_is_brought_back_where_that_pays_while_others_go_on() {
    let mut kv = kv_with_three_on_the_host(1);
    let mut queue = RunnerQueue::new(0);
    queue.push(sequence(1, 14, 0));
    queue.push(sequence(2, 3, 0));
    let cost = |per_row| Some(CacheCost { per_byte: 1e-6, per_row: Some(per_row) });
    let dear = StepLimits { cache_cost: cost(1e-4), ..limits() };
    let plan = queue.plan(&kv, &dear);
    assert_eq!(
        (plan.restore.len(), runs(&plan)),
        (0, vec![(1, 14), (2, 2)]),
        "computing is cheaper"
    );
    let limits = StepLimits { cache_cost: cost(1e-3), ..limits() };
    let plan = queue.plan(&kv, &limits);
    assert_eq!(runs(&plan), [(2, 3)], "5 ms or 12: it waits, and others go on");
    let [Restoration { restore, gained: 12, .. }] = &plan.restore[..] else { panic!("{plan:?}") };
    let mut copies = Vec::new();
    let held = kv.restore(restore, &mut copies);
    run(&mut queue, &kv, &plan);
    assert_eq!(step(&mut queue, &kv, &limits), [(2, 1)], "it still waits");
    kv.publish(&held, sequence(1, 14, 0).chain.keys(), 0);
    kv.end_in(&copies);
    drop(held);
    queue.get_mut(rank(1, 0)).unwrap().restoring = None;
    let plan = queue.plan(&kv, &limits);
    assert_eq!(plan.admit[0].hit.tokens, 12);
    assert_eq!(runs(&plan), [(2, 1), (1, 2)]);
}

#[test]
fn what_one_brings_back_another_waits_for() {
    let mut kv = kv_with_three_on_the_host(1);
    let limits =
        StepLimits { cache_cost: Some(CacheCost { per_byte: 0.0, per_row: None }), ..limits() };
    let mut queue = RunnerQueue::new(0);
    queue.push(sequence(1, 14, 0));
    let mut twin = sequence(1, 14, 0);
    twin.rank = rank(5, 0);
    queue.push(twin);
    let plan = queue.plan(&kv, &limits);
    assert_eq!((plan.restore.len(), runs(&plan).len()), (1, 0), "in the same step");
    let mut copies = Vec::new();
    let held = kv.restore(&plan.restore[0].restore, &mut copies);
    queue.apply(&plan, &kv, &mut NoChanges);
    let plan = queue.plan(&kv, &limits);
    assert_eq!((plan.restore.len(), runs(&plan).len()), (0, 0), "and in later ones");
    drop(held);
}

#[test]
fn what_has_no_room_to_begin_is_not_brought_back() {
    let kv = kv_with_three_on_the_host(1);
    let limits =
        StepLimits { cache_cost: Some(CacheCost { per_byte: 0.0, per_row: None }), ..limits() };
    let mut queue = RunnerQueue::new(0);
    queue.push(sequence(7, 60, 0));
    assert_eq!(step(&mut queue, &kv, &limits), [(7, 16)]);
    queue.push(sequence(1, 14, 0));
    let plan = queue.plan(&kv, &limits);
    assert_eq!((plan.restore.len(), plan.admit.len()), (0, 0), "15 of 16 blocks are promised");
}

#[test]
fn a_step_that_is_put_off_brings_nothing_back_either() {
    let kv = kv_with_three_on_the_host(1);
    let cost = Some(CacheCost { per_byte: 0.0, per_row: None });
    let limits = StepLimits { cache_cost: cost, draft_rows: 10, steps_run: true, ..limits() };
    let mut queue = RunnerQueue::new(0);
    queue.push(sequence(2, 3, 0));
    queue.push(sequence(3, 3, 0));
    assert_eq!(step(&mut queue, &kv, &limits), [(2, 3), (3, 3)]);
    queue.get_mut(rank(2, 0)).unwrap().in_flight = 1;
    for id in [2, 3] {
        queue.get_mut(rank(id, 0)).unwrap().drafts = vec![TokenId(7)];
    }
    queue.push(sequence(1, 14, 0));
    assert_eq!(queue.plan(&kv, &limits), StepPlan::default());
    let plan = queue.plan(&kv, &StepLimits { steps_run: false, ..limits });
    assert_eq!((plan.restore.len(), runs(&plan)), (1, vec![(3, 1)]));
}
