// gemm_wgmma.cu   y[m,n] = sum_k x[m,k] * w[n,k] (+ bias[n]), for Hopper's warpgroup products
// shapes    as gemm.cu: x [rows, k] bf16, w [n, k] bf16, bias [n] f32 or none, y [rows, n] bf16 or f32; gate_up: y [rows, n / 2]
//           = act(gate) * up from rows of w interleaved in groups of 8; add: y [rows, n] f32 is added to in place
// mapping   a block is a producer warp (in a warpgroup that gives its registers away) and two consumer warpgroups of 64 x BN each.
//           Stages of (128 + BN) x 64 elements arrive by bulk tensor copies with 128-byte swizzle: STAGES x (128 + BN) x 128
//           bytes of shared memory and 1024 for alignment, one block a multiprocessor. The last tiles of a matrix are moved
//           inside it and store their own part alone.
//           many rows: clusters of CLUSTER blocks, one above the other, share a weight tile, of which each brings its part for
//           all; they are persistent and take every gridDim-th tile
//           very many rows: blocks of their own, persistent; the two warpgroups take turns, each with a tile of 128 x BN, so that
//           one multiplies while the other activates and stores
//           few rows: the SPLIT blocks of a cluster share one tile, each a stretch of k, and add their sums through each
//           other's shared memory
// numerics  f32 accumulation in one fixed order over k: a row never depends on the other rows. Split tiles add SPLIT such sums
//           in the order of the blocks: rerun == run, but not equal to tiles that are not split
// bound     compute: 2*rows*n*k at 780 TFLOP/s (an H200 at its power limit: about 680); few rows: 2*n*k bytes at 4.7 TB/s
// limits    sm_90a; k % 8 == 0; x, w 16-byte aligned; any n (gate_up: n % 16 == 0), any rows; live_rows as in gemm.cu
// rejected  a cluster-wide release at every stage, copies beyond the edges, tanhf and erff in the epilogue, additions left to the
//           memory (docs/lab-log.md)
#include "gemm.cuh"

struct alignas(64) TensorMap { uint64_t opaque[16]; };

struct GemmWgmmaParams {
    TensorMap x;         // [rows, k], box x_box x 64, 128-byte swizzle
    TensorMap w;         // [n, k], box (BN / CLUSTER) x 64, 128-byte swizzle
    uint64_t bias;       // 0: none
    uint64_t y;
    uint64_t live_rows;  // 0: rows
    uint32_t rows;
    uint32_t n;
    uint32_t k;
    uint32_t activation; // gate_up only: as `activate` counts them
    uint32_t x_box;      // rows that a copy brings: 128, or fewer where there are no more; what lies behind them is never stored
    uint32_t reserved[5];
};
static_assert(sizeof(GemmWgmmaParams) == 320, "mirrored in gemm.rs");

#if TM_WGMMA

constexpr uint32_t BM = 128, BK = 64;
constexpr uint32_t ATOM_BYTES = 1024; // eight rows of 128 bytes: what the swizzle permutes
constexpr uint32_t GROUP = 16;        // row tiles that share a pass over the weights: what runs at one time is about square

template <uint32_t BN_, uint32_t CLUSTER_, uint32_t STAGES_> struct Tile {
    static constexpr uint32_t BN = BN_, CLUSTER = CLUSTER_, STAGES = STAGES_;
    static constexpr uint32_t X_BYTES = BM * BK * 2, W_BYTES = BN * BK * 2, STAGE_BYTES = X_BYTES + W_BYTES;
};

