//! Which kernel a matrix product takes, and how it is spread over the device. Pure.

use models::semantic::Activation;

use crate::{
    driver::{DeviceLimits, Shape},
    ops::{Traffic, Unsupported},
};

/// What becomes of the sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// `y [rows, n]` in bf16.
    Bf16,
    /// `y [rows, n]` in f32.
    F32,
    /// `y [rows, n]` in f32, added to in place: the residual stream.
    AddF32,
    /// `y [rows, n / 2]` in bf16: `activation(gate) * up`, where rows of `w` are interleaved in groups of eight, gate first.
    GateUp(Activation),
}

/// A product `y = x * w^T`: `x [rows, k]` and `w [n, k]` in bf16, row-major.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Rows of `x`; the most there can be where the live ones are counted on the device.
    pub rows: u32,
    /// Rows of `w`.
    pub n: u32,
    /// Columns of both.
    pub k: u32,
    /// Whether `n` f32 numbers are added to each row before the output is formed.
    pub bias: bool,
    /// What is stored.
    pub output: Output,
    /// The result of a row must not depend on how many others there are: one kernel, one order of sums for every `rows`.
    pub invariant: bool,
}

impl Problem {
    /// A product without bias, in bf16.
    pub fn plain(rows: u32, n: u32, k: u32) -> Problem {
        Problem { rows, n, k, bias: false, output: Output::Bf16, invariant: false }
    }

    /// Columns of `y`.
    pub fn columns(&self) -> u32 {
        match self.output {
            Output::GateUp(_) => self.n / 2,
            _ => self.n,
        }
    }

    /// Everything read and written once, and two operations a multiply-add.
    pub fn traffic(&self) -> Traffic {
        let [rows, n, k, columns] = [self.rows, self.n, self.k, self.columns()].map(u64::from);
        let width = match self.output {
            Output::Bf16 | Output::GateUp(_) => 2,
            Output::F32 => 4,
            Output::AddF32 => 8,
        };
        let bias = if self.bias { 4 * n } else { 0 };
        Traffic {
            bytes: 2 * (rows * k + n * k) + bias + rows * columns * width,
            flops: 2 * rows * n * k,
        }
    }

    /// Microseconds that it takes at the least on the fastest device there is a kernel for, roughly.
    pub fn least_micros(&self) -> f64 {
        let Traffic { bytes, flops } = self.traffic();
        (flops as f64 / 7e8).max(bytes as f64 / 4.5e6)
    }

    fn check(&self) -> Result<(), Unsupported> {
        let requirement = match self.output {
            _ if self.k == 0 || !self.k.is_multiple_of(8) => "k a positive multiple of 8",
            _ if self.n == 0 => "n at least 1",
            Output::GateUp(_) if !self.n.is_multiple_of(16) => "n a multiple of 16 for gate and up",
            _ => return Ok(()),
        };
        Err(Unsupported {
            operation: "gemm",
            seen: format!("n {}, k {}", self.n, self.k),
            requirement: requirement.to_owned(),
        })
    }
}

