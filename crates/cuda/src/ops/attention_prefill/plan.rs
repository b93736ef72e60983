//! What is asked, and how it is cut into tiles: plain data, made on the host.

use std::{cmp::Reverse, collections::BinaryHeap, f32::consts::LOG2_E};

use bytemuck::{Pod, Zeroable};

use crate::{driver::DeviceLimits, ops::Unsupported};

/// What attention does, beside its inputs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attention {
    /// Query heads.
    pub heads: usize,
    /// Key and value heads.
    pub kv_heads: usize,
    /// Width of a head.
    pub head_dim: usize,
    /// Multiplies the scores.
    pub scale: f32,
    /// How many tokens a token sees, itself included.
    pub window: Option<u32>,
    /// Cap on the scaled scores.
    pub softcap: Option<f32>,
    /// How the cache holds keys and values.
    pub cache: CacheFormat,
}

/// How the cache holds keys and values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CacheFormat {
    /// As bf16.
    Bf16,
    /// As e4m3, to be multiplied by these.
    Fp8 {
        /// Scale of the keys.
        keys: f32,
        /// Scale of the values.
        values: f32,
    },
}

/// Consecutive tokens of one sequence, in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// First row of the step.
    pub row: u32,
    /// How many rows.
    pub rows: u32,
    /// Tokens of the sequence before this run.
    pub cached: u32,
    /// Which of the block tables is its.
    pub sequence: u32,
}

/// Some consecutive tokens of a run times some query heads of one group: `Tile` of attention_prefill.cuh.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Pod, Zeroable)]
pub struct Tile {
    /// Row of its first token.
    pub row: i32,
    /// That token's place in its sequence.
    pub position: i32,
    /// Which of the block tables.
    pub sequence: i32,
    /// First query head.
    pub head: u16,
    /// Tokens.
    pub tokens: u8,
    /// Query heads.
    pub heads: u8,
    /// First key of the first tile of keys that it goes through.
    pub first: i32,
    /// First key of the last one.
    pub last: i32,
    /// Place of this part's result, where the tile is split; its parts have one after the other.
    pub slot: u32,
    /// Which part of the tile this is.
    pub part: u16,
    /// How many parts it has.
    pub parts: u16,
}

/// Which of the two sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// `attention_prefill.cu`.
    Portable,
    /// `attention_prefill_sm90.cu`.
    Hopper,
    /// The same, where some tiles come in parts.
    HopperSplit,
}

/// A kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variant {
    /// Which of the two sources.
    pub algorithm: Algorithm,
    /// Columns computed: `head_dim`, or the next width above it that there is a kernel for.
    pub width: usize,
    /// Whether the cache holds e4m3.
    pub fp8: bool,
}

/// The tiles of a step.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Which kernel takes them.
    pub variant: Variant,
    /// The work. Portable: one block a tile, the heaviest first. Hopper: block after block, each block's heaviest first.
    pub tiles: Vec<Tile>,
    /// Hopper: block `b` takes `tiles[shares[b]..shares[b + 1]]`. Portable: empty.
    pub shares: Vec<i32>,
    /// Rows from the first of the step to the last of any run.
    pub rows: u32,
    /// Block tables in use: one more than the highest `sequence`.
    pub sequences: u32,
    /// Places for the results of parts, [`Plan::most_slots`] at the most.
    pub slots: u32,
}

/// Widths of the portable kernel.
const PORTABLE_WIDTHS: [usize; 7] = [32, 64, 80, 96, 128, 192, 256];
/// Widths of the Hopper kernel: exactly these.
const HOPPER_WIDTHS: [usize; 5] = [64, 80, 96, 128, 256];

impl CacheFormat {
    /// Bytes of an element.
    pub fn element_bytes(self) -> usize {
        match self {
            CacheFormat::Bf16 => 2,
            CacheFormat::Fp8 { .. } => 1,
        }
    }

    fn key_scale(self) -> f32 {
        match self {
            CacheFormat::Bf16 => 1.0,
            CacheFormat::Fp8 { keys, .. } => keys,
        }
    }

    pub(super) fn value_scale(self) -> f32 {
        match self {
            CacheFormat::Bf16 => 1.0,
            CacheFormat::Fp8 { values, .. } => values,
        }
    }
}

