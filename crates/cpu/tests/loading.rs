//! Loading: made-up weights in every format, progress and cancelling, and what is refused before a byte is read.

mod common;

use common::small_options;
use cpu::{CpuBackend, backend::load_runner};
use foundation::{
    DType,
    model::{ModelManifest, WeightOrigin},
};
use runtime::{
    backend::{Backend, LoadError},
    progress::ProgressEvent,
};
use testkit::golden::fixture_directory;

fn made_up(dtype: DType) -> ModelManifest {
    let mut manifest = ModelManifest::new("made-up", fixture_directory("gemma3"));
    manifest.weights = WeightOrigin::Synthetic { seed: 3, dtype };
    manifest
}

#[test]
fn made_up_weights_load_in_every_format() {
    for dtype in [DType::BF16, DType::F16, DType::F32] {
        assert!(load_runner(&made_up(dtype), &small_options(), &mut |_| true).is_ok(), "{dtype}");
    }
}

#[test]
fn progress_rises_to_the_total_and_ends_ready() {
    let mut events = Vec::new();
    let manifest = ModelManifest::new("llama", fixture_directory("llama"));
    let mut note = |event| {
        events.push(event);
        true
    };
    CpuBackend::new().load(&manifest, &small_options(), &mut note).map(drop).unwrap();
    let loaded: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            ProgressEvent::LoadWeights { current, total, .. } => Some((*current, *total)),
            _ => None,
        })
        .collect();
    assert!(loaded.is_sorted() && loaded.iter().all(|(_, total)| *total == loaded[0].1));
    assert_eq!(loaded.last().unwrap().0, loaded[0].1);
    assert!(matches!(events.last(), Some(ProgressEvent::Ready)));
}

#[test]
fn a_cancelled_load_ends_at_once() {
    let mut asked = 0;
    let mut cancel = |_| {
        asked += 1;
        asked < 3
    };
    let ended = load_runner(&made_up(DType::BF16), &small_options(), &mut cancel).map(drop);
    assert!(matches!(ended, Err(LoadError::Cancelled)), "{ended:?}");
    assert_eq!(asked, 3);
}

#[test]
fn admission_says_what_loading_takes() {
    let manifest = ModelManifest::new("qwen2", fixture_directory("qwen2"));
    let plan = CpuBackend::new().admit(&manifest, &small_options()).unwrap();
    assert_eq!((plan.block_size, plan.max_sequence_tokens), (16, 256));
    assert_eq!(plan.kv_blocks, [8 * 16]);
    let nowhere = ModelManifest::new("nowhere", fixture_directory("no-such-fixture"));
    assert!(matches!(
        CpuBackend::new().admit(&nowhere, &small_options()),
        Err(LoadError::Checkpoint(_))
    ));
}
