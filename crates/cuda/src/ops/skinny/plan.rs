//! How a skinny product is laid out: tiles, splits, stages. Pure; the figures behind the choices are in `docs/lab-log.md`.

use super::{Ending, MOST_ROWS, Problem, SLAB};
use crate::{driver::DeviceLimits, ops::Unsupported};

/// Warps of a block that multiply, at most.
const MOST_WARPS: u32 = 12;
const MOST_STAGES: u32 = 16;
/// Shared memory that the kernels declare themselves, and some to spare.
const FIXED: u32 = 4096;
/// Stages of the portable kernel, a constant there.
const PORTABLE_STAGES: u32 = 4;
/// Shared memory of a block, so that two blocks of consecutive kernels fit into one multiprocessor of 228 KiB.
const ROOM: u32 = 110 * 1024;
/// Shared memory of a block that is to have a multiprocessor to itself. Where two blocks fit, those that are free first get two,
/// and others none.
const WHOLE: u32 = 208 * 1024;

/// Which kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// `cp.async` and `mma`: every GPU.
    Portable,
    /// Bulk copies and `mma`, units of 16 rows of `W`: from Hopper on, few rows of `x`.
    Warp,
    /// Bulk copies and `wgmma`, units of 64 rows of `W`: Hopper.
    Wgmma,
}

macro_rules! entries {
    ($($name:literal),*) => {
        [$([
            concat!("skinny_", $name, "_plain"),
            concat!("skinny_", $name, "_residual"),
            concat!("skinny_", $name, "_gate_up"),
            concat!("skinny_", $name, "_logits"),
        ]),*]
    };
}
pub(super) const PORTABLE_ENTRIES: [[&str; 4]; 4] =
    entries!("portable_8", "portable_16", "portable_32", "portable_64");
pub(super) const WARP_ENTRIES: [[&str; 4]; 3] = entries!("warp_8", "warp_16", "warp_32");
pub(super) const WGMMA_ENTRIES: [[&str; 4]; 4] =
    entries!("wgmma_8", "wgmma_16", "wgmma_32", "wgmma_64");
/// Rows of `x` that the entries are made for, in their order.
const WIDTHS: [u32; 4] = [8, 16, 32, 64];

/// How a product is spread over the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    pub(super) problem: Problem,
    /// Which kernel.
    pub family: Family,
    /// Rows of `x` that the kernel is made for.
    pub width: u32,
    /// Rows of `W` in a tile.
    pub tile_rows: u32,
    /// Blocks of a cluster that share a tile's K.
    pub split: u32,
    /// Units that share a tile's rows.
    pub row_groups: u32,
    /// Units that share the slabs of a stage.
    pub k_groups: u32,
    /// Slabs in a stage.
    pub slabs: u32,
    /// Stages in shared memory.
    pub stages: u32,
    /// Stages that are left to ask for when the next kernel may start; `u32::MAX`: as soon as this one runs.
    pub trigger_lead: u32,
    /// Blocks.
    pub blocks: u32,
    /// Threads of a block.
    pub threads: u32,
    /// Dynamic shared memory of a block, in bytes.
    pub shared: u32,
    pub(super) h_offset: u32,
    /// Stages of `W` that are asked for at once before the previous kernel has ended.
    pub(super) burst: u32,
    /// Clocks between two of the others that are asked for then.
    pub(super) pace: u32,
}

/// The choices that a plan is derived from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) family: Family,
    pub(super) tile_rows: u32,
    pub(super) split: u32,
    pub(super) k_groups: u32,
    /// Bytes of `W` in a stage, about.
    pub(super) stage_bytes: u32,
    /// Shared memory that a block may take.
    pub(super) room: u32,
    pub(super) trigger_lead: u32,
}

