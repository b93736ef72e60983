//! The random numbers of sampling: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011).
//!
//! Counter-based: a number is a function of (seed, draw) alone, so a row's draw depends on no other row, on no earlier
//! step, and comes out the same on every backend.

const MULTIPLIERS: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
const KEY_STEPS: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];

/// A number in `[0, 1)` with 53 random bits for draw number `draw` of `seed`.
pub fn uniform(seed: u64, draw: u64) -> f64 {
    let counter = [draw as u32, (draw >> 32) as u32, 0, 0];
    let words = philox4x32_10(counter, [seed as u32, (seed >> 32) as u32]);
    let bits = (u64::from(words[0]) << 21) | (u64::from(words[1]) >> 11);
    bits as f64 * (0.5f64).powi(53)
}

/// Ten rounds of the block function.
fn philox4x32_10(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    for _ in 0..10 {
        let low = u64::from(MULTIPLIERS[0]) * u64::from(counter[0]);
        let high = u64::from(MULTIPLIERS[1]) * u64::from(counter[2]);
        counter = [
            (high >> 32) as u32 ^ counter[1] ^ key[0],
            high as u32,
            (low >> 32) as u32 ^ counter[3] ^ key[1],
            low as u32,
        ];
        key = [key[0].wrapping_add(KEY_STEPS[0]), key[1].wrapping_add(KEY_STEPS[1])];
    }
    counter
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The known answers that the generator's authors publish.
    #[test]
    fn known_answers() {
        let all = u32::MAX;
        let pi = [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344];
        let cases = [
            ([0; 4], [0; 2], [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]),
            ([all; 4], [all; 2], [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]),
            (pi, [0xa409_3822, 0x299f_31d0], [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]),
        ];
        for (counter, key, wanted) in cases {
            assert_eq!(philox4x32_10(counter, key), wanted);
        }
    }

    #[test]
    fn stays_below_one_and_spreads() {
        let draws: Vec<f64> = (0..4096).map(|draw| uniform(7, draw)).collect();
        assert!(draws.iter().all(|u| (0.0..1.0).contains(u)));
        let mean = draws.iter().sum::<f64>() / 4096.0;
        assert!((mean - 0.5).abs() < 0.02, "{mean}");
        assert_ne!(uniform(7, 0), uniform(8, 0));
    }
}
