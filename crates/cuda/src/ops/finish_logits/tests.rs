use super::{super::parity::*, *};

#[test]
fn real_rows_are_scaled_and_capped() {
    let Some(device) = Device::open() else { return };
    let op = FinishLogits::load(&device.gpu).unwrap();
    let (mut findings, mut rng) = (Findings::default(), fastrand::Rng::with_seed(8));
    for (rows, real, vocab, stride) in
        [(0, 0, 4, 4), (1, 1, 1, 4), (3, 2, 1030, 1032), (4, 4, 4096, 4096), (2, 0, 8, 16)]
    {
        for (scale, softcap) in [(1.0, None), (0.125, None), (1.0, Some(30.0)), (0.5, Some(50.0))] {
            findings.case();
            let problem = Problem { rows, vocab, stride, scale, softcap };
            let case = format!("{problem:?} real {real}");
            let mut start = values(&mut rng, rows * stride);
            for (at, bad) in [(0, f32::NAN), (1, f32::INFINITY), (2, -f32::INFINITY)] {
                if let Some(place) = start.get_mut(at) {
                    *place = bad;
                }
            }
            let (mut logits, count) = (device.put(&start), device.put(&[real as u32]));
            let args = Args { logits: logits.view_mut(), rows: count.view() };
            op.launch(&device.stream, &Plan::new(&problem).unwrap(), args).unwrap();
            let finish = |logit: &f32| {
                let scaled = f64::from(*logit) * f64::from(scale);
                softcap.map_or(scaled, |cap| f64::from(cap) * (scaled / f64::from(cap)).tanh())
            };
            let seen = logits.read(&device, &case, &mut findings);
            for row in 0..rows {
                let at = row * stride..row * stride + vocab;
                let wanted: Vec<f64> = match row < real {
                    true => start[at.clone()].iter().map(finish).collect(),
                    false => widen32(&start[at.clone()]),
                };
                let name = format!("{case} row {row}");
                findings.compare(&name, widen32(&seen[at]), &wanted, Tolerance::F32);
            }
        }
    }
    findings.finish();
}

#[test]
fn strides_that_break_alignment_are_refused() {
    let problem = Problem { rows: 2, vocab: 6, stride: 6, scale: 1.0, softcap: None };
    assert!(Plan::new(&problem).is_err());
    assert!(Plan::new(&Problem { stride: 8, ..problem }).unwrap().is_identity());
}
