//! From a [`RopeSpec`] to the frequencies that it rotates by.
//!
//! Everything is computed in float32 and in the reference's order of operations, so that positions far out get the same
//! angles: at position 100,000 one unit in the last place of a frequency is already a visible turn.

use std::f64::consts::PI;

use crate::semantic::{RopeFrequencies, RopeScaling, RopeSpec};

impl RopeSpec {
    /// The frequencies of a regime: 0 for sequences of at most [`RopeSpec::regime_threshold`] tokens, 1 beyond.
    /// Where there is no threshold every regime is the same.
    pub fn frequencies(&self, regime: usize) -> RopeFrequencies {
        let wavelengths = self.wavelengths();
        let (inv_freq, attention_factor) = match &self.scaling {
            RopeScaling::None => (inverse(&wavelengths), 1.0),
            RopeScaling::Linear { factor } => {
                let scaled =
                    inverse(&wavelengths).iter().map(|freq| freq / *factor as f32).collect();
                (scaled, 1.0)
            }
            RopeScaling::Llama3 { factor, low_freq_factor, high_freq_factor, original_max } => {
                let ramp = Llama3Ramp {
                    factor: *factor as f32,
                    low: *low_freq_factor as f32,
                    high: *high_freq_factor as f32,
                    original_max: *original_max as f32,
                };
                (inverse(&wavelengths).into_iter().map(|freq| ramp.apply(freq)).collect(), 1.0)
            }
            RopeScaling::Yarn { attention_factor, .. } => {
                (self.yarn(&wavelengths), *attention_factor)
            }
            RopeScaling::LongRope { short, long, attention_factor, .. } => {
                let divisors = if regime == 0 { short } else { long };
                let scaled = wavelengths.iter().zip(divisors);
                (scaled.map(|(wave, by)| 1.0 / (*by as f32 * wave)).collect(), *attention_factor)
            }
        };
        RopeFrequencies { inv_freq, attention_factor: attention_factor as f32 }
    }

    /// `theta^(2i / rotary_dim)`: positions to one radian.
    fn wavelengths(&self) -> Vec<f32> {
        let dim = self.rotary_dim as f32;
        let theta = self.theta as f32;
        (0..self.rotary_dim / 2).map(|pair| theta.powf((2 * pair) as f32 / dim)).collect()
    }

    /// YaRN: dimensions that turn often within the original context are kept, those that turn less than once are
    /// divided, with a linear ramp between.
    fn yarn(&self, wavelengths: &[f32]) -> Vec<f32> {
        let RopeScaling::Yarn { factor, beta_fast, beta_slow, original_max, truncate, .. } =
            self.scaling
        else {
            unreachable!("called for YaRN alone")
        };
        let dimension = |rotations: f64| {
            let turns = original_max as f64 / (rotations * 2.0 * PI);
            self.rotary_dim as f64 * turns.ln() / (2.0 * self.theta.ln())
        };
        let (mut low, mut high) = (dimension(beta_fast), dimension(beta_slow));
        if truncate {
            (low, high) = (low.floor(), high.ceil());
        }
        low = low.max(0.0);
        high = high.min(self.rotary_dim as f64 - 1.0);
        // Where the two ends meet the ramp is a step; the reference widens it by this much.
        if low == high {
            high += 0.001;
        }
        let blend = |(pair, wave): (usize, &f32)| {
            let ramp = ((pair as f32 - low as f32) / (high - low) as f32).clamp(0.0, 1.0);
            let keep = 1.0 - ramp;
            1.0 / (factor as f32 * wave) * (1.0 - keep) + 1.0 / wave * keep
        };
        wavelengths.iter().enumerate().map(blend).collect()
    }
}

fn inverse(wavelengths: &[f32]) -> Vec<f32> {
    wavelengths.iter().map(|wave| 1.0 / wave).collect()
}

struct Llama3Ramp {
    factor: f32,
    low: f32,
    high: f32,
    original_max: f32,
}

