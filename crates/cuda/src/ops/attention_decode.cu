// attention_decode.cu   out[h] = sum_j softmax_j(softcap(q[h] . k[j] * scale)) * v[j],  j in max(0, pos - window + 1) ..= pos
//
// One query token a sequence (a few in a row work too: each sees the keys up to its own position). The G = H / Hk query
// heads that share a key head fill the rows of one mma tile, so keys and values are read once for all of them.
//
// shapes    q [rows, H * D] bf16; out [rows, H * D] bf16; arena [block][K, V][Hk][16][D], bf16 or e4m3 of value / scale
//           items, made on the host (attention_decode.rs): a stretch of one sequence's blocks each; block x of the grid
//           begins with item x and follows `next` (0: none). An item of no blocks is no work.
//           partial_acc [slots, units, R, D] f32, partial_ml [slots, units, R] (max, sum): stretches of a split sequence,
//           consecutive slots; counters [slots, units]: zero before and after. unit = (kv head, tile of 16 rows), R = rows
// fused     (attention_decode_fused_*): q is the projection [rows, (H + 2 Hk) * D] with biases added; queries are normed and
//           rotated here, and the stretch that ends a sequence norms, rotates and appends its key and value (qkv_prepare.cu)
// mapping   4 warps; a warp takes every fourth block of 16 tokens (pair of blocks, where they are small) and requests
//           K, V, K, V .. granule by granule through a ring of its own (cp.async, padded rows: no bank conflicts), so the loop
//           has no block-wide barrier; the warps'
//           (max, sum, acc) meet in shared memory, the stretches' in device memory, where the last to arrive merges, in order;
//           or, where a cluster has a sequence to itself (`together`), in its blocks' shared memory: each block is sent, and
//           merges, its share of the columns
// overlap   tokens before this step's own are requested before the wait for the previous kernel: nothing in a step writes
//           them (block copies precede the step's first kernel, which waits for all before it)
// numerics  bf16 (e4m3: f16, queries scaled by a power of two) products, float32 sums, probabilities rounded for the second
//           product; order fixed by (first block, last block): rerun == run. Invisible slots may hold NaN: scores are
//           selected, values zeroed
// bound     memory: 2 * Hk * D * bytes a token; 64 x 2048 tokens, Hk 8, D 128, bf16: 537 MB, 114 us on an H200
// limits    D a multiple of 8, <= 256; a block's keys lie in one block of the cache
// rejected  keys as the M side of the product (half the mma work at G <= 8): movmatrix per tile, and mma is not the bound
#include "head.cuh"

constexpr int WARPS = 4;
constexpr int THREADS = 32 * WARPS;
constexpr int ROWS = 16;
constexpr int MAX_CLUSTER = 8;
constexpr float LOG2E = 1.4426950408889634f;

// For the rings of a block of threads: as much on its way as streaming wants, and room beside it for a block of the next
// kernel. Devices with less shared memory make do with less. Of dense entries four blocks share a multiprocessor.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900 && __CUDA_ARCH__ < 1200
constexpr int RING_BYTES = 56 << 10;
#else
constexpr int RING_BYTES = 48 << 10;
#endif
constexpr int DENSE_BYTES = 36 << 10;

// A cache, and how many blocks of threads with what rings read it on one multiprocessor.
template <class Cache, int COUNT>
struct Shared : Cache {
    static constexpr int RINGS = COUNT == 2 ? RING_BYTES : DENSE_BYTES;
    static constexpr int BLOCKS_OF_SM = COUNT;
};

// A stretch of one sequence's blocks.
struct __align__(16) Item {
    uint32_t query_row;    // of q and out, of the sequence's first query token
    uint32_t counts;       // queries | split << 8 | splits << 20 | together << 31
    int position;          // of the first query token, which is also its index in the sequence
    uint32_t first_block;  // logical
    uint32_t blocks;
    uint32_t table_at;     // where the table's entry of first_block lies
    uint32_t partial;      // slot of the sequence's split 0
    uint32_t next;

    __device__ int queries() const { return counts & 0xff; }
    __device__ int split() const { return counts >> 8 & 0xfff; }
    __device__ int splits() const { return counts >> 20 & 0x7ff; }
    // The splits are the first blocks of one cluster, in order, and this is their only item.
    __device__ bool together() const { return counts >> 31; }
};
static_assert(sizeof(Item) == 32, "mirrored in attention_decode.rs");

struct AttentionDecodeParams {
    const bf16* q;
    char* arena;
    const int* tables;
    const Item* items;
    bf16* out;
    float* partial_acc;
    float2* partial_ml;
    uint32_t* counters;
    // fused: as in qkv_prepare.cu
    const int* positions;
    const int* regimes;
    const float* inv_freq;
    const float* q_weight;
    const float* k_weight;
    float factors[2];
    float eps;
    float scale;
    float softcap;  // 0: none
    float k_scale;
    float v_scale;
    uint32_t window;  // 0: none
    uint32_t heads;
    uint32_t kv_heads;
    uint32_t head_dim;
    uint32_t half;
    uint32_t unit_rows;  // R
    uint32_t lane_bits;
    uint32_t cluster;  // blocks along x in a cluster; 1: none
    uint32_t early;    // the next kernel may come in as soon as this one runs
};
static_assert(sizeof(AttentionDecodeParams) == 168, "mirrored in attention_decode.rs");

// Sizes in bytes for heads of up to DP elements; mirrored in attention_decode.rs. Rows are an odd number of 16 bytes apart:
// eight of them touch all banks.
template <class Cache, int DP>
struct Sizes {
    static constexpr int pitch(int bytes) { return (bytes / 16 | 1) * 16; }
    static constexpr int PITCH = pitch(DP * Cache::BYTES);
    static constexpr int Q_PITCH = pitch(DP * 2);
    static constexpr int ACC_PITCH = DP + 8;  // floats
    // A granule is the keys, or the values, of a block; of two where one is so small that a warp would wait more than compute.
    static constexpr int BLOCKS = PITCH <= 160 ? 2 : 1;
    static constexpr int KEYS = BLOCKS * BLOCK_TOKENS;
    static constexpr int GRANULE = KEYS * PITCH;
    static constexpr int FIT = Cache::RINGS / (WARPS * GRANULE);
    static constexpr int STAGES = FIT < 2 ? 2 : FIT > 8 ? 8 : FIT;
    static constexpr int RING = STAGES * GRANULE;
};