impl Plan {
    /// The plan for a problem.
    pub fn new(problem: &Problem, limits: &DeviceLimits) -> Result<Plan, Unsupported> {
        let requirement = match problem {
            Problem { rows, .. } if *rows > MOST_ROWS => "at most 64 rows",
            Problem { columns: 0, .. } | Problem { inner: 0, .. } => "a weight that is not empty",
            Problem { inner, .. } if !inner.is_multiple_of(8) => "rows of W of a multiple of 8",
            Problem { ending: Ending::GateUp, columns, .. } if !columns.is_multiple_of(16) => {
                "gate and up columns in whole groups of 8"
            }
            Problem { ending: Ending::Residual, columns, .. } if !columns.is_multiple_of(8) => {
                "a residual stream of a multiple of 8"
            }
            Problem { columns, inner, .. } if (*columns).max(*inner) > i32::MAX as usize / 2 => {
                "fewer than 2^30 rows and columns of W"
            }
            _ => "",
        };
        let unsupported = |requirement: &str| Unsupported {
            operation: "skinny",
            seen: format!("{problem:?}"),
            requirement: requirement.to_owned(),
        };
        if !requirement.is_empty() {
            return Err(unsupported(requirement));
        }
        let layout = Plan::chosen(problem, limits);
        let plan = layout.and_then(|layout| Plan::laid_out(problem, limits, &layout));
        plan.ok_or_else(|| {
            unsupported("shared memory for two stages of the narrowest tile, on this device")
        })
    }

    /// The layout with the least cost. An invariant problem gets the one that suits the most rows.
    fn chosen(problem: &Problem, limits: &DeviceLimits) -> Option<Layout> {
        let rows = if problem.invariant { MOST_ROWS } else { problem.rows };
        let problem = Problem { rows, ..*problem };
        let known = measured(&problem, limits);
        if known.is_some_and(|layout| Plan::laid_out(&problem, limits, &layout).is_some()) {
            return known;
        }
        let cost = |layout: &Layout| {
            Some((Plan::laid_out(&problem, limits, layout)?.cost(limits), *layout))
        };
        let costs = layouts(&problem, limits).into_iter().filter_map(|layout| cost(&layout));
        costs.min_by(|(a, _), (b, _)| a.total_cmp(b)).map(|(_, layout)| layout)
    }

    /// Sums of squares, or greatest values, that each row gets from the blocks of this plan.
    pub fn partials(&self) -> usize {
        self.blocks as usize
    }

    /// Whether one copy brings all slabs of a stage.
    pub(super) fn boxes_3d(&self) -> bool {
        self.family != Family::Portable && self.problem.inner.is_multiple_of(SLAB as usize)
    }

    /// Rows of `x` in shared memory.
    pub(super) fn x_rows(&self) -> u32 {
        x_rows(&self.problem, self.family, self.width)
    }

    /// Bytes between two slabs of `x`.
    pub(super) fn x_pitch(&self) -> u32 {
        x_pitch(&self.problem, self.family, self.width)
    }

    /// Bytes of a stage.
    pub(super) fn stage_bytes(&self) -> u32 {
        stage_bytes_of(self.slabs, self.tile_rows, self.x_pitch())
    }

    /// Place of the entries for [`Plan::width`].
    pub(super) fn width_index(&self) -> usize {
        WIDTHS.iter().position(|width| *width == self.width).unwrap_or(WIDTHS.len())
    }

    /// The plan with these choices, where they are possible.
    pub(super) fn laid_out(
        problem: &Problem,
        limits: &DeviceLimits,
        layout: &Layout,
    ) -> Option<Plan> {
        let Layout { family, tile_rows, split, k_groups, stage_bytes, room, trigger_lead } =
            *layout;
        let width = width_of(problem.rows);
        let (unit_rows, unit_warps) = if family == Family::Wgmma { (64, 4) } else { (16, 1) };
        let grain = if problem.ending == Ending::GateUp { 16 } else { 8 };
        let row_groups = tile_rows.div_ceil(unit_rows);
        let warps = row_groups * k_groups * unit_warps;
        let most_warps = match family {
            Family::Portable => 8,
            Family::Warp if width > 16 => 8,
            _ => MOST_WARPS,
        };
        let fits = tile_rows <= 256
            && warps <= most_warps
            && tile_rows.is_multiple_of(split * grain)
            && (family != Family::Wgmma || tile_rows.is_multiple_of(64))
            && (family == Family::Wgmma || split == 1);
        if !fits {
            return None;
        }
        let x_pitch = x_pitch(problem, family, width);
        let sums = k_groups * width * sums_pitch(tile_rows) * 4;
        let h = match problem.ending {
            Ending::Residual => problem.rows as u32 * (tile_rows / split) * 4,
            _ => 0,
        };
        let room = room.min(limits.shared_per_block.saturating_sub(FIXED)).saturating_sub(1024 + h);
        let least_stages = if family == Family::Portable { PORTABLE_STAGES } else { 2 };
        // A stage is a whole number of slabs for each unit, no longer than this block's part of K, and fits a few times.
        let each = (problem.inner as u32).div_ceil(SLAB).div_ceil(split);
        let most = room / least_stages / (tile_rows * 128 + x_pitch + 128);
        let wanted = (stage_bytes / (tile_rows * 128)).min(each).min(most / k_groups * k_groups);
        let slabs = (wanted / k_groups).max(1) * k_groups;
        let stage = stage_bytes_of(slabs, tile_rows, x_pitch);
        let rounds = each.div_ceil(slabs);
        let stages = match family {
            Family::Portable => PORTABLE_STAGES,
            _ => (room / stage).min(rounds).min(MOST_STAGES),
        };
        let bytes = (stages * stage).max(sums);
        let enough = stages > 1 || rounds == 1;
        if stages == 0 || !enough || bytes > room {
            return None;
        }
        let (burst, pace) = pace(slabs * tile_rows * 128, stages, rounds);
        Some(Plan {
            problem: *problem,
            family,
            width,
            tile_rows,
            split,
            row_groups,
            k_groups,
            slabs,
            stages,
            trigger_lead,
            blocks: (problem.columns as u32).div_ceil(tile_rows) * split,
            threads: 32 * (warps + u32::from(family != Family::Portable)),
            shared: 1024 + bytes + h,
            h_offset: bytes,
            burst,
            pace,
        })
    }
}

