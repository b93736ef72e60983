//! What must be equal to the bit on the GPU. By default: a graph and the launches in it, a run and its repetition, a copied block
//! and its original. Batch-invariant: batched and alone, chunked and whole.

mod common;

use common::{Harness, Mode, Sequence, Work, into_logits, load};
use foundation::TokenId;
use runtime::batch::{BlockCopy, OutputKind};
use testkit::golden::Golden;

/// Fixtures that differ in what matters here: windows, soft caps, head widths, norms over whole projections.
const FIXTURES: [&str; 5] = ["gemma2", "gemma3", "mistral", "olmo2", "qwen3"];
const INVARIANT: Mode = Mode { graphs: true, invariant: true };

fn prompt(fixture: &str) -> Vec<TokenId> {
    let golden = Golden::read(fixture);
    golden.prompts.iter().max_by_key(|p| p.input_ids.len()).expect("a prompt").input_ids.clone()
}

/// The prompt in chunks of the given lengths, the rest token by token.
fn in_chunks(harness: &mut Harness, tokens: &[TokenId], chunks: &[usize]) -> Vec<Vec<f32>> {
    let mut sequence = harness.sequence(0, tokens.len());
    let mut logits = Vec::new();
    let mut rest = tokens;
    let mut chunks = chunks.iter();
    while !rest.is_empty() {
        let (chunk, after) = rest.split_at(chunks.next().copied().unwrap_or(1).min(rest.len()));
        logits.extend(harness.logits(&mut sequence, chunk));
        harness.trim(&mut sequence);
        rest = after;
    }
    harness.release(sequence);
    logits
}

/// Where two lists of logits differ first.
fn first_difference(a: &[Vec<f32>], b: &[Vec<f32>]) -> Option<String> {
    let position = a.iter().zip(b).position(|(a, b)| a != b)?;
    let token = a[position].iter().zip(&b[position]).position(|(a, b)| a != b).unwrap_or(0);
    Some(format!(
        "position {position}, token {token}: {} and {}",
        a[position][token], b[position][token]
    ))
}

fn report(findings: &[String]) {
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}

#[test]
fn a_graph_is_the_launches_in_it_and_a_run_its_repetition() {
    let mut findings = Vec::new();
    for fixture in FIXTURES {
        let tokens = prompt(fixture);
        let mut runs = Vec::new();
        for graphs in [true, false, true] {
            let Some(mut harness) = load(fixture, Mode { graphs, invariant: false }) else {
                return;
            };
            runs.push(in_chunks(&mut harness, &tokens, &[50]));
        }
        for (other, what) in [(1, "eager"), (2, "a second run")] {
            if let Some(difference) = first_difference(&runs[0], &runs[other]) {
                findings.push(format!("{fixture}, graph and {what}: {difference}"));
            }
        }
    }
    report(&findings);
}

#[test]
fn chunked_is_whole_where_rows_are_invariant() {
    let mut findings = Vec::new();
    for fixture in FIXTURES {
        let tokens = prompt(fixture);
        let Some(mut harness) = load(fixture, INVARIANT) else { return };
        let whole = in_chunks(&mut harness, &tokens, &[tokens.len()]);
        for chunks in [vec![], vec![16, 16, 16, 16, 16], vec![5, 40, 3, 17, 8], vec![33, 31, 4]] {
            let parts = in_chunks(&mut harness, &tokens, &chunks);
            if let Some(difference) = first_difference(&parts, &whole) {
                findings.push(format!("{fixture} in chunks of {chunks:?}: {difference}"));
            }
        }
    }
    report(&findings);
}

#[test]
fn batched_is_alone_where_rows_are_invariant() {
    let mut findings = Vec::new();
    for fixture in FIXTURES {
        let tokens = prompt(fixture);
        let Some(mut harness) = load(fixture, INVARIANT) else { return };
        let alone = in_chunks(&mut harness, &tokens, &[tokens.len()]);
        // Seven sequences at different places: in each step some prefill chunks and some decode rows.
        let mut sequences: Vec<Sequence> =
            (0..7).map(|slot| harness.sequence(slot, tokens.len())).collect();
        for _ in 0..4 {
            let mut wanted = Vec::new();
            let work = sequences.iter_mut().zip([1, 1, 2, 3, 7, 20, 31]);
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
                let (row, alone) = ([into_logits(row)], [alone[position].clone()]);
                if let Some(difference) = first_difference(&row, &alone) {
                    findings.push(format!("{fixture} at {position}: {difference}"));
                }
            }
        }
    }
    findings.truncate(12);
    report(&findings);
}

#[test]
fn a_copied_block_serves_as_its_original() {
    for fixture in FIXTURES {
        let tokens = prompt(fixture);
        let (before, after) = tokens.split_at(40);
        let Some(mut harness) = load(fixture, common::DEFAULT) else { return };
        let mut original = harness.sequence(0, tokens.len());
        harness.logits(&mut original, before);
        let mut copy = Sequence { slot: 1, ..original.clone() };
        let mut copies = Vec::new();
        for (group, table) in copy.tables.iter_mut().enumerate() {
            let last = table.blocks.last_mut().expect("a block is there");
            let to = harness.free[group].pop().expect("a block is free");
            copies.push(BlockCopy { group: group as u32, from: *last, to });
            *last = to;
        }
        let all = || (0..after.len()).map(|at| (at, OutputKind::Logits)).collect();
        let mut work = [Work { sequence: &mut copy, tokens: after, outputs: all() }];
        let mut batch = harness.batch(&mut work);
        batch.block_copies = copies;
        let copied: Vec<Vec<f32>> = harness.run(batch).into_iter().map(into_logits).collect();
        let followed = harness.logits(&mut original, after);
        assert_eq!(first_difference(&copied, &followed), None, "{fixture}");
    }
}
