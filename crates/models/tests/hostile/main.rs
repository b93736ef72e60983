//! Files of a checkpoint that lie: single lies that were thought of, all values in all places, and random ones.
//!
//! The random targets are `bolero` tests: `cargo test` runs each for a bounded number of inputs.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod config;
mod files;
mod index;
mod mutate;
mod template;
mod tokenizer;

use std::path::{Path, PathBuf};

/// The directory of a fixture.
fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(name)
}

/// One fixture of each configuration there is.
const FIXTURES: &[&str] = &[
    "gemma2",
    "gemma3",
    "glm4-moe",
    "granite",
    "llama",
    "mistral",
    "mixtral",
    "olmo2",
    "phi3-longrope",
    "qwen2",
    "qwen3",
    "qwen3-moe",
];