// Where things lie in shared memory. Mirrored in attention_decode.rs.
template <class Cache, int DP>
struct Layout {
    char* ring;
    char* q;
    float* q_scale;
    float2* ml;
    uint32_t* flag;
    float* acc;
    float2* turns;
    float* weights;
    char* fresh;  // the new key, then the new value, PITCH bytes each
    // of clusters: what its blocks send
    uint64_t* barrier;
    float2* peer_ml;   // [split][ROWS]
    float4* peer_acc;  // [split][its tasks]

    __device__ Layout(char* shared, int rows, bool fused) {
        using S = Sizes<Cache, DP>;
        ring = shared;
        q = ring + WARPS * S::RING;
        q_scale = reinterpret_cast<float*>(q + ROWS * S::Q_PITCH);
        ml = reinterpret_cast<float2*>(q_scale + ROWS);
        flag = reinterpret_cast<uint32_t*>(ml + WARPS * ROWS);
        acc = reinterpret_cast<float*>(flag + 4);
        char* end = reinterpret_cast<char*>(acc + WARPS * rows * S::ACC_PITCH);
        turns = reinterpret_cast<float2*>(end);
        weights = reinterpret_cast<float*>(turns + DP / 2);
        fresh = reinterpret_cast<char*>(weights + 2 * DP);
        barrier = reinterpret_cast<uint64_t*>(fused ? fresh + 2 * S::PITCH : end);
        peer_ml = reinterpret_cast<float2*>(barrier + 2);
        peer_acc = reinterpret_cast<float4*>(peer_ml + MAX_CLUSTER * ROWS);
    }
};

__device__ __forceinline__ void cp_async_8(uint32_t shared, const void* global) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(shared), "l"(global) : "memory");
}

// d[16x8] += a[16x16] * b[16x8] in f16, f32 accumulation.
__device__ __forceinline__ void mma_16816_f16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ uint32_t load_shared(uint32_t address) {
    uint32_t word;
    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(word) : "r"(address) : "memory");
    return word;
}

__device__ __forceinline__ uint2 load_shared_2(uint32_t address) {
    uint2 words;
    asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];" : "=r"(words.x), "=r"(words.y) : "r"(address) : "memory");
    return words;
}

// The two e4m3 values in the low 16 bits, as f16.
__device__ __forceinline__ uint32_t widen_fp8(uint32_t pair) {
    __half2_raw halves = __nv_cvt_fp8x2_to_halfraw2(static_cast<__nv_fp8x2_storage_t>(pair), __NV_E4M3);
    return static_cast<uint32_t>(halves.x) | (static_cast<uint32_t>(halves.y) << 16);
}

__device__ __forceinline__ uint32_t pack_f16(float low, float high) {
    __half2 pair = __floats2half2_rn(low, high);
    return *reinterpret_cast<uint32_t*>(&pair);
}

