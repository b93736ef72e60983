// A row of a matrix held in the registers of one block, and what is made of it on the way to a product.
//
// Thread t holds elements 8 (t + s blockDim) .. + 8 of each stretch s: 16-byte accesses, and a sum whose order depends on the
// row's length alone, never on how many rows there are.
#pragma once
#include "common.cuh"

// What a row of the residual stream hands to the next product. Mirrors `Handover` in rows.rs.
enum class Handover {
    Nothing,  // nothing: only h is kept
    Plain,    // x = bf16(h)
    Normed,   // x = bf16(rms_norm(h))
    Gained,   // x = bf16(h * g), and the sum of squares for a product that norms on its way out
};

template <int STRETCHES>
struct Row {
    float v[STRETCHES][8];
};

__device__ __forceinline__ uint32_t row_column(int stretch) { return 8 * (threadIdx.x + stretch * blockDim.x); }

__device__ __forceinline__ void load8(const float* from, float (&to)[8]) {
    const float4 low = reinterpret_cast<const float4*>(from)[0], high = reinterpret_cast<const float4*>(from)[1];
    to[0] = low.x, to[1] = low.y, to[2] = low.z, to[3] = low.w;
    to[4] = high.x, to[5] = high.y, to[6] = high.z, to[7] = high.w;
}

__device__ __forceinline__ void load8(const bf16* from, float (&to)[8]) {
    const uint4 packed = *reinterpret_cast<const uint4*>(from);
    const uint32_t words[4] = {packed.x, packed.y, packed.z, packed.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const float2 pair = unpack_bf16(words[i]);
        to[2 * i] = pair.x, to[2 * i + 1] = pair.y;
    }
}

__device__ __forceinline__ void store8(float* to, const float (&from)[8]) {
    reinterpret_cast<float4*>(to)[0] = make_float4(from[0], from[1], from[2], from[3]);
    reinterpret_cast<float4*>(to)[1] = make_float4(from[4], from[5], from[6], from[7]);
}

__device__ __forceinline__ void store8(bf16* to, const float (&from)[8]) {
    *reinterpret_cast<uint4*>(to) = make_uint4(pack_bf16(from[0], from[1]), pack_bf16(from[2], from[3]),
                                               pack_bf16(from[4], from[5]), pack_bf16(from[6], from[7]));
}

// Elements beyond the row become 0, so that sums need no condition.
template <int STRETCHES, typename T>
__device__ __forceinline__ void load_row(const T* from, uint32_t length, Row<STRETCHES>& row) {
#pragma unroll
    for (int s = 0; s < STRETCHES; ++s) {
        if (row_column(s) < length) {
            load8(from + row_column(s), row.v[s]);
        } else {
#pragma unroll
            for (int i = 0; i < 8; ++i) row.v[s][i] = 0.0f;
        }
    }
}

template <int STRETCHES, typename T>
__device__ __forceinline__ void store_row(T* to, uint32_t length, const Row<STRETCHES>& row) {
#pragma unroll
    for (int s = 0; s < STRETCHES; ++s) {
        if (row_column(s) < length) store8(to + row_column(s), row.v[s]);
    }
}

// The sum over all threads of the block, the same bits in each. `scratch` is used by one call only.
__device__ __forceinline__ float block_sum(float value, float (&scratch)[32]) {
    value = warp_sum(value);
    if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = value;
    __syncthreads();
    return warp_sum(threadIdx.x % 32 < blockDim.x / 32 ? scratch[threadIdx.x % 32] : 0.0f);
}

template <int STRETCHES>
__device__ __forceinline__ float sum_of_squares(const Row<STRETCHES>& row, float (&scratch)[32]) {
    float sum = 0.0f;
#pragma unroll
    for (int s = 0; s < STRETCHES; ++s) {
#pragma unroll
        for (int i = 0; i < 8; ++i) sum = fmaf(row.v[s][i], row.v[s][i], sum);
    }
    return block_sum(sum, scratch);
}

// row = row * rsqrt(mean(row^2) + eps) * weight
template <int STRETCHES>
__device__ __forceinline__ void norm_row(Row<STRETCHES>& row, const Row<STRETCHES>& weight, uint32_t length, float eps,
                                         float (&scratch)[32]) {
    const float inverse = 1.0f / sqrtf(sum_of_squares(row, scratch) / static_cast<float>(length) + eps);
#pragma unroll
    for (int s = 0; s < STRETCHES; ++s) {
#pragma unroll
        for (int i = 0; i < 8; ++i) row.v[s][i] = row.v[s][i] * inverse * weight.v[s][i];
    }
}

// Writes what the next product reads of a row of the residual stream. `weight` holds the norm's weight where one is needed.
template <Handover OUT, int STRETCHES>
__device__ __forceinline__ void hand_over(Row<STRETCHES>& row, const Row<STRETCHES>& weight, uint32_t length, float eps,
                                          bf16* x, float* partial, float (&scratch)[32]) {
    if constexpr (OUT == Handover::Nothing) return;
    if constexpr (OUT == Handover::Normed) norm_row(row, weight, length, eps, scratch);
    if constexpr (OUT == Handover::Gained) {
        const float sum = sum_of_squares(row, scratch);
        if (threadIdx.x == 0) *partial = sum;
#pragma unroll
        for (int s = 0; s < STRETCHES; ++s) {
#pragma unroll
            for (int i = 0; i < 8; ++i) row.v[s][i] *= weight.v[s][i];
        }
    }
    store_row(x, length, row);
}

__host__ __device__ constexpr bool reads_weight(Handover out) { return out == Handover::Normed || out == Handover::Gained; }
