use super::{super::parity::*, *};

fn cases() -> Vec<Problem> {
    let sizes = [(0, 64), (1, 8), (4, 72), (64, 1024), (5, 4096), (2, 8192), (3, 8200), (2, 16384)];
    sizes.map(|(rows, hidden)| Problem { rows, hidden }).to_vec()
}

#[test]
fn chosen_rows_are_normed_and_padding_is_left_alone() {
    let Some(device) = Device::open() else { return };
    let op = RmsNorm::load(&device.gpu).unwrap();
    let (mut findings, mut rng) = (Findings::default(), fastrand::Rng::with_seed(5));
    for problem in cases() {
        for (gathers, wants_x, wants_full) in
            [(false, true, false), (true, true, true), (true, false, true), (true, true, false)]
        {
            let wants = (gathers, wants_x, wants_full);
            run(&device, &op, &problem, wants, &mut rng, &mut findings);
        }
    }
    findings.finish();
}

fn run(
    device: &Device,
    op: &RmsNorm,
    problem: &Problem,
    (gathers, wants_x, wants_full): (bool, bool, bool),
    rng: &mut fastrand::Rng,
    findings: &mut Findings,
) {
    findings.case();
    let case = format!("{problem:?} gathers {gathers} x {wants_x} full {wants_full}");
    let Problem { rows, hidden } = *problem;
    let tokens = rows + 3;
    let (h, weight, eps) = (values(rng, tokens * hidden), values(rng, hidden), 1e-6);
    let chosen: Vec<i32> = (0..rows)
        .map(|row| match (gathers, row % 3) {
            (false, _) => row as i32,
            (true, 1) => -1,
            (true, _) => rng.i32(0..tokens as i32),
        })
        .collect();
    let [d_h, d_weight] = [device.put(&h), device.put(&weight)];
    let d_chosen = device.put(&chosen);
    let mut x = device.put(&vec![bf16::ONE; rows * hidden]);
    let mut full = device.put(&vec![1.0f32; rows * hidden]);
    let args = Args {
        h: d_h.view(),
        rows: gathers.then(|| d_chosen.view()),
        norm: NormWeight { weight: d_weight.view(), eps },
        x: wants_x.then(|| x.view_mut()),
        full: wants_full.then(|| full.view_mut()),
    };
    op.launch(&device.stream, &problem.plan().unwrap(), args).unwrap();
    let wanted = |is_wanted: bool| -> Vec<f64> {
        let row = |from: &i32| match is_wanted && *from >= 0 {
            true => {
                let at = *from as usize * hidden;
                rms_norm(&widen32(&h[at..at + hidden]), &weight, eps)
            }
            false => vec![1.0; hidden],
        };
        chosen.iter().flat_map(row).collect()
    };
    let seen = x.read(device, &case, findings);
    findings.compare(&format!("{case} x"), widen(&seen), &wanted(wants_x), Tolerance::BF16);
    let seen = full.read(device, &case, findings);
    findings.compare(&format!("{case} full"), widen32(&seen), &wanted(wants_full), Tolerance::F32);
}
