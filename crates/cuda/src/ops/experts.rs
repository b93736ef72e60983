//! Products of rows with the experts that they visit, and the sum of what these give. See `experts.cu` and `experts_wgmma.cu`.

use bytemuck::{Pod, Zeroable};
use half::bf16;
use models::semantic::Activation;

use super::{
    Traffic, Unsupported,
    lengths::Lengths,
    routing::{self, ExpertTile},
};
use crate::driver::{
    DeviceLimits, DriverError, Gpu, Image, Kernel, Shape, Stream, Swizzle, TensorMap, View,
    ViewMut, image,
};

static IMAGE: Image = image!("experts");
static WGMMA: Image = image!("experts_wgmma");
const SUM_THREADS: u32 = 256;
/// Elements that a thread reads at once: 16 bytes.
const VECTOR: usize = 8;

/// A tile of experts.cu, or that of experts_wgmma.cu.
#[derive(Debug)]
struct Tile {
    /// Hopper's own.
    wgmma: bool,
    /// Visits, and columns of the product, that one block computes.
    size: [usize; 2],
    threads: u32,
    stages: u32,
    /// Gate and up, down.
    entries: [&'static str; 2],
    /// The most visits of an expert, in the mean, that it is for.
    most_mean: usize,
}

/// Mirrors the list in `experts.cu`, by the visits that an expert has; before what it beats the tile of `experts_wgmma.cu`.
static TILES: [Tile; 4] = [
    Tile {
        wgmma: false,
        size: [16, 64],
        threads: 128,
        stages: 6,
        entries: ["experts_16x64_gate_up", "experts_16x64_down"],
        most_mean: 16,
    },
    Tile {
        wgmma: false,
        size: [64, 128],
        threads: 256,
        stages: 4,
        entries: ["experts_64x128_gate_up", "experts_64x128_down"],
        most_mean: 32,
    },
    Tile {
        wgmma: true,
        size: [128, 256],
        threads: 384,
        stages: 4,
        entries: ["experts_wgmma_gate_up", "experts_wgmma_down"],
        most_mean: usize::MAX,
    },
    Tile {
        wgmma: false,
        size: [128, 128],
        threads: 256,
        stages: 3,
        entries: ["experts_128x128_gate_up", "experts_128x128_down"],
        most_mean: usize::MAX,
    },
];

/// What is asked: `inner = activation(x Wgate) * (x Wup)` for every visit, then `out = inner Wdown`, then each row's sum.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Problem {
    /// Tokens.
    pub rows: usize,
    /// Experts there are.
    pub experts: usize,
    /// Experts that a token visits.
    pub per_token: usize,
    /// Width of the residual stream.
    pub hidden: usize,
    /// Width of an expert.
    pub intermediate: usize,
    /// Applied to the gate.
    pub activation: Activation,
    /// A row's result must not depend on how many there are.
    pub invariant: bool,
}

/// How it is done.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    problem: Problem,
    tile: usize,
}

/// The memory of the three launches. What routing left is as [`routing::Args`] says.
#[derive(Debug)]
pub struct Args<'a> {
    /// `[rows, hidden]`.
    pub x: View<'a, bf16>,
    /// `[experts, 2 * intermediate, hidden]`, gate and up interleaved in groups of 8 rows.
    pub gate_up: View<'a, bf16>,
    /// `[experts, hidden, intermediate]`.
    pub down: View<'a, bf16>,
    /// Visits, expert by expert.
    pub order: View<'a, u32>,
    /// Who visits whom.
    pub tiles: View<'a, ExpertTile>,
    /// How many of these there are.
    pub tile_count: View<'a, u32>,
    /// What a visit counts.
    pub weights: View<'a, f32>,
    /// `[rows * per_token, intermediate]`: between the products.
    pub inner: ViewMut<'a, bf16>,
    /// `[rows * per_token, hidden]`: what each visit gives.
    pub out: ViewMut<'a, bf16>,
    /// `[rows, hidden]`: what is added to every row's sum.
    pub shared: Option<View<'a, bf16>>,
    /// `[rows, hidden]`: the sums.
    pub y: ViewMut<'a, bf16>,
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct ExpertsParams {
    x: u64,
    w: u64,
    y: u64,
    order: u64,
    tiles: u64,
    tile_count: u64,
    n: u32,
    k: u32,
    most_tiles: u32,
    per_token: u32,
    activation: u32,
    reserved: u32,
}
const _: () = assert!(size_of::<ExpertsParams>() == 72);

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct WgmmaParams {
    w: TensorMap,
    x: u64,
    y: u64,
    order: u64,
    tiles: u64,
    tile_count: u64,
    n: u32,
    k: u32,
    per_token: u32,
    activation: u32,
    reserved: u64,
}
const _: () = assert!(size_of::<WgmmaParams>() == 192);

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct SumParams {
    x: u64,
    weights: u64,
    shared: u64,
    y: u64,
    per_token: u32,
    width: u32,
}
const _: () = assert!(size_of::<SumParams>() == 40);

