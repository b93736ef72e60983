use super::{
    super::parity::*,
    plan::{Layout, layouts},
    *,
};
use crate::driver::{Buffer, DeviceLimits, Graph};

/// A weight on the device: a stretch of made-up values over and over, of a length that no row divides.
struct Weight {
    pattern: Vec<bf16>,
    buffer: Buffer<bf16>,
    inner: usize,
}

const PATTERN: usize = 1_000_003;

impl Weight {
    fn new(device: &Device, columns: usize, inner: usize, rng: &mut fastrand::Rng) -> Weight {
        let len = columns * inner;
        let pattern: Vec<bf16> =
            (0..PATTERN.min(len)).map(|_| bf16::from_f32((rng.f32() - 0.5) * 0.1)).collect();
        let mut buffer = device.gpu.alloc::<bf16>(len).unwrap();
        let first = device.put(&pattern);
        for start in (0..len).step_by(PATTERN) {
            let end = (start + PATTERN).min(len);
            let from = first.view().slice(0..end - start);
            device.stream.copy(from, buffer.view_mut().slice(start..end)).unwrap();
        }
        device.stream.synchronize().unwrap();
        Weight { pattern, buffer, inner }
    }

    /// The product of row `column` with a row of `x`, and the sum of its magnitudes.
    fn dot(&self, column: usize, x: &[bf16]) -> (f64, f64) {
        let start = column * self.inner;
        let terms = x.iter().enumerate().map(|(i, x)| {
            f64::from(self.pattern[(start + i) % PATTERN].to_f32()) * f64::from(x.to_f32())
        });
        terms.fold((0.0, 0.0), |(sum, size), term| (sum + term, size + term.abs()))
    }
}

/// One product as the tests ask for it.
struct Trial {
    problem: Problem,
    layout: Option<Layout>,
    bias: bool,
    norm: bool,
    softcap: Option<f32>,
    function: Activation,
    /// Rows of `x` with an infinity, a NaN, a value of 1e30.
    special: bool,
}

/// Everything that one launch left behind.
struct Seen {
    plan: Plan,
    out: Vec<f64>,
    next: Vec<f64>,
    partials: Vec<f64>,
    best: Vec<u64>,
}

struct Inputs {
    x: Vec<bf16>,
    stride: usize,
    bias: Vec<f32>,
    gain: Vec<f32>,
    h: Vec<f32>,
    sums: Vec<f32>,
}

const SUMS: usize = 37;
const SUMS_STRIDE: usize = 40;
const EPS: f32 = 1e-3;
const SCALE: f32 = 0.75;

impl Inputs {
    fn new(trial: &Trial, rng: &mut fastrand::Rng) -> Inputs {
        let Problem { rows, columns, inner, .. } = trial.problem;
        let stride = inner + 8;
        let mut x: Vec<bf16> =
            (0..rows * stride).map(|_| bf16::from_f32((rng.f32() - 0.5) * 2.0)).collect();
        if trial.special {
            for (row, bad) in [(1, f32::INFINITY), (2, f32::NAN), (3, 1e30), (4, 1000.0)] {
                if row < rows {
                    x[row * stride + inner - 1 - row] = bf16::from_f32(bad);
                }
            }
        }
        let mut floats =
            |len: usize, scale: f32| (0..len).map(|_| (rng.f32() - 0.5) * scale).collect();
        let sums: Vec<f32> = floats(rows * SUMS_STRIDE, 1.0);
        Inputs {
            x,
            stride,
            bias: floats(columns, 1.0),
            gain: floats(columns, 3.0),
            h: floats(rows * columns, 4.0),
            sums: sums.iter().map(|v| v + 0.6).collect(),
        }
    }

    fn row_scale(&self, trial: &Trial, row: usize) -> f64 {
        if !trial.norm {
            return 1.0;
        }
        let sums = &self.sums[row * SUMS_STRIDE..][..SUMS];
        let mean = sums.iter().map(|v| f64::from(*v)).sum::<f64>() / trial.problem.inner as f64;
        1.0 / (mean + f64::from(EPS)).sqrt()
    }
}

