//! Token embedding: `h[t] = table[token[t]] * scale`.

use crate::{matrix::WeightView, simd::Isa};

/// Writes one row: `out = table[token] * scale`. `table` is `[vocab, hidden]`, `out` is `[hidden]`.
pub fn embed(isa: Isa, table: WeightView<'_>, token: usize, scale: f32, out: &mut [f32]) {
    table.format().widen(table.row(token, 0..table.cols()), out);
    if scale != 1.0 {
        isa.vectorise(|| out.iter_mut().for_each(|value| *value *= scale));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Format;

    #[test]
    fn takes_the_row_and_scales_it() {
        let table: Vec<u8> = [1.0f32, 2.0, 3.0, 4.0].iter().flat_map(|v| v.to_le_bytes()).collect();
        let table = WeightView::new(&table, Format::F32, 2, 2);
        let mut out = [0.0; 2];
        embed(Isa::Plain, table, 1, 2.0, &mut out);
        assert_eq!(out, [6.0, 8.0]);
    }
}
