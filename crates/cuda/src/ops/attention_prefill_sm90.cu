// attention_prefill_sm90.cu   the formula, shapes and limits of attention_prefill.cu, for Hopper
//
// mapping   one block of 3 warpgroups an SM works off its share of the tiles (128 query rows each). One warp brings keys and
//           values: a cache block's rows of one head are one box of a tensor map, and eight boxes stack to a tile of 128 keys
//           (64 at head_dim 256). Two stages of keys and two of values. Three warps bring queries, a tile ahead. (An fp8 cache
//           is read and widened by all four warps instead.) Two warpgroups own 64 rows each: scores by wgmma from shared
//           memory, probabilities stay in registers as the second product's operand. While a warpgroup turns scores into
//           probabilities, the tensor cores have the products of the other one, and its own product with the values
//           before. The walk over (tile, key tile) is one loop: the first scores of a tile are computed beside
//           the last product of the one before, so that short tiles leave no gaps.
//           Few tiles with many keys are split along the keys, so that all SMs have work. A warp leaves its part of such a tile
//           in global memory; the warp whose part is there last merges them, in the order of the keys.
//           Shared memory, columns in groups of 64 (rows of 128 bytes, 128-byte swizzle):
//           [Q: stage, warpgroup, group, 64 rows][K, V: stage, eight keys, group, key][O: warp, 16 rows][barriers]
//           (head_dim 80 and 96, whose groups are not whole: K, V: stage, group, key; a box a group)
// numerics  as attention_prefill.cu, with key tiles of 128 (64 at head_dim 256), anchored at the sequence's token 0
// bound     tensor cores: 8000 tokens, 32 heads of 128: 0.52 TFLOP, 0.67 ms at 780 TFLOP/s
// limits    head_dim 64, 80, 96, 128, 256
// measured  benches/baselines/h200.jsonl
#include "attention_prefill.cuh"
#include "wgmma.cuh"

namespace attention_prefill {

// Mirrored by `HopperParams` in attention_prefill.rs.
struct __align__(64) HopperParams {
    // Tensor map of the layer's cache, [block][2 * kv_heads * 16 rows][head_dim]: dimensions as written where columns are whole
    // groups [block][row / 8][column / 64][row % 8][column % 64], so that a box is a block's rows of one head.
    uint8_t cache[128];
    Params p;
};
static_assert(sizeof(HopperParams) == 320);

#if TM_WGMMA

constexpr int STAGES = 2;
constexpr int CONSUMERS = 2;  // warpgroups
constexpr int ROWS_EACH = 64;

// Where things lie in shared memory.
template <int DIM>
struct Layout {
    static constexpr int GROUPS = (DIM + 63) / 64;
    static constexpr int KEYS = DIM <= 128 ? 128 : 64;
    static constexpr int Q_STAGES = DIM <= 128 ? 2 : 1;
    // Keys and values lie [key / 8][group][key % 8] where groups are whole, else [group][key].
    static constexpr bool WHOLE = DIM % 64 == 0;
    static constexpr uint32_t EIGHT = (WHOLE ? GROUPS : 1) * 1024;  // from eight keys to the next
    static constexpr uint32_t GROUP = WHOLE ? 1024 : KEYS * 128;    // from group to group
    static constexpr int LANES = WHOLE ? 1 : GROUPS;                // boxes a cache block
    static constexpr uint32_t O_EACH = DIM <= 128 ? 4096 : 0;       // a warp's 16 rows of the result
    static constexpr uint32_t Q_EACH = GROUPS * ROWS_EACH * 128;
    static constexpr uint32_t TILE = GROUPS * KEYS * 128;  // one stage of keys, or of values
    static constexpr uint32_t K = Q_STAGES * CONSUMERS * Q_EACH;
    static constexpr uint32_t V = K + STAGES * TILE;
    static constexpr uint32_t O = V + STAGES * TILE;
    static constexpr uint32_t BARRIERS = O + 4 * CONSUMERS * O_EACH;
    uint32_t base;  // aligned to 1024

