// skinny_hopper.cu   y[m,n] = ending(sum_k x[m,k] * W[n,k]): few rows of x against all of W, the products of decoding
// shapes    W [n, k] bf16 row-major; x [m, k] bf16, row stride in elements, 1 <= m <= NB; the endings: endings.cuh
// mapping   a tile of `tile_rows` rows of W for each cluster of `split` blocks, K shared out among the blocks. One warp
//           asks the copy engine for stages of `slabs` slabs (64 elements of K of all the tile's rows, and of x), the
//           others multiply: units of 64 rows (a warpgroup, wgmma with W as the A operand) or of 16 (a warp,
//           mma.m16n8k16), `row_groups` side by side, `k_groups` sharing the slabs of each stage. All partial sums meet in
//           the shared memory of the block that finishes the row.
// overlap   the first stages of W are asked for before the previous kernel has ended, at a pace where they are all there are; what
//           the ending needs of the parameters is read before that too; x, h and the norm's sums after
// numerics  f32 accumulation; a row's sum runs over its unit's slabs in order, then over the units in order. None of
//           it depends on the other rows of x; the order depends on tile_rows, split, k_groups and slabs alone
// bound     memory: 2*n*k bytes at 4.70 TB/s (H200): 6144 x 4096 10.7 us, 24576 x 4096 42.8 us, 151936 x 4096 265 us
// limits    k % 8 == 0, x and W aligned to 16 bytes, x_stride % 8 == 0, m <= 64; GATE_UP n % 16 == 0; m == 0 returns on
//           the host
#include "endings.cuh"

#if TM_HOPPER

// --- beyond common.cuh ---

__device__ __forceinline__ void tensor_copy_3d(uint32_t shared, const void* map, int x, int y, int z, uint32_t barrier,
                                               uint64_t policy) {
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint "
        "[%0], [%1, {%2, %3, %4}], [%5], %6;" ::"r"(shared),
        "l"(map), "r"(x), "r"(y), "r"(z), "r"(barrier), "l"(policy)
        : "memory");
}

// Arrives without making anything visible: for those who have written nothing that others read.
__device__ __forceinline__ void cluster_arrive_relaxed() {
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}

template <int ID>
__device__ __forceinline__ void named_barrier(uint32_t threads) {
    asm volatile("bar.sync %0, %1;" ::"n"(ID), "r"(threads) : "memory");
}

template <int ID>
__device__ __forceinline__ void named_barrier_arrive(uint32_t threads) {
    asm volatile("bar.arrive %0, %1;" ::"n"(ID), "r"(threads) : "memory");
}

// --- the unit's product ---

#if TM_WGMMA
#define ACC4(at) "+f"(acc[at]), "+f"(acc[at + 1]), "+f"(acc[at + 2]), "+f"(acc[at + 3])

// acc[64 rows of W x NB tokens] += W[64, 16] * x[NB, 16]^T
template <int NB>
__device__ __forceinline__ void wgmma_k16(float (&acc)[NB / 2], uint64_t weight, uint64_t x) {
    static_assert(NB == 8 || NB == 16 || NB == 32 || NB == 64, "");
    if constexpr (NB == 8) {
        asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0,%1,%2,%3}, %4, %5, 1, 1, 1, 0, 0;"
                     : ACC4(0)
                     : "l"(weight), "l"(x));
    } else if constexpr (NB == 16) {
        asm volatile(
            "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {%0,%1,%2,%3,%4,%5,%6,%7}, %8, %9, 1, 1, 1, 0, 0;"
            : ACC4(0), ACC4(4)
            : "l"(weight), "l"(x));
    } else if constexpr (NB == 32) {
        asm volatile(
            "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 "
            "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15}, %16, %17, 1, 1, 1, 0, 0;"
            : ACC4(0), ACC4(4), ACC4(8), ACC4(12)
            : "l"(weight), "l"(x));
    } else {
        asm volatile(
            "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
            "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
            "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, %32, %33, 1, 1, 1, 0, 0;"
            : ACC4(0), ACC4(4), ACC4(8), ACC4(12), ACC4(16), ACC4(20), ACC4(24), ACC4(28)
            : "l"(weight), "l"(x));
    }
}
#endif

