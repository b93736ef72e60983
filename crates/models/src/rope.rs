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
