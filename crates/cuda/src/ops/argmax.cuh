// Keys by which logits are compared across blocks and kernels: the greatest key is the likeliest token.
#pragma once
#include "common.cuh"

// Ascends with the logit; zeros of either sign are equal. Not for a NaN.
__device__ __forceinline__ uint32_t ordered(float logit) {
    const uint32_t bits = __float_as_uint(logit + 0.0f);
    return bits ^ (static_cast<int32_t>(bits) < 0 ? 0xffffffffu : 0x80000000u);
}

__device__ __forceinline__ float logit_of_ordered(uint32_t key) {
    return __uint_as_float(key ^ (static_cast<int32_t>(key) < 0 ? 0x80000000u : 0xffffffffu));
}

// Of equal logits the lower id is likelier. 0 is below every key.
__device__ __forceinline__ uint64_t key_of(float logit, uint32_t token) {
    return static_cast<uint64_t>(ordered(logit)) << 32 | (0xffffffffu - token);
}

__device__ __forceinline__ uint32_t token_of(uint64_t key) { return 0xffffffffu - static_cast<uint32_t>(key); }
__device__ __forceinline__ float logit_of(uint64_t key) { return logit_of_ordered(static_cast<uint32_t>(key >> 32)); }

// For whoever hands parts of an argmax to `sample_argmax`: a NaN is above everything, so that it cannot go unseen.
constexpr uint32_t NAN_KEY = 0xffffffffu;
__device__ __forceinline__ uint64_t argmax_key(float logit, uint32_t token) {
    return logit == logit ? key_of(logit, token) : static_cast<uint64_t>(NAN_KEY) << 32 | (0xffffffffu - token);
}
