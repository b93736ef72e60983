//! The reference backend: plain, threaded Rust that says what every operation means.
//!
//! Knows: how a step is computed on the host. Does not know: families, prompts, HTTP, CUDA.
//!
//! A reader's way through: [`backend`] admits and loads a checkpoint ([`admission`], [`plan`], [`load`], [`model`]); the
//! [`runner`] takes steps, checks them ([`validate`]), and hands them to the [`executor`], which walks the layers and
//! calls the operations of [`ops`]; [`outputs`] makes of the last hidden states what was asked for. [`simd`] holds the
//! vector routines beneath the operations, and the order of summation that makes results independent of batching.

pub mod admission;
pub mod backend;
pub mod executor;
pub mod format;
pub mod kv;
pub mod load;
pub mod matrix;
pub mod model;
pub mod ops;
pub mod outputs;
pub mod plan;
pub mod runner;
pub mod simd;
pub mod threads;
pub mod validate;
pub mod weights;

pub use backend::CpuBackend;
pub use runner::CpuRunner;