/// The kernels.
#[derive(Clone, Debug)]
pub struct Experts {
    /// By tile; `None`: the device has no such products.
    products: Vec<Option<[Kernel; 2]>>,
    sum: Kernel,
}

impl Problem {
    /// Visits of all tokens.
    pub fn visits(&self) -> usize {
        self.rows * self.per_token
    }

    /// What is moved and computed where `visited` experts are: their weights and the rows once.
    pub fn traffic(&self, visited: usize) -> Traffic {
        let weights = 3 * visited * self.hidden * self.intermediate;
        let rows =
            2 * self.rows * self.hidden + 2 * self.visits() * (self.intermediate + self.hidden);
        let multiplied = 3 * self.visits() * self.hidden * self.intermediate;
        Traffic { bytes: 2 * (weights + rows) as u64, flops: 2 * multiplied as u64 }
    }
}

impl Plan {
    /// The plan for a problem.
    pub fn new(problem: &Problem, limits: &DeviceLimits) -> Result<Plan, Unsupported> {
        let Problem { rows, experts, per_token, hidden, intermediate, .. } = *problem;
        let fits = experts > 0
            && per_token > 0
            && hidden > 0
            && hidden.is_multiple_of(VECTOR)
            && intermediate > 0
            && intermediate.is_multiple_of(VECTOR)
            && hidden.max(2 * intermediate) <= i32::MAX as usize
            && rows.saturating_mul(per_token) <= i32::MAX as usize;
        if !fits {
            return Err(Unsupported {
                operation: "experts",
                seen: format!("{problem:?}"),
                requirement: format!(
                    "widths that are multiples of {VECTOR}, less than 2^31 visits"
                ),
            });
        }
        let mean = problem.visits().div_ceil(experts);
        let serves = |tile: &Tile| {
            mean <= tile.most_mean && (!tile.wgmma || limits.has_wgmma() && !problem.invariant)
        };
        let tile = TILES.iter().position(serves);
        Ok(Plan { problem: *problem, tile: tile.expect("the last tile has no limit") })
    }

    /// Visits that a tile holds: what routing deals out.
    pub fn tile_rows(&self) -> usize {
        TILES[self.tile].size[0]
    }

    fn most_tiles(&self) -> usize {
        routing::most_tiles(self.problem.visits(), self.problem.experts, self.tile_rows())
    }

    fn shape(&self, columns: usize) -> Shape {
        let Tile { size: [rows, width], threads, stages, .. } = TILES[self.tile];
        let blocks = self.most_tiles() * columns.div_ceil(width);
        let stage = (rows + width) * 128;
        // Hopper's are aligned by the kernel.
        let extra = if TILES[self.tile].wgmma { 1024 } else { 0 };
        let shared = stages * stage as u32 + extra;
        Shape { shared, ..Shape::linear(blocks as u32, threads) }
    }
}

/// The most tiles of any plan for up to `rows` rows.
pub fn most_tiles(rows: usize, experts: usize, per_token: usize) -> usize {
    // A kind of tile is for the more visits the larger it is.
    let visits = rows * per_token;
    let of = |tile: &Tile| {
        let most = visits.min(tile.most_mean.saturating_mul(experts));
        routing::most_tiles(most, experts, tile.size[0])
    };
    TILES.iter().map(of).max().unwrap_or(0)
}

impl Experts {
    /// Loads them.
    pub fn load(gpu: &Gpu) -> Result<Experts, DriverError> {
        let load = |tile: &Tile| -> Result<Option<[Kernel; 2]>, DriverError> {
            if tile.wgmma && !gpu.limits().has_wgmma() {
                return Ok(None);
            }
            let image = if tile.wgmma { &WGMMA } else { &IMAGE };
            let [gate_up, down] = tile.entries.map(|entry| gpu.kernel(image, entry));
            Ok(Some([gate_up?, down?]))
        };
        let products = TILES.iter().map(load).collect::<Result<_, DriverError>>()?;
        Ok(Experts { products, sum: gpu.kernel(&IMAGE, "experts_sum")? })
    }

