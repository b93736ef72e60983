// gemm_wgmma.cu   y[m,n] = sum_k x[m,k] * w[n,k] (+ bias[n]), for Hopper's warpgroup products
// shapes    as gemm.cu: x [rows, k] bf16, w [n, k] bf16, bias [n] f32 or none, y [rows, n] bf16 or f32; gate_up: y [rows, n / 2]
//           = act(gate) * up from rows of w interleaved in groups of 8; add: y [rows, n] f32 is added to in place
// mapping   a cluster of CLUSTER blocks computes (CLUSTER * 128) x BN; clusters are persistent and take every gridDim-th tile.
//           A block is a producer warp (in a warpgroup that gives its registers away) and two consumer warpgroups of 64 x BN
//           each. Stages of (128 + BN) x 64 elements arrive by bulk tensor copies with 128-byte swizzle; each block of a
//           cluster loads its share of the weight tile and multicasts it to both. 1024 bytes of barriers and alignment, then
//           STAGES x (128 + BN) x 128 bytes of shared memory: one block a multiprocessor.
// numerics  f32 accumulation in one fixed order over k, no split: a row never depends on the other rows
// bound     compute: 2*rows*n*k; 780 TFLOP/s is what the library reaches on an H200
// limits    sm_90a; k % 8 == 0; x, w 16-byte aligned; any n, any rows; live_rows as in gemm.cu (rows past it are computed, not stored)
// rejected  (see docs/lab-log.md)
#include "gemm.cuh"

struct alignas(64) TensorMap { uint64_t opaque[16]; };

struct GemmWgmmaParams {
    TensorMap x;         // [rows, k], box 128 x 64, 128-byte swizzle
    TensorMap w;         // [n, k], box (BN / CLUSTER) x 64, 128-byte swizzle
    uint64_t bias;       // 0: none
    uint64_t y;
    uint64_t live_rows;  // 0: rows
    uint32_t rows;
    uint32_t n;
    uint32_t k;
    uint32_t activation; // gate_up only: as `activate` counts them
    uint64_t reserved[3];
};
static_assert(sizeof(GemmWgmmaParams) == 320, "mirrored in gemm.rs");

#if TM_WGMMA

constexpr uint32_t BM = 128, BK = 64;
constexpr uint32_t ATOM_BYTES = 1024; // eight rows of 128 bytes: what the swizzle permutes
constexpr uint32_t GROUP = 8;         // row tiles (of a cluster) that share a pass over the weights

template <uint32_t BN_, uint32_t CLUSTER_, uint32_t STAGES_> struct Tile {
    static constexpr uint32_t BN = BN_, CLUSTER = CLUSTER_, STAGES = STAGES_;
    static constexpr uint32_t X_BYTES = BM * BK * 2, W_BYTES = BN * BK * 2, STAGE_BYTES = X_BYTES + W_BYTES;
};

// Arrives at the barrier that lies at the same place in block `rank` of the cluster.
__device__ __forceinline__ void arrive_at(uint32_t barrier, uint32_t rank) {
    asm volatile("{\n.reg .b32 remote;\nmapa.shared::cluster.u32 remote, %0, %1;\nmbarrier.arrive.release.cluster.shared::cluster.b64 _, [remote];\n}"
                 ::"r"(barrier), "r"(rank) : "memory");
}
// The box lands at the same place in every block of the cluster and is counted at each one's own barrier.
__device__ __forceinline__ void tensor_copy_2d_to_all(uint32_t shared, const void* map, int x, int y, uint32_t barrier, uint16_t blocks) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;"
                 ::"r"(shared), "l"(map), "r"(x), "r"(y), "r"(barrier), "h"(blocks) : "memory");
}

#define COMMA ,
#define NAMES10(t) "%" #t "0, %" #t "1, %" #t "2, %" #t "3, %" #t "4, %" #t "5, %" #t "6, %" #t "7, %" #t "8, %" #t "9"
#define TIED4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define TIED16(i) TIED4(i), TIED4(i + 4), TIED4(i + 8), TIED4(i + 12)
#define TIED32(i) TIED16(i), TIED16(i + 16)
// d (64 x N, f32) = a (64 x 16) * b (N x 16)^T (+ d unless `first`). The three numbers name the operands after the accumulators.
#define PRODUCT(n, names, tied, a_name, b_name, keep_name)                                                                       \
    __device__ __forceinline__ void multiply(float (&d)[n / 2], uint64_t a, uint64_t b, int keep) {                              \
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " keep_name ", 0;\n"                                                      \
                     "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32.bf16.bf16 {" names "}, " a_name ", " b_name ", p, 1, 1, 0, 0;\n}" \
                     : tied : "l"(a), "l"(b), "r"(keep));                                                                        \
    }
