//! Parity with a plain f64 reference over a case table, and the equalities that hold bit for bit.

mod batch;

use std::{ops::Range, sync::Arc, thread};

use batch::{Batch, Inputs};

use super::*;
use crate::testing;

/// A batch: what attention does, and each run's rows and cached tokens.
struct Case {
    name: String,
    attention: Attention,
    runs: Vec<(u32, u32)>,
    /// Multiplies the queries.
    loudness: f32,
}

fn plain(heads: usize, kv_heads: usize, head_dim: usize) -> Attention {
    Attention {
        heads,
        kv_heads,
        head_dim,
        scale: 1.0 / (head_dim as f32).sqrt(),
        window: None,
        softcap: None,
        cache: CacheFormat::Bf16,
    }
}

fn case(name: &str, attention: Attention, runs: &[(u32, u32)]) -> Case {
    Case { name: name.to_owned(), attention, runs: runs.to_vec(), loudness: 1.0 }
}

/// Lengths and prefixes at the edges of blocks and tiles.
const RAGGED: [(u32, u32); 14] = [
    (1, 0),
    (2, 0),
    (15, 1),
    (16, 0),
    (17, 16),
    (63, 0),
    (64, 100),
    (65, 63),
    (127, 0),
    (128, 128),
    (129, 5),
    (130, 1000),
    (300, 0),
    (1, 777),
];

/// The case table.
fn cases() -> Vec<Case> {
    let fp8 = CacheFormat::Fp8 { keys: 0.5, values: 0.125 };
    let mut cases = vec![
        case("no rows at all", plain(4, 2, 64), &[]),
        case("runs without rows", plain(4, 2, 128), &[(0, 5), (3, 2), (0, 0), (2, 16)]),
        case("one token", plain(4, 2, 128), &[(1, 0)]),
        case("sixteen tokens of one head", plain(1, 1, 128), &[(16, 0)]),
        case("one tile", plain(1, 1, 128), &[(128, 0)]),
        case("two tiles", plain(1, 1, 128), &[(256, 0)]),
        case("long prefix", plain(2, 1, 128), &[(20, 5000)]),
    ];
    // Few tiles, many keys: these are split. Rows for one warp, for some, for all.
    for head_dim in [64, 80, 96, 128, 256] {
        let runs = [(1, 9000), (3, 4100), (70, 2500)];
        cases.push(case("long prefixes", plain(4, 2, head_dim), &runs));
        let attention = Attention { window: Some(3000), ..plain(2, 1, head_dim) };
        cases.push(case("long prefixes, window", attention, &[(40, 9000), (300, 0)]));
        let attention = Attention { cache: fp8, ..plain(8, 1, head_dim) };
        cases.push(case("long prefixes, fp8", attention, &[(9, 3500), (1, 5555)]));
        let attention = Attention { softcap: Some(5.0), ..plain(3, 3, head_dim) };
        let loud = case("long prefixes, softcap, loud", attention, &[(17, 4000)]);
        cases.push(Case { loudness: 100.0, ..loud });
    }
    for head_dim in [8, 16, 24, 32, 64, 72, 80, 96, 112, 128, 160, 256] {
        cases.push(case("ragged", plain(4, 2, head_dim), &RAGGED));
    }
    for (heads, kv_heads) in [(1, 1), (3, 3), (6, 2), (5, 1), (14, 2), (8, 1), (16, 1), (9, 3)] {
        let runs = [(40, 0), (7, 90), (150, 33), (1, 64)];
        cases.push(case("groups", plain(heads, kv_heads, 64), &runs));
    }
    for (head_dim, window) in
        [(32, 1), (64, 4), (128, 16), (128, 63), (64, 128), (80, 130), (256, 200), (128, 9999)]
    {
        let attention = Attention { window: Some(window), ..plain(4, 2, head_dim) };
        cases.push(case("window", attention, &RAGGED));
    }
    for head_dim in [64, 128, 256] {
        let attention = Attention { softcap: Some(5.0), scale: 0.5, ..plain(4, 2, head_dim) };
        cases.push(case("softcap", attention, &RAGGED));
        let attention =
            Attention { window: Some(100), softcap: Some(30.0), ..plain(4, 1, head_dim) };
        cases.push(Case { loudness: 20.0, ..case("softcap and window", attention, &RAGGED) });
    }
    for head_dim in [16, 64, 80, 96, 128, 192, 256] {
        let attention = Attention { cache: fp8, ..plain(4, 2, head_dim) };
        cases.push(case("fp8", attention, &RAGGED));
    }
    for head_dim in [32, 64, 128, 256] {
        let case = case("large scores", plain(4, 2, head_dim), &RAGGED);
        cases.push(Case { loudness: 1000.0, ..case });
    }
    cases
}

