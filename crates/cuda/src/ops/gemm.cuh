// What the matrix products share: what becomes of a tile's sums.
#pragma once
#include "common.cuh"

enum Epilogue {
    STORE_BF16,
    STORE_F32,
    GATE_UP, // act(gate) * up in bf16, of rows of w interleaved in groups of 8
    ADD_F32, // y += sum
};

// 0: silu, 1: gelu by tanh (both are v times a sigmoid, whose divisor may overflow: then the quotient is 0, as it should be);
// 2: gelu by erf, as a polynomial that is right to 1.5e-7. `ERF`: whether kind is 2, decided once and not for every value.
template <bool ERF> __device__ __forceinline__ float activate(float v, uint32_t kind) {
    if constexpr (ERF) {
        const float z = fabsf(v) * 0.70710678118654752f, t = __fdividef(1.0f, 1.0f + 0.3275911f * z);
        const float poly = t * (0.254829592f + t * (-0.284496736f + t * (1.421413741f + t * (-1.453152027f + t * 1.061405429f))));
        const float erf = copysignf(1.0f - poly * __expf(-z * z), v);
        return 0.5f * v * (1.0f + erf);
    } else {
        const float z = kind == 0 ? v : 1.5957691216057308f * (v + 0.044715f * v * v * v);
        return __fdividef(v, 1.0f + __expf(-z));
    }
}

// Two neighbouring outputs of one row; `col` is even.
__device__ __forceinline__ void store_pair(bf16* y, uint64_t row_start, uint32_t col, uint32_t n, float a, float b) {
    if (n % 2 == 0) {
        if (col < n) *reinterpret_cast<__nv_bfloat162*>(y + row_start + col) = __floats2bfloat162_rn(a, b);
        return;
    }
    if (col < n) y[row_start + col] = __float2bfloat16_rn(a);
    if (col + 1 < n) y[row_start + col + 1] = __float2bfloat16_rn(b);
}
// Of the two, those in [begin, n).
template <bool ADD>
__device__ __forceinline__ void store_pair(float* y, uint64_t row_start, uint32_t col, uint32_t begin, uint32_t n, float a, float b) {
    float* at = y + row_start + col;
    if (n % 2 == 0) { // `col` and `begin` are even as well
        if (col < begin || col >= n) return;
        float2 v = make_float2(a, b);
        if (ADD) {
            const float2 old = *reinterpret_cast<const float2*>(at);
            v = make_float2(old.x + a, old.y + b);
        }
        *reinterpret_cast<float2*>(at) = v;
        return;
    }
    if (col >= begin && col < n) at[0] = ADD ? at[0] + a : a;
    if (col + 1 >= begin && col + 1 < n) at[1] = ADD ? at[1] + b : b;
}

// Four lanes hold v[i] = part `lane` of piece i; afterwards each holds the four parts of piece `lane`, in order.
__device__ __forceinline__ void transpose_quad(uint32_t (&v)[4], uint32_t lane) {
    const bool odd = lane & 1, high = lane & 2;
    // Pairs of lanes swap the off-diagonal entries of 2 x 2 blocks, then pairs of pairs swap the off-diagonal blocks.
    const uint32_t a = __shfl_xor_sync(~0u, odd ? v[0] : v[1], 1), b = __shfl_xor_sync(~0u, odd ? v[2] : v[3], 1);
    if (odd) { v[0] = a; v[2] = b; } else { v[1] = a; v[3] = b; }
    const uint32_t c = __shfl_xor_sync(~0u, high ? v[0] : v[2], 2), d = __shfl_xor_sync(~0u, high ? v[1] : v[3], 2);
    if (high) { v[0] = c; v[1] = d; } else { v[2] = c; v[3] = d; }
}

// Eight neighbouring bf16 of a row, as far as they lie in [begin, end); `whole`: all or none do, and they are aligned.
__device__ __forceinline__ void store_eight(bf16* row, uint32_t col, uint32_t begin, uint32_t end, const uint32_t (&v)[4], bool whole) {
    if (whole) {
        if (col >= begin && col < end) *reinterpret_cast<uint4*>(row + col) = make_uint4(v[0], v[1], v[2], v[3]);
        return;
    }
#pragma unroll
    for (uint32_t i = 0; i < 8; i++) {
        const uint32_t word = v[i / 2] >> (i % 2 * 16);
        if (col + i >= begin && col + i < end) row[col + i] = __ushort_as_bfloat16(static_cast<unsigned short>(word));
    }
}
