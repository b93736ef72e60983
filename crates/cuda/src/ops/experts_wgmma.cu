// experts_wgmma.cu   the products of experts.cu for many visits, by Hopper's warpgroup products
// shapes    as experts.cu
// mapping   a block a tile of 128 visits of one expert times 256 columns. One warpgroup brings rows of x, which lie anywhere, by
//           asynchronous copies of 16 bytes, and weights by the copy engine; two of 64 rows each multiply. STAGES x (128 + 256) x 64
//           elements of shared memory, 128-byte swizzle. Column tiles run fastest, so that rows are brought to the second-level
//           cache once; narrower tiles would ask it for more than it gives
// numerics  f32 accumulation in one fixed order over k: a visit never depends on the others
// bound     2 * visits * n * k at 780 TFLOP/s
// limits    sm_90a; as experts.cu
// measured  benches/baselines/h200.jsonl
#include "gemm.cuh"
#include "wgmma.cuh"

struct alignas(64) TensorMap { uint64_t opaque[16]; };

struct ExpertsWgmmaParams {
    TensorMap w;         // [experts * n, k], box 256 x 64, 128-byte swizzle
    uint64_t x;
    uint64_t y;
    uint64_t order;
    uint64_t tiles;
    uint64_t tile_count;
    uint32_t n;
    uint32_t k;
    uint32_t per_token;  // gate_up: visit v is one of row v / per_token
    uint32_t activation; // gate_up only: as `activate` counts them
    uint64_t reserved;
};
static_assert(sizeof(ExpertsWgmmaParams) == 192, "mirrored in experts.rs");

constexpr uint32_t THREADS = 384;

#if TM_WGMMA

constexpr uint32_t BM = 128, BN = 256, HALF = 128, BK = 64, STAGES = 4;
constexpr uint32_t X_BYTES = BM * BK * 2, STAGE_BYTES = X_BYTES + BN * BK * 2, ATOM_BYTES = 1024;
constexpr uint32_t CHUNKS = BK / 8, APART = 128 / CHUNKS, OWN = BM / APART; // 16-byte pieces of a row of a stage; a thread's rows
constexpr uint32_t LAG = 2; // stages of x that are under way while the next is asked for

// One warpgroup.
template <bool GATED>
__device__ __forceinline__ void bring(const ExpertsWgmmaParams& p, const uint4& tile, uint32_t col0, uint32_t stages, uint32_t full, uint32_t empty) {
    const uint32_t chunk = threadIdx.x % CHUNKS, first = threadIdx.x / CHUNKS, steps = (p.k + BK - 1) / BK;
    const uint32_t place = stages + first * (BK * 2) + ((chunk ^ (first & 7)) << 4);
    const bf16* from[OWN];
#pragma unroll
    for (uint32_t i = 0; i < OWN; i++) {
        // What lies behind the last visit is brought as it, and never stored.
        const uint32_t visit = tile.y + min(first + i * APART, tile.z - 1);
        const uint32_t row = GATED ? reinterpret_cast<const uint32_t*>(p.order)[visit] / p.per_token : visit;
        from[i] = reinterpret_cast<const bf16*>(p.x) + uint64_t(row) * p.k + chunk * 8;
    }
    for (uint32_t step = 0; step < steps + LAG; step++) {
        if (step < steps) {
            const uint32_t slot = step % STAGES;
            mbarrier_wait(empty + slot * 8, (step / STAGES & 1) ^ 1); // the first round finds every stage empty
            if (threadIdx.x == 0) {
                mbarrier_arrive_expect(full + slot * 8, BN * BK * 2);
                tensor_copy_2d(stages + slot * STAGE_BYTES + X_BYTES, &p.w, step * BK, tile.x * p.n + col0, full + slot * 8);
            }
            const bool inside = step * BK + chunk * 8 < p.k;
#pragma unroll
            for (uint32_t i = 0; i < OWN; i++) {
                cp_async_16(place + slot * STAGE_BYTES + i * APART * (BK * 2), inside ? from[i] + step * BK : from[i], inside);
            }
        }
        cp_async_commit();
        if (step >= LAG) {
            cp_async_wait<LAG>();
            fence_async_shared();
            mbarrier_arrive(full + (step - LAG) % STAGES * 8);
        }
    }
}