// Flushes what is below the normal numbers to zero; exp2(-inf) = 0, NaN stays.
__device__ __forceinline__ float exp2_fast(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// cap * tanh(score / cap), absolute error about 1e-7 * cap.
__device__ __forceinline__ float soft_cap(float score, float cap) {
    float grown = exp2_fast(score * (2.0f * LOG2E / cap));
    return cap * (1.0f - __fdividef(2.0f, 1.0f + grown));
}

// Requests one warp's share of an item, granule after granule: K and V of its blocks in turn.
template <class Cache, int DP, bool EXACT>
struct Loader {
    using S = Sizes<Cache, DP>;
    const int* tables;
    const char* arena;  // at the kv head
    int64_t half_stride;  // bytes from a block's keys to its values
    uint32_t ring;
    int dim, warp, lane;
    // of the item
    const int* table;
    int blocks, granules, requested;  // granules of keys, as many of values
    int slot;  // where the next granule goes
    int base, entries, coming;

    // The table's entry of block `i % BLOCKS` of this warp's granule `i / BLOCKS`.
    __device__ int entry(int i) const {
        int block = (warp + WARPS * (i / S::BLOCKS)) * S::BLOCKS + i % S::BLOCKS;
        return block < blocks ? table[block] : -1;
    }

    __device__ void start(const Item& item) {
        table = tables + item.table_at;
        blocks = item.blocks;
        int all = (blocks + S::BLOCKS - 1) / S::BLOCKS;
        granules = all > warp ? (all - warp + WARPS - 1) / WARPS : 0;
        requested = 0;
        slot = 0;
        base = 0;
        entries = entry(lane);
        coming = entry(32 + lane);
    }

    // The blocks of the next granule end here, counted from the item's first.
    __device__ int next_end() const { return (warp + WARPS * (requested >> 1) + 1) * S::BLOCKS; }

    __device__ void request() {
        int i = (requested >> 1) * S::BLOCKS;
        if ((requested >> 1) < granules) {
            if (i == base + 32) {
                base += 32;
                entries = coming;
                coming = entry(base + 32 + lane);
            }
#pragma unroll
            for (int b = 0; b < S::BLOCKS; ++b) {
                int64_t block = __shfl_sync(0xffffffffu, entries, i + b - base);
                uint32_t to = ring + slot * S::GRANULE + b * BLOCK_TOKENS * S::PITCH;
                if (b == 0 || block >= 0) copy(to, arena + (block * 2 + (requested & 1)) * half_stride);
            }
        }
        cp_async_commit();
        ++requested;
        slot = slot + 1 == S::STAGES ? 0 : slot + 1;
    }

    __device__ void copy(uint32_t to, const char* from) const {
        if constexpr (EXACT) {
            constexpr int CHUNKS = DP * Cache::BYTES / 16;
#pragma unroll
            for (int i = 0; i < BLOCK_TOKENS * CHUNKS / 32; ++i) {
                int chunk = lane + 32 * i;
                cp_async_16(to + chunk / CHUNKS * S::PITCH + chunk % CHUNKS * 16, from + chunk * 16, true);
            }
        } else {
            constexpr int CHUNK = 8 * Cache::BYTES;  // rows of e4m3 may be aligned to 8 bytes only
            int chunks = dim / 8, magic = (65536 + chunks - 1) / chunks;
            for (int chunk = lane; chunk < BLOCK_TOKENS * chunks; chunk += 32) {
                int row = chunk * magic >> 16;
                uint32_t at = to + row * S::PITCH + (chunk - row * chunks) * CHUNK;
                if constexpr (CHUNK == 16) {
                    cp_async_16(at, from + chunk * CHUNK, true);
                } else {
                    cp_async_8(at, from + chunk * CHUNK);
                }
            }
        }
    }
};

// One warp's running softmax over its keys: rows g and g + 8 of the tile in each thread (g = lane / 4).
template <class Cache, int DP, bool EXACT>
struct Pass {
    using S = Sizes<Cache, DP>;
    static constexpr bool HELD = DP * Cache::BLOCKS_OF_SM <= 256;  // queries in registers
    static constexpr int TILES = S::KEYS / 8;
    uint32_t q[HELD ? DP / 16 : 1][4];
    uint32_t q_at;
    float acc[DP / 8][4];
    float m[2], l[2];
    float scale[2];
    int dim;

    __device__ void load_q(uint32_t (&to)[4], int step) const {
        if constexpr (Cache::BYTES == 2) {
            ldmatrix_x4(to, q_at + step * 32);
        } else {
            uint2 low = load_shared_2(q_at + step * 32), high = load_shared_2(q_at + 8 * S::Q_PITCH + step * 32);
            to[0] = low.x, to[1] = high.x, to[2] = low.y, to[3] = high.y;
        }
    }

    __device__ void start(uint32_t q_shared, const float* q_scale, float score_scale, int lane) {
        // e4m3: the thread's elements 4t .. 4t + 3 of each 16 stand for k = 2t, 2t + 1, 2t + 8, 2t + 9 of the product.
        q_at = Cache::BYTES == 2 ? q_shared + (lane & 15) * S::Q_PITCH + (lane >> 4) * 16
                                 : q_shared + (lane / 4) * S::Q_PITCH + (lane & 3) * 8;
        if constexpr (HELD) {
#pragma unroll
            for (int step = 0; step < DP / 16; ++step) load_q(q[step], step);
        }
#pragma unroll
        for (int i = 0; i < DP / 8; ++i) acc[i][0] = acc[i][1] = acc[i][2] = acc[i][3] = 0.0f;
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            m[h] = -INFINITY;
            l[h] = 0.0f;
            scale[h] = score_scale * (Cache::BYTES == 1 ? q_scale[lane / 4 + 8 * h] : 1.0f);
        }
    }

    // s[n][c] = row g + 8 * (c / 2) times key 8n + 2t + c % 2 of the granule at `keys`.
    __device__ void scores(float (&s)[TILES][4], uint32_t keys, int lane) const {
        // Two sums each, of even and of odd steps: half as long a chain of products.
        float odd[TILES][4];
#pragma unroll
        for (int n = 0; n < TILES; ++n)
#pragma unroll
            for (int c = 0; c < 4; ++c) s[n][c] = odd[n][c] = 0.0f;
        uint32_t at = Cache::BYTES == 2
                          ? keys + ((lane >> 4) * 8 + (lane & 7)) * S::PITCH + (lane >> 3 & 1) * 16
                          : keys + (lane / 4) * S::PITCH + (lane & 3) * 4;
#pragma unroll
        for (int step = 0; step < DP / 16; ++step) {
            if (!EXACT && step * 16 >= dim) break;
            float(&to)[TILES][4] = step & 1 ? odd : s;
            uint32_t a[4];
            if constexpr (HELD) {
#pragma unroll
                for (int i = 0; i < 4; ++i) a[i] = q[step][i];
            } else {
                load_q(a, step);
            }
#pragma unroll
            for (int n = 0; n < TILES; n += 2) {
                if constexpr (Cache::BYTES == 2) {
                    uint32_t k[4];
                    ldmatrix_x4(k, at + n * 8 * S::PITCH + step * 32);
                    mma_16816(to[n], a, k[0], k[1]);
                    mma_16816(to[n + 1], a, k[2], k[3]);
                } else {
                    uint32_t k0 = load_shared(at + n * 8 * S::PITCH + step * 16);
                    uint32_t k1 = load_shared(at + (n + 1) * 8 * S::PITCH + step * 16);
                    mma_16816_f16(to[n], a, widen_fp8(k0), widen_fp8(k0 >> 16));
                    mma_16816_f16(to[n + 1], a, widen_fp8(k1), widen_fp8(k1 >> 16));
                }
            }
        }
#pragma unroll
        for (int n = 0; n < TILES; ++n)
#pragma unroll
            for (int c = 0; c < 4; ++c) s[n][c] = (s[n][c] + odd[n][c]) * scale[c / 2];
    }

    // Scores (in units of log2) to probabilities relative to the running maximum; rescales what was summed before.
    __device__ void soften(float (&s)[TILES][4]) {
        float shrink[2];
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            float high = fmaxf(s[0][2 * h], s[0][2 * h + 1]);
#pragma unroll
            for (int n = 1; n < TILES; ++n) high = fmaxf(high, fmaxf(s[n][2 * h], s[n][2 * h + 1]));
            high = fmaxf(high, __shfl_xor_sync(0xffffffffu, high, 1));
            high = fmaxf(m[h], fmaxf(high, __shfl_xor_sync(0xffffffffu, high, 2)));
            float base = high == -INFINITY ? 0.0f : high;
            shrink[h] = exp2_fast(m[h] - base);
            m[h] = high;
            float sum = 0.0f;
#pragma unroll
            for (int n = 0; n < TILES; ++n)
#pragma unroll
                for (int c = 2 * h; c < 2 * h + 2; ++c) {
                    s[n][c] = exp2_fast(s[n][c] - base);
                    sum += s[n][c];
                }
            l[h] = fmaf(l[h], shrink[h], sum);
        }
        if (__any_sync(0xffffffffu, shrink[0] != 1.0f || shrink[1] != 1.0f)) {
#pragma unroll
            for (int i = 0; i < DP / 8; ++i)
#pragma unroll
                for (int c = 0; c < 4; ++c) acc[i][c] *= shrink[c / 2];
        }
    }

    // acc += p * v over the granule at `values`.
    // bf16: acc[i][c] is column 8i + 2t + c % 2; e4m3: column 32 (i / 4) + 8t + 4 (c % 2) + i % 4.
    __device__ void mix(const float (&s)[TILES][4], uint32_t values, int lane) {
#pragma unroll
        for (int n = 0; n < TILES; n += 2) mix_block(s[n], s[n + 1], values + n * 8 * S::PITCH, lane);
    }

    __device__ void mix_block(const float (&low)[4], const float (&high)[4], uint32_t values, int lane) {
        uint32_t p[4];
        if constexpr (Cache::BYTES == 2) {
            p[0] = pack_bf16(low[0], low[1]), p[1] = pack_bf16(low[2], low[3]);
            p[2] = pack_bf16(high[0], high[1]), p[3] = pack_bf16(high[2], high[3]);
            uint32_t at = values + (lane & 15) * S::PITCH + (lane >> 4) * 16;
#pragma unroll
            for (int i = 0; i < DP / 16; ++i) {
                if (!EXACT && i * 16 >= dim) break;
                uint32_t v[4];
                ldmatrix_x4_trans(v, at + i * 32);
                mma_16816(acc[2 * i], p, v[0], v[1]);
                mma_16816(acc[2 * i + 1], p, v[2], v[3]);
            }
        } else {
            p[0] = pack_f16(low[0], low[1]), p[1] = pack_f16(low[2], low[3]);
            p[2] = pack_f16(high[0], high[1]), p[3] = pack_f16(high[2], high[3]);
            uint32_t at = values + (lane & 3) * 2 * S::PITCH + (lane / 4) * 4;
#pragma unroll
            for (int i = 0; i < DP / 32; ++i) {
                if (!EXACT && i * 32 >= dim) break;
                uint32_t a = load_shared(at + i * 32), b = load_shared(at + S::PITCH + i * 32);
                uint32_t c = load_shared(at + 8 * S::PITCH + i * 32), d = load_shared(at + 9 * S::PITCH + i * 32);
                // Bytes of two neighbouring keys side by side: each 16 bits is a column's pair.
                uint32_t ab = __byte_perm(a, b, 0x5140), cd = __byte_perm(c, d, 0x5140);
                mma_16816_f16(acc[4 * i], p, widen_fp8(ab), widen_fp8(cd));
                mma_16816_f16(acc[4 * i + 1], p, widen_fp8(ab >> 16), widen_fp8(cd >> 16));
                ab = __byte_perm(a, b, 0x7362), cd = __byte_perm(c, d, 0x7362);
                mma_16816_f16(acc[4 * i + 2], p, widen_fp8(ab), widen_fp8(cd));
                mma_16816_f16(acc[4 * i + 3], p, widen_fp8(ab >> 16), widen_fp8(cd >> 16));
            }
        }
    }

    // Leaves the warp's result in shared memory: ml[row], acc[row * ACC_PITCH + column].
    __device__ void leave(float2* ml, float* to, int rows, int lane) {
        int t = lane & 3;
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            float sum = l[h] + __shfl_xor_sync(0xffffffffu, l[h], 1);
            sum += __shfl_xor_sync(0xffffffffu, sum, 2);
            int row = lane / 4 + 8 * h;
            if (row >= rows) continue;
            if (t == 0) ml[row] = make_float2(m[h], sum);
            float* line = to + row * S::ACC_PITCH;
            if constexpr (Cache::BYTES == 2) {
#pragma unroll
                for (int i = 0; i < DP / 8; ++i)
                    *reinterpret_cast<float2*>(line + 8 * i + 2 * t) = make_float2(acc[i][2 * h], acc[i][2 * h + 1]);
            } else {
#pragma unroll
                for (int i = 0; i < DP / 8; i += 4)
#pragma unroll
                    for (int c = 0; c < 2; ++c)
                        *reinterpret_cast<float4*>(line + 8 * i + 8 * t + 4 * c) =
                            make_float4(acc[i][2 * h + c], acc[i + 1][2 * h + c], acc[i + 2][2 * h + c], acc[i + 3][2 * h + c]);
            }
        }
    }
};

