//! Quantities with a unit.

use std::fmt;

/// A number of bytes; prints in binary units (`1.5 GiB`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Bytes(pub u64);

impl Bytes {
    /// `count` KiB.
    pub const fn kib(count: u64) -> Self {
        Bytes(count << 10)
    }

    /// `count` MiB.
    pub const fn mib(count: u64) -> Self {
        Bytes(count << 20)
    }

    /// `count` GiB.
    pub const fn gib(count: u64) -> Self {
        Bytes(count << 30)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
        if self.0 < 1024 {
            return f.pad(&format!("{} B", self.0));
        }
        let mut value = self.0 as f64 / 1024.0;
        let mut unit = 0;
        while value >= 1024.0 && unit + 1 < UNITS.len() {
            value /= 1024.0;
            unit += 1;
        }
        f.pad(&format!("{value:.1} {}", UNITS[unit]))
    }
}

impl std::iter::Sum for Bytes {
    fn sum<I: Iterator<Item = Bytes>>(iter: I) -> Self {
        Bytes(iter.fold(0, |sum, bytes| sum.saturating_add(bytes.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::Bytes;

    #[test]
    fn prints_the_largest_unit_that_fits() {
        assert_eq!(Bytes(1023).to_string(), "1023 B");
        assert_eq!(Bytes::kib(1).to_string(), "1.0 KiB");
        assert_eq!(Bytes::gib(15).to_string(), "15.0 GiB");
        assert_eq!(Bytes(3 << 29).to_string(), "1.5 GiB");
    }
}
