// attention_prefill_sm90.cu   the formula, shapes and limits of attention_prefill.cu, for Hopper and a bf16 cache
//
// mapping   one block of 3 warpgroups an SM works off its share of the tiles (128 query rows each). One warp brings keys and
//           values: a cache block's rows of one head are a box of a tensor map, 16 rows x 64 columns = two swizzle atoms,
//           and eight boxes stack to a tile of 128 keys (64 at head_dim 256). Two stages of keys and two of values. Two
//           warpgroups own 64 rows each: scores by wgmma from shared memory, probabilities stay in registers as
//           the second product's operand. While a warpgroup turns scores into probabilities, the tensor cores have the
//           products of the other one, and its own product with the values before.
//           Shared memory, columns in groups of 64 (rows of 128 bytes, 128-byte swizzle):
//           [Q: warpgroup, group, 64 rows][K: stage, group, keys][V: stage, group, keys][barriers]
// numerics  as attention_prefill.cu, with key tiles of 128 (64 at head_dim 256), anchored at the sequence's token 0
// bound     tensor cores: 8000 tokens, 32 heads of 128: 0.52 TFLOP, 0.67 ms at 780 TFLOP/s
// limits    head_dim 64, 80, 96, 128, 256
// measured  benches/baselines/h200.jsonl
#include "attention_prefill.cuh"
#include "attention_prefill_wgmma.cuh"

namespace attention_prefill {

// Mirrored by `HopperParams` in attention_prefill.rs.
struct __align__(64) HopperParams {
    uint8_t map[128];  // tensor map of the layer's cache: [block][2 * kv_heads * 16 rows][head_dim]
    Params p;
};
static_assert(sizeof(HopperParams) == 256);

#if TM_WGMMA

constexpr int STAGES = 2;
constexpr int CONSUMERS = 2;  // warpgroups
constexpr int ROWS_EACH = 64;

// Where things lie in shared memory.
template <int DIM>
struct Layout {
    static constexpr int GROUPS = (DIM + 63) / 64;
    static constexpr int KEYS = DIM <= 128 ? 128 : 64;
    static constexpr uint32_t Q_EACH = GROUPS * ROWS_EACH * 128;
    static constexpr uint32_t TILE = GROUPS * KEYS * 128;  // one stage of keys, or of values
    static constexpr uint32_t K = CONSUMERS * Q_EACH;
    static constexpr uint32_t V = K + STAGES * TILE;
    static constexpr uint32_t BARRIERS = V + STAGES * TILE;
    uint32_t base;  // aligned to 1024

    __device__ uint32_t q(int warpgroup) const { return base + warpgroup * Q_EACH; }
    __device__ uint32_t k(int stage) const { return base + K + stage * TILE; }
    __device__ uint32_t v(int stage) const { return base + V + stage * TILE; }
    __device__ uint32_t k_full(int stage) const { return base + BARRIERS + stage * 8; }
    __device__ uint32_t k_empty(int stage) const { return base + BARRIERS + (STAGES + stage) * 8; }
    __device__ uint32_t v_full(int stage) const { return base + BARRIERS + (2 * STAGES + stage) * 8; }
    __device__ uint32_t v_empty(int stage) const { return base + BARRIERS + (3 * STAGES + stage) * 8; }
};

// Counts tiles of keys over a block's whole share: stage and phase of the ring.
struct Ring {
    uint32_t count = 0;
    __device__ int stage() const { return count % STAGES; }
    __device__ uint32_t phase() const { return count / STAGES % 2; }
};

// What the rows of a tile see.
template <int DIM>
struct Sight {
    int lowest, far;  // first key of the first token, last key of the last: its own
    int first, last;  // first keys of the tiles they lie in
    __device__ Sight(const Params& p, const Tile& tile) {
        lowest = max(0, tile.position - p.window + 1);
        far = tile.position + tile.tokens - 1;
        first = lowest / Layout<DIM>::KEYS * Layout<DIM>::KEYS;
        last = far / Layout<DIM>::KEYS * Layout<DIM>::KEYS;
    }
};

__device__ __forceinline__ void named_sync(int barrier, int threads) {
    asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

__device__ __forceinline__ void named_arrive(int barrier, int threads) {
    asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

__device__ __forceinline__ void tensor_copy_3d(uint32_t to, const void* map, int x, int y, int z, uint32_t barrier) {
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5];" ::"r"(
            to),
        "l"(map), "r"(x), "r"(y), "r"(z), "r"(barrier)
        : "memory");
}

