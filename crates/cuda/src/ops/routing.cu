// routing.cu   which experts a token visits, how much each counts, and who visits whom
// shapes    route: logits [rows, experts] f32, correction [experts] f32 or none; chosen i32 and weights f32 [rows, per_token]
//           deal: chosen [visits]; order i32 [visits]: visits expert by expert; tiles [..]: up to `tile_rows` places of the order
//           with one expert each; tile_count
//           live != 0: *live <= rows is read on the device; rows past it visit nobody
// mapping   route: a warp a token, expert i a score of lane i % 32. deal: one block; counts, prefix sums, places by counting.
//           few tokens: one block does both
// numerics  as ops/routing.rs of the cpu backend: of equal scores the lower number wins. Within an expert the order of visits is
//           whatever it happens to be: no result depends on it
// bound     launch latency
// limits    experts <= 1024, per_token <= 32, groups <= 32
#include "common.cuh"

struct RouteParams {
    uint64_t logits;
    uint64_t correction;  // 0: none
    uint64_t chosen;
    uint64_t weights;
    uint64_t live;        // 0: rows
    uint32_t rows;
    uint32_t experts;
    uint32_t per_token;
    uint32_t groups;      // 0: experts are compared as they are
    uint32_t kept;        // groups that are looked into
    uint32_t sigmoid;     // instead of softmax
    uint32_t normalise;
    float scale;
};
static_assert(sizeof(RouteParams) == 72, "mirrored in routing.rs");

__device__ __forceinline__ uint32_t live_rows(uint64_t live, uint32_t rows) {
    return live ? min(*reinterpret_cast<const uint32_t*>(live), rows) : rows;
}

constexpr uint32_t WARPS = 4;
constexpr float OUT = -INFINITY, LOWEST = -3.402823466e38f;

// The highest value of all lanes and whose it is, of equals the lowest `index`.
__device__ __forceinline__ void warp_best(float& value, uint32_t& index) {
#pragma unroll
    for (int lane = 16; lane > 0; lane >>= 1) {
        const float other = __shfl_xor_sync(~0u, value, lane);
        const uint32_t at = __shfl_xor_sync(~0u, index, lane);
        if (other > value || (other == value && at < index)) value = other, index = at;
    }
}

// Experts of groups that are not among the best are out. `ranks` is room for all of a token's.
template <int EACH>
__device__ __forceinline__ void leave_groups_out(const RouteParams& p, float (&rank)[EACH], float* ranks) {
    const uint32_t lane = threadIdx.x % 32, size = p.experts / p.groups;
    __syncwarp(); // the token before may still be looked at
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        if (i * 32 + lane < p.experts) ranks[i * 32 + lane] = rank[i];
    }
    __syncwarp();
    float first = OUT, second = OUT;
    for (uint32_t i = 0; lane < p.groups && i < size; i++) {
        const float one = ranks[lane * size + i];
        second = fmaxf(second, fminf(first, one));
        first = fmaxf(first, one);
    }
    float strength = lane < p.groups ? fmaxf(first + second, LOWEST) : OUT;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < p.kept; i++) {
        float best = strength;
        uint32_t group = lane;
        warp_best(best, group);
        kept |= 1u << group;
        if (lane == group) strength = OUT;
    }
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        if (!(kept >> ((i * 32 + lane) / size & 31) & 1)) rank[i] = OUT;
    }
}

// One warp, one token; `ranks` is room for all of a token's.
template <int EACH> __device__ __forceinline__ void route(const RouteParams& p, uint32_t row, float* ranks) {
    const uint32_t lane = threadIdx.x % 32;
    const float* logits = reinterpret_cast<const float*>(p.logits) + uint64_t(row) * p.experts;
    const float* correction = reinterpret_cast<const float*>(p.correction);
    float score[EACH], rank[EACH];
    float top = OUT;
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        const uint32_t expert = i * 32 + lane;
        score[i] = expert < p.experts ? logits[expert] : OUT;
        top = fmaxf(top, score[i]);
    }
    if (p.sigmoid) {
#pragma unroll
        for (int i = 0; i < EACH; i++) score[i] = 1.0f / (1.0f + expf(-score[i]));
    } else {
        top = warp_max(top);
        float sum = 0.0f;
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            score[i] = i * 32 + lane < p.experts ? expf(score[i] - top) : 0.0f;
            sum += score[i];
        }
        sum = warp_sum(sum);
#pragma unroll
        for (int i = 0; i < EACH; i++) score[i] /= sum;
    }
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        const uint32_t expert = i * 32 + lane;
        const float one = score[i] + (correction && expert < p.experts ? correction[expert] : 0.0f);
        // What is no number comes last, and not twice.
        rank[i] = expert >= p.experts ? OUT : one > LOWEST ? one : LOWEST;
    }
    if (p.groups) leave_groups_out<EACH>(p, rank, ranks);

    // Lane i has visit i.
    uint32_t mine = 0;
    float weight = 0.0f;
    for (uint32_t visit = 0; visit < p.per_token; visit++) {
        float best = rank[0], counts = score[0];
        uint32_t expert = lane;
#pragma unroll
        for (int i = 1; i < EACH; i++) {
            if (rank[i] > best) best = rank[i], expert = i * 32 + lane, counts = score[i];
        }
        uint32_t winner = expert;
        warp_best(best, winner);
        counts = __shfl_sync(~0u, counts, winner % 32);
        if (lane == visit) mine = winner, weight = counts;
        if (expert == winner) {
#pragma unroll
            for (int i = 0; i < EACH; i++) {
                if (i * 32 + lane == winner) rank[i] = OUT;
            }
        }
    }
    const float sum = warp_sum(lane < p.per_token ? weight : 0.0f) + 1e-20f;
    weight *= p.normalise ? p.scale / sum : p.scale;
    if (lane < p.per_token) {
        const uint64_t at = uint64_t(row) * p.per_token + lane;
        reinterpret_cast<uint32_t*>(p.chosen)[at] = mine;
        reinterpret_cast<float*>(p.weights)[at] = weight;
    }
}

