//! Matrix products of many rows: the library's, or this crate's kernels `gemm.cu` and `gemm_wgmma.cu`.

mod choices;
mod library;
mod plan;
#[cfg(test)]
mod tests;
mod tune;

use std::sync::Arc;

use bytemuck::{Pod, Zeroable};
use half::bf16;
use models::semantic::Activation;

pub use choices::{Choice, Choices, Stamp, pick};
pub use plan::{Output, PORTABLE, Plan, PortableTile, Problem, Route, WGMMA, WgmmaTile};
pub use tune::{Bench, Timing};

use crate::driver::{
    Buffer, DeviceLimits, DriverError, Gpu, Image, Kernel, Stream, Swizzle, TensorMap, View,
    ViewMut, cublaslt::Cublaslt, driver_version, image,
};
use library::{Library, class_of};

static PORTABLE_IMAGE: Image = image!("gemm");
static WGMMA_IMAGE: Image = image!("gemm_wgmma");

/// Where a product's results go.
#[derive(Debug)]
pub enum Target<'a> {
    /// For [`Output::Bf16`] and [`Output::GateUp`].
    Bf16(ViewMut<'a, bf16>),
    /// For [`Output::F32`] and [`Output::AddF32`].
    F32(ViewMut<'a, f32>),
}

/// What a product reads and writes; shapes as in [`Problem`], all dense and row-major, 16-byte aligned.
#[derive(Debug)]
pub struct Args<'a> {
    /// `[rows, k]`.
    pub x: View<'a, bf16>,
    /// `[n, k]`.
    pub w: View<'a, bf16>,
    /// `[n]`, where the problem has a bias.
    pub bias: Option<View<'a, f32>>,
    /// `[rows, columns]`.
    pub y: Target<'a>,
    /// One number on the device: rows that count, at most `rows`. Rows past it are left alone by this crate's kernels and hold
    /// anything after the library's.
    pub live_rows: Option<View<'a, u32>>,
}

/// Parameters of `gemm.cu`.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct PortableParams {
    x: u64,
    w: u64,
    bias: u64,
    y: u64,
    live_rows: u64,
    rows: u32,
    n: u32,
    k: u32,
    activation: u32,
}
const _: () = assert!(size_of::<PortableParams>() == 56);

/// Parameters of `gemm_wgmma.cu`.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct WgmmaParams {
    x: TensorMap,
    w: TensorMap,
    bias: u64,
    y: u64,
    live_rows: u64,
    rows: u32,
    n: u32,
    k: u32,
    activation: u32,
    x_box: u32,
    reserved: [u32; 5],
}
const _: () = assert!(size_of::<WgmmaParams>() == 320 && align_of::<WgmmaParams>() == 64);

/// The kernels of matrix products, loaded; the library, where it was opened; what was found fastest.
#[derive(Debug)]
pub struct Gemm {
    limits: DeviceLimits,
    portable: Vec<[Kernel; 4]>,
    wgmma: Vec<[Kernel; 4]>,
    library: Option<Library>,
    choices: Choices,
}

impl Gemm {
    /// Loads every kernel that the device can run.
    pub fn load(gpu: &Arc<Gpu>) -> Result<Gemm, DriverError> {
        let limits = gpu.limits().clone();
        let all = |image, entries: &[&'static str; 4]| -> Result<[Kernel; 4], DriverError> {
            let [a, b, c, d] = *entries;
            Ok([
                gpu.kernel(image, a)?,
                gpu.kernel(image, b)?,
                gpu.kernel(image, c)?,
                gpu.kernel(image, d)?,
            ])
        };
        let portable = PORTABLE.iter().map(|tile| all(&PORTABLE_IMAGE, &tile.entries));
        let wgmma = WGMMA
            .iter()
            .filter(|_| limits.has_wgmma())
            .map(|tile| all(&WGMMA_IMAGE, &tile.entries));
        let (portable, wgmma) =
            (portable.collect::<Result<_, _>>()?, wgmma.collect::<Result<_, _>>()?);
        let choices = Choices::new(Stamp {
            device: limits.name.clone(),
            driver: driver_version()?,
            library: 0,
        });
        Ok(Gemm { limits, portable, wgmma, library: None, choices })
    }

