//! Numbers that differ each time.

use std::hash::{BuildHasher, RandomState};

/// A random number: the standard library keys each of its hash maps differently, at random.
pub(crate) fn random() -> u64 {
    RandomState::new().hash_one(())
}
