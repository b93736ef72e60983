//! Against float64, over lengths, widths, groups, windows, splits and types of cache.

use models::semantic::QkNormExtent;

use super::*;
use crate::{
    driver::Graph,
    ops::heads::{
        MAX_HEAD_DIM,
        reference::{Normal, Preparing, Report, load, offset, store},
    },
    testing,
};

/// What rows nobody may write hold.
const SENTINEL: u16 = 0xA5A5;

#[derive(Clone, Debug)]
struct Case {
    heads: Heads,
    /// Tokens of each sequence, the query tokens included.
    lengths: Vec<usize>,
    /// Sequences that the plan has room for beside.
    spare: usize,
    queries: usize,
    window: Option<usize>,
    softcap: Option<f32>,
    /// Size of queries and keys.
    size: f32,
    invariant: bool,
    /// Width of the rotation, where the projection is prepared too.
    fused: Option<usize>,
    norm: bool,
}

const HEADS: Heads = Heads { heads: 8, kv_heads: 2, head_dim: 128, cache: CacheType::Bf16 };

fn base(lengths: Vec<usize>) -> Case {
    Case {
        heads: HEADS,
        lengths,
        spare: 0,
        queries: 1,
        window: None,
        softcap: None,
        size: 1.0,
        invariant: false,
        fused: None,
        norm: false,
    }
}

fn both_caches(cases: Vec<Case>) -> Vec<Case> {
    let fp8 = cases.iter().cloned().map(|mut case| {
        case.heads.cache = CacheType::Fp8;
        case
    });
    let fp8: Vec<Case> = fp8.collect();
    cases.into_iter().chain(fp8).collect()
}

fn lengths() -> Vec<Case> {
    both_caches(vec![
        base((1..=130).collect()),
        base(vec![1]),
        base(vec![16, 17]),
        base(vec![400]),
        base(vec![1000, 3, 4096, 257]),
        Case { spare: 5, ..base(vec![100; 40]) },
        base((0..80).map(|i| 1 + i * 37 % 700).collect()),
        Case { invariant: true, ..base(vec![5, 512, 513, 2000, 4096]) },
    ])
}

fn widths() -> Vec<Case> {
    let dims = [8, 16, 24, 32, 40, 64, 72, 80, 96, 104, 128, 160, 192, 256];
    let dim = |head_dim| Case { heads: Heads { head_dim, ..HEADS }, ..base(vec![1, 33, 300]) };
    let groups =
        [(1, 1), (2, 1), (3, 1), (4, 4), (7, 1), (14, 2), (8, 1), (16, 1), (17, 1), (40, 1)];
    let group = |(heads, kv_heads)| Case {
        heads: Heads { heads, kv_heads, ..HEADS },
        ..base(vec![2, 150])
    };
    both_caches(dims.into_iter().map(dim).chain(groups.into_iter().map(group)).collect())
}

fn options() -> Vec<Case> {
    let window = |window: usize| Case {
        window: Some(window),
        ..base(vec![1, 15, 16, 17, 31, 32, 33, 100, 128, 129, 1000])
    };
    let mut cases: Vec<Case> = [1, 2, 15, 16, 17, 32, 100, 128, 999, 1000, 5000].map(window).into();
    cases.push(Case { softcap: Some(5.0), ..base(vec![1, 50, 700]) });
    cases.push(Case { softcap: Some(50.0), size: 20.0, ..base(vec![1, 50, 700]) });
    cases.push(Case { size: 40.0, ..base(vec![1, 50, 700]) });
    cases.push(Case { size: 0.0, ..base(vec![20]) });
    for queries in [2, 3, 8] {
        cases.push(Case { queries, ..base(vec![queries, 17 + queries, 500]) });
        cases.push(Case { queries, window: Some(20), ..base(vec![queries, 40, 500]) });
        let heads = Heads { heads: 3, kv_heads: 1, ..HEADS };
        cases.push(Case { queries, heads, ..base(vec![16, 40, 500]) });
    }
    both_caches(cases)
}

