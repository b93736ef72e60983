//! Models on the device: weights, caches, and the walk through the layers.

pub mod kv;
pub mod rope;
