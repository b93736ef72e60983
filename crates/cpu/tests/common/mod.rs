//! Loads fixtures onto the backend; everything else is the harness that all backends share.

#![allow(dead_code)] // Each test file uses its part.

use cpu::backend::load_runner;
use foundation::model::ModelManifest;
use runtime::backend::LoadOptions;
use testkit::golden::fixture_directory;
#[allow(unused_imports)] // Each test file uses its part.
pub use testkit::harness::{
    Harness, Sequence, Work, greedy, into_logits, into_token, sampling, small_options,
};

/// A fixture under [`small_options`].
pub fn load(fixture: &str) -> Harness {
    load_with(fixture, &small_options())
}

/// A fixture.
pub fn load_with(fixture: &str, options: &LoadOptions) -> Harness {
    let manifest = ModelManifest::new(fixture, fixture_directory(fixture));
    let runner = load_runner(&manifest, options, &mut |_| true)
        .unwrap_or_else(|error| panic!("{fixture}: {error}"));
    Harness::new(Box::new(runner))
}
