// experts.cu   products of rows with the experts that they visit, and the sum of what these give
// shapes    gate_up: x [rows, k] bf16, w [experts, n, k] bf16 with gate and up rows interleaved in groups of 8; y [visits, n / 2]
//           bf16 = act(gate) * up, in the order of experts. down: x [visits, k] bf16 in the order of experts, w [experts, n, k];
//           y [visits, n] bf16, a token's visits one after the other. sum: y [rows, width] bf16 = sum over a token's visits of
//           weight * x [visits, width] (+ shared [rows, width])
//           order, tiles, tile_count: as `deal` of routing.cu leaves them
// mapping   a block a tile of up to BM visits of one expert times BN columns, as gemm.cu; blocks of no tile leave at once. Tiles of
//           one expert that stand beside each other share their weights in L2. sum: eight columns a thread
// numerics  f32 accumulation in one fixed order over k, the same for every tile: a visit never depends on the others. The sum
//           is taken in f32 in the order in which the token chose
// bound     few visits: the weights of the experts visited, at 4.7 TB/s; many: 2 * visits * n * k at the speed of `mma`
// limits    k % 8 == 0, n % 16 == 0 (gate_up) or n % 8 == 0, width % 8 == 0; all 16-byte aligned
#include "gemm_mma.cuh"

struct ExpertsParams {
    uint64_t x;
    uint64_t w;
    uint64_t y;
    uint64_t order;
    uint64_t tiles;
    uint64_t tile_count;
    uint32_t n;
    uint32_t k;
    uint32_t most_tiles;
    uint32_t per_token;  // gate_up: visit v is one of row v / per_token
    uint32_t activation; // gate_up only: as `activate` counts them
    uint32_t reserved;
};
static_assert(sizeof(ExpertsParams) == 72, "mirrored in experts.rs");

template <class T, bool GATED, bool ERF>
__device__ __forceinline__ void store_visits(const ExpertsParams& p, const float (&acc)[T::WM / 16][T::WN / 8][4], const uint4& tile, uint32_t row0, uint32_t col0) {
    const uint32_t lane = threadIdx.x % 32;
    const uint32_t* order = reinterpret_cast<const uint32_t*>(p.order) + tile.y;
    bf16* y = reinterpret_cast<bf16*>(p.y);
#pragma unroll
    for (int i = 0; i < T::WM / 16; i++) {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const uint32_t row = row0 + i * 16 + half * 8 + lane / 4;
            if (row >= tile.z) continue;
            if constexpr (GATED) {
                const uint64_t start = uint64_t(tile.y + row) * (p.n / 2);
#pragma unroll
                for (int j = 0; j < T::WN / 8; j += 2) {
                    const uint32_t col = (col0 + j * 8) / 2 + lane % 4 * 2;
                    const float a0 = acc[i][j][2 * half], a1 = acc[i][j][2 * half + 1];
                    const float u0 = acc[i][j + 1][2 * half], u1 = acc[i][j + 1][2 * half + 1];
                    store_pair(y, start, col, p.n / 2, activate<ERF>(a0, p.activation) * u0, activate<ERF>(a1, p.activation) * u1);
                }
            } else {
                const uint64_t start = uint64_t(order[row]) * p.n;
#pragma unroll
                for (int j = 0; j < T::WN / 8; j++) {
                    store_pair(y, start, col0 + j * 8 + lane % 4 * 2, p.n, acc[i][j][2 * half], acc[i][j][2 * half + 1]);
                }
            }
        }
    }
}