fn launch(
    device: &Device,
    op: &Skinny,
    weight: &Weight,
    trial: &Trial,
    inputs: &Inputs,
    findings: &mut Findings,
    case: &str,
) -> Seen {
    let problem = trial.problem;
    let limits = device.gpu.limits();
    let plan = match &trial.layout {
        Some(layout) => Plan::laid_out(&problem, limits, layout).unwrap(),
        None => Plan::new(&problem, limits).unwrap(),
    };
    let (rows, columns, partials) = (problem.rows, problem.columns, plan.partials());
    let x = device.put(&inputs.x);
    let [bias, gain, sums] = [&inputs.bias, &inputs.gain, &inputs.sums].map(|v| device.put(v));
    let mut h = device.put(&inputs.h);
    let mut y = device.put(&vec![bf16::ONE; rows * columns]);
    let mut logits = device.put(&vec![1.0f32; rows * columns]);
    let mut squares = device.put(&vec![7.0f32; rows * (partials + 3)]);
    let mut keys = device.put(&vec![7u64; rows * partials]);
    let output = match problem.ending {
        Ending::Plain => Output::Plain { y: y.view_mut() },
        Ending::GateUp => Output::GateUp {
            a: y.view_mut().slice(0..rows * columns / 2),
            function: trial.function,
        },
        Ending::Residual => Output::Residual {
            h: h.view_mut(),
            scale: SCALE,
            next: Some(NextX {
                x: y.view_mut(),
                gain: gain.view(),
                partials: squares.view_mut(),
                stride: partials + 3,
            }),
        },
        Ending::Logits => Output::Logits {
            logits: logits.view_mut(),
            scale: SCALE,
            softcap: trial.softcap,
            best: Some(Best { keys: keys.view_mut(), columns: counted(columns) }),
        },
    };
    let norm = RowNorm {
        partials: sums.view(),
        count: SUMS,
        stride: SUMS_STRIDE,
        width: problem.inner,
        eps: EPS,
    };
    let args = Args {
        x: x.view(),
        x_stride: inputs.stride,
        weight: weight.buffer.view().slice(0..columns * problem.inner),
        bias: trial.bias.then(|| bias.view()),
        norm: trial.norm.then_some(norm),
        output,
    };
    op.launch(&device.stream, &plan, args).unwrap();
    let (y, h, logits) = (
        y.read(device, case, findings),
        h.read(device, case, findings),
        logits.read(device, case, findings),
    );
    let keys = keys.read(device, case, findings);
    Seen {
        out: match problem.ending {
            Ending::Plain | Ending::GateUp => widen(&y),
            Ending::Residual => widen32(&h),
            Ending::Logits => widen32(&logits),
        },
        next: widen(&y),
        partials: widen32(&squares.read(device, case, findings)),
        best: keys,
        plan,
    }
}

/// Columns of a head that are tokens: some behind them only make its rows whole.
fn counted(columns: usize) -> usize {
    columns.saturating_sub(5).max(1)
}

/// Columns that are compared: all, or both ends and some between, in groups of 16.
fn sampled(columns: usize, most: usize) -> Vec<usize> {
    if columns <= most {
        return (0..columns).collect();
    }
    let groups = columns / 16;
    let step = (groups * 16).div_ceil(most).max(1);
    let last = (groups - 1..groups).chain((0..groups).step_by(step));
    let mut groups: Vec<usize> = last.collect();
    groups.sort_unstable();
    groups.dedup();
    let mut all: Vec<usize> = groups.into_iter().flat_map(|g| 16 * g..16 * g + 16).collect();
    all.extend(columns / 16 * 16..columns);
    all
}

fn activated(function: Activation, x: f64) -> f64 {
    match function {
        Activation::Silu => x / (1.0 + (-x).exp()),
        Activation::GeluTanh => {
            0.5 * x * (1.0 + (0.797_884_560_802_865_4 * (x + 0.044_715 * x * x * x)).tanh())
        }
        Activation::GeluErf => 0.5 * x * (1.0 + erf(x * std::f64::consts::FRAC_1_SQRT_2)),
    }
}

/// The error function by its series, or 1 with its sign where that has no digits left.
fn erf(x: f64) -> f64 {
    if x.abs() > 6.0 || x.is_nan() {
        return if x.is_nan() { x } else { x.signum() };
    }
    let (mut term, mut sum) = (x, x);
    for n in 1..200 {
        term *= 2.0 * x * x / f64::from(2 * n + 1);
        sum += term;
    }
    2.0 / std::f64::consts::PI.sqrt() * (-x * x).exp() * sum
}

/// Is `seen` as near to `wanted` as `tolerance` asks? What f32 cannot hold is infinite.
fn near(seen: f64, wanted: f64, tolerance: f64) -> bool {
    let wanted = if wanted.abs() > 3.39e38 { wanted.signum() * f64::INFINITY } else { wanted };
    seen == wanted || seen.is_nan() && wanted.is_nan() || (seen - wanted).abs() <= tolerance
}

