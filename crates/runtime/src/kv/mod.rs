//! The KV cache as the host sees it: who holds which block, and which blocks can be found again by their tokens.
//!
//! Every KV group has a [`BlockPool`] of its own. A block is *held* (leased by one sequence or more), *cached*
//! (nobody holds it, but the prefix index knows its tokens), or *free*. [`BlockLease`]s give blocks back by Drop.
//!
//! Where the runner has host memory for blocks, every group has a [`HostPool`] as well: cached blocks that are soon to be evicted
//! are copied there, and copied back when a sequence begins with them ([`tiers`]).

pub mod cache;
pub mod host;
pub mod key;
pub mod pool;
pub mod table;
pub mod tally;
pub mod tiers;

pub use cache::{KvCache, PrefixHit};
pub use host::HostPool;
pub use key::{BlockKey, ChainRoot, KeyChain};
pub use pool::{BlockLease, BlockPool};
pub use table::SequenceKv;
pub use tally::Tally;
pub use tiers::{Place, Restore};
