use super::{super::parity::*, *};

/// One problem with all its numbers.
struct Case {
    problem: Problem,
    /// The experts of each visit.
    chosen: Vec<u32>,
    weights: Vec<f32>,
    x: Vec<bf16>,
    gate_up: Vec<bf16>,
    down: Vec<bf16>,
    shared: Option<Vec<bf16>>,
}

impl Case {
    fn new(problem: Problem, spread: usize, rng: &mut fastrand::Rng) -> Case {
        let Problem { rows, experts, per_token, hidden, intermediate, .. } = problem;
        let mut uniform = |count: usize, size: f32| -> Vec<bf16> {
            (0..count).map(|_| bf16::from_f32((rng.f32() * 2.0 - 1.0) * size)).collect()
        };
        let x = uniform(rows * hidden, 1.0);
        let gate_up = uniform(experts * 2 * intermediate * hidden, (3.0 / hidden as f32).sqrt());
        let down = uniform(experts * hidden * intermediate, (3.0 / intermediate as f32).sqrt());
        let shared = rows.is_multiple_of(2).then(|| uniform(rows * hidden, 1.0));
        let weights = (0..rows * per_token).map(|_| rng.f32()).collect();
        // `spread` experts at the most are visited, a token's being different ones.
        let chosen = (0..rows).flat_map(|_| {
            let mut all: Vec<u32> = (0..spread.max(per_token).min(experts) as u32).collect();
            rng.shuffle(&mut all);
            all.truncate(per_token);
            all
        });
        let chosen = chosen.collect();
        Case { problem, chosen, weights, x, gate_up, down, shared }
    }

    /// In f64, with what is stored between the launches rounded as it is there.
    fn wanted(&self) -> Vec<f64> {
        let Problem { per_token, hidden, intermediate, .. } = self.problem;
        let dot = |a: &[bf16], b: &[bf16]| -> f64 {
            a.iter().zip(b).map(|(a, b)| a.to_f64() * b.to_f64()).sum()
        };
        let mut wanted: Vec<f64> = match &self.shared {
            Some(shared) => widen(shared),
            None => vec![0.0; self.x.len()],
        };
        for (visit, expert) in self.chosen.iter().enumerate() {
            let (row, expert) = (visit / per_token, *expert as usize);
            let x = &self.x[row * hidden..][..hidden];
            let weights = &self.gate_up[expert * 2 * intermediate * hidden..];
            let inner: Vec<bf16> = (0..intermediate)
                .map(|column| {
                    let gate_row = column / 8 * 16 + column % 8;
                    let gate = dot(x, &weights[gate_row * hidden..][..hidden]);
                    let up = dot(x, &weights[(gate_row + 8) * hidden..][..hidden]);
                    bf16::from_f64(gate / (1.0 + (-gate).exp()) * up)
                })
                .collect();
            let down = &self.down[expert * hidden * intermediate..];
            for column in 0..hidden {
                let out = dot(&inner, &down[column * intermediate..][..intermediate]);
                wanted[row * hidden + column] +=
                    f64::from(self.weights[visit]) * bf16::from_f64(out).to_f64();
            }
        }
        wanted
    }

    /// Visits expert by expert, in tiles: what routing would leave.
    fn dealt(&self, tile_rows: usize) -> (Vec<u32>, Vec<ExpertTile>) {
        let mut order: Vec<u32> = (0..self.chosen.len() as u32).collect();
        order.sort_by_key(|visit| self.chosen[*visit as usize]);
        let mut tiles = Vec::new();
        let mut first = 0;
        for visits in order.chunk_by(|a, b| self.chosen[*a as usize] == self.chosen[*b as usize]) {
            for part in visits.chunks(tile_rows) {
                let expert = self.chosen[part[0] as usize];
                tiles.push(ExpertTile { expert, first, places: part.len() as u32, reserved: 0 });
                first += part.len() as u32;
            }
        }
        (order, tiles)
    }

    fn run(
        &self,
        device: &Device,
        op: &Experts,
        plan: &Plan,
        findings: &mut Findings,
    ) -> Vec<bf16> {
        let case = format!("{:?} in tiles of {}", self.problem, plan.tile_rows());
        let Problem { rows, hidden, intermediate, .. } = self.problem;
        let visits = self.problem.visits();
        let (order, tiles) = self.dealt(plan.tile_rows());
        let tile_count = device.put(&[tiles.len() as u32]);
        let unused = ExpertTile { expert: u32::MAX, first: u32::MAX, places: 1, reserved: 0 };
        let mut all = tiles;
        all.resize(plan.most_tiles(), unused);
        let (order, tiles) = (device.put(&order), device.put(&all));
        let (x, weights) = (device.put(&self.x), device.put(&self.weights));
        let (gate_up, down) = (device.put(&self.gate_up), device.put(&self.down));
        let shared = self.shared.as_ref().map(|shared| device.put(shared));
        let mut inner = device.put(&vec![bf16::NAN; visits * intermediate]);
        let mut out = device.put(&vec![bf16::NAN; visits * hidden]);
        let mut y = device.put(&vec![bf16::NAN; rows * hidden]);
        let args = Args {
            x: x.view(),
            gate_up: gate_up.view(),
            down: down.view(),
            order: order.view(),
            tiles: tiles.view(),
            tile_count: tile_count.view(),
            weights: weights.view(),
            inner: inner.view_mut(),
            out: out.view_mut(),
            shared: shared.as_ref().map(Guarded::view),
            y: y.view_mut(),
        };
        op.launch(&device.stream, plan, args).unwrap();
        inner.read(device, &case, findings);
        out.read(device, &case, findings);
        y.read(device, &case, findings)
    }
}