fn judge(trial: &Trial, inputs: &Inputs, weight: &Weight, seen: &Seen, most: usize) -> Vec<String> {
    let Problem { rows, columns, inner, ending, .. } = trial.problem;
    let columns_seen = sampled(columns, most);
    let mut wrong = Vec::new();
    let mut expect = |what: &str, row: usize, column: usize, seen: f64, wanted: f64, by: f64| {
        if !near(seen, wanted, by) {
            wrong.push(format!("{what}[{row},{column}] {seen:e}, wanted {wanted:e} +- {by:e}"));
        }
    };
    for row in 0..rows {
        let x = &inputs.x[row * inputs.stride..][..inner];
        let scale = inputs.row_scale(trial, row);
        // A product with its bias, and what f32 may do to it.
        let product = |column: usize| {
            let (sum, size) = weight.dot(column, x);
            let bias = if trial.bias { f64::from(inputs.bias[column]) } else { 0.0 };
            let value = sum * scale + bias;
            (value, 1e-5 * size * scale + 1e-6 * value.abs() + 1e-30)
        };
        let mut squares = 0.0;
        for &column in &columns_seen {
            let at = row * columns + column;
            if ending == Ending::GateUp && column % 16 >= 8 {
                continue;
            }
            let (value, by) = product(column);
            match ending {
                Ending::Plain => {
                    expect("y", row, column, seen.out[at], value, value.abs() / 250.0 + by);
                }
                Ending::Logits => {
                    let value = value * f64::from(SCALE);
                    let capped = trial.softcap.map(f64::from).map(|cap| cap * (value / cap).tanh());
                    let by = by + if capped.is_some() { 1e-5 } else { 0.0 };
                    expect("logit", row, column, seen.out[at], capped.unwrap_or(value), by);
                }
                Ending::Residual => {
                    let h = f64::from(inputs.h[at]) + f64::from(SCALE) * value;
                    expect("h", row, column, seen.out[at], h, by + 1e-6 * h.abs());
                    let next = seen.out[at] * f64::from(inputs.gain[column]);
                    let by = next.abs() / 250.0 + 1e-30;
                    expect("next x", row, column, seen.next[at], next, by);
                    squares += seen.out[at] * seen.out[at];
                }
                Ending::GateUp => {
                    let (up, up_by) = product(column + 8);
                    let gate = activated(trial.function, value);
                    let wanted = gate * up;
                    let by = wanted.abs() / 100.0
                        + 1.2 * by * up.abs()
                        + up_by * gate.abs()
                        + by * up_by
                        + 1e-6;
                    let place = column / 16 * 8 + column % 8;
                    expect("a", row, place, seen.out[row * columns / 2 + place], wanted, by);
                }
            }
        }
        if ending == Ending::Residual && columns_seen.len() == columns {
            let partials = seen.plan.partials();
            let sum: f64 = seen.partials[row * (partials + 3)..][..partials].iter().sum();
            expect("squares", row, 0, sum, squares, 1e-4 * squares);
        }
        if ending == Ending::Logits {
            let logits = &seen.out[row * columns..][..columns];
            // A NaN is above everything; of equals the first wins.
            let key = |v: f64| if v.is_nan() { f64::INFINITY } else { v };
            let better = |best: usize, i: usize| match logits[best].is_nan() {
                false if logits[i].is_nan() || key(logits[i]) > key(logits[best]) => i,
                _ => best,
            };
            let wanted = (0..counted(columns)).fold(0, better);
            let best = &seen.best[row * seen.plan.partials()..][..seen.plan.partials()];
            let first = !(best.iter().copied().max().unwrap_or(0) as u32);
            expect("best column", row, 0, f64::from(first), wanted as f64, 0.0);
        }
    }
    wrong
}

fn try_one(
    device: &Device,
    op: &Skinny,
    weight: &Weight,
    trial: &Trial,
    most: usize,
    rng: &mut fastrand::Rng,
    findings: &mut Findings,
) {
    findings.case();
    let case = format!("{:?} {:?}", trial.problem, trial.layout);
    let inputs = Inputs::new(trial, rng);
    let seen = launch(device, op, weight, trial, &inputs, findings, &case);
    let wrong = judge(trial, &inputs, weight, &seen, most);
    if let Some(first) = wrong.first() {
        let more = wrong.get(1).map_or("", |text| text);
        findings.push(&case, format!("{} wrong: {first}; {more}", wrong.len()));
    }
}

const ENDINGS: [Ending; 4] = [Ending::Plain, Ending::Residual, Ending::GateUp, Ending::Logits];
const ROWS: [usize; 13] = [1, 2, 3, 7, 8, 9, 16, 17, 31, 32, 33, 63, 64];

