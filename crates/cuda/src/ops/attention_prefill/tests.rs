//! Parity with a plain f64 reference over a case table, and the equalities that hold bit for bit.

use std::{
    ops::Range,
    sync::{Arc, LazyLock},
    thread,
};

use super::*;
use crate::{
    driver::{Buffer, Event},
    testing,
};

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

/// Queries, keys and values of some sequences, as f32 that bf16 (or e4m3) holds exactly. Each sequence has its own stream of
/// random numbers, so its contents do not depend on what else is there.
struct Inputs {
    /// By sequence: `[tokens][heads * head_dim]`, `[tokens][kv_heads * head_dim]` twice.
    sequences: Vec<[Vec<f32>; 3]>,
}

impl Inputs {
    fn new(case: &Case) -> Inputs {
        let a = &case.attention;
        let sequences = case.runs.iter().zip(0..).map(|(&(rows, cached), seed)| {
            Inputs::sequence(a, (rows + cached) as usize, case.loudness, seed)
        });
        Inputs { sequences: sequences.collect() }
    }

    fn sequence(a: &Attention, tokens: usize, loudness: f32, seed: u64) -> [Vec<f32>; 3] {
        let mut random = fastrand::Rng::with_seed(seed * 7919 + a.head_dim as u64);
        let mut values = |count: usize, amplitude: f32, cache: CacheFormat| -> Vec<f32> {
            (0..count)
                .map(|_| {
                    let value = (random.f32() + random.f32() + random.f32() - 1.5) * amplitude;
                    match cache {
                        CacheFormat::Bf16 => bf16::from_f32(value).to_f32(),
                        CacheFormat::Fp8 { .. } => e4m3_to_f32(e4m3_from_f32(value)),
                    }
                })
                .collect()
        };
        let width = a.kv_heads * a.head_dim;
        [
            values(tokens * a.heads * a.head_dim, 2.0 * loudness, CacheFormat::Bf16),
            values(tokens * width, 2.0, a.cache),
            values(tokens * width, 3.0, a.cache),
        ]
    }
}

fn e4m3_to_f32(byte: u8) -> f32 {
    let (exponent, mantissa) = (i32::from(byte >> 3 & 15), f32::from(byte & 7));
    let magnitude = match exponent {
        0 => mantissa * 2f32.powi(-9),
        _ => (8.0 + mantissa) * 2f32.powi(exponent - 10),
    };
    if byte & 0x7f == 0x7f {
        f32::NAN
    } else if byte & 0x80 != 0 {
        -magnitude
    } else {
        magnitude
    }
}

/// Towards zero; good enough to make inputs.
fn e4m3_from_f32(value: f32) -> u8 {
    static MAGNITUDES: LazyLock<Vec<f32>> = LazyLock::new(|| (0..0x7f).map(e4m3_to_f32).collect());
    let byte = MAGNITUDES.partition_point(|magnitude| *magnitude <= value.abs()) - 1;
    byte as u8 | if value < 0.0 { 0x80 } else { 0 }
}

/// A batch on the device: cache with NaN wherever no row may look, queries inside fused rows, sentinels around the result.
struct Bench {
    attention: Attention,
    runs: Vec<Run>,
    queries: Buffer<bf16>,
    query_stride: usize,
    _cache: Buffer<u8>,
    layer: CacheLayer,
    tables: Buffer<i32>,
    starts: Buffer<i32>,
    firsts: Buffer<i32>,
    rows: usize,
}

/// A cache as bytes, with its tables.
struct Filled {
    bytes: Vec<u8>,
    block_bytes: usize,
    blocks: usize,
    tables: Vec<i32>,
    starts: Vec<i32>,
    firsts: Vec<i32>,
}

/// Rows before, between and after runs that nothing may touch.
const GAP: u32 = 3;
const SENTINEL: f32 = -12345.0;