PRODUCT(64, NAMES10() ", " NAMES10(1) ", " NAMES10(2) ", %30, %31", TIED32(0), "%32", "%33", "%34")
PRODUCT(128, NAMES10() ", " NAMES10(1) ", " NAMES10(2) ", " NAMES10(3) ", " NAMES10(4) ", " NAMES10(5) ", %60, %61, %62, %63",
        TIED32(0) COMMA TIED32(32), "%64", "%65", "%66")
PRODUCT(192, NAMES10() ", " NAMES10(1) ", " NAMES10(2) ", " NAMES10(3) ", " NAMES10(4) ", " NAMES10(5) ", " NAMES10(6) ", " NAMES10(7) ", " NAMES10(8)
        ", %90, %91, %92, %93, %94, %95", TIED32(0) COMMA TIED32(32) COMMA TIED32(64), "%96", "%97", "%98")
PRODUCT(256, NAMES10() ", " NAMES10(1) ", " NAMES10(2) ", " NAMES10(3) ", " NAMES10(4) ", " NAMES10(5) ", " NAMES10(6) ", " NAMES10(7) ", " NAMES10(8)
        ", " NAMES10(9) ", " NAMES10(10) ", " NAMES10(11) ", %120, %121, %122, %123, %124, %125, %126, %127",
        TIED32(0) COMMA TIED32(32) COMMA TIED32(64) COMMA TIED32(96), "%128", "%129", "%130")

// Four lanes hold v[i] = part `lane` of piece i; afterwards each holds the four parts of piece `lane`, in order.
__device__ __forceinline__ void transpose_quad(uint32_t (&v)[4], uint32_t lane) {
    const bool odd = lane & 1, high = lane & 2;
    // Pairs of lanes swap the off-diagonal entries of 2 x 2 blocks, then pairs of pairs swap the off-diagonal blocks.
    const uint32_t a = __shfl_xor_sync(~0u, odd ? v[0] : v[1], 1), b = __shfl_xor_sync(~0u, odd ? v[2] : v[3], 1);
    if (odd) { v[0] = a; v[2] = b; } else { v[1] = a; v[3] = b; }
    const uint32_t c = __shfl_xor_sync(~0u, high ? v[0] : v[2], 2), d = __shfl_xor_sync(~0u, high ? v[1] : v[3], 2);
    if (high) { v[0] = c; v[1] = d; } else { v[2] = c; v[3] = d; }
}

// Eight neighbouring bf16 of a row; `col` is a multiple of 8.
__device__ __forceinline__ void store_eight(bf16* y, uint64_t row_start, uint32_t col, uint32_t n, const uint32_t (&v)[4]) {
    if (n % 8 == 0) {
        if (col < n) *reinterpret_cast<uint4*>(y + row_start + col) = make_uint4(v[0], v[1], v[2], v[3]);
        return;
    }
#pragma unroll
    for (uint32_t i = 0; i < 8; i++) {
        const uint32_t word = v[i / 2] >> (i % 2 * 16);
        if (col + i < n) y[row_start + col + i] = __ushort_as_bfloat16(static_cast<unsigned short>(word));
    }
}
__device__ __forceinline__ float2 bias_pair(const GemmWgmmaParams& p, uint32_t col) {
    if (!p.bias) return make_float2(0.0f, 0.0f);
    const float* bias = reinterpret_cast<const float*>(p.bias);
    return make_float2(col < p.n ? bias[col] : 0.0f, col + 1 < p.n ? bias[col + 1] : 0.0f);
}

