// convert.cu   to[i / run * pitch + i % run] = bf16(from[i])   for i < elements
// shapes    from f16 or f32 [elements], dense, as a checkpoint stores a weight (or a stretch of whole runs of it); to bf16, the
//           place of its first element in the arena: run == pitch for rows that lie one after another, pitch == 2 run for gate
//           and up, which lie in turn
// mapping   a thread converts 8 elements and goes on by the whole grid; 16-byte stores, 16-byte loads
// numerics  rounded to nearest, ties to even, once: the value that the host's conversion gives, but for the payload of a NaN
// bound     memory: elements * (2 or 4 read + 2 written); the link to the host, 55 GB/s, is far slower
// limits    elements, run, pitch % 8 == 0; both addresses aligned to 16 bytes; elements == 0 returns on the host
#include "placed.cuh"

struct ConvertParams {
    const void* from;
    bf16* to;
    uint64_t elements;
    uint64_t run;
    uint64_t pitch;
};
static_assert(sizeof(ConvertParams) == 40, "mirrored in convert.rs");

__device__ __forceinline__ void widen8(const float* from, float (&to)[8]) {
    const float4 low = reinterpret_cast<const float4*>(from)[0], high = reinterpret_cast<const float4*>(from)[1];
    to[0] = low.x, to[1] = low.y, to[2] = low.z, to[3] = low.w;
    to[4] = high.x, to[5] = high.y, to[6] = high.z, to[7] = high.w;
}

__device__ __forceinline__ void widen8(const __half* from, float (&to)[8]) {
    const uint4 packed = *reinterpret_cast<const uint4*>(from);
    const uint32_t words[4] = {packed.x, packed.y, packed.z, packed.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        to[2 * i] = __half2float(__ushort_as_half(static_cast<unsigned short>(words[i] & 0xffffu)));
        to[2 * i + 1] = __half2float(__ushort_as_half(static_cast<unsigned short>(words[i] >> 16)));
    }
}

template <typename T>
__device__ __forceinline__ void convert(const ConvertParams& p) {
    pdl_launch();
    pdl_wait();
    const uint64_t stride = 8ull * gridDim.x * blockDim.x;
    for (uint64_t i = 8ull * (static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x); i < p.elements; i += stride) {
        float values[8];
        widen8(static_cast<const T*>(p.from) + i, values);
        place8(p.to, i, p.run, p.pitch, values);
    }
}

#define CONVERT(name, type)                                                                                              \
    extern "C" __global__ void __launch_bounds__(256) convert_##name(const __grid_constant__ ConvertParams p) {            \
        convert<type>(p);                                                                                                 \
    }

CONVERT(f16, __half)
CONVERT(f32, float)