impl Bench {
    fn new(stream: &Stream, attention: &Attention, runs: &[(u32, u32)], inputs: &Inputs) -> Bench {
        let gpu = stream.gpu();
        let a = attention;
        let mut row = GAP;
        let mut placed = Vec::new();
        for (&(rows, cached), sequence) in runs.iter().zip(0..) {
            placed.push(Run { row, rows, cached, sequence });
            row += rows + GAP;
        }
        let query_stride = (a.heads + 2 * a.kv_heads) * a.head_dim;
        let mut queries = vec![bf16::NAN; row as usize * query_stride];
        for run in &placed {
            let width = a.heads * a.head_dim;
            let values = &inputs.sequences[run.sequence as usize][0];
            for token in 0..run.rows as usize {
                let from = (run.cached as usize + token) * width;
                let to = (run.row as usize + token) * query_stride;
                for (to, from) in queries[to..to + width].iter_mut().zip(&values[from..]) {
                    *to = bf16::from_f32(*from);
                }
            }
        }
        let Filled { bytes, block_bytes, blocks, tables, starts, firsts } =
            Bench::fill_cache(a, &placed, inputs);
        let mut cache = gpu.alloc(bytes.len()).unwrap();
        stream.upload(&bytes, cache.view_mut()).unwrap();
        let upload = |values: &[i32]| {
            let mut buffer = gpu.alloc(values.len()).unwrap();
            stream.upload(values, buffer.view_mut()).unwrap();
            buffer
        };
        let mut device_queries = gpu.alloc(queries.len()).unwrap();
        stream.upload(&queries, device_queries.view_mut()).unwrap();
        Bench {
            attention: *a,
            layer: CacheLayer::new(a, cache.address(), block_bytes, blocks).unwrap(),
            runs: placed,
            queries: device_queries,
            query_stride,
            _cache: cache,
            tables: upload(&tables),
            starts: upload(&starts),
            firsts: upload(&firsts),
            rows: row as usize,
        }
    }

    /// Blocks are handed out in a random order, and lie a little apart.
    fn fill_cache(a: &Attention, runs: &[Run], inputs: &Inputs) -> Filled {
        let total = |run: &Run| (run.cached + run.rows) as usize;
        let blocks = runs.iter().map(|run| total(run).div_ceil(BLOCK_SIZE)).sum::<usize>() + 3;
        let mut order: Vec<i32> = (0..blocks as i32).collect();
        fastrand::Rng::with_seed(42).shuffle(&mut order);
        let mut order = order.into_iter();
        let bytes_each = a.cache.element_bytes();
        let block_bytes = 2 * a.kv_heads * BLOCK_SIZE * a.head_dim * bytes_each + 256;
        let nan: &[u8] = if bytes_each == 2 { &[0xc0, 0x7f] } else { &[0x7f] };
        let mut filled = Filled {
            bytes: nan.repeat(blocks * block_bytes / bytes_each),
            block_bytes,
            blocks,
            tables: vec![i32::MAX; 5],
            starts: Vec::new(),
            firsts: Vec::new(),
        };
        for run in runs {
            let lowest =
                a.window.map_or(0, |w| (run.cached as usize + 1).saturating_sub(w as usize));
            // Every other table still holds one block that has left the window.
            let first = (lowest / BLOCK_SIZE).saturating_sub(run.sequence as usize % 2);
            filled.firsts.push(first as i32);
            filled.starts.push(filled.tables.len() as i32);
            for block in first..total(run).div_ceil(BLOCK_SIZE) {
                let physical = order.next().unwrap();
                filled.tables.push(physical);
                let tokens =
                    (block * BLOCK_SIZE).max(lowest)..((block + 1) * BLOCK_SIZE).min(total(run));
                let sequence = &inputs.sequences[run.sequence as usize];
                let from = physical as usize * block_bytes;
                fill_block(a, &mut filled.bytes[from..from + block_bytes], tokens, sequence);
            }
        }
        filled.tables.push(i32::MAX);
        filled
    }