    __device__ uint32_t q(int stage, int warpgroup) const { return base + (stage * CONSUMERS + warpgroup) * Q_EACH; }
    __device__ uint32_t k(int stage) const { return base + K + stage * TILE; }
    __device__ uint32_t v(int stage) const { return base + V + stage * TILE; }
    // Place in a tile of 16 bytes of a key or its value: columns 8 chunk on.
    static __device__ uint32_t place(int key, int chunk) {
        return key / 8 * EIGHT + chunk / 8 * GROUP + key % 8 * 128 + (chunk % 8 ^ key % 8) * 16;
    }
    __device__ uint32_t o(int warp) const { return base + O + warp * O_EACH; }
    __device__ uint32_t barrier(int which, int stage) const { return base + BARRIERS + (which * 2 + stage) * 8; }
    __device__ uint32_t k_full(int stage) const { return barrier(0, stage); }
    __device__ uint32_t k_empty(int stage) const { return barrier(1, stage); }
    __device__ uint32_t v_full(int stage) const { return barrier(2, stage); }
    __device__ uint32_t v_empty(int stage) const { return barrier(3, stage); }
    __device__ uint32_t q_full(int stage) const { return barrier(4, stage); }
    __device__ uint32_t q_empty(int stage) const { return barrier(5, stage); }
};

// Stage and phase of the n-th use of a ring.
template <int LENGTH>
struct Ring {
    uint32_t n = 0;
    __device__ int stage() const { return n % LENGTH; }
    __device__ uint32_t phase() const { return n / LENGTH % 2; }
};

// What the rows of a tile see.
template <int DIM, bool SPLIT>
struct Sight {
    int lowest, far;  // first key of the first token, last key of the last: its own
    int first, last;  // first keys of the first and last tile of keys to go through: those they lie in, or nearer ones in a part
    __device__ Sight(const Params& p, const Tile& tile) {
        lowest = max(0, tile.position - p.window + 1);
        far = tile.position + tile.tokens() - 1;
        first = SPLIT ? tile.first : lowest / Layout<DIM>::KEYS * Layout<DIM>::KEYS;
        last = SPLIT ? tile.last : far / Layout<DIM>::KEYS * Layout<DIM>::KEYS;
    }
    // Whether the tile of keys from `key` on holds the first, or the last, that anybody sees.
    __device__ bool has_lowest(int key) const { return SPLIT ? key <= lowest : key == first; }
    __device__ bool has_far(int key) const { return SPLIT ? key + Layout<DIM>::KEYS > far : key == last; }
};

__device__ __forceinline__ void named_sync(int barrier, int threads) {
    asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

__device__ __forceinline__ void named_arrive(int barrier, int threads) {
    asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

__device__ __forceinline__ void tensor_copy_5d(uint32_t to, const void* map, int row, int block, uint32_t barrier) {
    asm volatile(
        "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %2, %2, %3, %4}], [%5];" ::"r"(
            to),
        "l"(map), "r"(0), "r"(row), "r"(block), "r"(barrier)
        : "memory");
}

__device__ __forceinline__ void tensor_copy_3d(uint32_t to, const void* map, int x, int y, int z, uint32_t barrier) {
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5];" ::"r"(
            to),
        "l"(map), "r"(x), "r"(y), "r"(z), "r"(barrier)
        : "memory");
}

// One warp: the boxes of one tile of keys or values, each of the 16 rows from `row` on of a lane's block: the engine's time goes
// by boxes, not by bytes. Blocks that nobody sees, whose table entries may not exist, are asked for before the tensor's first,
// which gives zeros.
template <int DIM>
__device__ __forceinline__ void fetch(const uint8_t* map, uint32_t to, uint32_t full, int block, int row) {
    constexpr int KEYS = Layout<DIM>::KEYS, LANES = Layout<DIM>::LANES;
    int lane = threadIdx.x % 32, group = lane % LANES, place = lane / LANES * BLOCK_SIZE;
    if (lane == 0) mbarrier_arrive_expect(full, Layout<DIM>::TILE);
    __syncwarp();
    if (place >= KEYS) return;
    if constexpr (Layout<DIM>::WHOLE) {
        tensor_copy_5d(to + place / 8 * Layout<DIM>::EIGHT, map, row / 8, block, full);
    } else {
        tensor_copy_3d(to + group * Layout<DIM>::GROUP + place * 128, map, group * 64, row, block, full);
    }
}

