// What every skinny product shares: its parameters, the sums that wait in shared memory, and the four endings.
#pragma once
#include "../argmax.cuh"
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
    uint64_t best;              // u64 [m, blocks] or 0: keys of the greatest logits (argmax.cuh)
    uint64_t best_columns;      // those before this one count
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
    uint32_t burst;           // rounds of W that are asked for at once before the previous kernel has ended
    uint32_t pace;            // clocks between two of the others that are asked for then
};
static_assert(sizeof(SkinnyParams) == 512, "mirrored in skinny.rs");

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

// The same place in the shared memory of the cluster's block of `rank`.
__device__ __forceinline__ uint32_t in_cluster(uint32_t address, uint32_t rank) {
#if TM_HOPPER
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(address), "r"(rank));
#endif
    return address;
}

// Four floats at `address`, with CLUSTER one of `in_cluster`, or zeros; no branch, so that several are on their way at once.
template <bool CLUSTER>
__device__ __forceinline__ void shared_floats_if(float (&v)[4], uint32_t address, bool there) {
#define TM_FLOATS_IF(space)                                                                                                       \
    asm volatile(                                                                                                             \
        "{\n .reg .pred p;\n setp.ne.u32 p, %5, 0;\n"                                                                         \
        " mov.f32 %0, 0f00000000;\n mov.f32 %1, 0f00000000;\n mov.f32 %2, 0f00000000;\n mov.f32 %3, 0f00000000;\n"            \
        " @p ld." space ".v4.f32 {%0, %1, %2, %3}, [%4];\n}"                                                                  \
        : "=&f"(v[0]), "=&f"(v[1]), "=&f"(v[2]), "=&f"(v[3])                                                                  \
        : "r"(address), "r"(uint32_t(there))                                                                                  \
        : "memory")
#if TM_HOPPER
    if constexpr (CLUSTER) {
        TM_FLOATS_IF("shared::cluster");
        return;
    }
#endif
    TM_FLOATS_IF("shared");
#undef TM_FLOATS_IF
}

// --- the endings ---
//
// Nothing here waits for memory: what an ending reads was asked for at the block's start. A load at the end would queue up
// behind the next kernel's first stages.

constexpr uint32_t MOST_TILE_ROWS = 256;

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

// Tokens that a thread finishes at once: as many as there are for each thread. What it does for one are few instructions that wait
// for one another; another token's fill the time.
template <int NB>
constexpr int AT_ONCE = NB == 64 ? 2 : 1;

// Tokens of one thread. Those that are not there are the last one again, to be read but not stored.
template <int AT>
struct Tokens {
    uint32_t first, step, count;  // of all
    __device__ __forceinline__ bool there(int i) const { return first + i * step < count; }
    __device__ __forceinline__ uint32_t operator[](int i) const { return min(first + i * step, count - 1); }
};

// Adds all sources' partial sums at some places, in their order: the blocks of the cluster, and of each its units that share K.
// Several are on their way at once; a single one is read without asking whether it is there, for where many tokens are finished
// the instructions count.
template <int NB, bool CLUSTER, int AT>
__device__ __forceinline__ void add_sources(const Finish& f, const uint32_t (&at)[AT], float (&sum)[AT][4]) {
    constexpr int SOURCES = CLUSTER || NB == 8 ? 4 : AT == 1 ? 2 : 1;
    uint32_t step = NB * f.pitch * 4, sources = CLUSTER ? f.split * f.k_groups : f.k_groups, rank = 0, k_group = 0;
    if (!CLUSTER && NB > 8 && sources == 1) {
#pragma unroll
        for (int t = 0; t < AT; ++t) shared_floats_if<CLUSTER>(sum[t], f.sums + at[t], true);
        return;
    }
#pragma unroll 1
    for (uint32_t first = 0; first < sources; first += SOURCES) {
        float values[SOURCES][AT][4];
#pragma unroll
        for (int i = 0; i < SOURCES; ++i) {
            uint32_t from = f.sums + k_group * step;
            if (CLUSTER) from = in_cluster(from, min(rank, f.split - 1));
#pragma unroll
            for (int t = 0; t < AT; ++t) shared_floats_if<CLUSTER>(values[i][t], from + at[t], first + i < sources);
            bool wraps = ++k_group == f.k_groups;
            if (CLUSTER) k_group = wraps ? 0 : k_group, rank += wraps;
        }
#pragma unroll
        for (int i = 0; i < SOURCES; ++i)
#pragma unroll
            for (int t = 0; t < AT; ++t)
#pragma unroll
                for (int e = 0; e < 4; ++e) sum[t][e] += values[i][t][e];
    }
}

