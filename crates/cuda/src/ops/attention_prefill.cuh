// What both kernels of prefill attention share: parameters, the tile record, softmax of scores in registers.
//
// A tile is a few consecutive tokens of one run times a few query heads that share a key head. Row r of a tile is token
// r / heads, head r % heads. Keys are taken in tiles whose grid starts at the sequence's token 0, last tile first, and a tile
// of keys that a row sees nothing of changes no bit of its state: so a row's result depends on its own tokens alone,
// not on the rows beside it nor on how a prompt was cut into chunks. (Hopper's may be told to split a tile's keys; then the
// order of sums depends on where.)
#pragma once
#include "common.cuh"

namespace attention_prefill {

constexpr int BLOCK_SIZE = 16;

// Mirrored by `Tile` in attention_prefill/plan.rs.
struct __align__(16) Tile {
    int32_t row;       // row of its first token in q and out
    int32_t position;  // that token's place in its sequence
    int32_t sequence;  // which of the block tables
    uint32_t packed;   // first query head (16 bits), tokens (8), heads (8: all of one group)
    int32_t first;     // first keys of the first and the last tile of keys that it goes through
    int32_t last;
    uint32_t slot;     // place of this part's result; the parts of a split tile have one after the other
    uint32_t split;    // which part this is (16 bits), of how many (16 bits)

    __device__ __forceinline__ int head() const { return packed & 0xffff; }
    __device__ __forceinline__ int tokens() const { return packed >> 16 & 0xff; }
    __device__ __forceinline__ int heads() const { return packed >> 24; }
    __device__ __forceinline__ uint32_t part() const { return split & 0xffff; }
    __device__ __forceinline__ uint32_t parts() const { return split >> 16; }
};
static_assert(sizeof(Tile) == 32);

// Row of a tile to token and head.
struct Rows {
    uint32_t heads, inverse, count;
    __device__ __forceinline__ explicit Rows(const Tile& tile)
        : heads(tile.heads()), inverse(65536 / tile.heads() + 1), count(tile.tokens() * tile.heads()) {}
    __device__ __forceinline__ int token(uint32_t row) const { return row * inverse >> 16; }  // exact: row < 256
    __device__ __forceinline__ int head(uint32_t row) const { return row - token(row) * heads; }
    __device__ __forceinline__ bool has(uint32_t row) const { return row < count; }
};

// Mirrored by `Params` in attention_prefill.rs.
struct Params {
    const bf16* q;            // row i at q + i * q_stride: [heads][head_dim]
    const void* kv;           // [block][K, V][kv_head][16][head_dim]
    const int32_t* tables;    // physical blocks, one sequence's after the other
    const int32_t* starts;    // by sequence: where its table begins in `tables`
    const int32_t* firsts;    // by sequence: logical index of its table's first block
    const Tile* tiles;        // the work
    const int32_t* shares;    // [grid + 1]: block b works off tiles shares[b]..shares[b + 1]; portable kernel: unused
    bf16* out;                // row i at out + i * out_stride: [heads][head_dim]
    float4* partials;         // results of parts, see `Parts`; portable kernel: unused
    uint32_t* arrivals;       // [slot][warp]: parts of a split tile that are there, counted at its first slot; 0 between launches
    int64_t q_stride;         // elements
    int64_t out_stride;       // elements
    int64_t block_stride;     // elements from cache block to cache block
    int32_t heads_per_group;  // query heads that share a key head
    int32_t kv_heads;
    int32_t head_dim;
    int32_t window;           // tokens that a token sees, itself included; INT32_MAX: all
    float scale;              // weight of a score in the exponent of two (softcap: of its tanh)
    float softcap;            // 0: none; else tanh(x) is taken of the score times softcap / (2 log2 e)
    float out_scale;          // multiplies the result
    int32_t unused;

