//! Disjoint rectangles of one row-major buffer, so that several threads can fill the columns of the same rows.

use std::{marker::PhantomData, ptr::NonNull, slice};

/// Exclusive access to a rectangle of a row-major float32 buffer.
#[derive(Debug)]
pub struct Rectangle<'a> {
    first: NonNull<f32>,
    stride: usize,
    rows: usize,
    cols: usize,
    buffer: PhantomData<&'a mut [f32]>,
}

// SAFETY: a rectangle is as exclusive as the `&mut [f32]` it was cut from: `new` takes the whole buffer, and
// `split_columns` and `split_rows` consume a rectangle and give back parts that do not overlap.
unsafe impl Send for Rectangle<'_> {}

impl<'a> Rectangle<'a> {
    /// The first `cols` columns of the first `rows` rows of a buffer whose rows lie `stride` elements apart.
    /// Panics if the buffer is too short for them.
    pub fn new(buffer: &'a mut [f32], stride: usize, rows: usize, cols: usize) -> Self {
        assert!(cols <= stride, "{cols} columns at a stride of {stride}");
        assert!(
            rows == 0 || (rows - 1) * stride + cols <= buffer.len(),
            "{rows} rows in the buffer"
        );
        let first = NonNull::from(buffer).cast();
        Rectangle { first, stride, rows, cols, buffer: PhantomData }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Row `row`, the rectangle's columns of it.
    pub fn row_mut(&mut self, row: usize) -> &mut [f32] {
        assert!(row < self.rows, "row {row} of {}", self.rows);
        // SAFETY: `row < rows` (asserted above), and `new` asserted that `cols` elements from `row * stride` lie in the
        // buffer; no other rectangle covers them, and `&mut self` lends them once.
        unsafe { slice::from_raw_parts_mut(self.first.add(row * self.stride).as_ptr(), self.cols) }
    }

    /// Cuts after each of `widths` columns. Panics if they are more than there are.
    pub fn split_columns(self, widths: impl IntoIterator<Item = usize>) -> Vec<Rectangle<'a>> {
        let mut from = 0;
        let cut = |cols: usize| {
            assert!(from + cols <= self.cols, "columns {from}+{cols} of {}", self.cols);
            // An empty rectangle has no elements to point at.
            let offset = if self.rows == 0 || cols == 0 { 0 } else { from };
            from += cols;
            // SAFETY: the offset lies within the first row, whose `self.cols` elements `new` found in the buffer.
            let first = unsafe { self.first.add(offset) };
            Rectangle { first, cols, stride: self.stride, rows: self.rows, buffer: PhantomData }
        };
        widths.into_iter().map(cut).collect()
    }

    /// Cuts after each of `heights` rows. Panics if they are more than there are.
    pub fn split_rows(self, heights: impl IntoIterator<Item = usize>) -> Vec<Rectangle<'a>> {
        let mut from = 0;
        let cut = |rows: usize| {
            assert!(from + rows <= self.rows, "rows {from}+{rows} of {}", self.rows);
            let offset = if self.cols == 0 || rows == 0 { 0 } else { from * self.stride };
            from += rows;
            // SAFETY: the offset is the start of a row below `self.rows`, which `new` found in the buffer.
            let first = unsafe { self.first.add(offset) };
            Rectangle { first, rows, stride: self.stride, cols: self.cols, buffer: PhantomData }
        };
        heights.into_iter().map(cut).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_the_whole_and_nothing_twice() {
        let mut buffer = vec![0.0; 4 * 10];
        let whole = Rectangle::new(&mut buffer, 10, 4, 7);
        for (column, part) in whole.split_columns([3, 0, 4]).into_iter().enumerate() {
            for (row, mut part) in part.split_rows([1, 3]).into_iter().enumerate() {
                for r in 0..part.rows() {
                    for value in part.row_mut(r) {
                        *value += 1.0 + (10 * row + column) as f32;
                    }
                }
            }
        }
        assert_eq!(buffer[..10], [1.0, 1.0, 1.0, 3.0, 3.0, 3.0, 3.0, 0.0, 0.0, 0.0]);
        assert_eq!(buffer[30..], [11.0, 11.0, 11.0, 13.0, 13.0, 13.0, 13.0, 0.0, 0.0, 0.0]);
    }

    #[test]
    #[should_panic(expected = "columns 5+6 of 10")]
    fn cannot_be_cut_beyond_its_edge() {
        Rectangle::new(&mut [0.0; 10], 10, 1, 10).split_columns([5, 6]);
    }
}
