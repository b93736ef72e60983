//! How any backend is driven.
//!
//! Knows: sessions, KV blocks, the prefix index, step scheduling, sampling policy, speculation, progress, metrics, the backend traits.
//! Does not know: which backend, which model family, tokenizers, HTTP.

pub mod backend;
pub mod batch;
pub mod engine;
pub mod kv;
pub mod memory;
pub mod progress;
pub mod sampling;
pub mod scheduler;
pub mod speculation;
pub mod stop;