fn fused() -> Vec<Case> {
    let prepared = |rotary: usize, norm: bool, head_dim: usize| Case {
        heads: Heads { head_dim, ..HEADS },
        fused: Some(rotary),
        norm,
        ..base(vec![1, 2, 16, 17, 100, 400, 1000])
    };
    let mut cases = vec![
        prepared(128, true, 128),
        prepared(128, false, 128),
        prepared(0, false, 128),
        prepared(64, true, 64),
        prepared(256, true, 256),
        prepared(16, true, 16),
        prepared(32, false, 80),
        prepared(20, true, 96),
        prepared(24, true, 24),
        Case { window: Some(33), ..prepared(128, true, 128) },
        Case { softcap: Some(20.0), spare: 3, ..prepared(128, true, 128) },
        Case { lengths: (1..=70).collect(), ..prepared(128, true, 128) },
        Case { invariant: true, ..prepared(128, true, 128) },
    ];
    // So many that four blocks of threads share a multiprocessor, each with one sequence, several, or none.
    for (head_dim, kv_heads) in [(128, 8), (64, 8), (128, 2)] {
        let heads = Heads { heads: 2 * kv_heads, kv_heads, head_dim, ..HEADS };
        for (lengths, spare) in
            [(vec![1, 2, 16, 17, 100, 400, 1000], 220), ((1..=60).collect(), 170)]
        {
            cases.push(Case { heads, lengths, spare, ..prepared(head_dim, true, head_dim) });
        }
    }
    for (heads, kv_heads) in [(1, 1), (7, 1), (16, 1), (20, 1), (4, 4)] {
        let heads = Heads { heads, kv_heads, ..HEADS };
        cases.push(Case { heads, ..prepared(128, true, 128) });
    }
    both_caches(cases)
}

fn problem(case: &Case) -> Problem {
    Problem {
        heads: case.heads,
        sequences: (case.lengths.len() + case.spare) * case.queries,
        queries: case.queries,
        max_blocks: case.lengths.iter().max().copied().unwrap_or(1).div_ceil(BLOCK_TOKENS),
        window: case.window,
        scale: 1.0 / (case.heads.head_dim as f32).sqrt(),
        softcap: case.softcap,
        invariant: case.invariant,
        preparation: case.fused.map(|rotary_dim| Preparation { rotary_dim, norm: case.norm }),
    }
}

/// A case's inputs on the host. Everything in the arena that no query may see is NaN.
struct Inputs {
    case: Case,
    q: Vec<bf16>,
    arena: Vec<u8>,
    tables: Vec<i32>,
    work: Vec<SequenceWork>,
    positions: Vec<i32>,
    preparing: Preparing,
}

impl Inputs {
    fn new(case: &Case, seed: u64) -> Inputs {
        let heads = case.heads;
        let mut normal = Normal::new(seed);
        let rows = case.lengths.len() * case.queries;
        let width =
            if case.fused.is_some() { heads.qkv_width() } else { heads.heads * heads.head_dim };
        let q = normal.bf16s(rows * width, case.size);
        let norm = case.norm.then_some(QkNormExtent::Head);
        let preparing = Preparing::new(heads, case.fused.unwrap_or(0), norm, seed + 1);
        let (mut tables, mut work) = (vec![], vec![]);
        let spare = 3;
        let total: usize = case.lengths.iter().map(|len| len.div_ceil(BLOCK_TOKENS)).sum();
        let mut free: Vec<i32> = (0..(total + spare) as i32).collect();
        normal.0.shuffle(&mut free);
        for (index, length) in case.lengths.iter().enumerate() {
            let position = length - case.queries;
            let seen = case.window.map_or(0, |window| (position + 1).saturating_sub(window));
            // Every other table begins where the window does; the others still hold what has left it.
            let first = if index % 2 == 0 { seen / BLOCK_TOKENS } else { 0 };
            work.push(SequenceWork {
                query_row: (index * case.queries) as u32,
                queries: case.queries as u32,
                position: position as u32,
                table_at: tables.len() as u32,
                table_first: first as u32,
            });
            for _ in first..length.div_ceil(BLOCK_TOKENS) {
                tables.push(free.pop().unwrap());
            }
        }
        let positions = work.iter().map(|work| work.position as i32).collect();
        let bytes = if heads.cache == CacheType::Fp8 { [0x7f, 0xff] } else { [0xc0, 0x7f] };
        let arena = bytes.repeat((total + spare) * heads.block_bytes() / 2);
        let mut inputs =
            Inputs { case: case.clone(), q, arena, tables, work, positions, preparing };
        for index in 0..inputs.work.len() {
            let end = inputs.case.lengths[index] - usize::from(case.fused.is_some());
            for token in inputs.seen(index, 0).start..end {
                inputs.fill(index, token, &mut normal);
            }
        }
        inputs
    }