__device__ __forceinline__ void add_scaled(float4& sum, float by, const float4& x) {
    sum.x = fmaf(by, x.x, sum.x), sum.y = fmaf(by, x.y, sum.y), sum.z = fmaf(by, x.z, sum.z), sum.w = fmaf(by, x.w, sum.w);
}

// Parts that a thread has on their way at a time when it merges splits out of device memory.
constexpr int LOADED = 12;

// A row's state from several parts, in ascending order.
struct Merge {
    float m = -INFINITY, l = 0.0f;
    float4 acc = make_float4(0.0f, 0.0f, 0.0f, 0.0f);

    template <int COUNT>
    __device__ void add(const float2 (&ml)[COUNT], const float4 (&part)[COUNT]) {
        float high = m;
#pragma unroll
        for (int i = 0; i < COUNT; ++i) high = fmaxf(high, ml[i].x);
        float base = high == -INFINITY ? 0.0f : high;
        float shrink = exp2_fast(m - base);
        l *= shrink;
        acc.x *= shrink, acc.y *= shrink, acc.z *= shrink, acc.w *= shrink;
#pragma unroll
        for (int i = 0; i < COUNT; ++i) {
            float by = exp2_fast(ml[i].x - base);
            l = fmaf(by, ml[i].y, l);
            add_scaled(acc, by, part[i]);
        }
        m = high;
    }

    __device__ uint2 finish(float v_scale) const {
        float by = __fdividef(v_scale, l);
        return make_uint2(pack_bf16(acc.x * by, acc.y * by), pack_bf16(acc.z * by, acc.w * by));
    }
};

// What is the same for all of a block's items.
struct Unit {
    int kv_head, tile, group, dim, index, count;
};

// The query token, counted from the item's first, of a tile's row.
__device__ __forceinline__ int token_of_row(const Unit& unit, const Item& item, int row) {
    return item.queries() == 1 ? 0 : (unit.tile * ROWS + row) / unit.group;
}

// Where a tile's row lies in q and out, in heads.
__device__ __forceinline__ int64_t head_of_row(const AttentionDecodeParams& p, const Unit& unit, const Item& item, int row) {
    int flat = unit.tile * ROWS + row, token = token_of_row(unit, item, row);
    return (static_cast<int64_t>(item.query_row) + token) * p.heads + unit.kv_head * unit.group + flat - token * unit.group;
}

