//! Weights and activations as the operations see them: borrowed matrices with their shape.

use std::ops::Range;

use crate::format::Format;

/// A stored weight of shape `[rows, cols]`, row-major, in its own format. Rows are outputs.
#[derive(Clone, Copy, Debug)]
pub struct WeightView<'a> {
    bytes: &'a [u8],
    format: Format,
    rows: usize,
    cols: usize,
}

impl<'a> WeightView<'a> {
    /// A view of `rows * cols` elements. Panics if `bytes` holds another number of them.
    pub fn new(bytes: &'a [u8], format: Format, rows: usize, cols: usize) -> Self {
        assert_eq!(bytes.len(), rows * cols * format.size(), "bytes of a {rows} x {cols} weight");
        WeightView { bytes, format, rows, cols }
    }

    /// Element format.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Outputs.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Inputs.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Bytes of elements `cols` of row `row`.
    pub fn row(&self, row: usize, cols: Range<usize>) -> &'a [u8] {
        assert!(row < self.rows && cols.end <= self.cols, "an element of the weight");
        let start = row * self.cols;
        &self.bytes
            [(start + cols.start) * self.format.size()..(start + cols.end) * self.format.size()]
    }
}

/// Float32 rows of `cols` elements, `stride` elements apart.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a> {
    data: &'a [f32],
    stride: usize,
    cols: usize,
    count: usize,
}

impl<'a> Rows<'a> {
    /// The first `cols` elements of each of `count` rows. Panics if `data` is too short for them.
    pub fn new(data: &'a [f32], stride: usize, cols: usize, count: usize) -> Self {
        assert!(cols <= stride, "rows of {cols} elements do not overlap at a stride of {stride}");
        assert!(
            count == 0 || (count - 1) * stride + cols <= data.len(),
            "{count} rows in the data"
        );
        Rows { data, stride, cols, count }
    }

    /// Number of rows.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Elements of a row.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Row `row`.
    pub fn row(&self, row: usize) -> &'a [f32] {
        assert!(row < self.count, "row {row} of {}", self.count);
        &self.data[row * self.stride..row * self.stride + self.cols]
    }
}