// A warp's 16 x BN accumulators: d[4j..4j+4] are (row g, cols 8j + 2t, + 1) and (row g + 8, the same), g = lane / 4, t = lane % 4.
template <class T, Epilogue E>
__device__ __forceinline__ void store_tile(const GemmWgmmaParams& p, float (&d)[T::BN / 2], uint32_t row0, uint32_t col0, uint32_t rows) {
    const uint32_t lane = threadIdx.x % 32, t = lane % 4;
    constexpr uint32_t PIECES = T::BN / 8;
    if constexpr (E == STORE_F32 || E == ADD_F32) {
#pragma unroll
        for (uint32_t j = 0; j < PIECES; j++) {
            const uint32_t col = col0 + j * 8 + t * 2;
            const float2 b = bias_pair(p, col);
#pragma unroll
            for (uint32_t half = 0; half < 2; half++) {
                const uint32_t row = row0 + half * 8 + lane / 4;
                if (row < rows) {
                    store_pair<E == ADD_F32>(reinterpret_cast<float*>(p.y), uint64_t(row) * p.n, col, p.n, d[4 * j + 2 * half] + b.x, d[4 * j + 2 * half + 1] + b.y);
                }
            }
        }
    } else {
        // Four pieces of eight columns change hands inside a quad so that every lane stores 16 bytes of one row.
        constexpr uint32_t STEP = E == GATE_UP ? 2 : 1;
        const uint32_t n = p.n / STEP;
#pragma unroll
        for (uint32_t j = 0; j < PIECES; j += 4 * STEP) {
            uint32_t v[2][4];
#pragma unroll
            for (uint32_t i = 0; i < 4; i++) {
                const uint32_t piece = j + i * STEP;
                const float2 b = bias_pair(p, col0 + piece * 8 + t * 2);
                if constexpr (E == GATE_UP) {
                    const float2 c = bias_pair(p, col0 + piece * 8 + 8 + t * 2);
#pragma unroll
                    for (uint32_t half = 0; half < 2; half++) {
                        const uint32_t at = 4 * piece + 2 * half;
                        v[half][i] = pack_bf16(activate(d[at] + b.x, p.activation) * (d[at + 4] + c.x), activate(d[at + 1] + b.y, p.activation) * (d[at + 5] + c.y));
                    }
                } else {
                    v[0][i] = pack_bf16(d[4 * piece] + b.x, d[4 * piece + 1] + b.y);
                    v[1][i] = pack_bf16(d[4 * piece + 2] + b.x, d[4 * piece + 3] + b.y);
                }
            }
#pragma unroll
            for (uint32_t half = 0; half < 2; half++) {
                transpose_quad(v[half], t);
                const uint32_t row = row0 + half * 8 + lane / 4;
                const uint32_t col = (col0 + j * 8) / STEP + t * 8;
                if (row < rows) store_eight(reinterpret_cast<bf16*>(p.y), uint64_t(row) * n, col, n, v[half]);
            }
        }
    }
}

// All threads of the block, or of the cluster, have come here.
template <class T> __device__ __forceinline__ void everyone() {
    if (T::CLUSTER == 1) {
        __syncthreads();
    } else {
        cluster_arrive();
        cluster_wait();
    }
}

// Which tile is the `index`th: row tiles run fastest inside a group of GROUP of them, then columns, then groups.
struct Place { uint32_t row_tile, col_tile; };
__device__ __forceinline__ Place place(uint32_t index, uint32_t row_tiles, uint32_t col_tiles) {
    const uint32_t group = index / (GROUP * col_tiles), within = index % (GROUP * col_tiles);
    const uint32_t size = min(GROUP, row_tiles - group * GROUP);
    return {group * GROUP + within % size, within / size};
}

