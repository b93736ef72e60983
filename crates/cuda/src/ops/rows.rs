//! What the operations on rows of the residual stream share: how a row is spread over a block, and what it hands on.

use half::bf16;

use super::{Unsupported, lengths::Lengths};
use crate::driver::{Shape, View, ViewMut};

/// The longest row that one block holds in its registers.
pub const LONGEST_ROW: usize = 16384;
/// Elements a thread takes at a time.
const WIDTH: usize = 8;
/// Threads of the largest block.
const MOST_THREADS: usize = 1024;

/// What a row of the residual stream hands to the product that reads it next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handover {
    /// Nothing.
    Nothing,
    /// The row as it is, in bf16.
    Plain,
    /// Its norm, in bf16.
    Normed,
    /// The row times the norm's weight, in bf16, and the sum of its squares: the product norms what comes out of it.
    Gained,
}

/// A [`Handover`] with its memory. Norm weights are `[hidden]` with their offsets already added.
#[derive(Debug)]
pub enum Next<'a> {
    /// See [`Handover::Nothing`].
    Nothing,
    /// See [`Handover::Plain`].
    Plain {
        /// `[rows, hidden]`.
        x: ViewMut<'a, bf16>,
    },
    /// See [`Handover::Normed`].
    Normed {
        /// `[rows, hidden]`.
        x: ViewMut<'a, bf16>,
        /// The norm.
        norm: NormWeight<'a>,
    },
    /// See [`Handover::Gained`].
    Gained {
        /// `[rows, hidden]`.
        x: ViewMut<'a, bf16>,
        /// The norm's weight.
        weight: View<'a, f32>,
        /// One sum of squares for each row.
        partials: ViewMut<'a, f32>,
        /// Distance of two rows' sums in `partials`.
        stride: usize,
    },
}

/// A norm's weight on the device and its epsilon.
#[derive(Clone, Copy, Debug)]
pub struct NormWeight<'a> {
    /// `[hidden]`, the offset already added.
    pub weight: View<'a, f32>,
    /// Added under the root.
    pub eps: f32,
}

/// The part of the kernels' parameters that a [`Next`] fills.
pub(super) struct NextParams {
    pub(super) x: u64,
    pub(super) weight: u64,
    pub(super) partials: u64,
    pub(super) stride: u32,
    pub(super) eps: f32,
}

impl Next<'_> {
    /// What is handed on.
    pub fn handover(&self) -> Handover {
        match self {
            Next::Nothing => Handover::Nothing,
            Next::Plain { .. } => Handover::Plain,
            Next::Normed { .. } => Handover::Normed,
            Next::Gained { .. } => Handover::Gained,
        }
    }

    pub(super) fn params(&self) -> NextParams {
        let none = NextParams { x: 0, weight: 0, partials: 0, stride: 0, eps: 0.0 };
        match self {
            Next::Nothing => none,
            Next::Plain { x } => NextParams { x: x.address(), ..none },
            Next::Normed { x, norm } => {
                NextParams { x: x.address(), weight: norm.weight.address(), eps: norm.eps, ..none }
            }
            Next::Gained { x, weight, partials, stride } => NextParams {
                x: x.address(),
                weight: weight.address(),
                partials: partials.address(),
                stride: *stride as u32,
                ..none
            },
        }
    }

    pub(super) fn check(&self, lengths: Lengths, plan: &RowPlan) -> Lengths {
        let (rows, hidden) = (plan.rows as usize, plan.hidden as usize);
        let x_fits =
            |lengths: Lengths, x: &ViewMut<'_, bf16>| lengths.at_least("x", x.len(), rows * hidden);
        match self {
            Next::Nothing => lengths,
            Next::Plain { x } => x_fits(lengths, x),
            Next::Normed { x, norm } => {
                x_fits(lengths, x).at_least("weight", norm.weight.len(), hidden)
            }
            Next::Gained { x, weight, partials, stride } => x_fits(lengths, x)
                .at_least("weight", weight.len(), hidden)
                .at_least("partials", partials.len(), rows.saturating_sub(1) * stride + 1)
                .require(*stride > 0 && u32::try_from(*stride).is_ok(), || {
                    format!("a stride of {stride} between sums of squares")
                }),
        }
    }
}

/// How rows are spread over the device: one block a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowPlan {
    /// Rows.
    pub rows: u32,
    /// Elements of a row.
    pub hidden: u32,
    /// Threads of a block.
    pub threads: u32,
    /// A thread takes two stretches of 8 elements instead of one.
    pub wide: bool,
}

impl RowPlan {
    /// The plan for `rows` rows of `hidden` elements.
    pub fn new(
        operation: &'static str,
        rows: usize,
        hidden: usize,
    ) -> Result<RowPlan, Unsupported> {
        if hidden == 0 || !hidden.is_multiple_of(WIDTH) || hidden > LONGEST_ROW {
            return Err(Unsupported {
                operation,
                seen: format!("rows of {hidden} elements"),
                requirement: format!("a multiple of {WIDTH}, {WIDTH} to {LONGEST_ROW}"),
            });
        }
        let rows = u32::try_from(rows).ok().filter(|rows| *rows <= i32::MAX as u32);
        let rows = rows.ok_or_else(|| Unsupported {
            operation,
            seen: "more rows than a grid has blocks".to_owned(),
            requirement: format!("at most {}", i32::MAX),
        })?;
        let pieces = hidden / WIDTH;
        let threads = pieces.next_multiple_of(32).min(MOST_THREADS);
        Ok(RowPlan {
            rows,
            hidden: hidden as u32,
            threads: threads as u32,
            wide: pieces > MOST_THREADS,
        })
    }

    pub(super) fn shape(&self) -> Shape {
        Shape::linear(self.rows, self.threads)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn threads_cover_every_element(eighths in 1usize..=LONGEST_ROW / 8, rows in 0usize..100_000) {
            let plan = RowPlan::new("op", rows, eighths * 8).unwrap();
            let stretches = if plan.wide { 2 } else { 1 };
            prop_assert!(plan.threads as usize * stretches >= eighths);
            prop_assert!(plan.threads <= 1024 && plan.threads.is_multiple_of(32) && plan.threads > 0);
            prop_assert_eq!(plan.rows as usize, rows);
        }
    }

    #[test]
    fn odd_rows_are_refused_with_numbers() {
        for hidden in [0, 4, 12, LONGEST_ROW + 8] {
            let error = RowPlan::new("rms_norm", 1, hidden).unwrap_err();
            assert!(error.to_string().contains(&format!("rows of {hidden} elements")), "{error}");
        }
    }
}