    /// Gives products to the library from now on, where the rule or a choice says so. Captured launches use the workspace
    /// (64 MiB are plenty) at its address, so it stays here.
    pub fn with_library(mut self, cublaslt: Cublaslt, workspace: Buffer<u8>) -> Gemm {
        let library = Library::new(cublaslt, workspace);
        self.choices = Choices::new(Stamp { library: library.version(), ..self.stamp().clone() });
        self.library = Some(library);
        self
    }

    /// Whether products may go to the library.
    pub fn has_library(&self) -> bool {
        self.library.is_some()
    }

    /// Whether the device has Hopper's warpgroup products.
    pub fn has_wgmma(&self) -> bool {
        self.limits.has_wgmma()
    }

    /// What choices depend on here.
    pub fn stamp(&self) -> &Stamp {
        self.choices.stamp()
    }

    /// What was chosen so far, to be saved.
    pub fn choices(&self) -> &Choices {
        &self.choices
    }

    /// Takes over earlier choices, as far as they are for this device, driver and library, and still possible.
    pub fn adopt_all(&mut self, choices: &Choices) {
        if choices.stamp() == self.stamp() {
            choices.iter().for_each(|(problem, choice)| _ = self.adopt(problem, *choice));
        }
    }

    /// Does the problem, and those of about as many rows, as chosen from now on; `false` where that cannot be. What must not
    /// depend on the number of rows is never chosen by it.
    pub fn adopt(&mut self, problem: &Problem, choice: Choice) -> bool {
        let possible = !problem.invariant
            && match choice {
                Choice::Library(algorithm) => {
                    self.library.as_ref().is_some_and(|l| l.choose(problem, &algorithm))
                }
                Choice::Ours(Route::Wgmma(_)) if !self.limits.has_wgmma() => false,
                Choice::Ours(route) => Plan::by(problem, &self.limits, route).is_ok(),
            };
        if possible {
            self.choices.set(*problem, choice);
        }
        possible
    }

    /// How a problem is done: as chosen for it or for about as many rows, else by the rule ([`Plan::new`]). A library that has no
    /// algorithm for it is passed over.
    pub fn plan(&self, problem: &Problem) -> Result<Plan, super::Unsupported> {
        let library = self.library.as_ref().filter(|_| problem.rows > 0);
        let limits = &self.limits;
        let mut like = class_of(problem.rows);
        let plan = match self.choices.like(problem) {
            Some((rows, Choice::Library(_))) => {
                like = rows;
                Plan::by(problem, limits, Route::Cublaslt)?
            }
            Some((_, Choice::Ours(route))) => Plan::by(problem, limits, route)?,
            None => Plan::new(problem, limits, library.is_some())?,
        };
        match plan.route {
            Route::Cublaslt if !library.is_some_and(|l| l.can(problem, like)) => {
                Plan::ours(problem, limits)
            }
            _ => Ok(plan),
        }
    }

    /// Queues the product. Without rows there is nothing to do.
    pub fn launch(&self, stream: &Stream, plan: &Plan, args: Args<'_>) -> Result<(), DriverError> {
        check(&plan.problem, &args)?;
        if plan.problem.rows == 0 {
            return Ok(());
        }
        match plan.route {
            Route::Portable(tile) => {
                let kernel =
                    kernel_of(&self.portable, PORTABLE.iter().position(|t| t == tile), plan)?;
                launch_portable(stream, kernel, plan, &args)
            }
            Route::Wgmma(tile) => {
                let kernel = kernel_of(&self.wgmma, WGMMA.iter().position(|t| t == tile), plan)?;
                launch_wgmma(stream, kernel, plan, tile, &args)
            }
            Route::Cublaslt => match &self.library {
                Some(library) => library.launch(stream, &plan.problem, &args),
                None => Err(DriverError::Invalid(
                    "gemm: a plan for a library that is not open".to_owned(),
                )),
            },
        }
    }
}