template <class T, bool GATED> __device__ __forceinline__ void experts(const ExpertsParams& p) {
    extern __shared__ __align__(128) unsigned char memory[];
    // Whoever runs behind the gated product may take it for certain that routing has ended: `order` and `tiles` are there, and so
    // the weights of the other product do not wait for the first to end.
    if (GATED) pdl_wait();
    pdl_launch();
    const uint32_t index = blockIdx.x % p.most_tiles, col0 = blockIdx.x / p.most_tiles * T::BN;
    if (index >= *reinterpret_cast<const uint32_t*>(p.tile_count)) return;
    const uint4 tile = reinterpret_cast<const uint4*>(p.tiles)[index];
    const bf16* w = reinterpret_cast<const bf16*>(p.w) + uint64_t(tile.x) * p.n * p.k;
    const uint32_t shared = shared_address(memory);
    const uint32_t steps = (p.k + BK - 1) / BK;
    const auto x_stage = [&](uint32_t step) { return shared + step % T::STAGES * T::STAGE_BYTES; };
    const auto w_stage = [&](uint32_t step) { return x_stage(step) + T::BM * BK * 2; };

    // Rows of x: this thread's of a stage.
    constexpr int OWN = (T::BM * CHUNKS + T::THREADS - 1) / T::THREADS;
    const uint32_t chunk = threadIdx.x % CHUNKS;
    const bf16* from[OWN];
#pragma unroll
    for (int i = 0; i < OWN; i++) {
        const uint32_t row = threadIdx.x / CHUNKS + i * (T::THREADS / CHUNKS);
        from[i] = nullptr;
        if (row < tile.z) {
            const uint32_t place = tile.y + row;
            const uint32_t at = GATED ? reinterpret_cast<const uint32_t*>(p.order)[place] / p.per_token : place;
            from[i] = reinterpret_cast<const bf16*>(p.x) + uint64_t(at) * p.k + chunk * 8;
        }
    }
    const auto request_x = [&](uint32_t step) {
        const bool inside = step * BK + chunk * 8 < p.k;
#pragma unroll
        for (int i = 0; i < OWN; i++) {
            const uint32_t row = threadIdx.x / CHUNKS + i * (T::THREADS / CHUNKS);
            if (row >= T::BM) break;
            const bool present = inside && from[i] != nullptr;
            cp_async_16(x_stage(step) + swizzled(row, chunk), present ? from[i] + step * BK : w, present);
        }
    };
#pragma unroll
    for (uint32_t s = 0; s < T::STAGES - 1; s++) {
        if (s < steps) request_tile<T::BN, T::THREADS>(w_stage(s), w, col0, p.n, s * BK, p.k);
    }
    if (!GATED) pdl_wait();
#pragma unroll
    for (uint32_t s = 0; s < T::STAGES - 1; s++) {
        if (s < steps) request_x(s);
        cp_async_commit(); // the first of these has all weights so far with it
    }

    const uint32_t warp = threadIdx.x / 32;
    const uint32_t warp_row = warp / (T::BN / T::WN) * T::WM, warp_col = warp % (T::BN / T::WN) * T::WN;
    float acc[T::WM / 16][T::WN / 8][4] = {};
    for (uint32_t step = 0; step < steps; step++) {
        cp_async_wait<T::STAGES - 2>();
        __syncthreads(); // the stage is here for all, and all have left the stage that is filled next
        const uint32_t next = step + T::STAGES - 1;
        if (next < steps) {
            request_tile<T::BN, T::THREADS>(w_stage(next), w, col0, p.n, next * BK, p.k);
            request_x(next);
        }
        cp_async_commit(); // empty ones keep the count of groups
        multiply_stage<T>(acc, x_stage(step), w_stage(step), warp_row, warp_col);
    }
    cp_async_wait<0>();
    if (GATED && p.activation == 2) {
        store_visits<T, GATED, true>(p, acc, tile, warp_row, col0 + warp_col);
    } else {
        store_visits<T, GATED, false>(p, acc, tile, warp_row, col0 + warp_col);
    }
}

// Mirrored by the table of tiles in experts.rs.
using T16x64 = Tile<16, 64, 16, 16, 6>;
using T64x128 = Tile<64, 128, 32, 32, 4>;
using T128x128 = Tile<128, 128, 64, 32, 3>;

#define EXPERTS(tile, name, gated) \
    extern "C" __global__ __launch_bounds__(T##tile::THREADS) void experts_##tile##_##name(const __grid_constant__ ExpertsParams p) { experts<T##tile, gated>(p); }
#define EXPERTS_BOTH(tile) EXPERTS(tile, gate_up, true) EXPERTS(tile, down, false)

EXPERTS_BOTH(16x64)
EXPERTS_BOTH(64x128)
EXPERTS_BOTH(128x128)

struct SumParams {
    uint64_t x;
    uint64_t weights;
    uint64_t shared; // 0: none
    uint64_t y;
    uint32_t per_token;
    uint32_t width;
};
static_assert(sizeof(SumParams) == 40, "mirrored in experts.rs");

__device__ __forceinline__ void add_eight(float (&sum)[8], const uint4& eight, float weight) {
    const uint32_t words[4] = {eight.x, eight.y, eight.z, eight.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const float2 pair = unpack_bf16(words[i]);
        sum[2 * i] = fmaf(weight, pair.x, sum[2 * i]);
        sum[2 * i + 1] = fmaf(weight, pair.y, sum[2 * i + 1]);
    }
}

extern "C" __global__ void __launch_bounds__(256) experts_sum(const __grid_constant__ SumParams p) {
    pdl_launch();
    pdl_wait();
    const uint32_t pieces = p.width / 8, row = blockIdx.x, piece = blockIdx.y * blockDim.x + threadIdx.x;
    if (piece >= pieces) return;
    const uint4* x = reinterpret_cast<const uint4*>(p.x) + uint64_t(row) * p.per_token * pieces + piece;
    const float* weights = reinterpret_cast<const float*>(p.weights) + uint64_t(row) * p.per_token;
    float sum[8] = {};
    for (uint32_t visit = 0; visit < p.per_token; visit++) add_eight(sum, x[uint64_t(visit) * pieces], weights[visit]);
    if (p.shared) add_eight(sum, reinterpret_cast<const uint4*>(p.shared)[uint64_t(row) * pieces + piece], 1.0f);
    reinterpret_cast<uint4*>(p.y)[uint64_t(row) * pieces + piece] =
        make_uint4(pack_bf16(sum[0], sum[1]), pack_bf16(sum[2], sum[3]), pack_bf16(sum[4], sum[5]), pack_bf16(sum[6], sum[7]));
}
