// What the matrix products share: what becomes of a tile's sums.
#pragma once
#include "common.cuh"

enum Epilogue {
    STORE_BF16,
    STORE_F32,
    GATE_UP, // act(gate) * up in bf16, of rows of w interleaved in groups of 8
    ADD_F32, // y += sum
};

// 0: silu, 1: gelu by tanh, 2: gelu by erf.
__device__ __forceinline__ float activate(float v, uint32_t kind) {
    if (kind == 0) return v / (1.0f + __expf(-v));
    if (kind == 2) return 0.5f * v * (1.0f + erff(v * 0.70710678118654752f));
    const float inner = 0.7978845608028654f * (v + 0.044715f * v * v * v);
    return 0.5f * v * (1.0f + tanhf(inner));
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
template <bool ADD>
__device__ __forceinline__ void store_pair(float* y, uint64_t row_start, uint32_t col, uint32_t n, float a, float b) {
    float* at = y + row_start + col;
    if (n % 2 == 0) {
        if (col >= n) return;
        float2 v = make_float2(a, b);
        if (ADD) {
            const float2 old = *reinterpret_cast<const float2*>(at);
            v = make_float2(old.x + a, old.y + b);
        }
        *reinterpret_cast<float2*>(at) = v;
        return;
    }
    if (col < n) at[0] = ADD ? at[0] + a : a;
    if (col + 1 < n) at[1] = ADD ? at[1] + b : b;
}