    /// What query token `query` of a sequence sees.
    fn seen(&self, index: usize, query: usize) -> std::ops::Range<usize> {
        let at = self.work[index].position as usize + query;
        self.case.window.map_or(0, |window| (at + 1).saturating_sub(window))..at + 1
    }

    fn slot(&self, index: usize, token: usize) -> usize {
        let work = self.work[index];
        let entry = work.table_at as usize + token / BLOCK_TOKENS - work.table_first as usize;
        self.tables[entry] as usize * BLOCK_TOKENS + token % BLOCK_TOKENS
    }

    fn fill(&mut self, index: usize, token: usize, normal: &mut Normal) {
        let (heads, scales) = (self.case.heads, self.preparing.scales);
        let (slot, bytes) = (self.slot(index, token), heads.cache.bytes());
        for (kv, scale, size) in [(0, scales.k, self.case.size), (1, scales.v, 1.0)] {
            for head in 0..heads.kv_heads {
                let at = offset(&heads, slot, kv, head);
                for element in self.arena[at..at + heads.head_dim * bytes].chunks_mut(bytes) {
                    store(heads.cache, scale, normal.next() * size, element);
                }
            }
        }
    }

    fn cached(&self, index: usize, token: usize, kv: usize, head: usize) -> Vec<f64> {
        let (heads, scales) = (self.case.heads, self.preparing.scales);
        let (at, bytes) = (offset(&heads, self.slot(index, token), kv, head), heads.cache.bytes());
        let scale = if kv == 0 { scales.k } else { scales.v };
        let line = self.arena[at..at + heads.head_dim * bytes].chunks(bytes);
        line.map(|element| f64::from(load(heads.cache, scale, element))).collect()
    }

    /// Queries of every row; where the projection is prepared, its keys and values go to the cache first.
    fn queries(&mut self) -> Vec<Vec<f64>> {
        let heads = self.case.heads;
        if self.case.fused.is_none() {
            let rows = self.q.chunks(heads.heads * heads.head_dim);
            return rows.map(|row| row.iter().map(|x| x.to_f64()).collect()).collect();
        }
        let mut queries = Vec::new();
        for index in 0..self.work.len() {
            let row = &self.q[index * heads.qkv_width()..(index + 1) * heads.qkv_width()];
            let position = self.positions[index];
            let [q, k, v] = self.preparing.apply(row, position, index % 2);
            queries.push(q);
            let (slot, bytes) = (self.slot(index, position as usize), heads.cache.bytes());
            let scales = self.preparing.scales;
            for (kv, values, scale) in [(0, k, scales.k), (1, v, scales.v)] {
                for (i, value) in values.into_iter().enumerate() {
                    let at =
                        offset(&heads, slot, kv, i / heads.head_dim) + i % heads.head_dim * bytes;
                    store(heads.cache, scale, value as f32, &mut self.arena[at..at + bytes]);
                }
            }
        }
        queries
    }

    /// The outputs, and the sums of |p * v| that their errors are measured by.
    fn reference(&mut self) -> (Vec<f64>, Vec<f64>) {
        let queries = self.queries();
        let Case { heads, softcap, queries: count, .. } = self.case;
        let scale = f64::from(problem(&self.case).scale);
        let (mut out, mut sizes) = (Vec::new(), Vec::new());
        for (row, query) in queries.iter().enumerate() {
            let (index, seen) = (row / count, self.seen(row / count, row % count));
            for head in 0..heads.heads {
                let q = &query[head * heads.head_dim..(head + 1) * heads.head_dim];
                let kv_head = head / heads.group();
                let score = |token: usize| {
                    let k = self.cached(index, token, 0, kv_head);
                    let score = q.iter().zip(k).map(|(q, k)| q * k).sum::<f64>() * scale;
                    let cap = softcap.map(f64::from);
                    cap.map_or(score, |cap| cap * (score / cap).tanh())
                };
                let scores: Vec<f64> = seen.clone().map(score).collect();
                let high = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let sum: f64 = scores.iter().map(|score| (score - high).exp()).sum();
                let (mut mixed, mut size) = ([0.0; MAX_HEAD_DIM], [0.0; MAX_HEAD_DIM]);
                for (token, score) in seen.clone().zip(&scores) {
                    let p = (score - high).exp() / sum;
                    let values = self.cached(index, token, 1, kv_head);
                    for (i, v) in values.into_iter().enumerate() {
                        mixed[i] += p * v;
                        size[i] += (p * v).abs();
                    }
                }
                out.extend(&mixed[..heads.head_dim]);
                sizes.extend(&size[..heads.head_dim]);
            }
        }
        (out, sizes)
    }
}