// One warp: the boxes of one tile of keys or values, each of 16 rows from `row` of a lane's block on. Blocks that nobody sees,
// whose table entries may not exist, are asked for before the tensor's first, which gives zeros.
template <int DIM>
__device__ __forceinline__ void fetch(const uint8_t* map, uint32_t to, uint32_t full, int block, int row) {
    constexpr int GROUPS = Layout<DIM>::GROUPS, KEYS = Layout<DIM>::KEYS;
    int lane = threadIdx.x % 32, group = lane % GROUPS, place = lane / GROUPS * BLOCK_SIZE;
    if (lane == 0) mbarrier_arrive_expect(full, Layout<DIM>::TILE);
    __syncwarp();
    if (place < KEYS) tensor_copy_3d(to + (group * KEYS + place) * 128, map, group * 64, row, block, full);
}

template <int DIM>
__device__ __forceinline__ void produce(const HopperParams& params, const Layout<DIM>& shared) {
    constexpr int KEYS = Layout<DIM>::KEYS;
    static_assert(KEYS / BLOCK_SIZE * Layout<DIM>::GROUPS <= 32);
    const Params& p = params.p;
    const int mine = threadIdx.x % 32 / Layout<DIM>::GROUPS * BLOCK_SIZE;  // first key of this lane's block in a tile
    Ring ring;
    for (int i = p.shares[blockIdx.x]; i < p.shares[blockIdx.x + 1]; i++) {
        const Tile tile = p.tiles[i];
        const Sight<DIM> sight(p, tile);
        const int32_t* table = p.table(tile.sequence);
        const int row = tile.head / p.heads_per_group * BLOCK_SIZE;
        for (int key = sight.last; key >= sight.first; key -= KEYS, ring.count++) {
            int begin = key + mine, block = -1;
            if (mine < KEYS && begin <= sight.far && begin + BLOCK_SIZE > sight.lowest) block = table[begin / BLOCK_SIZE];
            int stage = ring.stage();
            mbarrier_wait(shared.k_empty(stage), ring.phase() ^ 1);
            fetch<DIM>(params.map, shared.k(stage), shared.k_full(stage), block, row);
            mbarrier_wait(shared.v_empty(stage), ring.phase() ^ 1);
            fetch<DIM>(params.map, shared.v(stage), shared.v_full(stage), block, row + p.kv_heads * BLOCK_SIZE);
        }
    }
}

// This warpgroup's rows of queries, swizzled by hand; zeros for rows that the tile does not have.
template <int DIM>
__device__ __forceinline__ void load_queries(const Params& p, const Tile& tile, uint32_t to, int first_row) {
    constexpr int CHUNKS = DIM / 8;
    int rows = tile.tokens * tile.heads;
#pragma unroll
    for (int i = threadIdx.x % 128; i < ROWS_EACH * CHUNKS; i += 128) {
        int local = i / CHUNKS, chunk = i % CHUNKS, row = first_row + local;
        bool valid = row < rows;
        int64_t at = valid ? (tile.row + row / tile.heads) * p.q_stride + (tile.head + row % tile.heads) * DIM + chunk * 8 : 0;
        uint32_t place = to + chunk / 8 * (ROWS_EACH * 128) + local * 128 + ((chunk % 8 ^ local % 8) << 4);
        cp_async_16(place, p.q + at, valid);
    }
}

