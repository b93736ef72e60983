use super::{super::parity::*, *};

fn cases() -> Vec<Problem> {
    let sizes =
        [(0, 64), (1, 8), (3, 264), (64, 1024), (5, 4096), (2, 8192), (3, 8200), (2, 16384)];
    let handovers = [Handover::Nothing, Handover::Plain, Handover::Normed, Handover::Gained];
    let problem = |(rows, hidden)| handovers.map(|handover| Problem { rows, hidden, handover });
    sizes.into_iter().flat_map(problem).collect()
}

#[test]
fn branches_are_normed_added_and_handed_on() {
    let Some(device) = Device::open() else { return };
    let op = ResidualNorm::load(&device.gpu).unwrap();
    let (mut findings, mut rng) = (Findings::default(), fastrand::Rng::with_seed(4));
    for problem in cases() {
        for (post, scale) in [(false, 1.0), (true, 0.22)] {
            let h = values(&mut rng, problem.rows * problem.hidden);
            run(&device, &op, &problem, post, scale, h, &mut rng, &mut findings);
        }
    }
    // Rows that are no numbers stay so, and their neighbours do not notice.
    let problem = Problem { rows: 3, hidden: 264, handover: Handover::Normed };
    for bad in [f32::INFINITY, f32::NAN] {
        let mut h = values(&mut rng, problem.rows * problem.hidden);
        h[264 + 17] = bad;
        run(&device, &op, &problem, false, 1.0, h, &mut rng, &mut findings);
    }
    findings.finish();
}

#[allow(clippy::too_many_arguments)]
fn run(
    device: &Device,
    op: &ResidualNorm,
    problem: &Problem,
    post: bool,
    scale: f32,
    start: Vec<f32>,
    rng: &mut fastrand::Rng,
    findings: &mut Findings,
) {
    findings.case();
    let case = format!("{problem:?} post {post} scale {scale}");
    let Problem { rows, hidden, handover } = *problem;
    let y = halves(rng, rows * hidden);
    let (weight, post_weight) = (values(rng, hidden), values(rng, hidden));
    let (eps, stride) = (1e-6, 2);
    let [d_y, mut x] = [device.put(&y), device.put(&vec![bf16::ONE; rows * hidden])];
    let [d_weight, d_post] = [device.put(&weight), device.put(&post_weight)];
    let [mut h, mut partials] = [device.put(&start), device.put(&vec![7.0f32; rows * stride + 1])];
    let norm = NormWeight { weight: d_weight.view(), eps };
    let args = Args {
        h: h.view_mut(),
        y: d_y.view(),
        post: post.then(|| NormWeight { weight: d_post.view(), eps }),
        scale,
        next: match handover {
            Handover::Nothing => Next::Nothing,
            Handover::Plain => Next::Plain { x: x.view_mut() },
            Handover::Normed => Next::Normed { x: x.view_mut(), norm },
            Handover::Gained => Next::Gained {
                x: x.view_mut(),
                weight: d_weight.view(),
                partials: partials.view_mut(),
                stride,
            },
        },
    };
    op.launch(&device.stream, &problem.plan().unwrap(), args).unwrap();
    let row = |row: usize| -> Vec<f64> {
        let at = row * hidden..(row + 1) * hidden;
        let branch = widen(&y[at.clone()]);
        let branch = if post { rms_norm(&branch, &post_weight, eps) } else { branch };
        let sum = start[at].iter().zip(branch);
        sum.map(|(h, y)| f64::from(*h) + f64::from(scale) * y).collect()
    };
    let wanted: Vec<Vec<f64>> = (0..rows).map(row).collect();
    let seen = h.read(device, &case, findings);
    // A sum of large values that cancel keeps the error of its parts.
    let tolerance = Tolerance { relative: 2e-6, absolute: 1e-3 };
    findings.compare(&format!("{case} h"), widen32(&seen), &wanted.concat(), tolerance);
    let seen: Vec<Vec<f64>> = match hidden {
        0 => Vec::new(),
        _ => widen32(&seen).chunks(hidden).map(<[f64]>::to_vec).collect(),
    };
    check_next(device, &case, &seen, &weight, eps, handover, stride, &x, &partials, findings);
}