/// A case's inputs on the device.
struct Device {
    plan: Plan,
    q: Buffer<bf16>,
    arena: Buffer<u8>,
    tables: Buffer<i32>,
    items: Buffer<Item>,
    out: Buffer<bf16>,
    positions: Buffer<i32>,
    regimes: Buffer<i32>,
    inv_freq: Buffer<f32>,
    q_weight: Buffer<f32>,
    k_weight: Buffer<f32>,
    scratch: Scratch,
}

fn upload<T: bytemuck::Pod>(stream: &Stream, values: &[T]) -> Buffer<T> {
    let mut buffer = stream.gpu().alloc(values.len()).unwrap();
    stream.upload(values, buffer.view_mut()).unwrap();
    buffer
}

fn items(plan: &Plan, work: &[SequenceWork]) -> Vec<Item> {
    let mut items = vec![Item::default(); plan.items()];
    plan.cutting().fill(work, &mut items).expect("room for the items");
    items
}

impl Device {
    fn new(stream: &Stream, inputs: &Inputs) -> Device {
        let problem = problem(&inputs.case);
        let heads = problem.heads;
        let plan = Plan::new(&problem, stream.gpu().limits()).unwrap();
        let width = if inputs.case.fused.is_some() {
            heads.qkv_width()
        } else {
            heads.heads * heads.head_dim
        };
        let mut q = inputs.q.clone();
        q.resize(problem.sequences * width, bf16::NAN);
        let guard = 64;
        let out = vec![
            bf16::from_bits(SENTINEL);
            problem.sequences * heads.heads * heads.head_dim + guard
        ];
        let padded = |values: Vec<i32>| {
            let mut values = values;
            values.resize(problem.sequences, 0);
            upload(stream, &values)
        };
        let regimes = (0..inputs.work.len() as i32).map(|row| row % 2).collect();
        Device {
            plan,
            q: upload(stream, &q),
            arena: upload(stream, &inputs.arena),
            tables: upload(stream, &inputs.tables),
            items: upload(stream, &items(&plan, &inputs.work)),
            out: upload(stream, &out),
            positions: padded(inputs.positions.clone()),
            regimes: padded(regimes),
            inv_freq: upload(stream, &inputs.preparing.inv_freq),
            q_weight: upload(stream, &inputs.preparing.q_weight),
            k_weight: upload(stream, &inputs.preparing.k_weight),
            scratch: Scratch::new(stream, [&plan]).unwrap(),
        }
    }

    fn launch(
        &mut self,
        stream: &Stream,
        kernels: &AttentionDecode,
        preparing: &Preparing,
    ) -> Result<(), DriverError> {
        let preparation = self.plan.problem.preparation;
        let args = Args {
            q: self.q.view(),
            arena: self.arena.view_mut(),
            tables: self.tables.view(),
            items: self.items.view(),
            out: self.out.view_mut(),
            scales: preparing.scales,
            rope: preparation.map(|_| Rope {
                positions: self.positions.view(),
                regimes: Some(self.regimes.view()),
                inv_freq: self.inv_freq.view(),
                factors: preparing.factors,
            }),
            norms: preparation.filter(|preparation| preparation.norm).map(|_| Norms {
                q: self.q_weight.view(),
                k: self.k_weight.view(),
                eps: preparing.eps,
            }),
        };
        kernels.launch(stream, &self.plan, &mut self.scratch, args)
    }

    fn out(&self, stream: &Stream) -> Vec<bf16> {
        stream.read(self.out.view()).unwrap()
    }
}

fn bits(values: &[bf16]) -> Vec<u16> {
    values.iter().map(|value| value.to_bits()).collect()
}

