//! Operations on rows of the residual stream.

use cuda::ops::{
    activation, residual_norm, rms_norm,
    rows::{Handover, Next, NormWeight},
};
use half::bf16;
use models::semantic::Activation;

use crate::runner::{Outcome, Runner};

const SIZES: [(usize, usize); 4] = [(1, 4096), (64, 4096), (2048, 4096), (8000, 4096)];

pub fn bench(runner: &Runner) -> Outcome {
    for (rows, hidden) in SIZES {
        let gpu = &runner.gpu;
        let mut h = gpu.alloc::<f32>(rows * hidden)?;
        let mut x = gpu.alloc::<bf16>(rows * hidden)?;
        let mut y = gpu.alloc::<bf16>(rows * hidden)?;
        let mut weight = gpu.alloc::<f32>(hidden)?;
        runner.stream.zero(h.view_mut())?;
        runner.stream.zero(y.view_mut())?;
        runner.stream.zero(weight.view_mut())?;
        let op = residual_norm::ResidualNorm::load(gpu)?;
        let problem = residual_norm::Problem { rows, hidden, handover: Handover::Normed };
        let plan = problem.plan()?;
        let case = format!("residual_norm {rows}x{hidden}");
        runner.time(&case, residual_norm::traffic(&problem), 50, |stream, _| {
            let norm = NormWeight { weight: weight.view(), eps: 1e-6 };
            let next = Next::Normed { x: x.view_mut(), norm };
            let args =
                residual_norm::Args { h: h.view_mut(), y: y.view(), post: None, scale: 1.0, next };
            op.launch(stream, &plan, args)
        })?;
        let op = rms_norm::RmsNorm::load(gpu)?;
        let problem = rms_norm::Problem { rows, hidden };
        let plan = problem.plan()?;
        let case = format!("rms_norm {rows}x{hidden}");
        runner.time(&case, rms_norm::traffic(&problem), 50, |stream, _| {
            let args = rms_norm::Args {
                h: h.view(),
                rows: None,
                norm: NormWeight { weight: weight.view(), eps: 1e-6 },
                x: Some(x.view_mut()),
                full: None,
            };
            op.launch(stream, &plan, args)
        })?;
        activations(runner, rows)?;
    }
    Ok(())
}

fn activations(runner: &Runner, rows: usize) -> Outcome {
    const INTERMEDIATE: usize = 12288;
    let op = activation::Activation::load(&runner.gpu)?;
    let mut gate_up = runner.gpu.alloc::<bf16>(rows * 2 * INTERMEDIATE)?;
    let mut a = runner.gpu.alloc::<bf16>(rows * INTERMEDIATE)?;
    runner.stream.zero(gate_up.view_mut())?;
    let problem = activation::Problem { rows, intermediate: INTERMEDIATE };
    let plan = activation::Plan::new(&problem)?;
    let case = format!("activation {rows}x{INTERMEDIATE}");
    runner.time(&case, activation::traffic(&problem), 50, |stream, _| {
        let function = Activation::Silu;
        op.launch(
            stream,
            &plan,
            activation::Args { function, gate_up: gate_up.view(), a: a.view_mut() },
        )
    })
}
