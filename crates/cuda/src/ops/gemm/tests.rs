use proptest::prelude::*;

use super::*;
use crate::{driver::Graph, testing};

/// Elements before and after every output that no kernel may touch.
const GUARD: usize = 1024;
/// Multiply-adds that the reference spends on one case.
const BUDGET: usize = 24_000_000;

/// A case's inputs, and what is expected of them at sampled places.
struct Setup {
    case: Case,
    x: Vec<bf16>,
    w: Vec<bf16>,
    bias: Vec<f32>,
    before: Vec<f32>,
    wanted: Vec<Wanted>,
}

#[derive(Clone, Copy)]
struct Wanted {
    row: usize,
    column: usize,
    value: f64,
    tolerance: f64,
}

impl Setup {
    fn new(case: Case) -> Setup {
        let Problem { rows, n, k, bias, output, .. } = case.problem;
        let (rows, n, k) = (rows as usize, n as usize, k as usize);
        let mut rng = fastrand::Rng::with_seed(rows as u64 * 31 + n as u64 * 7 + k as u64);
        let mut normal = move || (0..4).map(|_| rng.f32() - 0.5).sum::<f32>() * 1.73;
        let mut x: Vec<bf16> = (0..rows * k).map(|_| bf16::from_f32(normal())).collect();
        let scale = 1.0 / (k as f32).sqrt();
        let w = (0..n * k).map(|_| bf16::from_f32(normal() * scale)).collect();
        let bias = if bias { (0..n).map(|_| normal()).collect() } else { Vec::new() };
        match case.data {
            Data::Normal => {}
            Data::Outliers => {
                x.iter_mut().step_by(97).for_each(|v| *v = bf16::from_f32(v.to_f32() * 1000.0))
            }
            Data::Anomalies => {
                x[(rows / 3) * k + k / 2] = bf16::INFINITY;
                x[(rows / 2) * k + k / 3] = bf16::NAN;
            }
        }
        let columns = case.problem.columns() as usize;
        let before = match output {
            Output::AddF32 => (0..rows * columns).map(|_| normal()).collect(),
            _ => vec![f32::from_bits(0x4110_A5A5); rows * columns],
        };
        let mut setup = Setup { case, x, w, bias, before, wanted: Vec::new() };
        setup.wanted = setup.reference();
        setup
    }

    /// The output buffer before a run, guards included.
    fn filled(&self) -> Vec<u32> {
        let guard = || std::iter::repeat_n(0xA5A5_A5A5, GUARD);
        guard().chain(self.before.iter().map(|v| v.to_bits())).chain(guard()).collect()
    }

    fn live(&self) -> usize {
        self.case.live_rows.unwrap_or(self.case.problem.rows) as usize
    }

    /// What is wanted at all places, or at a sample of rows and columns where that is too much, the last ones always among them.
    fn reference(&self) -> Vec<Wanted> {
        let columns = self.case.problem.columns() as usize;
        let per_row = self.case.problem.n as usize * self.case.problem.k as usize;
        let row_count = (BUDGET / per_row).max(12);
        let column_count =
            (BUDGET / (row_count.min(self.live().max(1)) * self.case.problem.k as usize)).max(64);
        let mut wanted = Vec::new();
        for row in sample(self.live(), row_count) {
            for column in sample(columns, column_count) {
                wanted.push(self.at(row, column));
            }
        }
        wanted
    }

    fn at(&self, row: usize, column: usize) -> Wanted {
        let columns = self.case.problem.columns() as usize;
        let (value, tolerance) = match self.case.problem.output {
            Output::GateUp(activation) => {
                let gate_row = column / 8 * 16 + column % 8;
                let ((gate, gate_off), (up, up_off)) =
                    (self.sum(row, gate_row), self.sum(row, gate_row + 8));
                let act = apply(activation, gate);
                (
                    act * up,
                    (gate_off * 1.2 + 1e-5) * up.abs() + act.abs() * up_off + gate_off * up_off,
                )
            }
            Output::AddF32 => {
                let (sum, off) = self.sum(row, column);
                let before = f64::from(self.before[row * columns + column]);
                (before + sum, off + (before.abs() + sum.abs()) * 1e-7)
            }
            _ => self.sum(row, column),
        };
        let rounding = match self.case.problem.output {
            Output::Bf16 | Output::GateUp(_) => value.abs() / 256.0,
            _ => value.abs() * 1e-6,
        };
        Wanted { row, column, value, tolerance: tolerance + rounding + 1e-6 }
    }

