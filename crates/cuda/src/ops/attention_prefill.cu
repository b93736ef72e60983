// attention_prefill.cu   causal softmax attention of runs of several query tokens over the paged cache; every GPU from sm_80
//
//   o[i, h] = sum_j p[j] v[j, h / group] / sum_j p[j],  p[j] = exp(cap(scale * q[i, h] . k[j, h / group]) - max),  j in the window of i
//
// shapes    q rows [heads][head_dim] bf16, row stride in elements (multiple of 8); cache [block][K, V][kv_head][16][head_dim]
//           bf16 or fp8 e4m3, blocks at any stride; tables i32, ragged; out rows [heads][head_dim] bf16; out must not alias q
// mapping   one block of 4 warps a tile of 64 query rows (tokens x heads of one group); a warp holds 16 rows; keys in tiles of
//           64, last first. Shared memory: Q, K, V tiles, rows padded by 16 bytes (no bank conflicts): 51 KiB at head_dim 128
// numerics  products bf16 -> f32 on tensor cores, softmax in f32 with exponents of two, probabilities rounded to bf16 for
//           the second product; the key grid starts at token 0, so a row's bits depend on its own tokens alone
// bound     tensor cores: 4 * pairs * heads * head_dim operations, pairs = sum over tokens of keys seen;
//           8000 tokens, 32 x 128: 0.52 TFLOP. On sm_90 attention_prefill_sm90.cu is meant to run instead
// limits    head_dim % 8 == 0, head_dim <= 256; scale > 0; keys that no row of a tile sees are not read (slots never written
//           may hold anything); fp8 is converted on its way to shared memory, without overlap
// measured  benches/baselines/h200.jsonl
#include "attention_prefill.cuh"

namespace attention_prefill {

constexpr int WARPS = 4;
constexpr int THREADS = 32 * WARPS;
constexpr int ROWS = 16 * WARPS;  // query rows a tile
constexpr int KEYS = 64;          // keys a tile

__device__ __forceinline__ void cp_async_wait_all() {
    asm volatile("cp.async.wait_all;" ::: "memory");
}

// Where the keys (or values) of a tile come from.
struct Source {
    const Params& p;
    const int32_t* table;  // shifted so that the sequence's block b is table[b]
    int kv_head;
    int lowest, highest;  // keys that some row of the tile sees
};

// Element offset in the arena of `key`'s row; `half`: 0 keys, 1 values.
__device__ __forceinline__ int64_t offset(const Source& source, int key, int half) {
    int row = (half * source.p.kv_heads + source.kv_head) * BLOCK_SIZE + key % BLOCK_SIZE;
    return source.table[key / BLOCK_SIZE] * source.p.block_stride + row * source.p.head_dim;
}

// Rows of DIM elements in shared memory lie this many bytes apart: an odd number of 16-byte pieces.
template <int DIM>
constexpr int PITCH = 2 * DIM + 16;

// Loads keys first..first + KEYS; zeros for those that nobody sees and for columns past head_dim.
template <int DIM, bool FP8>
__device__ __forceinline__ void load_keys(const Source& source, int first, int half, uint32_t to) {
    constexpr int CHUNKS = DIM / 8;
#pragma unroll
    for (int i = threadIdx.x; i < KEYS * CHUNKS; i += THREADS) {
        int row = i / CHUNKS, chunk = i % CHUNKS, key = first + row;
        bool valid = key >= source.lowest && key <= source.highest && chunk * 8 < source.p.head_dim;
        int64_t at = valid ? offset(source, key, half) + chunk * 8 : 0;
        uint32_t place = to + row * PITCH<DIM> + chunk * 16;
        if constexpr (FP8) {
            uint2 raw = make_uint2(0, 0);
            if (valid) raw = *reinterpret_cast<const uint2*>(static_cast<const uint8_t*>(source.p.kv) + at);
            uint2 low = widen4(raw.x), high = widen4(raw.y);
            asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(place), "r"(low.x), "r"(low.y), "r"(high.x), "r"(high.y)
                         : "memory");
        } else {
            cp_async_16(place, static_cast<const bf16*>(source.p.kv) + at, valid);
        }
    }
}