// Arrives at the barrier that lies at the same place in block `rank` of the cluster. The arrival orders no writes of its own:
// spelled `.release.cluster` it would cost a fence of the whole device, two thirds of a microsecond a step.
__device__ __forceinline__ void arrive_at(uint32_t barrier, uint32_t rank) {
    asm volatile("{\n.reg .b32 remote;\nmapa.shared::cluster.u32 remote, %0, %1;\nmbarrier.arrive.shared::cluster.b64 _, [remote];\n}"
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
PRODUCT(160, NAMES10() ", " NAMES10(1) ", " NAMES10(2) ", " NAMES10(3) ", " NAMES10(4) ", " NAMES10(5) ", " NAMES10(6) ", " NAMES10(7),
        TIED32(0) COMMA TIED32(32) COMMA TIED16(64), "%80", "%81", "%82")
PRODUCT(176, NAMES10() ", " NAMES10(1) ", " NAMES10(2) ", " NAMES10(3) ", " NAMES10(4) ", " NAMES10(5) ", " NAMES10(6) ", " NAMES10(7)
        ", %80, %81, %82, %83, %84, %85, %86, %87", TIED32(0) COMMA TIED32(32) COMMA TIED16(64) COMMA TIED4(80) COMMA TIED4(84), "%88", "%89", "%90")
PRODUCT(192, NAMES10() ", " NAMES10(1) ", " NAMES10(2) ", " NAMES10(3) ", " NAMES10(4) ", " NAMES10(5) ", " NAMES10(6) ", " NAMES10(7) ", " NAMES10(8)
        ", %90, %91, %92, %93, %94, %95", TIED32(0) COMMA TIED32(32) COMMA TIED32(64), "%96", "%97", "%98")
PRODUCT(256, NAMES10() ", " NAMES10(1) ", " NAMES10(2) ", " NAMES10(3) ", " NAMES10(4) ", " NAMES10(5) ", " NAMES10(6) ", " NAMES10(7) ", " NAMES10(8)
        ", " NAMES10(9) ", " NAMES10(10) ", " NAMES10(11) ", %120, %121, %122, %123, %124, %125, %126, %127",
        TIED32(0) COMMA TIED32(32) COMMA TIED32(64) COMMA TIED32(96), "%128", "%129", "%130")

// Where a stretch of `size` that is meant to begin at `begin` begins in fact, so that it ends within `limit`: copies that reach
// beyond a matrix cost more than twice as much. What is then computed twice is stored once, by whose it is.
__device__ __forceinline__ uint32_t inside(uint32_t begin, uint32_t size, uint32_t limit) {
    return limit >= size ? min(begin, limit - size) : begin;
}

// What of a matrix a tile stores: from its own first row and column on, up to where the rows that count end.
struct Window { uint32_t row_begin, row_end, col_begin; };

// A warp's 16 x BN accumulators: d[4j..4j+4] are (row g, cols 8j + 2t, + 1) and (row g + 8, the same), g = lane / 4, t = lane % 4.
template <class T> __device__ __forceinline__ void add_bias(const float* bias, uint32_t n, float (&d)[T::BN / 2], uint32_t col0) {
#pragma unroll
    for (uint32_t j = 0; j < T::BN / 8; j++) {
        const uint32_t col = col0 + j * 8 + threadIdx.x % 4 * 2;
        const float a = col < n ? bias[col] : 0.0f, b = col + 1 < n ? bias[col + 1] : 0.0f;
        d[4 * j] += a;
        d[4 * j + 1] += b;
        d[4 * j + 2] += a;
        d[4 * j + 3] += b;
    }
}

template <class T, bool ADD>
__device__ __forceinline__ void store_wide(const GemmWgmmaParams& p, const float (&d)[T::BN / 2], uint32_t row0, uint32_t col0, const Window& window) {
    const uint32_t lane = threadIdx.x % 32;
#pragma unroll
    for (uint32_t half = 0; half < 2; half++) {
        const uint32_t row = row0 + half * 8 + lane / 4;
        if (row < window.row_begin || row >= window.row_end) continue;
#pragma unroll
        for (uint32_t j = 0; j < T::BN / 8; j++) {
            const uint32_t at = 4 * j + 2 * half, col = col0 + j * 8 + lane % 4 * 2;
            store_pair<ADD>(reinterpret_cast<float*>(p.y), uint64_t(row) * p.n, col, window.col_begin, p.n, d[at], d[at + 1]);
        }
    }
}

// Four pieces of eight columns change hands inside a quad so that every lane stores 16 bytes of one row.
template <class T, bool GATED, bool ERF>
__device__ __forceinline__ void store_narrow(const GemmWgmmaParams& p, const float (&d)[T::BN / 2], uint32_t row0, uint32_t col0, const Window& window, bool whole) {
    constexpr uint32_t STEP = GATED ? 2 : 1, PIECES = T::BN / 8; // a gated piece is made of two
    const uint32_t lane = threadIdx.x % 32, t = lane % 4, n = p.n / STEP;
#pragma unroll
    for (uint32_t j = 0; j < PIECES; j += 4 * STEP) {
#pragma unroll
        for (uint32_t half = 0; half < 2; half++) {
            uint32_t v[4];
#pragma unroll
            for (uint32_t i = 0; i < 4; i++) {
                const uint32_t at = 4 * (j + i * STEP) + 2 * half;
                if (j + i * STEP >= PIECES) {
                    v[i] = 0; // the last four are fewer
                } else if constexpr (GATED) {
                    v[i] = pack_bf16(activate<ERF>(d[at], p.activation) * d[at + 4], activate<ERF>(d[at + 1], p.activation) * d[at + 5]);
                } else {
                    v[i] = pack_bf16(d[at], d[at + 1]);
                }
            }
            transpose_quad(v, t);
            const uint32_t row = row0 + half * 8 + lane / 4;
            if (row < window.row_begin || row >= window.row_end || (PIECES % (4 * STEP) != 0 && j + t * STEP >= PIECES)) continue;
            store_eight(reinterpret_cast<bf16*>(p.y) + uint64_t(row) * n, (col0 + j * 8) / STEP + t * 8, window.col_begin / STEP, n, v, whole);
        }
    }
}

template <class T, Epilogue E>
__device__ __forceinline__ void store_tile(const GemmWgmmaParams& p, float (&d)[T::BN / 2], uint32_t row0, uint32_t col0, const Window& window) {
    if (p.bias) add_bias<T>(reinterpret_cast<const float*>(p.bias), p.n, d, col0);
    if constexpr (E == STORE_F32 || E == ADD_F32) {
        store_wide<T, E == ADD_F32>(p, d, row0, col0, window);
    } else if constexpr (E == GATE_UP) { // n is a multiple of 16
        if (p.activation == 2) {
            store_narrow<T, true, true>(p, d, row0, col0, window, true);
        } else {
            store_narrow<T, true, false>(p, d, row0, col0, window, true);
        }
    } else if (p.n % 8 == 0) {
        store_narrow<T, false, false>(p, d, row0, col0, window, true);
    } else {
        store_narrow<T, false, false>(p, d, row0, col0, window, false);
    }
}

// All threads of the block, or of the cluster, have come here. Orders no memory: initialised barriers are fenced by themselves,
// and what the kernel wrote is seen at its end.
template <class T> __device__ __forceinline__ void everyone() {
    if (T::CLUSTER == 1) {
        __syncthreads();
    } else {
        asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
        cluster_wait();
    }
}

// Which tile is the `index`th: row tiles run fastest inside a group of HEIGHT of them, then columns, then groups.
struct Place { uint32_t row_tile, col_tile; };
template <uint32_t HEIGHT> __device__ __forceinline__ Place place(uint32_t index, uint32_t row_tiles, uint32_t col_tiles) {
    const uint32_t group = index / (HEIGHT * col_tiles), within = index % (HEIGHT * col_tiles);
    const uint32_t size = min(HEIGHT, row_tiles - group * HEIGHT);
    return {group * HEIGHT + within % size, within / size};
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
    constexpr uint32_t SHARE = T::BN / T::CLUSTER; // rows of w that this block brings for the cluster
    const uint32_t stage_bytes = p.x_box * BK * 2 + T::W_BYTES; // what arrives in a stage
    const auto request_weights = [&](uint32_t slot, uint32_t step, uint32_t col0) {
        const uint32_t w_stage = stages + slot * T::STAGE_BYTES + T::X_BYTES;
        mbarrier_arrive_expect(full + slot * 8, stage_bytes);
        if (T::CLUSTER == 1) {
            tensor_copy_2d(w_stage, &p.w, step * BK, col0, full + slot * 8);
        } else {
            tensor_copy_2d_to_all(w_stage + rank * SHARE * BK * 2, &p.w, step * BK, col0 + rank * SHARE, full + slot * 8, (1 << T::CLUSTER) - 1);
        }
    };
    // The first weights do not wait for the kernel before this one, where it is certain that they are wanted.
    uint32_t early = 0;
    if (threadIdx.x == 0 && !p.live_rows) {
        const Place at = place<GROUP / T::CLUSTER>(blockIdx.x / T::CLUSTER, (p.rows + BM * T::CLUSTER - 1) / (BM * T::CLUSTER), (p.n + T::BN - 1) / T::BN);
        const uint32_t col0 = inside(at.col_tile * T::BN, T::BN, p.n);
        for (; early < min((p.k + BK - 1) / BK, T::STAGES); early++) request_weights(early, early, col0);
    }
    pdl_wait();

    const uint32_t rows = p.live_rows ? min(*reinterpret_cast<const uint32_t*>(p.live_rows), p.rows) : p.rows;
    const uint32_t row_tiles = (rows + BM * T::CLUSTER - 1) / (BM * T::CLUSTER), col_tiles = (p.n + T::BN - 1) / T::BN;
    const uint32_t tiles = row_tiles * col_tiles, clusters = gridDim.x / T::CLUSTER;
    const uint32_t steps = (p.k + BK - 1) / BK;

    if (warpgroup == 0) {
        registers_lower<40>();
        if (threadIdx.x == 0) {
            uint32_t slot = 0, phase = 0;
            for (uint32_t tile = blockIdx.x / T::CLUSTER; tile < tiles; tile += clusters) {
                const Place at = place<GROUP / T::CLUSTER>(tile, row_tiles, col_tiles);
                const uint32_t row0 = inside((at.row_tile * T::CLUSTER + rank) * BM, BM, p.rows), col0 = inside(at.col_tile * T::BN, T::BN, p.n);
                for (uint32_t step = 0; step < steps; step++) {
                    mbarrier_wait(empty + slot * 8, phase ^ 1); // the first round finds every stage empty
                    if (early > 0) {
                        early--;
                    } else {
                        request_weights(slot, step, col0);
                    }
                    tensor_copy_2d(stages + slot * T::STAGE_BYTES, &p.x, step * BK, row0, full + slot * 8);
                    if (++slot == T::STAGES) { slot = 0; phase ^= 1; }
                }
            }
            // No block leaves while another may still arrive at its barriers; what was sent to it, its own consumers have waited for.
            for (uint32_t s = 0; T::CLUSTER > 1 && s < T::STAGES; s++) {
                mbarrier_wait(empty + slot * 8, phase ^ 1);
                if (++slot == T::STAGES) { slot = 0; phase ^= 1; }
            }
        }
    } else {
        registers_raise<232>();
        const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
        const uint32_t my_rows = (warpgroup - 1) * 64;
        uint32_t slot = 0, phase = 0;
        for (uint32_t tile = blockIdx.x / T::CLUSTER; tile < tiles; tile += clusters) {
            const Place at = place<GROUP / T::CLUSTER>(tile, row_tiles, col_tiles);
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
            const uint32_t row0 = (at.row_tile * T::CLUSTER + rank) * BM, col0 = at.col_tile * T::BN;
            store_tile<T, E>(p, d, inside(row0, BM, p.rows) + my_rows + warp * 16, inside(col0, T::BN, p.n), Window{row0, rows, col0});
        }
    }
}

// ---- many rows: the two warpgroups take turns, each with a tile of its own: while one stores, the other multiplies ----

template <uint32_t BN_, uint32_t STAGES_> struct TurnsTile {
    static constexpr uint32_t BN = BN_, STAGES = STAGES_;
    static constexpr uint32_t X_BYTES = BM * BK * 2, W_BYTES = BN * BK * 2, STAGE_BYTES = X_BYTES + W_BYTES;
};

template <class T, Epilogue E> __device__ __forceinline__ void gemm_turns(const GemmWgmmaParams& p) {
    extern __shared__ unsigned char memory[];
    __shared__ __align__(8) uint64_t full_barriers[T::STAGES], empty_barriers[T::STAGES];
    constexpr uint32_t TURN = 1; // named barriers 1 and 2: the first or the second warpgroup may multiply
    pdl_launch();
    const uint32_t stages = (shared_address(memory) + ATOM_BYTES - 1) / ATOM_BYTES * ATOM_BYTES;
    const uint32_t full = shared_address(full_barriers), empty = shared_address(empty_barriers), warpgroup = threadIdx.x / 128;
    const uint32_t stage_bytes = p.x_box * BK * 2 + T::W_BYTES, steps = (p.k + BK - 1) / BK; // what arrives in a stage; stages of a tile
    if (threadIdx.x == 0) {
        for (uint32_t s = 0; s < T::STAGES; s++) {
            mbarrier_init(full + s * 8, 1);
            mbarrier_init(empty + s * 8, 4);
        }
        mbarrier_init_fence();
    }
    __syncthreads();
    const uint32_t col_tiles = (p.n + T::BN - 1) / T::BN;
    // The first weights do not wait for the kernel before this one, where it is certain that they are wanted.
    uint32_t early = 0;
    if (threadIdx.x == 0 && !p.live_rows) {
        const uint32_t col0 = inside(place<GROUP>(blockIdx.x, (p.rows + BM - 1) / BM, col_tiles).col_tile * T::BN, T::BN, p.n);
        for (; early < min(steps, T::STAGES); early++) {
            mbarrier_arrive_expect(full + early * 8, stage_bytes);
            tensor_copy_2d(stages + early * T::STAGE_BYTES + T::X_BYTES, &p.w, early * BK, col0, full + early * 8);
        }
    }
    pdl_wait();
    const uint32_t rows = p.live_rows ? min(*reinterpret_cast<const uint32_t*>(p.live_rows), p.rows) : p.rows;
    const uint32_t row_tiles = (rows + BM - 1) / BM, tiles = row_tiles * col_tiles;

    if (warpgroup == 0) {
        registers_lower<40>();
        if (threadIdx.x == 0) {
            uint32_t slot = 0, phase = 0;
            for (uint32_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
                const Place at = place<GROUP>(tile, row_tiles, col_tiles);
                const uint32_t row0 = inside(at.row_tile * BM, BM, p.rows), col0 = inside(at.col_tile * T::BN, T::BN, p.n);
                for (uint32_t step = 0; step < steps; step++) {
                    const uint32_t x_stage = stages + slot * T::STAGE_BYTES, barrier = full + slot * 8;
                    mbarrier_wait(empty + slot * 8, phase ^ 1);
                    if (early > 0) {
                        early--;
                    } else {
                        mbarrier_arrive_expect(barrier, stage_bytes);
                        tensor_copy_2d(x_stage + T::X_BYTES, &p.w, step * BK, col0, barrier);
                    }
                    tensor_copy_2d(x_stage, &p.x, step * BK, row0, barrier);
                    if (++slot == T::STAGES) { slot = 0; phase ^= 1; }
                }
            }
        }
    } else {
        registers_raise<232>();
        const uint32_t mine = warpgroup - 1, lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
        if (mine == 1) asm volatile("bar.arrive %0, 256;" ::"n"(TURN) : "memory");
        uint32_t taken = mine * steps; // stages that tiles before this one fill
        for (uint32_t tile = blockIdx.x + mine * gridDim.x; tile < tiles; tile += 2 * gridDim.x, taken += steps) {
            const Place at = place<GROUP>(tile, row_tiles, col_tiles);
            float low[T::BN / 2], high[T::BN / 2]; // rows 0 .. 63 and 64 .. 127
            uint32_t slot = taken % T::STAGES, phase = taken / T::STAGES % 2, previous = 0;
            asm volatile("bar.sync %0, 256;" ::"r"(TURN + mine) : "memory");
            for (uint32_t step = 0; step < steps; step++) {
                mbarrier_wait(full + slot * 8, phase);
                const uint32_t x_stage = stages + slot * T::STAGE_BYTES;
                const uint64_t a = wgmma_descriptor(x_stage), b = wgmma_descriptor(x_stage + T::X_BYTES);
                wgmma_fence();
#pragma unroll
                for (uint32_t k16 = 0; k16 < BK / 16; k16++) {
                    multiply(low, a + 2 * k16, b + 2 * k16, step | k16);
                    multiply(high, a + 64 * BK * 2 / 16 + 2 * k16, b + 2 * k16, step | k16);
                }
                wgmma_commit();
                wgmma_wait<1>();
                if (step > 0 && lane == 0) mbarrier_arrive(empty + previous * 8);
                previous = slot;
                if (++slot == T::STAGES) { slot = 0; phase ^= 1; }
            }
            asm volatile("bar.arrive %0, 256;" ::"r"(TURN + (mine ^ 1)) : "memory");
            taken += steps;
            wgmma_wait<0>();
#pragma unroll
            for (uint32_t i = 0; i < T::BN / 2; i++) asm volatile("" : "+f"(low[i]), "+f"(high[i])::"memory"); // no read moves up
            if (lane == 0) mbarrier_arrive(empty + previous * 8);
            const uint32_t row0 = at.row_tile * BM, col0 = at.col_tile * T::BN;
            const uint32_t first = inside(row0, BM, p.rows) + warp * 16, column = inside(col0, T::BN, p.n);
            store_tile<T, E>(p, low, first, column, Window{row0, rows, col0});
            store_tile<T, E>(p, high, first + 64, column, Window{row0, rows, col0});
        }
    }
}

// ---- few rows: the blocks of a cluster share one tile, each a stretch of k ----

// One output row's piece of WIDTH sums, finished and stored. `col` counts columns of w, and is a multiple of 8.
template <Epilogue E, bool ERF, uint32_t WIDTH>
__device__ __forceinline__ void store_piece(const GemmWgmmaParams& p, float (&v)[WIDTH], uint32_t row, uint32_t col, uint32_t begin) {
    const float* bias = reinterpret_cast<const float*>(p.bias);
#pragma unroll
    for (uint32_t i = 0; i < WIDTH; i++) {
        if (bias && col + i < p.n) v[i] += bias[col + i];
    }
    if constexpr (E == STORE_F32 || E == ADD_F32) {
#pragma unroll
        for (uint32_t i = 0; i < WIDTH; i += 2) {
            store_pair<E == ADD_F32>(reinterpret_cast<float*>(p.y), uint64_t(row) * p.n, col + i, begin, p.n, v[i], v[i + 1]);
        }
    } else {
        constexpr bool GATED = E == GATE_UP;
        uint32_t packed[4];
#pragma unroll
        for (uint32_t i = 0; i < 4; i++) {
            if constexpr (GATED) {
                packed[i] = pack_bf16(activate<ERF>(v[2 * i], p.activation) * v[2 * i + 8], activate<ERF>(v[2 * i + 1], p.activation) * v[2 * i + 9]);
            } else {
                packed[i] = pack_bf16(v[2 * i], v[2 * i + 1]);
            }
        }
        const uint32_t n = GATED ? p.n / 2 : p.n;
        store_eight(reinterpret_cast<bf16*>(p.y) + uint64_t(row) * n, GATED ? col / 2 : col, GATED ? begin / 2 : begin, n, packed, n % 8 == 0);
    }
}

// Adds the cluster's partial sums of this block's share of the columns, in the order of the blocks, and stores them.
template <class T, Epilogue E>
__device__ __forceinline__ void add_partials(const GemmWgmmaParams& p, uint32_t partials, uint32_t rank, uint32_t row0, uint32_t col0, const Window& window) {
    constexpr uint32_t WIDTH = E == GATE_UP ? 16 : 8, SHARE = T::BN / T::SPLIT, PIECES = SHARE / WIDTH;
    static_assert(SHARE % WIDTH == 0, "whole pieces");
    for (uint32_t item = threadIdx.x - 128; item < BM * PIECES; item += 256) {
        const uint32_t row = item / PIECES, col = rank * SHARE + item % PIECES * WIDTH;
        if (row0 + row < window.row_begin || row0 + row >= window.row_end || col0 + col >= p.n) continue;
        if (col0 + col + WIDTH <= window.col_begin) continue;
        const uint32_t at = partials + (row * T::PITCH + col) * 4;
        float v[WIDTH] = {};
#pragma unroll
        for (uint32_t from = 0; from < T::SPLIT; from++) {
            uint32_t there;
            asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(at), "r"(from));
#pragma unroll
            for (uint32_t i = 0; i < WIDTH; i += 4) {
                float a, b, c, d;
                asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(a), "=f"(b), "=f"(c), "=f"(d) : "r"(there + i * 4) : "memory");
                v[i] += a;
                v[i + 1] += b;
                v[i + 2] += c;
                v[i + 3] += d;
            }
        }
        if (E == GATE_UP && p.activation == 2) {
            store_piece<E, true, WIDTH>(p, v, row0 + row, col0 + col, window.col_begin);
        } else {
            store_piece<E, false, WIDTH>(p, v, row0 + row, col0 + col, window.col_begin);
        }
    }
}