fn problem(rows: usize, experts: usize, per_token: usize, hidden: usize, inter: usize) -> Problem {
    let activation = Activation::Silu;
    Problem { rows, experts, per_token, hidden, intermediate: inter, activation, invariant: false }
}

/// Every plan for the problem that the device has kernels for, whatever the number of visits.
fn plans(problem: &Problem, device: &Device) -> Vec<Plan> {
    let limits = device.gpu.limits();
    let serves = |tile: &usize| !TILES[*tile].wgmma || limits.has_wgmma();
    let plan = Plan::new(problem, limits).unwrap();
    (0..TILES.len()).filter(serves).map(|tile| Plan { tile, ..plan }).collect()
}

#[test]
fn every_tile_gives_what_the_reference_gives() {
    let Some(device) = Device::open() else { return };
    let op = Experts::load(&device.gpu).unwrap();
    let mut findings = Findings::default();
    let mut rng = fastrand::Rng::with_seed(11);
    for (problem, spread) in [
        (problem(0, 4, 2, 64, 32), 4),
        (problem(1, 1, 1, 8, 8), 1),
        (problem(1, 8, 2, 128, 64), 8),
        (problem(2, 4, 4, 136, 24), 4),
        (problem(17, 4, 2, 200, 72), 4),
        (problem(40, 6, 1, 64, 128), 1),
        (problem(64, 16, 4, 256, 104), 5),
        (problem(150, 3, 3, 72, 40), 3),
        (problem(301, 8, 2, 128, 64), 8),
    ] {
        let case = Case::new(problem, spread, &mut rng);
        let wanted = case.wanted();
        let mut first: Option<Vec<u16>> = None;
        for plan in plans(&problem, &device) {
            findings.case();
            let label = format!("{problem:?} in tiles of {}", plan.tile_rows());
            let seen = case.run(&device, &op, &plan, &mut findings);
            let tolerance = Tolerance { relative: 1.0 / 64.0, absolute: 0.03 };
            findings.compare(&label, widen(&seen), &wanted, tolerance);
            let bits: Vec<u16> = seen.iter().map(|value| value.to_bits()).collect();
            // Hopper's products sum in an order of their own.
            if TILES[plan.tile].wgmma {
                continue;
            }
            if first.as_ref().is_some_and(|first| *first != bits) {
                findings.push(&label, "other bits than the first tile's".to_owned());
            }
            first.get_or_insert(bits);
        }
    }
    findings.finish();
}

#[test]
fn a_row_does_not_know_the_others() {
    let Some(device) = Device::open() else { return };
    let op = Experts::load(&device.gpu).unwrap();
    let mut findings = Findings::default();
    let mut rng = fastrand::Rng::with_seed(12);
    let whole = Case::new(problem(90, 4, 2, 128, 64), 4, &mut rng);
    let bits = |values: &[bf16]| -> Vec<u16> { values.iter().map(|v| v.to_bits()).collect() };
    let together = bits(&whole.run(
        &device,
        &op,
        &Plan::new(&whole.problem, device.gpu.limits()).unwrap(),
        &mut findings,
    ));
    for row in [0, 1, 44, 89] {
        let alone = Case {
            problem: Problem { rows: 1, ..whole.problem },
            chosen: whole.chosen[2 * row..2 * row + 2].to_vec(),
            weights: whole.weights[2 * row..2 * row + 2].to_vec(),
            x: whole.x[128 * row..128 * (row + 1)].to_vec(),
            gate_up: whole.gate_up.clone(),
            down: whole.down.clone(),
            shared: whole.shared.as_ref().map(|all| all[128 * row..128 * (row + 1)].to_vec()),
        };
        let plan = Plan::new(&alone.problem, device.gpu.limits()).unwrap();
        let seen = bits(&alone.run(&device, &op, &plan, &mut findings));
        if seen != together[128 * row..128 * (row + 1)] {
            findings.push(&format!("row {row}"), "alone it gives other bits".to_owned());
        }
    }
    findings.finish();
}