    /// Runs the kernel; rows of the result, `heads * head_dim` each. Fails where a sentinel was touched.
    fn run(
        &self,
        stream: &Stream,
        op: &AttentionPrefill,
        variant: Variant,
    ) -> Result<Vec<f32>, String> {
        let gpu = stream.gpu();
        let width = self.attention.heads * self.attention.head_dim;
        let out_stride = width + 16;
        let mut out = gpu.alloc(self.rows * out_stride + 64).unwrap();
        stream.upload(&vec![bf16::from_f32(SENTINEL); out.len()], out.view_mut()).unwrap();
        let plan = Plan::with(variant, &self.attention, &self.runs, gpu.limits());
        let mut tiles = gpu.alloc(plan.tiles.len()).unwrap();
        stream.upload(&plan.tiles, tiles.view_mut()).unwrap();
        let mut shares = gpu.alloc(plan.shares.len()).unwrap();
        stream.upload(&plan.shares, shares.view_mut()).unwrap();
        let args = Args {
            queries: self.queries.view(),
            query_stride: self.query_stride,
            cache: &self.layer,
            tables: self.tables.view(),
            table_starts: self.starts.view(),
            table_firsts: self.firsts.view(),
            tiles: tiles.view(),
            shares: shares.view(),
            out: out.view_mut(),
            out_stride,
        };
        op.launch(stream, &self.attention, &plan, args).map_err(|error| error.to_string())?;
        let seen = stream.read(out.view()).map_err(|error| error.to_string())?;
        let covered = |row: usize| self.runs.iter().any(|run| self.rows_of(run).contains(&row));
        for (at, value) in seen.iter().enumerate() {
            let (row, column) = (at / out_stride, at % out_stride);
            let free = row >= self.rows || !covered(row) || column >= width;
            if free && value.to_f32() != bf16::from_f32(SENTINEL).to_f32() {
                return Err(format!("row {row}, column {column} was written: {value}"));
            }
        }
        let rows = (0..self.rows).flat_map(|row| &seen[row * out_stride..][..width]);
        Ok(rows.map(|value| value.to_f32()).collect())
    }

    fn rows_of(&self, run: &Run) -> Range<usize> {
        run.row as usize..(run.row + run.rows) as usize
    }
}

