//! Batches on the device: inputs, a cache with NaN wherever no row may look, sentinels around the result.

use std::{ops::Range, sync::LazyLock};

use super::{super::*, Case};
use crate::driver::Buffer;

/// Queries, keys and values of some sequences, as f32 that bf16 (or e4m3) holds exactly. Each sequence has its own stream of
/// random numbers, so its contents do not depend on what else is there.
pub(super) struct Inputs {
    /// By sequence: `[tokens][heads * head_dim]`, `[tokens][kv_heads * head_dim]` twice.
    pub(super) sequences: Vec<[Vec<f32>; 3]>,
}

impl Inputs {
    pub(super) fn new(case: &Case) -> Inputs {
        let a = &case.attention;
        let sequences = case.runs.iter().zip(0..).map(|(&(rows, cached), seed)| {
            Inputs::sequence(a, (rows + cached) as usize, case.loudness, seed)
        });
        Inputs { sequences: sequences.collect() }
    }

    pub(super) fn sequence(
        a: &Attention,
        tokens: usize,
        loudness: f32,
        seed: u64,
    ) -> [Vec<f32>; 3] {
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
pub(super) struct Batch {
    attention: Attention,
    pub(super) runs: Vec<Run>,
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

impl Batch {
    pub(super) fn new(
        stream: &Stream,
        attention: &Attention,
        runs: &[(u32, u32)],
        inputs: &Inputs,
    ) -> Batch {
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
            Batch::fill_cache(a, &placed, inputs);
        let mut cache = gpu.alloc(bytes.len()).unwrap();
        stream.upload(&bytes, cache.view_mut()).unwrap();
        let upload = |values: &[i32]| {
            let mut buffer = gpu.alloc(values.len()).unwrap();
            stream.upload(values, buffer.view_mut()).unwrap();
            buffer
        };
        let mut device_queries = gpu.alloc(queries.len()).unwrap();
        stream.upload(&queries, device_queries.view_mut()).unwrap();
        Batch {
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

    /// Parts of split tiles in the plan that splits.
    pub(super) fn parts(&self, variant: Variant, gpu: &Gpu) -> u32 {
        Plan::with(variant, &self.attention, &self.runs, gpu.limits(), true).slots
    }

    /// Runs the kernel; rows of the result, `heads * head_dim` each. Fails where a sentinel was touched.
    pub(super) fn run(
        &self,
        stream: &Stream,
        op: &AttentionPrefill,
        variant: Variant,
        splits: bool,
    ) -> Result<Vec<f32>, String> {
        let gpu = stream.gpu();
        let width = self.attention.heads * self.attention.head_dim;
        let out_stride = width + 16;
        let mut out = gpu.alloc(self.rows * out_stride + 64).unwrap();
        stream.upload(&vec![bf16::from_f32(SENTINEL); out.len()], out.view_mut()).unwrap();
        let plan = Plan::with(variant, &self.attention, &self.runs, gpu.limits(), splits);
        let mut scratch = Scratch::new(stream, variant.width).unwrap();
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
        let launched = op.launch(stream, &self.attention, &plan, &mut scratch, args);
        launched.map_err(|error| error.to_string())?;
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
