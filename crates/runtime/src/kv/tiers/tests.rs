use std::collections::HashMap;

use foundation::{DType, TokenId};
use proptest::prelude::*;

use super::*;
use crate::{
    backend::{HostTier, KvGroupSpec, RunnerSpec},
    kv::{ChainRoot, KeyChain},
};

const BLOCK: usize = 2;

/// Groups by window, blocks and slots.
fn cache(groups: &[(Option<usize>, usize, usize)]) -> KvCache {
    let kv_groups =
        groups.iter().map(|(window, blocks, _)| KvGroupSpec { window: *window, blocks: *blocks });
    let spec = RunnerSpec {
        vocab_size: 8,
        hidden_size: 1,
        max_sequence_tokens: 1 << 20,
        max_step_tokens: 64,
        max_step_sequences: 4,
        block_size: BLOCK,
        kv_groups: kv_groups.collect(),
        regime_thresholds: vec![],
        mixes_prefill_and_decode: true,
        max_in_flight: 1,
        rewinds: true,
        kv_dtype: DType::F32,
        host: Some(HostTier {
            slots: groups.iter().map(|(_, _, slots)| *slots).collect(),
            block_bytes: (1..=groups.len() as u64).map(|group| 100 * group).collect(),
        }),
    };
    KvCache::new(&spec, true)
}

/// The names of a sequence of `tokens` tokens; sequences of one `stem` begin alike.
fn keys(stem: u32, tokens: usize) -> Vec<BlockKey> {
    let root = ChainRoot { kv_dtype: DType::F32, regime: stem, adapter: None, cache_salt: None };
    let mut chain = KeyChain::new(root, BLOCK);
    chain.extend(&(0..tokens as u32).map(TokenId).collect::<Vec<_>>());
    chain.keys().to_vec()
}

/// A machine whose blocks and slots hold names.
struct Machine {
    kv: KvCache,
    device: HashMap<(u32, BlockId), BlockKey>,
    host: HashMap<(u32, HostSlot), BlockKey>,
}

impl Machine {
    fn new(groups: &[(Option<usize>, usize, usize)]) -> Self {
        Machine { kv: cache(groups), device: HashMap::new(), host: HashMap::new() }
    }

    /// Computes a whole sequence and lets it go; false: there are too few blocks.
    fn compute(&mut self, names: &[BlockKey]) -> bool {
        if (0..self.kv.group_count()).any(|group| self.kv.available(group) < names.len()) {
            return false;
        }
        let mut sequence = self.kv.begin(&self.kv.find(&[], 0, false));
        self.kv.grow(&mut sequence, names.len() * BLOCK);
        for (group, table) in sequence.tables().iter().enumerate() {
            let blocks = table.blocks.iter().zip(names);
            self.device.extend(blocks.map(|(block, name)| ((group as u32, *block), *name)));
        }
        self.kv.publish(&sequence, names, 0);
        true
    }

    /// Begins copies out, and gives them with what goes along at the earliest.
    fn begin_out(&mut self, most: usize) -> Vec<HostCopy> {
        let mut copies = Vec::new();
        self.kv.begin_out(most, &mut copies);
        copies
    }

    /// Ends copies out, with what the blocks hold by now.
    fn end_out(&mut self, copies: &[HostCopy]) -> usize {
        for copy in copies {
            self.host.insert((copy.group, copy.slot), self.device[&(copy.group, copy.block)]);
        }
        self.kv.end_out(copies)
    }

    /// Brings a beginning back and publishes it.
    fn restore(&mut self, restore: &Restore, names: &[BlockKey]) {
        let held = self.kv.hold(restore);
        let mut copies = Vec::new();
        let sequence = self.kv.restore(restore, &mut copies);
        drop(held);
        self.kv.check([&sequence].into_iter()).unwrap();
        assert!(copies.is_empty() || self.kv.is_copying());
        for copy in &copies {
            self.device.insert((copy.group, copy.block), self.host[&(copy.group, copy.slot)]);
        }
        self.kv.publish(&sequence, &names[..restore.blocks], 0);
        self.kv.end_in(&copies);
    }

    /// What is found on the device is what it is called.
    fn check(&self, names: &[BlockKey]) {
        self.kv.check([].into_iter()).unwrap();
        let hit = self.kv.find(names, names.len() * BLOCK, false);
        for (group, blocks) in hit.groups.iter().enumerate() {
            for (block, name) in blocks.blocks.iter().zip(&names[blocks.first..]) {
                assert_eq!(self.device[&(group as u32, *block)], *name);
            }
        }
    }
}

#[test]
fn blocks_go_out_before_they_are_evicted_and_come_back() {
    let mut machine = Machine::new(&[(None, 8, 16)]);
    let (first, second) = (keys(0, 16), keys(1, 16));
    assert!(machine.compute(&first));
    let mut saved = 0;
    while saved < 8 {
        let copies = machine.begin_out(3);
        // Two of eight are kept safe: the end of the sequence first, which goes first.
        let blocks: Vec<u32> = copies.iter().map(|copy| copy.block.0).collect();
        assert_eq!(blocks, [7 - saved, 6 - saved]);
        assert_eq!(machine.end_out(&copies), 0);
        saved += 2;
        assert!(machine.begin_out(3).is_empty(), "once is enough");
        assert!(machine.compute(&keys(8 + saved, 4)), "it takes the two that are safe");
    }
    assert!(machine.compute(&second));
    assert_eq!(machine.kv.find(&first, 16, false).tokens, 0);
    let restore = machine.kv.find_in_tiers(&first, 16, false).unwrap();
    assert_eq!((restore.tokens, restore.blocks, restore.copies(0)), (16, 8, 8));
    assert_eq!(machine.kv.bytes_back(&restore), 800);
    machine.restore(&restore, &first);
    assert_eq!(machine.kv.find(&first, 16, false).tokens, 16);
    machine.check(&first);
    assert!(machine.begin_out(9).is_empty(), "what came back still lies there");
}

