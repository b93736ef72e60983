use foundation::{DType, TokenId};
use proptest::prelude::*;

use super::*;
use crate::kv::{ChainRoot, KeyChain};

/// The name of a one-token block.
fn key(id: u32) -> BlockKey {
    let root = ChainRoot { kv_dtype: DType::F32, regime: 0, adapter: None, cache_salt: None };
    let mut chain = KeyChain::new(root, 1);
    chain.extend(&[TokenId(id)]);
    chain.keys()[0]
}

#[derive(Clone, Debug)]
enum Action {
    Take,
    /// Drop the n-th lease (modulo their number).
    Drop(usize),
    /// Publish the n-th lease's block under a name.
    Publish(usize, u32),
    /// Look a name up and share what is found.
    Share(u32),
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        3 => Just(Action::Take),
        3 => (0usize..64).prop_map(Action::Drop),
        2 => (0usize..64, 0u32..12).prop_map(|(lease, name)| Action::Publish(lease, name)),
        2 => (0u32..12).prop_map(Action::Share),
    ]
}

/// The naive model: a list of holders, and names in order of giving back.
#[derive(Default)]
struct Model {
    holders: HashMap<BlockId, u32>,
    names: HashMap<BlockId, u32>,
    /// Named blocks without holder, the longest given back first.
    cached: Vec<BlockId>,
}

impl Model {
    fn take(&mut self, block: BlockId, total: usize) {
        assert_eq!(self.holders.get(&block), None, "a held block was given out");
        if let Some(place) = self.cached.iter().position(|cached| *cached == block) {
            assert_eq!(place, 0, "not the least recently used block was evicted");
            assert_eq!(self.holders.len() + self.cached.len(), total, "a free block was left");
            self.cached.remove(0);
            self.names.remove(&block);
        }
        self.holders.insert(block, 1);
    }

    fn drop(&mut self, block: BlockId) {
        let holders = self.holders.get_mut(&block).expect("dropped leases were held");
        *holders -= 1;
        if *holders == 0 {
            self.holders.remove(&block);
            if self.names.contains_key(&block) {
                self.cached.push(block);
            }
        }
    }

    fn publish(&mut self, block: BlockId, name: u32) {
        if !self.names.contains_key(&block) && !self.names.values().any(|other| *other == name) {
            self.names.insert(block, name);
        }
    }

    fn find(&self, name: u32) -> Option<BlockId> {
        self.names.iter().find(|(_, other)| **other == name).map(|(block, _)| *block)
    }

    fn share(&mut self, block: BlockId) {
        self.cached.retain(|cached| *cached != block);
        *self.holders.entry(block).or_default() += 1;
    }
}

proptest! {
    #[test]
    fn behaves_as_the_naive_model(
        total in 1usize..9,
        actions in prop::collection::vec(action(), 0..200),
    ) {
        let pool = Rc::new(RefCell::new(BlockPool::new(total)));
        let mut model = Model::default();
        let mut leases: Vec<BlockLease> = Vec::new();
        for action in actions {
            match action {
                Action::Take => match BlockLease::take(&pool) {
                    Some(lease) => {
                        model.take(lease.block(), total);
                        leases.push(lease);
                    }
                    None => prop_assert_eq!(model.holders.len(), total),
                },
                Action::Drop(nth) if !leases.is_empty() => {
                    let lease = leases.swap_remove(nth % leases.len());
                    model.drop(lease.block());
                }
                Action::Publish(nth, name) if !leases.is_empty() => {
                    let block = leases[nth % leases.len()].block();
                    pool.borrow_mut().publish(block, key(name));
                    model.publish(block, name);
                }
                Action::Share(name) => {
                    let found = pool.borrow().find(&key(name));
                    prop_assert_eq!(found, model.find(name));
                    if let Some(block) = found {
                        leases.push(BlockLease::share(&pool, block));
                        model.share(block);
                    }
                }
                Action::Drop(_) | Action::Publish(..) => {}
            }
            let pool = pool.borrow();
            prop_assert_eq!(pool.check(), Ok(()));
            prop_assert_eq!(pool.available(), total - model.holders.len());
            for (block, holders) in &model.holders {
                prop_assert_eq!(pool.holders(*block), *holders);
            }
        }
        drop(leases);
        prop_assert_eq!(pool.borrow().available(), total, "every block comes back");
    }
}
