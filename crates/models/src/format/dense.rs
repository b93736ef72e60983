//! Plain floating-point numbers, row-major, little-endian: the tensor's bytes are the weight.

use foundation::DType;
use half::{bf16, f16};

use super::Format;
use crate::{
    catalog::TensorInfo,
    weights::{TensorOrigin, TensorStorage},
};

/// bfloat16.
pub const BF16: Format =
    Format { name: "bf16", bind: |tensor, origin| bind(DType::BF16, tensor, origin) };
/// IEEE binary16.
pub const F16: Format =
    Format { name: "f16", bind: |tensor, origin| bind(DType::F16, tensor, origin) };
/// IEEE binary32.
pub const F32: Format =
    Format { name: "f32", bind: |tensor, origin| bind(DType::F32, tensor, origin) };

fn bind(dtype: DType, tensor: &TensorInfo, origin: TensorOrigin) -> Option<TensorStorage> {
    (tensor.dtype == dtype).then_some(TensorStorage::Dense { dtype, origin })
}

/// Whether `dtype` is one of these formats.
pub fn is_dense(dtype: DType) -> bool {
    matches!(dtype, DType::BF16 | DType::F16 | DType::F32)
}

/// The values of stored numbers: the specification that every backend's reading is held to.
///
/// `bytes` holds `out.len()` elements of `dtype`, which is BF16, F16 or F32.
pub fn dequantize(dtype: DType, bytes: &[u8], out: &mut [f32]) {
    assert_eq!(bytes.len(), out.len() * dtype.size(), "bytes and elements agree");
    let elements = bytes.chunks_exact(dtype.size()).zip(out);
    match dtype {
        DType::BF16 => elements.for_each(|(bytes, value)| {
            *value = bf16::from_le_bytes([bytes[0], bytes[1]]).to_f32();
        }),
        DType::F16 => elements.for_each(|(bytes, value)| {
            *value = f16::from_le_bytes([bytes[0], bytes[1]]).to_f32();
        }),
        DType::F32 => elements.for_each(|(bytes, value)| {
            *value = f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        }),
        other => unreachable!("{other} is no dense format"),
    }
}

/// The inverse of [`dequantize`]: rounds to nearest, ties to even.
pub fn quantize(dtype: DType, values: &[f32], out: &mut [u8]) {
    assert_eq!(out.len(), values.len() * dtype.size(), "bytes and elements agree");
    let elements = out.chunks_exact_mut(dtype.size()).zip(values);
    match dtype {
        DType::BF16 => elements.for_each(|(bytes, value)| {
            bytes.copy_from_slice(&bf16::from_f32(*value).to_le_bytes())
        }),
        DType::F16 => elements
            .for_each(|(bytes, value)| bytes.copy_from_slice(&f16::from_f32(*value).to_le_bytes())),
        DType::F32 => {
            elements.for_each(|(bytes, value)| bytes.copy_from_slice(&value.to_le_bytes()));
        }
        other => unreachable!("{other} is no dense format"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_bit_patterns_have_their_values() {
        let cases: [(DType, &[u8], f32); 6] = [
            (DType::BF16, &[0xc0, 0x3f], 1.5),
            (DType::BF16, &[0x80, 0xff], f32::NEG_INFINITY),
            (DType::F16, &[0x00, 0x3e], 1.5),
            (DType::F16, &[0x01, 0x00], 5.960_464_5e-8),
            (DType::F32, &[0x00, 0x00, 0xc0, 0x3f], 1.5),
            (DType::F32, &[0x01, 0x00, 0x00, 0x80], -f32::from_bits(1)),
        ];
        for (dtype, bytes, value) in cases {
            let mut out = [0.0];
            dequantize(dtype, bytes, &mut out);
            assert_eq!(out, [value], "{dtype} {bytes:x?}");
            let mut back = vec![0; bytes.len()];
            quantize(dtype, &[value], &mut back);
            assert_eq!(back, bytes);
        }
    }
}