    /// Queues three launches; none for no rows.
    #[allow(unsafe_code)]
    pub fn launch(&self, stream: &Stream, plan: &Plan, args: Args<'_>) -> Result<(), DriverError> {
        args.check(plan)?;
        let Problem { rows, per_token, hidden, intermediate, activation, .. } = plan.problem;
        if rows == 0 {
            return Ok(());
        }
        let gate_up = ExpertsParams {
            x: args.x.address(),
            w: args.gate_up.address(),
            y: args.inner.address(),
            order: args.order.address(),
            tiles: args.tiles.address(),
            tile_count: args.tile_count.address(),
            n: 2 * intermediate as u32,
            k: hidden as u32,
            most_tiles: plan.most_tiles() as u32,
            per_token: per_token as u32,
            activation: activation_number(activation),
            reserved: 0,
        };
        let down = ExpertsParams {
            x: args.inner.address(),
            w: args.down.address(),
            y: args.out.address(),
            n: hidden as u32,
            k: intermediate as u32,
            ..gate_up
        };
        self.product(stream, plan, 0, &gate_up)?;
        self.product(stream, plan, 1, &down)?;
        let sum = SumParams {
            x: args.out.address(),
            weights: args.weights.address(),
            shared: args.shared.map_or(0, |view| view.address()),
            y: args.y.address(),
            per_token: per_token as u32,
            width: hidden as u32,
        };
        let columns = (hidden / VECTOR).div_ceil(SUM_THREADS as usize) as u32;
        let shape = Shape { grid: [rows as u32, columns, 1], ..Shape::linear(1, SUM_THREADS) };
        // SAFETY: as above.
        unsafe { stream.launch(&self.sum, shape, &sum) }
    }
}

impl Experts {
    #[allow(unsafe_code)]
    fn product(
        &self,
        stream: &Stream,
        plan: &Plan,
        which: usize,
        params: &ExpertsParams,
    ) -> Result<(), DriverError> {
        let Some(kernels) = &self.products[plan.tile] else {
            let text = "experts: the plan is for a device with wgmma".to_owned();
            return Err(DriverError::Invalid(text));
        };
        let (kernel, shape) = (&kernels[which], plan.shape(params.n as usize));
        if !TILES[plan.tile].wgmma {
            // SAFETY: the struct mirrors the kernel's; `Args::check` found the lengths in the views. Tiles and order are what
            // routing left for this plan's tile, so that they name visits and experts that there are.
            return unsafe { stream.launch(kernel, shape, params) };
        }
        let ExpertsParams {
            x, w, y, order, tiles, tile_count, n, k, per_token, activation, ..
        } = *params;
        let rows = u64::from(n) * plan.problem.experts as u64;
        let (dims, strides) = ([u64::from(k), rows], [2 * u64::from(k)]);
        let width = TILES[plan.tile].size[1] as u32;
        let w = TensorMap::bf16(w, &dims, &strides, &[64, width], Swizzle::Bytes128)?;
        let params = WgmmaParams {
            w,
            x,
            y,
            order,
            tiles,
            tile_count,
            n,
            k,
            per_token,
            activation,
            reserved: 0,
        };
        // SAFETY: as above; the map ends where the matrices do.
        unsafe { stream.launch(kernel, shape, &params) }
    }
}

impl Args<'_> {
    fn check(&self, plan: &Plan) -> Result<(), DriverError> {
        let Problem { rows, experts, hidden, intermediate, .. } = plan.problem;
        let visits = plan.problem.visits();
        let shared = self.shared.as_ref().map_or(rows * hidden, |view| view.len());
        let addresses = [self.x.address(), self.gate_up.address(), self.down.address()]
            .into_iter()
            .chain([self.inner.address(), self.out.address(), self.y.address()])
            .chain(self.shared.as_ref().map(|view| view.address()));
        let together = addresses.fold(0, |all, address| all | address);
        Lengths::of("experts")
            .at_least("x", self.x.len(), rows * hidden)
            .at_least("gate_up", self.gate_up.len(), experts * 2 * intermediate * hidden)
            .at_least("down", self.down.len(), experts * hidden * intermediate)
            .at_least("order", self.order.len(), visits)
            .at_least("tiles", self.tiles.len(), plan.most_tiles())
            .at_least("tile_count", self.tile_count.len(), 1)
            .at_least("weights", self.weights.len(), visits)
            .at_least("inner", self.inner.len(), visits * intermediate)
            .at_least("out", self.out.len(), visits * hidden)
            .at_least("shared", shared, rows * hidden)
            .at_least("y", self.y.len(), rows * hidden)
            .require(together.is_multiple_of(16), || "something is not 16-byte aligned".to_owned())
            .check()
    }
}

/// As `activate` of gemm.cuh counts them.
fn activation_number(activation: Activation) -> u32 {
    match activation {
        Activation::Silu => 0,
        Activation::GeluTanh => 1,
        Activation::GeluErf => 2,
    }
}

#[cfg(test)]
mod tests;
