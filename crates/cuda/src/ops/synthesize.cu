// synthesize.cu   to[j / run * pitch + j % run] = bf16(stored(standard(seed, first + j) * std + mean))   for j < elements
//                 standard(seed, i) = (sum of the four 16-bit parts of mix(seed + i * 0x9e3779b97f4a7c15) - 131070) / 37837.227
// shapes    to bf16, the place of element `first` in the arena (see convert.cu for run and pitch); `stored` is the element type
//           of the checkpoint that the values stand in for: bf16, f16 or f32
// mapping   a thread makes 8 elements and goes on by the whole grid; 16-byte stores
// numerics  bit for bit what the host's generator gives: integers up to the last division, product and sum, each rounded once
//           (no fused multiply-add), then rounded to `stored`, then to bf16
// bound     about 60 integer and float instructions an element: 8e9 elements in 15 to 20 ms on an H200; written 2 bytes each, 4 ms
// limits    elements, run, pitch % 8 == 0; `to` aligned to 16 bytes; elements == 0 returns on the host
#include "placed.cuh"

struct SynthesizeParams {
    bf16* to;
    uint64_t seed;
    uint64_t first;
    uint64_t elements;
    uint64_t run;
    uint64_t pitch;
    float std;
    float mean;
};
static_assert(sizeof(SynthesizeParams) == 56, "mirrored in synthesize.rs");

__device__ __forceinline__ uint64_t mix(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

__device__ __forceinline__ float standard(uint64_t seed, uint64_t index) {
    const uint64_t bits = mix(seed + index * 0x9e3779b97f4a7c15ull);
    const uint32_t low = static_cast<uint32_t>(bits), high = static_cast<uint32_t>(bits >> 32);
    const int sum = static_cast<int>((low & 0xffffu) + (low >> 16) + (high & 0xffffu) + (high >> 16));
    return __fdiv_rn(static_cast<float>(sum - 2 * 65535), 37837.227f);
}

// The value that is left of `value` after it was stored as T.
template <typename T>
__device__ __forceinline__ float stored(float value);
template <>
__device__ __forceinline__ float stored<float>(float value) {
    return value;
}
template <>
__device__ __forceinline__ float stored<__half>(float value) {
    return __half2float(__float2half_rn(value));
}

template <typename T>
__device__ __forceinline__ void synthesize(const SynthesizeParams& p) {
    pdl_launch();
    pdl_wait();
    const uint64_t stride = 8ull * gridDim.x * blockDim.x;
    for (uint64_t i = 8ull * (static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x); i < p.elements; i += stride) {
        float values[8];
#pragma unroll
        for (int j = 0; j < 8; ++j) {
            const float value = standard(p.seed, p.first + i + j);
            values[j] = stored<T>(__fadd_rn(__fmul_rn(value, p.std), p.mean));
        }
        place8(p.to, i, p.run, p.pitch, values);
    }
}

// Stored as bf16 is rounded once, by the store itself: the f32 wrapper serves.
#define SYNTHESIZE(name, type)                                                                                           \
    extern "C" __global__ void __launch_bounds__(256) synthesize_##name(const __grid_constant__ SynthesizeParams p) {      \
        synthesize<type>(p);                                                                                              \
    }

SYNTHESIZE(f16, __half)
SYNTHESIZE(f32, float)
