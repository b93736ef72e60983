//! Weights in memory: matrices as they lie in the mapped file, vectors widened to float32.

use std::{ops::Range, sync::Arc};

use models::mapping::MappedFile;

use crate::{format::Format, matrix::WeightView, ops::projection::Projection, simd::Isa};

/// The bytes of a weight.
#[derive(Clone, Debug)]
pub enum WeightBytes {
    /// A range of a mapped file.
    Mapped {
        /// The file.
        file: Arc<MappedFile>,
        /// Its bytes that are meant, within the file.
        range: Range<usize>,
    },
    /// Made up.
    Owned(Vec<u8>),
}

impl WeightBytes {
    fn bytes(&self) -> &[u8] {
        match self {
            WeightBytes::Mapped { file, range } => &file.bytes()[range.clone()],
            WeightBytes::Owned(bytes) => bytes,
        }
    }
}

/// A stored matrix `[rows, cols]`, row-major.
#[derive(Clone, Debug)]
pub struct Matrix {
    bytes: WeightBytes,
    format: Format,
    rows: usize,
    cols: usize,
}

impl Matrix {
    /// A matrix over `bytes`. Panics if they hold another number of elements.
    pub fn new(bytes: WeightBytes, format: Format, rows: usize, cols: usize) -> Matrix {
        let matrix = Matrix { bytes, format, rows, cols };
        matrix.view();
        matrix
    }

    /// The matrix as the operations read it.
    pub fn view(&self) -> WeightView<'_> {
        WeightView::new(self.bytes.bytes(), self.format, self.rows, self.cols)
    }

    /// All elements in float32.
    pub fn widen(&self, isa: Isa) -> Vec<f32> {
        let mut values = vec![0.0; self.rows * self.cols];
        isa.widen(self.format, self.bytes.bytes(), &mut values);
        values
    }
}

/// A projection's weight `[out, in]` and its bias.
#[derive(Clone, Debug)]
pub struct Linear {
    /// The weight.
    pub weight: Matrix,
    /// `out` values.
    pub bias: Option<Vec<f32>>,
}

impl Linear {
    /// The projection as the operation reads it.
    pub fn projection(&self) -> Projection<'_> {
        Projection { weight: self.weight.view(), bias: self.bias.as_deref() }
    }
}
