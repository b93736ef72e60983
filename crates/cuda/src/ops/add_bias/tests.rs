use super::{super::parity::*, *};

#[test]
fn every_row_gets_the_bias() {
    let Some(device) = Device::open() else { return };
    let op = AddBias::load(&device.gpu).unwrap();
    let (mut findings, mut rng) = (Findings::default(), fastrand::Rng::with_seed(7));
    for (rows, columns) in [(0, 8), (1, 8), (3, 0), (5, 2048), (7, 2056), (300, 1536)] {
        findings.case();
        let problem = Problem { rows, columns };
        let case = format!("{problem:?}");
        let (start, bias) = (halves(&mut rng, rows * columns), values(&mut rng, columns));
        let (mut y, d_bias) = (device.put(&start), device.put(&bias));
        let args = Args { y: y.view_mut(), bias: d_bias.view() };
        op.launch(&device.stream, &Plan::new(&problem).unwrap(), args).unwrap();
        let biases = bias.iter().cycle();
        let wanted = start.iter().zip(biases).map(|(y, b)| f64::from(y.to_f32() + b));
        let wanted: Vec<f64> = wanted.collect();
        let seen = y.read(&device, &case, &mut findings);
        findings.compare(&case, widen(&seen), &wanted, Tolerance::BF16);
    }
    findings.finish();
}

#[test]
fn what_does_not_fit_a_grid_is_refused() {
    assert!(Plan::new(&Problem { rows: 1, columns: 12 }).is_err());
    assert!(Plan::new(&Problem { rows: 65536, columns: 8 }).is_err());
}
