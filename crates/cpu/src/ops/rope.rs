//! Rotary position embedding, half-split:
//!
//! ```text
//! angle[i] = position * inv_freq[i],  c = cos(angle[i]) * factor,  s = sin(angle[i]) * factor,  h = rotary_dim / 2
//! y[i]     = x[i] * c - x[i + h] * s
//! y[i + h] = x[i + h] * c + x[i] * s       for i in 0..h;  elements from rotary_dim on pass through
//! ```

use models::semantic::RopeFrequencies;

use crate::simd::Isa;

/// Cosines and sines of a step's rows, `[rows, rotary_dim / 2]` each. Layers with the same frequencies share one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RopeTable {
    half: usize,
    cos: Vec<f32>,
    sin: Vec<f32>,
}

impl RopeTable {
    /// Empties the table for frequencies of `half` pairs.
    pub fn reset(&mut self, half: usize) {
        self.half = half;
        self.cos.clear();
        self.sin.clear();
    }

    /// Appends the row of `position`. Angles are rounded to float32, as the reference rounds them.
    pub fn push(&mut self, frequencies: &RopeFrequencies, position: u32) {
        assert_eq!(frequencies.inv_freq.len(), self.half, "a frequency for each pair");
        for inv_freq in &frequencies.inv_freq {
            let (sin, cos) = (position as f32 * inv_freq).sin_cos();
            self.cos.push(cos * frequencies.attention_factor);
            self.sin.push(sin * frequencies.attention_factor);
        }
    }

    /// Rotates one head of row `row` in place.
    pub fn rotate(&self, isa: Isa, row: usize, head: &mut [f32]) {
        let half = self.half;
        let cos = &self.cos[row * half..(row + 1) * half];
        let sin = &self.sin[row * half..(row + 1) * half];
        let (low, high) = head[..2 * half].split_at_mut(half);
        isa.vectorise(|| {
            for i in 0..half {
                let (a, b) = (low[i], high[i]);
                low[i] = a * cos[i] - b * sin[i];
                high[i] = b * cos[i] + a * sin[i];
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(factor: f32, positions: &[u32]) -> RopeTable {
        let frequencies = RopeFrequencies { inv_freq: vec![1.0, 0.01], attention_factor: factor };
        let mut table = RopeTable::default();
        table.reset(2);
        positions.iter().for_each(|position| table.push(&frequencies, *position));
        table
    }

    #[test]
    fn position_zero_only_scales() {
        let mut head = [1.0, 2.0, 3.0, 4.0, 5.0];
        table(2.0, &[0]).rotate(Isa::detect(), 0, &mut head);
        assert_eq!(head, [2.0, 4.0, 6.0, 8.0, 5.0]);
    }

    #[test]
    fn rotation_keeps_lengths_and_the_rest_of_the_head() {
        let mut head = [1.0, 2.0, 3.0, 4.0, 5.0];
        table(1.0, &[3, 1000]).rotate(Isa::detect(), 1, &mut head);
        assert!((head[0].hypot(head[2]) - 10f32.sqrt()).abs() < 1e-5);
        assert!((head[1].hypot(head[3]) - 20f32.sqrt()).abs() < 1e-5);
        assert_eq!(head[4], 5.0);
        let angle = 1000.0f32 * 0.01;
        assert!((head[1] - (2.0 * angle.cos() - 4.0 * angle.sin())).abs() < 1e-5);
    }
}