template <int DIM, bool SPLIT>
__device__ __forceinline__ void bring_keys(const HopperParams& params, const Layout<DIM>& shared) {
    constexpr int KEYS = Layout<DIM>::KEYS;
    static_assert(KEYS / BLOCK_SIZE * Layout<DIM>::LANES <= 32);
    const Params& p = params.p;
    const int mine = threadIdx.x % 32 / Layout<DIM>::LANES * BLOCK_SIZE;  // first key of this lane's block in a tile
    const int end = p.shares[blockIdx.x + 1];
    int index = p.shares[blockIdx.x];
    Tile next = p.tiles[index];
    const int32_t* next_table = p.table(next.sequence);
    Ring<STAGES> ring;
    while (index < end) {
        const Tile tile = next;
        const int32_t* table = next_table;
        const Sight<DIM, SPLIT> sight(p, tile);
        const int row = tile.head() / p.heads_per_group * BLOCK_SIZE;
        index++;
        for (int key = sight.last; key >= sight.first; key -= KEYS, ring.n++) {
            int begin = key + mine, block = -1;
            if (mine < KEYS && begin <= sight.far && begin + BLOCK_SIZE > sight.lowest) block = table[begin / BLOCK_SIZE];
            mbarrier_wait(shared.k_empty(ring.stage()), ring.phase() ^ 1);
            fetch<DIM>(params.cache, shared.k(ring.stage()), shared.k_full(ring.stage()), block, row);
            mbarrier_wait(shared.v_empty(ring.stage()), ring.phase() ^ 1);
            fetch<DIM>(params.cache, shared.v(ring.stage()), shared.v_full(ring.stage()), block, row + p.kv_heads * BLOCK_SIZE);
            if (key == sight.last && index < end) {
                next = p.tiles[index];
                next_table = p.table(next.sequence);
            }
        }
    }
}

// Some threads: a tile's queries, swizzled by hand; zeros for rows that the tile does not have.
template <int DIM, int THREADS>
__device__ __forceinline__ void load_queries(const Params& p, const Layout<DIM>& shared, const Tile& tile, int stage, int thread) {
    constexpr int CHUNKS = DIM / 8;
    const Rows rows(tile);
    const bf16* from = p.q + tile.row * p.q_stride + tile.head() * DIM;
#pragma unroll 2
    for (int i = thread; i < CONSUMERS * ROWS_EACH * CHUNKS; i += THREADS) {
        int row = i / CHUNKS, chunk = i % CHUNKS, local = row % ROWS_EACH;
        bool valid = rows.has(row);
        int64_t at = valid ? rows.token(row) * p.q_stride + rows.head(row) * DIM + chunk * 8 : 0;
        uint32_t place = shared.q(stage, row / ROWS_EACH) + chunk / 8 * (ROWS_EACH * 128) + local * 128;
        cp_async_16(place + ((chunk % 8 ^ local % 8) << 4), from + at, valid);
    }
    cp_async_commit();
    cp_async_wait<0>();
    fence_async_shared();
}

constexpr int QUERY_THREADS = 96, WIDEN_THREADS = 128;

// Three warps: the queries of tile after tile.
template <int DIM>
__device__ __forceinline__ void bring_queries(const Params& p, const Layout<DIM>& shared) {
    const int end = p.shares[blockIdx.x + 1];
    Ring<Layout<DIM>::Q_STAGES> ring;
    for (int index = p.shares[blockIdx.x]; index < end; index++, ring.n++) {
        const Tile tile = p.tiles[index];
        mbarrier_wait(shared.q_empty(ring.stage()), ring.phase() ^ 1);
        load_queries<DIM, QUERY_THREADS>(p, shared, tile, ring.stage(), threadIdx.x - 32);
        mbarrier_arrive(shared.q_full(ring.stage()));
    }
}

// A part of one tile of keys or values of an fp8 cache, 16 elements at a time. Eight neighbouring threads have eight rows of one
// column: their places lie in different banks.
template <int DIM>
struct Widening {
    static constexpr int KEYS = Layout<DIM>::KEYS, CHUNKS = DIM / 16, ALL = KEYS * CHUNKS / WIDEN_THREADS;
    static constexpr int PARTS = ALL <= 6 ? 1 : DIM <= 128 ? 2 : 4, EACH = ALL / PARTS;  // what registers hold
    // A thread has one column of some rows; where columns do not divide the threads, all columns of one row.
    static constexpr bool BY_ROW = 16 % CHUNKS != 0;
    static constexpr int ROW_STEP = BY_ROW ? 0 : 16 / CHUNKS * 8;
    static_assert(ALL * WIDEN_THREADS == KEYS * CHUNKS && (!BY_ROW || KEYS == WIDEN_THREADS));
    uint4 raw[EACH];

    static __device__ __forceinline__ int row() {
        return BY_ROW ? threadIdx.x : threadIdx.x / 8 / CHUNKS * 8 + threadIdx.x % 8;
    }
    static __device__ __forceinline__ int chunk(int u) { return BY_ROW ? u : threadIdx.x / 8 % CHUNKS; }

