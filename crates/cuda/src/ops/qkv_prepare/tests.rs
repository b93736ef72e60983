//! Against float64, over widths, norms, rotations and types of cache.

use super::*;
use crate::{
    driver::DeviceLimits,
    ops::heads::{
        BLOCK_TOKENS,
        reference::{Normal, Preparing, Report, load, offset, store},
    },
    testing,
};

/// What bytes nobody may write hold.
const SENTINEL: u8 = 0xA5;

#[derive(Clone, Debug)]
struct Case {
    problem: Problem,
    /// Positions of the rows go up from here.
    position: i32,
    /// Rows that are padding: every third.
    padding: bool,
    regimes: bool,
}

fn cases() -> Vec<Case> {
    let heads = Heads { heads: 8, kv_heads: 2, head_dim: 128, cache: CacheType::Bf16 };
    let head = Some(QkNormExtent::Head);
    let whole = Some(QkNormExtent::Projection);
    let problem = Problem { rows: 5, heads, rotary_dim: 128, norm: head };
    let base = Case { problem, position: 0, padding: false, regimes: false };
    let with = |problem: Problem, position: i32| Case { problem, position, ..base.clone() };
    let dims = |(head_dim, rotary_dim): (usize, usize)| {
        let heads = Heads { heads: 6, kv_heads: 3, head_dim, ..heads };
        with(Problem { rows: 3, heads, rotary_dim, norm: head }, 1000)
    };
    let widths = [(8, 8), (16, 16), (24, 24), (32, 32), (64, 64), (80, 32), (96, 96), (96, 72)];
    let more = [(128, 20), (160, 160), (256, 256), (256, 64), (64, 0), (8, 4), (128, 2)];
    let mut cases = vec![
        with(Problem { rows: 0, ..problem }, 0),
        with(Problem { rows: 1, ..problem }, 131_071),
        with(Problem { rows: 1, norm: None, ..problem }, 131_072),
        with(Problem { rows: 4, norm: None, ..problem }, 2_000_000),
        with(Problem { rows: 700, ..problem }, 130_000),
        with(Problem { norm: whole, ..problem }, 77),
        with(Problem { rows: 300, norm: whole, ..problem }, 5),
        with(Problem { rotary_dim: 0, norm: None, ..problem }, 5),
        Case { padding: true, ..with(Problem { rows: 9, ..problem }, 3) },
        Case { padding: true, regimes: true, ..with(Problem { rows: 600, ..problem }, 3900) },
        with(Problem { rows: 4000, norm: None, ..problem }, 0),
        Case { regimes: true, ..with(Problem { rows: 9, ..problem }, 4094) },
        with(
            Problem {
                rows: 2,
                heads: Heads { heads: 64, kv_heads: 64, ..heads },
                rotary_dim: 128,
                norm: whole,
            },
            12,
        ),
    ];
    cases.extend(widths.into_iter().chain(more).map(dims));
    let fp8 = cases.iter().cloned().map(|mut case| {
        case.problem.heads.cache = CacheType::Fp8;
        case
    });
    let fp8: Vec<Case> = fp8.collect();
    cases.extend(fp8);
    cases
}

#[test]
fn plans_cover_every_head_and_row() {
    let limits = DeviceLimits::h200();
    for case in cases() {
        let shape = Plan::new(&case.problem, &limits).unwrap().shape();
        assert!(shape.block.is_multiple_of(32) && shape.block <= 256 && shape.grid[1] > 0);
    }
    let heads = Heads { heads: 32, kv_heads: 8, head_dim: 128, cache: CacheType::Bf16 };
    let problem = Problem { rows: 1, heads, rotary_dim: 128, norm: None };
    let way = |problem| Plan::new(&problem, &limits).unwrap().way;
    assert_eq!(way(problem), Way::Warps { lanes: 8, shares: 12 });
    assert_eq!(way(Problem { rows: 2048, ..problem }), Way::Warps { lanes: 8, shares: 5 });
    assert_eq!(way(Problem { rows: 16384, ..problem }), Way::Warps { lanes: 8, shares: 1 });
    let part = Problem { rotary_dim: 64, ..problem };
    assert_eq!(way(part), Way::Blocks { threads: 128, shares: 6 });
    assert_eq!(way(Problem { rows: 4096, ..part }), Way::Blocks { threads: 256, shares: 1 });
    for rotary_dim in [7, 130] {
        assert!(Plan::new(&Problem { rotary_dim, ..problem }, &limits).is_err());
    }
}

#[test]
fn kernel_agrees_with_float64() {
    let Some(gpu) = testing::gpu() else { return };
    let stream = Stream::new(&gpu).unwrap();
    let kernels = QkvPrepare::load(&gpu).unwrap();
    let mut report = Report::default();
    for case in cases() {
        run(&stream, &kernels, &case, &mut report);
    }
    report.finish();
}

