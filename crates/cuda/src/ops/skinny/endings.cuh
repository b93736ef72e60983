// What every skinny product shares: its parameters, the sums that wait in shared memory, and the four endings.
#pragma once
#include "../common.cuh"

struct alignas(64) TensorMapParam {
    uint64_t opaque[16];
};

// Mirrored by `Params` in skinny.rs.
struct alignas(64) SkinnyParams {
    TensorMapParam weight_map;  // [n, k] bf16, boxes of 64 x tile_rows, or 64 x tile_rows x slabs when weight_3d
    TensorMapParam next_map;    // the next product's W, when next_count > 0
    TensorMapParam x_map;       // [m, k] bf16, boxes of 64 x NB (x slabs)
    uint64_t weight, x;         // the same operands by address (the portable kernel reads them so)
    uint64_t x_stride;          // elements
    uint64_t bias;              // f32 [n] or 0
    uint64_t row_partials;      // f32 [m, row_partials_stride] or 0: the sums of squares that make the row's norm
    uint64_t out;               // bf16 y | bf16 activation | f32 logits
    uint64_t out_stride;        // elements
    uint64_t h;                 // f32 residual stream, in and out
    uint64_t h_stride;          // elements
    uint64_t x_next;            // bf16 or 0: h * gain, the next product's x
    uint64_t x_next_stride;     // elements
    uint64_t gain;              // f32 [n]
    uint64_t partials_out;      // f32 [m, partials_out_stride] or 0
    uint64_t best_value;        // f32 [m, blocks] or 0
    uint64_t best_index;        // u32 [m, blocks]
    uint32_t m, n, k;
    uint32_t tile_rows;       // rows of W of one tile, a multiple of 8 (wgmma: of 64)
    uint32_t split;           // blocks of a cluster that share a tile, each with its part of K
    uint32_t row_groups;      // units (warps or warpgroups) that share the tile's rows
    uint32_t k_groups;        // units that share the slabs of a stage
    uint32_t slabs;           // slabs (64 elements of K) in a stage; a multiple of k_groups
    uint32_t stages;          // <= SKINNY_MAX_STAGES
    uint32_t l2_ahead;        // stages asked into L2 behind those asked into shared memory, before the wait
    uint32_t sums_offset;     // where the partial sums wait, bytes from the aligned start of dynamic shared memory
    uint32_t flags;           // SKINNY_*
    uint32_t row_partials_count, row_partials_stride;
    uint32_t partials_out_stride;
    uint32_t activation;      // 0 silu, 1 gelu by tanh, 2 gelu by erf
    float inverse_width, epsilon;
    float residual_scale, logit_scale, softcap;  // softcap 0: none
    uint32_t x_rows;          // rows of x in shared memory: m, or NB for wgmma
    uint32_t x_pitch;         // bytes between two slabs of x
    uint32_t stage_bytes;     // of W and x, a multiple of 1024
    uint32_t trigger_lead;    // rounds before the last one at which the next kernel may start; SKINNY_AT_ONCE: at the start
#ifdef SKINNY_TRACE
    uint64_t padding_trace;
#endif
    // What the next product's blocks will want after what they ask for by themselves: brought into L2 while this one ends.
    uint32_t next_blocks, next_split, next_tile_rows, next_slabs;
    uint32_t next_each;       // slabs of K of each block
    uint32_t next_first;      // slabs that they have asked for themselves
    uint32_t next_count;      // copies of next_slabs slabs
};
#ifndef SKINNY_TRACE
static_assert(sizeof(SkinnyParams) == 640, "mirrored in skinny.rs");
#endif

constexpr int SKINNY_MAX_STAGES = 16;
constexpr uint32_t SKINNY_BOXES_3D = 1;    // one copy brings all slabs of a stage (k % 64 == 0)
constexpr uint32_t SKINNY_SUMS_ALIAS = 2;  // the sums lie over the stages: nobody writes them before all have read
constexpr uint32_t SKINNY_DEFER = 4;       // a stage of wgmma is given back one round later
constexpr uint32_t SKINNY_AT_ONCE = 0xffffffffu;
constexpr int SLAB = 64;                   // elements of K in a row of a slab: 128 bytes, the span of the swizzle

enum Ending { PLAIN = 0, RESIDUAL = 1, GATE_UP = 2, LOGITS = 3 };

// --- one warp's part of a slab on the tensor cores of sm_80 ---

// Rows of 128 bytes; the 16-byte piece `piece` of the row at `row` lies where the 128-byte swizzle puts it.
__device__ __forceinline__ uint32_t swizzled(uint32_t row, uint32_t piece) {
    return row + ((piece ^ (row >> 7 & 7)) << 4);
}