impl Attention {
    /// Weight of a score in the exponent of two, and the factor inside the cap's tanh times `2 log2 e` (0: no cap).
    pub(super) fn exponent(&self) -> (f32, f32) {
        let scale = self.scale * self.cache.key_scale();
        match self.softcap {
            None => (scale * LOG2_E, 0.0),
            Some(cap) => (cap * LOG2_E, 2.0 * LOG2_E * scale / cap),
        }
    }

    fn check(&self) -> Result<(), Unsupported> {
        let Attention { heads, kv_heads, head_dim, scale, window, softcap, cache } = *self;
        let positive = |value: f32| value > 0.0 && value.is_finite();
        let rules = [
            (
                kv_heads > 0 && heads > 0 && heads.is_multiple_of(kv_heads.max(1)),
                "heads divide by kv_heads",
            ),
            (heads <= usize::from(u16::MAX), "heads <= 65535"),
            (
                head_dim > 0 && head_dim.is_multiple_of(8) && head_dim <= 256,
                "head_dim % 8 == 0, 8..=256",
            ),
            (positive(scale), "scale > 0"),
            (positive(cache.key_scale()) && positive(cache.value_scale()), "cache scales > 0"),
            (window != Some(0), "window > 0"),
            (softcap.is_none_or(positive), "softcap > 0"),
        ];
        let broken: Vec<&str> = rules.iter().filter(|rule| !rule.0).map(|rule| rule.1).collect();
        match broken.is_empty() {
            true => Ok(()),
            false => Err(Unsupported {
                operation: "attention_prefill",
                seen: format!("{self:?}"),
                requirement: broken.join("; "),
            }),
        }
    }
}

impl Variant {
    /// The kernel for `attention` on such a device.
    pub fn of(attention: &Attention, limits: &DeviceLimits) -> Result<Variant, Unsupported> {
        Variant::hopper(attention, limits).map_or_else(|| Variant::portable(attention, limits), Ok)
    }

    /// The portable kernel for `attention`.
    pub fn portable(attention: &Attention, limits: &DeviceLimits) -> Result<Variant, Unsupported> {
        attention.check()?;
        let width = PORTABLE_WIDTHS.into_iter().find(|width| *width >= attention.head_dim);
        let fp8 = attention.cache.element_bytes() == 1;
        let variant = Variant { algorithm: Algorithm::Portable, width: width.unwrap_or(256), fp8 };
        match variant.shared_bytes() <= limits.shared_per_block {
            true => Ok(variant),
            false => Err(Unsupported {
                operation: "attention_prefill",
                seen: format!("{} bytes on {}", limits.shared_per_block, limits.name),
                requirement: format!("{} bytes of shared memory a block", variant.shared_bytes()),
            }),
        }
    }

    /// The Hopper kernel for `attention`, where there is one and the device is one.
    pub fn hopper(attention: &Attention, limits: &DeviceLimits) -> Option<Variant> {
        let fits = attention.check().is_ok()
            && limits.has_wgmma()
            && HOPPER_WIDTHS.contains(&attention.head_dim);
        fits.then_some(Variant {
            algorithm: Algorithm::Hopper,
            width: attention.head_dim,
            fp8: attention.cache.element_bytes() == 1,
        })
    }

    /// All kernels that such a device can run.
    pub fn all(limits: &DeviceLimits) -> impl Iterator<Item = Variant> + use<> {
        let both = |algorithm, width| [false, true].map(|fp8| Variant { algorithm, width, fp8 });
        let portable =
            PORTABLE_WIDTHS.into_iter().flat_map(move |width| both(Algorithm::Portable, width));
        let hopper = HOPPER_WIDTHS.into_iter().flat_map(move |width| {
            both(Algorithm::Hopper, width).into_iter().chain(both(Algorithm::HopperSplit, width))
        });
        let (wgmma, most) = (limits.has_wgmma(), limits.shared_per_block);
        portable.chain(hopper.filter(move |_| wgmma)).filter(move |v| v.shared_bytes() <= most)
    }

    /// The kernel that also takes tiles in parts, where there is one.
    fn splitting(self) -> Variant {
        match self.algorithm {
            Algorithm::Portable => self,
            Algorithm::Hopper | Algorithm::HopperSplit => {
                Variant { algorithm: Algorithm::HopperSplit, ..self }
            }
        }
    }

