//! The element formats that the backend reads from storage as they lie there.

use foundation::DType;
use half::{bf16, f16};

/// A plain floating-point format. Bytes are little-endian and need not be aligned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// IEEE binary32.
    F32,
    /// IEEE binary16.
    F16,
    /// bfloat16.
    Bf16,
}

impl Format {
    /// The format of a stored type, if the backend reads it.
    pub fn of(dtype: DType) -> Option<Format> {
        match dtype {
            DType::F32 => Some(Format::F32),
            DType::F16 => Some(Format::F16),
            DType::BF16 => Some(Format::Bf16),
            _ => None,
        }
    }

    /// Bytes of one element.
    pub const fn size(self) -> usize {
        match self {
            Format::F32 => 4,
            Format::F16 | Format::Bf16 => 2,
        }
    }

    /// Widens `out.len()` elements. `bytes` holds exactly as many.
    pub fn widen(self, bytes: &[u8], out: &mut [f32]) {
        assert_eq!(bytes.len(), out.len() * self.size(), "as many elements as places for them");
        match self {
            Format::F32 => widen(bytes, out, f32::from_le_bytes),
            Format::F16 => widen(bytes, out, |element| f16::from_le_bytes(element).to_f32()),
            Format::Bf16 => widen(bytes, out, |element| bf16::from_le_bytes(element).to_f32()),
        }
    }
}

fn widen<const SIZE: usize>(bytes: &[u8], out: &mut [f32], read: impl Fn([u8; SIZE]) -> f32) {
    for (out, element) in out.iter_mut().zip(bytes.as_chunks::<SIZE>().0) {
        *out = read(*element);
    }
}