fn problem(rows: usize, columns: usize, inner: usize, ending: Ending) -> Problem {
    Problem { rows, columns, inner, ending, invariant: false }
}

/// Every layout of every family that this device runs and the problem allows.
fn all_layouts(problem: &Problem, limits: &DeviceLimits) -> Vec<Layout> {
    let mut all = layouts(problem, limits);
    all.extend(layouts(&Problem { invariant: true, ..*problem }, limits));
    all.extend([80, 100].iter().flat_map(|arch| {
        let limits = DeviceLimits { arch: *arch, ..limits.clone() };
        layouts(problem, &limits)
    }));
    let others = all.iter().flat_map(|layout| {
        let other = |trigger_lead| Layout { stage_bytes: 8192, trigger_lead, ..*layout };
        [other(1), other(u32::MAX)]
    });
    all.extend(others.collect::<Vec<_>>());
    all.retain(|layout| Plan::laid_out(problem, limits, layout).is_some());
    all
}

#[test]
fn small_products_end_as_asked_in_every_layout() {
    let Some(device) = Device::open() else { return };
    let op = Skinny::load(&device.gpu).unwrap();
    let (mut findings, mut rng) = (Findings::default(), fastrand::Rng::with_seed(11));
    let sizes = [(8, 64), (24, 72), (72, 200), (208, 1000), (1000, 256), (384, 512)];
    for (columns, inner) in sizes {
        let weight = Weight::new(&device, columns, inner, &mut rng);
        for (rows, ending) in ROWS.into_iter().flat_map(|rows| ENDINGS.map(|ending| (rows, ending)))
        {
            let problem = problem(rows, columns, inner, ending);
            if ending == Ending::GateUp && !columns.is_multiple_of(16) {
                assert!(Plan::new(&problem, device.gpu.limits()).is_err());
                continue;
            }
            for layout in all_layouts(&problem, device.gpu.limits()) {
                if rng.u32(0..16) > 0 {
                    continue;
                }
                let functions = [Activation::Silu, Activation::GeluTanh, Activation::GeluErf];
                let trial = Trial {
                    problem,
                    layout: Some(layout),
                    bias: rng.bool(),
                    norm: rng.bool() && ending != Ending::Residual,
                    softcap: rng.bool().then_some(3.0),
                    function: functions[rng.usize(0..3)],
                    special: rng.u32(0..4) == 0,
                };
                let most = 8192 / rows.max(8) * 64 / inner.min(512);
                try_one(&device, &op, &weight, &trial, most, &mut rng, &mut findings);
            }
        }
    }
    findings.finish();
}

#[test]
fn large_products_are_right_where_they_are_sampled() {
    let Some(device) = Device::open() else { return };
    let op = Skinny::load(&device.gpu).unwrap();
    let (mut findings, mut rng) = (Findings::default(), fastrand::Rng::with_seed(12));
    let cases = [
        (6144, 4096, Ending::Plain, [1, 9, 64]),
        (4096, 12288, Ending::Residual, [2, 16, 33]),
        (24576, 4096, Ending::GateUp, [8, 17, 32]),
        (1024, 3072, Ending::Residual, [1, 7, 31]),
        (3072, 2048, Ending::Plain, [3, 16, 63]),
        (151_936, 1024, Ending::Logits, [1, 8, 33]),
    ];
    for (columns, inner, ending, rows) in cases {
        let weight = Weight::new(&device, columns, inner, &mut rng);
        for (rows, invariant) in rows.into_iter().flat_map(|rows| [(rows, false), (rows, true)]) {
            let problem = Problem { invariant, ..problem(rows, columns, inner, ending) };
            let trial = Trial {
                problem,
                layout: None,
                bias: true,
                norm: ending != Ending::Residual,
                softcap: None,
                function: Activation::Silu,
                special: false,
            };
            let most = (2_000_000 / rows / inner).max(16);
            try_one(&device, &op, &weight, &trial, most, &mut rng, &mut findings);
        }
    }
    findings.finish();
}

#[test]
fn no_rows_are_no_launch() {
    let Some(device) = Device::open() else { return };
    let op = Skinny::load(&device.gpu).unwrap();
    let mut findings = Findings::default();
    let mut rng = fastrand::Rng::with_seed(13);
    let weight = Weight::new(&device, 64, 64, &mut rng);
    let trial = Trial {
        problem: problem(0, 64, 64, Ending::Plain),
        layout: None,
        bias: false,
        norm: false,
        softcap: None,
        function: Activation::Silu,
        special: false,
    };
    try_one(&device, &op, &weight, &trial, 64, &mut rng, &mut findings);
    findings.finish();
}

