//! The exponential function and what is made of it, the same bits in plain and in vector code.

const LOG2_E: f32 = std::f32::consts::LOG2_E;
/// `ln 2` in two parts; the first has few enough bits that its product with a whole number is exact.
const LN_2_HIGH: f32 = 0.693_359_4;
const LN_2_LOW: f32 = -2.121_944_4e-4;
/// Below this `e^x` is not a normal number any more; 0 is returned.
const LOWEST: f32 = -87.336_54;
/// Above this `e^x` is infinite.
const HIGHEST: f32 = 88.722_83;
/// Taylor coefficients of `(e^r - 1 - r) / r^2`, highest first: with `|r| <= ln 2 / 2` the first one left out is below
/// a tenth of the last bit.
const SERIES: [f32; 6] = [1.0 / 5040.0, 1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 1.0 / 2.0];

/// `e^x`, within two units in the last place; 0 where the result would be subnormal.
#[inline(always)]
pub fn exp(x: f32) -> f32 {
    // `clamp` would keep a NaN too, but says so less plainly than the selection at the end.
    let bounded = if x > HIGHEST { HIGHEST } else { x };
    let bounded = if bounded < LOWEST { LOWEST } else { bounded };
    let power = (bounded * LOG2_E).round_ties_even();
    let rest = power.mul_add(-LN_2_HIGH, bounded);
    let rest = power.mul_add(-LN_2_LOW, rest);
    let mut series = SERIES[0];
    for coefficient in &SERIES[1..] {
        series = series.mul_add(rest, *coefficient);
    }
    let mantissa = series.mul_add(rest * rest, rest) + 1.0;
    // Two factors, since 2^128 alone is infinite.
    let exponent = power as i32;
    let half = exponent >> 1;
    let value = mantissa * power_of_two(half) * power_of_two(exponent - half);
    if x < LOWEST {
        0.0
    } else if x > HIGHEST {
        f32::INFINITY
    } else {
        value
    }
}

/// `2^exponent` for exponents of normal numbers.
#[inline(always)]
fn power_of_two(exponent: i32) -> f32 {
    f32::from_bits(((exponent.wrapping_add(127)) as u32) << 23)
}

/// `1 / (1 + e^-x)`.
#[inline(always)]
pub fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

/// `tanh(x)`, within 2e-7 absolute: `1 - 2 / (e^2|x| + 1)` with the sign of `x`.
#[inline(always)]
pub fn tanh(x: f32) -> f32 {
    let magnitude = 1.0 - 2.0 / (exp(2.0 * x.abs()) + 1.0);
    magnitude.copysign(x)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_is_within_two_units_in_the_last_place() {
        for step in -872_000..887_000 {
            let x = step as f32 * 1e-4;
            let exact = f64::from(x).exp();
            let ulp = f64::from((exact as f32).next_up()) - f64::from(exact as f32);
            let error = (f64::from(exp(x)) - exact).abs() / ulp;
            assert!(error <= 2.0, "exp({x}) is {error} units off");
        }
    }

    #[test]
    fn ends_and_non_numbers() {
        assert_eq!(exp(0.0), 1.0);
        assert_eq!(exp(-f32::INFINITY), 0.0);
        assert_eq!(exp(-100.0), 0.0);
        assert_eq!(exp(f32::INFINITY), f32::INFINITY);
        assert_eq!(exp(89.0), f32::INFINITY);
        assert!(exp(88.7).is_finite());
        assert!(exp(f32::NAN).is_nan() && tanh(f32::NAN).is_nan() && sigmoid(f32::NAN).is_nan());
        assert_eq!((sigmoid(-f32::INFINITY), sigmoid(f32::INFINITY)), (0.0, 1.0));
        assert_eq!((tanh(-f32::INFINITY), tanh(f32::INFINITY)), (-1.0, 1.0));
    }

    #[test]
    fn tanh_and_sigmoid_are_close() {
        for step in -20_000..20_000 {
            let x = step as f32 * 1e-3;
            assert!((f64::from(tanh(x)) - f64::from(x).tanh()).abs() < 2e-7, "tanh({x})");
            let exact = 1.0 / (1.0 + (-f64::from(x)).exp());
            assert!((f64::from(sigmoid(x)) - exact).abs() < 2e-7, "sigmoid({x})");
        }
    }
}