#define ROUTE(EACH)                                                                                             \
    extern "C" __global__ void __launch_bounds__(WARPS * 32) route_##EACH(const __grid_constant__ RouteParams p) { \
        __shared__ float ranks[WARPS][EACH * 32];                                                               \
        const uint32_t warp = threadIdx.x / 32, row = blockIdx.x * WARPS + warp;                                \
        pdl_launch();                                                                                           \
        pdl_wait();                                                                                             \
        if (row < live_rows(p.live, p.rows)) route<EACH>(p, row, ranks[warp]);                                  \
    }
ROUTE(1)
ROUTE(4)
ROUTE(8)
ROUTE(32)

struct DealParams {
    uint64_t chosen;
    uint64_t order;
    uint64_t tiles;      // {expert, first place of the order, places, 0}
    uint64_t tile_count;
    uint64_t live;       // 0: rows
    uint32_t rows;
    uint32_t per_token;
    uint32_t experts;
    uint32_t tile_rows;
};
static_assert(sizeof(DealParams) == 56, "mirrored in routing.rs");

constexpr uint32_t DEALERS = 1024;

// Sum over the threads before this one; `total` is that over all. Every thread calls it.
__device__ __forceinline__ uint32_t sum_before(uint32_t value, uint32_t* warps, uint32_t& total) {
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    uint32_t sum = value;
#pragma unroll
    for (int by = 1; by < 32; by <<= 1) {
        const uint32_t other = __shfl_up_sync(~0u, sum, by);
        if (lane >= by) sum += other;
    }
    __syncthreads();
    if (lane == 31) warps[warp] = sum;
    __syncthreads();
    uint32_t of_warp = warps[lane];
#pragma unroll
    for (int by = 1; by < 32; by <<= 1) {
        const uint32_t other = __shfl_up_sync(~0u, of_warp, by);
        if (lane >= by) of_warp += other;
    }
    total = __shfl_sync(~0u, of_warp, 31);
    const uint32_t before = __shfl_sync(~0u, of_warp, warp > 0 ? warp - 1 : 0);
    return sum - value + (warp > 0 ? before : 0);
}

// All threads of the block, behind what wrote `chosen`.
__device__ __forceinline__ void deal_out(const DealParams& p) {
    __shared__ uint32_t places[DEALERS], warps[32];
    const uint32_t* chosen = reinterpret_cast<const uint32_t*>(p.chosen);
    uint32_t* order = reinterpret_cast<uint32_t*>(p.order);
    uint4* tiles = reinterpret_cast<uint4*>(p.tiles);
    const uint32_t expert = threadIdx.x, visits = live_rows(p.live, p.rows) * p.per_token;
    places[expert] = 0;
    __syncthreads();
    for (uint32_t visit = threadIdx.x; visit < visits; visit += DEALERS) atomicAdd(&places[chosen[visit]], 1);
    __syncthreads();
    const uint32_t count = places[expert], own_tiles = (count + p.tile_rows - 1) / p.tile_rows;
    uint32_t total, total_tiles;
    const uint32_t first = sum_before(count, warps, total);
    const uint32_t tile = sum_before(own_tiles, warps, total_tiles);
    for (uint32_t i = 0; i < own_tiles; i++) {
        const uint32_t done = i * p.tile_rows;
        tiles[tile + i] = make_uint4(expert, first + done, min(p.tile_rows, count - done), 0);
    }
    if (threadIdx.x == 0) *reinterpret_cast<uint32_t*>(p.tile_count) = total_tiles;
    places[expert] = first;
    __syncthreads();
    for (uint32_t visit = threadIdx.x; visit < visits; visit += DEALERS) order[atomicAdd(&places[chosen[visit]], 1)] = visit;
}

extern "C" __global__ void __launch_bounds__(DEALERS) deal(const __grid_constant__ DealParams p) {
    pdl_launch();
    pdl_wait();
    deal_out(p);
}

struct FewParams {
    RouteParams route;
    DealParams deal;
};
static_assert(sizeof(FewParams) == 128, "mirrored in routing.rs");

// Up to two tokens a warp.
#define ROUTE_FEW(EACH)                                                                                          \
    extern "C" __global__ void __launch_bounds__(DEALERS) route_few_##EACH(const __grid_constant__ FewParams p) { \
        __shared__ float ranks[DEALERS / 32][EACH * 32];                                                         \
        const uint32_t warp = threadIdx.x / 32;                                                                  \
        pdl_launch();                                                                                            \
        pdl_wait();                                                                                              \
        const uint32_t rows = live_rows(p.route.live, p.route.rows);                                             \
        for (uint32_t row = warp; row < rows; row += DEALERS / 32) route<EACH>(p.route, row, ranks[warp]);       \
        __syncthreads();                                                                                         \
        deal_out(p.deal);                                                                                        \
    }
ROUTE_FEW(1)
ROUTE_FEW(4)
ROUTE_FEW(8)