// A warp's accumulators, into this block's tile of partial sums.
template <class T> __device__ __forceinline__ void keep_partials(const float (&d)[T::BN / 2], uint32_t partials, uint32_t row0) {
    const uint32_t lane = threadIdx.x % 32;
#pragma unroll
    for (uint32_t j = 0; j < T::BN / 8; j++) {
#pragma unroll
        for (uint32_t half = 0; half < 2; half++) {
            const uint32_t at = partials + ((row0 + half * 8 + lane / 4) * T::PITCH + j * 8 + lane % 4 * 2) * 4;
            asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(at), "f"(d[4 * j + 2 * half]), "f"(d[4 * j + 2 * half + 1]) : "memory");
        }
    }
}

template <uint32_t BN_, uint32_t SPLIT_, uint32_t STAGES_> struct SplitTile {
    static constexpr uint32_t BN = BN_, SPLIT = SPLIT_, STAGES = STAGES_;
    static constexpr uint32_t X_BYTES = BM * BK * 2, W_BYTES = BN * BK * 2, STAGE_BYTES = X_BYTES + W_BYTES;
    static constexpr uint32_t PITCH = BN + 8; // floats of a row of partial sums: eight more, so that no two of a store share a bank
    static_assert(BM * PITCH * 4 <= STAGES * STAGE_BYTES, "partial sums take the place of the stages");
};