// Multiplies this unit's slabs of one stage.
template <int NB, bool WGMMA>
__device__ __forceinline__ void multiply(const SkinnyParams& p, const Units& u, float (&acc)[NB / 2], uint32_t weights,
                                         uint32_t xs, uint32_t present, uint32_t lane) {
#if TM_WGMMA
    if constexpr (WGMMA) {
        wgmma_fence();
#pragma unroll 1
        for (uint32_t slab = u.k_group; slab < present; slab += p.k_groups) {
            uint64_t weight = wgmma_descriptor(weights + slab * p.tile_rows * 128 + u.row_group * 64 * 128);
            uint64_t x = wgmma_descriptor(xs + slab * p.x_pitch);
#pragma unroll
            for (int k = 0; k < 4; ++k) wgmma_k16<NB>(acc, weight + 2 * k, x + 2 * k);
        }
        wgmma_commit();
        wgmma_wait<0>();
    }
#endif
    if constexpr (!WGMMA) {
#pragma unroll 1
        for (uint32_t slab = u.k_group; slab < present; slab += p.k_groups) {
            slab_mma<NB>(acc, weights + slab * p.tile_rows * 128, xs + slab * p.x_pitch, u.first_row, p.tile_rows, p.x_rows,
                         lane);
        }
    }
}

// --- the kernel ---

// Where this block works and where its things lie in shared memory.
struct Block {
    uint32_t rank;        // in the cluster
    uint32_t tile_row;    // first row of W of the tile
    uint32_t first_slab;  // of this block's part of K
    uint32_t slab_count;  // may be 0
    uint32_t rounds;      // stages filled in all
    uint32_t base;        // of dynamic shared memory, aligned to 1024
    uint32_t full, empty; // barriers, SKINNY_MAX_STAGES each
    __device__ __forceinline__ uint32_t stage(const SkinnyParams& p, uint32_t slot) const {
        return base + slot * p.stage_bytes;
    }
};

__device__ __forceinline__ Block block_of(const SkinnyParams& p, uint32_t base, uint32_t barriers) {
    Block b;
    b.rank = blockIdx.x % p.split;
    b.tile_row = blockIdx.x / p.split * p.tile_rows;
    uint32_t total = (p.k + SLAB - 1) / SLAB, each = (total + p.split - 1) / p.split;
    b.first_slab = min(b.rank * each, total);
    b.slab_count = min(b.first_slab + each, total) - b.first_slab;
    b.rounds = (b.slab_count + p.slabs - 1) / p.slabs;
    b.base = base;
    b.full = barriers;
    b.empty = barriers + 8 * SKINNY_MAX_STAGES;
    return b;
}

// The warp (its first lane) that asks the copy engine for everything.
struct Producer {
    const SkinnyParams& p;
    const Block& b;
    uint64_t once, again;  // cache policies

    __device__ __forceinline__ bool boxes_3d() const { return p.boxes_3d; }

    // Slabs that the copies of a round bring.
    __device__ __forceinline__ uint32_t brought(uint32_t round) const {
        return boxes_3d() ? p.slabs : min(p.slabs, b.slab_count - round * p.slabs);
    }

    // Asks for a round's rows of W or of x: the same instructions for both, so that they have been seen when x is there to be
    // asked for, and nothing but x is waited for.
    __device__ __forceinline__ void ask(bool weights, uint32_t round, uint32_t slot) const {
        uint32_t barrier = b.full + 8 * slot, at = b.stage(p, slot) + (weights ? 0 : p.slabs * p.tile_rows * 128);
        uint32_t count = brought(round), slab = b.first_slab + round * p.slabs, row = weights ? b.tile_row : 0;
        const void* map = weights ? &p.weight_map : &p.x_map;
        uint64_t policy = weights ? once : again;
        if (weights) mbarrier_arrive_expect(barrier, count * (p.tile_rows + p.x_rows) * 128);
        if (boxes_3d()) {
            tensor_copy_3d(at, map, 0, row, slab, barrier, policy);
        } else {
            uint32_t pitch = weights ? p.tile_rows * 128 : p.x_pitch;
#pragma unroll 1
            for (uint32_t i = 0; i < count; ++i) tensor_copy_2d(at + i * pitch, map, (slab + i) * SLAB, row, barrier, policy);
        }
    }

    // Lets the next kernel start once as many rounds are asked for as leave `trigger_lead` to go. Not earlier: what it asks
    // for would be served before our last rounds, and nothing would be left for the memory to do while we finish.
    __device__ __forceinline__ void trigger(uint32_t asked) const {
        if (p.trigger_lead == SKINNY_AT_ONCE) return;
        uint32_t due = b.rounds > p.trigger_lead ? b.rounds - p.trigger_lead : 0, first = min(p.stages, b.rounds);
        if (asked == max(due, first)) pdl_launch();
    }

