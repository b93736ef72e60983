//! Sampling policy: what a request asks for, what a row carries, and the reference sampler.

pub mod params;

pub use params::{RowSampling, SamplingLogits, SamplingParams};
