// What every skinny product shares: its parameters, the sums that wait in shared memory, and the four endings.
#pragma once
#include "../common.cuh"

struct alignas(64) TensorMapParam {
    uint64_t opaque[16];
};

// Mirrored by `Params` in skinny.rs.
struct alignas(64) SkinnyParams {
    TensorMapParam weight_map;  // [n, k] bf16, boxes of 64 x tile_rows, or 64 x tile_rows x slabs with boxes_3d
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
    uint32_t sums_offset;     // where the partial sums wait, bytes from the aligned start of dynamic shared memory
    uint32_t boxes_3d;        // one copy brings all slabs of a stage (k % 64 == 0)
    uint32_t row_partials_count, row_partials_stride;
    uint32_t partials_out_stride;
    uint32_t activation;      // 0 silu, 1 gelu by tanh, 2 gelu by erf
    float inverse_width, epsilon;
    float residual_scale, logit_scale, softcap;  // softcap 0: none
    uint32_t x_rows;          // rows of x in shared memory: m, or NB for wgmma
    uint32_t x_pitch;         // bytes between two slabs of x
    uint32_t stage_bytes;     // of W and x, a multiple of 1024
    uint32_t trigger_lead;    // rounds before the last one at which the next kernel may start; SKINNY_AT_ONCE: at the start
    uint32_t h_offset;        // where the residual ending keeps h [m, rows], bytes from the aligned start
#ifdef SKINNY_TRACE
    uint64_t trace;
#endif
};
#ifndef SKINNY_TRACE
static_assert(sizeof(SkinnyParams) == 512, "mirrored in skinny.rs");
#endif

constexpr int SKINNY_MAX_STAGES = 16;
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

// --- the sums in shared memory ---

// Floats between two tokens' sums: 4 mod 16, so that fragments are stored, and rows read, without bank conflicts.
__host__ __device__ constexpr uint32_t sums_pitch(uint32_t tile_rows) { return tile_rows + (tile_rows % 16 ? 12 : 4); }

// Puts this warp's sums into its block's shared memory: [k_group][token][row of the tile].
template <int NB>
__device__ __forceinline__ void keep_sums(uint32_t sums, const Units& u, const float (&acc)[NB / 2], uint32_t tile_rows,
                                          uint32_t m, uint32_t lane) {
    uint32_t pitch = sums_pitch(tile_rows);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        uint32_t row = u.first_row + half * 8 + lane / 4;
        if (row >= tile_rows) continue;
#pragma unroll
        for (int i = 0; i < NB / 4; ++i) {
            uint32_t token = i / 2 * 8 + lane % 4 * 2 + i % 2;
            uint32_t at = sums + ((u.k_group * NB + token) * pitch + row) * 4;
            if (token < m) asm volatile("st.shared.f32 [%0], %1;" ::"r"(at), "f"(acc[i / 2 * 4 + half * 2 + i % 2]) : "memory");
        }
    }
}

__device__ __forceinline__ float shared_float(uint32_t address) {
    float value;
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(value) : "r"(address) : "memory");
    return value;
}

// The float at `address`, or 0; no branch, so that several are on their way at once.
__device__ __forceinline__ float shared_float_if(uint32_t address, bool there) {
    float value;
    asm volatile("{\n .reg .pred p;\n setp.ne.u32 p, %2, 0;\n mov.f32 %0, 0f00000000;\n @p ld.shared.f32 %0, [%1];\n}"
                 : "=f"(value)
                 : "r"(address), "r"(uint32_t(there))
                 : "memory");
    return value;
}

#if TM_HOPPER
// The same of the block of `rank` in the cluster.
__device__ __forceinline__ float cluster_float_if(uint32_t address, uint32_t rank, bool there) {
    float value;
    asm volatile(
        "{\n .reg .pred p;\n .reg .u32 a;\n setp.ne.u32 p, %3, 0;\n mov.f32 %0, 0f00000000;\n"
        " @p mapa.shared::cluster.u32 a, %1, %2;\n @p ld.shared::cluster.f32 %0, [a];\n}"
        : "=f"(value)
        : "r"(address), "r"(rank), "r"(uint32_t(there))
        : "memory");
    return value;
}
#endif