    // Asks for W, or x, of the rounds that the stages hold. `burst` rounds of W at once, the others one after the other: what is
    // asked for faster than the memory brings it only stands in the way of what the earlier kernel still has to read.
    __device__ __forceinline__ void first_rounds(bool weights) const {
        uint32_t first = min(p.stages, b.rounds);
        int64_t start = clock64();
#pragma unroll 1
        for (uint32_t round = 0; round < first; ++round) {
            if (weights && round >= p.burst)
                while (clock64() - start < int64_t(p.pace) * (round + 1 - p.burst)) {}
            ask(weights, round, round);
            if (weights) trigger(round + 1);
        }
    }

    // Fills the stages of the first rounds' successors from `from` to before `to`, counted behind those, as they fall free. All
    // lanes of the warp wait, the first one asks.
    __device__ __forceinline__ void refill(uint32_t from, uint32_t to, uint32_t lane) const {
        if (b.rounds <= p.stages) return;
        uint32_t end = min(to, b.rounds - p.stages), slot = from % p.stages, parity = from / p.stages & 1;
#pragma unroll 1
        for (uint32_t at = from; at < end; ++at) {
            mbarrier_wait(b.empty + 8 * slot, parity);
            if (lane == 0) {
                ask(true, p.stages + at, slot);
                ask(false, p.stages + at, slot);
                trigger(p.stages + at + 1);
            }
            __syncwarp();
            if (++slot == p.stages) slot = 0, parity ^= 1;
        }
    }
};

// Reads what the ending wants to know of the parameters, one word of each line of the constant cache: the first sight of a line takes
// some tenths of a microsecond, which are there before the previous kernel has ended, and not later.
__device__ __forceinline__ void seen_early(const SkinnyParams& p) {
    asm volatile("" ::"l"(p.out), "l"(p.partials_out), "r"(p.tile_rows), "f"(p.residual_scale), "r"(p.h_offset));
}

template <int NB, Ending ENDING, bool WGMMA>
__device__ __forceinline__ void skinny(const SkinnyParams& p) {
    extern __shared__ uint8_t raw[];
    __shared__ alignas(8) uint64_t barriers[2 * SKINNY_MAX_STAGES];
    __shared__ float row_scale[NB];
    __shared__ alignas(16) float bias[MOST_TILE_ROWS], gain[MOST_TILE_ROWS];
    if (p.trigger_lead == SKINNY_AT_ONCE) pdl_launch();
    uint32_t warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0);  // uniform, and the compiler sees it: wgmma wants that
    uint32_t lane = threadIdx.x % 32, multipliers = blockDim.x / 32 - 1;
    Block b = block_of(p, (shared_address(raw) + 1023) & ~1023u, shared_address(barriers));
    uint32_t rows = p.tile_rows / p.split, first_row = b.tile_row + b.rank * rows;
    // The scale of a single token is left to the asking warp, which has time for it: the others would wait for the sums, and for
    // as long not touch the weights that are there already.
    bool aside = p.row_partials && p.m == 1;

    if (warp == multipliers) {
        Producer producer{p, b, policy_evict_first(), policy_evict_last()};
        if (lane == 0) {
#pragma unroll 1
            for (uint32_t i = 0; i < p.stages; ++i) {
                mbarrier_init(b.full + 8 * i, 1);
                mbarrier_init(b.empty + 8 * i, multipliers);
            }
            mbarrier_init_fence();
            tensor_prefetch_map(&p.x_map);
        }
        __syncwarp();
        named_barrier_arrive<3>((multipliers + 1) * 32);  // the others may look at the barriers
#pragma unroll 1
        for (int weights = 1; weights >= 0; --weights) {
            if (!weights) pdl_wait();
            if (lane == 0) producer.first_rounds(weights);
        }
        __syncwarp();
        producer.refill(0, 1, lane);
        if (aside) {
            scale_row(p, row_scale, lane);
            named_barrier_arrive<2>((multipliers + 1) * 32);
        }
        producer.refill(1, b.rounds, lane);
        __syncwarp();
        if (WGMMA && p.split > 1) {  // takes part in both meetings of the cluster
            cluster_arrive_relaxed();
            cluster_wait();
            cluster_arrive_relaxed();
            cluster_wait();
        }
        return;
    }

    ask_constants(p, shared_address(bias), shared_address(gain), first_row, rows, threadIdx.x, multipliers * 32);
    named_barrier<3>((multipliers + 1) * 32);
    uint32_t h = b.base + p.h_offset, sums = b.base + p.sums_offset;
    Units u = units_of<WGMMA>(p, warp);
    Finish f;
    f.sums = sums;
    f.row_scale = row_scale;
    f.bias = bias;
    f.gain = gain;
    f.h = h;
    f.split = p.split;
    f.k_groups = p.k_groups;
    f.pitch = sums_pitch(p.tile_rows);
    f.rows = rows;
    f.tile_row = b.rank * rows;
    f.first_row = first_row;
    f.warp = warp;
    f.warps = multipliers;
    f.lane = lane;
    seen_early(p);
    pdl_wait();
    if (ENDING == RESIDUAL) ask_h(p, h, first_row, rows, threadIdx.x, multipliers * 32);
    cp_async_commit();
    if (!aside) scale_rows<NB>(p, row_scale, warp, multipliers, lane);

    float acc[NB / 2];