// Queues s = q k^T.
template <int DIM>
__device__ __forceinline__ void scores(float (&s)[Layout<DIM>::KEYS / 8][4], uint32_t q, uint32_t k) {
    const uint64_t a = wgmma_descriptor(q), b = wgmma_descriptor(k);
    hold(s);
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < DIM / 16; step++) {
        uint32_t inside = step % 4 * 2, group = step / 4;
        wgmma_shared<Layout<DIM>::KEYS>(s, a + group * (ROWS_EACH * 128 / 16) + inside,
                                        b + group * (Layout<DIM>::KEYS * 128 / 16) + inside, step != 0);
    }
    wgmma_commit();
}

// Queues o += p v. Values lie key after key: groups of 64 columns are a tile's rows apart, groups of 8 keys 1024 bytes.
template <int DIM>
__device__ __forceinline__ void mix(float (&o)[DIM / 8][4], const uint32_t (&p)[Layout<DIM>::KEYS / 16][4], uint32_t v) {
    constexpr uint64_t SHAPE = (uint64_t(Layout<DIM>::KEYS * 128 / 16) << 16) | (uint64_t(1024 / 16) << 32) | (1ull << 62);
    const uint64_t b = SHAPE | ((v & 0x3ffff) >> 4);
    hold(o);
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < Layout<DIM>::KEYS / 16; step++) {
        wgmma_registers<DIM>(o, p[step], b + step * (BLOCK_SIZE * 128 / 16));
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
template <int DIM>
__device__ __forceinline__ void clean(const Sight<DIM>& sight, int key, uint32_t v, int barrier) {
    constexpr int KEYS = Layout<DIM>::KEYS, CHUNKS = Layout<DIM>::GROUPS * 8;
    int low = key == sight.first ? sight.lowest % BLOCK_SIZE : 0;
    int high = key == sight.last ? BLOCK_SIZE - 1 - sight.far % BLOCK_SIZE : 0;
    if (low + high == 0) return;
    for (int i = threadIdx.x % 128; i < (low + high) * CHUNKS; i += 128) {
        int n = i / CHUNKS, chunk = i % CHUNKS;
        int row = (n < low ? sight.lowest - 1 - n : sight.far + 1 + n - low) - key;
        uint32_t place = v + chunk / 8 * (KEYS * 128) + row * 128 + chunk % 8 * 16;
        asm volatile("st.shared.v4.b32 [%0], {%1, %1, %1, %1};" ::"r"(place), "r"(0) : "memory");
    }
    fence_async_shared();
    named_sync(barrier, 128);
}

// Four words of each thread of a quad, word j of group j: afterwards thread t has the four words of group t in order.
__device__ __forceinline__ uint4 transpose(const uint32_t (&word)[4]) {
    int t = threadIdx.x % 4;
    uint32_t out[4];
#pragma unroll
    for (int r = 0; r < 4; r++) {
        // The word that thread t ^ r wants of us.
        int to = t ^ r;
        uint32_t sent = to == 0 ? word[0] : to == 1 ? word[1] : to == 2 ? word[2] : word[3];
        out[r] = __shfl_xor_sync(~0u, sent, r);
    }
    // out[r] is thread t ^ r's word of group t, which belongs at place t ^ r.
    auto at = [&](int place) {
        int r = place ^ t;
        return r == 0 ? out[0] : r == 1 ? out[1] : r == 2 ? out[2] : out[3];
    };
    return make_uint4(at(0), at(1), at(2), at(3));
}

// This thread's two rows of the result.
template <int DIM>
__device__ __forceinline__ void store(const Params& p, const Tile& tile, const float (&o)[DIM / 8][4], const Softmax& softmax,
                                      int row) {
    constexpr int QUADS = DIM / 32;
    const int t = threadIdx.x % 4, rows = tile.tokens * tile.heads;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        int r = row + 8 * half;
        float factor = p.out_scale / quad_sum(softmax.sum[half]);
        bf16* to = p.out + (tile.row + r / tile.heads) * p.out_stride + (tile.head + r % tile.heads) * DIM;
        auto pair = [&](int j) { return pack_bf16(o[j][2 * half] * factor, o[j][2 * half + 1] * factor); };
#pragma unroll
        for (int j = 0; j < QUADS; j++) {
            uint32_t words[4] = {pair(4 * j), pair(4 * j + 1), pair(4 * j + 2), pair(4 * j + 3)};
            uint4 piece = transpose(words);
            if (r < rows) *reinterpret_cast<uint4*>(to + 32 * j + 8 * t) = piece;
        }
#pragma unroll
        for (int j = 4 * QUADS; j < DIM / 8; j++) {
            if (r < rows) *reinterpret_cast<uint32_t*>(to + 8 * j + 2 * t) = pair(j);
        }
    }
}