    /// One sum in f64, and how far a sum in f32 may be from it.
    fn sum(&self, row: usize, weight_row: usize) -> (f64, f64) {
        let k = self.case.problem.k as usize;
        let (x, w) = (&self.x[row * k..][..k], &self.w[weight_row * k..][..k]);
        let (mut sum, mut size) = (0.0, 0.0);
        for (x, w) in x.iter().zip(w) {
            let product = f64::from(x.to_f32()) * f64::from(w.to_f32());
            sum += product;
            size += product.abs();
        }
        (sum + self.bias.get(weight_row).map_or(0.0, |&b| f64::from(b)), size * 4e-6)
    }
}

fn apply(activation: Activation, v: f64) -> f64 {
    match activation {
        Activation::Silu => v / (1.0 + (-v).exp()),
        Activation::GeluTanh => {
            0.5 * v * (1.0 + (0.797_884_560_802_865_4 * (v + 0.044_715 * v * v * v)).tanh())
        }
        Activation::GeluErf => 0.5 * v * (1.0 + erf(v / std::f64::consts::SQRT_2)),
    }
}

/// The error function: its series near zero, the continued fraction of its complement beyond.
fn erf(v: f64) -> f64 {
    let far = v.abs();
    if far > 2.0 {
        let fraction = (1..=60).rev().fold(far, |below, n| far + f64::from(n) / 2.0 / below);
        let rest = (-far * far).exp() / std::f64::consts::PI.sqrt() / fraction;
        return v.signum() * (1.0 - rest);
    }
    let (mut term, mut sum) = (v, v);
    for n in 1..60 {
        term *= -v * v / f64::from(n);
        sum += term / f64::from(2 * n + 1);
    }
    sum * 2.0 / std::f64::consts::PI.sqrt()
}

/// At most about `count` of `0..len`, spread, the last three among them.
fn sample(len: usize, count: usize) -> Vec<usize> {
    let step = len.div_ceil(count.max(1)).max(1);
    let mut picked: Vec<usize> = (0..len).step_by(step).chain(len.saturating_sub(3)..len).collect();
    picked.sort_unstable();
    picked.dedup();
    picked
}

/// A setup's inputs on the device, and an output with guards.
struct OnDevice {
    x: Buffer<bf16>,
    w: Buffer<bf16>,
    bias: Buffer<f32>,
    live: Buffer<u32>,
    y: Buffer<u32>,
}

impl OnDevice {
    fn new(gpu: &Arc<Gpu>, stream: &Stream, setup: &Setup) -> OnDevice {
        let mut on = OnDevice {
            x: gpu.alloc(setup.x.len()).unwrap(),
            w: gpu.alloc(setup.w.len()).unwrap(),
            bias: gpu.alloc(setup.bias.len()).unwrap(),
            live: gpu.alloc(1).unwrap(),
            y: gpu.alloc(setup.before.len() + 2 * GUARD).unwrap(),
        };
        stream.upload(&setup.x, on.x.view_mut()).unwrap();
        stream.upload(&setup.w, on.w.view_mut()).unwrap();
        stream.upload(&setup.bias, on.bias.view_mut()).unwrap();
        stream.upload(&[setup.live() as u32], on.live.view_mut()).unwrap();
        on
    }

    /// Runs one plan on a fresh output; the whole output, guards included, as words of `y`'s width.
    fn run(&mut self, gemm: &Gemm, stream: &Stream, setup: &Setup, plan: &Plan) -> Vec<u32> {
        stream.upload(&setup.filled(), self.y.view_mut()).unwrap();
        let len = setup.before.len();
        let narrow = matches!(plan.problem.output, Output::Bf16 | Output::GateUp(_));
        let y = self.y.view_mut();
        let y = match narrow {
            true => Target::Bf16(y.cast::<bf16>().slice(GUARD..GUARD + len)),
            false => Target::F32(y.cast::<f32>().slice(GUARD..GUARD + len)),
        };
        let args = Args {
            x: self.x.view(),
            w: self.w.view(),
            bias: plan.problem.bias.then(|| self.bias.view()),
            y,
            live_rows: setup.case.live_rows.map(|_| self.live.view()),
        };
        gemm.launch(stream, plan, args).unwrap();
        in_elements(stream.read(self.y.view()).unwrap(), narrow)
    }
}