/// How a block's first stages are asked for, of `bytes` of `W` each: so many at once, and the clocks between two of the others. What
/// is asked for while the previous kernel still reads stands in its way: a product that is whole in shared memory asks about twice as
/// fast as the memory delivers, which is early enough. Longer ones, whose time the memory bounds, ask for all that there is room for.
fn pace(bytes: u32, stages: u32, rounds: u32) -> (u32, u32) {
    const BURST: u32 = 48 * 1024;
    const CLOCKS_A_KIB: u32 = 25;
    if rounds > stages {
        (stages, 0)
    } else {
        ((BURST / bytes).max(1), bytes / 1024 * CLOCKS_A_KIB)
    }
}

/// Units of one warp read what is there; `wgmma` and the portable kernel all that they are made for.
fn x_rows(problem: &Problem, family: Family, width: u32) -> u32 {
    if family == Family::Warp { problem.rows as u32 } else { width }
}

/// Slabs lie where the swizzle begins anew, or one behind the other where one copy brings them all.
fn x_pitch(problem: &Problem, family: Family, width: u32) -> u32 {
    let bytes = x_rows(problem, family, width) * 128;
    if problem.inner.is_multiple_of(SLAB as usize) { bytes } else { bytes.next_multiple_of(1024) }
}

/// Floats between two tokens' sums: as in `endings.cuh`.
fn sums_pitch(tile_rows: u32) -> u32 {
    tile_rows + if tile_rows.is_multiple_of(16) { 4 } else { 12 }
}

fn stage_bytes_of(slabs: u32, tile_rows: u32, x_pitch: u32) -> u32 {
    slabs * tile_rows * 128 + (slabs * x_pitch).next_multiple_of(1024)
}

/// The narrowest kernel for so many rows.
fn width_of(rows: usize) -> u32 {
    WIDTHS.into_iter().find(|width| rows <= *width as usize).unwrap_or(WIDTHS[3])
}

