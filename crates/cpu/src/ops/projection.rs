//! Projection: `y[t, o] = sum_k x[t, k] * w[o, k] + bias[o]`, in float32 whatever the weight is stored in.
//!
//! Several weights that read the same `x` (query, key and value; gate and up) fill neighbouring columns of one `y`
//! in one go. The order of summation is the one of [`simd`](crate::simd): a row's result never depends on `T`.

use std::ops::Range;

use crate::{
    matrix::{Rows, WeightView},
    simd::{Isa, rectangle::Rectangle},
    threads::{Piece, Threads},
};

/// A weight `[out, in]` and what is added to its outputs.
#[derive(Clone, Copy, Debug)]
pub struct Projection<'a> {
    /// The weight.
    pub weight: WeightView<'a>,
    /// `out` values.
    pub bias: Option<&'a [f32]>,
}

/// Outputs that one piece of work should have at least: enough to be worth handing to another thread.
const LEAST_OUTS: usize = 32;

/// `y[.., 0..o1] = x w1^T + b1`, `y[.., o1..o1+o2] = x w2^T + b2`, and so on. `y` has rows of `stride` elements.
pub fn project(
    isa: Isa,
    threads: &Threads,
    x: Rows<'_>,
    projections: &[Projection<'_>],
    y: &mut [f32],
    stride: usize,
) {
    if x.count() == 0 {
        return;
    }
    let tasks: Vec<(&Projection<'_>, Range<usize>)> = projections
        .iter()
        .flat_map(|projection| {
            let mut from = 0;
            let pieces = threads.pieces(projection.weight.rows(), LEAST_OUTS, LEAST_OUTS);
            pieces.into_iter().map(move |outs| {
                from += outs;
                (projection, from - outs..from)
            })
        })
        .collect();
    let columns = tasks.iter().map(|(_, outs)| outs.len()).sum();
    let parts = Rectangle::new(y, stride, x.count(), columns)
        .split_columns(tasks.iter().map(|(_, outs)| outs.len()));
    let pieces = tasks.into_iter().zip(parts).map(|(task, out)| Piece { task, out }).collect();
    threads.each(pieces, |Piece { task: (projection, outs), mut out }| {
        isa.project(x, projection.weight, outs.clone(), &mut out);
        if let Some(bias) = projection.bias {
            add_bias(&bias[outs], &mut out);
        }
    });
}

fn add_bias(bias: &[f32], y: &mut Rectangle<'_>) {
    for row in 0..y.rows() {
        for (value, bias) in y.row_mut(row).iter_mut().zip(bias) {
            *value += bias;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Format;

    fn bytes(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    #[test]
    fn two_weights_fill_neighbouring_columns() {
        let (first, second) = (bytes(&[1.0, 0.0, 0.0, 1.0]), bytes(&[1.0, 1.0]));
        let projections = [
            Projection { weight: WeightView::new(&first, Format::F32, 2, 2), bias: None },
            Projection { weight: WeightView::new(&second, Format::F32, 1, 2), bias: Some(&[0.5]) },
        ];
        let x = [1.0, 2.0, 9.0, 3.0, 4.0, 9.0];
        let mut y = [0.0; 8];
        let threads = Threads::new(2).unwrap();
        project(Isa::detect(), &threads, Rows::new(&x, 3, 2, 2), &projections, &mut y, 4);
        assert_eq!(y, [1.0, 2.0, 3.5, 0.0, 3.0, 4.0, 7.5, 0.0]);
    }
}