fn run(stream: &Stream, kernels: &QkvPrepare, case: &Case, report: &mut Report) {
    let Problem { rows, heads, rotary_dim, norm } = case.problem;
    let name = format!("{case:?}");
    let gpu = stream.gpu();
    let mut normal = Normal::new(7);
    let qkv = normal.bf16s(rows * heads.qkv_width(), 2.0);
    let preparing = Preparing::new(heads, rotary_dim, norm, 3);
    let blocks = rows.div_ceil(BLOCK_TOKENS) + 2;
    let mut slots: Vec<i32> = (0..(blocks * BLOCK_TOKENS) as i32).collect();
    normal.0.shuffle(&mut slots);
    slots.truncate(rows);
    if case.padding {
        slots.iter_mut().step_by(3).for_each(|slot| *slot = -1);
    }
    let positions: Vec<i32> = (0..rows as i32).map(|row| case.position + row).collect();
    let regimes: Vec<i32> =
        (0..rows as i32).map(|row| i32::from(case.regimes) * (row % 2)).collect();

    fn upload<T: bytemuck::Pod>(stream: &Stream, values: &[T]) -> crate::driver::Buffer<T> {
        let mut buffer = stream.gpu().alloc(values.len()).unwrap();
        stream.upload(values, buffer.view_mut()).unwrap();
        buffer
    }
    let device_qkv = upload(stream, &qkv);
    let mut arena = upload(stream, &vec![SENTINEL; blocks * heads.block_bytes()]);
    let width = heads.heads * heads.head_dim;
    let sentinel = bf16::from_bits(u16::from_le_bytes([SENTINEL; 2]));
    let mut q = upload(stream, &vec![sentinel; rows * width + 64]);
    let (device_slots, device_positions) = (upload(stream, &slots), upload(stream, &positions));
    let (device_regimes, inv_freq) =
        (upload(stream, &regimes), upload(stream, &preparing.inv_freq));
    let (q_weight, k_weight) =
        (upload(stream, &preparing.q_weight), upload(stream, &preparing.k_weight));
    let plan = Plan::new(&case.problem, gpu.limits()).unwrap();
    let args = Args {
        qkv: device_qkv.view(),
        q: q.view_mut(),
        arena: arena.view_mut(),
        slots: device_slots.view(),
        scales: preparing.scales,
        rope: (rotary_dim > 0).then(|| Rope {
            positions: device_positions.view(),
            regimes: case.regimes.then(|| device_regimes.view()),
            inv_freq: inv_freq.view(),
            factors: preparing.factors,
        }),
        norms: norm.map(|_| Norms { q: q_weight.view(), k: k_weight.view(), eps: preparing.eps }),
    };
    kernels.launch(stream, &plan, args).unwrap();

    let q = stream.read(q.view()).unwrap();
    let arena = stream.read(arena.view()).unwrap();
    let mut wanted_arena = vec![SENTINEL; arena.len()];
    let (mut got, mut wanted, mut relative) = (Vec::new(), Vec::new(), Vec::new());
    for row in 0..rows {
        let line = &qkv[row * heads.qkv_width()..(row + 1) * heads.qkv_width()];
        let [query, k, v] = preparing.apply(line, positions[row], regimes[row] as usize);
        let mine = &q[row * width..(row + 1) * width];
        let Ok(slot) = usize::try_from(slots[row]) else {
            report.require(&name, mine.iter().all(|x| x.to_bits() == sentinel.to_bits()), || {
                format!("padding row {row} was written")
            });
            continue;
        };
        got.extend(mine.iter().map(|x| x.to_f32()));
        wanted.extend(query);
        relative.resize(wanted.len(), 0.00395);
        for (kv, values, scale) in [(0, k, preparing.scales.k), (1, v, preparing.scales.v)] {
            let bytes = heads.cache.bytes();
            for (i, value) in values.into_iter().enumerate() {
                let at = offset(&heads, slot, kv, i / heads.head_dim) + i % heads.head_dim * bytes;
                got.push(load(heads.cache, scale, &arena[at..at + bytes]));
                // A saturated value is as wanted.
                let limit = if bytes == 1 { 448.0 * f64::from(scale) } else { f64::MAX };
                wanted.push(value.clamp(-limit, limit));
                store(heads.cache, scale, value as f32, &mut wanted_arena[at..at + bytes]);
            }
        }
        relative.resize(wanted.len(), if heads.cache == CacheType::Fp8 { 0.0626 } else { 0.00395 });
    }
    let q_len = rows * width;
    report.compare(&name, &got, &wanted, |i| wanted[i].abs() * relative[i] + 2e-4);
    let untouched = arena.iter().zip(&wanted_arena).filter(|(a, b)| (**b == SENTINEL) && a != b);
    // A wanted byte may be the sentinel by chance, and then be off by rounding; a stray write would hit many.
    let strays = untouched.count();
    report
        .require(&name, strays * 400 <= got.len(), || format!("{strays} stray bytes in the arena"));
    let guard = &q[q_len..];
    report.require(&name, guard.iter().all(|x| x.to_bits() == sentinel.to_bits()), || {
        "the guard behind q was written".to_owned()
    });
}

#[test]
fn wrong_lengths_are_all_told() {
    let Some(gpu) = testing::gpu() else { return };
    let stream = Stream::new(&gpu).unwrap();
    let kernels = QkvPrepare::load(&gpu).unwrap();
    let case = cases().remove(4);
    let plan = Plan::new(&case.problem, gpu.limits()).unwrap();
    let small = gpu.alloc::<bf16>(8).unwrap();
    let (mut q, mut arena) = (gpu.alloc::<bf16>(8).unwrap(), gpu.alloc::<u8>(16).unwrap());
    let slots = gpu.alloc::<i32>(1).unwrap();
    let args = Args {
        qkv: small.view(),
        q: q.view_mut(),
        arena: arena.view_mut(),
        slots: slots.view(),
        scales: CacheScales::default(),
        rope: None,
        norms: None,
    };
    let error = kernels.launch(&stream, &plan, args).unwrap_err().to_string();
    for part in ["qkv has 8", "slots has 1", "arena has 16", "positions has 0", "q_norm has 0"] {
        assert!(error.contains(part), "{error}");
    }
}
