// What the matrix products by `mma` share: tiles in shared memory, and the product of one stage.
#pragma once
#include "gemm.cuh"

constexpr int BK = 64;           // elements of k a stage: one row is 128 bytes, eight chunks
constexpr int CHUNKS = BK / 8;

// Where the 16-byte chunk `chunk` of row `row` lies in a tile.
__device__ __forceinline__ uint32_t swizzled(uint32_t row, uint32_t chunk) { return row * (BK * 2) + ((chunk ^ (row & 7)) << 4); }

// Requests ROWS x 64 elements of a [limit, k] matrix from row `row0`, column `col0` on; what lies outside is zero.
template <int ROWS, int THREADS>
__device__ __forceinline__ void request_tile(uint32_t shared, const bf16* matrix, uint32_t row0, uint32_t limit, uint32_t col0, uint32_t k) {
    static_assert(ROWS * CHUNKS % THREADS == 0, "every thread copies equally often");
    const uint32_t chunk = threadIdx.x % CHUNKS;
    const uint32_t col = col0 + chunk * 8;
#pragma unroll
    for (int i = 0; i < ROWS * CHUNKS / THREADS; i++) {
        const uint32_t row = threadIdx.x / CHUNKS + i * (THREADS / CHUNKS);
        const bool present = row0 + row < limit && col < k;
        const bf16* from = present ? matrix + uint64_t(row0 + row) * k + col : matrix;
        cp_async_16(shared + swizzled(row, chunk), from, present);
    }
}

// BM x BN tile, WM x WN of it a warp.
template <int BM_, int BN_, int WM_, int WN_, int STAGES_> struct Tile {
    static constexpr int BM = BM_, BN = BN_, WM = WM_, WN = WN_, STAGES = STAGES_;
    static constexpr int WARPS = (BM / WM) * (BN / WN);
    static constexpr int THREADS = WARPS * 32;
    static constexpr int STAGE_BYTES = (BM + BN) * BK * 2;
    static constexpr int SHARED = STAGES * STAGE_BYTES;
};


// acc += the stage's rows of x times its rows of w: the WM x WN part of this warp. `x` and `w` are where they lie.
template <class T>
__device__ __forceinline__ void multiply_stage(float (&acc)[T::WM / 16][T::WN / 8][4], uint32_t x, uint32_t w, uint32_t warp_row, uint32_t warp_col) {
    const uint32_t lane = threadIdx.x % 32;
#pragma unroll
    for (uint32_t kk = 0; kk < CHUNKS; kk += 2) {
        uint32_t a[T::WM / 16][4], b[T::WN / 16][4];
#pragma unroll
        for (uint32_t i = 0; i < T::WM / 16; i++) {
            ldmatrix_x4(a[i], x + swizzled(warp_row + i * 16 + lane % 16, kk + lane / 16));
        }
#pragma unroll
        for (uint32_t j = 0; j < T::WN / 16; j++) { // 16 weight rows: {k 0-7, k 8-15} of rows 0-7, then of rows 8-15
            ldmatrix_x4(b[j], w + swizzled(warp_col + j * 16 + lane % 8 + lane / 16 * 8, kk + lane / 8 % 2));
        }
#pragma unroll
        for (int i = 0; i < T::WM / 16; i++) {
#pragma unroll
            for (int j = 0; j < T::WN / 8; j++) mma_16816(acc[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
        }
    }
}