/// Layouts that were best, in chains of whole layers or whole steps on an H200, where the estimate of [`Plan::cost`] is not good
/// enough.
type Measured = (usize, usize, u32, Family, u32, u32, u32, u32, u32);
/// Columns, inner, width; family, tile rows, split, k groups, KiB of `W` in a stage, shared memory of a block.
#[rustfmt::skip]
const MEASURED: [Measured; 48] = [
    (6144, 4096, 8, Family::Warp, 48, 1, 2, 32, WHOLE),
    (6144, 4096, 16, Family::Warp, 48, 1, 2, 32, WHOLE),
    (6144, 4096, 32, Family::Wgmma, 64, 1, 2, 16, WHOLE),
    (6144, 4096, 64, Family::Wgmma, 64, 1, 2, 16, WHOLE),
    (4096, 4096, 8, Family::Wgmma, 64, 2, 2, 32, WHOLE),
    (4096, 4096, 16, Family::Wgmma, 64, 2, 2, 32, WHOLE),
    (4096, 4096, 32, Family::Wgmma, 64, 2, 2, 32, WHOLE),
    (4096, 4096, 64, Family::Wgmma, 64, 2, 2, 16, WHOLE),
    (24576, 4096, 16, Family::Wgmma, 192, 1, 1, 16, WHOLE),
    (24576, 4096, 32, Family::Wgmma, 192, 1, 1, 16, WHOLE),
    (24576, 4096, 64, Family::Wgmma, 192, 1, 1, 16, WHOLE),
    (4096, 12288, 8, Family::Wgmma, 64, 2, 2, 32, WHOLE),
    (4096, 12288, 16, Family::Wgmma, 64, 2, 2, 32, WHOLE),
    (4096, 12288, 32, Family::Wgmma, 64, 2, 2, 32, WHOLE),
    (4096, 12288, 64, Family::Wgmma, 64, 2, 2, 16, WHOLE),
    (151_936, 4096, 32, Family::Wgmma, 64, 1, 2, 16, ROOM),
    (151_936, 4096, 64, Family::Wgmma, 64, 1, 2, 16, ROOM),
    (4096, 1024, 8, Family::Warp, 32, 1, 4, 32, ROOM),
    (4096, 1024, 16, Family::Wgmma, 64, 1, 2, 16, WHOLE),
    (4096, 1024, 32, Family::Wgmma, 64, 1, 2, 16, WHOLE),
    (4096, 1024, 64, Family::Wgmma, 64, 1, 2, 16, WHOLE),
    (1024, 2048, 16, Family::Wgmma, 64, 4, 1, 16, WHOLE),
    (1024, 2048, 32, Family::Wgmma, 64, 4, 1, 16, WHOLE),
    (1024, 2048, 64, Family::Wgmma, 64, 4, 1, 16, WHOLE),
    (6144, 1024, 8, Family::Warp, 48, 1, 2, 32, ROOM),
    (6144, 1024, 16, Family::Wgmma, 64, 1, 2, 16, WHOLE),
    (6144, 1024, 32, Family::Wgmma, 64, 1, 2, 16, WHOLE),
    (6144, 1024, 64, Family::Wgmma, 64, 1, 2, 16, WHOLE),
    (1024, 3072, 16, Family::Wgmma, 64, 4, 1, 16, WHOLE),
    (1024, 3072, 32, Family::Wgmma, 64, 4, 1, 16, WHOLE),
    (1024, 3072, 64, Family::Wgmma, 64, 4, 1, 16, WHOLE),
    (151_936, 1024, 32, Family::Wgmma, 192, 1, 1, 16, ROOM),
    (151_936, 1024, 64, Family::Wgmma, 192, 1, 1, 16, ROOM),
    (3072, 2048, 8, Family::Warp, 24, 1, 4, 32, WHOLE),
    (3072, 2048, 32, Family::Wgmma, 64, 2, 2, 16, WHOLE),
    (3072, 2048, 64, Family::Wgmma, 64, 2, 2, 16, WHOLE),
    (2048, 2048, 8, Family::Warp, 16, 1, 8, 32, WHOLE),
    (2048, 2048, 32, Family::Warp, 16, 1, 8, 16, ROOM),
    (2048, 2048, 64, Family::Wgmma, 64, 4, 2, 16, WHOLE),
    (16384, 2048, 8, Family::Warp, 128, 1, 1, 32, WHOLE),
    (16384, 2048, 16, Family::Wgmma, 128, 1, 1, 16, WHOLE),
    (16384, 2048, 32, Family::Wgmma, 64, 1, 2, 16, ROOM),
    (16384, 2048, 64, Family::Wgmma, 128, 1, 1, 16, WHOLE),
    (2048, 8192, 8, Family::Warp, 16, 1, 8, 32, WHOLE),
    (2048, 8192, 32, Family::Wgmma, 64, 4, 2, 16, WHOLE),
    (2048, 8192, 64, Family::Wgmma, 64, 4, 2, 16, WHOLE),
    (128_256, 2048, 32, Family::Wgmma, 128, 1, 1, 16, ROOM),
    (128_256, 2048, 64, Family::Wgmma, 192, 1, 1, 16, ROOM),
];

/// The entry of [`MEASURED`] for a problem.
fn measured(problem: &Problem, limits: &DeviceLimits) -> Option<Layout> {
    let wanted = (problem.columns, problem.inner, width_of(problem.rows));
    let applies = limits.has_wgmma() && limits.sms == 132 && !problem.invariant;
    let entry = MEASURED.iter().find(|entry| applies && (entry.0, entry.1, entry.2) == wanted)?;
    let &(_, _, _, family, tile_rows, split, k_groups, stage, room) = entry;
    let (stage_bytes, trigger_lead) = (stage * 1024, trigger_lead(problem));
    Some(Layout { family, tile_rows, split, k_groups, stage_bytes, room, trigger_lead })
}