// One thread's four columns of a row, merged over the warps.
template <class Cache, int DP>
__device__ __forceinline__ Merge merge_warps(const Layout<Cache, DP>& shared, int rows, int row, int column) {
    float2 ml[WARPS];
    float4 part[WARPS];
#pragma unroll
    for (int w = 0; w < WARPS; ++w) {
        ml[w] = shared.ml[w * ROWS + row];
        part[w] = *reinterpret_cast<const float4*>(shared.acc + (w * rows + row) * Sizes<Cache, DP>::ACC_PITCH + column);
    }
    Merge merge;
    merge.add(ml, part);
    return merge;
}

#if TM_HOPPER
// The address in block `rank` of the cluster of what lies at `address` here.
__device__ __forceinline__ uint32_t map_shared(uint32_t address, uint32_t rank) {
    uint32_t mapped;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(mapped) : "r"(address), "r"(rank));
    return mapped;
}

// Stores to another block of the cluster, and reports the bytes to its barrier.
__device__ __forceinline__ void send(uint32_t to, const float4& x, uint32_t barrier) {
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(to),
                 "f"(x.x), "f"(x.y), "f"(x.z), "f"(x.w), "r"(barrier)
                 : "memory");
}

__device__ __forceinline__ void send(uint32_t to, const float2& x, uint32_t barrier) {
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [%0], {%1, %2}, [%3];" ::"r"(to), "f"(x.x),
                 "f"(x.y), "r"(barrier)
                 : "memory");
}
#endif

// Merges the results of a cluster's blocks, in the order of the splits (a power of two). Each block merges a share of the
// columns: it is sent them, and all rows' maxima and sums, by every block, itself included.
template <class Cache, int DP>
__device__ __forceinline__ void finish_together(const AttentionDecodeParams& p, const Unit& unit, const Item& item, int rows,
                                                const Layout<Cache, DP>& shared) {
#if TM_HOPPER
    int vectors = unit.dim / 4, splits = item.splits(), rank = item.split(), bits = __ffs(splits) - 1;
    // Task i belongs to block i % splits, which is sent to it as its number i / splits.
    int tasks = rows * vectors, share = (tasks + splits - 1) >> bits, mine = (tasks + splits - 1 - rank) >> bits;
    uint32_t barrier = shared_address(shared.barrier);
    if (threadIdx.x == 0) mbarrier_arrive_expect(barrier, splits * (mine * sizeof(float4) + rows * sizeof(float2)));
    __syncwarp();
    cluster_wait();  // every block has its barrier by now
    for (int task = threadIdx.x; task < tasks; task += THREADS) {
        int row = task / vectors, column = task % vectors * 4, owner = task & (splits - 1);
        Merge merge = merge_warps(shared, rows, row, column);
        uint32_t to = shared_address(shared.peer_acc + rank * share + (task >> bits));
        send(map_shared(to, owner), merge.acc, map_shared(barrier, owner));
        if (column > 0) continue;
        to = shared_address(shared.peer_ml + rank * ROWS + row);
        for (int peer = 0; peer < splits; ++peer)
            send(map_shared(to, peer), make_float2(merge.m, merge.l), map_shared(barrier, peer));
    }
    mbarrier_wait(barrier, 0);
    for (int at = threadIdx.x; at < mine; at += THREADS) {
        int task = (at << bits) + rank, row = task / vectors, column = task % vectors * 4;
        float2 ml[MAX_CLUSTER];
        float4 part[MAX_CLUSTER];
#pragma unroll
        for (int i = 0; i < MAX_CLUSTER; ++i) {
            bool there = i < splits;
            ml[i] = there ? shared.peer_ml[i * ROWS + row] : make_float2(-INFINITY, 0.0f);
            part[i] = there ? shared.peer_acc[i * share + at] : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        }
        Merge merge;
        merge.add(ml, part);
        bf16* to = p.out + head_of_row(p, unit, item, row) * unit.dim + column;
        *reinterpret_cast<uint2*>(to) = merge.finish(p.v_scale);
    }
#endif
}

// Merges the warps' results; a sequence in several stretches goes through device memory.
template <class Cache, int DP>
__device__ __forceinline__ void finish(const AttentionDecodeParams& p, const Unit& unit, const Item& item, int rows,
                                       const Layout<Cache, DP>& shared) {
    int vectors = unit.dim / 4, splits = item.splits();
    int64_t line = ((static_cast<int64_t>(item.partial) + item.split()) * unit.count + unit.index) * p.unit_rows;
    for (int task = threadIdx.x; task < rows * vectors; task += THREADS) {
        int row = task / vectors, column = task % vectors * 4;
        Merge merge = merge_warps(shared, rows, row, column);
        if (splits == 1) {
            bf16* to = p.out + head_of_row(p, unit, item, row) * unit.dim + column;
            *reinterpret_cast<uint2*>(to) = merge.finish(p.v_scale);
        } else {
            __stcg(reinterpret_cast<float4*>(p.partial_acc + (line + row) * unit.dim + column), merge.acc);
            if (column == 0) __stcg(p.partial_ml + line + row, make_float2(merge.m, merge.l));
        }
    }
    if (splits == 1) return;

    __syncthreads();
    if (threadIdx.x == 0) {
        uint32_t* counter = p.counters + static_cast<int64_t>(item.partial) * unit.count + unit.index;
        __threadfence();
        bool last = atomicAdd(counter, 1u) == static_cast<uint32_t>(splits - 1);
        __threadfence();
        if (last) *counter = 0;
        *shared.flag = last;
    }
    __syncthreads();
    if (!*shared.flag) return;

    int64_t first = (static_cast<int64_t>(item.partial) * unit.count + unit.index) * p.unit_rows;
    int64_t stride = static_cast<int64_t>(unit.count) * p.unit_rows;
    for (int task = threadIdx.x; task < rows * vectors; task += THREADS) {
        int row = task / vectors, column = task % vectors * 4;
        Merge merge;
        for (int from = 0; from < splits; from += LOADED) {
            float2 ml[LOADED];
            float4 part[LOADED];
#pragma unroll
            for (int i = 0; i < LOADED; ++i) {
                bool there = from + i < splits;
                int64_t at = first + (from + i) * stride + row;
                ml[i] = there ? __ldcg(p.partial_ml + at) : make_float2(-INFINITY, 0.0f);
                part[i] = there ? __ldcg(reinterpret_cast<const float4*>(p.partial_acc + at * unit.dim + column))
                                : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            }
            merge.add(ml, part);
        }
        bf16* to = p.out + head_of_row(p, unit, item, row) * unit.dim + column;
        *reinterpret_cast<uint2*>(to) = merge.finish(p.v_scale);
    }
}