    // Zeros for keys that nobody sees; `head_row`: the head's first row in a block.
    template <class SIGHT>
    __device__ __forceinline__ void read(const Params& p, const int32_t* table, const SIGHT& sight, int key, int head_row,
                                         int part) {
#pragma unroll
        for (int u = 0; u < EACH; u++) {
            int k = key + row() + (part * EACH + u) * ROW_STEP;
            raw[u] = make_uint4(0, 0, 0, 0);
            if (k >= sight.lowest && k <= sight.far) {
                int64_t at = table[k / BLOCK_SIZE] * p.block_stride + (head_row + k % BLOCK_SIZE) * DIM + chunk(u) * 16;
                raw[u] = *reinterpret_cast<const uint4*>(static_cast<const uint8_t*>(p.kv) + at);
            }
        }
    }

    __device__ __forceinline__ void write(uint32_t to, int part) const {
        constexpr int GROUP = Layout<DIM>::GROUP, EIGHT = Layout<DIM>::EIGHT;
#pragma unroll
        for (int u = 0; u < EACH; u++) {
            // The two places differ in one bit of the swizzled column.
            int first = 2 * chunk(u), column = first % 8 ^ row() % 8, r = row() + (part * EACH + u) * ROW_STEP;
            uint32_t place = to + first / 8 * GROUP + r / 8 * EIGHT + r % 8 * 128;
            uint2 a = widen4(raw[u].x), b = widen4(raw[u].y);
            asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(place + column * 16), "r"(a.x), "r"(a.y), "r"(b.x), "r"(b.y)
                         : "memory");
            a = widen4(raw[u].z), b = widen4(raw[u].w);
            asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(place + (column ^ 1) * 16), "r"(a.x), "r"(a.y), "r"(b.x),
                         "r"(b.y)
                         : "memory");
        }
    }
};

// Reads and widens a tile, the first part of it while its place is not free yet.
template <int DIM, class SIGHT>
__device__ __forceinline__ void widen(const Params& p, const int32_t* table, const SIGHT& sight, int key, int head_row,
                                      uint32_t to, uint32_t empty, uint32_t phase, uint32_t full) {
    Widening<DIM> part;
#pragma unroll 1
    for (int i = 0; i < Widening<DIM>::PARTS; i++) {
        part.read(p, table, sight, key, head_row, i);
        if (i == 0) mbarrier_wait(empty, phase ^ 1);
        part.write(to, i);
    }
    fence_async_shared();
    mbarrier_arrive(full);
}

// Four warps: queries, keys and values of an fp8 cache.
template <int DIM, bool SPLIT>
__device__ __forceinline__ void bring_widened(const Params& p, const Layout<DIM>& shared) {
    constexpr int KEYS = Layout<DIM>::KEYS;
    const int end = p.shares[blockIdx.x + 1];
    Ring<Layout<DIM>::Q_STAGES> queries;
    Ring<STAGES> ring;
    for (int index = p.shares[blockIdx.x]; index < end; index++, queries.n++) {
        const Tile tile = p.tiles[index];
        const int32_t* table = p.table(tile.sequence);
        const Sight<DIM, SPLIT> sight(p, tile);
        const int row = tile.head() / p.heads_per_group * BLOCK_SIZE;
        mbarrier_wait(shared.q_empty(queries.stage()), queries.phase() ^ 1);
        load_queries<DIM, WIDEN_THREADS>(p, shared, tile, queries.stage(), threadIdx.x);
        mbarrier_arrive(shared.q_full(queries.stage()));
        for (int key = sight.last; key >= sight.first; key -= KEYS, ring.n++) {
            int stage = ring.stage();
            widen<DIM>(p, table, sight, key, row, shared.k(stage), shared.k_empty(stage), ring.phase(), shared.k_full(stage));
            widen<DIM>(p, table, sight, key, row + p.kv_heads * BLOCK_SIZE, shared.v(stage), shared.v_empty(stage), ring.phase(),
                       shared.v_full(stage));
        }
    }
}

// Queues s = q k^T.
template <int DIM>
__device__ __forceinline__ void scores(float (&s)[Layout<DIM>::KEYS / 8][4], uint32_t q, uint32_t k) {
    const uint64_t a = wgmma_descriptor(q);
    const uint64_t b = wgmma_descriptor(k) + (uint64_t(Layout<DIM>::EIGHT / 16 - 64) << 32);  // eight keys are so far apart
    hold(s);
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < DIM / 16; step++) {
        uint32_t inside = step % 4 * 2, group = step / 4;
        wgmma_shared<Layout<DIM>::KEYS>(s, a + group * (ROWS_EACH * 128 / 16) + inside,
                                        b + group * (Layout<DIM>::GROUP / 16) + inside, step != 0);
    }
    wgmma_commit();
}

