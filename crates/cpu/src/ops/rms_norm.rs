//! Root-mean-square norm: `y = x / sqrt(mean(x^2) + eps) * (w + offset)`.

use crate::simd::{Isa, plain};

/// A norm's weight, its offset already added, and its epsilon.
#[derive(Clone, Debug, PartialEq)]
pub struct Norm {
    /// `w + offset`, as many as the row has elements.
    pub weight: Vec<f32>,
    /// Added under the root.
    pub eps: f32,
}

impl Norm {
    /// Norms one row in place. The squares are summed in the order of a dot product.
    pub fn apply(&self, isa: Isa, row: &mut [f32]) {
        assert_eq!(row.len(), self.weight.len(), "a weight for each element");
        isa.vectorise(|| {
            let mean = plain::dot(row, row) / row.len() as f32;
            let inverse = 1.0 / (mean + self.eps).sqrt();
            for (value, weight) in row.iter_mut().zip(&self.weight) {
                *value = *value * inverse * weight;
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normed_rows_have_unit_mean_square_times_the_weight() {
        let norm = Norm { weight: vec![2.0; 13], eps: 0.0 };
        let mut row: Vec<f32> = (0..13).map(|i| i as f32 - 4.0).collect();
        norm.apply(Isa::detect(), &mut row);
        let mean: f32 = row.iter().map(|v| v * v).sum::<f32>() / 13.0;
        assert!((mean - 4.0).abs() < 1e-5, "{mean}");
        assert_eq!(row[4], 0.0);
    }

    #[test]
    fn plain_and_vector_give_the_same_bits() {
        let norm = Norm { weight: (0..77).map(|i| 0.1 * i as f32).collect(), eps: 1e-6 };
        let row: Vec<f32> = (0..77).map(|i| (i as f32 * 0.37).sin()).collect();
        let (mut plain, mut vector) = (row.clone(), row);
        norm.apply(Isa::Plain, &mut plain);
        norm.apply(Isa::detect(), &mut vector);
        assert_eq!(plain, vector);
    }
}