#[test]
fn a_copy_of_a_block_that_is_evicted_meanwhile_is_void() {
    let mut machine = Machine::new(&[(None, 8, 16)]);
    assert!(machine.compute(&keys(0, 16)));
    let copies = machine.begin_out(9);
    assert!(machine.compute(&keys(1, 2)), "it takes the block that is evicted first");
    assert_eq!(machine.end_out(&copies), 1);
    assert_eq!((machine.kv.host_usage(), machine.kv.lost()), ((1, 16), 1));
    machine.check(&keys(0, 16));
}

#[test]
fn few_slots_serve_few_blocks_and_copying_comes_to_rest() {
    let mut machine = Machine::new(&[(None, 40, 4)]);
    assert!(machine.compute(&keys(0, 80)));
    let copies = machine.begin_out(100);
    assert_eq!(copies.len(), 2, "half of the slots");
    machine.end_out(&copies);
    assert!(machine.begin_out(100).is_empty());
    assert!(Machine::new(&[(None, 40, 1)]).begin_out(100).is_empty());
}

#[test]
fn a_window_needs_its_own_blocks_alone() {
    let mut machine = Machine::new(&[(None, 12, 24), (Some(3), 12, 24)]);
    let names = keys(0, 16);
    assert!(machine.compute(&names));
    for stem in 1..10 {
        let copies = machine.begin_out(24);
        machine.end_out(&copies);
        assert!(machine.compute(&keys(stem, 4)), "two blocks, and three are kept safe");
    }
    assert_eq!((machine.kv.lost(), machine.kv.find(&names, 16, false).tokens), (0, 0));
    let restore = machine.kv.find_in_tiers(&names, 16, false).unwrap();
    let firsts: Vec<usize> = restore.groups.iter().map(|(first, _)| *first).collect();
    assert_eq!((restore.tokens, firsts), (16, vec![0, 7]), "token 16 reads 14 and 15");
    machine.restore(&restore, &names);
    machine.check(&names);
}

#[derive(Clone, Debug)]
enum Action {
    Compute(u32, usize),
    BeginOut(usize),
    /// End the n-th batch of copies out.
    EndOut(usize),
    CancelOut(usize),
    Restore(u32, usize),
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        4 => (0u32..6, 1usize..7).prop_map(|(stem, blocks)| Action::Compute(stem, blocks)),
        4 => (1usize..6).prop_map(Action::BeginOut),
        4 => (0usize..4).prop_map(Action::EndOut),
        1 => (0usize..4).prop_map(Action::CancelOut),
        3 => (0u32..6, 1usize..7).prop_map(|(stem, blocks)| Action::Restore(stem, blocks)),
    ]
}

proptest! {
    /// Whatever is done in whatever order, what a name finds is what was computed under it.
    #[test]
    fn nothing_is_found_under_a_name_that_is_not_its_own(
        groups in prop::collection::vec((prop::option::of(1usize..8), 6usize..14, 0usize..20), 1..3),
        actions in prop::collection::vec(action(), 0..120),
    ) {
        let mut machine = Machine::new(&groups);
        let mut out: Vec<Vec<HostCopy>> = Vec::new();
        for action in actions {
            match action {
                Action::Compute(stem, blocks) => {
                    machine.compute(&keys(stem, blocks * BLOCK));
                }
                Action::BeginOut(most) => out.push(machine.begin_out(most)),
                Action::EndOut(n) if !out.is_empty() => {
                    let copies = out.swap_remove(n % out.len());
                    machine.end_out(&copies);
                }
                Action::CancelOut(n) if !out.is_empty() => {
                    let copies = out.swap_remove(n % out.len());
                    machine.kv.cancel_out(&copies);
                }
                Action::Restore(stem, blocks) => {
                    let names = keys(stem, blocks * BLOCK);
                    let there = machine.kv.find(&names, blocks * BLOCK, false).tokens;
                    if let Some(restore) = machine.kv.find_in_tiers(&names, blocks * BLOCK, false) {
                        prop_assert!(restore.tokens >= there);
                        machine.restore(&restore, &names);
                        prop_assert_eq!(machine.kv.find(&names, blocks * BLOCK, false).tokens, restore.tokens);
                    } else {
                        prop_assert_eq!(there, 0);
                    }
                }
                Action::EndOut(_) | Action::CancelOut(_) => {}
            }
            (0..6).for_each(|stem| machine.check(&keys(stem, 6 * BLOCK)));
        }
        out.iter().for_each(|copies| machine.kv.cancel_out(copies));
        prop_assert!(!machine.kv.is_copying());
        prop_assert_eq!(machine.kv.usage().0, 0);
    }
}