/// A tile of `gemm.cu`.
#[derive(Debug, PartialEq, Eq)]
pub struct PortableTile {
    /// Rows and columns of `y` that one block computes.
    pub size: [u32; 2],
    threads: u32,
    stages: u32,
    /// Kernels by output: bf16, f32, added f32, gate and up.
    pub(super) entries: [&'static str; 4],
}

/// A tile of `gemm_wgmma.cu`.
#[derive(Debug, PartialEq, Eq)]
pub struct WgmmaTile {
    /// Columns of `y` that one block computes, of 128 rows.
    pub columns: u32,
    /// Blocks, one above the other, that share one tile of weights.
    pub cluster: u32,
    /// Blocks that share one tile of `y`, each a stretch of `k`; their sums are added in order. 1: the sum is in one piece.
    pub split: u32,
    /// Whether the halves of a block take turns, each with a tile of its own: one multiplies while the other stores.
    pub turns: bool,
    stages: u32,
    /// Kernels by output: bf16, f32, added f32, gate and up.
    pub(super) entries: [&'static str; 4],
}

macro_rules! entries {
    ($($prefix:tt)*) => {
        [
            concat!($($prefix)*, "_bf16"),
            concat!($($prefix)*, "_f32"),
            concat!($($prefix)*, "_add"),
            concat!($($prefix)*, "_gate_up"),
        ]
    };
}

/// Mirrors the list at the end of `gemm.cu`.
pub static PORTABLE: [PortableTile; 4] = [
    PortableTile { size: [16, 128], threads: 128, stages: 4, entries: entries!("gemm_16x128") },
    PortableTile { size: [32, 128], threads: 128, stages: 4, entries: entries!("gemm_32x128") },
    PortableTile { size: [64, 64], threads: 128, stages: 4, entries: entries!("gemm_64x64") },
    PortableTile { size: [128, 128], threads: 256, stages: 3, entries: entries!("gemm_128x128") },
];

macro_rules! wgmma {
    ($columns:literal x $cluster:literal, $stages:literal stages) => {
        WgmmaTile {
            columns: $columns,
            cluster: $cluster,
            split: 1,
            turns: false,
            stages: $stages,
            entries: entries!(concat!("gemm_wgmma_", $columns, "x", $cluster)),
        }
    };
    ($columns:literal in turns, $stages:literal stages) => {
        WgmmaTile {
            columns: $columns,
            cluster: 1,
            split: 1,
            turns: true,
            stages: $stages,
            entries: entries!(concat!("gemm_wgmma_turns_", $columns, "x2")),
        }
    };
    ($columns:literal / $split:literal, $stages:literal stages) => {
        WgmmaTile {
            columns: $columns,
            cluster: 1,
            split: $split,
            turns: false,
            stages: $stages,
            entries: entries!(concat!("gemm_wgmma_split_", $columns, "x", $split)),
        }
    };
}

/// Mirrors the list at the end of `gemm_wgmma.cu`.
pub static WGMMA: [WgmmaTile; 14] = [
    wgmma!(64 x 1, 8 stages),
    wgmma!(128 x 1, 6 stages),
    wgmma!(192 x 1, 5 stages),
    wgmma!(256 x 1, 4 stages),
    wgmma!(128 x 2, 6 stages),
    wgmma!(192 x 2, 5 stages),
    wgmma!(256 x 2, 4 stages),
    wgmma!(64 / 4, 8 stages),
    wgmma!(128 / 2, 6 stages),
    wgmma!(128 / 4, 6 stages),
    wgmma!(192 / 2, 5 stages),
    wgmma!(192 / 4, 5 stages),
    wgmma!(160 in turns, 6 stages),
    wgmma!(176 in turns, 5 stages),
];

/// Rows from which on the kernels for Hopper store bf16 sooner than the library does by the algorithm that it thinks best. (What it
/// adds in f32 it has asked for in time; these kernels have not.)
const OUR_ROWS: u32 = 512;
/// Elements of `k` that a stage holds.
const STAGE_K: u32 = 64;
/// Rows of `y` that a block of a [`WgmmaTile`] computes.
pub(super) const WGMMA_ROWS: u32 = 128;
const WGMMA_THREADS: u32 = 384;

/// Who computes a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// NVIDIA's library.
    Cublaslt,
    /// Hopper's warpgroup products.
    Wgmma(&'static WgmmaTile),
    /// Warp products, which every served GPU has.
    Portable(&'static PortableTile),
}

/// A product and how it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// What is asked.
    pub problem: Problem,
    /// Who does it.
    pub route: Route,
    sms: u32,
}

impl Plan {
    /// The rule for shapes that nobody has timed: the library for what it can do (no gating; no request that a row's result be
    /// independent of the others) and does faster, else the tile whose waves over the device are shortest.
    pub fn new(
        problem: &Problem,
        limits: &DeviceLimits,
        cublaslt: bool,
    ) -> Result<Plan, Unsupported> {
        let able = match problem.output {
            Output::GateUp(_) => false,
            Output::Bf16 => !limits.has_wgmma() || problem.rows < OUR_ROWS,
            Output::F32 | Output::AddF32 => true,
        } && !problem.invariant;
        if cublaslt && able && problem.check().is_ok() {
            return Plan::by(problem, limits, Route::Cublaslt);
        }
        Plan::ours(problem, limits)
    }

    /// As [`Plan::new`] where the library is missing or refuses: one of this crate's kernels.
    pub fn ours(problem: &Problem, limits: &DeviceLimits) -> Result<Plan, Unsupported> {
        let route = match limits.has_wgmma() {
            true => Route::Wgmma(wgmma_tile(problem, limits.sms)),
            false => Route::Portable(portable_tile(problem, limits.sms)),
        };
        Plan::by(problem, limits, route)
    }

    /// A product done as `route` says.
    pub fn by(problem: &Problem, limits: &DeviceLimits, route: Route) -> Result<Plan, Unsupported> {
        problem.check()?;
        let plan = Plan { problem: *problem, route, sms: limits.sms };
        let shape = plan.shape();
        if shape.grid[0] > i32::MAX as u32 || shape.shared > limits.shared_per_block {
            return Err(Unsupported {
                operation: "gemm",
                seen: format!("{problem:?} on {}: {shape:?}", limits.name),
                requirement: format!(
                    "a grid below 2^31, at most {} bytes of shared memory",
                    limits.shared_per_block
                ),
            });
        }
        Ok(plan)
    }