// acc[16 rows of W x NB tokens] += W[16, 64] * x[NB, 64]^T; fragments as mma.m16n8k16 has them. Tokens that are not there repeat
// the last one.
template <int NB>
__device__ __forceinline__ void slab_mma(float (&acc)[NB / 2], uint32_t weight_slab, uint32_t x_slab, uint32_t first_row,
                                         uint32_t tile_rows, uint32_t x_rows, uint32_t lane) {
    uint32_t row = first_row + (lane & 15);
    if (row >= tile_rows) row -= 8;  // a tile of 8, 24, 40 ... rows: the last half unit reads its rows twice
    uint32_t weights = weight_slab + row * 128;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        uint32_t a0[4], a1[4];
        ldmatrix_x4(a0, swizzled(weights, half * 4 + (lane >> 4)));
        ldmatrix_x4(a1, swizzled(weights, half * 4 + 2 + (lane >> 4)));
#pragma unroll
        for (int j = 0; j < NB / 8; ++j) {
            uint32_t b[4];
            uint32_t token = min(j * 8 + (lane & 7), x_rows - 1);
            ldmatrix_x4(b, swizzled(x_slab + token * 128, half * 4 + (lane >> 3)));
            float(&d)[4] = *reinterpret_cast<float(*)[4]>(&acc[j * 4]);
            mma_16816(d, a0, b[0], b[1]);
            mma_16816(d, a1, b[2], b[3]);
        }
    }
}

// How the multiplying warps of a block are grouped.
struct Units {
    uint32_t row_group, k_group;  // of this warp's unit
    uint32_t first_row;           // of this warp's 16 rows in the tile
};

template <bool WGMMA>
__device__ __forceinline__ Units units_of(const SkinnyParams& p, uint32_t warp) {
    uint32_t unit = WGMMA ? warp / 4 : warp;
    Units u;
    u.row_group = unit % p.row_groups;
    u.k_group = unit / p.row_groups;
    u.first_row = WGMMA ? u.row_group * 64 + warp % 4 * 16 : u.row_group * 16;
    return u;
}

// --- the endings ---

// Floats between two rows of W in the waiting sums: even for 8-byte stores, 2 mod 32 against bank conflicts.
template <int NB>
__host__ __device__ constexpr uint32_t sums_stride() {
    return NB + 2;
}

// Puts this warp's sums into this block's shared memory, where the finishing warps will find them.
template <int NB>
__device__ __forceinline__ void keep_sums(uint32_t sums, uint32_t source, const Units& u, const float (&acc)[NB / 2],
                                          uint32_t rows, uint32_t tile_rows, uint32_t lane) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        uint32_t row = u.first_row + half * 8 + lane / 4;
        if (row >= tile_rows) continue;
        uint32_t at = sums + ((source * rows + row) * sums_stride<NB>() + lane % 4 * 2) * 4;
#pragma unroll
        for (int j = 0; j < NB / 8; ++j)
            asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(at + j * 32), "f"(acc[j * 4 + half * 2]),
                         "f"(acc[j * 4 + half * 2 + 1])
                         : "memory");
    }
}

// What a block knows when it finishes its rows.
struct Finish {
    const float* sums;       // [sources][rows][sums_stride] f32
    const float* row_scale;  // [m]
    uint32_t sources;        // partial sums of each value
    uint32_t rows;           // rows of W that this block finishes
    uint32_t first_row;      // the first of them
    uint32_t warp, warps, lane;
};

// The product at (row of this block, token): its partial sums in the order of their sources.
template <int NB>
__device__ __forceinline__ float gathered(const Finish& f, uint32_t row, uint32_t token) {
    const float* at = f.sums + row * sums_stride<NB>() + token;
    uint32_t step = f.rows * sums_stride<NB>();
    float sum = 0.f;
#pragma unroll 4
    for (uint32_t source = 0; source < f.sources; ++source) sum += at[source * step];
    return sum * f.row_scale[token];
}

__device__ __forceinline__ float bias_at(const SkinnyParams& p, uint32_t row) {
    return p.bias ? __ldg(reinterpret_cast<const float*>(p.bias) + row) : 0.f;
}

__device__ __forceinline__ float activated(float gate, uint32_t activation) {
    if (activation == 0) return gate / (1.f + __expf(-gate));
    if (activation == 1) {
        float inner = 0.7978845608028654f * (gate + 0.044715f * gate * gate * gate);
        return 0.5f * gate * (1.f + tanhf(inner));
    }
    return 0.5f * gate * (1.f + erff(gate * 0.7071067811865476f));
}