template <class T, Epilogue E> __device__ __forceinline__ void gemm(const GemmWgmmaParams& p) {
    extern __shared__ unsigned char memory[];
    __shared__ __align__(8) uint64_t full_barriers[T::STAGES], empty_barriers[T::STAGES];
    pdl_launch();
    const uint32_t stages = (shared_address(memory) + ATOM_BYTES - 1) / ATOM_BYTES * ATOM_BYTES;
    const uint32_t full = shared_address(full_barriers);
    const uint32_t empty = shared_address(empty_barriers);
    const uint32_t rank = T::CLUSTER == 1 ? 0 : blockIdx.x % T::CLUSTER;
    const uint32_t warpgroup = threadIdx.x / 128;

    if (threadIdx.x == 0) {
        for (uint32_t s = 0; s < T::STAGES; s++) {
            // A stage is full when this block's producer has announced its bytes and all have come, those sent by the others among
            // them; empty when the eight consumer warps of every block that it is multicast from have left it.
            mbarrier_init(full + s * 8, 1);
            mbarrier_init(empty + s * 8, 8 * T::CLUSTER);
        }
        mbarrier_init_fence();
    }
    everyone<T>();
    pdl_wait();

    const uint32_t rows = p.live_rows ? min(*reinterpret_cast<const uint32_t*>(p.live_rows), p.rows) : p.rows;
    const uint32_t row_tiles = (rows + BM * T::CLUSTER - 1) / (BM * T::CLUSTER), col_tiles = (p.n + T::BN - 1) / T::BN;
    const uint32_t tiles = row_tiles * col_tiles, clusters = gridDim.x / T::CLUSTER;
    const uint32_t steps = (p.k + BK - 1) / BK;

    if (warpgroup == 0) {
        registers_lower<40>();
        if (threadIdx.x == 0) {
            constexpr uint32_t SHARE = T::BN / T::CLUSTER;
            uint32_t slot = 0, phase = 0;
            for (uint32_t tile = blockIdx.x / T::CLUSTER; tile < tiles; tile += clusters) {
                const Place at = place(tile, row_tiles, col_tiles);
                const uint32_t row0 = (at.row_tile * T::CLUSTER + rank) * BM, col0 = at.col_tile * T::BN + rank * SHARE;
                for (uint32_t step = 0; step < steps; step++) {
                    const uint32_t x_stage = stages + slot * T::STAGE_BYTES, w_stage = x_stage + T::X_BYTES;
                    mbarrier_wait(empty + slot * 8, phase ^ 1); // the first round finds every stage empty
                    mbarrier_arrive_expect(full + slot * 8, T::STAGE_BYTES);
                    tensor_copy_2d(x_stage, &p.x, step * BK, row0, full + slot * 8);
                    if (T::CLUSTER == 1) {
                        tensor_copy_2d(w_stage, &p.w, step * BK, col0, full + slot * 8);
                    } else {
                        tensor_copy_2d_to_all(w_stage + rank * SHARE * BK * 2, &p.w, step * BK, col0, full + slot * 8, (1 << T::CLUSTER) - 1);
                    }
                    if (++slot == T::STAGES) { slot = 0; phase ^= 1; }
                }
            }
        }
        __syncwarp();
    } else {
        registers_raise<232>();
        const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
        const uint32_t my_rows = (warpgroup - 1) * 64;
        uint32_t slot = 0, phase = 0;
        for (uint32_t tile = blockIdx.x / T::CLUSTER; tile < tiles; tile += clusters) {
            const Place at = place(tile, row_tiles, col_tiles);
            float d[T::BN / 2];
            uint32_t previous = 0;
            for (uint32_t step = 0; step < steps; step++) {
                mbarrier_wait(full + slot * 8, phase);
                const uint32_t x_stage = stages + slot * T::STAGE_BYTES;
                const uint64_t a = wgmma_descriptor(x_stage + my_rows * BK * 2), b = wgmma_descriptor(x_stage + T::X_BYTES);
                wgmma_fence();
#pragma unroll
                for (uint32_t k16 = 0; k16 < BK / 16; k16++) multiply(d, a + 2 * k16, b + 2 * k16, step | k16);
                wgmma_commit();
                // One product stays in flight; the one before it is done, so its stage may be filled again.
                wgmma_wait<1>();
                if (step > 0 && lane < T::CLUSTER) arrive_at(empty + previous * 8, lane);
                previous = slot;
                if (++slot == T::STAGES) { slot = 0; phase ^= 1; }
            }
            wgmma_wait<0>();
#pragma unroll
            for (uint32_t i = 0; i < T::BN / 2; i++) asm volatile("" : "+f"(d[i])::"memory"); // no read of an accumulator moves up
            if (lane < T::CLUSTER) arrive_at(empty + previous * 8, lane);
            store_tile<T, E>(p, d, (at.row_tile * T::CLUSTER + rank) * BM + my_rows + warp * 16, at.col_tile * T::BN, rows);
        }
        __syncwarp();
    }
    // No block leaves while another may still write its shared memory or arrive at its barriers.
    if (T::CLUSTER > 1) everyone<T>();
}

#define BODY(bn, cluster, stages, epilogue) gemm<Tile<bn, cluster, stages>, epilogue>(p);
#else
#define BODY(bn, cluster, stages, epilogue)
#endif

#define GEMM(bn, cluster, stages, name, epilogue)                                                                       \
    extern "C" __global__ __launch_bounds__(384, 1) void gemm_wgmma_##bn##x##cluster##_##name(const __grid_constant__ GemmWgmmaParams p) { \
        BODY(bn, cluster, stages, epilogue)                                                                             \
    }
#define GEMM_ALL(bn, cluster, stages) \
    GEMM(bn, cluster, stages, bf16, STORE_BF16) GEMM(bn, cluster, stages, f32, STORE_F32) GEMM(bn, cluster, stages, gate_up, GATE_UP) GEMM(bn, cluster, stages, add, ADD_F32)

// Mirrored by the table of tiles in gemm.rs.
GEMM_ALL(64, 1, 8)
GEMM_ALL(128, 1, 6)
GEMM_ALL(128, 2, 6)
GEMM_ALL(192, 2, 5)
GEMM_ALL(256, 2, 4)
