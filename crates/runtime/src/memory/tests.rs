use proptest::prelude::*;

use super::*;

/// Twelve full layers and four of a window, 512 bytes a token and layer.
fn needs() -> MemoryNeeds {
    MemoryNeeds {
        weights: Bytes::mib(10),
        mapped: Bytes(0),
        workspace: Bytes::mib(2),
        kv_groups: vec![
            KvGroupNeeds { window: None, bytes_per_token: 12 * 512 },
            KvGroupNeeds { window: Some(100), bytes_per_token: 4 * 512 },
        ],
        block_size: 16,
        max_positions: 4096,
        context_len: None,
    }
}

fn all_of(available: Bytes) -> MemoryBudget {
    MemoryBudget { available, kv: available }
}

fn options() -> LoadOptions {
    LoadOptions { max_step_sequences: 4, max_step_tokens: 64, ..LoadOptions::default() }
}

#[test]
fn weights_and_workspace_that_leave_nothing_are_refused_with_both_numbers() {
    let text = needs().plan(&options(), all_of(Bytes::mib(12))).unwrap_err().to_string();
    assert!(text.contains("12.0 MiB needed, 12.0 MiB available"), "{text}");
}

#[test]
fn the_manifest_asks_where_the_options_do_not() {
    let needs = MemoryNeeds { context_len: Some(500), ..needs() };
    let plan = |options: &LoadOptions| needs.plan(options, all_of(Bytes::gib(1)));
    assert_eq!(plan(&options()).unwrap().max_sequence_tokens, 500);
    let asked = LoadOptions { max_sequence_tokens: Some(900), ..options() };
    assert_eq!(plan(&asked).unwrap().max_sequence_tokens, 900);
}

#[test]
fn a_share_that_is_none_is_refused() {
    for part in [0.0, -0.5, 1.01, f32::NAN, f32::INFINITY] {
        let options = LoadOptions { memory_fraction: Some(part), ..options() };
        let refused = needs().plan(&options, all_of(Bytes::gib(1)));
        let Err(LoadError::Option(text)) = refused else { panic!("{part}: {refused:?}") };
        assert!(text.contains("memory_fraction is"), "{text}");
    }
}

proptest! {
    /// What is planned fits, its longest sequence can be held alone, and another block would not have fitted.
    #[test]
    fn a_plan_fits_and_wastes_nothing(
        available in 13u64 << 20..1 << 28,
        kv in 0u64..1 << 28,
        sequences in 1usize..64,
        tokens in 1usize..300,
        asked in prop::option::of(1usize..4096),
        host in 0u64..1 << 30,
    ) {
        let needs = needs();
        let options = LoadOptions {
            max_sequence_tokens: asked,
            max_step_sequences: sequences,
            max_step_tokens: tokens,
            kv_offload_memory: Some(Bytes(host)),
            ..LoadOptions::default()
        };
        let budget = MemoryBudget { available: Bytes(available), kv: Bytes(kv) };
        let Ok(plan) = needs.plan(&options, budget) else { return Ok(()) };
        let allowed = kv.min(available - (12 << 20));
        prop_assert!(plan.kv.0 <= allowed);
        let block = |group: usize| needs.kv_groups[group].bytes_per_token * 16;
        let bytes: u64 = (0..2).map(|group| plan.kv_blocks[group] as u64 * block(group)).sum();
        prop_assert_eq!(bytes, plan.kv.0);
        let on_host: u64 = (0..2).map(|group| plan.host_blocks[group] as u64 * block(group)).sum();
        prop_assert_eq!(on_host, plan.host_kv.0);
        prop_assert!(on_host <= host && on_host + block(0) + block(1) > host.min(bytes * host));
        // As on the device, so on the host, but for a block.
        for group in 0..2 {
            let share = plan.kv_blocks[group] as f64 * host as f64 / bytes.max(1) as f64;
            prop_assert!((plan.host_blocks[group] as f64 - share).abs() <= 1.0);
        }
        let one = plan.max_sequence_tokens.div_ceil(16);
        let held = (100 + tokens + 32).min(plan.max_sequence_tokens).div_ceil(16);
        prop_assert!(plan.kv_blocks[0] >= one && plan.kv_blocks[1] >= held.min(one));
        prop_assert!(plan.kv_blocks[0] <= one * sequences);
        let is_full = plan.kv_blocks[0] == one * sequences;
        prop_assert!(is_full || plan.kv.0 + block(0) + block(1) > allowed);
        prop_assert!(asked.is_none_or(|asked| plan.max_sequence_tokens == asked));
    }
}