    /// Name of the kernel in its image.
    pub fn entry(self) -> &'static str {
        match (self.algorithm, self.fp8, self.width) {
            (Algorithm::Portable, false, 32) => "attention_prefill_bf16_d32",
            (Algorithm::Portable, false, 64) => "attention_prefill_bf16_d64",
            (Algorithm::Portable, false, 80) => "attention_prefill_bf16_d80",
            (Algorithm::Portable, false, 96) => "attention_prefill_bf16_d96",
            (Algorithm::Portable, false, 128) => "attention_prefill_bf16_d128",
            (Algorithm::Portable, false, 192) => "attention_prefill_bf16_d192",
            (Algorithm::Portable, false, _) => "attention_prefill_bf16_d256",
            (Algorithm::Portable, true, 32) => "attention_prefill_fp8_d32",
            (Algorithm::Portable, true, 64) => "attention_prefill_fp8_d64",
            (Algorithm::Portable, true, 80) => "attention_prefill_fp8_d80",
            (Algorithm::Portable, true, 96) => "attention_prefill_fp8_d96",
            (Algorithm::Portable, true, 128) => "attention_prefill_fp8_d128",
            (Algorithm::Portable, true, 192) => "attention_prefill_fp8_d192",
            (Algorithm::Portable, true, _) => "attention_prefill_fp8_d256",
            (Algorithm::Hopper, false, 64) => "attention_prefill_sm90_bf16_d64",
            (Algorithm::Hopper, false, 80) => "attention_prefill_sm90_bf16_d80",
            (Algorithm::Hopper, false, 96) => "attention_prefill_sm90_bf16_d96",
            (Algorithm::Hopper, false, 128) => "attention_prefill_sm90_bf16_d128",
            (Algorithm::Hopper, false, _) => "attention_prefill_sm90_bf16_d256",
            (Algorithm::Hopper, true, 64) => "attention_prefill_sm90_fp8_d64",
            (Algorithm::Hopper, true, 80) => "attention_prefill_sm90_fp8_d80",
            (Algorithm::Hopper, true, 96) => "attention_prefill_sm90_fp8_d96",
            (Algorithm::Hopper, true, 128) => "attention_prefill_sm90_fp8_d128",
            (Algorithm::Hopper, true, _) => "attention_prefill_sm90_fp8_d256",
            (Algorithm::HopperSplit, false, 64) => "attention_prefill_sm90_split_bf16_d64",
            (Algorithm::HopperSplit, false, 80) => "attention_prefill_sm90_split_bf16_d80",
            (Algorithm::HopperSplit, false, 96) => "attention_prefill_sm90_split_bf16_d96",
            (Algorithm::HopperSplit, false, 128) => "attention_prefill_sm90_split_bf16_d128",
            (Algorithm::HopperSplit, false, _) => "attention_prefill_sm90_split_bf16_d256",
            (Algorithm::HopperSplit, true, 64) => "attention_prefill_sm90_split_fp8_d64",
            (Algorithm::HopperSplit, true, 80) => "attention_prefill_sm90_split_fp8_d80",
            (Algorithm::HopperSplit, true, 96) => "attention_prefill_sm90_split_fp8_d96",
            (Algorithm::HopperSplit, true, 128) => "attention_prefill_sm90_split_fp8_d128",
            (Algorithm::HopperSplit, true, _) => "attention_prefill_sm90_split_fp8_d256",
        }
    }

    /// Query rows of the smallest kind of tile.
    const FEWEST_ROWS: usize = 64;

    /// Query rows of a tile.
    fn tile_rows(self) -> usize {
        match self.algorithm {
            Algorithm::Portable => Variant::FEWEST_ROWS,
            Algorithm::Hopper | Algorithm::HopperSplit => 128,
        }
    }

    /// Keys of a tile.
    fn tile_keys(self) -> usize {
        match self.algorithm {
            Algorithm::Hopper | Algorithm::HopperSplit if self.width <= 128 => 128,
            _ => 64,
        }
    }

    pub(super) fn threads(self) -> u32 {
        match self.algorithm {
            Algorithm::Portable => 128,
            Algorithm::Hopper | Algorithm::HopperSplit => 384,
        }
    }

    pub(super) fn shared_bytes(self) -> u32 {
        let (rows, keys) = (self.tile_rows() as u32, self.tile_keys() as u32);
        match self.algorithm {
            // Queries, keys, values; rows padded by 16 bytes.
            Algorithm::Portable => (rows + 2 * keys) * (2 * self.width as u32 + 16),
            // 2 KiB to align and for barriers; in columns of 64 two stages of queries (one at 256), keys and values; 4 KiB a
            // warp for results (none at 256).
            Algorithm::Hopper | Algorithm::HopperSplit => {
                let (query_stages, staging) =
                    if self.width <= 128 { (2, 32 << 10) } else { (1, 0) };
                let held = query_stages * rows + 4 * keys;
                2048 + staging + held * (2 * self.width.next_multiple_of(64) as u32)
            }
        }
    }
}