// Named barriers: 1 and 2 within a warpgroup; 3 and 4 let the first or second warpgroup queue its products.
constexpr int WITHIN = 1, TURN = 3;

template <int DIM, bool CAP>
__device__ __forceinline__ void consume(const Params& p, const Layout<DIM>& shared) {
    constexpr int KEYS = Layout<DIM>::KEYS;
    const int warpgroup = threadIdx.x / 128 - 1, lane = threadIdx.x % 32;
    const int within = WITHIN + warpgroup, first_row = ROWS_EACH * warpgroup;
    const int row = first_row + threadIdx.x / 32 % 4 * 16 + lane / 4;
    const uint32_t q = shared.q(warpgroup);
    int next = p.shares[blockIdx.x];
    const int end = p.shares[blockIdx.x + 1];
    if (next == end) return;
    Tile tile = p.tiles[next];
    load_queries<DIM>(p, tile, q, first_row);
    if (warpgroup == 0) named_arrive(TURN, 256);

    Ring keys, values;
    float o[DIM / 8][4], s[KEYS / 8][4];
    uint32_t probabilities[KEYS / 16][4];
    auto release = [&](uint32_t barrier) {
        if (lane == 0) mbarrier_arrive(barrier);
    };
    while (next < end) {
        const Tile now = tile;
        const Sight<DIM> sight(p, now);
        const int last[2] = {now.position + row / now.heads, now.position + (row + 8) / now.heads};
        const int first[2] = {last[0] - p.window + 1, last[1] - p.window + 1};
        // All of this warpgroup's queries of the tile are used: the next tile's may come.
        auto load_next = [&] {
            next++;
            if (next < end) {
                named_sync(within, 128);
                tile = p.tiles[next];
                load_queries<DIM>(p, tile, q, first_row);
            }
        };
        auto soften = [&](Softmax& softmax, int key, float (&shrink)[2]) {
            if constexpr (CAP) cap_scores(s, p.softcap);
            if (key + KEYS - 1 > now.position || key < sight.far - p.window + 1) mask(s, key + 2 * (lane % 4), first, last);
            softmax.update(s, p.scale, shrink);
        };
        Softmax softmax;
        softmax.reset();
        float shrink[2];
#pragma unroll
        for (int j = 0; j < DIM / 8; j++) {
#pragma unroll
            for (int e = 0; e < 4; e++) o[j][e] = 0.0f;
        }
        cp_async_commit();
        cp_async_wait<0>();
        fence_async_shared();
        named_sync(within, 128);

        int key = sight.last;
        mbarrier_wait(shared.k_full(keys.stage()), keys.phase());
        scores<DIM>(s, q, shared.k(keys.stage()));
        wgmma_wait<0>();
        hold(s);
        release(shared.k_empty(keys.stage()));
        keys.count++;
        if (key == sight.first) load_next();
        soften(softmax, key, shrink);
        pack(probabilities, s);
        for (key -= KEYS; key >= sight.first; key -= KEYS) {
            // Scores of this tile, and meanwhile the product of the one before.
            mbarrier_wait(shared.k_full(keys.stage()), keys.phase());
            if (key + KEYS == sight.last) {
                mbarrier_wait(shared.v_full(values.stage()), values.phase());
                clean<DIM>(sight, key + KEYS, shared.v(values.stage()), within);
            }
            named_sync(TURN + warpgroup, 256);
            scores<DIM>(s, q, shared.k(keys.stage()));
            mbarrier_wait(shared.v_full(values.stage()), values.phase());
            mix<DIM>(o, probabilities, shared.v(values.stage()));
            named_arrive(TURN + (warpgroup ^ 1), 256);
            wgmma_wait<1>();
            hold(s);
            release(shared.k_empty(keys.stage()));
            keys.count++;
            if (key == sight.first) load_next();
            soften(softmax, key, shrink);
            wgmma_wait<0>();
            hold(o);
            release(shared.v_empty(values.stage()));
            values.count++;
#pragma unroll
            for (int j = 0; j < DIM / 8; j++) {
#pragma unroll
                for (int e = 0; e < 4; e++) o[j][e] *= shrink[e >> 1];
            }
            pack(probabilities, s);
        }
        mbarrier_wait(shared.v_full(values.stage()), values.phase());
        clean<DIM>(sight, sight.first, shared.v(values.stage()), within);
        mix<DIM>(o, probabilities, shared.v(values.stage()));
        wgmma_wait<0>();
        hold(o);
        release(shared.v_empty(values.stage()));
        values.count++;
        store<DIM>(p, now, o, softmax, row);
    }
}

