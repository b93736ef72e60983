use models::Checkpoint;
use proptest::prelude::*;
use testkit::golden::fixture_directory;

use super::*;

fn planned(
    fixture: &str,
    options: &LoadOptions,
    device: DeviceMemory,
) -> Result<DevicePlan, LoadError> {
    let manifest = ModelManifest::new(fixture, fixture_directory(fixture));
    let contract = Checkpoint::open(&manifest).unwrap().contract.unwrap();
    plan(&manifest, &contract, options, device)
}

fn empty(total: Bytes) -> DeviceMemory {
    DeviceMemory { total, free: total }
}

#[test]
fn the_cache_takes_what_is_left_and_fp8_holds_twice_the_tokens() {
    // Ninety per cent of it, but for weights and workspace.
    let device = empty(Bytes::mib(600));
    let bf16 = planned("qwen3", &LoadOptions::default(), device).unwrap();
    let fp8 = LoadOptions { kv_dtype: Some(DType::F8E4M3), ..LoadOptions::default() };
    let fp8 = planned("qwen3", &fp8, device).unwrap();
    // Three layers, keys and values, two heads of 64.
    assert_eq!(bf16.memory.kv_per_token, Bytes(3 * 2 * 2 * 64 * 2));
    assert_eq!(fp8.memory.kv_per_token, Bytes(3 * 2 * 2 * 64));
    let left = bf16.memory.available.0 - bf16.memory.weights.0 - bf16.memory.workspace.0;
    let block = bf16.memory.kv_per_token.0 * 16;
    assert_eq!(bf16.memory.kv_blocks, [(left / block) as usize]);
    assert_eq!(fp8.memory.kv_blocks, [(left / (block / 2)) as usize]);
    assert_eq!((bf16.kv_format, fp8.kv_format), (KvFormat::Bf16, KvFormat::Fp8));
}

#[test]
fn what_others_hold_counts_against_the_share() {
    let device = DeviceMemory { total: Bytes::gib(80), free: Bytes::gib(60) };
    // 72 of 80 allowed, 20 gone.
    let available = device.available(0.9);
    assert!(
        available <= Bytes::gib(52) && available > Bytes(Bytes::gib(52).0 - 4096),
        "{available:?}"
    );
    assert_eq!(device.available(0.2), Bytes(0));
    // All of it was asked for: the driver still needs its part.
    assert_eq!(device.available(1.0), Bytes(Bytes::gib(60).0 - RESERVE.0));
}

#[test]
fn what_does_not_fit_is_refused_with_the_devices_numbers() {
    let device = DeviceMemory { total: Bytes::gib(80), free: Bytes::gib(8) };
    let text = planned("qwen3", &LoadOptions::default(), device).unwrap_err().to_string();
    for part in ["weights and workspace", "0 B available", "80.0 GiB", "8.0 GiB of it free", "0.9"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    let options = LoadOptions { kv_memory: Some(Bytes::gib(9)), ..LoadOptions::default() };
    let text = planned("qwen3", &options, empty(Bytes::mib(700))).unwrap_err().to_string();
    assert!(text.contains("KV blocks") && text.contains("700.0 MiB of it free"), "{text}");
}

#[test]
fn a_cache_has_no_more_blocks_than_a_step_can_number() {
    let manifest = ModelManifest::new("qwen3", fixture_directory("qwen3"));
    let mut contract = Checkpoint::open(&manifest).unwrap().contract.unwrap();
    contract.semantic.max_positions = 1 << 24;
    let options = LoadOptions { max_step_sequences: 256, ..LoadOptions::default() };
    let plan = plan(&manifest, &contract, &options, empty(Bytes(1 << 50))).unwrap();
    assert_eq!(plan.memory.kv_blocks, [MOST_BLOCKS]);
    let tokens = (MOST_BLOCKS * BLOCK_SIZE) as u64;
    assert_eq!(plan.memory.kv, Bytes(tokens * plan.memory.kv_per_token.0));
}

#[test]
fn another_type_of_cache_is_refused_by_name() {
    let options = LoadOptions { kv_dtype: Some(DType::F32), ..LoadOptions::default() };
    let text = planned("qwen3", &options, empty(Bytes::gib(1))).unwrap_err().to_string();
    assert!(text.contains("kv_dtype is f32") && text.contains("bf16 or f8_e4m3"), "{text}");
}

#[test]
fn weights_are_planned_as_they_will_lie() {
    let plan = planned("gemma3", &LoadOptions::default(), empty(Bytes::gib(1))).unwrap();
    assert_eq!(plan.memory.weights, Bytes(plan.layout.bytes));
    assert_eq!(plan.memory.workspace, plan.workspace.bytes());
    assert_eq!(plan.memory.mapped, Bytes(0));
}

proptest! {
    #[test]
    fn a_plan_never_takes_more_than_is_free_or_allowed(
        total in 1u64 << 28..1 << 36,
        free in 0.0f64..1.0,
        fraction in 0.05f32..1.0,
        tokens in 1usize..4096,
        sequences in 1usize..256,
    ) {
        let device = DeviceMemory { total: Bytes(total), free: Bytes((total as f64 * free) as u64) };
        let options = LoadOptions {
            memory_fraction: Some(fraction),
            max_step_tokens: tokens,
            max_step_sequences: sequences,
            ..LoadOptions::default()
        };
        let Ok(plan) = planned("llama-tied", &options, device) else { return Ok(()) };
        let taken = plan.memory.weights.0 + plan.memory.workspace.0 + plan.memory.kv.0;
        prop_assert!(taken + RESERVE.0 <= device.free.0);
        let others = device.total.0 - device.free.0;
        prop_assert!((others + taken) as f64 <= total as f64 * f64::from(fraction) + 1.0);
    }
}