// --- the endings ---
//
// Nothing here waits for memory: what an ending reads was asked for at the block's start. A load at the end would queue up
// behind the next kernel's first stages.

constexpr uint32_t MOST_TILE_ROWS = 256;
constexpr int MOST_K_GROUPS = 8;

// What a block knows when it finishes its rows.
struct Finish {
    uint32_t sums;           // shared address of the sums
    const float* row_scale;  // [m]
    const float* bias;       // [rows]
    const float* gain;       // [rows]
    uint32_t h;              // shared address of h [m, rows]
    uint32_t split, k_groups, pitch;
    uint32_t rows;       // rows of W that this block finishes
    uint32_t tile_row;   // the first of them in the tile
    uint32_t first_row;  // the first of them in W
    uint32_t warp, warps, lane;
};

// The product at (row of this block, token): its partial sums in the order of their sources, eight on their way at a time.
template <int NB, bool CLUSTER>
__device__ __forceinline__ float gathered(const Finish& f, uint32_t row, uint32_t token) {
    uint32_t at = f.sums + (token * f.pitch + f.tile_row + row) * 4, step = NB * f.pitch * 4;
    float sum = 0.f;
#if TM_HOPPER
    if constexpr (CLUSTER) {
        uint32_t sources = f.split * f.k_groups, rank = 0, k_group = 0;
#pragma unroll 1
        for (uint32_t first = 0; first < sources; first += 8) {
            float values[8];
#pragma unroll
            for (int i = 0; i < 8; ++i) {
                values[i] = cluster_float_if(at + k_group * step, rank, first + i < sources);
                bool wraps = ++k_group == f.k_groups;
                k_group = wraps ? 0 : k_group;
                rank += wraps;
            }
#pragma unroll
            for (int i = 0; i < 8; ++i) sum += values[i];
        }
        return sum * f.row_scale[token] + f.bias[row];
    }
#endif
    float values[MOST_K_GROUPS];
#pragma unroll
    for (int i = 0; i < MOST_K_GROUPS; ++i) values[i] = shared_float_if(at + i * step, i < f.k_groups);
#pragma unroll
    for (int i = 0; i < MOST_K_GROUPS; ++i) sum += values[i];
    return sum * f.row_scale[token] + f.bias[row];
}

// Calls each(token, column) for all m x width, neighbouring lanes at neighbouring columns.
template <int NB, typename Each>
__device__ __forceinline__ void spread(const Finish& f, uint32_t m, uint32_t width, Each each) {
    if (width <= 32) {
        uint32_t lanes = width > 16 ? 32 : width > 8 ? 16 : 8, tokens = 32 / lanes, column = f.lane % lanes;
#pragma unroll(NB < 32 ? 1 : 2)
        for (uint32_t token = f.warp * tokens + f.lane / lanes; token < m; token += f.warps * tokens)
            if (column < width) each(token, column);
        return;
    }
    uint32_t chunks = (width + 31) / 32, token = f.warp / chunks, chunk = f.warp % chunks;
    uint32_t token_step = f.warps / chunks, chunk_step = f.warps % chunks;
#pragma unroll 1
    while (token < m) {
        if (chunk * 32 + f.lane < width) each(token, chunk * 32 + f.lane);
        token += token_step;
        chunk += chunk_step;
        if (chunk >= chunks) chunk -= chunks, ++token;
    }
}

__device__ __forceinline__ float activated(float gate, uint32_t activation) {
    if (activation == 0) return gate / (1.f + __expf(-gate));
    if (activation == 1) {
        float inner = 0.7978845608028654f * (gate + 0.044715f * gate * gate * gate);
        return 0.5f * gate * (1.f + tanhf(inner));
    }
    return 0.5f * gate * (1.f + erff(gate * 0.7071067811865476f));
}

// y = acc * row_scale + bias
template <int NB, bool CLUSTER>
__device__ __forceinline__ void finish_plain(const SkinnyParams& p, const Finish& f) {
    spread<NB>(f, p.m, f.rows, [&](uint32_t token, uint32_t row) {
        if (f.first_row + row >= p.n) return;
        reinterpret_cast<bf16*>(p.out)[token * p.out_stride + f.first_row + row] = __float2bfloat16_rn(gathered<NB, CLUSTER>(f, row, token));
    });
}

