//! Soft cap: `cap * tanh(x / cap)`.

use super::exp::tanh;
use crate::simd::Isa;

/// Caps every value in place.
pub fn softcap(isa: Isa, values: &mut [f32], cap: f32) {
    isa.vectorise(|| values.iter_mut().for_each(|value| *value = cap * tanh(*value / cap)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caps_large_values_and_keeps_small_ones() {
        let mut values = [0.0, 1e-3, 1e6, -1e6];
        softcap(Isa::detect(), &mut values, 30.0);
        assert_eq!((values[0], values[2], values[3]), (0.0, 30.0, -30.0));
        assert!((values[1] - 1e-3).abs() < 1e-5);
    }
}
