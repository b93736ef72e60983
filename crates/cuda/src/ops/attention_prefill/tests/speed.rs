//! How long whole prompts take.

use super::{super::*, plain, variant};
use crate::{driver::Event, testing};

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
