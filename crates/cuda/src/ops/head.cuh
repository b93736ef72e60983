// One head of a query, key or value on its way into attention: norm, rotation, rounding to the type of the cache.
#pragma once
#include "common.cuh"
#include <cuda_fp8.h>

// Tokens of one block of the cache.
constexpr int BLOCK_TOKENS = 16;

// The types that keys and values are kept in.
struct Bf16Cache {
    static constexpr int BYTES = 2;
};
struct Fp8Cache {
    static constexpr int BYTES = 1;
};

// Cosine and sine of an angle in radians, to about one unit in the last place of float32. The multiple of pi/2 is taken
// away in three parts (each product is exact inside its fused multiply-add), in float64 where the angle is so large that
// the multiple could be off by one: a position of 131072 is reduced as well as position 1.
__device__ __forceinline__ float2 cos_sin(float angle) {
    float turns = rintf(angle * 0.636619772f);
    int quadrant;
    float r;
    if (fabsf(angle) < 1048576.0f) {
        r = fmaf(-turns, 0x1.921fb6p+0f, angle);
        r = fmaf(turns, 0x1.777a5cp-25f, r);
        r = fmaf(turns, 0x1.ee59dap-50f, r);
        quadrant = static_cast<int>(turns);
    } else {
        double exact = rint(static_cast<double>(angle) * 0.63661977236758134308);
        r = static_cast<float>(fma(-exact, 1.57079632679489661923, static_cast<double>(angle)));
        quadrant = static_cast<int>(static_cast<long long>(exact) & 3);
    }
    float s = r * r;
    float sine = fmaf(fmaf(fmaf(-1.9515296e-4f, s, 8.3321609e-3f), s, -1.6666655e-1f), s * r, r);
    float cosine = fmaf(fmaf(fmaf(2.4433157e-5f, s, -1.3887316e-3f), s, 4.1666646e-2f), s * s, fmaf(-0.5f, s, 1.0f));
    float c = (quadrant & 1) ? sine : cosine;
    float d = (quadrant & 1) ? cosine : sine;
    return make_float2((quadrant + 1) & 2 ? -c : c, quadrant & 2 ? -d : d);
}

// Row `i` of a rotation: cosine and sine of position * inv_freq[i], times the factor. The angle is rounded to float32, as
// the reference rounds it.
__device__ __forceinline__ float2 rotation(int position, float inv_freq, float factor) {
    float2 turn = cos_sin(__fmul_rn(static_cast<float>(position), inv_freq));
    return make_float2(turn.x * factor, turn.y * factor);
}

// Eight consecutive elements of one head, and the eight that the rotation pairs them with.
struct HeadVector {
    float own[8];
    float other[8];
};

__device__ __forceinline__ void load_bf16x8(float (&out)[8], const bf16* from) {
    uint4 raw = *reinterpret_cast<const uint4*>(from);
    const uint32_t words[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        float2 pair = unpack_bf16(words[i]);
        out[2 * i] = pair.x;
        out[2 * i + 1] = pair.y;
    }
}

// The element that element `e` is rotated with; beyond 2 * half there is none.
__device__ __forceinline__ int partner(int e, int half) { return e < half ? e + half : e - half; }

// Loads elements 8v .. 8v + 7 of the head at `head`, and their partners where `half` (half the rotated width) is not 0.
__device__ __forceinline__ void head_load(HeadVector& x, const bf16* head, int v, int half) {
    load_bf16x8(x.own, head + 8 * v);
    if (8 * v >= 2 * half) return;
    if (half % 8 == 0) {
        load_bf16x8(x.other, head + partner(8 * v, half));
        return;
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        int e = 8 * v + i;
        x.other[i] = e < 2 * half ? __bfloat162float(head[partner(e, half)]) : 0.0f;
    }
}

__device__ __forceinline__ float sum_of_squares(const float (&x)[8]) {
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < 8; ++i) sum = fmaf(x[i], x[i], sum);
    return sum;
}

// Norms (x * inverse * weight[e], where there is a weight) and rotates the elements 8v .. 8v + 7 in place.
// turns[i]: cosine and sine of pair i.
__device__ __forceinline__ void head_finish(HeadVector& x, int v, int half, float inverse, const float* weight,
                                            const float2* turns) {
    bool rotated = 8 * v < 2 * half;
    if (weight != nullptr) {
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            int e = 8 * v + i;
            x.own[i] = x.own[i] * inverse * weight[e];
            if (rotated && e < 2 * half) x.other[i] = x.other[i] * inverse * weight[partner(e, half)];
        }
    }
    if (!rotated) return;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        int e = 8 * v + i;
        if (e >= 2 * half) continue;
        float2 turn = turns[e < half ? e : e - half];
        float sine = e < half ? -turn.y : turn.y;
        x.own[i] = x.own[i] * turn.x + x.other[i] * sine;
    }
}

// Rounds eight values and stores them at `to` as the cache keeps them: 16 bytes of bf16, or 8 of e4m3 (saturating, after
// multiplication with the inverse of the scale).
template <class Cache>
__device__ __forceinline__ void store_cached(void* to, const float (&x)[8], float inverse_scale) {
    if constexpr (Cache::BYTES == 2) {
        *static_cast<uint4*>(to) = make_uint4(pack_bf16(x[0], x[1]), pack_bf16(x[2], x[3]), pack_bf16(x[4], x[5]),
                                              pack_bf16(x[6], x[7]));
    } else {
        uint32_t words[2];
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            uint32_t low = __nv_cvt_float2_to_fp8x2(make_float2(x[4 * i] * inverse_scale, x[4 * i + 1] * inverse_scale),
                                                    __NV_SATFINITE, __NV_E4M3);
            uint32_t high = __nv_cvt_float2_to_fp8x2(
                make_float2(x[4 * i + 2] * inverse_scale, x[4 * i + 3] * inverse_scale), __NV_SATFINITE, __NV_E4M3);
            words[i] = low | (high << 16);
        }
        *static_cast<uint2*>(to) = make_uint2(words[0], words[1]);
    }
}
