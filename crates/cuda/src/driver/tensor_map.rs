//! Tensor maps: how the copy engine walks a tensor in device memory.

use cudarc::driver::sys::{
    self, CUtensorMap, CUtensorMapDataType, CUtensorMapFloatOOBfill, CUtensorMapInterleave,
    CUtensorMapL2promotion, CUtensorMapSwizzle,
};

use super::error::{DriverError, check};

/// How a box's rows are scattered over the banks of shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Swizzle {
    /// Not at all.
    None,
    /// 16-byte pieces within 32-byte rows.
    Bytes32,
    /// Within 64-byte rows.
    Bytes64,
    /// Within 128-byte rows.
    Bytes128,
}

/// An encoded tensor map, passed to kernels by value in their parameters.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct TensorMap([u64; 16]);

// SAFETY: sixteen words, no padding.
unsafe impl bytemuck::Zeroable for TensorMap {}
// SAFETY: as above; every bit pattern is a value (though not every one a map).
unsafe impl bytemuck::Pod for TensorMap {}

impl TensorMap {
    /// A map of 2-byte floats (bf16) at `address`, copied in boxes of `tile` elements; the innermost dimension comes first.
    /// `strides` are in bytes, one for each dimension but the innermost. Elements beyond `dims` read as zero.
    pub fn bf16(
        address: u64,
        dims: &[u64],
        strides: &[u64],
        tile: &[u32],
        swizzle: Swizzle,
    ) -> Result<TensorMap, DriverError> {
        let data = CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
        TensorMap::encode(data, address, dims, strides, tile, swizzle)
    }

    /// As [`TensorMap::bf16`], of bytes.
    pub fn bytes(
        address: u64,
        dims: &[u64],
        strides: &[u64],
        tile: &[u32],
        swizzle: Swizzle,
    ) -> Result<TensorMap, DriverError> {
        let data = CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_UINT8;
        TensorMap::encode(data, address, dims, strides, tile, swizzle)
    }

    fn encode(
        data: CUtensorMapDataType,
        address: u64,
        dims: &[u64],
        strides: &[u64],
        tile: &[u32],
        swizzle: Swizzle,
    ) -> Result<TensorMap, DriverError> {
        let rank = dims.len();
        if rank == 0 || rank > 5 || strides.len() + 1 != rank || tile.len() != rank {
            return Err(DriverError::Invalid(format!(
                "a tensor map of dims {dims:?}, strides {strides:?}, box {tile:?}"
            )));
        }
        let mut map = TensorMap([0; 16]);
        let steps = [1u32; 5];
        // SAFETY: the arrays have `rank` elements (`strides` one fewer), the map is 128 bytes aligned to 64.
        let result = unsafe {
            sys::cuTensorMapEncodeTiled(
                (&raw mut map).cast::<CUtensorMap>(),
                data,
                rank as u32,
                address as *mut _,
                dims.as_ptr(),
                strides.as_ptr(),
                tile.as_ptr(),
                steps.as_ptr(),
                CUtensorMapInterleave::CU_TENSOR_MAP_INTERLEAVE_NONE,
                swizzle.raw(),
                // Promotion to 256 bytes costs a stream of weights 8 % of the memory's speed.
                CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_NONE,
                CUtensorMapFloatOOBfill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
            )
        };
        check("cuTensorMapEncodeTiled", result)?;
        Ok(map)
    }
}

impl Swizzle {
    fn raw(self) -> CUtensorMapSwizzle {
        match self {
            Swizzle::None => CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_NONE,
            Swizzle::Bytes32 => CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_32B,
            Swizzle::Bytes64 => CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_64B,
            Swizzle::Bytes128 => CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_128B,
        }
    }
}