template <int DIM, bool CAP>
__device__ __forceinline__ void attend(const HopperParams& params) {
    extern __shared__ uint8_t raw[];
    const Layout<DIM> shared{(shared_address(raw) + 1023) & ~1023u};
    pdl_launch();
    if (threadIdx.x == 0) {
        tensor_prefetch_map(params.map);
        for (int stage = 0; stage < STAGES; stage++) {
            mbarrier_init(shared.k_full(stage), 1);
            mbarrier_init(shared.v_full(stage), 1);
            mbarrier_init(shared.k_empty(stage), 4 * CONSUMERS);
            mbarrier_init(shared.v_empty(stage), 4 * CONSUMERS);
        }
        mbarrier_init_fence();
    }
    __syncthreads();
    pdl_wait();
    if (threadIdx.x < 128) {
        registers_lower<40>();
        if (threadIdx.x < 32) produce<DIM>(params, shared);
    } else {
        registers_raise<232>();
        consume<DIM, CAP>(params.p, shared);
    }
}

#endif  // TM_WGMMA

}  // namespace attention_prefill

#if TM_WGMMA
#define BODY(DIM, CAP) attention_prefill::attend<DIM, CAP>(p);
#else
#define BODY(DIM, CAP)
#endif

#define ATTENTION_PREFILL(NAME, DIM, CAP)                                                                                       \
    extern "C" __global__ void __launch_bounds__(384, 1)                                                                        \
        attention_prefill_sm90##NAME##_d##DIM(const __grid_constant__ attention_prefill::HopperParams p) {                      \
        BODY(DIM, CAP)                                                                                                          \
    }

#define ATTENTION_PREFILL_WIDTHS(NAME, CAP) \
    ATTENTION_PREFILL(NAME, 64, CAP)        \
    ATTENTION_PREFILL(NAME, 80, CAP)        \
    ATTENTION_PREFILL(NAME, 96, CAP)        \
    ATTENTION_PREFILL(NAME, 128, CAP)       \
    ATTENTION_PREFILL(NAME, 256, CAP)

ATTENTION_PREFILL_WIDTHS(, false)
ATTENTION_PREFILL_WIDTHS(_softcap, true)
