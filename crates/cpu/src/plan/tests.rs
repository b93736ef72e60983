use foundation::model::WeightOrigin;
use models::Checkpoint;
use testkit::golden::fixture_directory;

use super::*;

fn contract(fixture: &str) -> DecoderExecutionContract {
    let manifest = ModelManifest::new(fixture, fixture_directory(fixture));
    Checkpoint::open(&manifest).unwrap().contract.unwrap()
}

fn planned(
    fixture: &str,
    options: &LoadOptions,
    available: Bytes,
) -> Result<MemoryPlan, LoadError> {
    let manifest = ModelManifest::new(fixture, fixture_directory(fixture));
    plan(&manifest, &contract(fixture), options, available)
}

fn options(length: Option<usize>, kv_memory: Option<Bytes>) -> LoadOptions {
    LoadOptions {
        max_sequence_tokens: length,
        max_step_sequences: 4,
        max_step_tokens: 64,
        kv_memory,
        ..LoadOptions::default()
    }
}

#[test]
fn with_memory_to_spare_every_sequence_has_its_blocks() {
    let plan = planned("gemma3", &options(Some(1000), None), Bytes::gib(8)).unwrap();
    // 1000 tokens are 63 blocks; a window of 16, a chunk of 64 and two ragged ends are 7.
    assert_eq!(plan.kv_blocks, [4 * 63, 4 * 7]);
    // Six layers with one key head of 64: keys and values in float32.
    assert_eq!(plan.kv_per_token, Bytes(6 * 2 * 64 * 4));
    assert_eq!(plan.kv, Bytes((2 * 4 * 63 + 4 * 4 * 7) * 16 * 2 * 64 * 4));
    assert_eq!(plan.max_sequence_tokens, 1000);
    assert_eq!(plan.weights, contract("gemma3").weight_bytes());
    assert!(plan.mapped.0 < plan.weights.0 && plan.mapped.0 > plan.weights.0 * 9 / 10);
}

#[test]
fn blocks_have_no_other_memory_to_go_to() {
    let asked =
        |memory| LoadOptions { kv_offload_memory: Some(memory), ..options(Some(100), None) };
    assert!(planned("qwen3", &asked(Bytes(0)), Bytes::gib(8)).is_ok());
    let refused = planned("qwen3", &asked(Bytes::gib(1)), Bytes::gib(8)).unwrap_err().to_string();
    assert!(refused.starts_with("kv_offload_memory is 1.0 GiB, but on the cpu"), "{refused}");
}

#[test]
fn the_checkpoints_length_is_cut_to_what_fits_but_an_asked_one_is_not() {
    // One layer and token of qwen3: 2 * 64 * 2 * 4 bytes; three layers; a block of 16 tokens.
    let block = 3 * 2 * 64 * 2 * 4 * 16;
    let budget = Some(Bytes(block * 10 + 5));
    let plan = planned("qwen3", &options(None, budget), Bytes::gib(8)).unwrap();
    assert_eq!((plan.max_sequence_tokens, plan.kv_blocks), (160, vec![10]));
    let plan = planned("qwen3", &options(Some(100), budget), Bytes::gib(8)).unwrap();
    assert_eq!((plan.max_sequence_tokens, plan.kv_blocks), (100, vec![10]));
    match planned("qwen3", &options(Some(161), budget), Bytes::gib(8)) {
        Err(LoadError::OutOfMemory { needed, available, .. }) => {
            assert_eq!((needed, available), (Bytes(block * 11), Bytes(block * 10 + 5)));
        }
        other => panic!("{other:?}"),
    }
    let none = planned("qwen3", &options(None, Some(Bytes(block - 1))), Bytes::gib(8));
    assert!(matches!(none, Err(LoadError::OutOfMemory { .. })), "{none:?}");
}

#[test]
fn what_does_not_fit_is_refused_with_numbers() {
    let small = planned("qwen3", &options(None, None), Bytes::mib(1));
    let text = small.unwrap_err().to_string();
    assert!(text.contains("weights and workspace") && text.contains("1.0 MiB available"), "{text}");
    let greedy = planned("qwen3", &options(None, Some(Bytes::mib(100))), Bytes::mib(20));
    let text = greedy.unwrap_err().to_string();
    assert!(text.contains("KV blocks") && text.contains("20.0 MiB available"), "{text}");
}

#[test]
fn senseless_options_are_refused() {
    let refused = |options: LoadOptions| match planned("qwen3", &options, Bytes::gib(8)) {
        Err(LoadError::Option(text)) => text,
        other => panic!("{other:?}"),
    };
    let text =
        refused(LoadOptions { max_step_tokens: 0, threads: Some(0), ..LoadOptions::default() });
    assert!(text.contains("max_step_tokens, threads is 0"), "{text}");
    let text = refused(options(Some(5000), None));
    assert!(text.contains("5000") && text.contains("4096"), "{text}");
}

#[test]
fn made_up_weights_are_not_mapped() {
    let mut manifest = ModelManifest::new("qwen3", fixture_directory("qwen3"));
    manifest.weights = WeightOrigin::Synthetic { seed: 1, dtype: DType::F16 };
    let contract = Checkpoint::open(&manifest).unwrap().contract.unwrap();
    let plan = plan(&manifest, &contract, &options(None, None), Bytes::gib(8)).unwrap();
    assert_eq!(plan.mapped, Bytes(0));
}

#[test]
fn a_part_of_the_memory_is_what_there_is_and_the_cache_is_f32() {
    let half = LoadOptions { memory_fraction: Some(0.5), ..options(None, None) };
    let plan = planned("qwen3", &half, Bytes::gib(8)).unwrap();
    assert_eq!(plan.available, Bytes::gib(4));
    let fp8 = LoadOptions { kv_dtype: Some(DType::F8E4M3), ..options(None, None) };
    let text = planned("qwen3", &fp8, Bytes::gib(8)).unwrap_err().to_string();
    assert!(text.contains("kv_dtype is f8_e4m3") && text.contains("f32"), "{text}");
}