// Queues o += p v, 16 keys a step. The descriptor (MN-major) says how far groups of columns and eight keys are apart.
template <int DIM>
__device__ __forceinline__ void mix(float (&o)[DIM / 8][4], const uint32_t (&p)[Layout<DIM>::KEYS / 16][4], uint32_t v) {
    constexpr uint64_t SHAPE =
        (uint64_t(Layout<DIM>::GROUP / 16) << 16) | (uint64_t(Layout<DIM>::EIGHT / 16) << 32) | (1ull << 62);
    const uint64_t b = SHAPE | ((v & 0x3ffff) >> 4);
    hold(o);
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < Layout<DIM>::KEYS / 16; step++) {
        wgmma_registers<DIM>(o, p[step], b + step * (2 * Layout<DIM>::EIGHT / 16));
    }
    wgmma_commit();
}

template <int GROUPS>
__device__ __forceinline__ void pack(uint32_t (&p)[GROUPS / 2][4], const float (&s)[GROUPS][4]) {
#pragma unroll
    for (int step = 0; step < GROUPS / 2; step++) {
        const auto &low = s[2 * step], &high = s[2 * step + 1];
        p[step][0] = pack_bf16(low[0], low[1]);
        p[step][1] = pack_bf16(low[2], low[3]);
        p[step][2] = pack_bf16(high[0], high[1]);
        p[step][3] = pack_bf16(high[2], high[3]);
    }
}

// Zeros for the values of a tile's keys that lie in blocks read, but that no row sees: a probability of zero times whatever is
// in such a slot must be zero. Both warpgroups do it, each for itself.
template <int DIM, class SIGHT>
__device__ __forceinline__ void clean(const SIGHT& sight, int key, uint32_t v, int barrier) {
    constexpr int CHUNKS = Layout<DIM>::GROUPS * 8;
    int low = sight.has_lowest(key) ? sight.lowest % BLOCK_SIZE : 0;
    int high = sight.has_far(key) ? BLOCK_SIZE - 1 - sight.far % BLOCK_SIZE : 0;
    if (low + high == 0) return;
    for (int i = threadIdx.x % 128; i < (low + high) * CHUNKS; i += 128) {
        int n = i / CHUNKS, chunk = i % CHUNKS;
        int row = (n < low ? sight.lowest - 1 - n : sight.far + 1 + n - low) - key;
        uint32_t place = v + Layout<DIM>::place(row, chunk);
        asm volatile("st.shared.v4.b32 [%0], {%1, %1, %1, %1};" ::"r"(place), "r"(0) : "memory");
    }
    fence_async_shared();
    named_sync(barrier, 128);
}

__device__ __forceinline__ void stmatrix_x4(uint32_t to, const uint32_t (&r)[4]) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(r[0]), "r"(r[1]), "r"(r[2]),
                 "r"(r[3])
                 : "memory");
}

// A warp's 16 rows of the result from `first` on. They go through the warp's own shared memory, so that whole rows are written
// at once; at head_dim 256, which has no room for that, straight from registers.
template <int DIM>
__device__ __forceinline__ void store(const Params& p, const Tile& tile, const float (&o)[DIM / 8][4], const float (&sum)[2],
                                      int first, uint32_t staging) {
    constexpr int CHUNKS = DIM / 8;
    // Rows an odd number of 16-byte chunks apart need no swizzle; rows of 128 columns have no room for an odd one.
    constexpr int PITCH = DIM == 128 ? 256 : 2 * DIM + 16;
    const int lane = threadIdx.x % 32;
    const Rows rows(tile);
    const float factor[2] = {p.out_scale / quad_sum(sum[0]), p.out_scale / quad_sum(sum[1])};
    auto pair = [&](int j, int half) { return pack_bf16(o[j][2 * half] * factor[half], o[j][2 * half + 1] * factor[half]); };
    auto out = [&](int row) {
        return p.out + (tile.row + rows.token(row)) * p.out_stride + (tile.head() + rows.head(row)) * DIM;
    };
    if constexpr (Layout<DIM>::O_EACH > 0) {
        static_assert(16 * PITCH <= Layout<DIM>::O_EACH);
        auto place = [&](int row, int chunk) { return staging + row * PITCH + (DIM == 128 ? chunk ^ row % 8 : chunk) * 16; };
#pragma unroll
        for (int j = 0; j < CHUNKS / 2; j++) {
            const uint32_t words[4] = {pair(2 * j, 0), pair(2 * j, 1), pair(2 * j + 1, 0), pair(2 * j + 1, 1)};
            stmatrix_x4(place(lane % 16, 2 * j + lane / 16), words);
        }
        __syncwarp();
#pragma unroll
        for (int u = 0; u < CHUNKS / 2; u++) {
            int i = lane + 32 * u, row = i / CHUNKS, chunk = i % CHUNKS;
            uint4 piece;
            asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                         : "=r"(piece.x), "=r"(piece.y), "=r"(piece.z), "=r"(piece.w)
                         : "r"(place(row, chunk))
                         : "memory");
            if (rows.has(first + row)) *reinterpret_cast<uint4*>(out(first + row) + chunk * 8) = piece;
        }
        __syncwarp();
    } else {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            int row = first + lane / 4 + 8 * half;
            bf16* to = out(row) + 2 * (lane % 4);
            if (!rows.has(row)) continue;
#pragma unroll
            for (int j = 0; j < CHUNKS; j++) *reinterpret_cast<uint32_t*>(to + 8 * j) = pair(j, half);
        }
    }
}

