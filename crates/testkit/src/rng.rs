//! Seeded randomness for simulations.

/// SplitMix64 (Steele, Lea and Flood 2014): small, fast, the same numbers everywhere.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// The stream of `seed`.
    pub fn new(seed: u64) -> Self {
        Rng(seed)
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.0)
    }

    /// A number in `range`, near enough uniform.
    ///
    /// # Panics
    /// When the range is empty.
    pub fn within(&mut self, range: std::ops::Range<usize>) -> usize {
        assert!(!range.is_empty(), "an empty range has no numbers");
        range.start + (self.next_u64() % range.len() as u64) as usize
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.within(0..n) == 0
    }

    /// One of the given values.
    pub fn pick<T: Clone>(&mut self, values: &[T]) -> T {
        values[self.within(0..values.len())].clone()
    }
}

/// The finaliser: every bit of `x` reaches every bit of the result.
pub fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}