// Puts eight elements of a query row into shared memory: bf16, or f16 over a power of two that fits the row's largest.
// All lanes of a warp take part, `lanes` of them for each row; those that have nothing carry zeros and store nothing.
template <class Cache, int DP>
__device__ __forceinline__ void store_query(const Layout<Cache, DP>& shared, int row, int v, int lanes, bool store,
                                            const float (&x)[8]) {
    uint4* to = reinterpret_cast<uint4*>(shared.q + row * Sizes<Cache, DP>::Q_PITCH + v * 16);
    if constexpr (Cache::BYTES == 2) {
        if (!store) return;
        *to = make_uint4(pack_bf16(x[0], x[1]), pack_bf16(x[2], x[3]), pack_bf16(x[4], x[5]), pack_bf16(x[6], x[7]));
    } else {
        float high = 0.0f;
#pragma unroll
        for (int i = 0; i < 8; ++i) high = fmaxf(high, fabsf(x[i]));
        for (int lane = lanes / 2; lane > 0; lane /= 2) high = fmaxf(high, __shfl_xor_sync(0xffffffffu, high, lane));
        // The exponent alone, kept away from the ends so that its inverse is a number too; infinities and NaN stay.
        uint32_t exponent = min(max(__float_as_uint(high) >> 23, 64u), 190u);
        float up = __uint_as_float(exponent << 23), down = __uint_as_float((254u - exponent) << 23);
        if (!store) return;
        *to = make_uint4(pack_f16(x[0] * down, x[1] * down), pack_f16(x[2] * down, x[3] * down),
                         pack_f16(x[4] * down, x[5] * down), pack_f16(x[6] * down, x[7] * down));
        if (v == 0) shared.q_scale[row] = up;
    }
}

// Queries of an item to shared memory, as they are; zeros beyond.
template <class Cache, int DP>
__device__ __forceinline__ void stage_queries(const AttentionDecodeParams& p, const Unit& unit, const Item& item, int rows,
                                              const Layout<Cache, DP>& shared) {
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    float x[ROWS / WARPS][8];
#pragma unroll
    for (int i = 0; i < ROWS / WARPS; ++i) {
        int row = warp + WARPS * i;
#pragma unroll
        for (int e = 0; e < 8; ++e) x[i][e] = 0.0f;
        if (row < rows && 8 * lane < unit.dim) load_bf16x8(x[i], p.q + head_of_row(p, unit, item, row) * unit.dim + 8 * lane);
    }
#pragma unroll
    for (int i = 0; i < ROWS / WARPS; ++i) store_query(shared, warp + WARPS * i, lane, 32, 8 * lane < DP, x[i]);
}

// The rotation at an item's position, to shared memory.
template <class Cache, int DP>
__device__ __forceinline__ void stage_turns(const AttentionDecodeParams& p, const Item& item, const Layout<Cache, DP>& shared) {
    int half = p.half, table = p.regimes != nullptr ? p.regimes[item.query_row] : 0;
    for (int i = threadIdx.x; i < half; i += THREADS)
        shared.turns[i] = rotation(p.positions[item.query_row], p.inv_freq[table * half + i], p.factors[table]);
}

// What the preparation of a block's first item reads, in registers: asked for early, so that these loads are on their way beside
// those of the item and of its table, and left in shared memory before the queries are there.
template <class Cache, int DP>
struct Early {
    static constexpr int PER = (DP + THREADS - 1) / THREADS;
    float q_weight[PER], k_weight[PER];
    float inv_freq, factor;
    int position;

    __device__ __forceinline__ void ask_weights(const AttentionDecodeParams& p, int dim) {
#pragma unroll
        for (int i = 0; i < PER; ++i) {
            int at = threadIdx.x + i * THREADS;
            bool there = p.q_weight != nullptr && at < dim;
            q_weight[i] = there ? p.q_weight[at] : 0.0f;
            k_weight[i] = there ? p.k_weight[at] : 0.0f;
        }
    }

    __device__ __forceinline__ void ask_turn(const AttentionDecodeParams& p, const Item& item) {
        int half = p.half, at = threadIdx.x;
        if (at >= half) return;
        int table = p.regimes != nullptr ? p.regimes[item.query_row] : 0;
        position = p.positions[item.query_row];
        inv_freq = p.inv_freq[table * half + at];
        factor = p.factors[table];
    }

    __device__ __forceinline__ void leave(const AttentionDecodeParams& p, int dim, const Layout<Cache, DP>& shared) const {
#pragma unroll
        for (int i = 0; i < PER; ++i) {
            int at = threadIdx.x + i * THREADS;
            if (at < dim) shared.weights[at] = q_weight[i], shared.weights[DP + at] = k_weight[i];
        }
        if (threadIdx.x < p.half) shared.turns[threadIdx.x] = rotation(position, inv_freq, factor);
    }
};

// Queries of an item out of the projection, normed and rotated; where the item ends its sequence, its key and value too,
// into the cache and into `fresh`. 2^lane_bits lanes a head. Rows beyond the queries stay the zeros that they were.
template <class Cache, int DP>
__device__ __forceinline__ void stage_projection(const AttentionDecodeParams& p, const Unit& unit, const Item& item, int rows,
                                                 const Layout<Cache, DP>& shared) {
    int lanes = 1 << p.lane_bits, v = threadIdx.x & (lanes - 1), groups = THREADS >> p.lane_bits, dim = unit.dim;
    int wanted = item.split() == item.splits() - 1 ? rows + 2 : rows;  // queries, then key and value
    const bf16* token = p.q + static_cast<int64_t>(item.query_row) * (p.heads + 2 * p.kv_heads) * dim;
    for (int base = 0; base < wanted; base += groups) {
        int row = base + (threadIdx.x >> p.lane_bits), part = row - rows;
        bool is_q = row < rows, valid = row < wanted && 8 * v < dim;
        int head = is_q ? unit.kv_head * unit.group + unit.tile * ROWS + row : p.heads + part * p.kv_heads + unit.kv_head;
        int half = part == 1 ? 0 : p.half;
        const float* weight = p.q_weight == nullptr || part == 1 ? nullptr : shared.weights + (is_q ? 0 : DP);
        HeadVector x = {};
        if (valid) head_load(x, token + static_cast<int64_t>(head) * dim, v, half);
        float sum = sum_of_squares(x.own);
        for (int lane = lanes / 2; lane > 0; lane /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, lane);
        if (valid) head_finish(x, v, half, rsqrtf(sum / dim + p.eps), weight, shared.turns);
        store_query(shared, min(row, ROWS - 1), v, lanes, is_q && valid, x.own);
        if (!valid || is_q) continue;
        float inverse = 1.0f / (part == 0 ? p.k_scale : p.v_scale);
        store_cached<Cache>(shared.fresh + part * Sizes<Cache, DP>::PITCH + 8 * v * Cache::BYTES, x.own, inverse);
        if (unit.tile > 0) continue;
        int64_t block = p.tables[item.table_at + item.position / BLOCK_TOKENS - item.first_block];
        int64_t at = ((block * 2 + part) * p.kv_heads + unit.kv_head) * BLOCK_TOKENS + item.position % BLOCK_TOKENS;
        store_cached<Cache>(p.arena + (at * dim + 8 * v) * Cache::BYTES, x.own, inverse);
    }
}