template <class T, Epilogue E> __device__ __forceinline__ void gemm_split(const GemmWgmmaParams& p) {
    extern __shared__ unsigned char memory[];
    __shared__ __align__(8) uint64_t full_barriers[T::STAGES], empty_barriers[T::STAGES];
    pdl_launch();
    const uint32_t stages = (shared_address(memory) + ATOM_BYTES - 1) / ATOM_BYTES * ATOM_BYTES;
    const uint32_t full = shared_address(full_barriers), empty = shared_address(empty_barriers);
    const uint32_t rank = blockIdx.x % T::SPLIT, warpgroup = threadIdx.x / 128;
    const Place at = place<GROUP>(blockIdx.x / T::SPLIT, (p.rows + BM - 1) / BM, (p.n + T::BN - 1) / T::BN);
    const Window window{at.row_tile * BM, p.rows, at.col_tile * T::BN}; // rows to be narrowed to those that count
    const uint32_t row0 = inside(window.row_begin, BM, p.rows), col0 = inside(window.col_begin, T::BN, p.n);
    const uint32_t all = (p.k + BK - 1) / BK, begin = all * rank / T::SPLIT, steps = all * (rank + 1) / T::SPLIT - begin;
    const uint32_t stage_bytes = p.x_box * BK * 2 + T::W_BYTES; // what arrives in a stage

    if (threadIdx.x == 0) {
        for (uint32_t s = 0; s < T::STAGES; s++) {
            mbarrier_init(full + s * 8, 1);
            mbarrier_init(empty + s * 8, 8);
        }
        mbarrier_init_fence();
    }
    __syncthreads();
    // Weights do not wait for the kernel before this one, where it is certain that they are wanted.
    uint32_t early = 0;
    if (threadIdx.x == 0 && !p.live_rows) {
        for (; early < min(steps, T::STAGES); early++) {
            mbarrier_arrive_expect(full + early * 8, stage_bytes);
            tensor_copy_2d(stages + early * T::STAGE_BYTES + T::X_BYTES, &p.w, (begin + early) * BK, col0, full + early * 8);
        }
    }
    pdl_wait();
    const uint32_t rows = p.live_rows ? min(*reinterpret_cast<const uint32_t*>(p.live_rows), p.rows) : p.rows;
    if (window.row_begin >= rows) return; // the whole cluster does

    if (warpgroup == 0) {
        registers_lower<40>();
        if (threadIdx.x == 0) {
            uint32_t slot = 0, phase = 0;
            for (uint32_t step = 0; step < steps; step++) {
                const uint32_t x_stage = stages + slot * T::STAGE_BYTES, barrier = full + slot * 8;
                mbarrier_wait(empty + slot * 8, phase ^ 1);
                if (step >= early) {
                    mbarrier_arrive_expect(barrier, stage_bytes);
                    tensor_copy_2d(x_stage + T::X_BYTES, &p.w, (begin + step) * BK, col0, barrier);
                }
                tensor_copy_2d(x_stage, &p.x, (begin + step) * BK, row0, barrier);
                if (++slot == T::STAGES) { slot = 0; phase ^= 1; }
            }
        }
        __syncwarp();
        cluster_arrive();
        cluster_wait();
    } else {
        registers_raise<232>();
        const uint32_t lane = threadIdx.x % 32, my_rows = (warpgroup - 1) * 64;
        float d[T::BN / 2] = {};
        uint32_t slot = 0, phase = 0, previous = 0;
        for (uint32_t step = 0; step < steps; step++) {
            mbarrier_wait(full + slot * 8, phase);
            const uint32_t x_stage = stages + slot * T::STAGE_BYTES;
            const uint64_t a = wgmma_descriptor(x_stage + my_rows * BK * 2), b = wgmma_descriptor(x_stage + T::X_BYTES);
            wgmma_fence();
#pragma unroll
            for (uint32_t k16 = 0; k16 < BK / 16; k16++) multiply(d, a + 2 * k16, b + 2 * k16, 1);
            wgmma_commit();
            wgmma_wait<1>();
            if (step > 0 && lane == 0) mbarrier_arrive(empty + previous * 8);
            previous = slot;
            if (++slot == T::STAGES) { slot = 0; phase ^= 1; }
        }
        wgmma_wait<0>();
#pragma unroll
        for (uint32_t i = 0; i < T::BN / 2; i++) asm volatile("" : "+f"(d[i])::"memory"); // no read of an accumulator moves up
        // Both warpgroups have read the stages for the last time; all copies have come, since all were waited for.
        asm volatile("bar.sync 1, 256;" ::: "memory");
        keep_partials<T>(d, stages, my_rows + threadIdx.x / 32 % 4 * 16);
        cluster_arrive();
        cluster_wait();
        add_partials<T, E>(p, stages, rank, row0, col0, Window{window.row_begin, rows, window.col_begin});
    }
    // No block leaves while another may still read its partial sums.
    __syncwarp();
    cluster_arrive();
    cluster_wait();
}