impl Plan {
    /// Cuts `runs` into tiles. Runs without rows are passed over. With `splits`, a few tiles that have many keys are split along
    /// these, where the kernel can do that: then the order of a row's sums depends on the whole step.
    pub fn new(
        attention: &Attention,
        runs: &[Run],
        limits: &DeviceLimits,
        splits: bool,
    ) -> Result<Plan, Unsupported> {
        Ok(Plan::with(Variant::of(attention, limits)?, attention, runs, limits, splits))
    }

    /// As [`Plan::new`], for a kernel that was chosen already.
    pub fn with(
        variant: Variant,
        attention: &Attention,
        runs: &[Run],
        limits: &DeviceLimits,
        splits: bool,
    ) -> Plan {
        let mut tiles = Vec::new();
        for run in runs.iter().filter(|run| run.rows > 0) {
            cut(variant, attention, run, &mut tiles);
        }
        debug_assert!(
            tiles.len() <= {
                let rows = runs.iter().map(|run| run.rows as usize).sum();
                Plan::most_tiles(attention.heads, rows, runs.len())
            }
        );
        // Stable: tiles that share keys stay neighbours.
        tiles.sort_by_key(|tile| Reverse(weight(variant, tile)));
        let shared = match variant.algorithm {
            Algorithm::Portable => Shared { tiles, ..Shared::default() },
            Algorithm::Hopper | Algorithm::HopperSplit => {
                share(variant, tiles, limits.sms as usize, splits)
            }
        };
        let Shared { tiles, shares, slots } = shared;
        let variant = if slots > 0 { variant.splitting() } else { variant };
        let filled = || runs.iter().filter(|run| run.rows > 0);
        let rows = filled().map(|run| run.row + run.rows).max().unwrap_or(0);
        let sequences = filled().map(|run| run.sequence + 1).max().unwrap_or(0);
        Plan { variant, tiles, shares, rows, sequences, slots }
    }

    /// Most tiles of any plan for `rows` rows of `runs` runs, but for the parts that splits add: [`Plan::most_slots`].
    pub fn most_tiles(heads: usize, rows: usize, runs: usize) -> usize {
        // With one head a tile, which a plan takes if no other number gives fewer.
        heads * (rows / Variant::FEWEST_ROWS + runs)
    }

    /// Most places for results of parts that any plan for such a device asks for: as many blocks as it has cut no more tiles
    /// than one each, into two parts each.
    pub fn most_slots(limits: &DeviceLimits) -> usize {
        2 * limits.sms as usize
    }

    /// Blocks of the launch.
    pub fn grid(&self) -> u32 {
        match self.variant.algorithm {
            Algorithm::Portable => self.tiles.len() as u32,
            Algorithm::Hopper | Algorithm::HopperSplit => {
                self.shares.len().saturating_sub(1) as u32
            }
        }
    }
}