// y = acc * row_scale + bias; warps take (token, 32 rows).
template <int NB>
__device__ __forceinline__ void finish_plain(const SkinnyParams& p, const Finish& f) {
    uint32_t chunks = (f.rows + 31) / 32;
#pragma unroll 4
    for (uint32_t unit = f.warp; unit < p.m * chunks; unit += f.warps) {
        uint32_t token = unit / chunks, row = unit % chunks * 32 + f.lane;
        if (row >= f.rows || f.first_row + row >= p.n) continue;
        float value = gathered<NB>(f, row, token) + bias_at(p, f.first_row + row);
        bf16* y = reinterpret_cast<bf16*>(p.out) + token * p.out_stride;
        y[f.first_row + row] = __float2bfloat16_rn(value);
    }
}

// out = act(gate) * up; warps take (token, 32 columns).
template <int NB>
__device__ __forceinline__ void finish_gate_up(const SkinnyParams& p, const Finish& f) {
    uint32_t columns = f.rows / 2, chunks = (columns + 31) / 32;
#pragma unroll 2
    for (uint32_t unit = f.warp; unit < p.m * chunks; unit += f.warps) {
        uint32_t token = unit / chunks, column = unit % chunks * 32 + f.lane;
        uint32_t row = (column >> 3) * 16 + (column & 7);
        if (column >= columns || f.first_row + row >= p.n) continue;
        float gate = gathered<NB>(f, row, token) + bias_at(p, f.first_row + row);
        float up = gathered<NB>(f, row + 8, token) + bias_at(p, f.first_row + row + 8);
        bf16* out = reinterpret_cast<bf16*>(p.out) + token * p.out_stride;
        out[f.first_row / 2 + column] = __float2bfloat16_rn(activated(gate, p.activation) * up);
    }
}

// How the residual ending goes through its values: each warp passes over `tokens` tokens at a time, `lanes` lanes a token,
// `chunks` values a lane and token. A batch of values is asked for at once, the first one long before it is needed.
constexpr int RESIDUAL_BATCH = 4;

struct ResidualWalk {
    uint32_t lanes, tokens, chunks, count;
    uint32_t first_token, token_step, row;

    __device__ __forceinline__ ResidualWalk(uint32_t m, uint32_t rows, uint32_t warp, uint32_t warps, uint32_t lane) {
        lanes = rows > 16 ? 32 : rows > 8 ? 16 : 8;
        tokens = 32 / lanes;
        chunks = (rows + 31) / 32;
        first_token = warp * tokens;
        token_step = warps * tokens;
        count = first_token < m ? (m - first_token + token_step - 1) / token_step * chunks : 0;
        first_token += lane / lanes;
        row = lane % lanes;
    }
    __device__ __forceinline__ uint32_t token(uint32_t i) const { return first_token + i / chunks * token_step; }
    __device__ __forceinline__ uint32_t row_of(uint32_t i) const { return row + i % chunks * 32; }
};

__device__ __forceinline__ void ask_residual(const SkinnyParams& p, const ResidualWalk& walk, uint32_t first_row,
                                             uint32_t rows, uint32_t first, float (&before)[RESIDUAL_BATCH]) {
#pragma unroll
    for (int i = 0; i < RESIDUAL_BATCH; ++i) {
        uint32_t token = walk.token(first + i), row = walk.row_of(first + i);
        bool there = first + i < walk.count && token < p.m && row < rows && first_row + row < p.n;
        before[i] = there ? __ldcg(reinterpret_cast<const float*>(p.h) + token * p.h_stride + first_row + row) : 0.f;
    }
}

// h += residual_scale * (acc + bias); x_next = h * gain; the squares' sum. `before` is the first batch of h.
template <int NB>
__device__ __forceinline__ void finish_residual(const SkinnyParams& p, const Finish& f, float (&before)[RESIDUAL_BATCH]) {
    ResidualWalk walk(p.m, f.rows, f.warp, f.warps, f.lane);
    const float* gain = reinterpret_cast<const float*>(p.gain);
    float squares = 0.f;
    for (uint32_t first = 0; first < walk.count; first += RESIDUAL_BATCH) {
        if (first > 0) ask_residual(p, walk, f.first_row, f.rows, first, before);
#pragma unroll
        for (int i = 0; i < RESIDUAL_BATCH; ++i) {
            if (first + i >= walk.count) break;
            uint32_t token = walk.token(first + i), row = walk.row_of(first + i), column = f.first_row + row;
            if (token < p.m && row < f.rows && column < p.n) {
                float value = before[i] + p.residual_scale * (gathered<NB>(f, row, token) + bias_at(p, column));
                reinterpret_cast<float*>(p.h)[token * p.h_stride + column] = value;
                if (p.x_next)
                    reinterpret_cast<bf16*>(p.x_next)[token * p.x_next_stride + column] =
                        __float2bfloat16_rn(value * __ldg(gain + column));
                squares += value * value;
            }
            if ((first + i) % walk.chunks + 1 < walk.chunks) continue;
            for (uint32_t lane = walk.lanes / 2; lane > 0; lane /= 2) squares += __shfl_xor_sync(0xffffffffu, squares, lane);
            if (p.partials_out && walk.row == 0 && token < p.m)
                reinterpret_cast<float*>(p.partials_out)[uint64_t(token) * p.partials_out_stride + blockIdx.x] = squares;
            squares = 0.f;
        }
    }
}

