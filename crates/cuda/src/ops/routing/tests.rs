use models::semantic::ExpertGroups;

use super::{super::parity::*, *};

const SOFTMAX: RouterSpec = RouterSpec {
    scores: RouterScores::Softmax,
    correction: false,
    groups: None,
    normalise: true,
    scale: 1.0,
};

const SIGMOID: RouterSpec = RouterSpec {
    scores: RouterScores::Sigmoid,
    correction: true,
    groups: None,
    normalise: false,
    scale: 2.5,
};

/// A token's experts and their weights, in f64.
fn reference(problem: &Problem, logits: &[f32], correction: &[f32]) -> Vec<(u32, f64)> {
    let Problem { router, per_token, experts, .. } = *problem;
    let top = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let wide: Vec<f64> = logits.iter().map(|logit| f64::from(*logit)).collect();
    let scores: Vec<f64> = match router.scores {
        RouterScores::Sigmoid => wide.iter().map(|logit| 1.0 / (1.0 + (-logit).exp())).collect(),
        RouterScores::Softmax => {
            let powers: Vec<f64> = wide.iter().map(|x| (x - f64::from(top)).exp()).collect();
            let sum: f64 = powers.iter().sum();
            powers.iter().map(|power| power / sum).collect()
        }
    };
    let added = |expert: usize| if router.correction { f64::from(correction[expert]) } else { 0.0 };
    let rank = |expert: usize| match scores[expert] + added(expert) {
        rank if rank.is_nan() => f64::MIN,
        rank => rank,
    };
    let mut open: Vec<usize> = (0..experts).collect();
    if let Some(ExpertGroups { count, kept }) = router.groups {
        let size = experts / count;
        let strength = |group: &usize| {
            let mut ranks: Vec<f64> = (group * size..(group + 1) * size).map(rank).collect();
            ranks.sort_by(|a, b| b.total_cmp(a));
            ranks[0] + ranks[1]
        };
        let mut groups: Vec<usize> = (0..count).collect();
        groups.sort_by(|a, b| strength(b).total_cmp(&strength(a)));
        open.retain(|expert| groups[..kept].contains(&(expert / size)));
    }
    open.sort_by(|a, b| rank(*b).total_cmp(&rank(*a)));
    let chosen = &open[..per_token];
    let sum: f64 = chosen.iter().map(|expert| scores[*expert]).sum();
    let factor = f64::from(router.scale) / if router.normalise { sum } else { 1.0 };
    chosen.iter().map(|expert| (*expert as u32, scores[*expert] * factor)).collect()
}

/// The case table: experts, experts a token, tile rows, router.
fn cases() -> Vec<Problem> {
    let grouped =
        |count, kept| RouterSpec { groups: Some(ExpertGroups { count, kept }), ..SIGMOID };
    let shapes = [
        (1, 1, 16, SOFTMAX),
        (4, 2, 16, SOFTMAX),
        (8, 8, 16, SIGMOID),
        (31, 3, 64, SOFTMAX),
        (33, 5, 16, SIGMOID),
        (128, 8, 16, SOFTMAX),
        (128, 8, 128, RouterSpec { normalise: false, ..SOFTMAX }),
        (160, 6, 64, SIGMOID),
        (256, 8, 64, grouped(8, 4)),
        (16, 4, 16, grouped(4, 2)),
        (64, 2, 16, grouped(32, 1)),
        (512, 10, 16, SOFTMAX),
        (1000, 32, 16, SIGMOID),
        (1024, 4, 128, SOFTMAX),
    ];
    let rows = [0, 1, 2, 5, 64, 333, 3000];
    let problem = |(experts, per_token, tile_rows, router), rows| Problem {
        rows,
        experts,
        per_token,
        router,
        tile_rows,
    };
    rows.iter().flat_map(|rows| shapes.map(|shape| problem(shape, *rows))).collect()
}

struct Seen {
    chosen: Vec<u32>,
    weights: Vec<f32>,
    order: Vec<u32>,
    tiles: Vec<ExpertTile>,
}