    /// Grid, block and shared memory of this crate's kernels; an empty grid where the library launches.
    pub fn shape(&self) -> Shape {
        let Problem { rows, n, .. } = self.problem;
        match self.route {
            Route::Cublaslt => {
                Shape { grid: [0, 1, 1], block: 0, shared: 0, cluster: 1, overlap: false }
            }
            Route::Wgmma(tile) => {
                // Split tiles have their own blocks; others are taken in turn by as many blocks as there are multiprocessors.
                let blocks = match tile.split {
                    1 => {
                        tile.tiles(rows, n).min(u64::from((self.sms / tile.cluster).max(1)))
                            * u64::from(tile.cluster)
                    }
                    split => tile.tiles(rows, n) * u64::from(split),
                };
                Shape {
                    grid: [u32::try_from(blocks).unwrap_or(u32::MAX), 1, 1],
                    block: WGMMA_THREADS,
                    // What dynamic shared memory begins with is unaligned: up to 1024 bytes are skipped.
                    shared: tile.stages * (WGMMA_ROWS + tile.columns) * STAGE_K * 2 + 1024,
                    cluster: tile.cluster * tile.split,
                    overlap: true,
                }
            }
            Route::Portable(tile) => {
                let [tile_rows, tile_columns] = tile.size;
                let blocks =
                    u64::from(rows.div_ceil(tile_rows)) * u64::from(n.div_ceil(tile_columns));
                Shape {
                    grid: [u32::try_from(blocks).unwrap_or(u32::MAX), 1, 1],
                    block: tile.threads,
                    shared: tile.stages * (tile_rows + tile_columns) * STAGE_K * 2,
                    cluster: 1,
                    overlap: true,
                }
            }
        }
    }
}

impl WgmmaTile {
    /// Tiles of a cluster.
    fn tiles(&self, rows: u32, n: u32) -> u64 {
        u64::from(rows.div_ceil(WGMMA_ROWS * self.cluster)) * u64::from(n.div_ceil(self.columns))
    }

    /// A sum in several pieces has another order than one in a single piece.
    /// Turns pay where every block has several.
    fn fits(&self, problem: &Problem, sms: u32) -> bool {
        let several = self.tiles(problem.rows, problem.n) >= 2 * u64::from(sms);
        (self.split == 1 || !problem.invariant) && (!self.turns || several)
    }

    /// Nanoseconds that a product takes, roughly: waves of tiles, each so many steps of 64 along `k`; at least as long as its
    /// weights take from memory. All constants are measurements on an H200 under load.
    fn cost(&self, problem: &Problem, sms: u32) -> u64 {
        let Problem { rows, n, k, .. } = *problem;
        let blocks = self.tiles(rows, n) * u64::from(self.cluster * self.split);
        let steps = u64::from(k.div_ceil(STAGE_K).div_ceil(self.split));
        let step_ns = match self.turns {
            false => 125 + u64::from(self.columns) * 203 / 100,
            true => u64::from(self.columns) * 5 / 2,
        };
        let weights_ns = u64::from(n) * u64::from(k) * 2 / 3700;
        let fixed_ns = match self.split {
            1 => 2500,
            2 => 5500,
            // Large clusters find room late on a full device.
            _ => 6000 + 200 * blocks.saturating_sub(64),
        };
        fixed_ns + weights_ns.max(blocks.div_ceil(u64::from(sms.max(1))) * steps * step_ns)
    }
}

/// This crate's ways that are worth timing: the rule's first, then those whose waves are not much longer.
pub(super) fn candidates(problem: &Problem, limits: &DeviceLimits) -> Vec<Route> {
    let Ok(Plan { route: first, .. }) = Plan::ours(problem, limits) else { return Vec::new() };
    let cost = |tile: &WgmmaTile| tile.cost(problem, limits.sms);
    let near = |tile: &&'static WgmmaTile| match first {
        Route::Wgmma(best) => *tile != best && cost(tile) * 4 <= cost(best) * 5,
        _ => false,
    };
    let able = WGMMA.iter().filter(|tile| tile.fits(problem, limits.sms));
    let others = able.filter(near).map(Route::Wgmma);
    [first].into_iter().chain(others).collect()
}

fn wgmma_tile(problem: &Problem, sms: u32) -> &'static WgmmaTile {
    let able = WGMMA.iter().filter(|tile| tile.fits(problem, sms));
    able.min_by_key(|tile| tile.cost(problem, sms)).expect("a sum in one piece fits every problem")
}

fn portable_tile(problem: &Problem, sms: u32) -> &'static PortableTile {
    let [small, medium, square, large] = &PORTABLE;
    let blocks = |tile: &PortableTile| {
        problem.rows.div_ceil(tile.size[0]).saturating_mul(problem.n.div_ceil(tile.size[1]))
    };
    match problem.rows {
        0..=16 => small,
        17..=32 => medium,
        _ if blocks(large) >= sms => large,
        _ => square,
    }
}
