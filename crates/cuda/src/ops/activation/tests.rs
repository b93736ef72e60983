use super::{super::parity::*, *};

fn cases() -> Vec<Problem> {
    let sizes = [(0, 64), (1, 8), (3, 24), (1, 12288), (70, 3072), (130, 1032)];
    sizes.map(|(rows, intermediate)| Problem { rows, intermediate }).to_vec()
}

fn reference(function: Function, x: f64) -> f64 {
    match function {
        Function::Silu => x / (1.0 + (-x).exp()),
        Function::GeluTanh => {
            0.5 * x * (1.0 + (0.797_884_560_802_865_4 * (x + 0.044_715 * x * x * x)).tanh())
        }
        Function::GeluErf => 0.5 * x * (1.0 + erf(x * std::f64::consts::FRAC_1_SQRT_2)),
    }
}

/// The error function by its series, or 1 with its sign where that has no digits left.
fn erf(x: f64) -> f64 {
    if x.abs() > 6.0 || x.is_nan() {
        return if x.is_nan() { x } else { x.signum() };
    }
    // erf x = 2 / sqrt(pi) * e^(-x^2) * sum of 2^n x^(2n+1) / (1 * 3 * ... * (2n + 1)): all terms of one sign.
    let (mut term, mut sum) = (x, x);
    for n in 1..200 {
        term *= 2.0 * x * x / f64::from(2 * n + 1);
        sum += term;
    }
    2.0 / std::f64::consts::PI.sqrt() * (-x * x).exp() * sum
}

#[test]
fn gates_are_activated_and_multiplied() {
    let Some(device) = Device::open() else { return };
    let op = Activation::load(&device.gpu).unwrap();
    let (mut findings, mut rng) = (Findings::default(), fastrand::Rng::with_seed(6));
    for problem in cases() {
        for function in [Function::Silu, Function::GeluTanh, Function::GeluErf] {
            findings.case();
            let case = format!("{problem:?} {function:?}");
            let values = problem.rows * problem.intermediate;
            let mut gate_up = halves(&mut rng, 2 * values);
            // Gates around and beyond the bend, and some that are no numbers.
            for (gate, scale) in gate_up.chunks_mut(16).zip([1.0, 4.0, 9.0, 0.01].iter().cycle()) {
                gate[..8].iter_mut().for_each(|v| *v = bf16::from_f32(v.to_f32() * scale));
            }
            for (at, bad) in [(0, f32::INFINITY), (3, f32::NAN), (5, -f32::INFINITY)] {
                if let Some(gate) = gate_up.get_mut(at) {
                    *gate = bf16::from_f32(bad);
                }
            }
            let source = device.put(&gate_up);
            let mut a = device.put(&vec![bf16::ONE; values]);
            let args = Args { function, gate_up: source.view(), a: a.view_mut() };
            op.launch(&device.stream, &Plan::new(&problem).unwrap(), args).unwrap();
            let wanted: Vec<f64> = gate_up
                .chunks(16)
                .flat_map(|group| {
                    (0..8).map(|i| reference(function, group[i].to_f64()) * group[i + 8].to_f64())
                })
                .collect();
            let seen = a.read(&device, &case, &mut findings);
            // Far down the left branch of gelu 1 + tanh and 1 + erf lose their digits in f32.
            let tolerance = Tolerance { relative: 1.0 / 128.0, absolute: 5e-4 };
            findings.compare(&case, widen(&seen), &wanted, tolerance);
        }
    }
    findings.finish();
}

#[test]
fn odd_widths_are_refused() {
    assert!(Plan::new(&Problem { rows: 1, intermediate: 12 }).is_err());
    assert!(Plan::new(&Problem { rows: usize::MAX, intermediate: 64 }).is_err());
}
