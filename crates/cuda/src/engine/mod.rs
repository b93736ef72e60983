//! The engine: from step batches to launches.

pub mod buckets;
pub mod build;
pub mod copies;
pub mod executor;
pub mod layout;
pub mod outputs;
pub mod pack;
pub mod products;
pub mod runner;
pub mod work;