#[test]
fn invariant_rows_do_not_see_how_many_there_are() {
    let Some(device) = Device::open() else { return };
    let op = Skinny::load(&device.gpu).unwrap();
    let mut findings = Findings::default();
    let mut rng = fastrand::Rng::with_seed(14);
    let (columns, inner) = (1024, 2048);
    let weight = Weight::new(&device, columns, inner, &mut rng);
    let mut all: Option<(Inputs, Vec<f64>)> = None;
    for rows in ROWS.into_iter().rev() {
        let trial = Trial {
            problem: Problem { invariant: true, ..problem(rows, columns, inner, Ending::Logits) },
            layout: None,
            bias: true,
            norm: true,
            softcap: None,
            function: Activation::Silu,
            special: false,
        };
        let case = format!("{rows} rows");
        let inputs = match &all {
            None => Inputs::new(&trial, &mut rng),
            Some((first, _)) => Inputs {
                x: first.x[..rows * first.stride].to_vec(),
                stride: first.stride,
                bias: first.bias.clone(),
                gain: first.gain.clone(),
                h: first.h[..rows * columns].to_vec(),
                sums: first.sums[..rows * SUMS_STRIDE].to_vec(),
            },
        };
        let seen = launch(&device, &op, &weight, &trial, &inputs, &mut findings, &case);
        let first = all.get_or_insert((inputs, seen.out.clone()));
        assert_eq!(seen.out[..], first.1[..rows * columns], "{case}");
    }
    findings.finish();
}

/// Residual, gate and up, residual, ... of made-up layers: what stays in `h` after launches one by one, captured, replayed.
#[test]
fn a_captured_chain_equals_single_launches() {
    let Some(device) = Device::open() else { return };
    let op = Skinny::load(&device.gpu).unwrap();
    let mut rng = fastrand::Rng::with_seed(15);
    let (hidden, inner) = (1024, 2048);
    let up = Weight::new(&device, 2 * inner, hidden, &mut rng);
    let down = Weight::new(&device, hidden, inner, &mut rng);
    for rows in [1, 7, 16, 33, 64] {
        let plan = |columns, inner, ending| {
            Plan::new(&problem(rows, columns, inner, ending), device.gpu.limits()).unwrap()
        };
        let up_plan = plan(2 * inner, hidden, Ending::GateUp);
        let down_plan = plan(hidden, inner, Ending::Residual);
        let mut floats = |len: usize| -> Vec<f32> { (0..len).map(|_| rng.f32() - 0.5).collect() };
        let (start, gain) = (floats(rows * hidden), device.put(&floats(hidden)));
        let halves: Vec<bf16> = start.iter().map(|v| bf16::from_f32(*v)).collect();
        let run = |captured: bool| {
            let mut h = device.put(&start);
            let mut x = device.put(&halves);
            let mut a = device.put(&vec![bf16::ZERO; rows * inner]);
            let count = down_plan.partials();
            let mut sums = device.put(&vec![1.0f32; rows * count]);
            let mut chain = |stream: &Stream| -> Result<(), DriverError> {
                for _ in 0..12 {
                    let norm = RowNorm {
                        partials: sums.view(),
                        count,
                        stride: count,
                        width: hidden,
                        eps: EPS,
                    };
                    let output = Output::GateUp { a: a.view_mut(), function: Activation::Silu };
                    let (bias, norm) = (None, Some(norm));
                    let weight = up.buffer.view();
                    let args = Args { x: x.view(), x_stride: hidden, weight, bias, norm, output };
                    op.launch(stream, &up_plan, args)?;
                    let next = NextX {
                        x: x.view_mut(),
                        gain: gain.view(),
                        partials: sums.view_mut(),
                        stride: count,
                    };
                    let output = Output::Residual { h: h.view_mut(), scale: 0.5, next: Some(next) };
                    let weight = down.buffer.view();
                    let args =
                        Args { x: a.view(), x_stride: inner, weight, bias, norm: None, output };
                    op.launch(stream, &down_plan, args)?;
                    if !captured {
                        stream.synchronize()?;
                    }
                }
                Ok(())
            };
            match captured {
                false => chain(&device.stream).unwrap(),
                true => {
                    let graph = Graph::capture(&device.stream, &mut chain).unwrap();
                    graph.launch(&device.stream).unwrap();
                    device.stream.synchronize().unwrap();
                }
            }
            let mut findings = Findings::default();
            let h = h.read(&device, "chain", &mut findings);
            findings.finish();
            h
        };
        let (single, captured) = (run(false), run(true));
        assert!(single.iter().all(|v| v.is_finite()) && single != start);
        assert_eq!(single, captured, "{rows} rows");
    }
}