// The products at rows row .. row + 4 of this block, for some tokens: all sources' partial sums in their order.
template <int NB, bool CLUSTER, int AT>
__device__ __forceinline__ void gathered(const Finish& f, uint32_t row, const Tokens<AT>& tokens, float (&sum)[AT][4]) {
    uint32_t at[AT];
#pragma unroll
    for (int t = 0; t < AT; ++t) {
        at[t] = (tokens[t] * f.pitch + f.tile_row + row) * 4;
#pragma unroll
        for (int e = 0; e < 4; ++e) sum[t][e] = 0.f;
    }
    add_sources<NB, CLUSTER, AT>(f, at, sum);
    float4 bias = *reinterpret_cast<const float4*>(f.bias + row);
#pragma unroll
    for (int t = 0; t < AT; ++t) {
        float scale = f.row_scale[tokens[t]];
        sum[t][0] = sum[t][0] * scale + bias.x;
        sum[t][1] = sum[t][1] * scale + bias.y;
        sum[t][2] = sum[t][2] * scale + bias.z;
        sum[t][3] = sum[t][3] * scale + bias.w;
    }
}

// Four values to `to`, or the first `count` of them; `whole` tells that rows are aligned for all four at once.
__device__ __forceinline__ void store_four(bf16* to, const float (&v)[4], uint32_t count, bool whole) {
    if (whole) {
        *reinterpret_cast<uint2*>(to) = make_uint2(pack_bf16(v[0], v[1]), pack_bf16(v[2], v[3]));
        return;
    }
#pragma unroll
    for (int e = 0; e < 4; ++e)
        if (e < count) to[e] = __float2bfloat16_rn(v[e]);
}

__device__ __forceinline__ void store_four(float* to, const float (&v)[4], uint32_t count, bool whole) {
    if (whole) {
        *reinterpret_cast<float4*>(to) = make_float4(v[0], v[1], v[2], v[3]);
        return;
    }
#pragma unroll
    for (int e = 0; e < 4; ++e)
        if (e < count) to[e] = v[e];
}

// Calls each(tokens, first of four columns) until all m x width have been seen, and done(tokens, lanes) when all columns of those
// tokens have: they lie in `lanes` neighbouring lanes of one warp, all of which call.
template <int AT, typename Each, typename Done>
__device__ __forceinline__ void by_token(const Finish& f, uint32_t m, uint32_t width, Each each, Done done) {
    uint32_t bits = width > 64 ? 5 : width > 32 ? 4 : width > 16 ? 3 : width > 8 ? 2 : 1, lanes = 1 << bits;
    uint32_t side_by_side = 32 >> bits, mine = f.lane >> bits, start = (f.lane & (lanes - 1)) * 4;
    Tokens<AT> tokens{0, f.warps * side_by_side, m};
#pragma unroll 1
    for (uint32_t first = f.warp * side_by_side; first < m; first += AT * tokens.step) {
        tokens.first = first + mine;
#pragma unroll 1
        for (uint32_t column = start; column < width; column += lanes * 4) each(tokens, column);
        __syncwarp();
        done(tokens, lanes);
    }
}

__device__ __forceinline__ float activated(float gate, uint32_t activation) {
    if (activation == 0) return __fdividef(gate, 1.f + __expf(-gate));
    if (activation == 1) {
        float inner = 0.7978845608028654f * (gate + 0.044715f * gate * gate * gate);
        return 0.5f * gate * (1.f + tanhf(inner));
    }
    return 0.5f * gate * (1.f + erff(gate * 0.7071067811865476f));
}

// y = acc * row_scale + bias
template <int NB, bool CLUSTER>
__device__ __forceinline__ void finish_plain(const SkinnyParams& p, const Finish& f) {
    constexpr int AT = AT_ONCE<NB>;
    bool whole = ((p.n | p.out_stride) & 3) == 0;
    auto each = [&](const Tokens<AT>& tokens, uint32_t row) {
        uint32_t column = f.first_row + row;
        if (column >= p.n) return;
        float value[AT][4];
        gathered<NB, CLUSTER>(f, row, tokens, value);
        bf16* to = reinterpret_cast<bf16*>(p.out) + column;
#pragma unroll
        for (int t = 0; t < AT; ++t)
            if (tokens.there(t)) store_four(to + tokens[t] * p.out_stride, value[t], p.n - column, whole);
    };
    by_token<AT>(f, p.m, f.rows, each, [](const Tokens<AT>&, uint32_t) {});
}