/// Words, or their halves where elements are that narrow.
fn in_elements(words: Vec<u32>, narrow: bool) -> Vec<u32> {
    match narrow {
        true => bytemuck::cast_slice::<u32, u16>(&words).iter().map(|&v| u32::from(v)).collect(),
        false => words,
    }
}

/// What is wrong with one output, in a line, or nothing.
fn judge(setup: &Setup, plan: &Plan, seen: &[u32]) -> Option<String> {
    let columns = plan.problem.columns() as usize;
    let narrow = matches!(plan.problem.output, Output::Bf16 | Output::GateUp(_));
    let number = |word: u32| match narrow {
        true => f64::from(bf16::from_bits(word as u16).to_f32()),
        false => f64::from(f32::from_bits(word)),
    };
    let (mut wrong, mut count, mut worst) = (Vec::new(), 0, 0.0_f64);
    for wanted in &setup.wanted {
        let got = number(seen[GUARD + wanted.row * columns + wanted.column]);
        let off = (got - wanted.value).abs();
        let equal = got == wanted.value || got.is_nan() && wanted.value.is_nan();
        let near = off <= wanted.tolerance;
        if !(equal || near) {
            count += 1;
            worst = if off.is_nan() { f64::INFINITY } else { worst.max(off) };
            if wrong.len() < 4 {
                let Wanted { row, column, value, tolerance } = wanted;
                wrong.push(format!("[{row},{column}] {got} for {value} +- {tolerance:.1e}"));
            }
        }
    }
    // Everything around the rows that count is as it was.
    let (begin, end) = (GUARD, GUARD + setup.live() * columns);
    let filled = in_elements(setup.filled(), narrow);
    let outside = (0..begin).chain(end..seen.len());
    let touched: Vec<usize> = outside.filter(|&at| seen[at] != filled[at]).collect();
    if let Some(first) = touched.first() {
        wrong.push(format!(
            "{} elements outside touched, first {first} (output {begin}..{end})",
            touched.len()
        ));
    }
    let line = || {
        format!(
            "{:?} {:?}: {count} of {} wrong, worst {worst:.2e}: {}",
            plan.route,
            setup.case,
            setup.wanted.len(),
            wrong.join(" ")
        )
    };
    (!wrong.is_empty()).then(line)
}

fn routes(limits: &DeviceLimits) -> Vec<Route> {
    let portable = PORTABLE.iter().map(Route::Portable);
    portable.chain(WGMMA.iter().filter(|_| limits.has_wgmma()).map(Route::Wgmma)).collect()
}