impl Case {
    fn label(&self) -> String {
        let a = &self.attention;
        let fp8 = if a.cache == CacheFormat::Bf16 { "" } else { " fp8" };
        format!("{} {}/{}x{}{fp8} w{:?}", self.name, a.heads, a.kv_heads, a.head_dim, a.window)
    }
}

/// One row of one head in f64: the result, and the mean magnitude of what was summed.
fn reference(
    a: &Attention,
    sequence: &[Vec<f32>; 3],
    position: usize,
    head: usize,
) -> Vec<(f64, f64)> {
    let dim = a.head_dim;
    let kv_head = head / (a.heads / a.kv_heads);
    let (key_scale, value_scale) = match a.cache {
        CacheFormat::Bf16 => (1.0, 1.0),
        CacheFormat::Fp8 { keys, values } => (f64::from(keys), f64::from(values)),
    };
    let row = |values: &[f32], token: usize, head: usize, heads: usize| {
        values[(token * heads + head) * dim..][..dim]
            .iter()
            .map(|v| f64::from(*v))
            .collect::<Vec<_>>()
    };
    let query = row(&sequence[0], position, head, a.heads);
    let first = a.window.map_or(0, |window| (position + 1).saturating_sub(window as usize));
    let score = |token: usize| {
        let key = row(&sequence[1], token, kv_head, a.kv_heads);
        let dot: f64 = query.iter().zip(&key).map(|(q, k)| q * k).sum();
        let score = dot * f64::from(a.scale) * key_scale;
        a.softcap.map_or(score, |cap| f64::from(cap) * (score / f64::from(cap)).tanh())
    };
    let scores: Vec<f64> = (first..=position).map(score).collect();
    let top = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights: Vec<f64> = scores.iter().map(|score| (score - top).exp()).collect();
    let total: f64 = weights.iter().sum();
    let mut out = vec![(0.0, 0.0); dim];
    for (weight, token) in weights.iter().zip(first..) {
        let value = row(&sequence[2], token, kv_head, a.kv_heads);
        for (out, value) in out.iter_mut().zip(value) {
            out.0 += weight / total * value * value_scale;
            out.1 += weight / total * (value * value_scale).abs();
        }
    }
    out
}

/// Largest error, in 2^-8 of the mean magnitude of what is summed. Probabilities are rounded to bf16, and so is the result: each
/// by up to 2^-8 of itself.
const LIMIT: f64 = 2.05;