impl Llama3Ramp {
    fn apply(&self, freq: f32) -> f32 {
        let wave = 2.0 * PI as f32 / freq;
        if wave < self.original_max / self.high {
            return freq;
        }
        if wave > self.original_max / self.low {
            return freq / self.factor;
        }
        let smooth = (self.original_max / wave - self.low) / (self.high - self.low);
        (1.0 - smooth) * freq / self.factor + smooth * freq
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Wanted values: the reference's formulas, evaluated in float32 by numpy.

    fn spec(theta: f64, rotary_dim: usize, scaling: RopeScaling) -> RopeSpec {
        RopeSpec { theta, rotary_dim, scaling }
    }

    fn assert_close(found: &RopeFrequencies, wanted: &[f32], attention_factor: f32) {
        assert_eq!(found.inv_freq.len(), wanted.len());
        for (found, wanted) in found.inv_freq.iter().zip(wanted) {
            // Two units in the last place: powf is rounded differently here and there.
            assert!((found - wanted).abs() <= wanted * 2.4e-7, "{found:e} is not {wanted:e}");
        }
        assert!((found.attention_factor - attention_factor).abs() <= 1e-7);
    }

    #[test]
    fn plain_frequencies_are_a_geometric_series() {
        let wanted =
            [1.0, 0.316_227_76, 0.1, 0.031_622_78, 0.01, 0.003_162_277_9, 0.001, 0.000_316_227_77];
        let spec = spec(10_000.0, 16, RopeScaling::None);
        assert_close(&spec.frequencies(0), &wanted, 1.0);
        assert_eq!(spec.frequencies(1), spec.frequencies(0));
    }

    #[test]
    fn linear_scaling_divides_all() {
        let wanted = [
            0.125,
            0.022_228_492,
            0.003_952_847_3,
            0.000_702_926_66,
            0.000_125,
            2.222_849_3e-5,
            3.952_847e-6,
            7.029_267e-7,
        ];
        let scaling = RopeScaling::Linear { factor: 8.0 };
        assert_close(&spec(1e6, 16, scaling).frequencies(0), &wanted, 1.0);
    }

    #[test]
    fn llama3_keeps_divides_and_blends() {
        let wanted = [
            1.0,
            0.193_922_76,
            0.037_606_03,
            0.007_292_665,
            0.000_524_846,
            3.428_102_4e-5,
            6.647_869_7e-6,
            1.289_173_2e-6,
        ];
        let scaling = RopeScaling::Llama3 {
            factor: 8.0,
            low_freq_factor: 1.0,
            high_freq_factor: 4.0,
            original_max: 8192,
        };
        assert_close(&spec(500_000.0, 16, scaling).frequencies(0), &wanted, 1.0);
    }

    fn yarn(factor: f64, truncate: bool) -> RopeScaling {
        RopeScaling::Yarn {
            factor,
            beta_fast: 32.0,
            beta_slow: 1.0,
            original_max: 4096,
            attention_factor: 0.1 * factor.ln() + 1.0,
            truncate,
        }
    }

    #[test]
    fn yarn_ramps_between_whole_dimensions() {
        let wanted = [
            1.0,
            0.316_227_76,
            0.1,
            0.025_693_506,
            0.006_249_999_6,
            0.001_383_496_6,
            0.000_25,
            7.905_695e-5,
        ];
        let spec = spec(10_000.0, 16, yarn(4.0, true));
        assert_close(&spec.frequencies(0), &wanted, 1.138_629_4);
    }

    #[test]
    fn yarn_without_truncation_ramps_between_fractions() {
        let wanted = [
            1.0,
            0.225_418,
            0.050_813_273,
            0.006_794_959_3,
            0.000_456_483_92,
            1.818_833_7e-5,
            4.099_978_5e-6,
            9.242_09e-7,
        ];
        let spec = spec(150_000.0, 16, yarn(32.0, false));
        assert_close(&spec.frequencies(0), &wanted, 1.346_573_6);
    }

    #[test]
    fn longrope_changes_its_divisors_with_the_regime() {
        let scaling = RopeScaling::LongRope {
            short: vec![1.0, 1.05, 1.2, 1.5],
            long: vec![1.8, 1.9, 2.7, 10.8],
            original_max: 4096,
            attention_factor: 1.190_238_1,
        };
        let spec = spec(10_000.0, 8, scaling);
        assert_eq!(spec.regime_threshold(), Some(4096));
        let short = [1.0, 0.095_238_1, 0.008_333_333, 0.000_666_666_66];
        let long = [0.555_555_6, 0.052_631_58, 0.003_703_703_6, 9.259_259e-5];
        assert_close(&spec.frequencies(0), &short, 1.190_238_1);
        assert_close(&spec.frequencies(1), &long, 1.190_238_1);
    }
}
