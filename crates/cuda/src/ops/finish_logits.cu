// finish_logits.cu   l = softcap(l * scale), in place; softcap(x) = cap * tanh(x / cap), absent where cap == 0
// shapes    logits f32 [R, V], row stride in elements; `rows` (u32, on the device) says how many of the launched rows are real
// mapping   grid (V / 4 / 256, R), 4 elements a thread
// numerics  f32; a NaN stays one
// bound     memory, mostly the second-level cache: R * V * 8 bytes
// limits    stride % 4 == 0; columns from V to the stride may be changed
#include "common.cuh"

struct FinishLogitsParams {
    float* logits;
    const uint32_t* rows;
    uint64_t stride;
    uint32_t vocab;
    float scale;
    float cap;
    uint32_t unused;
};
static_assert(sizeof(FinishLogitsParams) == 40, "mirrored in finish_logits.rs");

__device__ __forceinline__ float finish_logit(float logit, float scale, float cap) {
    const float scaled = logit * scale;
    return cap == 0.0f ? scaled : cap * tanhf(scaled / cap);
}

extern "C" __global__ void __launch_bounds__(256) finish_logits(const __grid_constant__ FinishLogitsParams p) {
    pdl_launch();
    pdl_wait();
    const uint32_t column = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
    if (blockIdx.y >= *p.rows || column >= p.vocab) return;
    float4* place = reinterpret_cast<float4*>(p.logits + blockIdx.y * p.stride + column);
    float4 value = *place;
    value.x = finish_logit(value.x, p.scale, p.cap);
    value.y = finish_logit(value.y, p.scale, p.cap);
    value.z = finish_logit(value.z, p.scale, p.cap);
    value.w = finish_logit(value.w, p.scale, p.cap);
    *place = value;
}