fn kernel_of<'a>(
    kernels: &'a [[Kernel; 4]],
    tile: Option<usize>,
    plan: &Plan,
) -> Result<&'a Kernel, DriverError> {
    let output = match plan.problem.output {
        Output::Bf16 => 0,
        Output::F32 => 1,
        Output::AddF32 => 2,
        Output::GateUp(_) => 3,
    };
    let found = tile.and_then(|tile| kernels.get(tile)).map(|kernels| &kernels[output]);
    found.ok_or_else(|| {
        DriverError::Invalid(format!("gemm: no kernel on this device for {:?}", plan.route))
    })
}

#[expect(unsafe_code)]
fn launch_portable(
    stream: &Stream,
    kernel: &Kernel,
    plan: &Plan,
    args: &Args<'_>,
) -> Result<(), DriverError> {
    let Problem { rows, n, k, output, .. } = plan.problem;
    let params = PortableParams {
        x: args.x.address(),
        w: args.w.address(),
        bias: args.bias.map_or(0, |bias| bias.address()),
        y: args.y.address(),
        live_rows: args.live_rows.map_or(0, |rows| rows.address()),
        rows,
        n,
        k,
        activation: code_of(output),
    };
    // SAFETY: the entry's parameters; `check` found every view as long as the problem wants it, and the kernel stays inside.
    unsafe { stream.launch(kernel, plan.shape(), &params) }
}

#[expect(unsafe_code)]
fn launch_wgmma(
    stream: &Stream,
    kernel: &Kernel,
    plan: &Plan,
    tile: &WgmmaTile,
    args: &Args<'_>,
) -> Result<(), DriverError> {
    let Problem { rows, n, k, output, .. } = plan.problem;
    let map = |address, length: u32, box_rows| {
        let (dims, strides) = ([u64::from(k), u64::from(length)], [2 * u64::from(k)]);
        TensorMap::bf16(address, &dims, &strides, &[64, box_rows], Swizzle::Bytes128)
    };
    let x_box = plan::WGMMA_ROWS.min(rows);
    let params = WgmmaParams {
        x: map(args.x.address(), rows, x_box)?,
        w: map(args.w.address(), n, tile.columns / tile.cluster)?,
        bias: args.bias.map_or(0, |bias| bias.address()),
        y: args.y.address(),
        live_rows: args.live_rows.map_or(0, |rows| rows.address()),
        rows,
        n,
        k,
        activation: code_of(output),
        x_box,
        reserved: [0; 5],
    };
    // SAFETY: as in `launch_portable`; the maps end where the matrices do.
    unsafe { stream.launch(kernel, plan.shape(), &params) }
}

/// The number that the kernels know an activation by.
fn code_of(output: Output) -> u32 {
    match output {
        Output::GateUp(Activation::GeluTanh) => 1,
        Output::GateUp(Activation::GeluErf) => 2,
        _ => 0,
    }
}

impl Target<'_> {
    /// Lends it for a shorter time.
    pub fn reborrow(&mut self) -> Target<'_> {
        match self {
            Target::Bf16(view) => Target::Bf16(view.reborrow()),
            Target::F32(view) => Target::F32(view.reborrow()),
        }
    }

    fn address(&self) -> u64 {
        match self {
            Target::Bf16(view) => view.address(),
            Target::F32(view) => view.address(),
        }
    }
}