fn run(stream: &Stream, kernels: &AttentionDecode, case: &Case, report: &mut Report) {
    let lengths = &case.lengths[..case.lengths.len().min(12)];
    let name =
        format!("{:?} fused {:?}", Case { lengths: lengths.to_vec(), ..case.clone() }, case.fused);
    let mut inputs = Inputs::new(case, 11);
    let mut device = Device::new(stream, &inputs);
    device.launch(stream, kernels, &inputs.preparing).unwrap();
    stream.synchronize().unwrap_or_else(|error| panic!("{name}: {error}"));
    let out = device.out(stream);
    let before = inputs.arena.clone();
    let (wanted, sizes) = inputs.reference();
    let got: Vec<f32> = out[..wanted.len()].iter().map(|value| value.to_f32()).collect();
    // Probabilities and the result are rounded to bf16; large scores carry the rounding of their own sums.
    let tolerance = if case.size > 4.0 || case.fused.is_some() { 0.02 } else { 0.008 };
    report.compare(&name, &got, &wanted, |i| tolerance * sizes[i] + 1e-6);
    let rest = &out[wanted.len()..];
    report.require(&name, rest.iter().all(|value| value.to_bits() == SENTINEL), || {
        "padding rows or the guard were written".to_owned()
    });
    let arena = stream.read(device.arena.view()).unwrap();
    let strays = arena
        .iter()
        .zip(&inputs.arena)
        .zip(&before)
        .filter(|((a, b), before)| a != b && (case.fused.is_none() || b == before));
    let (strays, appended) =
        (strays.count(), case.lengths.len() * 2 * case.heads.kv_heads * case.heads.head_dim);
    let allowed = if case.fused.is_some() { appended / 400 } else { 0 };
    report.require(&name, strays <= allowed, || format!("{strays} stray bytes in the arena"));
    if case.fused.is_some() {
        compare_appended(case, &name, &inputs, &arena, report);
    }
    device.launch(stream, kernels, &inputs.preparing).unwrap();
    let again = device.out(stream);
    report.require(&name, bits(&again) == bits(&out), || "a second run differs".to_owned());
    let counters = stream.read(device.scratch.counters.view()).unwrap();
    report.require(&name, counters.iter().all(|count| *count == 0), || {
        "counters are left".to_owned()
    });
}

/// Keys and values that the kernel appended, against those of the reference.
fn compare_appended(case: &Case, name: &str, inputs: &Inputs, arena: &[u8], report: &mut Report) {
    let (heads, bytes) = (case.heads, case.heads.cache.bytes());
    let (mut got, mut wanted) = (Vec::new(), Vec::new());
    for index in 0..inputs.work.len() {
        let slot = inputs.slot(index, inputs.work[index].position as usize);
        for (kv, scale) in [(0, inputs.preparing.scales.k), (1, inputs.preparing.scales.v)] {
            for head in 0..heads.kv_heads {
                let at = offset(&heads, slot, kv, head);
                let range = at..at + heads.head_dim * bytes;
                let value = |element: &[u8]| load(heads.cache, scale, element);
                got.extend(arena[range.clone()].chunks(bytes).map(value));
                wanted.extend(inputs.arena[range].chunks(bytes).map(|x| f64::from(value(x))));
            }
        }
    }
    // One step of the type's grid: where the two round apart.
    let step = if bytes == 1 { 0.126 } else { 0.0079 };
    let name = format!("{name} appended");
    report.compare(&name, &got, &wanted, |i| wanted[i].abs() * step + 1e-4);
}

fn run_all(cases: Vec<Case>) {
    let Some(gpu) = testing::gpu() else { return };
    let stream = Stream::new(&gpu).unwrap();
    let kernels = AttentionDecode::load(&gpu).unwrap();
    let mut report = Report::default();
    cases.iter().for_each(|case| run(&stream, &kernels, case, &mut report));
    report.finish();
}

#[test]
fn agrees_with_float64_at_every_length() {
    run_all(lengths());
}

#[test]
fn agrees_with_float64_at_every_width_and_group() {
    run_all(widths());
}

#[test]
fn agrees_with_float64_under_windows_caps_and_extreme_scores() {
    run_all(options());
}

#[test]
fn agrees_with_float64_where_the_projection_is_prepared() {
    run_all(fused());
}

#[test]
fn agrees_with_float64_at_131072_tokens() {
    let heads = Heads { heads: 4, kv_heads: 1, head_dim: 64, ..HEADS };
    run_all(both_caches(vec![Case { heads, ..base(vec![131_072, 7]) }]));
}

#[test]
fn no_sequences_write_nothing() {
    let Some(gpu) = testing::gpu() else { return };
    let stream = Stream::new(&gpu).unwrap();
    let kernels = AttentionDecode::load(&gpu).unwrap();
    let inputs = Inputs::new(&Case { spare: 4, ..base(vec![]) }, 1);
    let mut device = Device::new(&stream, &inputs);
    device.launch(&stream, &kernels, &inputs.preparing).unwrap();
    assert!(device.out(&stream).iter().all(|value| value.to_bits() == SENTINEL));
}