    // The sequence's block table, shifted: logical block b is table[b].
    __device__ __forceinline__ const int32_t* table(int sequence) const {
        return tables + starts[sequence] - firsts[sequence];
    }
};
static_assert(sizeof(Params) == 136);

__device__ __forceinline__ float exp2_fast(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// tanh by one exponential and one reciprocal: absolute error about 2e-7, which the cap multiplies. `x` comes times 2 log2 e.
__device__ __forceinline__ float tanh_of_scaled(float x) {
    float r;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(1.0f + exp2_fast(x)));
    return fmaf(-2.0f, r, 1.0f);
}

// Four e4m3 values to bf16, exactly. As bits shifted into place they are 2^120 too small; NaN stays NaN.
__device__ __forceinline__ uint2 widen4(uint32_t raw) {
    uint32_t out[2] = {__byte_perm(raw, 0, 0x1404), __byte_perm(raw, 0, 0x3424)};
    const bool has_nan = ((raw & 0x7f7f7f7f) + 0x01010101) & 0x80808080;
    const __nv_bfloat162 up = __halves2bfloat162(__ushort_as_bfloat16(0x7b80), __ushort_as_bfloat16(0x7b80));
#pragma unroll
    for (int i = 0; i < 2; i++) {
        uint32_t bits = (out[i] >> 4 & 0x07f007f0) | (out[i] & 0x80008000);
        if (has_nan) {
            if ((bits & 0x07f0) == 0x07f0) bits |= 0x7ff0;
            if ((bits & 0x07f00000) == 0x07f00000) bits |= 0x7ff00000;
        }
        __nv_bfloat162 wide = __hmul2(*reinterpret_cast<__nv_bfloat162*>(&bits), up);
        out[i] = *reinterpret_cast<uint32_t*>(&wide);
    }
    return make_uint2(out[0], out[1]);
}

__device__ __forceinline__ float quad_max(float x) {
    x = fmaxf(x, __shfl_xor_sync(~0u, x, 1));
    return fmaxf(x, __shfl_xor_sync(~0u, x, 2));
}

__device__ __forceinline__ float quad_sum(float x) {
    x += __shfl_xor_sync(~0u, x, 1);
    return x + __shfl_xor_sync(~0u, x, 2);
}

// Running softmax of the two rows (g and g + 8 of a 16-row slab) that a thread holds of an mma accumulator tile.
struct Softmax {
    float top[2];  // highest score so far times scale; -inf before the first visible key
    float sum[2];  // this thread's share of the sum of exponentials

    __device__ __forceinline__ void reset() {
        top[0] = top[1] = -INFINITY;
        sum[0] = sum[1] = 0.0f;
    }

    // s: COLUMNS / 8 groups of {row g: 2 columns, row g + 8: 2 columns}. Scores become exponentials; gives the factors by
    // which what was summed so far shrinks. Masked scores are -inf. Both factors use the same rounded product
    // score * scale, so nothing is lost between tiles however large scores are.
    template <int GROUPS>
    __device__ __forceinline__ void update(float (&s)[GROUPS][4], float scale, float (&shrink)[2]) {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float high = fmaxf(s[0][2 * half], s[0][2 * half + 1]);
#pragma unroll
            for (int j = 1; j < GROUPS; j++) {
                high = fmaxf(high, fmaxf(s[j][2 * half], s[j][2 * half + 1]));
            }
            float reached = fmaxf(top[half], quad_max(high) * scale);
            float base = reached == -INFINITY ? 0.0f : reached;
            shrink[half] = exp2_fast(top[half] - base);
            top[half] = reached;
            float total = 0.0f;
#pragma unroll
            for (int j = 0; j < GROUPS; j++) {
                s[j][2 * half] = exp2_fast(fmaf(s[j][2 * half], scale, -base));
                s[j][2 * half + 1] = exp2_fast(fmaf(s[j][2 * half + 1], scale, -base));
                total += s[j][2 * half] + s[j][2 * half + 1];
            }
            sum[half] = fmaf(sum[half], shrink[half], total);
        }
    }
};

// Scores of keys outside first[half]..=last[half] become -inf. `key`: the key of s[0][0].
template <int GROUPS>
__device__ __forceinline__ void mask(float (&s)[GROUPS][4], int key, const int (&first)[2], const int (&last)[2]) {
#pragma unroll
    for (int j = 0; j < GROUPS; j++) {
#pragma unroll
        for (int e = 0; e < 4; e++) {
            int k = key + 8 * j + (e & 1);
            if (k > last[e >> 1] || k < first[e >> 1]) s[j][e] = -INFINITY;
        }
    }
}

template <int GROUPS>
__device__ __forceinline__ void cap_scores(float (&s)[GROUPS][4], float softcap) {
#pragma unroll
    for (int j = 0; j < GROUPS; j++) {
#pragma unroll
        for (int e = 0; e < 4; e++) s[j][e] = tanh_of_scaled(s[j][e] * softcap);
    }
}

}  // namespace attention_prefill
