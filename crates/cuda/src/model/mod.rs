//! Models on the device: weights, caches, and the walk through the layers.

pub mod buffers;
pub mod decoder;
pub mod few;
pub mod forward;
pub mod kv;
pub mod rope;
pub mod small;
