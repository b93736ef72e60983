//! Residual addition: `h = h + scale * branch`.

use crate::simd::Isa;

/// Adds a branch to the residual stream. Multiplies and adds in two roundings, as the reference does.
pub fn add_residual(isa: Isa, hidden: &mut [f32], branch: &[f32], scale: f32) {
    isa.vectorise(|| {
        for (hidden, branch) in hidden.iter_mut().zip(branch) {
            *hidden += scale * branch;
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_before_it_adds() {
        let mut hidden = [1.0, 2.0];
        add_residual(Isa::detect(), &mut hidden, &[10.0, 20.0], 0.5);
        assert_eq!(hidden, [6.0, 12.0]);
    }
}