/// The shared memory that a block may take: a multiprocessor's, where there is one for each block. An invariant problem's layout
/// has to do for every number of rows.
fn room_of(
    problem: &Problem,
    limits: &DeviceLimits,
    family: Family,
    tile_rows: u32,
    split: u32,
) -> u32 {
    let blocks = (problem.columns as u32).div_ceil(tile_rows) * split;
    let whole = family == Family::Wgmma && blocks <= limits.sms && !problem.invariant;
    if whole { WHOLE } else { ROOM }
}

/// Stages that are left to ask for when the next kernel may start. Some blocks of a long product end many microseconds before the
/// others (not all multiprocessors read equally fast): the next kernel's blocks take their places and ask for weights meanwhile.
fn trigger_lead(problem: &Problem) -> u32 {
    match problem.ending {
        Ending::GateUp => 4,
        Ending::Residual if problem.inner > problem.columns => 2,
        _ => 0,
    }
}

/// The layouts that may suit a problem on this device.
pub(super) fn layouts(problem: &Problem, limits: &DeviceLimits) -> Vec<Layout> {
    let width = width_of(problem.rows);
    let warp = limits.is_hopper_or_later() && !problem.invariant;
    let family = match () {
        () if warp && (width <= 16 || width <= 32 && !limits.has_wgmma()) => Family::Warp,
        () if limits.has_wgmma() => Family::Wgmma,
        () => Family::Portable,
    };
    let stage_bytes = if width == 8 { 32768 } else { 16384 };
    let plain = Layout {
        family,
        tile_rows: 64,
        split: 1,
        k_groups: 1,
        stage_bytes,
        room: ROOM,
        trigger_lead: trigger_lead(problem),
    };
    match family {
        Family::Wgmma => {
            let tiles = [(64, 2), (64, 1), (128, 1), (192, 1)];
            let splits = |tile| [1, 2, 4, 8].map(|split| (tile, split));
            let layout = |((tile_rows, k_groups), split)| {
                let room = room_of(problem, limits, family, tile_rows, split);
                Layout { tile_rows, split, k_groups, room, ..plain }
            };
            tiles.into_iter().flat_map(splits).map(layout).collect()
        }
        Family::Warp | Family::Portable => {
            let grain = if problem.ending == Ending::GateUp { 16 } else { 8 };
            let shares = (1..=8).map(|waves| {
                let share = (problem.columns as u32).div_ceil(limits.sms * waves);
                share.next_multiple_of(grain).clamp(grain, 192)
            });
            let mut tiles: Vec<u32> = shares.chain([64]).collect();
            tiles.dedup();
            let layout = |(tile_rows, k_groups)| Layout { tile_rows, k_groups, ..plain };
            let groups = |tile_rows| [8, 4, 2, 1].map(|k_groups| (tile_rows, k_groups));
            tiles.into_iter().flat_map(groups).map(layout).collect()
        }
    }
}