/// One run's tiles. As many heads of a group go together as give the fewest tiles; of equals the most, since a tile of few
/// tokens has few keys that only some of its rows see.
fn cut(variant: Variant, attention: &Attention, run: &Run, tiles: &mut Vec<Tile>) {
    let (rows, group) = (variant.tile_rows(), attention.heads / attention.kv_heads);
    let tiles_with =
        |heads: &usize| (run.rows as usize).div_ceil(rows / heads) * group.div_ceil(*heads);
    let heads_each = (1..=group.min(rows)).rev().min_by_key(tiles_with).unwrap_or(1);
    let tokens_each = rows / heads_each;
    for kv_head in 0..attention.kv_heads {
        let end = (kv_head + 1) * group;
        for head in (kv_head * group..end).step_by(heads_each) {
            for first in (0..run.rows).step_by(tokens_each) {
                let (position, tokens) =
                    (run.cached + first, tokens_each.min((run.rows - first) as usize));
                let (first_key, last_key) = keys(variant, attention, position, tokens);
                tiles.push(Tile {
                    row: (run.row + first) as i32,
                    position: position as i32,
                    sequence: run.sequence as i32,
                    head: head as u16,
                    tokens: tokens as u8,
                    heads: heads_each.min(end - head) as u8,
                    first: first_key,
                    last: last_key,
                    slot: 0,
                    part: 0,
                    parts: 1,
                });
            }
        }
    }
}

/// First keys of the first and the last tile of keys that `tokens` tokens from `position` on see something of.
fn keys(variant: Variant, attention: &Attention, position: u32, tokens: usize) -> (i32, i32) {
    let each = variant.tile_keys() as u32;
    let lowest = attention.window.map_or(0, |window| (position + 1).saturating_sub(window));
    let last = position + tokens as u32 - 1;
    ((lowest / each * each) as i32, (last / each * each) as i32)
}

/// Tiles of keys that a tile of queries goes through.
fn weight(variant: Variant, tile: &Tile) -> usize {
    (tile.last - tile.first) as usize / variant.tile_keys() + 1
}

/// Tiles block after block, and where each block's begin.
#[derive(Debug, Default)]
struct Shared {
    tiles: Vec<Tile>,
    shares: Vec<i32>,
    slots: u32,
}

/// What starting and ending a tile costs, in tiles of keys.
const FIXED: usize = 2;
/// Splits pay where the longest share is longer than the mean by an eighth and so many tiles of keys.
const TOLERATED: usize = 4;
/// Fewer tiles of keys are no part worth having.
const LEAST_PART: usize = 4;
/// Fewer are no share worth a split. A share that makes good for the one before still has room for a part.
const LEAST_SHARE: usize = FIXED + 2 * LEAST_PART;

/// Shares `tiles`, the heaviest first, among `blocks` blocks.
fn share(variant: Variant, tiles: Vec<Tile>, blocks: usize, splits: bool) -> Shared {
    let total: usize = tiles.iter().map(|tile| FIXED + weight(variant, tile)).sum();
    let (shared, longest) = whole(variant, &tiles, blocks);
    let mean = total / blocks.max(1);
    match splits && longest > mean + mean / 8 + TOLERATED && longest > LEAST_SHARE {
        true => split(variant, tiles, blocks, total),
        false => shared,
    }
}

/// Gives each tile to the block that has least to do; also tells the longest share, in tiles of keys.
fn whole(variant: Variant, tiles: &[Tile], blocks: usize) -> (Shared, usize) {
    let blocks = blocks.min(tiles.len());
    let mut least: BinaryHeap<Reverse<(usize, usize)>> =
        (0..blocks).map(|block| Reverse((0, block))).collect();
    let (mut given, mut longest) = (vec![Vec::new(); blocks], 0);
    for tile in tiles {
        let Some(mut top) = least.peek_mut() else { break };
        let Reverse((load, block)) = *top;
        given[block].push(*tile);
        let load = load + FIXED + weight(variant, tile);
        *top = Reverse((load, block));
        longest = longest.max(load);
    }
    let mut shared = Shared { shares: vec![0], ..Shared::default() };
    for given in given {
        shared.tiles.extend(given);
        shared.shares.push(shared.tiles.len() as i32);
    }
    (shared, longest)
}