template <int DIM>
__device__ __forceinline__ void load_queries(const Params& p, const Tile& tile, uint32_t to) {
    constexpr int CHUNKS = DIM / 8;
    const Rows rows(tile);
#pragma unroll
    for (int i = threadIdx.x; i < ROWS * CHUNKS; i += THREADS) {
        int row = i / CHUNKS, chunk = i % CHUNKS;
        bool valid = rows.has(row) && chunk * 8 < p.head_dim;
        int64_t at = (tile.row + rows.token(row)) * p.q_stride + (tile.head() + rows.head(row)) * p.head_dim + chunk * 8;
        if (!valid) at = 0;
        cp_async_16(to + row * PITCH<DIM> + chunk * 16, p.q + at, valid);
    }
}

// s = q k^T for this warp's 16 rows and KEYS keys. Short heads keep their queries in registers.
template <int DIM, bool HELD>
__device__ __forceinline__ void scores(float (&s)[KEYS / 8][4], const uint32_t (&held)[HELD ? DIM / 16 : 1][4], uint32_t q,
                                       uint32_t k) {
    int lane = threadIdx.x % 32;
    uint32_t k_lane = k + ((lane & 7) + ((lane >> 4) << 3)) * PITCH<DIM> + ((lane >> 3) & 1) * 16;
#pragma unroll
    for (int j = 0; j < KEYS / 8; j++) {
#pragma unroll
        for (int e = 0; e < 4; e++) s[j][e] = 0.0f;
    }
#pragma unroll
    for (int step = 0; step < DIM / 16; step++) {
        uint32_t a[4];
        if constexpr (HELD) {
#pragma unroll
            for (int e = 0; e < 4; e++) a[e] = held[step][e];
        } else {
            ldmatrix_x4(a, q + step * 32);
        }
#pragma unroll
        for (int j = 0; j < KEYS / 16; j++) {
            uint32_t b[4];
            ldmatrix_x4(b, k_lane + j * 16 * PITCH<DIM> + step * 32);
            mma_16816(s[2 * j], a, b[0], b[1]);
            mma_16816(s[2 * j + 1], a, b[2], b[3]);
        }
    }
}

// o += p v
template <int DIM>
__device__ __forceinline__ void mix(float (&o)[DIM / 8][4], const float (&s)[KEYS / 8][4], uint32_t v) {
    int lane = threadIdx.x % 32;
    uint32_t v_lane = v + (lane & 15) * PITCH<DIM> + (lane >> 4) * 16;
#pragma unroll
    for (int step = 0; step < KEYS / 16; step++) {
        const auto &low = s[2 * step], &high = s[2 * step + 1];
        uint32_t a[4] = {pack_bf16(low[0], low[1]), pack_bf16(low[2], low[3]), pack_bf16(high[0], high[1]),
                         pack_bf16(high[2], high[3])};
#pragma unroll
        for (int j = 0; j < DIM / 16; j++) {
            uint32_t b[4];
            ldmatrix_x4_trans(b, v_lane + step * 16 * PITCH<DIM> + j * 32);
            mma_16816(o[2 * j], a, b[0], b[1]);
            mma_16816(o[2 * j + 1], a, b[2], b[3]);
        }
    }
}

// This warp's rows of the result, through its own rows of the query tile, in pieces of 16 bytes.
template <int DIM>
__device__ __forceinline__ void store(const Params& p, const Tile& tile, const float (&o)[DIM / 8][4],
                                      const Softmax& softmax, uint32_t slab, int first_row) {
    constexpr int CHUNKS = DIM / 8;
    const int lane = threadIdx.x % 32;
    const Rows rows(tile);
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float factor = p.out_scale / quad_sum(softmax.sum[half]);
        uint32_t place = slab + (lane / 4 + 8 * half) * PITCH<DIM> + (lane % 4) * 4;
#pragma unroll
        for (int j = 0; j < CHUNKS; j++) {
            uint32_t pair = pack_bf16(o[j][2 * half] * factor, o[j][2 * half + 1] * factor);
            asm volatile("st.shared.b32 [%0], %1;" ::"r"(place + j * 16), "r"(pair) : "memory");
        }
    }
    __syncwarp();
    for (int i = lane; i < 16 * CHUNKS; i += 32) {
        int row = first_row + i / CHUNKS, chunk = i % CHUNKS;
        if (!rows.has(row) || chunk * 8 >= p.head_dim) continue;
        uint4 piece;
        asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(piece.x), "=r"(piece.y), "=r"(piece.z), "=r"(piece.w)
                     : "r"(slab + (i / CHUNKS) * PITCH<DIM> + chunk * 16)
                     : "memory");
        int64_t at = (tile.row + rows.token(row)) * p.out_stride + (tile.head() + rows.head(row)) * p.head_dim + chunk * 8;
        *reinterpret_cast<uint4*>(p.out + at) = piece;
    }
}

