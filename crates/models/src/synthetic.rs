//! Made-up weights: reproducible on every machine, from any element on, without a checkpoint.
//!
//! They stand in for real ones where speed is measured and where memory is planned. Element `i` of a weight depends on the
//! weight's seed and on `i` alone, so that any number of threads may fill any ranges in any order.

mod write;

use foundation::DType;

pub use self::write::write_checkpoint;
use crate::{
    format::dense,
    semantic::DecoderSemantic,
    weights::{LayerWeight, PlannedWeight, TensorOrigin, WeightRole},
};

/// Where the values of `weight` come from under the model's `seed`.
///
/// Projections have a deviation of `1 / sqrt(inputs)`, so that activations keep their size through any number of layers;
/// norms multiply by numbers around 1.
pub fn origin(seed: u64, weight: &PlannedWeight, semantic: &DecoderSemantic) -> TensorOrigin {
    let seed = mix(seed ^ mix(role_number(weight.role)));
    let (mean, std) = match norm_offset(weight.role, semantic) {
        Some(offset) => (1.0 - offset, 0.05),
        None => match weight.shape[..] {
            [_, inputs] if weight.role != WeightRole::TokenEmbedding => {
                (0.0, (inputs as f32).sqrt().recip())
            }
            _ => (0.0, 0.02),
        },
    };
    TensorOrigin::Synthetic { seed, std, mean }
}

/// Fills `out` with elements `first..` of a weight, stored as `dtype` (BF16, F16 or F32).
///
/// The values are the sum of four uniform numbers, scaled: a normal distribution but for its tails, which end at 3.46
/// deviations. Integer arithmetic up to the last product makes them the same everywhere.
pub fn fill(seed: u64, first: u64, std: f32, mean: f32, dtype: DType, out: &mut [u8]) {
    const CHUNK: usize = 1024;
    let mut values = [0.0; CHUNK];
    let mut index = first;
    for bytes in out.chunks_mut(CHUNK * dtype.size()) {
        let values = &mut values[..bytes.len() / dtype.size()];
        for value in values.iter_mut() {
            *value = standard(seed, index) * std + mean;
            index += 1;
        }
        dense::quantize(dtype, values, bytes);
    }
}

/// One value with mean 0 and deviation 1.
fn standard(seed: u64, index: u64) -> f32 {
    /// `sqrt((65536^2 - 1) / 12 * 4)`: the deviation of the sum of four of `0..65536`.
    const DEVIATION: f32 = 37_837.227;
    let bits = mix(seed.wrapping_add(index.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
    let sum: i32 = (0..4).map(|part| (bits >> (16 * part)) as u16 as i32).sum();
    (sum - 2 * 65535) as f32 / DEVIATION
}

/// The finaliser of SplitMix64: every bit of the result depends on every bit of `x`.
fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// A number of its own for every role.
fn role_number(role: WeightRole) -> u64 {
    match role {
        WeightRole::TokenEmbedding => 1,
        WeightRole::FinalNorm => 2,
        WeightRole::Head => 3,
        WeightRole::Layer(layer, weight) => ((u64::from(layer) + 1) << 16) | weight as u64,
        WeightRole::Expert(layer, expert, weight) => {
            (1 << 63) | (u64::from(layer) << 32) | (u64::from(expert) << 8) | weight as u64
        }
    }
}

/// For a norm's weight: what is added to it before it multiplies.
fn norm_offset(role: WeightRole, semantic: &DecoderSemantic) -> Option<f32> {
    let WeightRole::Layer(layer, weight) = role else {
        return (role == WeightRole::FinalNorm).then_some(semantic.final_norm.weight_offset);
    };
    let layer = &semantic.layers[layer as usize];
    let crate::semantic::Mixer::Attention(attention) = &layer.mixer;
    let norm = match weight {
        LayerWeight::MixerPreNorm => layer.mixer_pre_norm,
        LayerWeight::MixerPostNorm => layer.mixer_post_norm,
        LayerWeight::FeedForwardPreNorm => layer.ff_pre_norm,
        LayerWeight::FeedForwardPostNorm => layer.ff_post_norm,
        LayerWeight::QueryNorm | LayerWeight::KeyNorm => attention.qk_norm.map(|norm| norm.norm),
        _ => None,
    };
    norm.map(|norm| norm.weight_offset)
}

#[cfg(test)]
mod tests;
