//! Comparing what was computed with what should have been.

use std::fmt;

/// The worst element of a comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct Worst {
    /// Where.
    pub index: usize,
    /// What was computed.
    pub got: f32,
    /// What it should have been.
    pub want: f32,
    /// The distance, relative to the greatest magnitude of all wanted values.
    pub error: f32,
}

impl fmt::Display for Worst {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Worst { index, got, want, error } = self;
        write!(f, "element {index}: got {got}, want {want}, relative error {error:e}")
    }
}

/// The element that is furthest off, relative to the greatest magnitude wanted; `None`: there are no elements.
/// A NaN or an infinity on one side alone is infinitely far off.
///
/// # Panics
/// When the lengths differ.
pub fn worst(got: &[f32], want: &[f32]) -> Option<Worst> {
    assert_eq!(got.len(), want.len(), "as many values as wanted");
    let finite = want.iter().map(|want| want.abs()).filter(|want| want.is_finite());
    let scale = finite.fold(f32::MIN_POSITIVE, f32::max);
    let errors = got.iter().zip(want).enumerate().map(|(index, (&got, &want))| {
        let same = got == want || (got.is_nan() && want.is_nan());
        let distance = (got - want).abs() / scale;
        let distance = if distance.is_nan() { f32::INFINITY } else { distance };
        Worst { index, got, want, error: if same { 0.0 } else { distance } }
    });
    errors.max_by(|a, b| a.error.total_cmp(&b.error))
}

/// Index of the greatest value, the first among equals; `None`: no values, or a NaN.
pub fn argmax(values: &[f32]) -> Option<usize> {
    if values.iter().any(|value| value.is_nan()) {
        return None;
    }
    let best = values.iter().copied().reduce(f32::max)?;
    values.iter().position(|value| *value == best)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_worst_and_never_forgives_a_nan() {
        let found = worst(&[1.0, 2.5, 4.0], &[1.0, 2.0, 4.0]).unwrap();
        assert_eq!((found.index, found.error), (1, 0.125));
        assert_eq!(worst(&[f32::NAN], &[1.0]).unwrap().error, f32::INFINITY);
        assert_eq!(worst(&[f32::INFINITY], &[f32::INFINITY]).unwrap().error, 0.0);
        assert_eq!(worst(&[], &[]), None);
    }

    #[test]
    fn argmax_takes_the_first() {
        assert_eq!(argmax(&[0.0, 3.0, 3.0]), Some(1));
        assert_eq!(argmax(&[0.0, f32::NAN]), None);
    }
}