// Results of the parts of split tiles. A warp's part, 16 rows as the product leaves them in its lanes: [DIM / 8] times four sums of
// probabilities times values, then of both rows of a lane {highest score, this lane's share of the sum of exponentials}.
template <int DIM>
struct Parts {
    static constexpr int EACH = DIM / 8 + 1, WARPS = 4 * CONSUMERS;
    const Params& p;
    const Tile& tile;
    int warp;

    __device__ float4* place(uint32_t slot) const {
        return p.partials + (int64_t(slot) * WARPS + warp) * EACH * 32 + threadIdx.x % 32;
    }

    __device__ __forceinline__ void leave(const float (&o)[DIM / 8][4], const float (&sum)[2], const float (&top)[2]) const {
        float4* to = place(tile.slot);
#pragma unroll
        for (int j = 0; j < DIM / 8; j++) __stcg(to + 32 * j, make_float4(o[j][0], o[j][1], o[j][2], o[j][3]));
        __stcg(to + 32 * (EACH - 1), make_float4(top[0], sum[0], top[1], sum[1]));
    }

    // Whether the other parts' results are there; then nobody else gets that answer.
    __device__ __forceinline__ bool arrive() const {
        __threadfence();
        __syncwarp();
        uint32_t before = 0;
        if (threadIdx.x % 32 == 0) {
            uint32_t* arrivals = p.arrivals + (tile.slot - tile.part()) * WARPS + warp;
            before = atomicAdd(arrivals, 1);
            if (before + 1 == tile.parts()) *arrivals = 0;
        }
        before = __shfl_sync(~0u, before, 0);
        __threadfence();
        return before + 1 == tile.parts();
    }

    __device__ __forceinline__ void merge(float (&o)[DIM / 8][4], float (&sum)[2]) const {
        const float4* from = place(tile.slot - tile.part());
        const float4* end = from + int64_t(tile.parts()) * WARPS * EACH * 32;
        float top[2] = {-INFINITY, -INFINITY};
        for (const float4* part = from; part != end; part += WARPS * EACH * 32) {
            float4 state = __ldcg(part + 32 * (EACH - 1));
            top[0] = fmaxf(top[0], state.x), top[1] = fmaxf(top[1], state.z);
        }
        // Rows that the tile does not have may have seen nothing.
        if (top[0] == -INFINITY) top[0] = 0.0f;
        if (top[1] == -INFINITY) top[1] = 0.0f;
        sum[0] = sum[1] = 0.0f;
#pragma unroll
        for (int j = 0; j < DIM / 8; j++) o[j][0] = o[j][1] = o[j][2] = o[j][3] = 0.0f;
#pragma unroll 1
        for (const float4* part = from; part != end; part += WARPS * EACH * 32) {
            float4 state = __ldcg(part + 32 * (EACH - 1));
            const float factor[2] = {exp2_fast(state.x - top[0]), exp2_fast(state.z - top[1])};
            sum[0] = fmaf(state.y, factor[0], sum[0]), sum[1] = fmaf(state.w, factor[1], sum[1]);
#pragma unroll
            for (int j = 0; j < DIM / 8; j++) {
                float4 piece = __ldcg(part + 32 * j);
                o[j][0] = fmaf(piece.x, factor[0], o[j][0]), o[j][1] = fmaf(piece.y, factor[0], o[j][1]);
                o[j][2] = fmaf(piece.z, factor[1], o[j][2]), o[j][3] = fmaf(piece.w, factor[1], o[j][3]);
            }
        }
    }
};

// A warp's 16 rows of a tile are done: writes them, or leaves a part of them, and writes what all parts give if it was the last.
template <int DIM, bool SPLIT>
__device__ __forceinline__ void finish(const Params& p, const Tile& tile, float (&o)[DIM / 8][4], float (&sum)[2],
                                       const float (&top)[2], int first, uint32_t staging) {
    if (SPLIT && tile.parts() > 1) {
        if (first >= tile.tokens() * tile.heads()) return;
        const Parts<DIM> parts{p, tile, first / 16};
        parts.leave(o, sum, top);
        if (!parts.arrive()) return;
        parts.merge(o, sum);
    }
    store<DIM>(p, tile, o, sum, first, staging);
}