/// Lays the tiles' keys end to end and gives each block an even stretch, so that a tile may lie in several.
fn split(variant: Variant, tiles: Vec<Tile>, blocks: usize, total: usize) -> Shared {
    // A cut makes another part, with a beginning and an end.
    let each = (total.div_ceil(blocks) + FIXED).max(LEAST_SHARE);
    let mut shared = Shared { shares: vec![0], ..Shared::default() };
    // What a block leaves the next one takes; what it takes too much that one makes good, as far as it still has room for a part.
    let mut room = each as isize;
    for tile in tiles {
        let mut left = weight(variant, &tile);
        let begin = shared.tiles.len();
        while left > 0 {
            let is_last_block = shared.shares.len() >= blocks;
            let inner = usize::try_from(room).unwrap_or(0).saturating_sub(FIXED);
            let fits = room > 0 && left < inner + LEAST_PART;
            let here = if is_last_block || fits { left } else { inner };
            if here == left || here >= LEAST_PART {
                shared.tiles.push(part(variant, &tile, left, here));
                left -= here;
                room -= (FIXED + here) as isize;
            }
            if left > 0 {
                shared.shares.push(shared.tiles.len() as i32);
                room = room.max(-(LEAST_PART as isize)) + each as isize;
            }
        }
        number_parts(&mut shared.tiles[begin..], &mut shared.slots);
    }
    shared.shares.push(shared.tiles.len() as i32);
    shared
}

/// The `take` tiles of keys of `tile` that come after all but the last `left`.
fn part(variant: Variant, tile: &Tile, left: usize, take: usize) -> Tile {
    let each = variant.tile_keys() as i32;
    let first = tile.last - (left as i32 - 1) * each;
    Tile { first, last: first + (take as i32 - 1) * each, ..*tile }
}