// out = act(gate) * up
template <int NB, bool CLUSTER>
__device__ __forceinline__ void finish_gate_up(const SkinnyParams& p, const Finish& f) {
    constexpr int AT = AT_ONCE<NB>;
    auto each = [&](const Tokens<AT>& tokens, uint32_t column) {
        uint32_t row = (column >> 3) * 16 + (column & 7);
        if (f.first_row + row >= p.n) return;
        float gate[AT][4], up[AT][4];
        gathered<NB, CLUSTER>(f, row, tokens, gate);
        gathered<NB, CLUSTER>(f, row + 8, tokens, up);
        bf16* to = reinterpret_cast<bf16*>(p.out) + f.first_row / 2 + column;
#pragma unroll
        for (int t = 0; t < AT; ++t) {
#pragma unroll
            for (int e = 0; e < 4; ++e) gate[t][e] = activated(gate[t][e], p.activation) * up[t][e];
            if (tokens.there(t)) store_four(to + tokens[t] * p.out_stride, gate[t], 4, true);
        }
    };
    by_token<AT>(f, p.m, f.rows / 2, each, [](const Tokens<AT>&, uint32_t) {});
}

// h += residual_scale * (acc + bias); x_next = h * gain; the squares' sum
template <int NB, bool CLUSTER>
__device__ __forceinline__ void finish_residual(const SkinnyParams& p, const Finish& f) {
    constexpr int AT = AT_ONCE<NB>;
    float squares[AT] = {};
    auto each = [&](const Tokens<AT>& tokens, uint32_t row) {
        uint32_t column = f.first_row + row;
        if (column >= p.n) return;
        float value[AT][4], before[AT][4];
#pragma unroll
        for (int t = 0; t < AT; ++t) shared_floats_if<false>(before[t], f.h + (tokens[t] * f.rows + row) * 4, true);
        gathered<NB, CLUSTER>(f, row, tokens, value);
        float4 gain = *reinterpret_cast<const float4*>(f.gain + row);
#pragma unroll
        for (int t = 0; t < AT; ++t) {
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                value[t][e] = before[t][e] + p.residual_scale * value[t][e];
                squares[t] += value[t][e] * value[t][e];
            }
            if (!tokens.there(t)) continue;
            store_four(reinterpret_cast<float*>(p.h) + tokens[t] * p.h_stride + column, value[t], 4, true);
            float next[4] = {value[t][0] * gain.x, value[t][1] * gain.y, value[t][2] * gain.z, value[t][3] * gain.w};
            if (p.x_next) store_four(reinterpret_cast<bf16*>(p.x_next) + tokens[t] * p.x_next_stride + column, next, 4, true);
        }
    };
    by_token<AT>(f, p.m, f.rows, each, [&](const Tokens<AT>& tokens, uint32_t lanes) {
#pragma unroll 1
        for (uint32_t step = lanes / 2; step > 0; step /= 2)
#pragma unroll
            for (int t = 0; t < AT; ++t) squares[t] += __shfl_xor_sync(0xffffffffu, squares[t], step);
        bool leads = p.partials_out && (f.lane & (lanes - 1)) == 0;
#pragma unroll
        for (int t = 0; t < AT; ++t) {
            if (leads && tokens.there(t))
                reinterpret_cast<float*>(p.partials_out)[uint64_t(tokens[t]) * p.partials_out_stride + blockIdx.x] = squares[t];
            squares[t] = 0.f;
        }
    });
}