/// Writes some tokens of a sequence to a block; other slots stay what they are.
fn fill_block(a: &Attention, block: &mut [u8], tokens: Range<usize>, sequence: &[Vec<f32>; 3]) {
    let bytes_each = a.cache.element_bytes();
    for (half, values) in sequence[1..].iter().enumerate() {
        for token in tokens.clone() {
            for head in 0..a.kv_heads {
                let from = (token * a.kv_heads + head) * a.head_dim;
                let row = (half * a.kv_heads + head) * BLOCK_SIZE + token % BLOCK_SIZE;
                for (column, value) in values[from..from + a.head_dim].iter().enumerate() {
                    let at = (row * a.head_dim + column) * bytes_each;
                    match a.cache {
                        CacheFormat::Bf16 => {
                            let bits = bf16::from_f32(*value).to_bits().to_le_bytes();
                            block[at..at + 2].copy_from_slice(&bits);
                        }
                        CacheFormat::Fp8 { .. } => block[at] = e4m3_from_f32(*value),
                    }
                }
            }
        }
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

/// Compares every element; a report of the worst where one is off.
fn compare(case: &Case, bench: &Bench, inputs: &Inputs, got: &[f32]) -> Result<f64, String> {
    let a = &case.attention;
    let width = a.heads * a.head_dim;
    let rows: Vec<(Run, usize)> =
        bench.runs.iter().flat_map(|run| (0..run.rows as usize).map(|row| (*run, row))).collect();
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
                    // Probabilities and the result are rounded to bf16: 2^-9 of what is summed, each.
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
    let failed = all.iter().filter(|(error, _)| *error > 1.5).count();
    let first = all.iter().find(|(error, _)| *error > 1.5).map(|(_, text)| text.clone());
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
        Algorithm::Hopper => Variant::hopper(attention, gpu.limits()),
    }
}

/// Runs the table's cases of some head widths. A device fault ends it: nothing runs after one.
fn parity(algorithm: Algorithm, head_dims: &[usize]) {
    let Some(gpu) = testing::gpu() else { return };
    let stream = Stream::new(&gpu).unwrap();
    let op = AttentionPrefill::load(&gpu).unwrap();
    let mut failures = Vec::new();
    let (mut done, mut worst) = (0, 0.0f64);
    for case in cases().iter().filter(|case| head_dims.contains(&case.attention.head_dim)) {
        let Some(variant) = variant(algorithm, &case.attention, &gpu) else { continue };
        let inputs = Inputs::new(case);
        let bench = Bench::new(&stream, &case.attention, &case.runs, &inputs);
        let outcome = bench.run(&stream, &op, variant);
        done += 1;
        match outcome.and_then(|got| compare(case, &bench, &inputs, &got)) {
            Ok(error) => worst = worst.max(error),
            Err(error) => failures.push(format!("{} {}: {error}", variant.entry(), case.label())),
        }
        if stream.synchronize().is_err() {
            break;
        }
    }
    println!("{algorithm:?} {head_dims:?}: {done} cases, worst error {worst:.2} of spread / 256");
    assert!(failures.is_empty(), "{} of {done} cases:\n{}", failures.len(), failures.join("\n"));
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
        let bench = Bench::new(stream, attention, &runs, &inputs);
        let got = bench.run(stream, op, variant)?;
        let row = bench.runs[beside.len()].row as usize;
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

/// Times of whole prompts: `cargo test -p cuda --lib -- --ignored --nocapture speed_of`.
#[test]
#[ignore = "a measurement, not a test"]
fn speed_of_portable() {
    speed(Algorithm::Portable);
}

#[test]
#[ignore = "a measurement, not a test"]
fn speed_of_hopper() {
    speed(Algorithm::Hopper);
}

fn speed(algorithm: Algorithm) {
    let Some(gpu) = testing::gpu() else { return };
    let stream = Stream::new(&gpu).unwrap();
    let op = AttentionPrefill::load(&gpu).unwrap();
    let qwen = plain(32, 8, 128);
    for (name, attention, runs) in [
        ("512", qwen, vec![(512, 0)]),
        ("2048", qwen, vec![(2048, 0)]),
        ("8000", qwen, vec![(8000, 0)]),
        ("16 x 1024", qwen, vec![(1024, 0); 16]),
        ("512 after 8000", qwen, vec![(512, 8000)]),
        ("64 x 64", qwen, vec![(64, 0); 64]),
        ("8000 d64", plain(32, 8, 64), vec![(8000, 0)]),
        ("8000 d80", plain(32, 8, 80), vec![(8000, 0)]),
        ("8000 d96", plain(32, 8, 96), vec![(8000, 0)]),
        ("8000 d256", plain(16, 8, 256), vec![(8000, 0)]),
        ("8000 w1024", Attention { window: Some(1024), ..qwen }, vec![(8000, 0)]),
        ("8000 softcap", Attention { softcap: Some(50.0), ..qwen }, vec![(8000, 0)]),
        (
            "8000 fp8",
            Attention { cache: CacheFormat::Fp8 { keys: 1.0, values: 1.0 }, ..qwen },
            vec![(8000, 0)],
        ),
    ] {
        if let Some(variant) = variant(algorithm, &attention, &gpu) {
            time(&stream, &op, name, &attention, &runs, variant);
        }
    }
}

fn time(
    stream: &Stream,
    op: &AttentionPrefill,
    name: &str,
    a: &Attention,
    runs: &[(u32, u32)],
    variant: Variant,
) {
    let gpu = stream.gpu();
    let mut placed: Vec<Run> = Vec::new();
    for (&(rows, cached), sequence) in runs.iter().zip(0..) {
        let row = placed.last().map_or(0, |run| run.row + run.rows);
        placed.push(Run { row, rows, cached, sequence });
    }
    let total = |run: &Run| ((run.rows + run.cached) as usize).div_ceil(BLOCK_SIZE);
    let (rows, blocks) = (
        placed.iter().map(|run| run.rows as usize).sum::<usize>(),
        placed.iter().map(total).sum::<usize>(),
    );
    let tables: Vec<i32> = (0..blocks as i32).rev().collect();
    let starts: Vec<i32> = placed
        .iter()
        .scan(0, |end, run| {
            let start = *end;
            *end += total(run) as i32;
            Some(start)
        })
        .collect();
    let stride = (a.heads + 2 * a.kv_heads) * a.head_dim;
    let mut random = fastrand::Rng::with_seed(1);
    let mut queries = gpu.alloc::<bf16>(rows * stride).unwrap();
    let noise: Vec<bf16> = (0..65536).map(|_| bf16::from_f32(random.f32() * 4.0 - 2.0)).collect();
    let many: Vec<bf16> = noise.iter().copied().cycle().take(queries.len()).collect();
    stream.upload(&many, queries.view_mut()).unwrap();
    let elements = blocks * 2 * a.kv_heads * BLOCK_SIZE * a.head_dim;
    let mut cache = gpu.alloc::<u8>(elements * a.cache.element_bytes()).unwrap();
    match a.cache {
        CacheFormat::Bf16 => {
            let many: Vec<bf16> = noise.iter().copied().cycle().skip(77).take(elements).collect();
            stream.upload(bytemuck::cast_slice(&many), cache.view_mut()).unwrap();
        }
        CacheFormat::Fp8 { .. } => {
            let many: Vec<u8> = (0..elements).map(|_| random.u8(0..0x50)).collect();
            stream.upload(&many, cache.view_mut()).unwrap();
        }
    }
    let layer =
        CacheLayer::new(a, cache.address(), elements * a.cache.element_bytes() / blocks, blocks)
            .unwrap();
    let upload = |values: &[i32]| {
        let mut buffer = gpu.alloc(values.len()).unwrap();
        stream.upload(values, buffer.view_mut()).unwrap();
        buffer
    };
    let (tables, starts, firsts) = (upload(&tables), upload(&starts), upload(&vec![0; runs.len()]));
    let plan = Plan::with(variant, a, &placed, gpu.limits());
    let shares = upload(&plan.shares);
    let mut tiles = gpu.alloc(plan.tiles.len()).unwrap();
    stream.upload(&plan.tiles, tiles.view_mut()).unwrap();
    let mut out = gpu.alloc::<bf16>(rows * a.heads * a.head_dim).unwrap();
    let mut times: Vec<f32> = (0..15)
        .map(|_| {
            let (begin, end) = (Event::new(gpu).unwrap(), Event::new(gpu).unwrap());
            begin.record(stream).unwrap();
            let args = Args {
                queries: queries.view(),
                query_stride: stride,
                cache: &layer,
                tables: tables.view(),
                table_starts: starts.view(),
                table_firsts: firsts.view(),
                tiles: tiles.view(),
                shares: shares.view(),
                out: out.view_mut(),
                out_stride: a.heads * a.head_dim,
            };
            op.launch(stream, a, &plan, args).unwrap();
            end.record(stream).unwrap();
            end.synchronize().unwrap();
            end.elapsed_ms(&begin).unwrap()
        })
        .collect();
    times.sort_by(f32::total_cmp);
    let ms = times[times.len() / 2];
    let work = traffic(a, &placed);
    let tflops = work.flops as f64 / f64::from(ms) / 1e9;
    println!("{name:>14} {:<34} {ms:8.4} ms {tflops:6.0} TFLOP/s", variant.entry());
}
