//! Every routine against its plain twin: equal bits on random data, tails, unaligned bytes, infinities and NaNs.

use half::{bf16, f16};

use super::*;
use crate::matrix::{Rows, WeightView};

/// A small generator of the same numbers everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> f32 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 40) as f32) / (1u64 << 23) as f32 - 1.0
    }

    fn values(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| self.next()).collect()
    }
}

const FORMATS: [Format; 3] = [Format::F32, Format::F16, Format::Bf16];

/// `values` stored in `format`, after one byte that puts every element out of alignment.
fn store(format: Format, values: &[f32]) -> Vec<u8> {
    let mut bytes = vec![0];
    for value in values {
        match format {
            Format::F32 => bytes.extend(value.to_le_bytes()),
            Format::F16 => bytes.extend(f16::from_f32(*value).to_le_bytes()),
            Format::Bf16 => bytes.extend(bf16::from_f32(*value).to_le_bytes()),
        }
    }
    bytes
}

fn bits(values: &[f32]) -> Vec<u32> {
    // All NaNs count as one: which payload survives is not part of the meaning.
    values.iter().map(|value| if value.is_nan() { u32::MAX } else { value.to_bits() }).collect()
}

fn projected(isa: Isa, x: Rows<'_>, w: WeightView<'_>, outs: Range<usize>) -> Vec<f32> {
    let mut y = vec![7.0; x.count() * outs.len()];
    let mut rectangle = Rectangle::new(&mut y, outs.len(), x.count(), outs.len());
    isa.project(x, w, outs, &mut rectangle);
    y
}

#[test]
fn projections_are_bitwise_their_plain_twin() {
    let mut random = Random(1);
    for format in FORMATS {
        for cols in [1, 7, 8, 24, 100, 1023, 1024, 1025, 2500] {
            for (count, outs) in [
                (1, 0..1),
                (1, 0..9),
                (2, 1..6),
                (3, 0..4),
                (4, 0..37),
                (7, 3..40),
                (11, 3..40),
                (50, 0..5),
                (51, 3..40),
            ] {
                let stored = store(format, &random.values(41 * cols));
                let w = WeightView::new(&stored[1..], format, 41, cols);
                let x = random.values(count * (cols + 3));
                let x = Rows::new(&x, cols + 3, cols, count);
                let plain = projected(Isa::Plain, x, w, outs.clone());
                let vector = projected(Isa::detect(), x, w, outs.clone());
                assert_eq!(bits(&plain), bits(&vector), "{format:?} {count} x {cols} -> {outs:?}");
            }
        }
    }
}

#[test]
fn a_row_never_depends_on_the_rows_beside_it() {
    let mut random = Random(2);
    let (cols, count) = (2100, 61);
    let stored = store(Format::Bf16, &random.values(70 * cols));
    let w = WeightView::new(&stored[1..], Format::Bf16, 70, cols);
    let data = random.values(count * cols);
    let all = projected(Isa::detect(), Rows::new(&data, cols, cols, count), w, 0..70);
    for row in 0..count {
        let alone = Rows::new(&data[row * cols..], cols, cols, 1);
        let alone = projected(Isa::detect(), alone, w, 0..70);
        assert_eq!(bits(&alone), bits(&all[row * 70..(row + 1) * 70]), "row {row}");
        let half =
            projected(Isa::detect(), Rows::new(&data[row * cols..], cols, cols, 1), w, 35..70);
        assert_eq!(half, alone[35..]);
    }
}

#[test]
fn infinities_and_nans_stay_in_their_row() {
    let mut random = Random(3);
    let (cols, count) = (37, 9);
    for (special, format) in
        [(f32::INFINITY, Format::F32), (f32::NAN, Format::Bf16), (3e38, Format::F32)]
    {
        let mut weights = random.values(8 * cols);
        weights[3 * cols + 36] = special;
        let stored = store(format, &weights);
        let w = WeightView::new(&stored[1..], format, 8, cols);
        let mut data = random.values(count * cols);
        data[5 * cols + 2] = special;
        let x = Rows::new(&data, cols, cols, count);
        let plain = projected(Isa::Plain, x, w, 0..8);
        let vector = projected(Isa::detect(), x, w, 0..8);
        assert_eq!(bits(&plain), bits(&vector), "{special}");
        assert!(vector[4 * 8].is_finite() && (special == 3e38 || !vector[5 * 8].is_finite()));
    }
}

#[test]
fn projection_agrees_with_float64() {
    let mut random = Random(4);
    let cols = 3000;
    let weights = random.values(5 * cols);
    let stored = store(Format::F32, &weights);
    let w = WeightView::new(&stored[1..], Format::F32, 5, cols);
    let x = random.values(cols);
    let y = projected(Isa::detect(), Rows::new(&x, cols, cols, 1), w, 0..5);
    for (out, y) in y.iter().enumerate() {
        let row = &weights[out * cols..(out + 1) * cols];
        let exact: f64 = x.iter().zip(row).map(|(x, w)| f64::from(*x) * f64::from(*w)).sum();
        assert!((f64::from(*y) - exact).abs() < 1e-3, "{y} is not {exact}");
    }
}

#[test]
fn scores_are_bitwise_their_plain_twin() {
    let mut random = Random(5);
    for width in [1, 8, 20, 64, 128, 256] {
        for (rows, count) in [(1, 16), (2, 16), (3, 5), (7, 16), (12, 1)] {
            let queries = random.values(rows * width);
            let queries: Vec<&[f32]> = queries.chunks(width).collect();
            let keys = random.values(count * width);
            let (mut plain, mut vector) = (vec![7.0; rows * 20], vec![7.0; rows * 20]);
            Isa::Plain.scores(&queries, &keys, &mut plain, 20, 4);
            Isa::detect().scores(&queries, &keys, &mut vector, 20, 4);
            assert_eq!(bits(&plain), bits(&vector), "{rows} queries, {count} keys of {width}");
            assert_eq!(vector[0..4], [7.0; 4]);
        }
    }
}

#[test]
fn accumulation_is_bitwise_its_plain_twin() {
    let mut random = Random(6);
    for width in [1, 8, 16, 20, 64, 128] {
        for (rows, count) in [(1, 16), (2, 3), (3, 16), (4, 1), (7, 16), (12, 0)] {
            let weights = random.values(rows * count.max(1));
            let weights: Vec<&[f32]> =
                weights.chunks(count.max(1)).map(|row| &row[..count]).collect();
            let values = random.values(count * width);
            let start = random.values(rows * width);
            let (mut plain, mut vector) = (start.clone(), start);
            Isa::Plain.accumulate(&weights, &values, &mut plain);
            Isa::detect().accumulate(&weights, &values, &mut vector);
            assert_eq!(bits(&plain), bits(&vector), "{rows} rows of {count}, width {width}");
        }
    }
}

#[test]
fn widening_reads_every_format_unaligned() {
    let values = [0.0, 1.0, -2.5, 0.125, f32::INFINITY];
    for format in FORMATS {
        let stored = store(format, &values);
        let mut out = [0.0; 5];
        Isa::detect().widen(format, &stored[1..], &mut out);
        assert_eq!(out, values, "{format:?}");
    }
}