fn run(
    device: &Device,
    op: &Routing,
    problem: &Problem,
    logits: &[f32],
    correction: &[f32],
    live: Option<usize>,
    findings: &mut Findings,
) -> Seen {
    let case = format!("{problem:?}");
    let (logits, correction) = (device.put(logits), device.put(correction));
    let mut chosen = device.put(&vec![u32::MAX; problem.visits()]);
    let mut weights = device.put(&vec![f32::NAN; problem.visits()]);
    let mut order = device.put(&vec![u32::MAX; problem.visits()]);
    let mut tiles = device.put(&vec![ExpertTile::zeroed(); problem.most_tiles()]);
    let mut tile_count = device.put(&[0u32]);
    let live_rows = live.map(|live| device.put(&[live as u32]));
    let args = Args {
        logits: logits.view(),
        live: live_rows.as_ref().map(Guarded::view),
        correction: problem.router.correction.then_some(correction.view()),
        chosen: chosen.view_mut(),
        weights: weights.view_mut(),
        order: order.view_mut(),
        tiles: tiles.view_mut(),
        tile_count: tile_count.view_mut(),
    };
    op.launch(&device.stream, &Plan::new(problem).unwrap(), args).unwrap();
    let count = tile_count.read(device, &case, findings)[0] as usize;
    Seen {
        chosen: chosen.read(device, &case, findings),
        weights: weights.read(device, &case, findings),
        order: order.read(device, &case, findings),
        tiles: tiles.read(device, &case, findings)[..count].to_vec(),
    }
}

/// Tiles cover the order once, each of one expert; the order has every visit once.
fn check_deal(case: &str, problem: &Problem, seen: &Seen, findings: &mut Findings) {
    let mut visits = seen.order.clone();
    visits.sort_unstable();
    if visits != (0..problem.visits() as u32).collect::<Vec<_>>() {
        return findings.push(case, "the order has not every visit once".to_owned());
    }
    let mut next = 0;
    let mut last = None;
    for tile in &seen.tiles {
        let places = tile.first as usize..(tile.first + tile.places) as usize;
        let is_one = seen.order[places.clone()]
            .iter()
            .all(|visit| seen.chosen[*visit as usize] == tile.expert);
        let fits = (1..=problem.tile_rows).contains(&places.len());
        if places.start != next || !is_one || !fits || last > Some(tile.expert) {
            return findings.push(case, format!("{tile:?} behind place {next}"));
        }
        (next, last) = (places.end, Some(tile.expert));
    }
    if next != problem.visits() {
        findings.push(case, format!("tiles end at place {next} of {}", problem.visits()));
    }
}

#[test]
fn experts_and_weights_are_the_references() {
    let Some(device) = Device::open() else { return };
    let op = Routing::load(&device.gpu).unwrap();
    let mut findings = Findings::default();
    let mut rng = fastrand::Rng::with_seed(5);
    for problem in cases() {
        findings.case();
        let case = format!("{problem:?}");
        let count = problem.rows * problem.experts;
        let logits: Vec<f32> = (0..count).map(|_| (rng.f32() - 0.5) * 12.0).collect();
        let correction: Vec<f32> = (0..problem.experts).map(|_| rng.f32() - 0.7).collect();
        let seen = run(&device, &op, &problem, &logits, &correction, None, &mut findings);
        check_deal(&case, &problem, &seen, &mut findings);
        let wanted: Vec<(u32, f64)> = logits
            .chunks(problem.experts)
            .flat_map(|logits| reference(&problem, logits, &correction))
            .collect();
        // Scores closer than float32 tells apart may change places.
        for (row, wanted) in wanted.chunks(problem.per_token).enumerate() {
            let logits = &logits[row * problem.experts..][..problem.experts];
            let places = row * problem.per_token..(row + 1) * problem.per_token;
            let rank = |expert: u32| {
                let score = f64::from(logits[expert as usize]);
                match problem.router.scores {
                    // What softmax does to all alike does not change who is better.
                    RouterScores::Softmax => score,
                    RouterScores::Sigmoid => {
                        1.0 / (1.0 + (-score).exp()) + f64::from(correction[expert as usize])
                    }
                }
            };
            for ((wanted, place), weight) in wanted.iter().zip(places.clone()).zip(places) {
                let (seen, weight) = (seen.chosen[place], f64::from(seen.weights[weight]));
                let is_other = seen != wanted.0;
                let is_near = (rank(seen) - rank(wanted.0)).abs() < 1e-5;
                let is_off = (weight - wanted.1).abs() > 1e-7 + 2e-5 * wanted.1;
                if is_other && !is_near || !is_other && is_off {
                    let text = format!("visit {place}: {seen} {weight}, wanted {wanted:?}");
                    findings.push(&case, text);
                }
            }
        }
    }
    findings.finish();
}

