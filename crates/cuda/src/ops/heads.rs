//! What the launchers of attention and of its preparation share: the host's side of `head.cuh`.

use super::lengths::Lengths;
use crate::{driver::View, ops::Unsupported};

/// Tokens in one block of the cache.
pub const BLOCK_TOKENS: usize = 16;

/// Widest head that the kernels take.
pub const MAX_HEAD_DIM: usize = 256;

/// How keys and values are kept in the arena of a layer: `[block][K, V][kv_head][BLOCK_TOKENS][head_dim]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheType {
    /// As they are.
    Bf16,
    /// e4m3 of the value over a scale, saturating.
    Fp8,
}

impl CacheType {
    /// Bytes of an element.
    pub fn bytes(self) -> usize {
        match self {
            CacheType::Bf16 => 2,
            CacheType::Fp8 => 1,
        }
    }
}

/// What stored values are multiplied with; both 1 where they are kept in bf16.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CacheScales {
    /// Of keys.
    pub k: f32,
    /// Of values.
    pub v: f32,
}

impl Default for CacheScales {
    fn default() -> Self {
        CacheScales { k: 1.0, v: 1.0 }
    }
}

/// Heads of a layer and the cache that they live in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heads {
    /// Query heads, `H`.
    pub heads: usize,
    /// Key and value heads, `Hk`; divides `heads`.
    pub kv_heads: usize,
    /// Width of a head, `D`: a multiple of 8 up to [`MAX_HEAD_DIM`].
    pub head_dim: usize,
    /// Type of the cache.
    pub cache: CacheType,
}

impl Heads {
    /// Query heads that share a key head.
    pub fn group(&self) -> usize {
        self.heads / self.kv_heads
    }

    /// Width of the fused projection: queries, keys, values.
    pub fn qkv_width(&self) -> usize {
        (self.heads + 2 * self.kv_heads) * self.head_dim
    }

    /// Bytes of one block of one layer.
    pub fn block_bytes(&self) -> usize {
        2 * self.kv_heads * BLOCK_TOKENS * self.head_dim * self.cache.bytes()
    }

    /// Lanes that share a head, 8 elements each, as a power of two.
    pub(super) fn lane_bits(&self) -> u32 {
        (self.head_dim / 8).next_power_of_two().trailing_zeros()
    }

    pub(super) fn check(&self, operation: &'static str) -> Result<(), Unsupported> {
        let refuse = |seen: String, requirement: &str| {
            Err(Unsupported { operation, seen, requirement: requirement.to_owned() })
        };
        let Heads { heads, kv_heads, head_dim, .. } = *self;
        if kv_heads == 0 || heads == 0 || !heads.is_multiple_of(kv_heads) {
            return refuse(format!("{heads} and {kv_heads}"), "key heads must divide query heads");
        }
        if head_dim == 0 || !head_dim.is_multiple_of(8) || head_dim > MAX_HEAD_DIM {
            return refuse(
                head_dim.to_string(),
                "the width of a head must be a multiple of 8 up to 256",
            );
        }
        Ok(())
    }
}

/// Rotary embedding of a step's rows.
#[derive(Clone, Copy, Debug)]
pub struct Rope<'a> {
    /// Position of each row.
    pub positions: View<'a, i32>,
    /// Which row of `inv_freq` each row uses; absent: the first.
    pub regimes: Option<View<'a, i32>>,
    /// Radians a position, `[tables, rotary_dim / 2]`, one or two tables.
    pub inv_freq: View<'a, f32>,
    /// Multiplies cosine and sine, for each table.
    pub factors: [f32; 2],
}

/// Norm weights of queries and keys, offsets already added.
#[derive(Clone, Copy, Debug)]
pub struct Norms<'a> {
    /// `[D]`, or `[H * D]` for a mean over the projection.
    pub q: View<'a, f32>,
    /// `[D]`, or `[Hk * D]` for a mean over the projection.
    pub k: View<'a, f32>,
    /// Added under the root.
    pub eps: f32,
}

impl Rope<'_> {
    /// Findings where a rotation of `rotary_dim` elements over `rows` rows lacks something.
    pub(super) fn check(
        rope: Option<&Rope<'_>>,
        rows: usize,
        rotary_dim: usize,
        lengths: Lengths,
    ) -> Lengths {
        let regimes = rope.and_then(|rope| rope.regimes).map_or(rows, |regimes| regimes.len());
        lengths
            .at_least("positions", rope.map_or(0, |rope| rope.positions.len()), rows)
            .at_least("regimes", regimes, rows)
            .at_least("inv_freq", rope.map_or(0, |rope| rope.inv_freq.len()), rotary_dim / 2)
    }
}

impl Norms<'_> {
    /// Findings where norms over `heads` (of queries, of keys; 0: none wanted) heads' widths lack something.
    pub(super) fn check(
        norms: Option<&Norms<'_>>,
        heads: (usize, usize),
        head_dim: usize,
        lengths: Lengths,
    ) -> Lengths {
        let wanted = heads.0 > 0;
        lengths
            .at_least("q_norm", norms.map_or(0, |norms| norms.q.len()), heads.0 * head_dim)
            .at_least("k_norm", norms.map_or(0, |norms| norms.k.len()), heads.1 * head_dim)
            .require(wanted || norms.is_none(), || "norms are given, the plan has none".to_owned())
    }
}

#[cfg(test)]
pub(super) mod reference;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_know_their_sizes_and_their_limits() {
        let heads = Heads { heads: 32, kv_heads: 8, head_dim: 128, cache: CacheType::Bf16 };
        assert_eq!((heads.group(), heads.qkv_width(), heads.lane_bits()), (4, 6144, 4));
        assert_eq!(heads.block_bytes(), 65536);
        assert_eq!(Heads { head_dim: 80, ..heads }.lane_bits(), 4);
        assert!(heads.check("x").is_ok());
        for wrong in [
            Heads { head_dim: 20, ..heads },
            Heads { head_dim: 264, ..heads },
            Heads { kv_heads: 5, ..heads },
            Heads { kv_heads: 0, ..heads },
        ] {
            assert!(wrong.check("x").is_err(), "{wrong:?}");
        }
    }
}
