//! The operations: each a kernel and its launcher side by side.
//!
//! A launcher's way is always the same: a `Problem` says what is asked, a `Plan` (pure, tested without a GPU) decides grid, tiles
//! and scratch, `launch` checks the lengths of what it is given and queues the kernel.

pub mod activation;
mod all;
pub mod attention_decode;
pub mod attention_prefill;
pub mod convert;
pub mod embed;
pub mod experts;
pub mod finish_logits;
pub mod gather;
pub mod gemm;
pub mod heads;
mod lengths;
#[cfg(test)]
mod parity;
pub mod placed;
pub mod qkv_prepare;
pub mod residual_norm;
pub mod rms_norm;
pub mod routing;
pub mod rows;
pub mod sample;
pub mod skinny;
pub mod synthesize;

pub use all::Ops;

/// What an operation moves and computes, for floors.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Traffic {
    /// Bytes read and written at the least.
    pub bytes: u64,
    /// Floating-point operations, a multiply-add counted as two.
    pub flops: u64,
}

/// A problem that an operation's kernels cannot do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{operation}: {requirement}, seen: {seen}")]
pub struct Unsupported {
    /// Which operation.
    pub operation: &'static str,
    /// What was seen.
    pub seen: String,
    /// What is needed.
    pub requirement: String,
}