/// Tells the parts of one tile which they are; a whole tile needs no slot.
fn number_parts(parts: &mut [Tile], slots: &mut u32) {
    let count = parts.len();
    if count < 2 {
        return;
    }
    for (part, at) in parts.iter_mut().zip(0..) {
        (part.slot, part.part, part.parts) = (*slots + u32::from(at), at, count as u16);
    }
    *slots += count as u32;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attention(heads: usize, kv_heads: usize, head_dim: usize) -> Attention {
        Attention {
            heads,
            kv_heads,
            head_dim,
            scale: 0.125,
            window: None,
            softcap: None,
            cache: CacheFormat::Bf16,
        }
    }

    #[test]
    fn every_row_of_every_head_is_covered_once() {
        let runs = [(0, 1, 0), (1, 0, 9), (1, 15, 3), (20, 64, 0), (84, 300, 1000), (384, 17, 5)]
            .iter()
            .zip(0..)
            .map(|(&(row, rows, cached), sequence)| Run { row, rows, cached, sequence })
            .collect::<Vec<_>>();
        for (heads, kv_heads) in [(1, 1), (4, 4), (6, 2), (8, 1), (35, 5), (48, 3), (200, 2)] {
            for head_dim in [24, 64, 128, 256] {
                let attention = attention(heads, kv_heads, head_dim);
                for splits in [false, true] {
                    let plan = Plan::new(&attention, &runs, &DeviceLimits::h200(), splits).unwrap();
                    covers(&plan, &attention, &runs);
                }
            }
        }
    }

    fn covers(plan: &Plan, attention: &Attention, runs: &[Run]) {
        let mut seen = vec![0; plan.rows as usize * attention.heads];
        let group = attention.heads / attention.kv_heads;
        for tile in plan.tiles.iter().filter(|tile| tile.part == 0) {
            let (head, heads) = (usize::from(tile.head), usize::from(tile.heads));
            assert!(usize::from(tile.tokens) * heads <= plan.variant.tile_rows(), "{tile:?}");
            assert_eq!(head / group, (head + heads - 1) / group, "{tile:?} crosses groups");
            let run = runs.iter().find(|run| run.sequence == tile.sequence as u32).unwrap();
            assert_eq!(tile.position - tile.row, run.cached as i32 - run.row as i32, "{tile:?}");
            for row in tile.row as usize..tile.row as usize + usize::from(tile.tokens) {
                assert!((run.row..run.row + run.rows).contains(&(row as u32)), "{tile:?}");
                for head in head..head + heads {
                    seen[row * attention.heads + head] += 1;
                }
            }
        }
        for (at, seen) in seen.iter().enumerate() {
            let row = (at / attention.heads) as u32;
            let wanted = runs.iter().any(|run| (run.row..run.row + run.rows).contains(&row));
            assert_eq!(*seen, i32::from(wanted), "row {row}, head {}", at % attention.heads);
        }
        if plan.variant.algorithm == Algorithm::Hopper {
            assert!(plan.shares.is_sorted() && plan.shares.len() <= 133);
            assert_eq!(plan.shares.last().copied(), Some(plan.tiles.len() as i32));
        }
    }

    #[test]
    fn the_heaviest_tiles_come_first() {
        let run = Run { row: 0, rows: 700, cached: 90, sequence: 0 };
        for window in [None, Some(100)] {
            let attention = Attention { window, ..attention(8, 2, 32) };
            let plan = Plan::new(&attention, &[run], &DeviceLimits::h200(), false).unwrap();
            let weights = plan.tiles.iter().map(|tile| weight(plan.variant, tile));
            assert!(weights.is_sorted_by(|a, b| a >= b));
        }
    }

    #[test]
    fn hopper_blocks_get_even_shares() {
        let attention = attention(32, 8, 128);
        let run = Run { row: 0, rows: 8000, cached: 0, sequence: 0 };
        let plan = Plan::new(&attention, &[run], &DeviceLimits::h200(), false).unwrap();
        assert_eq!(plan.grid(), 132);
        let loads = plan.shares.windows(2).map(|share| {
            let tiles = &plan.tiles[share[0] as usize..share[1] as usize];
            tiles.iter().map(|tile| 2 + weight(plan.variant, tile)).sum::<usize>()
        });
        let (least, most) = loads.fold((usize::MAX, 0), |(a, b), load| (a.min(load), b.max(load)));
        assert!(most - least <= 4, "{least}..{most}");
    }

    /// Loads of the blocks, in tiles of keys.
    fn loads(plan: &Plan) -> Vec<usize> {
        let load = |share: &[i32]| {
            let tiles = &plan.tiles[share[0] as usize..share[1] as usize];
            tiles.iter().map(|tile| FIXED + weight(plan.variant, tile)).sum()
        };
        plan.shares.windows(2).map(load).collect()
    }

    /// Parts of a tile have slots of their own, one after the other, and cover its keys once, in order.
    fn parts_are_whole(plan: &Plan, whole: &Plan) {
        let mut slots = 0;
        let mut at = plan.tiles.iter();
        let mut seen = Vec::new();
        while let Some(first) = at.next() {
            let mut last = first;
            for part in 1..first.parts {
                let next = at.next().unwrap();
                let expected = last.last + plan.variant.tile_keys() as i32;
                assert_eq!((next.part, next.parts, next.first), (part, first.parts, expected));
                assert_eq!(next.slot, first.slot + u32::from(part));
                last = next;
            }
            assert_eq!(first.part, 0);
            if first.parts > 1 {
                assert_eq!(first.slot, slots);
                slots += u32::from(first.parts);
            }
            seen.push(Tile { last: last.last, slot: 0, part: 0, parts: 1, ..*first });
        }
        assert_eq!(slots, plan.slots);
        assert!(slots as usize <= Plan::most_slots(&DeviceLimits::h200()));
        let sorted = |tiles: &[Tile]| {
            let mut tiles = tiles.to_vec();
            tiles.sort_by_key(|tile| (tile.row, tile.head));
            tiles
        };
        assert_eq!(sorted(&seen), sorted(&whole.tiles));
    }

    #[test]
    fn few_tiles_with_many_keys_are_split_evenly() {
        let limits = DeviceLimits::h200();
        for (heads, kv_heads, rows, cached) in
            [(32, 8, 128, 32_000), (16, 8, 32, 32_000), (32, 8, 1, 100_000), (32, 8, 600, 30_000)]
        {
            let run = Run { row: 0, rows, cached, sequence: 0 };
            let plan = Plan::new(&attention(heads, kv_heads, 128), &[run], &limits, true).unwrap();
            let loads = loads(&plan);
            let mean = loads.iter().sum::<usize>() / 132;
            let longest = loads.iter().max().copied().unwrap_or(0);
            assert!(longest <= mean + 2 * LEAST_PART + FIXED, "{longest}, mean {mean}");
            assert!(plan.slots > 0);
        }
        // Nothing is won: short, or even already.
        for (rows, cached) in [(1, 900), (40, 300), (2048, 0), (8000, 0), (1024, 16_000)] {
            let run = Run { row: 0, rows, cached, sequence: 0 };
            let plan = Plan::new(&attention(32, 8, 128), &[run], &limits, true).unwrap();
            assert_eq!(plan.slots, 0, "{rows} after {cached}");
        }
    }

    proptest::proptest! {
        #[test]
        fn splits_lose_nothing_and_leave_no_block_idle(
            runs in proptest::collection::vec((1u32..400, 0u32..60_000), 1..12),
            head_dim in proptest::sample::select(vec![64, 128, 256]),
            heads in proptest::sample::select(vec![(1, 1), (16, 8), (32, 8), (9, 3)]),
            window in proptest::option::of(1u32..50_000),
        ) {
            let attention = Attention { window, ..attention(heads.0, heads.1, head_dim) };
            let (mut row, mut placed) = (0, Vec::new());
            for ((rows, cached), sequence) in runs.into_iter().zip(0..) {
                placed.push(Run { row, rows, cached, sequence });
                row += rows;
            }
            let limits = DeviceLimits::h200();
            let plan = Plan::new(&attention, &placed, &limits, true).unwrap();
            parts_are_whole(&plan, &Plan::new(&attention, &placed, &limits, false).unwrap());
            proptest::prop_assert!(plan.shares.is_sorted_by(|a, b| a < b));
            proptest::prop_assert!(plan.grid() <= limits.sms);
            let loads = loads(&plan);
            let mean = loads.iter().sum::<usize>() / limits.sms as usize;
            let longest = loads.iter().max().copied().unwrap_or(0);
            proptest::prop_assert!(longest <= (mean + mean / 8).max(LEAST_SHARE) + 2 * LEAST_PART + FIXED);
        }
    }

    #[test]
    fn short_runs_pack_heads_and_long_ones_lose_no_rows() {
        let limits = DeviceLimits::h200();
        let run = |rows| Run { row: 0, rows, cached: 0, sequence: 0 };
        // 28 heads in groups of 7: a tile of 128 rows holds 18 tokens times 7, or 128 tokens of one head.
        let attention = attention(28, 4, 128);
        let tiles = |rows| Plan::new(&attention, &[run(rows)], &limits, false).unwrap().tiles;
        assert_eq!(tiles(18).len(), 4);
        assert_eq!(tiles(128).len(), 28);
        assert_eq!(tiles(1280).len(), 280);
    }

    #[test]
    fn nothing_to_do_is_an_empty_plan() {
        let attention = attention(8, 8, 64);
        let none = Run { row: 3, rows: 0, cached: 7, sequence: 2 };
        for runs in [&[][..], &[none]] {
            let plan = Plan::new(&attention, runs, &DeviceLimits::h200(), true).unwrap();
            assert!(plan.tiles.is_empty() && plan.grid() == 0);
            assert_eq!((plan.rows, plan.sequences), (0, 0));
        }
    }

    #[test]
    fn all_that_is_wrong_is_told_at_once() {
        let wrong = Attention { window: Some(0), scale: 0.0, ..attention(7, 2, 264) };
        let error = Plan::new(&wrong, &[], &DeviceLimits::h200(), false).unwrap_err().to_string();
        for rule in ["heads divide", "head_dim % 8", "scale > 0", "window > 0"] {
            assert!(error.contains(rule), "{error}");
        }
    }

    #[test]
    fn devices_get_the_kernel_they_can_run() {
        let h200 = DeviceLimits::h200();
        let small = DeviceLimits { arch: 89, shared_per_block: 99 * 1024, ..DeviceLimits::h200() };
        let at = |head_dim, limits| Variant::of(&attention(8, 8, head_dim), limits).unwrap();
        assert_eq!(at(128, &h200).entry(), "attention_prefill_sm90_bf16_d128");
        assert_eq!(at(120, &h200).entry(), "attention_prefill_bf16_d128");
        assert_eq!(at(16, &h200).entry(), "attention_prefill_bf16_d32");
        assert_eq!(at(256, &small).entry(), "attention_prefill_bf16_d256");
        assert_eq!(Variant::all(&small).count(), 14);
        for variant in Variant::all(&h200) {
            assert!(variant.shared_bytes() <= h200.shared_per_block, "{variant:?}");
            assert!(variant.entry().ends_with(&format!("d{}", variant.width)), "{variant:?}");
        }
    }
}