#[test]
fn plans_fit_and_have_room() {
    let limits = DeviceLimits::h200();
    for rows in [0, 1, 8, 100, 5000] {
        for (experts, per_token) in [(1, 1), (8, 2), (128, 8), (512, 10)] {
            let problem = problem(rows, experts, per_token, 2048, 768);
            let plan = Plan::new(&problem, &limits).unwrap();
            assert!(plan.shape(2048).shared <= limits.shared_per_block);
            assert!(plan.most_tiles() <= most_tiles(rows, experts, per_token), "{problem:?}");
        }
    }
    assert!(Plan::new(&problem(1, 8, 2, 2044, 768), &limits).is_err());
    assert!(Plan::new(&problem(1, 8, 2, 2048, 12), &limits).is_err());
}

/// Times of the products of qwen3-30b-a3b as a step sees them, routed evenly: `cargo test -p cuda --release timings_of_experts --
/// --ignored --nocapture`.
#[test]
#[ignore = "prints times, judges nothing"]
#[allow(clippy::print_stdout)]
fn timings_of_experts() {
    use crate::driver::Event;
    let Some(device) = Device::open() else { return };
    let op = Experts::load(&device.gpu).unwrap();
    let gpu = &device.gpu;
    let mut rng = fastrand::Rng::with_seed(3);
    let (experts, per_token, hidden, intermediate) = (128, 8, 2048, 768);
    let noise: Vec<bf16> = (0..1 << 20).map(|_| bf16::from_f32(rng.f32() * 0.1 - 0.05)).collect();
    let fill = |len: usize| {
        let mut buffer = gpu.alloc::<bf16>(len).unwrap();
        for from in (0..len).step_by(noise.len()) {
            let to = len.min(from + noise.len());
            device.stream.upload(&noise[..to - from], buffer.view_mut().slice(from..to)).unwrap();
        }
        buffer
    };
    // Layers take turns, so that no weight is in a cache.
    let layers: Vec<_> = (0..4)
        .map(|_| (fill(experts * 2 * intermediate * hidden), fill(experts * hidden * intermediate)))
        .collect();
    for rows in [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 2048, 8000] {
        let problem = problem(rows, experts, per_token, hidden, intermediate);
        let chosen: Vec<u32> = (0..rows)
            .flat_map(|_| {
                let mut all: Vec<u32> = (0..experts as u32).collect();
                rng.shuffle(&mut all);
                all.truncate(per_token);
                all
            })
            .collect();
        let mut visited = chosen.clone();
        visited.sort_unstable();
        visited.dedup();
        let case = Case {
            problem,
            weights: vec![0.1; chosen.len()],
            chosen,
            x: Vec::new(),
            gate_up: Vec::new(),
            down: Vec::new(),
            shared: None,
        };
        for plan in plans(&problem, &device) {
            let (order, mut tiles) = case.dealt(plan.tile_rows());
            let count = device.put(&[tiles.len() as u32]);
            tiles.resize(plan.most_tiles(), ExpertTile::zeroed());
            let (order, tiles) = (device.put(&order), device.put(&tiles));
            let weights = device.put(&case.weights);
            let x = fill(rows * hidden);
            let mut inner = gpu.alloc::<bf16>(problem.visits() * intermediate).unwrap();
            let mut out = gpu.alloc::<bf16>(problem.visits() * hidden).unwrap();
            let mut y = gpu.alloc::<bf16>(rows * hidden).unwrap();
            let (begin, end) = (Event::new(gpu).unwrap(), Event::new(gpu).unwrap());
            const TURNS: usize = 20;
            for turn in 0..TURNS + 4 {
                if turn == 4 {
                    begin.record(&device.stream).unwrap();
                }
                let (gate_up, down) = &layers[turn % layers.len()];
                let args = Args {
                    x: x.view(),
                    gate_up: gate_up.view(),
                    down: down.view(),
                    order: order.view(),
                    tiles: tiles.view(),
                    tile_count: count.view(),
                    weights: weights.view(),
                    inner: inner.view_mut(),
                    out: out.view_mut(),
                    shared: None,
                    y: y.view_mut(),
                };
                op.launch(&device.stream, &plan, args).unwrap();
            }
            end.record(&device.stream).unwrap();
            end.synchronize().unwrap();
            let us = f64::from(end.elapsed_ms(&begin).unwrap()) * 1e3 / TURNS as f64;
            let traffic = problem.traffic(visited.len());
            let floor = (traffic.bytes as f64 / 4.70e6).max(traffic.flops as f64 / 780e6);
            println!(
                "{rows:5} rows, {:3} experts, {}: {us:8.1} us, floor {floor:7.1}, {:5.1} %",
                visited.len(),
                TILES[plan.tile].entries[0],
                100.0 * floor / us
            );
        }
    }
}
