use super::{
    super::{parity::*, rows::NormWeight},
    *,
};

const HANDOVERS: [Handover; 4] =
    [Handover::Nothing, Handover::Plain, Handover::Normed, Handover::Gained];

fn cases() -> Vec<Problem> {
    let sizes =
        [(0, 64), (1, 8), (3, 264), (64, 1024), (5, 4096), (2, 8192), (3, 8200), (2, 16384)];
    let problem =
        |(rows, hidden)| HANDOVERS.map(|handover| Problem { rows, hidden, vocab: 50, handover });
    sizes.into_iter().flat_map(problem).collect()
}

/// A token list of every kind, and the table's row that each means.
fn tokens(rows: usize, rng: &mut fastrand::Rng) -> (Vec<i32>, Vec<i32>, Vec<usize>) {
    let sampled = vec![7, 49, 1 << 30, -1];
    let kinds = (0..rows).map(|row| match row % 6 {
        0 => {
            let token = rng.usize(0..50);
            (token as i32, token)
        }
        1 => (-1, 7),
        2 => (-2, 49),
        3 => (-3, 0),
        4 => (-4, 0),
        _ => (-5, 0),
    });
    let (tokens, wanted) = kinds.unzip();
    (tokens, sampled, wanted)
}

#[test]
fn rows_are_looked_up_scaled_and_handed_on() {
    let Some(device) = Device::open() else { return };
    let embed = Embed::load(&device.gpu).unwrap();
    let (mut findings, mut rng) = (Findings::default(), fastrand::Rng::with_seed(3));
    for problem in cases() {
        for with_given in [false, true] {
            run(&device, &embed, &problem, with_given, &mut rng, &mut findings);
        }
    }
    findings.finish();
}

fn run(
    device: &Device,
    embed: &Embed,
    problem: &Problem,
    with_given: bool,
    rng: &mut fastrand::Rng,
    findings: &mut Findings,
) {
    findings.case();
    let case = format!("{problem:?} given {with_given}");
    let Problem { rows, hidden, vocab, handover } = *problem;
    let (table, weight) = (halves(rng, vocab * hidden), values(rng, hidden));
    let given = values(rng, 2 * hidden);
    let (tokens, sampled, means) = tokens(rows, rng);
    let given_rows: Vec<i32> = (0..rows).map(|row| [-1, 1, -1, 0][row % 4]).collect();
    let (scale, eps, stride) = (1.7f32, 1e-5, 3);
    let [d_table, mut x] = [device.put(&table), device.put(&vec![bf16::ONE; rows * hidden])];
    let [d_weight, d_given] = [device.put(&weight), device.put(&given)];
    let [d_tokens, d_sampled, d_rows] = [&tokens, &sampled, &given_rows].map(|v| device.put(v));
    let mut h = device.put(&vec![7.0f32; rows * hidden]);
    let mut partials = device.put(&vec![7.0f32; rows * stride + 1]);
    let norm = NormWeight { weight: d_weight.view(), eps };
    let args = Args {
        tokens: d_tokens.view(),
        sampled: d_sampled.view(),
        table: d_table.view(),
        scale,
        given: with_given.then(|| Given { rows: d_rows.view(), values: d_given.view() }),
        h: h.view_mut(),
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
    embed.launch(&device.stream, &Plan::new(problem).unwrap(), args).unwrap();
    let row = |row: usize| -> Vec<f64> {
        if with_given && given_rows[row] >= 0 {
            let at = given_rows[row] as usize * hidden;
            return widen32(&given[at..at + hidden]);
        }
        let entry = &table[means[row] * hidden..(means[row] + 1) * hidden];
        entry.iter().map(|value| f64::from(value.to_f32() * scale)).collect()
    };
    let wanted: Vec<Vec<f64>> = (0..rows).map(row).collect();
    let seen = h.read(device, &case, findings);
    findings.compare(&format!("{case} h"), widen32(&seen), &wanted.concat(), Tolerance::F32);
    check_next(device, &case, &wanted, &weight, eps, handover, stride, &x, &partials, findings);
}

#[test]
fn a_table_beyond_an_index_is_refused() {
    let problem = Problem { rows: 1, hidden: 64, vocab: 1 << 31, handover: Handover::Nothing };
    assert!(Plan::new(&problem).is_err());
}
