//! Gated activation: `gate = activation(gate) * up`.

use models::semantic::Activation;

use super::exp::{exp, sigmoid, tanh};
use crate::simd::Isa;

/// `gate = activation(gate) * up`, in place.
pub fn gate(isa: Isa, activation: Activation, gate: &mut [f32], up: &[f32]) {
    assert_eq!(gate.len(), up.len(), "a gate for each value");
    match activation {
        Activation::Silu => apply(isa, gate, up, silu),
        Activation::GeluTanh => apply(isa, gate, up, gelu_tanh),
        Activation::GeluErf => apply(isa, gate, up, gelu_erf),
    }
}

#[inline(always)]
fn apply(isa: Isa, gate: &mut [f32], up: &[f32], activation: impl Fn(f32) -> f32) {
    isa.vectorise(|| {
        for (gate, up) in gate.iter_mut().zip(up) {
            *gate = activation(*gate) * up;
        }
    });
}

/// `x * sigmoid(x)`.
#[inline(always)]
fn silu(x: f32) -> f32 {
    x * sigmoid(x)
}

/// `x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3)))`.
#[inline(always)]
fn gelu_tanh(x: f32) -> f32 {
    const SQRT_2_OVER_PI: f32 = 0.797_884_6;
    0.5 * x * (1.0 + tanh(SQRT_2_OVER_PI * (0.044_715 * x * x).mul_add(x, x)))
}

/// `x / 2 * (1 + erf(x / sqrt(2)))`.
#[inline(always)]
fn gelu_erf(x: f32) -> f32 {
    0.5 * x * (1.0 + erf(x * std::f32::consts::FRAC_1_SQRT_2))
}

/// The error function by formula 7.1.26 of Abramowitz and Stegun, within 5e-7 absolute.
#[inline(always)]
fn erf(x: f32) -> f32 {
    let a = x.abs();
    let t = 1.0 / 0.327_591_1f32.mul_add(a, 1.0);
    let mut series = 1.061_405_4f32;
    for coefficient in [-1.453_152_f32, 1.421_413_7, -0.284_496_74, 0.254_829_6] {
        series = series.mul_add(t, coefficient);
    }
    (1.0 - series * t * exp(-a * a)).copysign(x)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(activation: Activation, x: f32) -> f32 {
        let mut value = [x];
        gate(Isa::detect(), activation, &mut value, &[2.0]);
        value[0] / 2.0
    }

    /// Values of the reference (torch, float64).
    #[test]
    fn known_values() {
        for (activation, x, wanted) in [
            (Activation::Silu, 1.0, 0.731_058_6),
            (Activation::Silu, -3.0, -0.142_277_62),
            (Activation::GeluTanh, 1.0, 0.841_192),
            (Activation::GeluTanh, -2.0, -0.045_402_3),
            (Activation::GeluErf, 1.0, 0.841_344_7),
            (Activation::GeluErf, -2.0, -0.045_500_264),
        ] {
            let seen = one(activation, x);
            assert!((seen - wanted).abs() < 1e-6, "{activation:?}({x}) = {seen}, not {wanted}");
        }
    }

    #[test]
    fn far_out_values_stay_finite() {
        for activation in [Activation::Silu, Activation::GeluTanh, Activation::GeluErf] {
            assert_eq!(one(activation, 1e4), 1e4);
            assert_eq!(one(activation, -1e4).abs(), 0.0);
        }
    }

    #[test]
    fn plain_and_vector_give_the_same_bits() {
        for activation in [Activation::Silu, Activation::GeluTanh, Activation::GeluErf] {
            let values: Vec<f32> = (-500..503).map(|i| i as f32 * 0.031).collect();
            let (mut plain, mut vector) = (values.clone(), values.clone());
            gate(Isa::Plain, activation, &mut plain, &values);
            gate(Isa::detect(), activation, &mut vector, &values);
            assert_eq!(plain, vector, "{activation:?}");
        }
    }
}