/// Compares every element; a report of the worst where one is off.
fn compare(case: &Case, batch: &Batch, inputs: &Inputs, got: &[f32]) -> Result<f64, String> {
    let a = &case.attention;
    let width = a.heads * a.head_dim;
    let rows: Vec<(Run, usize)> =
        batch.runs.iter().flat_map(|run| (0..run.rows as usize).map(|row| (*run, row))).collect();
    let check = |rows: &[(Run, usize)]| -> Vec<(f64, String)> {
        let mut worst: Vec<(f64, String)> = Vec::new();
        for (run, token) in rows {
            let sequence = &inputs.sequences[run.sequence as usize];
            let position = run.cached as usize + token;
            for head in 0..a.heads {
                let want = reference(a, sequence, position, head);
                let got =
                    &got[(run.row as usize + token) * width + head * a.head_dim..][..a.head_dim];
                let error = |column: usize| {
                    let (value, spread) = want[column];
                    let off = (f64::from(got[column]) - value).abs() / (spread / 256.0 + 1e-6);
                    if off.is_nan() { f64::INFINITY } else { off }
                };
                let column =
                    (0..a.head_dim).max_by(|x, y| error(*x).total_cmp(&error(*y))).unwrap();
                let near = column..(column + 4).min(a.head_dim);
                worst.push((
                    error(column),
                    format!(
                        "run {}+{} row {token} head {head} column {column}: got {:?}, wanted {:?}",
                        run.cached,
                        run.rows,
                        &got[near.clone()],
                        want[near].iter().map(|w| (w.0 * 1e4).round() / 1e4).collect::<Vec<_>>()
                    ),
                ));
            }
        }
        worst
    };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let mut all: Vec<(f64, String)> = thread::scope(|scope| {
        let chunks = rows.chunks(rows.len().div_ceil(threads).max(1));
        let workers: Vec<_> = chunks.map(|chunk| scope.spawn(move || check(chunk))).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    let failed = all.iter().filter(|(error, _)| *error > LIMIT).count();
    let first = all.iter().find(|(error, _)| *error > LIMIT).map(|(_, text)| text.clone());
    all.sort_by(|a, b| b.0.total_cmp(&a.0));
    match first {
        None => Ok(all.first().map_or(0.0, |worst| worst.0)),
        Some(first) => Err(format!(
            "{failed} of {} rows off; first {first}; worst {:.1}: {}",
            all.len(),
            all[0].0,
            all[0].1
        )),
    }
}

/// The kernel of that kind that can do a case on this device.
fn variant(algorithm: Algorithm, attention: &Attention, gpu: &Arc<Gpu>) -> Option<Variant> {
    match algorithm {
        Algorithm::Portable => Some(Variant::portable(attention, gpu.limits()).unwrap()),
        _ => Variant::hopper(attention, gpu.limits()),
    }
}

/// Runs the table's cases of some head widths. A device fault ends it: nothing runs after one.
fn parity(algorithm: Algorithm, head_dims: &[usize]) {
    let Some(gpu) = testing::gpu() else { return };
    let stream = Stream::new(&gpu).unwrap();
    let op = AttentionPrefill::load(&gpu).unwrap();
    let mut failures = Vec::new();
    let (mut done, mut split, mut worst) = (0, 0, 0.0f64);
    for case in cases().iter().filter(|case| head_dims.contains(&case.attention.head_dim)) {
        let Some(variant) = variant(algorithm, &case.attention, &gpu) else { continue };
        let inputs = Inputs::new(case);
        let batch = Batch::new(&stream, &case.attention, &case.runs, &inputs);
        for splits in [false, true] {
            if splits && batch.parts(variant, &gpu) == 0 {
                continue;
            }
            done += 1;
            split += usize::from(splits);
            let outcome = batch.run(&stream, &op, variant, splits);
            let again = splits.then(|| batch.run(&stream, &op, variant, splits));
            if again.is_some_and(|again| !is_same(&outcome, &again)) {
                failures.push(format!("{} {}: not the same again", variant.entry(), case.label()));
            }
            match outcome.and_then(|got| compare(case, &batch, &inputs, &got)) {
                Ok(error) => worst = worst.max(error),
                Err(error) => {
                    let label = format!("{} {}", variant.entry(), case.label());
                    failures.push(format!("{label} splits {splits}: {error}"));
                }
            }
        }
        if stream.synchronize().is_err() {
            break;
        }
    }
    println!(
        "{algorithm:?} {head_dims:?}: {done} cases ({split} split), worst error {worst:.2} of spread / 256"
    );
    assert!(failures.is_empty(), "{} of {done} cases:\n{}", failures.len(), failures.join("\n"));
    let can_split = algorithm == Algorithm::Hopper && gpu.limits().has_wgmma();
    assert_eq!(split > 0, can_split, "split cases");
}

/// To the bit; NaN equals itself here.
fn is_same(a: &Result<Vec<f32>, String>, b: &Result<Vec<f32>, String>) -> bool {
    let bits = |rows: &Vec<f32>| -> Vec<u32> { rows.iter().map(|value| value.to_bits()).collect() };
    match (a, b) {
        (Ok(a), Ok(b)) => bits(a) == bits(b),
        _ => false,
    }
}

#[test]
fn portable_agrees_with_the_reference() {
    parity(Algorithm::Portable, &[8, 16, 24, 32, 72, 80, 96, 112, 160, 192]);
}

#[test]
fn portable_of_common_widths_agrees_with_the_reference() {
    parity(Algorithm::Portable, &[64, 128, 256]);
}

#[test]
fn hopper_of_64_agrees_with_the_reference() {
    parity(Algorithm::Hopper, &[64]);
}

#[test]
fn hopper_of_80_agrees_with_the_reference() {
    parity(Algorithm::Hopper, &[80]);
}

#[test]
fn hopper_of_96_agrees_with_the_reference() {
    parity(Algorithm::Hopper, &[96]);
}

#[test]
fn hopper_of_128_agrees_with_the_reference() {
    parity(Algorithm::Hopper, &[128]);
}

#[test]
fn hopper_of_256_agrees_with_the_reference() {
    parity(Algorithm::Hopper, &[256]);
}

/// A row's bits are the same whether its prompt came whole or in chunks, alone or beside others, and again.
fn equalities(algorithm: Algorithm) {
    let Some(gpu) = testing::gpu() else { return };
    let stream = Stream::new(&gpu).unwrap();
    let op = AttentionPrefill::load(&gpu).unwrap();
    let mut failures = Vec::new();
    let fp8 = CacheFormat::Fp8 { keys: 0.5, values: 0.125 };
    for attention in [
        plain(4, 2, 32),
        plain(4, 1, 128),
        plain(6, 2, 64),
        plain(4, 2, 80),
        plain(4, 2, 96),
        plain(2, 2, 256),
        Attention { window: Some(100), ..plain(4, 2, 128) },
        Attention { window: Some(20), softcap: Some(20.0), ..plain(4, 2, 64) },
        Attention { cache: fp8, ..plain(4, 2, 128) },
    ] {
        if let Some(variant) = variant(algorithm, &attention, &gpu) {
            failures.extend(chunk_failures(&stream, &op, &attention, variant));
        }
    }
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn portable_chunks_are_the_whole_bit_for_bit() {
    equalities(Algorithm::Portable);
}

#[test]
fn hopper_chunks_are_the_whole_bit_for_bit() {
    equalities(Algorithm::Hopper);
}

fn chunk_failures(
    stream: &Stream,
    op: &AttentionPrefill,
    attention: &Attention,
    variant: Variant,
) -> Vec<String> {
    const TOKENS: u32 = 400;
    let width = attention.heads * attention.head_dim;
    let sequence = Inputs::sequence(attention, TOKENS as usize, 1.0, 1);
    // The sequence's rows, computed as the last of some batch, in the given chunk.
    let rows_of = |chunk: Range<u32>, beside: &[(u32, u32)]| -> Result<Vec<f32>, String> {
        let mut runs = beside.to_vec();
        runs.push((chunk.len() as u32, chunk.start));
        let mut inputs = Inputs::new(&Case {
            name: String::new(),
            attention: *attention,
            runs: runs.clone(),
            loudness: 1.0,
        });
        inputs.sequences.pop();
        inputs.sequences.push(sequence.clone());
        let batch = Batch::new(stream, attention, &runs, &inputs);
        let got = batch.run(stream, op, variant, false)?;
        let row = batch.runs[beside.len()].row as usize;
        Ok(got[row * width..(row + chunk.len()) * width].to_vec())
    };
    let whole = match rows_of(0..TOKENS, &[]) {
        Ok(whole) => whole,
        Err(error) => return vec![format!("{}: {error}", variant.entry())],
    };
    let mut failures = Vec::new();
    let others = [(33, 7), (200, 64), (1, 300)];
    for (chunk, beside) in [
        (0..TOKENS, &[][..]),
        (0..TOKENS, &others),
        (0..1, &[]),
        (0..64, &[]),
        (0..130, &others),
        (1..17, &[]),
        (17..145, &[]),
        (100..399, &others[..1]),
        (128..256, &[]),
        (256..400, &[]),
        (399..400, &others),
    ] {
        let label = format!(
            "{} w{:?} chunk {chunk:?} beside {beside:?}",
            variant.entry(),
            attention.window
        );
        let expected = &whole[chunk.start as usize * width..chunk.end as usize * width];
        match rows_of(chunk, beside) {
            Err(error) => failures.push(format!("{label}: {error}")),
            Ok(got) => {
                let differs = |at: &usize| got[*at].to_bits() != expected[*at].to_bits();
                let count = (0..got.len()).filter(differs).count();
                if let Some(at) = (0..got.len()).find(differs) {
                    let (row, column) = (at / width, at % width);
                    failures.push(format!(
                        "{label}: {count} differ, first row {row} column {column}: {} and {}",
                        got[at], expected[at]
                    ));
                }
            }
        }
    }
    failures
}