// The keys that an item's rows see: row 0 sees from ..= position; a row of a later token sees as many more at both ends. No
// row sees beyond the item's own blocks.
struct Sight {
    int position, last, end, window;

    __device__ Sight(const Item& item, uint32_t window)
        : position(item.position),
          last(item.position + item.queries() - 1),
          end((item.first_block + item.blocks) * BLOCK_TOKENS),
          window(window) {}
    __device__ int from(int at) const { return window == 0 ? 0 : max(0, at - window + 1); }
    __device__ int to(int at) const { return min(at, end - 1); }
    // Whether some row does not see some of the `keys` keys from `key` on.
    __device__ bool ragged(int key, int keys) const { return key < from(last) || key + keys - 1 > to(position); }
    __device__ bool hidden(int key) const { return key < from(position) || key > to(last); }
};

// One warp's share of an item.
template <class Cache, int DP, bool EXACT, bool FUSED>
__device__ __forceinline__ void walk(const AttentionDecodeParams& p, const Unit& unit, const Item& item, char* ring,
                                     const char* fresh, Loader<Cache, DP, EXACT>& loader, Pass<Cache, DP, EXACT>& pass) {
    using S = Sizes<Cache, DP>;
    constexpr int TILES = S::KEYS / 8;
    Sight sight(item, p.window);
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int from[2], to[2];  // the keys that the thread's rows see
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        int at = min(item.position + token_of_row(unit, item, lane / 4 + 8 * h), sight.last);
        from[h] = sight.from(at), to[h] = sight.to(at);
    }
    int slot = 0;
    auto next_slot = [&] { slot = slot + 1 == S::STAGES ? 0 : slot + 1; };
    for (int i = 0; i < loader.granules; ++i) {
        int key = item.first_block * BLOCK_TOKENS + (warp + WARPS * i) * S::KEYS;
        bool ragged = sight.ragged(key, S::KEYS);
        bool appended = FUSED && item.position < sight.end && static_cast<uint32_t>(item.position - key) < S::KEYS;
        cp_async_wait<S::STAGES - 1>();
        __syncwarp();
        if (appended) {
            char* line = ring + slot * S::GRANULE + (item.position - key) * S::PITCH;
            for (int at = lane * 8; at < unit.dim * Cache::BYTES; at += 256)
                *reinterpret_cast<uint2*>(line + at) = *reinterpret_cast<const uint2*>(fresh + at);
            __syncwarp();
        }
        float s[TILES][4];
        pass.scores(s, shared_address(ring + slot * S::GRANULE), lane);
        __syncwarp();
        loader.request();
        next_slot();
        if (p.softcap != 0.0f) {
#pragma unroll
            for (int n = 0; n < TILES; ++n)
#pragma unroll
                for (int c = 0; c < 4; ++c) s[n][c] = soft_cap(s[n][c], p.softcap) * LOG2E;
        }
        if (ragged) {
#pragma unroll
            for (int n = 0; n < TILES; ++n)
#pragma unroll
                for (int c = 0; c < 4; ++c) {
                    int at = key + 8 * n + 2 * (lane & 3) + c % 2;
                    if (at > to[c / 2] || at < from[c / 2]) s[n][c] = -INFINITY;
                }
        }
        pass.soften(s);
        cp_async_wait<S::STAGES - 1>();
        __syncwarp();
        if (ragged || appended) {
            char* values = ring + slot * S::GRANULE;
            // Slots that nobody sees may hold anything, NaN too, and zero times NaN is NaN.
            for (int row = lane / 2; row < S::KEYS; row += 16)
                if (sight.hidden(key + row))
                    for (int at = lane % 2 * 16; at < S::PITCH; at += 32)
                        *reinterpret_cast<uint4*>(values + row * S::PITCH + at) = make_uint4(0, 0, 0, 0);
            if (appended)
                for (int at = lane * 8; at < unit.dim * Cache::BYTES; at += 256)
                    *reinterpret_cast<uint2*>(values + (item.position - key) * S::PITCH + at) =
                        *reinterpret_cast<const uint2*>(fresh + S::PITCH + at);
            __syncwarp();
        }
        pass.mix(s, shared_address(ring + slot * S::GRANULE), lane);
        __syncwarp();
        loader.request();
        next_slot();
    }
}

// Zeros what is read but never written: the tile's empty rows, and the columns between the head's width and DP. Queries that
// are staged whole are written by other threads before the next barrier: nothing of theirs may be touched here.
template <class Cache, int DP, bool EXACT, bool FUSED>
__device__ __forceinline__ void clear(const Layout<Cache, DP>& shared, char* ring) {
    if constexpr (FUSED) {
        for (int at = threadIdx.x * 16; at < ROWS * Sizes<Cache, DP>::Q_PITCH; at += THREADS * 16)
            *reinterpret_cast<uint4*>(shared.q + at) = make_uint4(0, 0, 0, 0);
        if (threadIdx.x < ROWS) shared.q_scale[threadIdx.x] = 1.0f;
    }
    if constexpr (!EXACT) {
        for (int at = threadIdx.x % 32 * 16; at < Sizes<Cache, DP>::RING; at += 512)
            *reinterpret_cast<uint4*>(ring + at) = make_uint4(0, 0, 0, 0);
        __syncwarp();
    }
}