// Named barriers: 1 and 2 within a warpgroup; 3 and 4 let the first or second warpgroup queue its products.
constexpr int WITHIN = 1, TURN = 3;

// A warpgroup's 64 rows of tile after tile.
template <int DIM, bool FP8, bool SPLIT>
__device__ __forceinline__ void consume(const Params& p, const Layout<DIM>& shared) {
    constexpr int KEYS = Layout<DIM>::KEYS;
    const int warpgroup = threadIdx.x / 128 - 1, lane = threadIdx.x % 32, within = WITHIN + warpgroup;
    const int row = ROWS_EACH * warpgroup + threadIdx.x / 32 % 4 * 16 + lane / 4;
    const uint32_t staging = shared.o(threadIdx.x / 32 - 4);
    const int end = p.shares[blockIdx.x + 1];
    int index = p.shares[blockIdx.x];
    // Every block has a tile; yet without this way out ptxas gives the products no more than 168 registers.
    if (index == end) return;
    if (warpgroup == 0) named_arrive(TURN, 256);

    float o[DIM / 8][4], s[KEYS / 8][4], shrink[2];
    uint32_t probabilities[KEYS / 16][4];
    Ring<STAGES> keys;
    Ring<Layout<DIM>::Q_STAGES> queries;
    Softmax softmax;
    Tile tile = p.tiles[index];
    Sight<DIM, SPLIT> sight(p, tile);
    int key = sight.last;

    auto release = [&](uint32_t barrier) {
        if (lane == 0) mbarrier_arrive(barrier);
    };
    auto clear = [&] {
#pragma unroll
        for (int j = 0; j < DIM / 8; j++) {
#pragma unroll
            for (int e = 0; e < 4; e++) o[j][e] = 0.0f;
        }
    };
    // The scores in `s` are there: their inputs are free.
    auto scored = [&] {
        hold(s);
        release(shared.k_empty(keys.stage()));
        keys.n++;
        if (key == sight.first) {
            release(shared.q_empty(queries.stage()));
            queries.n++;
        }
    };
    auto soften = [&] {
        if (p.softcap != 0.0f) cap_scores(s, p.softcap);
        if (key + KEYS - 1 > tile.position || key < sight.far - p.window + 1) {
            const Rows rows(tile);
            const int last[2] = {tile.position + rows.token(row), tile.position + rows.token(row + 8)};
            const int first[2] = {last[0] - p.window + 1, last[1] - p.window + 1};
            mask(s, key + 2 * (lane % 4), first, last);
        }
        softmax.update(s, p.scale, shrink);
    };
    // The product in `o` is there.
    auto mixed = [&](Ring<STAGES> values) {
        wgmma_wait<0>();
        hold(o);
        release(shared.v_empty(values.stage()));
    };

    softmax.reset();
    clear();
    mbarrier_wait(shared.q_full(queries.stage()), queries.phase());
    mbarrier_wait(shared.k_full(keys.stage()), keys.phase());
    scores<DIM>(s, shared.q(queries.stage(), warpgroup), shared.k(keys.stage()));
    wgmma_wait<0>();
    scored();
    soften();
    pack(probabilities, s);
    // Queues the scores of (tile, key), and the product of the probabilities before with their values, a key tile behind;
    // turns the scores into probabilities, all but their packing; gives the values' place.
    auto step = [&](Ring<STAGES> values) {
        // The same for the whole warp, which the compiler sees only so.
        const uint32_t q = __shfl_sync(~0u, shared.q(queries.stage(), warpgroup), 0);
        const uint32_t k = __shfl_sync(~0u, shared.k(keys.stage()), 0), v = __shfl_sync(~0u, shared.v(values.stage()), 0);
        mbarrier_wait(shared.k_full(keys.stage()), keys.phase());
        named_sync(TURN + warpgroup, 256);
        scores<DIM>(s, q, k);
        mbarrier_wait(shared.v_full(values.stage()), values.phase());
        mix<DIM>(o, probabilities, v);
        named_arrive(TURN + (warpgroup ^ 1), 256);
        wgmma_wait<1>();
        scored();
        soften();
        mixed(values);
        pack(probabilities, s);
    };
    auto clean_values = [&](Ring<STAGES> values) {
        mbarrier_wait(shared.v_full(values.stage()), values.phase());
        if constexpr (!FP8) clean<DIM>(sight, key, shared.v(values.stage()), within);
    };
    while (true) {
        while (key != sight.first) {
            const Ring<STAGES> values{keys.n - 1};
            if (key == sight.last) clean_values(values);
            key -= KEYS;
            step(values);
#pragma unroll
            for (int j = 0; j < DIM / 8; j++) {
#pragma unroll
                for (int e = 0; e < 4; e++) o[j][e] *= shrink[e >> 1];
            }
        }
        const Ring<STAGES> values{keys.n - 1};
        clean_values(values);
        if (++index == end) break;
        const Tile was = tile;
        float sum[2] = {softmax.sum[0], softmax.sum[1]};
        const float top[2] = {softmax.top[0], softmax.top[1]};
        tile = p.tiles[index];
        sight = Sight<DIM, SPLIT>(p, tile);
        key = sight.last;
        softmax.reset();
        mbarrier_wait(shared.q_full(queries.stage()), queries.phase());
        step(values);
        finish<DIM, SPLIT>(p, was, o, sum, top, row - lane / 4, staging);
        clear();
    }
    const Ring<STAGES> values{keys.n - 1};
    mix<DIM>(o, probabilities, shared.v(values.stage()));
    mixed(values);
    finish<DIM, SPLIT>(p, tile, o, softmax.sum, softmax.top, row - lane / 4, staging);
}

