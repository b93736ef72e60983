use foundation::{DType, TokenId};
use proptest::prelude::*;

use super::*;
use crate::kv::{ChainRoot, KeyChain};

fn key(id: u32) -> BlockKey {
    let root = ChainRoot { kv_dtype: DType::F32, regime: 0, adapter: None, cache_salt: None };
    let mut chain = KeyChain::new(root, 1);
    chain.extend(&[TokenId(id)]);
    chain.keys()[0]
}

#[derive(Clone, Debug)]
enum Action {
    Take,
    /// End the n-th filling (modulo their number) under a name, or in vain.
    End(usize, Option<u32>),
    Read(u32),
    /// End the n-th reading.
    Release(usize),
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        3 => Just(Action::Take),
        3 => (0usize..8, prop::option::weighted(0.8, 0u32..12)).prop_map(|(n, name)| Action::End(n, name)),
        2 => (0u32..12).prop_map(Action::Read),
        2 => (0usize..8).prop_map(Action::Release),
    ]
}

proptest! {
    /// The naive model: names in order of use, with their readers.
    #[test]
    fn what_was_used_longest_ago_is_given_up_and_what_is_read_is_not(
        total in 0usize..7,
        actions in prop::collection::vec(action(), 0..200),
    ) {
        let mut pool = HostPool::new(total);
        let mut filling: Vec<HostSlot> = Vec::new();
        let mut kept: Vec<(u32, HostSlot)> = Vec::new();
        let mut readings: Vec<HostSlot> = Vec::new();
        for action in actions {
            match action {
                Action::Take => {
                    let oldest = kept.iter().position(|(_, slot)| !readings.contains(slot));
                    let full = filling.len() + kept.len() == total;
                    match pool.take() {
                        Some((slot, given_up)) => {
                            let expected = oldest.filter(|_| full).map(|at| kept.remove(at));
                            prop_assert_eq!(given_up, expected.map(|(name, _)| key(name)));
                            prop_assert!(!filling.contains(&slot));
                            prop_assert!(kept.iter().all(|(_, other)| *other != slot));
                            filling.push(slot);
                        }
                        None => prop_assert!(full && oldest.is_none()),
                    }
                }
                Action::End(n, name) if !filling.is_empty() => {
                    let slot = filling.swap_remove(n % filling.len());
                    match name {
                        Some(name) => {
                            pool.keep(slot, key(name));
                            if kept.iter().all(|(other, _)| *other != name) {
                                kept.push((name, slot));
                            }
                        }
                        None => pool.give_up(slot),
                    }
                }
                Action::Read(name) => {
                    let place = kept.iter().find(|(other, _)| *other == name).map(|(_, slot)| *slot);
                    prop_assert_eq!(pool.find(&key(name)), place);
                    if let Some(slot) = place {
                        pool.read(slot);
                        readings.push(slot);
                    }
                }
                Action::Release(n) if !readings.is_empty() => {
                    let slot = readings.swap_remove(n % readings.len());
                    pool.release(slot);
                    let at = kept.iter().position(|(_, other)| *other == slot).unwrap();
                    let last = kept.remove(at);
                    kept.push(last);
                }
                Action::End(..) | Action::Release(_) => {}
            }
            prop_assert_eq!(pool.check(), Ok(()));
            prop_assert_eq!(pool.kept(), kept.len());
            for (name, slot) in &kept {
                prop_assert_eq!(pool.is_read(&key(*name)), readings.contains(slot));
            }
            prop_assert_eq!(pool.is_busy(), !filling.is_empty() || !readings.is_empty());
        }
    }
}