/// Every tile over the case table.
fn all_cases(keep: impl Fn(&Route) -> bool) {
    let Some(gpu) = testing::gpu() else { return };
    let stream = Stream::new(&gpu).unwrap();
    let gemm = Gemm::load(&gpu).unwrap();
    let (mut failures, mut runs) = (Vec::new(), 0);
    for case in cases() {
        let setup = Setup::new(case);
        let mut on = OnDevice::new(&gpu, &stream, &setup);
        for route in routes(gpu.limits()).into_iter().filter(&keep) {
            let plan = Plan::by(&case.problem, gpu.limits(), route).unwrap();
            let seen = on.run(&gemm, &stream, &setup, &plan);
            runs += 1;
            failures.extend(judge(&setup, &plan, &seen));
        }
    }
    println!("{runs} runs, {} failures", failures.len());
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn portable_tiles_agree_with_the_reference() {
    all_cases(|route| matches!(route, Route::Portable(_)));
}

#[test]
fn wgmma_tiles_agree_with_the_reference() {
    all_cases(|route| matches!(route, Route::Wgmma(_)));
}

/// The library and 64 MiB for it; `None`, with a line that says so, where it is not installed.
fn with_library(gpu: &Arc<Gpu>) -> Option<Gemm> {
    match Cublaslt::open(&[]) {
        Ok(library) => {
            println!("{library:?}");
            Some(Gemm::load(gpu).unwrap().with_library(library, gpu.alloc(64 << 20).unwrap()))
        }
        Err(why) => {
            println!("skipped: {why}");
            None
        }
    }
}

#[test]
fn the_library_agrees_with_the_reference_plain_and_captured() {
    let Some(gpu) = testing::gpu() else { return };
    let stream = Stream::new(&gpu).unwrap();
    let Some(gemm) = with_library(&gpu) else { return };
    let (mut failures, mut done, mut passed_over) = (Vec::new(), 0, Vec::new());
    for case in cases().into_iter().filter(|case| case.live_rows.is_none()) {
        let setup = Setup::new(case);
        let mut on = OnDevice::new(&gpu, &stream, &setup);
        let plan = gemm.plan(&case.problem).unwrap();
        if plan.route != Route::Cublaslt {
            passed_over.push(case.problem);
        } else {
            done += 1;
        }
        let seen = on.run(&gemm, &stream, &setup, &plan);
        failures.extend(judge(&setup, &plan, &seen));
        if on.run(&gemm, &stream, &setup, &plan) != seen {
            failures.push(format!("{:?} {case:?}: a second run differs", plan.route));
        }
    }
    println!("{done} by the library, passed over: {passed_over:?}");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn tuning_keeps_a_way_that_works_and_a_graph_replays_it() {
    let Some(gpu) = testing::gpu() else { return };
    let stream = Stream::new(&gpu).unwrap();
    let mut gemm = with_library(&gpu).unwrap_or_else(|| Gemm::load(&gpu).unwrap());
    let problem = Problem::plain(96, 512, 1024);
    let setup = Setup::new(Case { problem, live_rows: None, data: Data::Normal });
    let mut on = OnDevice::new(&gpu, &stream, &setup);
    let mut y = gpu.alloc::<bf16>(96 * 512).unwrap();
    let weights = [on.w.view(); 2];
    let mut bench =
        Bench { x: on.x.view(), weights: &weights, bias: None, y: Target::Bf16(y.view_mut()) };
    let timings = gemm.tune(&stream, &problem, &mut bench).unwrap();
    assert!(!timings.is_empty() && timings.iter().all(|timing| timing.micros > 0.0), "{timings:?}");
    let chosen = gemm.choices().get(&problem).unwrap();
    assert!(timings.iter().any(|timing| timing.choice == chosen));
    let mut again = with_library(&gpu).unwrap_or_else(|| Gemm::load(&gpu).unwrap());
    again.adopt_all(gemm.choices());
    assert_eq!(again.choices().get(&problem), Some(chosen), "what was saved is taken");
    let plan = again.plan(&problem).unwrap();
    let eager = on.run(&again, &stream, &setup, &plan);
    assert_eq!(judge(&setup, &plan, &eager), None);
    let len = 96 * 512;
    let mut z = gpu.alloc::<bf16>(len).unwrap();
    stream.zero(z.view_mut()).unwrap();
    let graph = Graph::capture(&stream, |stream| {
        let y = Target::Bf16(z.view_mut());
        again.launch(
            stream,
            &plan,
            Args { x: on.x.view(), w: on.w.view(), bias: None, y, live_rows: None },
        )
    });
    graph.unwrap().launch(&stream).unwrap();
    let replayed = stream.read(z.view().cast::<u16>()).unwrap();
    let eager: Vec<u16> = eager[GUARD..][..len].iter().map(|&v| v as u16).collect();
    assert_eq!(replayed, eager, "graph == eager");

    // A shape that was never run is captured as well: nothing has to be loaded by a first launch.
    let few = Problem { rows: 80, ..problem };
    stream.zero(z.view_mut()).unwrap();
    let plan = again.plan(&few).unwrap();
    let graph = Graph::capture(&stream, |stream| {
        let x = on.x.view().slice(0..80 * 1024);
        let y = Target::Bf16(z.view_mut().slice(0..80 * 512));
        again.launch(stream, &plan, Args { x, w: on.w.view(), bias: None, y, live_rows: None })
    });
    graph.unwrap().launch(&stream).unwrap();
    let replayed = stream.read(z.view().slice(0..80 * 512)).unwrap();
    let near = |(a, b): (&bf16, &u16)| (a.to_f32() - bf16::from_bits(*b).to_f32()).abs() < 0.05;
    assert!(
        replayed.iter().zip(&eager).all(near),
        "{:?}: {:?} for {:?}",
        plan.route,
        &replayed[..8],
        &eager[..8]
    );
}

/// What `Problem::invariant` promises: one order of sums whatever the tile, and whatever the number of rows.
#[test]
fn a_row_never_depends_on_the_others_or_on_the_tile() {
    let Some(gpu) = testing::gpu() else { return };
    let stream = Stream::new(&gpu).unwrap();
    let gemm = Gemm::load(&gpu).unwrap();
    let (n, k) = (768, 1032);
    let problem = Problem { output: Output::F32, ..Problem::plain(300, n, k) };
    let setup = Setup::new(Case { problem, live_rows: None, data: Data::Normal });
    let mut on = OnDevice::new(&gpu, &stream, &setup);
    let mut failures = Vec::new();
    let mut first: [Option<Vec<u32>>; 2] = [None, None];
    for route in routes(gpu.limits()) {
        let plan = Plan::by(&problem, gpu.limits(), route).unwrap();
        let seen = on.run(&gemm, &stream, &setup, &plan);
        if on.run(&gemm, &stream, &setup, &plan) != seen {
            failures.push(format!("{route:?}: a second run differs"));
        }
        let family = match route {
            Route::Wgmma(tile) if tile.split > 1 => continue,
            Route::Wgmma(_) => 1,
            _ => 0,
        };
        let other = first[family].get_or_insert_with(|| seen.clone());
        let unequal = seen.iter().zip(other.iter()).filter(|(a, b)| a != b).count();
        if unequal > 0 {
            failures.push(format!(
                "{route:?}: {unequal} of {} differ from the family's first tile",
                seen.len()
            ));
        }
        // Seventeen rows alone.
        let few = Problem { rows: 17, ..problem };
        let plan = Plan::by(&few, gpu.limits(), route).unwrap();
        let few_rows = 17 * k as usize;
        let mut y = gpu.alloc::<f32>(17 * n as usize).unwrap();
        let args = Args {
            x: on.x.view().slice(0..few_rows),
            w: on.w.view(),
            bias: None,
            y: Target::F32(y.view_mut()),
            live_rows: None,
        };
        gemm.launch(&stream, &plan, args).unwrap();
        let alone = stream.read(y.view().cast::<u32>()).unwrap();
        if alone != seen[GUARD..][..alone.len()] {
            failures.push(format!("{route:?}: rows alone differ from rows among others"));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn everything_wrong_with_the_arguments_is_said_at_once() {
    let Some(gpu) = testing::gpu() else { return };
    let stream = Stream::new(&gpu).unwrap();
    let gemm = Gemm::load(&gpu).unwrap();
    let (x, mut y) = (gpu.alloc::<bf16>(64).unwrap(), gpu.alloc::<f32>(9).unwrap());
    let problem = Problem { bias: true, ..Problem::plain(2, 4, 32) };
    let args = Args {
        x: x.view(),
        w: x.view(),
        bias: None,
        y: Target::F32(y.view_mut().slice(1..9)),
        live_rows: None,
    };
    let error = gemm.launch(&stream, &gemm.plan(&problem).unwrap(), args).unwrap_err().to_string();
    for part in [
        "w has 64 elements, 128 wanted",
        "bias has 0 elements, 4 wanted",
        "wrong type",
        "not 16-byte aligned",
    ] {
        assert!(error.contains(part), "{part}: {error}");
    }
}

fn ampere() -> DeviceLimits {
    DeviceLimits {
        name: "A".to_owned(),
        arch: 80,
        sms: 108,
        shared_per_block: 163 * 1024,
        ..DeviceLimits::h200()
    }
}

fn small_ada() -> DeviceLimits {
    DeviceLimits {
        name: "B".to_owned(),
        arch: 89,
        sms: 24,
        shared_per_block: 99 * 1024,
        ..DeviceLimits::h200()
    }
}

#[test]
fn the_library_gets_what_it_can_do_and_our_kernels_the_rest() {
    let limits = DeviceLimits::h200();
    let plain = Problem::plain(2048, 6144, 4096);
    assert!(matches!(Plan::new(&plain, &limits, true).unwrap().route, Route::Wgmma(_)));
    for problem in [Problem { output: Output::AddF32, ..plain }, Problem { rows: 128, ..plain }] {
        assert_eq!(Plan::new(&problem, &limits, true).unwrap().route, Route::Cublaslt);
    }
    assert_eq!(Plan::new(&plain, &ampere(), true).unwrap().route, Route::Cublaslt);
    let gated = Problem { output: Output::GateUp(Activation::Silu), ..plain };
    assert_eq!(Plan::new(&gated, &limits, true).unwrap().route, Route::Wgmma(&WGMMA[3]));
    let steady = Problem { invariant: true, ..plain };
    assert!(matches!(Plan::new(&steady, &limits, true).unwrap().route, Route::Wgmma(_)));
    assert_eq!(Plan::new(&plain, &ampere(), false).unwrap().route, Route::Portable(&PORTABLE[3]));
    assert_eq!(
        Plan::new(&Problem::plain(9, 64, 64), &small_ada(), false).unwrap().route,
        Route::Portable(&PORTABLE[0])
    );
}

#[test]
fn half_filled_waves_are_avoided() {
    let tile = |rows, n| match Plan::ours(&Problem::plain(rows, n, 4096), &DeviceLimits::h200())
        .unwrap()
        .route
    {
        Route::Wgmma(tile) => (tile.columns, tile.cluster),
        other => panic!("{other:?}"),
    };
    // 4 x 32 blocks fill 128 of 132 multiprocessors; with 256 columns half of them would idle.
    assert_eq!(tile(512, 4096), (128, 1));
    assert_eq!(tile(512, 6144).0, 192);
    // 128 x 176 tiles, half of a block multiplies while the other stores.
    assert_eq!(tile(8192, 6144), (176, 1));
    // Few rows: the blocks that the columns leave idle take stretches of k.
    let split = Plan::ours(&Problem::plain(128, 4096, 4096), &DeviceLimits::h200()).unwrap();
    assert!(
        matches!(split.route, Route::Wgmma(WgmmaTile { columns: 128, split: 2, .. })),
        "{split:?}"
    );
    assert_eq!((split.shape().grid[0], split.shape().cluster), (64, 2));
    let steady = Problem { invariant: true, ..Problem::plain(128, 4096, 4096) };
    let steady = Plan::ours(&steady, &DeviceLimits::h200()).unwrap();
    assert!(matches!(steady.route, Route::Wgmma(WgmmaTile { split: 1, .. })), "{steady:?}");
}

#[test]
fn what_no_kernel_can_do_is_said() {
    for (problem, part) in [
        (Problem::plain(1, 8, 12), "k a positive multiple of 8"),
        (Problem::plain(1, 0, 8), "n at least 1"),
        (
            Problem { output: Output::GateUp(Activation::Silu), ..Problem::plain(1, 24, 8) },
            "multiple of 16",
        ),
    ] {
        let error = Plan::new(&problem, &DeviceLimits::h200(), true).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}

proptest! {
    #[test]
    fn every_plan_covers_its_output_within_the_device(
        rows in 1u32..20000, n in 1u32..262_145, k8 in 1u32..4096, which in 0usize..3, gated: bool,
    ) {
        let limits = [DeviceLimits::h200(), ampere(), small_ada()][which].clone();
        let n = if gated { n.next_multiple_of(16) } else { n };
        let output = if gated { Output::GateUp(Activation::Silu) } else { Output::Bf16 };
        let plan = Plan::ours(&Problem { output, ..Problem::plain(rows, n, k8 * 8) }, &limits).unwrap();
        let shape = plan.shape();
        prop_assert!(shape.shared <= limits.shared_per_block);
        match plan.route {
            Route::Portable(tile) => {
                let blocks = u64::from(rows.div_ceil(tile.size[0])) * u64::from(n.div_ceil(tile.size[1]));
                prop_assert_eq!(u64::from(shape.grid[0]), blocks);
            }
            Route::Wgmma(tile) => {
                prop_assert!(limits.has_wgmma());
                prop_assert!(shape.grid[0] > 0 && shape.grid[0].is_multiple_of(shape.cluster) && shape.cluster <= 8);
                prop_assert!(shape.grid[0] <= limits.sms || tile.split > 1);
                prop_assert!(tile.split == 1 || n.div_ceil(tile.columns) * rows.div_ceil(128) * tile.split == shape.grid[0]);
            }
            Route::Cublaslt => prop_assert!(false),
        }
    }
}
