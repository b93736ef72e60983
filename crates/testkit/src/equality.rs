//! What must be equal however a step is cut: checks that every backend shares. Each gives what it found unequal.

use foundation::TokenId;
use runtime::batch::{BlockCopy, OutputKind};

use crate::{
    golden::Golden,
    harness::{Harness, Sequence, Work, into_logits},
};

/// Fixtures that differ in what matters here: windows, soft caps, head widths, norms over whole projections.
pub const FIXTURES: [&str; 5] = ["gemma2", "gemma3", "mistral", "olmo2", "qwen3"];

/// Fixtures with experts. Where two of these score alike noise decides which is visited, so that they are compared to the bit or not at all.
pub const ROUTED: [&str; 2] = ["glm4-moe", "qwen3-moe"];

/// Ways to cut a prompt; what is left goes token by token.
pub const CHUNKS: [&[usize]; 4] = [&[], &[16, 16, 16, 16, 16], &[5, 40, 3, 17, 8], &[33, 31, 4]];

/// The longest prompt of a fixture's golden.
pub fn prompt(fixture: &str) -> Vec<TokenId> {
    let golden = Golden::read(fixture);
    golden.prompts.iter().max_by_key(|p| p.input_ids.len()).expect("a prompt").input_ids.clone()
}

/// Logits of every position of `tokens`, in chunks of the given lengths, the rest token by token.
pub fn in_chunks(harness: &mut Harness, tokens: &[TokenId], chunks: &[usize]) -> Vec<Vec<f32>> {
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

/// Logits of seven sequences of `tokens` at different places, with their positions: in each step some are chunks and some
/// are single rows.
pub fn in_company(harness: &mut Harness, tokens: &[TokenId]) -> Vec<(usize, Vec<f32>)> {
    let mut sequences: Vec<Sequence> =
        (0..7).map(|slot| harness.sequence(slot, tokens.len())).collect();
    let mut seen = Vec::new();
    for _ in 0..4 {
        let mut positions = Vec::new();
        let work = sequences.iter_mut().zip([1, 1, 2, 3, 7, 20, 31]);
        let work = work
            .filter(|(sequence, _)| sequence.cached < tokens.len())
            .map(|(sequence, length)| {
                let range = sequence.cached..tokens.len().min(sequence.cached + length);
                positions.extend(range.clone());
                let outputs = (0..range.len()).map(|at| (at, OutputKind::Logits)).collect();
                Work { sequence, tokens: &tokens[range], outputs }
            })
            .collect();
        let rows = harness.step(work);
        seen.extend(positions.into_iter().zip(rows.into_iter().map(into_logits)));
    }
    sequences.into_iter().for_each(|sequence| harness.release(sequence));
    seen
}

/// Where two lists of logits differ first.
pub fn first_difference(a: &[Vec<f32>], b: &[Vec<f32>]) -> Option<String> {
    if a.len() != b.len() {
        return Some(format!("{} rows and {}", a.len(), b.len()));
    }
    let position = a.iter().zip(b).position(|(a, b)| a != b)?;
    let token = a[position].iter().zip(&b[position]).position(|(a, b)| a != b)?;
    let (a, b) = (a[position][token], b[position][token]);
    Some(format!("position {position}, token {token}: {a} and {b}"))
}

/// Chunked is whole, to the bit.
pub fn chunked_is_whole(harness: &mut Harness, tokens: &[TokenId]) -> Vec<String> {
    let whole = in_chunks(harness, tokens, &[tokens.len()]);
    let difference = |chunks: &[usize]| {
        let parts = in_chunks(harness, tokens, chunks);
        first_difference(&parts, &whole).map(|text| format!("in chunks of {chunks:?}: {text}"))
    };
    CHUNKS.into_iter().filter_map(difference).collect()
}

/// Batched is alone, to the bit.
pub fn batched_is_alone(harness: &mut Harness, tokens: &[TokenId]) -> Vec<String> {
    let alone = in_chunks(harness, tokens, &[tokens.len()]);
    let company = in_company(harness, tokens);
    assert!(company.len() > 100, "there is company");
    let difference = |(position, row): (usize, Vec<f32>)| {
        let text = first_difference(&[row], std::slice::from_ref(&alone[position]))?;
        Some(format!("at {position}, in company: {text}"))
    };
    company.into_iter().filter_map(difference).collect()
}

/// A copied block serves as its original, to the bit.
pub fn copy_is_original(harness: &mut Harness, tokens: &[TokenId]) -> Vec<String> {
    let (before, after) = tokens.split_at(40);
    let mut original = harness.sequence(0, tokens.len());
    harness.logits(&mut original, before);
    // The copy shares the full blocks and owns a copy of the one that is being filled.
    let mut copy = Sequence { slot: 1, ..original.clone() };
    let mut copies = Vec::new();
    for (group, table) in copy.tables.iter_mut().enumerate() {
        let last = table.blocks.last_mut().expect("a block is there");
        let to = harness.free[group].pop().expect("a block is free");
        copies.push(BlockCopy { group: group as u32, from: *last, to });
        *last = to;
    }
    let outputs = (0..after.len()).map(|at| (at, OutputKind::Logits)).collect();
    let mut batch = harness.batch(&mut [Work { sequence: &mut copy, tokens: after, outputs }]);
    batch.block_copies = copies;
    let copied: Vec<_> = harness.run(batch).into_iter().map(into_logits).collect();
    let followed = harness.logits(&mut original, after);
    first_difference(&copied, &followed).into_iter().collect()
}