template <class Cache, int DP, bool EXACT, bool FUSED>
__device__ __forceinline__ void attention_decode(const AttentionDecodeParams& p) {
    extern __shared__ __align__(128) char memory[];
    using S = Sizes<Cache, DP>;
    Layout<Cache, DP> shared(memory, p.unit_rows, FUSED);
#if TM_HOPPER
    if (p.cluster > 1) {
        if (threadIdx.x == 0) {
            mbarrier_init(shared_address(shared.barrier), 1);
            mbarrier_init_fence();
        }
        __syncwarp();
        cluster_arrive();
    }
#endif
    Early<Cache, DP> early;
    if constexpr (FUSED) early.ask_weights(p, EXACT ? DP : p.head_dim);
    Item item = p.items[blockIdx.x];
    Unit unit;
    unit.group = p.heads / p.kv_heads;
    unit.index = blockIdx.y, unit.count = gridDim.y;
    int tiles = unit.count / p.kv_heads;
    unit.kv_head = unit.index / tiles, unit.tile = unit.index % tiles;
    unit.dim = EXACT ? DP : p.head_dim;
    auto rows_of = [&](const Item& item) { return min(ROWS, item.queries() * unit.group - unit.tile * ROWS); };
    // The next item from `item` on in which this tile has rows; one of no blocks where there is none.
    auto skip_empty = [&](Item& item) {
        while (item.blocks != 0 && rows_of(item) <= 0) {
            if (item.next == 0) {
                item.blocks = 0;
            } else {
                item = p.items[item.next];
            }
        }
    };
    skip_empty(item);
    if (item.blocks == 0) {
        // One block at least must outlast the previous kernel, or the next one could overtake it.
        if (blockIdx.x == 0) pdl_wait();
        return;
    }
    if (p.early) pdl_launch();
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    char* ring = shared.ring + warp * S::RING;
    clear<Cache, DP, EXACT, FUSED>(shared, ring);

    Loader<Cache, DP, EXACT> loader;
    loader.tables = p.tables;
    int64_t head_bytes = static_cast<int64_t>(BLOCK_TOKENS) * unit.dim * Cache::BYTES;
    loader.arena = p.arena + unit.kv_head * head_bytes;
    loader.half_stride = head_bytes * p.kv_heads;
    loader.ring = shared_address(ring);
    loader.dim = unit.dim, loader.warp = warp, loader.lane = lane;
    if constexpr (FUSED) early.ask_turn(p, item);
    loader.start(item);
    // What earlier steps wrote needs no waiting for; fused, the step's own tokens are never read from the cache.
    auto settled = [&] {
        int end = (item.first_block + loader.next_end()) * BLOCK_TOKENS;
        return FUSED || end <= item.position;
    };
    // Fused, the last stage waits for the queries to be asked for, which would be served behind it.
    constexpr int AHEAD = FUSED ? S::STAGES - 1 : S::STAGES;
    while (loader.requested < AHEAD && settled()) loader.request();
    if constexpr (FUSED) early.leave(p, unit.dim, shared);
    pdl_wait();
    while (loader.requested < AHEAD) loader.request();
    // The next kernel comes in when this block has asked for all that it reads: earlier, it takes bandwidth and memory away, but
    // for large products behind few tokens, which have the more of their weights there when this is done.
    bool asked = p.early || item.next == 0 && item.blocks * 2 <= S::STAGES * WARPS * S::BLOCKS;
    if (asked && !p.early) pdl_launch();

    Pass<Cache, DP, EXACT> pass;
    pass.dim = unit.dim;
    float score_scale = p.scale * p.k_scale * (p.softcap != 0.0f ? 1.0f : LOG2E);
    for (bool first = true;; first = false) {
        int rows = rows_of(item);
        if constexpr (FUSED) {
            if (!first) stage_turns(p, item, shared);
            __syncthreads();
            stage_projection(p, unit, item, rows, shared);
        } else {
            stage_queries(p, unit, item, rows, shared);
        }
        Item next = item;
        next.blocks = 0;
        if (item.next != 0) next = p.items[item.next];
        skip_empty(next);
        while (loader.requested < S::STAGES) loader.request();
        __syncthreads();
        pass.start(shared_address(shared.q), shared.q_scale, score_scale, lane);
        walk<Cache, DP, EXACT, FUSED>(p, unit, item, ring, shared.fresh, loader, pass);
        if (!asked && next.blocks == 0) pdl_launch();
        pass.leave(shared.ml + warp * ROWS, shared.acc + warp * rows * S::ACC_PITCH, rows, lane);
        if (next.blocks != 0) {
            loader.start(next);
            while (loader.requested < S::STAGES) loader.request();
        }
        __syncthreads();
        if (item.together()) {
            finish_together(p, unit, item, rows, shared);
        } else {
            finish(p, unit, item, rows, shared);
        }
        if (next.blocks == 0) return;
        item = next;
    }
}

#define ENTRY(NAME, CACHE, COUNT, DP, EXACT, FUSED)                                       \
    extern "C" __global__ void __launch_bounds__(THREADS, COUNT)                          \
        attention_decode_##NAME(const __grid_constant__ AttentionDecodeParams p) {        \
        attention_decode<Shared<CACHE, COUNT>, DP, EXACT, FUSED>(p);                      \
    }
#define ENTRIES(SIZE, DP, EXACT)                                  \
    ENTRY(bf16_##SIZE, Bf16Cache, 2, DP, EXACT, false)            \
    ENTRY(fp8_##SIZE, Fp8Cache, 2, DP, EXACT, false)              \
    ENTRY(fused_bf16_##SIZE, Bf16Cache, 2, DP, EXACT, true)       \
    ENTRY(fused_fp8_##SIZE, Fp8Cache, 2, DP, EXACT, true)

ENTRY(dense_bf16_64, Bf16Cache, 4, 64, true, true)
ENTRY(dense_bf16_128, Bf16Cache, 4, 128, true, true)
ENTRIES(64, 64, true)
ENTRIES(128, 128, true)
ENTRIES(256, 256, true)
ENTRIES(upto_96, 96, false)
ENTRIES(upto_256, 256, false)
