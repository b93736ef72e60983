//! What must be equal to the bit: batched and alone, chunked and whole, copied and original, few threads and many.

mod common;

use common::{Harness, Sequence, Work, into_logits, small_options};
use foundation::{BlockId, TokenId};
use runtime::{
    backend::LoadOptions,
    batch::{BlockCopy, OutputKind},
};
use testkit::golden::{Golden, logits_distance};

/// Fixtures that differ in what matters here: windows, soft caps, head widths, norms over whole projections.
const FIXTURES: [&str; 5] = ["gemma2", "gemma3", "mistral", "olmo2", "qwen3"];

fn prompt(fixture: &str) -> Vec<TokenId> {
    let golden = Golden::read(fixture);
    golden.prompts.iter().max_by_key(|p| p.input_ids.len()).expect("a prompt").input_ids.clone()
}

/// The prompt in chunks of the given lengths, the rest token by token.
fn in_chunks(
    harness: &mut Harness,
    sequence: &mut Sequence,
    tokens: &[TokenId],
    chunks: &[usize],
) -> Vec<Vec<f32>> {
    let mut logits = Vec::new();
    let mut rest = tokens;
    let mut chunks = chunks.iter();
    while !rest.is_empty() {
        let (chunk, after) = rest.split_at(chunks.next().copied().unwrap_or(1).min(rest.len()));
        logits.extend(harness.logits(sequence, chunk));
        harness.trim(sequence);
        rest = after;
    }
    logits
}

#[test]
fn chunked_is_whole() {
    for fixture in FIXTURES {
        let tokens = prompt(fixture);
        let mut harness = common::load(fixture);
        let mut sequence = harness.sequence(0, tokens.len());
        let whole = harness.logits(&mut sequence, &tokens);
        harness.release(sequence);
        for chunks in [vec![], vec![16, 16, 16, 16, 16], vec![5, 40, 3, 17, 8], vec![33, 31, 4]] {
            let mut sequence = harness.sequence(0, tokens.len());
            let parts = in_chunks(&mut harness, &mut sequence, &tokens, &chunks);
            assert_eq!(parts, whole, "{fixture} in chunks of {chunks:?}");
            harness.release(sequence);
        }
    }
}

#[test]
fn batched_is_alone() {
    for fixture in FIXTURES {
        let tokens = prompt(fixture);
        let mut harness = common::load(fixture);
        let mut sequence = harness.sequence(0, tokens.len());
        let alone = harness.logits(&mut sequence, &tokens);
        harness.release(sequence);
        // Seven sequences at different places: in each step some prefill chunks and some decode rows.
        let chunk_lengths = [1, 1, 2, 3, 7, 20, 31];
        let mut sequences: Vec<Sequence> =
            (0..7).map(|slot| harness.sequence(slot, tokens.len())).collect();
        for _ in 0..4 {
            let work = sequences.iter_mut().zip(chunk_lengths);
            let mut wanted = Vec::new();
            let work = work
                .filter(|(sequence, _)| sequence.cached < tokens.len())
                .map(|(sequence, length)| {
                    let range = sequence.cached..tokens.len().min(sequence.cached + length);
                    wanted.extend(range.clone());
                    let outputs = (0..range.len()).map(|at| (at, OutputKind::Logits)).collect();
                    Work { sequence, tokens: &tokens[range], outputs }
                })
                .collect();
            let rows = harness.step(work);
            for (row, position) in rows.into_iter().zip(wanted) {
                assert_eq!(into_logits(row), alone[position], "{fixture} at {position}");
            }
        }
    }
}

#[test]
fn threads_do_not_show() {
    let tokens = prompt("gemma3");
    let with = |threads| {
        let options = LoadOptions { threads: Some(threads), ..small_options() };
        let mut harness = common::load_with("gemma3", &options);
        let mut sequence = harness.sequence(0, tokens.len());
        in_chunks(&mut harness, &mut sequence, &tokens, &[50])
    };
    assert_eq!(with(1), with(5));
}

#[test]
fn a_copied_block_serves_as_its_original() {
    for fixture in FIXTURES {
        let tokens = prompt(fixture);
        let (before, after) = tokens.split_at(40);
        let mut harness = common::load(fixture);
        let mut original = harness.sequence(0, tokens.len());
        harness.logits(&mut original, before);
        // The copy shares the full blocks and owns a copy of the one that is being filled.
        let mut copy = Sequence { slot: 1, ..original.clone() };
        let mut copies = Vec::new();
        for (group, table) in copy.tables.iter_mut().enumerate() {
            let last = table.blocks.last_mut().unwrap();
            let to = harness.free[group].pop().unwrap();
            copies.push(BlockCopy { group: group as u32, from: *last, to });
            *last = to;
        }
        let outputs: Vec<(usize, OutputKind)> =
            (0..after.len()).map(|at| (at, OutputKind::Logits)).collect();
        let mut work = [Work { sequence: &mut copy, tokens: after, outputs }];
        let mut batch = harness.batch(&mut work);
        batch.block_copies = copies;
        let copied: Vec<_> = harness.run(batch).into_iter().map(into_logits).collect();
        assert_eq!(copied, harness.logits(&mut original, after), "{fixture}");
    }
}

#[test]
fn what_a_stale_block_holds_does_not_matter() {
    let tokens = prompt("mistral");
    let mut harness = common::load("mistral");
    let mut sequence = harness.sequence(0, tokens.len());
    let fresh = harness.logits(&mut sequence, &tokens);
    // Fill every block with another text's keys, then run on used blocks.
    harness.release(sequence);
    let other: Vec<TokenId> = tokens.iter().rev().copied().collect();
    for _ in 0..12 {
        let mut sequence = harness.sequence(0, other.len());
        harness.logits(&mut sequence, &other);
        // Blocks go back to the far end, so that all of them come round.
        for (free, table) in harness.free.iter_mut().zip(sequence.tables) {
            let used: Vec<BlockId> = table.blocks;
            free.splice(0..0, used);
        }
    }
    let mut sequence = harness.sequence(0, tokens.len());
    assert_eq!(harness.logits(&mut sequence, &tokens), fresh);
}

#[test]
fn the_regime_changes_with_the_length_of_the_sequence() {
    let golden = Golden::read("phi3-longrope-long");
    let prompt = &golden.prompts[0];
    let mut harness = common::load("phi3-longrope-long");
    let threshold = harness.spec().regime_thresholds[0];
    assert_eq!(threshold, 16);
    let tokens = &prompt.input_ids[..threshold + 1];
    let wanted = &prompt.logits[..tokens.len() * prompt.vocab_size];
    // One token beyond the threshold: all positions, the early ones too, are in the long regime.
    let mut long = harness.sequence(0, tokens.len());
    let long = harness.logits(&mut long, tokens).concat();
    assert!(logits_distance(&long, wanted).relative < 2e-3);
    let mut short = harness.sequence(1, threshold);
    let short = harness.logits(&mut short, &tokens[..threshold]).concat();
    assert!(logits_distance(&short, &wanted[..short.len()]).relative > 1e-1);
}