template <int DIM, bool FP8, bool SPLIT>
__device__ __forceinline__ void attend(const HopperParams& params) {
    extern __shared__ uint8_t raw[];
    const Layout<DIM> shared{(shared_address(raw) + 1023) & ~1023u};
    pdl_launch();
    if (threadIdx.x == 0) {
        if (!FP8) tensor_prefetch_map(params.cache);
        for (int stage = 0; stage < 2; stage++) {
            mbarrier_init(shared.k_full(stage), FP8 ? WIDEN_THREADS : 1);
            mbarrier_init(shared.v_full(stage), FP8 ? WIDEN_THREADS : 1);
            mbarrier_init(shared.q_full(stage), FP8 ? WIDEN_THREADS : QUERY_THREADS);
            mbarrier_init(shared.k_empty(stage), 4 * CONSUMERS);
            mbarrier_init(shared.v_empty(stage), 4 * CONSUMERS);
            mbarrier_init(shared.q_empty(stage), 4 * CONSUMERS);
        }
        mbarrier_init_fence();
    }
    __syncthreads();
    pdl_wait();
    if (threadIdx.x < 128) {
        registers_lower<!FP8 ? 40 : (DIM > 128 ? 56 : 88)>();
        if constexpr (FP8) {
            bring_widened<DIM, SPLIT>(params.p, shared);
        } else if (threadIdx.x < 32) {
            bring_keys<DIM, SPLIT>(params, shared);
        } else {
            bring_queries<DIM>(params.p, shared);
        }
    } else {
        registers_raise<!FP8 ? 232 : (DIM > 128 ? 224 : 208)>();
        consume<DIM, FP8, SPLIT>(params.p, shared);
    }
}

#endif  // TM_WGMMA

}  // namespace attention_prefill

#if TM_WGMMA
#define BODY(DIM, FP8, SPLIT) attention_prefill::attend<DIM, FP8, SPLIT>(p);
#else
#define BODY(DIM, FP8, SPLIT)
#endif

#define ATTENTION_PREFILL(NAME, DIM, FP8, SPLIT)                                                             \
    extern "C" __global__ void __launch_bounds__(384, 1)                                                     \
        attention_prefill_sm90_##NAME##_d##DIM(const __grid_constant__ attention_prefill::HopperParams p) {  \
        BODY(DIM, FP8, SPLIT)                                                                                \
    }

#define ATTENTION_PREFILL_WIDTHS(NAME, FP8, SPLIT) \
    ATTENTION_PREFILL(NAME, 64, FP8, SPLIT)        \
    ATTENTION_PREFILL(NAME, 80, FP8, SPLIT)        \
    ATTENTION_PREFILL(NAME, 96, FP8, SPLIT)        \
    ATTENTION_PREFILL(NAME, 128, FP8, SPLIT)       \
    ATTENTION_PREFILL(NAME, 256, FP8, SPLIT)

ATTENTION_PREFILL_WIDTHS(bf16, false, false)
ATTENTION_PREFILL_WIDTHS(fp8, true, false)
// What takes tiles in parts, too, is slower by up to a tenth.
ATTENTION_PREFILL_WIDTHS(split_bf16, false, true)
ATTENTION_PREFILL_WIDTHS(split_fp8, true, true)
