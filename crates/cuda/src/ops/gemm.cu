// gemm.cu   y[m,n] = sum_k x[m,k] * w[n,k] (+ bias[n])
// shapes    x [rows, k] bf16, w [n, k] bf16 (as checkpoints hold it), bias [n] f32 or none, y [rows, n] bf16 or f32; all
//           dense and row-major. gate_up: w has gate and up rows interleaved in groups of 8, y [rows, n / 2] = act(gate) * up.
//           add: y [rows, n] f32 is the residual stream, added to in place. y aliases nothing else.
// mapping   one block a BM x BN tile, one-dimensional grid; tiles of a group of 16 row tiles share their weights in L2.
//           STAGES x (BM + BN) x 64 elements of shared memory, 16-byte chunks xor-swizzled by row (no bank conflicts, no
//           padding), filled by cp.async; ldmatrix; mma m16n8k16
// numerics  f32 accumulation in one fixed order over k (64 at a time, no split): a row never depends on the other rows
// bound     compute: 2*rows*n*k; this is the product that runs everywhere, not the fastest one on any GPU from sm_90 on
// limits    k % 8 == 0; x, w 16-byte aligned; any n; any rows (rows == 0 returns on the host)
//           live_rows != 0: *live_rows <= rows is read on the device; tiles past it leave at once, rows past it stay untouched
// rejected  stores through shared memory: the tile's own stores merge in L2, and the tail code doubles
#include "gemm_mma.cuh"

struct GemmParams {
    uint64_t x;
    uint64_t w;
    uint64_t bias;       // 0: none
    uint64_t y;
    uint64_t live_rows;  // 0: rows
    uint32_t rows;
    uint32_t n;
    uint32_t k;
    uint32_t activation; // gate_up only: as `activate` counts them
};
static_assert(sizeof(GemmParams) == 56, "mirrored in gemm.rs");

constexpr uint32_t GROUP = 16;   // row tiles that share a pass over the weights

template <class T, Epilogue E, bool ERF>
__device__ __forceinline__ void store_tile(const GemmParams& p, const float (&acc)[T::WM / 16][T::WN / 8][4], uint32_t row0, uint32_t col0, uint32_t rows) {
    const uint32_t lane = threadIdx.x % 32;
    const float* bias = reinterpret_cast<const float*>(p.bias);
    constexpr int STEP = E == GATE_UP ? 2 : 1;
#pragma unroll
    for (int j = 0; j < T::WN / 8; j += STEP) {
        const uint32_t col = col0 + j * 8 + lane % 4 * 2;
        float b[2 * STEP];
#pragma unroll
        for (int s = 0; s < 2 * STEP; s++) {
            const uint32_t at = col + s / 2 * 8 + s % 2;
            b[s] = bias && at < p.n ? bias[at] : 0.0f;
        }
#pragma unroll
        for (int i = 0; i < T::WM / 16; i++) {
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const uint32_t row = row0 + i * 16 + half * 8 + lane / 4;
                if (row >= rows) continue;
                const float a0 = acc[i][j][2 * half] + b[0], a1 = acc[i][j][2 * half + 1] + b[1];
                if constexpr (E == GATE_UP) {
                    const float u0 = acc[i][j + 1][2 * half] + b[2], u1 = acc[i][j + 1][2 * half + 1] + b[3];
                    const uint32_t out = (col0 + j * 8) / 2 + lane % 4 * 2;
                    store_pair(reinterpret_cast<bf16*>(p.y), uint64_t(row) * (p.n / 2), out, p.n / 2,
                               activate<ERF>(a0, p.activation) * u0, activate<ERF>(a1, p.activation) * u1);
                } else if constexpr (E == STORE_BF16) {
                    store_pair(reinterpret_cast<bf16*>(p.y), uint64_t(row) * p.n, col, p.n, a0, a1);
                } else {
                    store_pair<E == ADD_F32>(reinterpret_cast<float*>(p.y), uint64_t(row) * p.n, col, 0, p.n, a0, a1);
                }
            }
        }
    }
}

