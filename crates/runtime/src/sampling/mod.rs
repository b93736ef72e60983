//! Sampling policy: what a request asks for, what a row carries, and the reference sampler.
//!
//! [`sample`] is the meaning of every sampled row. A backend may compute it another way, on its device, but not
//! another answer.

pub mod constraint;
pub mod counts;
pub mod draw;
pub mod logprobs;
pub mod params;
pub mod philox;
pub mod reference;
pub mod top;

pub use constraint::{Constraint, Follower, SharedConstraint, TokenMask};
pub use counts::TokenCounts;
pub use logprobs::score;
pub use params::{RowSampling, SamplingLogits, SamplingParams};
pub use reference::{SampleError, Sampled, sample};
