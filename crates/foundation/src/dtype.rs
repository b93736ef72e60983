//! Element types as checkpoints name them.

use std::{fmt, str::FromStr};

/// The element type of a stored tensor.
///
/// Names follow the safetensors header (`BF16`, `F8_E4M3`, ...); `from_str` also reads the spelling
/// of `config.json` (`bfloat16`, `torch.float16`, ...).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DType {
    /// IEEE binary64.
    F64,
    /// IEEE binary32.
    F32,
    /// IEEE binary16.
    F16,
    /// bfloat16: the upper half of a binary32.
    BF16,
    /// OCP FP8 E4M3 (finite, NaN 0x7F/0xFF).
    F8E4M3,
    /// OCP FP8 E5M2.
    F8E5M2,
    /// OCP E8M0 scale: a power of two, `2^(byte - 127)`.
    F8E8M0,
    /// Signed 64-bit integer.
    I64,
    /// Signed 32-bit integer.
    I32,
    /// Signed 16-bit integer.
    I16,
    /// Signed 8-bit integer.
    I8,
    /// Unsigned 64-bit integer.
    U64,
    /// Unsigned 32-bit integer.
    U32,
    /// Unsigned 16-bit integer.
    U16,
    /// Unsigned 8-bit integer; also the carrier of packed 4-bit values.
    U8,
    /// One byte, zero or one.
    Bool,
}

/// Every type with its safetensors name, its size in bytes, and the spellings of configuration files.
const TABLE: &[(DType, &str, usize, &[&str])] = &[
    (DType::F64, "F64", 8, &["float64", "double"]),
    (DType::F32, "F32", 4, &["float32", "float"]),
    (DType::F16, "F16", 2, &["float16", "half"]),
    (DType::BF16, "BF16", 2, &["bfloat16"]),
    (DType::F8E4M3, "F8_E4M3", 1, &["float8_e4m3fn"]),
    (DType::F8E5M2, "F8_E5M2", 1, &["float8_e5m2"]),
    (DType::F8E8M0, "F8_E8M0", 1, &["float8_e8m0fnu"]),
    (DType::I64, "I64", 8, &["int64"]),
    (DType::I32, "I32", 4, &["int32"]),
    (DType::I16, "I16", 2, &["int16"]),
    (DType::I8, "I8", 1, &["int8"]),
    (DType::U64, "U64", 8, &["uint64"]),
    (DType::U32, "U32", 4, &["uint32"]),
    (DType::U16, "U16", 2, &["uint16"]),
    (DType::U8, "U8", 1, &["uint8"]),
    (DType::Bool, "BOOL", 1, &["bool"]),
];

impl DType {
    /// Size of one element in bytes.
    pub fn size(self) -> usize {
        self.row().2
    }

    /// The safetensors spelling.
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// Whether the type holds a 16-, 32- or 64-bit floating-point number, readable without scales.
    pub fn is_plain_float(self) -> bool {
        matches!(self, DType::F64 | DType::F32 | DType::F16 | DType::BF16)
    }

    fn row(self) -> &'static (DType, &'static str, usize, &'static [&'static str]) {
        TABLE.iter().find(|row| row.0 == self).expect("every DType has a row in TABLE")
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A data type name that no row of the table knows.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown data type {0:?}")]
pub struct UnknownDType(pub String);

impl FromStr for DType {
    type Err = UnknownDType;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bare = text.strip_prefix("torch.").unwrap_or(text);
        TABLE
            .iter()
            .find(|(_, name, _, aliases)| *name == bare || aliases.contains(&bare))
            .map(|row| row.0)
            .ok_or_else(|| UnknownDType(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_the_table_reads_back() {
        for (dtype, name, size, aliases) in TABLE {
            assert_eq!(name.parse::<DType>(), Ok(*dtype));
            assert_eq!(dtype.size(), *size);
            for alias in *aliases {
                assert_eq!(alias.parse::<DType>(), Ok(*dtype));
                assert_eq!(format!("torch.{alias}").parse::<DType>(), Ok(*dtype));
            }
        }
        assert_eq!("bf17".parse::<DType>(), Err(UnknownDType("bf17".into())));
    }
}
