// residual_norm.cu   h = h + scale * post_norm(y); then what the next product reads of h
// shapes    h f32 [T, hidden], changed in place; y bf16 [T, hidden]; weights f32 [hidden] (offsets already added);
//           x bf16 [T, hidden]; partials f32, one sum of squares per row at partials[t * stride]
// variants  _post: y is normed before it is added; nothing / plain / normed / gained: see `Handover` in rows.cuh
// mapping   one block per row, 8 elements a thread (16 from 8192 on); 256 bytes of shared memory. The weights are requested before
//           the kernel before this one has ended
// numerics  f32; sums in an order that depends on `hidden` alone (batch-invariant); scale and addition round one after the other
// bound     memory: T * hidden * (4 + 2 read, 4 + 2 written) bytes; H200: 8000 x 4096: 393 MB, floor 84 us
// limits    hidden % 8 == 0, hidden <= 16384; T == 0 returns on the host
#include "rows.cuh"

struct ResidualNormParams {
    float* h;
    const bf16* y;
    const float* post_weight;
    const float* weight;
    bf16* x;
    float* partials;
    uint32_t hidden;
    uint32_t partial_stride;
    float scale;
    float post_eps;
    float eps;
    uint32_t unused;
};
static_assert(sizeof(ResidualNormParams) == 72, "mirrored in residual_norm.rs");

template <bool POST, Handover OUT, int STRETCHES>
__device__ __forceinline__ void residual_norm(const ResidualNormParams& p) {
    __shared__ float post_scratch[32], scratch[32];
    // Two stretches of four rows would not fit in the registers: there the weights are loaded when they are needed.
    constexpr bool EARLY = STRETCHES == 1;
    pdl_launch();
    const uint64_t offset = static_cast<uint64_t>(blockIdx.x) * p.hidden;
    Row<STRETCHES> post_weight, weight;
    if constexpr (EARLY && POST) load_row(p.post_weight, p.hidden, post_weight);
    if constexpr (EARLY && reads_weight(OUT)) load_row(p.weight, p.hidden, weight);
    pdl_wait();
    Row<STRETCHES> y, h;
    load_row(p.y + offset, p.hidden, y);
    load_row(p.h + offset, p.hidden, h);
    if constexpr (POST) {
        if constexpr (!EARLY) load_row(p.post_weight, p.hidden, post_weight);
        norm_row(y, post_weight, p.hidden, p.post_eps, post_scratch);
    }
#pragma unroll
    for (int s = 0; s < STRETCHES; ++s) {
#pragma unroll
        for (int i = 0; i < 8; ++i) h.v[s][i] = __fadd_rn(h.v[s][i], __fmul_rn(p.scale, y.v[s][i]));
    }
    store_row(p.h + offset, p.hidden, h);
    if constexpr (!EARLY && reads_weight(OUT)) load_row(p.weight, p.hidden, weight);
    hand_over<OUT>(h, weight, p.hidden, p.eps, p.x + offset,
                   p.partials + static_cast<uint64_t>(blockIdx.x) * p.partial_stride, scratch);
}

#define RESIDUAL_NORM_ONE(name, post, out, stretches)                                                                   \
    extern "C" __global__ void __launch_bounds__(1024) residual_norm_##name(const __grid_constant__ ResidualNormParams p) { \
        residual_norm<post, Handover::out, stretches>(p);                                                                  \
    }
#define RESIDUAL_NORM(name, out)                          \
    RESIDUAL_NORM_ONE(name, false, out, 1)                \
    RESIDUAL_NORM_ONE(name##_wide, false, out, 2)         \
    RESIDUAL_NORM_ONE(name##_post, true, out, 1)          \
    RESIDUAL_NORM_ONE(name##_post_wide, true, out, 2)

RESIDUAL_NORM(nothing, Nothing)
RESIDUAL_NORM(plain, Plain)
RESIDUAL_NORM(normed, Normed)
RESIDUAL_NORM(gained, Gained)