// Does (value, index) win over the best so far? Greater wins, then the lower index; NaN counts as -inf.
__device__ __forceinline__ void challenge(float& best, uint32_t& best_index, float value, uint32_t index) {
    if (value != value) value = __int_as_float(0xff800000);
    if (value > best || (value == best && index < best_index)) {
        best = value;
        best_index = index;
    }
}

// logits = softcap(acc * row_scale * logit_scale), f32; the block's greatest of each token. Warps take tokens.
template <int NB>
__device__ __forceinline__ void finish_logits(const SkinnyParams& p, const Finish& f) {
    for (uint32_t token = f.warp; token < p.m; token += f.warps) {
        float* out = reinterpret_cast<float*>(p.out) + token * p.out_stride;
        float best = __int_as_float(0xff800000);
        uint32_t best_index = 0xffffffffu;
        for (uint32_t row = f.lane; row < f.rows && f.first_row + row < p.n; row += 32) {
            float value = (gathered<NB>(f, row, token) + bias_at(p, f.first_row + row)) * p.logit_scale;
            if (p.softcap != 0.f) value = p.softcap * tanhf(value / p.softcap);
            out[f.first_row + row] = value;
            challenge(best, best_index, value, f.first_row + row);
        }
        if (!p.best_value) continue;
#pragma unroll
        for (int lane = 16; lane > 0; lane >>= 1) {
            float value = __shfl_xor_sync(0xffffffffu, best, lane);
            uint32_t index = __shfl_xor_sync(0xffffffffu, best_index, lane);
            challenge(best, best_index, value, index);
        }
        if (f.lane == 0) {
            uint64_t at = uint64_t(token) * gridDim.x + blockIdx.x;
            reinterpret_cast<float*>(p.best_value)[at] = best;
            reinterpret_cast<uint32_t*>(p.best_index)[at] = best_index;
        }
    }
}

template <int NB, Ending ENDING>
__device__ __forceinline__ void finish(const SkinnyParams& p, const Finish& f, float (&before)[RESIDUAL_BATCH]) {
    if (ENDING == PLAIN) finish_plain<NB>(p, f);
    if (ENDING == RESIDUAL) finish_residual<NB>(p, f, before);
    if (ENDING == GATE_UP) finish_gate_up<NB>(p, f);
    if (ENDING == LOGITS) finish_logits<NB>(p, f);
}

// row_scale[token] = 1 / sqrt(mean of squares + eps), or 1. Eight lanes a token, so that a warp asks for the sums of four tokens
// at once; their order is fixed.
__device__ __forceinline__ void scale_rows(const SkinnyParams& p, float* row_scale, uint32_t warp, uint32_t warps,
                                           uint32_t lane) {
    for (uint32_t first = warp * 4; first < p.m; first += warps * 4) {
        uint32_t token = first + lane / 8;
        float scale = 1.f;
        if (p.row_partials) {
            const float* partials = reinterpret_cast<const float*>(p.row_partials) + uint64_t(token) * p.row_partials_stride;
            uint32_t count = token < p.m ? p.row_partials_count : 0;
            float sum = 0.f;
            for (uint32_t at = 0; at < p.row_partials_count; at += 128) {
                float values[16];
#pragma unroll
                for (int i = 0; i < 16; ++i) {
                    uint32_t index = at + i * 8 + lane % 8;
                    values[i] = index < count ? __ldcg(partials + index) : 0.f;
                }
#pragma unroll
                for (int i = 0; i < 16; ++i) sum += values[i];
            }
#pragma unroll
            for (int step = 4; step > 0; step >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, step);
            scale = rsqrtf(sum * p.inverse_width + p.epsilon);
        }
        if (lane % 8 == 0 && token < p.m) row_scale[token] = scale;
    }
}

#define SKINNY_ENDINGS(entry, nb)   \
    entry(nb, plain, PLAIN)         \
    entry(nb, residual, RESIDUAL)   \
    entry(nb, gate_up, GATE_UP)     \
    entry(nb, logits, LOGITS)
