// embed.cu   h[t] = table[token[t]] * scale, or the row given for t; and what the first product reads of it
// shapes    tokens i32 [T]: an id, or -1 - o: what output o of the step before sampled (sampled i32 [outputs], on the device);
//           table bf16 [vocab, hidden]; given_rows i32 [T] (null: none): row of `given` f32 [n, hidden], or -1: look it up;
//           h f32 [T, hidden]; x bf16 [T, hidden]; weight f32 [hidden]; partials f32, one per row at partials[t * stride]
// mapping   one block per row, 8 elements a thread (16 from 8192 on); 256 bytes of shared memory
// numerics  the product by the scale in f32; the sum of squares in an order that depends on `hidden` alone (batch-invariant).
//           A token outside the vocabulary reads row 0: only a sample of a failed row can be one, and what follows is discarded
// bound     memory: T * hidden * (2 read + 4 + 2 written) bytes
// limits    hidden % 8 == 0, hidden <= 16384; T == 0 returns on the host; padding rows hold token 0
#include "rows.cuh"

struct EmbedParams {
    const int32_t* tokens;
    const int32_t* sampled;
    const bf16* table;
    const int32_t* given_rows;
    const float* given;
    float* h;
    const float* weight;
    bf16* x;
    float* partials;
    uint32_t hidden;
    uint32_t vocab;
    uint32_t sampled_rows;
    uint32_t partial_stride;
    float scale;
    float eps;
};
static_assert(sizeof(EmbedParams) == 96, "mirrored in embed.rs");

__device__ __forceinline__ int32_t resolve_token(const EmbedParams& p, uint32_t row) {
    int32_t token = p.tokens[row];
    if (token < 0) {
        const uint32_t output = static_cast<uint32_t>(-1 - token);
        token = output < p.sampled_rows ? p.sampled[output] : 0;
    }
    return static_cast<uint32_t>(token) < p.vocab ? token : 0;
}

template <Handover OUT, int STRETCHES>
__device__ __forceinline__ void embed(const EmbedParams& p) {
    __shared__ float scratch[32];
    pdl_launch();
    Row<STRETCHES> weight;
    if constexpr (reads_weight(OUT)) load_row(p.weight, p.hidden, weight);
    pdl_wait();
    const uint64_t row = blockIdx.x;
    const int32_t given = p.given_rows == nullptr ? -1 : p.given_rows[row];
    Row<STRETCHES> h;
    if (given >= 0) {
        load_row(p.given + static_cast<uint64_t>(given) * p.hidden, p.hidden, h);
    } else {
        load_row(p.table + static_cast<uint64_t>(resolve_token(p, row)) * p.hidden, p.hidden, h);
#pragma unroll
        for (int s = 0; s < STRETCHES; ++s) {
#pragma unroll
            for (int i = 0; i < 8; ++i) h.v[s][i] *= p.scale;
        }
    }
    store_row(p.h + row * p.hidden, p.hidden, h);
    hand_over<OUT>(h, weight, p.hidden, p.eps, p.x + row * p.hidden, p.partials + row * p.partial_stride, scratch);
}

#define EMBED(name, out)                                                                                                  \
    extern "C" __global__ void __launch_bounds__(1024) embed_##name(const __grid_constant__ EmbedParams p) {               \
        embed<Handover::out, 1>(p);                                                                                        \
    }                                                                                                                      \
    extern "C" __global__ void __launch_bounds__(1024) embed_##name##_wide(const __grid_constant__ EmbedParams p) {        \
        embed<Handover::out, 2>(p);                                                                                        \
    }

EMBED(nothing, Nothing)
EMBED(plain, Plain)
EMBED(normed, Normed)
EMBED(gained, Gained)
