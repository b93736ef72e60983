// skinny_portable.cu   y[m,n] = ending(sum_k x[m,k] * W[n,k]) for few rows of x, on every GPU from sm_80 on
// shapes    as skinny_hopper.cu
// mapping   a tile of `tile_rows` rows of W for each block; all of its warps copy (cp.async, four stages of `slabs` slabs) and
//           multiply: units of 16 rows, `row_groups` side by side, `k_groups` sharing the slabs of a stage. Slabs lie in
//           shared memory as the 128-byte swizzle has them, so that units read them without conflicts
// numerics  as skinny_hopper.cu: f32, a row's sum in an order that tile_rows, k_groups and slabs alone decide
// bound     memory: 2*n*k bytes at the device's read speed
// limits    k % 8 == 0, x and W aligned to 16 bytes, x_stride % 8 == 0, m <= 64; GATE_UP n % 16 == 0
#include "endings.cuh"

constexpr uint32_t PORTABLE_STAGES = 4;

// One thread's share of a copy of `rows` rows, `count` slabs from `first` on. Rows and columns that are not there are zero.
__device__ __forceinline__ void copy_slabs(uint32_t shared, uint64_t from, uint64_t stride, uint32_t rows, uint32_t first_row,
                                           uint32_t end_row, uint32_t first, uint32_t count, uint32_t k) {
    const bf16* source = reinterpret_cast<const bf16*>(from);
    for (uint32_t i = threadIdx.x; i < count * rows * 8; i += blockDim.x) {
        uint32_t piece = i % 8, row = i / 8 % rows, slab = i / 8 / rows;
        uint32_t column = (first + slab) * SLAB + piece * 8;
        bool there = first_row + row < end_row && column < k;
        const bf16* at = there ? source + (first_row + row) * stride + column : source;
        cp_async_16(swizzled(shared + (slab * rows + row) * 128, piece), at, there);
    }
}

template <int NB, Ending ENDING>
__device__ __forceinline__ void skinny_portable(const SkinnyParams& p) {
    extern __shared__ uint8_t raw[];
    __shared__ float row_scale[NB];
    __shared__ alignas(16) float bias[MOST_TILE_ROWS], gain[MOST_TILE_ROWS];
    pdl_launch();
    uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = blockDim.x / 32;
    uint32_t base = (shared_address(raw) + 1023) & ~1023u;
    uint32_t tile_row = blockIdx.x * p.tile_rows, total = (p.k + SLAB - 1) / SLAB;
    uint32_t rounds = (total + p.slabs - 1) / p.slabs, x_offset = p.slabs * p.tile_rows * 128;
    uint32_t stage_bytes = x_offset + p.slabs * NB * 128;

    auto ask_weights = [&](uint32_t round) {
        if (round >= rounds) return;
        copy_slabs(base + round % PORTABLE_STAGES * stage_bytes, p.weight, p.k, p.tile_rows, tile_row, p.n, round * p.slabs,
                   p.slabs, p.k);
    };
    auto ask_x = [&](uint32_t round) {
        if (round < rounds)
            copy_slabs(base + round % PORTABLE_STAGES * stage_bytes + x_offset, p.x, p.x_stride, NB, 0, p.m, round * p.slabs,
                       p.slabs, p.k);
        cp_async_commit();  // also where there is nothing: the count of groups tells which round has arrived
    };
    for (uint32_t round = 0; round < PORTABLE_STAGES - 1; ++round) ask_weights(round);
    ask_constants(p, shared_address(bias), shared_address(gain), tile_row, p.tile_rows, threadIdx.x, blockDim.x);
    pdl_wait();
    if (ENDING == RESIDUAL) ask_h(p, base + p.h_offset, tile_row, p.tile_rows, threadIdx.x, blockDim.x);
    for (uint32_t round = 0; round < PORTABLE_STAGES - 1; ++round) ask_x(round);
    scale_rows<NB>(p, row_scale, warp, warps, lane);
    Units u = units_of<false>(p, warp);
    float acc[NB / 2];
#pragma unroll
    for (int i = 0; i < NB / 2; ++i) acc[i] = 0.f;
    for (uint32_t round = 0; round < rounds; ++round) {
        cp_async_wait<PORTABLE_STAGES - 2>();
        __syncthreads();  // the round is there for all, and all have read the one whose place is filled next
        ask_weights(round + PORTABLE_STAGES - 1);
        ask_x(round + PORTABLE_STAGES - 1);
        uint32_t weights = base + round % PORTABLE_STAGES * stage_bytes, present = min(p.slabs, total - round * p.slabs);
        for (uint32_t slab = u.k_group; slab < present; slab += p.k_groups)
            slab_mma<NB>(acc, weights + slab * p.tile_rows * 128, weights + x_offset + slab * NB * 128, u.first_row,
                         p.tile_rows, NB, lane);
    }
    cp_async_wait<0>();
    __syncthreads();  // the sums go where the stages were
    keep_sums<NB>(base + p.sums_offset, u, acc, p.tile_rows, p.m, lane);
    __syncthreads();

    Finish f;
    f.sums = base + p.sums_offset;
    f.row_scale = row_scale;
    f.bias = bias;
    f.gain = gain;
    f.h = base + p.h_offset;
    f.split = 1;
    f.k_groups = p.k_groups;
    f.pitch = sums_pitch(p.tile_rows);
    f.rows = p.tile_rows;
    f.tile_row = 0;
    f.first_row = tile_row;
    f.warp = warp;
    f.warps = warps;
    f.lane = lane;
    finish<NB, ENDING, false>(p, f);
}

// --- entries: skinny_portable_<NB>_<ending> ---

#define SKINNY_PORTABLE(nb, name, ending)                                                                            \
    extern "C" __global__ void __launch_bounds__(256) skinny_portable_##nb##_##name(const __grid_constant__ SkinnyParams p) { \
        skinny_portable<nb, ending>(p);                                                                              \
    }
SKINNY_ENDINGS(SKINNY_PORTABLE, 8)
SKINNY_ENDINGS(SKINNY_PORTABLE, 16)
SKINNY_ENDINGS(SKINNY_PORTABLE, 32)
SKINNY_ENDINGS(SKINNY_PORTABLE, 64)