impl Plan {
    /// Estimated time, in bytes that the busiest multiprocessor moves. The weights of the terms are fitted to an H200: a row of
    /// `x` comes from the second-level cache; a block that is alone on its multiprocessor has less under way and nothing to
    /// hide its end behind; a cluster's meeting costs about a microsecond.
    fn cost(&self, limits: &DeviceLimits) -> f64 {
        let part = self.problem.inner as f64 * 2.0 / f64::from(self.split);
        let (weights, xs) = (f64::from(self.tile_rows) * part, self.problem.rows as f64 * part);
        let x_share = if self.family == Family::Wgmma { 0.6 } else { 0.15 };
        let waves = f64::from(self.blocks.div_ceil(limits.sms));
        let alone = if waves == 1.0 { 0.08 * weights + 6e3 } else { 0.0 };
        let meeting = if self.split > 1 { 40e3 * f64::from(self.split) } else { 0.0 };
        let idle = f64::from(MOST_WARPS) - f64::from(self.threads / 32);
        waves * (weights + x_share * xs + 4e3) + alone + meeting + 512.0 * idle
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn devices() -> [DeviceLimits; 3] {
        let h200 = DeviceLimits::h200();
        [
            DeviceLimits { arch: 80, sms: 108, shared_per_block: 163 * 1024, ..h200.clone() },
            DeviceLimits { arch: 120, sms: 170, shared_per_block: 99 * 1024, ..h200.clone() },
            h200,
        ]
    }

    /// What the kernels rely on.
    fn check(plan: &Plan, limits: &DeviceLimits) {
        let Problem { rows, columns, inner, ending, .. } = plan.problem;
        let unit = if plan.family == Family::Wgmma { 64 } else { 16 };
        assert!(rows <= plan.width as usize);
        assert!((plan.blocks / plan.split * plan.tile_rows) as usize >= columns, "all columns");
        assert!(plan.blocks.is_multiple_of(plan.split) && plan.split <= 8);
        assert!(plan.burst >= 1 && plan.pace <= 10_000, "some microseconds");
        assert!(plan.row_groups * unit >= plan.tile_rows, "all rows of a tile");
        assert!(plan.slabs.is_multiple_of(plan.k_groups) && plan.slabs <= 256);
        assert!(plan.k_groups <= 8, "what a finishing lane asks for at once");
        assert!(plan.tile_rows <= 256 && plan.tile_rows.is_multiple_of(8 * plan.split));
        assert!(ending != Ending::GateUp || plan.tile_rows.is_multiple_of(16 * plan.split));
        assert!((1..=16).contains(&plan.stages) && plan.threads <= 416);
        assert!(plan.stage_bytes().is_multiple_of(1024), "the swizzle begins at multiples of 1024");
        assert!(plan.shared <= limits.shared_per_block - FIXED && plan.shared <= WHOLE);
        let rounds = (inner as u32).div_ceil(64).div_ceil(plan.split).div_ceil(plan.slabs);
        assert!(plan.stages >= rounds.min(2), "one stage cannot be filled while it is read");
        let sums = plan.k_groups * plan.width * sums_pitch(plan.tile_rows) * 4;
        assert!(sums.max(plan.stages * plan.stage_bytes()) <= plan.h_offset);
        let h = if ending == Ending::Residual {
            rows as u32 * plan.tile_rows / plan.split * 4
        } else {
            0
        };
        assert!(plan.h_offset + h + 1024 <= plan.shared && plan.h_offset.is_multiple_of(16));
        assert!(plan.family == Family::Wgmma || plan.split == 1);
    }

    proptest! {
        #[test]
        fn every_plan_is_one_that_the_kernels_can_do(
            rows in 1usize..=64, columns in 1usize..12000, slices in 1usize..2000,
            ending in 0usize..4, invariant: bool, device in 0usize..3,
        ) {
            let ending = [Ending::Plain, Ending::Residual, Ending::GateUp, Ending::Logits][ending];
            let grain = [1, 8, 16, 1][ending as usize];
            let columns = columns * grain;
            let problem = Problem { rows, columns, inner: slices * 8, ending, invariant };
            let limits = &devices()[device];
            check(&Plan::new(&problem, limits).unwrap(), limits);
            for layout in layouts(&problem, limits) {
                if let Some(plan) = Plan::laid_out(&problem, limits, &layout) {
                    check(&plan, limits);
                }
            }
        }
    }

    #[test]
    fn an_invariant_plan_sums_in_one_order() {
        let limits = DeviceLimits::h200();
        for (columns, inner) in [(4096, 4096), (6144, 1024), (1024, 3072), (151_936, 4096)] {
            let plan = |rows| {
                let ending = Ending::Plain;
                let problem = Problem { rows, columns, inner, ending, invariant: true };
                Plan::new(&problem, &limits).unwrap()
            };
            let order = |plan: &Plan| (plan.family, plan.tile_rows, plan.split, plan.k_groups);
            let first = order(&plan(1));
            assert!((2..=64).all(|rows| order(&plan(rows)) == first), "{columns} x {inner}");
        }
    }

    #[test]
    fn what_cannot_be_done_is_named() {
        let problem = |rows, columns, inner, ending| {
            let problem = Problem { rows, columns, inner, ending, invariant: false };
            Plan::new(&problem, &DeviceLimits::h200()).unwrap_err().to_string()
        };
        assert!(problem(65, 64, 64, Ending::Plain).contains("at most 64 rows"));
        assert!(problem(1, 64, 68, Ending::Plain).contains("a multiple of 8"));
        assert!(problem(1, 24, 64, Ending::GateUp).contains("groups of 8"));
        assert!(problem(1, 0, 64, Ending::Plain).contains("not empty"));
    }
}