// out = act(gate) * up
template <int NB, bool CLUSTER>
__device__ __forceinline__ void finish_gate_up(const SkinnyParams& p, const Finish& f) {
    spread<NB>(f, p.m, f.rows / 2, [&](uint32_t token, uint32_t column) {
        uint32_t row = (column >> 3) * 16 + (column & 7);
        if (f.first_row + row >= p.n) return;
        float gate = gathered<NB, CLUSTER>(f, row, token), up = gathered<NB, CLUSTER>(f, row + 8, token);
        reinterpret_cast<bf16*>(p.out)[token * p.out_stride + f.first_row / 2 + column] =
            __float2bfloat16_rn(activated(gate, p.activation) * up);
    });
}

// Calls each(token, row, there) so that a token's rows lie in `lanes` neighbouring lanes of one warp (all lanes take part, `there`
// tells whether there is something), then token_done(token, lanes) when all its rows have been.
template <int NB, typename Each, typename Done>
__device__ __forceinline__ void by_token(const SkinnyParams& p, const Finish& f, Each each, Done token_done) {
    uint32_t lanes = f.rows > 16 ? 32 : f.rows > 8 ? 16 : 8, tokens = 32 / lanes;
#pragma unroll(NB < 32 ? 1 : 2)
    for (uint32_t first = f.warp * tokens; first < p.m; first += f.warps * tokens) {
        uint32_t token = first + f.lane / lanes;
#pragma unroll 1
        for (uint32_t row = f.lane % lanes; row < ((f.rows + 31) & ~31u); row += 32)
            each(token, row, token < p.m && row < f.rows && f.first_row + row < p.n);
        token_done(token, lanes);
    }
}

// h += residual_scale * (acc + bias); x_next = h * gain; the squares' sum
template <int NB, bool CLUSTER>
__device__ __forceinline__ void finish_residual(const SkinnyParams& p, const Finish& f) {
    float squares = 0.f;
    by_token<NB>(
        p, f,
        [&](uint32_t token, uint32_t row, bool there) {
            if (!there) return;
            uint32_t column = f.first_row + row;
            float before = shared_float(f.h + (token * f.rows + row) * 4);
            float value = before + p.residual_scale * gathered<NB, CLUSTER>(f, row, token);
            reinterpret_cast<float*>(p.h)[token * p.h_stride + column] = value;
            if (p.x_next) reinterpret_cast<bf16*>(p.x_next)[token * p.x_next_stride + column] = __float2bfloat16_rn(value * f.gain[row]);
            squares += value * value;
        },
        [&](uint32_t token, uint32_t lanes) {
#pragma unroll 1
            for (uint32_t step = lanes / 2; step > 0; step /= 2) squares += __shfl_xor_sync(0xffffffffu, squares, step);
            if (p.partials_out && f.lane % lanes == 0 && token < p.m)
                reinterpret_cast<float*>(p.partials_out)[uint64_t(token) * p.partials_out_stride + blockIdx.x] = squares;
            squares = 0.f;
        });
}

// Does (value, index) win over the best so far? Greater wins, then the lower index; NaN counts as -inf.
__device__ __forceinline__ void challenge(float& best, uint32_t& best_index, float value, uint32_t index) {
    if (value != value) value = __int_as_float(0xff800000);
    if (value > best || (value == best && index < best_index)) {
        best = value;
        best_index = index;
    }
}