#pragma unroll
    for (int i = 0; i < NB / 2; ++i) acc[i] = 0.f;
    uint32_t slot = 0, parity = 0;
#pragma unroll 1
    for (uint32_t round = 0; round < b.rounds; ++round) {
        mbarrier_wait(b.full + 8 * slot, parity);
        uint32_t weights = b.stage(p, slot), present = min(p.slabs, b.slab_count - round * p.slabs);
        multiply<NB, WGMMA>(p, u, acc, weights, weights + p.slabs * p.tile_rows * 128, present, lane);
        __syncwarp();
        if (lane == 0) mbarrier_arrive(b.empty + 8 * slot);
        if (++slot == p.stages) slot = 0, parity ^= 1;
    }

    if (p.sums_offset == 0) named_barrier<1>(multipliers * 32);  // the sums lie where the stages were: all have read those
    keep_sums<NB>(sums, u, acc, p.tile_rows, p.m, lane);
    cp_async_wait<0>();
    named_barrier<2>((multipliers + aside) * 32);  // with the asking warp, where the scales are its
    if (WGMMA && p.split > 1) {
        cluster_arrive();
        cluster_wait();
    }

    if (!WGMMA || p.split == 1) {
        finish<NB, ENDING, false>(p, f);
        return;
    }
    if constexpr (WGMMA) {
        finish<NB, ENDING, true>(p, f);
        __syncwarp();
        cluster_arrive_relaxed();  // no block leaves while another one may read its sums
        cluster_wait();
    }
}

#endif  // TM_HOPPER

// --- entries: skinny_<units>_<NB>_<ending> ---

#if TM_HOPPER
#define SKINNY_BODY(nb, ending, wgmma) skinny<nb, ending, wgmma>(p)
#else
#define SKINNY_BODY(nb, ending, wgmma)
#endif
#if TM_WGMMA
#define SKINNY_WGMMA_BODY(nb, ending) skinny<nb, ending, true>(p)
#else
#define SKINNY_WGMMA_BODY(nb, ending)
#endif

// Two blocks of consecutive kernels share an SM: 12 multiplying warps and 72 registers, or 8 and 112.
#define SKINNY_WARP(nb, name, ending)                                                                            \
    extern "C" __global__ void __launch_bounds__(nb < 32 ? 416 : 288, 2)                                          \
        skinny_warp_##nb##_##name(const __grid_constant__ SkinnyParams p) {                                       \
        SKINNY_BODY(nb, ending, false);                                                                          \
    }
#define SKINNY_WGMMA(nb, name, ending)                                                                           \
    extern "C" __global__ void __launch_bounds__(416, 2)                                                          \
        skinny_wgmma_##nb##_##name(const __grid_constant__ SkinnyParams p) {                                      \
        SKINNY_WGMMA_BODY(nb, ending);                                                                           \
    }

SKINNY_ENDINGS(SKINNY_WARP, 8)
SKINNY_ENDINGS(SKINNY_WARP, 16)
SKINNY_ENDINGS(SKINNY_WARP, 32)
SKINNY_ENDINGS(SKINNY_WGMMA, 8)
SKINNY_ENDINGS(SKINNY_WGMMA, 16)
SKINNY_ENDINGS(SKINNY_WGMMA, 32)
SKINNY_ENDINGS(SKINNY_WGMMA, 64)