template <class T, Epilogue E> __device__ __forceinline__ void gemm(const GemmParams& p) {
    extern __shared__ __align__(128) unsigned char memory[];
    pdl_launch();

    // Which tile: row tiles run fastest inside a group of GROUP of them, then columns, then groups.
    const uint32_t row_tiles = (p.rows + T::BM - 1) / T::BM, col_tiles = (p.n + T::BN - 1) / T::BN;
    const uint32_t group = blockIdx.x / (GROUP * col_tiles), within = blockIdx.x % (GROUP * col_tiles);
    const uint32_t group_size = min(GROUP, row_tiles - group * GROUP);
    const uint32_t row0 = (group * GROUP + within % group_size) * T::BM, col0 = within / group_size * T::BN;

    const bf16* x = reinterpret_cast<const bf16*>(p.x);
    const bf16* w = reinterpret_cast<const bf16*>(p.w);
    const uint32_t shared = shared_address(memory);
    const uint32_t steps = (p.k + BK - 1) / BK;
    // Rows of x first, then rows of w, in every stage.
    const auto x_stage = [&](uint32_t step) { return shared + step % T::STAGES * T::STAGE_BYTES; };
    const auto w_stage = [&](uint32_t step) { return x_stage(step) + T::BM * BK * 2; };

    // Weights never wait for the kernel before this one.
#pragma unroll
    for (uint32_t s = 0; s < T::STAGES - 1; s++) {
        if (s < steps) request_tile<T::BN, T::THREADS>(w_stage(s), w, col0, p.n, s * BK, p.k);
    }
    pdl_wait();
    const uint32_t rows = p.live_rows ? min(*reinterpret_cast<const uint32_t*>(p.live_rows), p.rows) : p.rows;
    if (row0 >= rows) {
        cp_async_commit();
        cp_async_wait<0>(); // nothing may land in shared memory that is no longer this block's
        return;
    }
#pragma unroll
    for (uint32_t s = 0; s < T::STAGES - 1; s++) {
        if (s < steps) request_tile<T::BM, T::THREADS>(x_stage(s), x, row0, rows, s * BK, p.k);
        cp_async_commit();
    }

    const uint32_t warp = threadIdx.x / 32;
    const uint32_t warp_row = warp / (T::BN / T::WN) * T::WM, warp_col = warp % (T::BN / T::WN) * T::WN;
    float acc[T::WM / 16][T::WN / 8][4] = {};
    for (uint32_t step = 0; step < steps; step++) {
        cp_async_wait<T::STAGES - 2>();
        __syncthreads(); // the stage is here for all, and all have left the stage that is filled next
        const uint32_t next = step + T::STAGES - 1;
        if (next < steps) {
            request_tile<T::BM, T::THREADS>(x_stage(next), x, row0, rows, next * BK, p.k);
            request_tile<T::BN, T::THREADS>(w_stage(next), w, col0, p.n, next * BK, p.k);
        }
        cp_async_commit(); // empty ones keep the count of groups
        multiply_stage<T>(acc, x_stage(step), w_stage(step), warp_row, warp_col);
    }
    cp_async_wait<0>();
    if (E == GATE_UP && p.activation == 2) {
        store_tile<T, E, true>(p, acc, row0 + warp_row, col0 + warp_col, rows);
    } else {
        store_tile<T, E, false>(p, acc, row0 + warp_row, col0 + warp_col, rows);
    }
}

// Mirrored by the table of tiles in gemm.rs.
using T16x128 = Tile<16, 128, 16, 32, 4>;
using T32x128 = Tile<32, 128, 32, 32, 4>;
using T64x64 = Tile<64, 64, 32, 32, 4>;
using T128x128 = Tile<128, 128, 64, 32, 3>;

#define GEMM(tile, name, epilogue) \
    extern "C" __global__ __launch_bounds__(T##tile::THREADS) void gemm_##tile##_##name(const __grid_constant__ GemmParams p) { gemm<T##tile, epilogue>(p); }
#define GEMM_ALL(tile) GEMM(tile, bf16, STORE_BF16) GEMM(tile, f32, STORE_F32) GEMM(tile, gate_up, GATE_UP) GEMM(tile, add, ADD_F32)

GEMM_ALL(16x128)
GEMM_ALL(32x128)
GEMM_ALL(64x64)
GEMM_ALL(128x128)