#[test]
fn a_replayed_graph_follows_the_lengths() {
    let Some(gpu) = testing::gpu() else { return };
    let stream = Stream::new(&gpu).unwrap();
    let kernels = AttentionDecode::load(&gpu).unwrap();
    let mut inputs = Inputs::new(&base(vec![900, 40, 333, 1]), 5);
    let mut device = Device::new(&stream, &inputs);
    let graph = Graph::capture(&stream, |stream| {
        (0..3).try_for_each(|_| device.launch(stream, &kernels, &inputs.preparing))
    });
    let graph = graph.unwrap();
    for lengths in [[900usize, 40, 333, 1], [17, 39, 200, 1], [801, 1, 16, 1]] {
        inputs
            .work
            .iter_mut()
            .zip(lengths)
            .for_each(|(work, length)| work.position = length as u32 - 1);
        let list = items(&device.plan, &inputs.work);
        stream.upload(&list, device.items.view_mut()).unwrap();
        graph.launch(&stream).unwrap();
        let replayed = device.out(&stream);
        device.launch(&stream, &kernels, &inputs.preparing).unwrap();
        assert_eq!(bits(&replayed), bits(&device.out(&stream)), "{lengths:?}");
        inputs.case.lengths = lengths.to_vec();
        let (wanted, sizes) = inputs.reference();
        for (i, wanted) in wanted.iter().enumerate() {
            let error = (replayed[i].to_f64() - wanted).abs();
            assert!(
                error <= 0.008 * sizes[i] + 1e-6,
                "{lengths:?} {i}: {} for {wanted}",
                replayed[i]
            );
        }
    }
}

#[test]
fn invariant_rows_do_not_know_the_batch() {
    let Some(gpu) = testing::gpu() else { return };
    let stream = Stream::new(&gpu).unwrap();
    let kernels = AttentionDecode::load(&gpu).unwrap();
    let case = Case { invariant: true, ..base(vec![700, 5, 1300, 512, 513, 90]) };
    let inputs = Inputs::new(&case, 9);
    let mut device = Device::new(&stream, &inputs);
    device.launch(&stream, &kernels, &inputs.preparing).unwrap();
    let together = bits(&device.out(&stream));
    let width = case.heads.heads * case.heads.head_dim;
    for (row, work) in inputs.work.iter().enumerate() {
        let alone = vec![bf16::from_bits(SENTINEL); device.out.len()];
        stream.upload(&alone, device.out.view_mut()).unwrap();
        let list = items(&device.plan, &[*work]);
        stream.upload(&list, device.items.view_mut()).unwrap();
        device.launch(&stream, &kernels, &inputs.preparing).unwrap();
        let range = row * width..(row + 1) * width;
        assert_eq!(bits(&device.out(&stream))[range.clone()], together[range], "row {row}");
    }
}

#[test]
fn plans_fit_every_device_and_refuse_what_no_kernel_does() {
    let small = DeviceLimits {
        arch: 120,
        shared_per_block: 99 << 10,
        shared_per_sm: 100 << 10,
        ..DeviceLimits::h200()
    };
    let all = [lengths(), widths(), options(), fused()].concat();
    for limits in [DeviceLimits::h200(), small] {
        for case in &all {
            let plan = Plan::new(&problem(case), &limits).unwrap();
            assert!(plan.shared <= limits.shared_per_block as usize, "{plan:?}");
            assert!(plan.cutting.columns > 0);
        }
    }
    let good = problem(&base(vec![5]));
    let eight_b = Problem { heads: Heads { heads: 32, kv_heads: 8, ..HEADS }, ..good };
    let plan = Plan::new(&eight_b, &DeviceLimits::h200()).unwrap();
    assert_eq!((plan.cutting.columns, plan.cutting.cluster, plan.units), (16, 8, 8));
    for wrong in [
        Problem { queries: 9, ..good },
        Problem { queries: 0, ..good },
        Problem { window: Some(0), ..good },
        Problem { softcap: Some(0.0), ..good },
        Problem {
            queries: 2,
            preparation: Some(Preparation { rotary_dim: 0, norm: false }),
            ..good
        },
        Problem { preparation: Some(Preparation { rotary_dim: 130, norm: false }), ..good },
    ] {
        assert!(Plan::new(&wrong, &DeviceLimits::h200()).is_err(), "{wrong:?}");
    }
}