#[test]
fn of_equal_scores_the_first_win_and_what_is_no_number_comes_last() {
    let Some(device) = Device::open() else { return };
    let op = Routing::load(&device.gpu).unwrap();
    let mut findings = Findings::default();
    let problem = Problem { rows: 3, experts: 100, per_token: 6, router: SIGMOID, tile_rows: 16 };
    let mut logits = vec![0.5f32; 300];
    // The second token has three numbers, the third infinities.
    logits[100..200].fill(f32::NAN);
    (logits[140], logits[107], logits[199]) = (1.0, 2.0, -3.0);
    (logits[250], logits[203]) = (f32::INFINITY, f32::NEG_INFINITY);
    let seen = run(&device, &op, &problem, &logits, &[0.0; 100], None, &mut findings);
    check_deal("equal scores", &problem, &seen, &mut findings);
    findings.finish();
    assert_eq!(seen.chosen[..6], [0, 1, 2, 3, 4, 5]);
    assert_eq!(seen.chosen[6..9], [7, 40, 99]);
    assert_eq!(seen.chosen[9..12], [0, 1, 2]);
    assert_eq!(seen.chosen[12..15], [50, 0, 1]);
}

#[test]
fn rows_that_do_not_count_visit_nobody() {
    let Some(device) = Device::open() else { return };
    let op = Routing::load(&device.gpu).unwrap();
    let mut findings = Findings::default();
    let mut rng = fastrand::Rng::with_seed(8);
    for (rows, live) in [(8, 5), (40, 33), (64, 1), (64, 0), (100, 99), (100, 700)] {
        let problem = Problem { rows, experts: 60, per_token: 4, router: SOFTMAX, tile_rows: 16 };
        let logits: Vec<f32> = (0..rows * 60).map(|_| rng.f32()).collect();
        let mut seen = run(&device, &op, &problem, &logits, &[], Some(live), &mut findings);
        let counted = Problem { rows: live.min(rows), ..problem };
        let untouched = seen.order.split_off(counted.visits());
        check_deal(&format!("{live} of {rows}"), &counted, &seen, &mut findings);
        let is_left =
            untouched.iter().chain(&seen.chosen[counted.visits()..]).all(|word| *word == u32::MAX);
        if !is_left {
            findings
                .push(&format!("{live} of {rows}"), "a row that does not count visits".to_owned());
        }
    }
    findings.finish();
}

#[test]
fn what_no_kernel_does_is_refused() {
    let problem = Problem { rows: 1, experts: 128, per_token: 8, router: SOFTMAX, tile_rows: 16 };
    assert!(Plan::new(&problem).is_ok());
    let groups = Some(ExpertGroups { count: 64, kept: 2 });
    for wrong in [
        Problem { experts: 1025, ..problem },
        Problem { experts: 0, ..problem },
        Problem { per_token: 0, ..problem },
        Problem { per_token: 33, ..problem },
        Problem { experts: 4, ..problem },
        Problem { router: RouterSpec { groups, ..SOFTMAX }, ..problem },
    ] {
        assert!(Plan::new(&wrong).is_err(), "{wrong:?}");
    }
}

#[test]
fn there_is_room_for_every_tile() {
    for (visits, experts, tile_rows) in
        [(0usize, 8usize, 16usize), (1, 8, 16), (8, 8, 16), (1000, 8, 16), (7, 3, 2)]
    {
        // As uneven as can be: every expert but the first has one visit more than fills its tiles.
        let others = experts.min(visits).saturating_sub(1);
        let first = visits - others;
        let needed = others + first.div_ceil(tile_rows);
        assert!(most_tiles(visits, experts, tile_rows) >= needed, "{visits} {experts} {tile_rows}");
        assert!(most_tiles(visits, experts, tile_rows) <= visits);
    }
}