// logits = softcap(acc * row_scale * logit_scale), f32; the block's greatest of each token
template <int NB, bool CLUSTER>
__device__ __forceinline__ void finish_logits(const SkinnyParams& p, const Finish& f) {
    constexpr int AT = AT_ONCE<NB>;
    bool whole = ((p.n | p.out_stride) & 3) == 0;
    uint64_t best[AT] = {};
    auto each = [&](const Tokens<AT>& tokens, uint32_t row) {
        uint32_t column = f.first_row + row;
        if (column >= p.n) return;
        float value[AT][4];
        gathered<NB, CLUSTER>(f, row, tokens, value);
#pragma unroll
        for (int t = 0; t < AT; ++t) {
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                float& logit = value[t][e];
                logit *= p.logit_scale;
                if (p.softcap != 0.f) logit = p.softcap * tanhf(logit / p.softcap);
                if (p.best && column + e < p.best_columns) best[t] = max(best[t], argmax_key(logit, column + e));
            }
            float* to = reinterpret_cast<float*>(p.out) + tokens[t] * p.out_stride + column;
            if (tokens.there(t)) store_four(to, value[t], p.n - column, whole);
        }
    };
    by_token<AT>(f, p.m, f.rows, each, [&](const Tokens<AT>& tokens, uint32_t lanes) {
        if (!p.best) return;
#pragma unroll
        for (int t = 0; t < AT; ++t) {
#pragma unroll 1
            for (uint32_t step = lanes / 2; step > 0; step /= 2)
                best[t] = max(best[t], static_cast<uint64_t>(
                                           __shfl_xor_sync(0xffffffffu, static_cast<unsigned long long>(best[t]), step)));
            if ((f.lane & (lanes - 1)) == 0 && tokens.there(t))
                reinterpret_cast<uint64_t*>(p.best)[uint64_t(tokens[t]) * gridDim.x + blockIdx.x] = best[t];
            best[t] = 0;
        }
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
// at once, or of eight where there are many: what is waited for is one way to the second-level cache. A sum's order is fixed.
template <int NB>
__device__ __forceinline__ void scale_rows(const SkinnyParams& p, float* row_scale, uint32_t warp, uint32_t warps,
                                           uint32_t lane) {
    constexpr int GROUPS = NB == 64 ? 2 : 1;
#pragma unroll 1
    for (uint32_t first = warp * 4; first < p.m; first += GROUPS * warps * 4) {
        uint32_t token = first + lane / 8, step = warps * 4;
        float sum[GROUPS] = {};
        uint32_t count = p.row_partials ? p.row_partials_count : 0;
#pragma unroll 1
        for (uint32_t at = 0; at < count; at += 128) {
            float values[GROUPS][16];
#pragma unroll
            for (int g = 0; g < GROUPS; ++g) {
                uint64_t row = uint64_t(token + g * step) * p.row_partials_stride;
                const float* partials = reinterpret_cast<const float*>(p.row_partials) + row;
#pragma unroll
                for (int i = 0; i < 16; ++i) {
                    uint32_t index = at + i * 8 + lane % 8;
                    values[g][i] = index < count && token + g * step < p.m ? __ldcg(partials + index) : 0.f;
                }
            }
#pragma unroll
            for (int g = 0; g < GROUPS; ++g)
#pragma unroll
                for (int i = 0; i < 16; ++i) sum[g] += values[g][i];
        }
#pragma unroll
        for (int g = 0; g < GROUPS; ++g) {
#pragma unroll
            for (int lanes = 4; lanes > 0; lanes >>= 1) sum[g] += __shfl_xor_sync(0xffffffffu, sum[g], lanes);
            float scale = p.row_partials ? rsqrtf(sum[g] * p.inverse_width + p.epsilon) : 1.f;
            if (lane % 8 == 0 && token + g * step < p.m) row_scale[token + g * step] = scale;
        }
    }
}

// The same for the only token, by one warp that asks for 512 sums at once and adds them in the same order: eight lanes after the
// other go on with the sum.
__device__ __forceinline__ void scale_row(const SkinnyParams& p, float* row_scale, uint32_t lane) {
    const float* partials = reinterpret_cast<const float*>(p.row_partials);
    float sum = 0.f;
#pragma unroll 1
    for (uint32_t first = 0; first < p.row_partials_count; first += 512) {
        float values[16];
#pragma unroll
        for (int i = 0; i < 16; ++i) {
            uint32_t index = first + lane / 8 * 128 + i * 8 + lane % 8;
            values[i] = index < p.row_partials_count ? __ldcg(partials + index) : 0.f;
        }
#pragma unroll 1
        for (uint32_t group = 0; group < 4; ++group) {
#pragma unroll
            for (int i = 0; i < 16; ++i) sum += values[i];
            sum = __shfl_sync(0xffffffffu, sum, group * 8 + lane % 8);
        }
    }
#pragma unroll
    for (int step = 4; step > 0; step >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if (lane == 0) row_scale[0] = rsqrtf(sum * p.inverse_width + p.epsilon);
}

#define SKINNY_ENDINGS(entry, nb)   \
    entry(nb, plain, PLAIN)         \
    entry(nb, residual, RESIDUAL)   \
    entry(nb, gate_up, GATE_UP)     \
    entry(nb, logits, LOGITS)