#define BODY(bn, cluster, stages, epilogue) gemm<Tile<bn, cluster, stages>, epilogue>(p);
#define SPLIT_BODY(bn, split, stages, epilogue) gemm_split<SplitTile<bn, split, stages>, epilogue>(p);
#define TURNS_BODY(bn, turns, stages, epilogue) gemm_turns<TurnsTile<bn, stages>, epilogue>(p);
#else
#define BODY(bn, cluster, stages, epilogue)
#define TURNS_BODY(bn, turns, stages, epilogue)
#define SPLIT_BODY(bn, split, stages, epilogue)
#endif

#define GEMM(kind, bn, cluster, stages, name, epilogue, body)                                                                       \
    extern "C" __global__ __launch_bounds__(384, 1) void gemm_##kind##_##bn##x##cluster##_##name(const __grid_constant__ GemmWgmmaParams p) { \
        body(bn, cluster, stages, epilogue)                                                                                         \
    }
#define GEMM_ALL(kind, bn, cluster, stages, body)          \
    GEMM(kind, bn, cluster, stages, bf16, STORE_BF16, body) \
    GEMM(kind, bn, cluster, stages, f32, STORE_F32, body)   \
    GEMM(kind, bn, cluster, stages, gate_up, GATE_UP, body) \
    GEMM(kind, bn, cluster, stages, add, ADD_F32, body)

// Mirrored by the table of tiles in gemm/plan.rs.
GEMM_ALL(wgmma, 64, 1, 8, BODY)
GEMM_ALL(wgmma, 128, 1, 6, BODY)
GEMM_ALL(wgmma, 192, 1, 5, BODY)
GEMM_ALL(wgmma, 256, 1, 4, BODY)
GEMM_ALL(wgmma, 128, 2, 6, BODY)
GEMM_ALL(wgmma, 192, 2, 5, BODY)
GEMM_ALL(wgmma, 256, 2, 4, BODY)
GEMM_ALL(wgmma_turns, 160, 2, 6, TURNS_BODY)
GEMM_ALL(wgmma_turns, 176, 2, 5, TURNS_BODY)
GEMM_ALL(wgmma_split, 64, 4, 8, SPLIT_BODY)
GEMM_ALL(wgmma_split, 128, 2, 6, SPLIT_BODY)
GEMM_ALL(wgmma_split, 128, 4, 6, SPLIT_BODY)
GEMM_ALL(wgmma_split, 192, 2, 5, SPLIT_BODY)
GEMM_ALL(wgmma_split, 192, 4, 5, SPLIT_BODY)