template <int DIM, bool FP8>
__device__ __forceinline__ void attend(const Params& p) {
    constexpr bool HELD = DIM <= 128;
    extern __shared__ __align__(16) uint8_t shared[];
    const uint32_t q = shared_address(shared), k = q + ROWS * PITCH<DIM>, v = k + KEYS * PITCH<DIM>;
    pdl_launch();
    pdl_wait();
    const Tile tile = p.tiles[blockIdx.x];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int far = tile.position + tile.tokens() - 1;  // the last token
    const Source source{p, p.table(tile.sequence), tile.head() / p.heads_per_group,
                        max(0, tile.position - p.window + 1), far};
    // What the two rows of this thread see.
    const int row = 16 * warp + lane / 4;
    const Rows rows(tile);
    const int last[2] = {tile.position + rows.token(row), tile.position + rows.token(row + 8)};
    const int first[2] = {last[0] - p.window + 1, last[1] - p.window + 1};

    load_queries<DIM>(p, tile, q);
    load_keys<DIM, FP8>(source, far / KEYS * KEYS, 0, k);
    cp_async_wait_all();
    __syncthreads();
    const uint32_t q_lane = q + (16 * warp + (lane & 15)) * PITCH<DIM> + (lane >> 4) * 16;
    uint32_t held[HELD ? DIM / 16 : 1][4];
    if constexpr (HELD) {
#pragma unroll
        for (int step = 0; step < DIM / 16; step++) ldmatrix_x4(held[step], q_lane + step * 32);
    }
    float o[DIM / 8][4] = {};
    Softmax softmax;
    softmax.reset();
    for (int key = far / KEYS * KEYS; key >= source.lowest / KEYS * KEYS; key -= KEYS) {
        // The tile's keys are in shared memory, and everybody is done with the values before.
        load_keys<DIM, FP8>(source, key, 1, v);
        float s[KEYS / 8][4];
        scores<DIM, HELD>(s, held, q_lane, k);
        if (p.softcap != 0.0f) cap_scores(s, p.softcap);
        if (key + KEYS - 1 > tile.position || key < far - p.window + 1) mask(s, key + 2 * (lane % 4), first, last);
        cp_async_wait_all();
        __syncthreads();
        // The values are there, and everybody is done with the keys.
        if (key - KEYS >= source.lowest / KEYS * KEYS) load_keys<DIM, FP8>(source, key - KEYS, 0, k);
        float shrink[2];
        softmax.update(s, p.scale, shrink);
#pragma unroll
        for (int j = 0; j < DIM / 8; j++) {
#pragma unroll
            for (int e = 0; e < 4; e++) o[j][e] *= shrink[e >> 1];
        }
        mix<DIM>(o, s, v);
        cp_async_wait_all();
        __syncthreads();
    }
    store<DIM>(p, tile, o, softmax, q + 16 * warp * PITCH<DIM>, 16 * warp);
}

}  // namespace attention_prefill

#define ATTENTION_PREFILL(NAME, DIM, FP8)                                                             \
    extern "C" __global__ void __launch_bounds__(attention_prefill::THREADS)                          \
        attention_prefill_##NAME##_d##DIM(const __grid_constant__ attention_prefill::Params p) {      \
        attention_prefill::attend<DIM, FP8>(p);                                                       \
    }

// The width is a multiple of 16 at or above head_dim; columns beyond head_dim are zeros.
#define ATTENTION_PREFILL_WIDTHS(NAME, FP8) \
    ATTENTION_PREFILL(NAME, 32, FP8)        \
    ATTENTION_PREFILL(NAME, 64, FP8)        \
    ATTENTION_PREFILL(NAME, 80, FP8)        \
    ATTENTION_PREFILL(NAME, 96, FP8)        \
    ATTENTION_PREFILL(NAME, 128, FP8)       \
    ATTENTION_PREFILL(NAME, 192, FP8)       \
    ATTENTION_PREFILL(NAME, 256, FP8)

ATTENTION_PREFILL_WIDTHS(bf16, false)
ATTENTION_PREFILL_WIDTHS(fp8, true)