// A warp's 16 rows from `row0` of the tile on, 128 columns.
template <bool GATED, bool ERF>
__device__ __forceinline__ void store(const ExpertsWgmmaParams& p, const float (&d)[HALF / 8][4], const uint4& tile, uint32_t row0, uint32_t col0) {
    constexpr uint32_t STEP = GATED ? 2 : 1, PIECES = HALF / 8; // a gated piece is made of two
    const uint32_t lane = threadIdx.x % 32, t = lane % 4, n = p.n / STEP;
#pragma unroll
    for (uint32_t half = 0; half < 2; half++) {
        const uint32_t row = row0 + half * 8 + lane / 4;
        const bool valid = row < tile.z;
        uint32_t at = tile.y + row;
        if (!GATED) at = valid ? reinterpret_cast<const uint32_t*>(p.order)[at] : 0;
        bf16* to = reinterpret_cast<bf16*>(p.y) + uint64_t(at) * n;
#pragma unroll
        for (uint32_t j = 0; j < PIECES; j += 4 * STEP) {
            uint32_t v[4];
#pragma unroll
            for (uint32_t i = 0; i < 4; i++) {
                const auto& gate = d[j + i * STEP];
                if constexpr (GATED) {
                    const auto& up = d[j + i * STEP + 1];
                    v[i] = pack_bf16(activate<ERF>(gate[2 * half], p.activation) * up[2 * half],
                                     activate<ERF>(gate[2 * half + 1], p.activation) * up[2 * half + 1]);
                } else {
                    v[i] = pack_bf16(gate[2 * half], gate[2 * half + 1]);
                }
            }
            transpose_quad(v, t);
            if (valid) store_eight(to, (col0 + j * 8) / STEP + t * 8, 0, n, v, true);
        }
    }
}

template <bool GATED> __device__ __forceinline__ void experts(const ExpertsWgmmaParams& p) {
    extern __shared__ unsigned char memory[];
    __shared__ __align__(8) uint64_t full_barriers[STAGES], empty_barriers[STAGES];
    const uint32_t stages = (shared_address(memory) + ATOM_BYTES - 1) / ATOM_BYTES * ATOM_BYTES;
    const uint32_t full = shared_address(full_barriers), empty = shared_address(empty_barriers);
    if (threadIdx.x == 0) {
        for (uint32_t s = 0; s < STAGES; s++) {
            mbarrier_init(full + s * 8, 128 + 1); // everyone who brings rows, and the announcement of the weights
            mbarrier_init(empty + s * 8, 8);      // the warps that multiply
        }
        mbarrier_init_fence();
    }
    __syncthreads();
    pdl_wait();
    pdl_launch();
    const uint32_t col_tiles = (p.n + BN - 1) / BN, index = blockIdx.x / col_tiles, col0 = blockIdx.x % col_tiles * BN;
    if (index >= *reinterpret_cast<const uint32_t*>(p.tile_count)) return;
    const uint4 tile = reinterpret_cast<const uint4*>(p.tiles)[index];
    if (threadIdx.x < 128) {
        registers_lower<40>();
        bring<GATED>(p, tile, col0, stages, full, empty);
        return;
    }
    registers_raise<232>();
    const uint32_t my_rows = (threadIdx.x / 128 - 1) * 64, warp = threadIdx.x / 32 % 4, steps = (p.k + BK - 1) / BK;
    float d[2][HALF / 8][4];
    for (uint32_t step = 0; step < steps; step++) {
        const uint32_t slot = step % STAGES;
        mbarrier_wait(full + slot * 8, step / STAGES & 1);
        const uint32_t x_stage = stages + slot * STAGE_BYTES;
        const uint64_t a = wgmma_descriptor(x_stage + my_rows * BK * 2), b = wgmma_descriptor(x_stage + X_BYTES);
        wgmma_fence();
#pragma unroll
        for (uint32_t k16 = 0; k16 < BK / 16; k16++) {
            wgmma_shared<HALF>(d[0], a + 2 * k16, b + 2 * k16, step | k16);
            wgmma_shared<HALF>(d[1], a + 2 * k16, b + HALF * BK * 2 / 16 + 2 * k16, step | k16);
        }
        wgmma_commit();
        // One product stays in flight; the one before it is done, so its stage may be filled again.
        wgmma_wait<1>();
        if (step > 0 && threadIdx.x % 32 == 0) mbarrier_arrive(empty + (step - 1) % STAGES * 8);
    }
    wgmma_wait<0>();
    hold(d[0]);
    hold(d[1]);
#pragma unroll
    for (uint32_t half = 0; half < 2; half++) {
        if (GATED && p.activation == 2) {
            store<GATED, true>(p, d[half], tile, my_rows + warp * 16, col0 + half * HALF);
        } else {
            store<GATED, false>(p, d[half], tile, my_rows + warp * 16, col0 + half * HALF);
        }
    }
}

#define BODY(gated) experts<gated>(p);
#else
#define BODY(gated)
#endif

extern "C" __global__ __launch_bounds__(THREADS, 1) void experts_wgmma_gate_up(const __grid_constant__ ExpertsWgmmaParams p) { BODY(true) }
extern "C" __global__ __launch_bounds__(THREADS, 1) void experts_wgmma_down(const __grid_constant__ ExpertsWgmmaParams p) { BODY(false) }
