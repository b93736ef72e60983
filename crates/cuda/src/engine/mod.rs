//! The engine: from step batches to launches.

pub mod buckets;
pub mod layout;
pub mod pack;
