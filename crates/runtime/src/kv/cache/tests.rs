use foundation::{DType, TokenId};
use proptest::prelude::*;

use super::*;
use crate::kv::{ChainRoot, KeyChain, Tally};

const BLOCK: usize = 4;

fn cache(groups: &[(Option<usize>, usize)]) -> KvCache {
    let kv_groups =
        groups.iter().map(|(window, blocks)| KvGroupSpec { window: *window, blocks: *blocks });
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
        host: None,
        kv_dtype: DType::F32,
    };
    KvCache::new(&spec, true)
}

fn keys(tokens: usize) -> Vec<BlockKey> {
    let root = ChainRoot { kv_dtype: DType::F32, regime: 0, adapter: None, cache_salt: None };
    let mut chain = KeyChain::new(root, BLOCK);
    chain.extend(&(0..tokens as u32).map(TokenId).collect::<Vec<_>>());
    chain.keys().to_vec()
}

/// Computes a sequence of `tokens` in chunks and publishes it, as the engine does.
fn compute(kv: &KvCache, tokens: usize, chunk: usize) -> SequenceKv {
    let mut sequence = kv.begin(&kv.find(&[], 0, false));
    let keys = keys(tokens);
    let mut cached = 0;
    while cached < tokens {
        let end = (cached + chunk).min(tokens);
        kv.leave_window(&mut sequence, cached);
        kv.grow(&mut sequence, end);
        kv.publish(&sequence, &keys[..end / BLOCK], cached / BLOCK);
        cached = end;
    }
    sequence
}

#[test]
fn a_hit_ends_where_every_group_can_serve_it() {
    let kv = cache(&[(None, 64), (Some(6), 64)]);
    drop(compute(&kv, 40, 8));
    assert_eq!(kv.find(&keys(40), 40, false).tokens, 40);
    assert_eq!(kv.find(&keys(40), 39, false).tokens, 36);
    let hit = kv.find(&keys(20), 19, false);
    assert_eq!((hit.tokens, hit.groups[0].first, hit.groups[1].first), (16, 0, 2));
    assert_eq!(hit.groups[1].blocks.len(), 2, "token 16 reads 11..=16: blocks 2 and 3");
    assert_eq!(kv.find(&keys(3), 3, false).tokens, 0);
}

#[test]
fn a_hit_to_the_very_end_copies_its_last_block() {
    let kv = cache(&[(None, 8), (Some(6), 8)]);
    let first = compute(&kv, 8, 8);
    let hit = kv.find(&keys(8), 8, true);
    assert_eq!((hit.tokens, hit.copy_last), (7, true));
    let mut second = kv.begin(&hit);
    let copies = kv.copy_last(&mut second);
    assert_eq!(copies.copies.len(), 2, "one for each group");
    let (mine, others) = (second.tables(), first.tables());
    assert_eq!(mine[0].blocks[0], others[0].blocks[0], "shared");
    assert_ne!(mine[0].blocks[1], others[0].blocks[1], "copied");
    assert_eq!(copies.copies[0].from, others[0].blocks[1]);
    assert_eq!(copies.copies[0].to, mine[0].blocks[1]);
    drop(copies);
    assert_eq!(kv.check([&first, &second].into_iter()), Ok(()));
}

#[test]
fn the_beginning_of_a_sequence_is_evicted_last() {
    let kv = cache(&[(None, 4)]);
    drop(compute(&kv, 16, 16));
    let other = compute(&kv, 1, 1);
    assert_eq!(kv.find(&keys(16), 16, false).tokens, 12, "the last block went first");
    drop(other);
}

#[test]
fn without_prefix_cache_nothing_is_found() {
    let mut kv = cache(&[(None, 8)]);
    kv.prefix_cache = false;
    drop(compute(&kv, 16, 16));
    assert_eq!(kv.find(&keys(16), 16, true).tokens, 0);
}

proptest! {
    /// Window < prompt < 3 x window, beside a group that keeps everything; other sequences press on the pool.
    #[test]
    fn a_hit_holds_exactly_what_its_next_token_reads(
        window in 1usize..40,
        over in 1usize..80,
        chunk in 1usize..50,
        asked in 0usize..130,
        pressure in 0usize..120,
        copy in any::<bool>(),
    ) {
        let tokens = window + 1 + over % (2 * window).max(1);
        let kv = cache(&[(None, 64), (Some(window), 40)]);
        let sequence = compute(&kv, tokens, chunk);
        drop(sequence);
        if pressure > 0 {
            // Other tokens: nothing is published, but cached blocks are evicted.
            let mut other = kv.begin(&kv.find(&[], 0, false));
            kv.grow(&mut other, pressure);
            prop_assert_eq!(kv.check([&other].into_iter()), Ok(()));
        }
        let asked = asked.min(tokens);
        let hit = kv.find(&keys(tokens), asked, copy);
        prop_assert!(hit.tokens <= asked);
        prop_assert!(hit.copy_last || hit.tokens.is_multiple_of(BLOCK));
        let end = hit.tokens.div_ceil(BLOCK);
        for (group, blocks) in hit.groups.iter().enumerate() {
            prop_assert_eq!(blocks.first + blocks.blocks.len(), end);
            let needed = (hit.tokens + 1).saturating_sub(window) / BLOCK;
            let first = if group == 0 { 0 } else { needed.min(end) };
            prop_assert_eq!(blocks.first, first);
            for (offset, block) in blocks.blocks.iter().enumerate() {
                let key = keys(tokens)[blocks.first + offset];
                prop_assert_eq!(kv.groups[group].pool.borrow().find(&key), Some(*block));
            }
        }
        let sequence = kv.begin(&hit);
        prop_assert_eq!(kv.check([&sequence].into_iter()), Ok(()));
        drop(sequence);
        prop_assert_eq!((kv.available(0), kv.available(1)), (64, 40));
    }

    /// What the tally promises can be had, to the block.
    #[test]
    fn room_is_exactly_what_growing_can_take(
        window in 1usize..20,
        cached in 1usize..60,
        blocks in 8usize..24,
    ) {
        let kv = cache(&[(None, blocks), (Some(window), blocks)]);
        let cached = cached.min(blocks * BLOCK);
        let mut sequence = compute(&kv, cached, 1);
        let mut tally = Tally::new(&kv);
        let room = tally.room(&sequence, cached, 1 << 20);
        tally.reserve(&sequence, cached, room);
        kv.leave_window(&mut sequence, cached);
        kv.grow(&mut sequence, cached + room);
        prop_assert_eq!(tally.available(0), kv.available(0));
        prop_assert_eq!(tally.available(1), kv.available(1));
        prop_assert!(kv.available(0).min(kv.available(1)) == 0, "one token more would not fit");
    }
}