// logits = softcap(acc * row_scale * logit_scale), f32; the block's greatest of each token
template <int NB, bool CLUSTER>
__device__ __forceinline__ void finish_logits(const SkinnyParams& p, const Finish& f) {
    float best = __int_as_float(0xff800000);
    uint32_t best_index = 0xffffffffu;
    by_token<NB>(
        p, f,
        [&](uint32_t token, uint32_t row, bool there) {
            if (!there) return;
            float value = gathered<NB, CLUSTER>(f, row, token) * p.logit_scale;
            if (p.softcap != 0.f) value = p.softcap * tanhf(value / p.softcap);
            reinterpret_cast<float*>(p.out)[token * p.out_stride + f.first_row + row] = value;
            challenge(best, best_index, value, f.first_row + row);
        },
        [&](uint32_t token, uint32_t lanes) {
            if (!p.best_value) return;
#pragma unroll 1
            for (uint32_t step = lanes / 2; step > 0; step /= 2) {
                float value = __shfl_xor_sync(0xffffffffu, best, step);
                uint32_t index = __shfl_xor_sync(0xffffffffu, best_index, step);
                challenge(best, best_index, value, index);
            }
            if (f.lane % lanes == 0 && token < p.m) {
                uint64_t at = uint64_t(token) * gridDim.x + blockIdx.x;
                reinterpret_cast<float*>(p.best_value)[at] = best;
                reinterpret_cast<uint32_t*>(p.best_index)[at] = best_index;
            }
            best = __int_as_float(0xff800000);
            best_index = 0xffffffffu;
        });
}

template <int NB, Ending ENDING, bool CLUSTER>
__device__ __forceinline__ void finish(const SkinnyParams& p, const Finish& f) {
    if (ENDING == PLAIN) finish_plain<NB, CLUSTER>(p, f);
    if (ENDING == RESIDUAL) finish_residual<NB, CLUSTER>(p, f);
    if (ENDING == GATE_UP) finish_gate_up<NB, CLUSTER>(p, f);
    if (ENDING == LOGITS) finish_logits<NB, CLUSTER>(p, f);
}

// --- what the endings read, asked for early; cp_async_wait<0> and a barrier before it is read ---

__device__ __forceinline__ void cp_async_4(uint32_t shared, const void* global, bool there) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared), "l"(global), "r"(there ? 4 : 0) : "memory");
}

// Constants of this block's rows; no kernel writes them.
__device__ __forceinline__ void ask_constants(const SkinnyParams& p, uint32_t bias, uint32_t gain, uint32_t first_row,
                                              uint32_t rows, uint32_t thread, uint32_t threads) {
#pragma unroll 1
    for (uint32_t row = thread; row < rows; row += threads) {
        bool there = first_row + row < p.n;
        const float* from_bias = reinterpret_cast<const float*>(p.bias ? p.bias : p.weight) + (there && p.bias ? first_row + row : 0);
        const float* from_gain = reinterpret_cast<const float*>(p.gain ? p.gain : p.weight) + (there && p.gain ? first_row + row : 0);
        cp_async_4(bias + row * 4, from_bias, there && p.bias);
        cp_async_4(gain + row * 4, from_gain, there && p.gain);
    }
}

// h of this block's rows (n and the strides are multiples of 8 in this ending). Past L1, which may hold what h was before.
__device__ __forceinline__ void ask_h(const SkinnyParams& p, uint32_t h, uint32_t first_row, uint32_t rows, uint32_t thread,
                                      uint32_t threads) {
    uint32_t pieces = rows / 4;
#pragma unroll 1
    for (uint32_t i = thread; i < p.m * pieces; i += threads) {
        uint32_t token = i / pieces, row = i % pieces * 4;
        bool there = first_row + row < p.n;
        const float* from = reinterpret_cast<const float*>(p.h) + (there ? token * p.h_stride + first_row + row : 0);
        cp_async_16(h + i * 16, from, there);
    }
}

// row_scale[token] = 1 / sqrt(mean of squares + eps), or 1. Eight lanes a token, so that a warp asks for the sums of four tokens
// at once; their order is fixed.
__device__ __forceinline__ void scale_rows(const SkinnyParams& p, float* row_scale, uint32_t warp, uint32_t warps,
                                           uint32_t lane) {
#pragma unroll 1
    for (uint32_t first = warp * 4; first < p.m; first += warps * 4) {
        uint32_t token = first + lane / 8;
        float scale = 1.f;
        if (p.row_partials) {
            const float* partials = reinterpret_cast<const float*>(p.row_partials) + uint64_t(token) * p.row_partials_stride;
            uint32_t count = token < p.m ? p.row_partials_count : 0;
            float sum = 0.f;
#pragma unroll 1
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
