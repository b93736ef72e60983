//! Attention of whole prompts, of many at once, and of chunks with a long prefix.

use cuda::ops::attention_prefill::{
    Args, Attention, AttentionPrefill, BLOCK_SIZE, CacheFormat, CacheLayer, Plan, Run, Scratch,
    Variant, traffic,
};
use half::bf16;

use crate::runner::{Outcome, Runner};

/// Heads of qwen3-8b.
const QWEN: Attention = Attention {
    heads: 32,
    kv_heads: 8,
    head_dim: 128,
    scale: 0.088_388_35,
    window: None,
    softcap: None,
    cache: CacheFormat::Bf16,
};

pub fn bench(runner: &Runner) -> Outcome {
    let long = [(8000, 0)];
    for (name, attention, runs) in [
        ("512", QWEN, &[(512, 0)][..]),
        ("2048", QWEN, &[(2048, 0)]),
        ("8000", QWEN, &long),
        ("16x1024", QWEN, &[(1024, 0); 16]),
        ("512 after 8000", QWEN, &[(512, 8000)]),
        ("128 after 32000", QWEN, &[(128, 32_000)]),
        ("600 after 30000", QWEN, &[(600, 30_000)]),
        ("1 after 32000", QWEN, &[(1, 32_000)]),
        ("16x8 after 8000", QWEN, &[(8, 8000); 16]),
        ("64x64", QWEN, &[(64, 0); 64]),
        ("8000 of 64", Attention { head_dim: 64, ..QWEN }, &long),
        ("8000 of 80", Attention { head_dim: 80, ..QWEN }, &long),
        ("8000 of 96", Attention { head_dim: 96, ..QWEN }, &long),
        ("8000 of 256", Attention { heads: 16, head_dim: 256, ..QWEN }, &long),
        ("8000 window 1024", Attention { window: Some(1024), ..QWEN }, &long),
        ("8000 softcap", Attention { softcap: Some(50.0), ..QWEN }, &long),
        (
            "8000 fp8",
            Attention { cache: CacheFormat::Fp8 { keys: 1.0, values: 1.0 }, ..QWEN },
            &long,
        ),
    ] {
        let portable = Variant::portable(&attention, runner.gpu.limits())?;
        let best = Variant::of(&attention, runner.gpu.limits())?;
        for (kernel, variant, splits) in [
            ("attention_prefill", best, true),
            ("attention_prefill invariant", best, false),
            ("attention_prefill portable", portable, false),
        ] {
            let case = format!("{kernel} {name}");
            if runner.wants(&case) {
                time(runner, &case, &attention, runs, (variant, splits))?;
            }
        }
    }
    Ok(())
}

fn time(
    runner: &Runner,
    case: &str,
    a: &Attention,
    lengths: &[(u32, u32)],
    (variant, splits): (Variant, bool),
) -> Outcome {
    let (gpu, stream) = (&runner.gpu, &runner.stream);
    let upload = |values: &[i32]| {
        let mut buffer = gpu.alloc(values.len())?;
        stream.upload(values, buffer.view_mut()).map(|()| buffer)
    };
    let (mut runs, mut starts, mut blocks) = (Vec::<Run>::new(), Vec::new(), 0);
    for (&(rows, cached), sequence) in lengths.iter().zip(0..) {
        let row = runs.last().map_or(0, |run| run.row + run.rows);
        runs.push(Run { row, rows, cached, sequence });
        starts.push(blocks);
        blocks += (rows + cached).div_ceil(BLOCK_SIZE as u32) as i32;
    }
    let rows = runs.iter().map(|run| run.rows as usize).sum::<usize>();
    let tables: Vec<i32> = (0..blocks).rev().collect();
    let (tables, starts) = (upload(&tables)?, upload(&starts)?);
    let firsts = upload(&vec![0; runs.len()])?;

    let mut random = fastrand::Rng::with_seed(1);
    let noise: Vec<bf16> = (0..65536).map(|_| bf16::from_f32(random.f32() * 4.0 - 2.0)).collect();
    let query_stride = (a.heads + 2 * a.kv_heads) * a.head_dim;
    let mut queries = gpu.alloc::<bf16>(rows * query_stride)?;
    let many: Vec<bf16> = noise.iter().copied().cycle().take(queries.len()).collect();
    stream.upload(&many, queries.view_mut())?;
    let block_bytes = 2 * a.kv_heads * BLOCK_SIZE * a.head_dim * a.cache.element_bytes();
    let mut cache = gpu.alloc::<u8>(blocks as usize * block_bytes)?;
    // Bytes of bf16 noise are noise of e4m3 too, once what would be NaN is gone.
    let bytes = bytemuck::cast_slice(&noise).iter().map(|byte: &u8| match a.cache {
        CacheFormat::Bf16 => *byte,
        CacheFormat::Fp8 { .. } => byte & 0xbf,
    });
    let many: Vec<u8> = bytes.cycle().take(cache.len()).collect();
    stream.upload(&many, cache.view_mut())?;
    let layer = CacheLayer::new(a, cache.address(), block_bytes, blocks as usize)?;

    let plan = Plan::with(variant, a, &runs, gpu.limits(), splits);
    let mut scratch = Scratch::new(stream, a.head_dim)?;
    let shares = upload(&plan.shares)?;
    let mut tiles = gpu.alloc(plan.tiles.len())?;
    stream.upload(&plan.tiles, tiles.view_mut())?;
    let mut out = gpu.alloc::<bf16>(rows * a.heads * a.head_dim)?;
    let op = AttentionPrefill::load(gpu)?;
    runner.time(case, traffic(a, &runs), 5, |stream, _| {
        let args = Args {
            queries: queries.view(),
            query_stride,
            cache: &layer,
            tables: tables.view(),
            table_starts: starts.view(),
            table_firsts: firsts.view(),
            tiles: tiles.view(),
            shares: shares.view(),
            out: out.view_mut(),
            out_stride: a.heads * a.head_dim,
        };
        op.launch(stream, a, &plan, &mut scratch, args)
    })
}