/// All that is wrong with `args`, at once.
fn check(problem: &Problem, args: &Args<'_>) -> Result<(), DriverError> {
    let Problem { rows, n, k, .. } = *problem;
    let wanted = |a: u32, b: u32| a as usize * b as usize;
    let (y_len, y_fits) = match (&args.y, problem.output) {
        (Target::Bf16(view), Output::Bf16 | Output::GateUp(_)) => (view.len(), true),
        (Target::F32(view), Output::F32 | Output::AddF32) => (view.len(), true),
        (Target::Bf16(view), _) => (view.len(), false),
        (Target::F32(view), _) => (view.len(), false),
    };
    let mut wrong = Vec::new();
    let lengths = [
        ("x", args.x.len(), wanted(rows, k)),
        ("w", args.w.len(), wanted(n, k)),
        ("bias", args.bias.map_or(0, |bias| bias.len()), if problem.bias { n as usize } else { 0 }),
        ("y", y_len, wanted(rows, problem.columns())),
        ("live_rows", args.live_rows.map_or(1, |rows| rows.len()), 1),
    ];
    for (name, seen, wanted) in lengths {
        if seen != wanted {
            wrong.push(format!("{name} has {seen} elements, {wanted} wanted"));
        }
    }
    if !y_fits {
        wrong.push(format!("y has the wrong type for {:?}", problem.output));
    }
    for (name, address) in
        [("x", args.x.address()), ("w", args.w.address()), ("y", args.y.address())]
    {
        if !address.is_multiple_of(16) {
            wrong.push(format!("{name} at {address:#x} is not 16-byte aligned"));
        }
    }
    match wrong.is_empty() {
        true => Ok(()),
        false => {
            Err(DriverError::Invalid(format!("gemm {rows} x {n} x {k}: {}", wrong.join("; "))))
        }
    }
}

/// A product to test and to time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Case {
    /// What is asked.
    pub problem: Problem,
    /// Rows that count, where they are counted on the device.
    pub live_rows: Option<u32>,
    /// What the inputs are like.
    pub data: Data,
}

/// What the inputs of a [`Case`] are like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Data {
    /// Normal, `w` scaled so that outputs are about one.
    Normal,
    /// A few inputs a thousand times as large.
    Outliers,
    /// A row of `x` holds an infinity, another a NaN; no other row may notice.
    Anomalies,
}

/// The case table: no row, one, tails of every tile in every direction, live rows counted on the device, odd data.
pub fn cases() -> Vec<Case> {
    let shapes: [(u32, u32, u32, bool, Option<u32>, Data); 20] = [
        (0, 128, 64, false, None, Data::Normal),
        (1, 8, 8, false, None, Data::Normal),
        (1, 1, 64, true, None, Data::Normal),
        (7, 33, 72, true, None, Data::Anomalies),
        (16, 128, 64, false, None, Data::Normal),
        (17, 130, 136, true, None, Data::Outliers),
        (33, 96, 448, false, None, Data::Normal),
        (64, 256, 128, true, None, Data::Normal),
        (65, 257, 200, false, None, Data::Anomalies),
        (127, 192, 264, true, None, Data::Normal),
        (128, 256, 1024, true, None, Data::Outliers),
        (129, 300, 1032, true, None, Data::Normal),
        (257, 511, 520, true, None, Data::Normal),
        (256, 512, 512, false, Some(100), Data::Normal),
        (300, 640, 320, true, Some(0), Data::Normal),
        (300, 640, 320, true, Some(129), Data::Anomalies),
        (300, 640, 320, false, Some(300), Data::Normal),
        (1024, 1536, 2048, true, None, Data::Normal),
        (2100, 4104, 1024, true, Some(2049), Data::Outliers),
        (513, 6144, 4096, false, None, Data::Normal),
    ];
    let outputs = [
        Output::Bf16,
        Output::F32,
        Output::AddF32,
        Output::GateUp(Activation::Silu),
        Output::GateUp(Activation::GeluTanh),
        Output::GateUp(Activation::GeluErf),
    ];
    let mut cases = Vec::new();
    for (i, (rows, n, k, bias, live_rows, data)) in shapes.into_iter().enumerate() {
        for output in outputs {
            // Activations differ in the sums' last step alone: each shape sees one of them.
            let gated = matches!(output, Output::GateUp(_));
            if gated && output != outputs[3 + i % 3] {
                continue;
            }
            let n = if gated { n.next_multiple_of(16) } else { n };
            let problem = Problem { rows, n, k, bias, output, invariant: false };
            cases.push(Case { problem, live_rows, data });
        }
    }
    cases
}
