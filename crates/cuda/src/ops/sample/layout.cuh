// What the kernels of sampling share: the rows they are asked for, what they leave for one another, keys and weights.
#pragma once
#include "../argmax.cuh"

// What is made of a row of logits. Mirrors `RowKind` in layout.rs.
constexpr uint32_t ROW_NOTHING = 0, ROW_SAMPLE = 1, ROW_SCORE = 2;
// Bits of SampleRow::flags.
constexpr uint32_t ROW_EDITS = 1;       // bias, penalties, bans or a mask change the logits
constexpr uint32_t ROW_KEEPS_RAW = 2;   // the changed row goes to scratch, because the raw one is read later
constexpr uint32_t ROW_PENALTIES = 4;   // tokens that the slot has seen are penalised, and the sampled one is counted
constexpr uint32_t ROW_MASK = 8;        // only the tokens of a mask are allowed
constexpr uint32_t ROW_LOGPROBS = 16;   // log-probabilities are wanted

// How a row ended. Mirrors `Status` in layout.rs.
constexpr uint32_t STATUS_OK = 0, STATUS_RAW_NAN = 1, STATUS_RAW_INFINITE = 2, STATUS_RAW_NOTHING = 3, STATUS_NAN = 4,
                   STATUS_INFINITE = 5, STATUS_NOTHING = 6;

// The most likeliest tokens that are reported of a row.
constexpr uint32_t MOST_TOP = 128;
// Bins of the histogram over a row, and how many of its members the draw can sort.
constexpr uint32_t BINS = 2048, MOST_CANDIDATES = 4096;
// The top bit of a count says that the token occurs in prompt or output; the others how often it was generated.
constexpr uint32_t SEEN = 0x80000000u;

struct SampleRow {
    double uniform;
    uint32_t kind, flags;
    float temperature, top_p, min_p;
    uint32_t top_k;
    float repetition, frequency, presence;
    uint32_t slot;
    uint32_t bias_start, bias_count;
    uint32_t ban_start, ban_count;
    uint32_t mask_start, mask_words;
    uint32_t target, top;
};
static_assert(sizeof(SampleRow) == 80, "mirrored in layout.rs");

struct Bias {
    uint32_t token;
    float value;
};

// What a row gave.
struct Answer {
    int32_t token;
    uint32_t status;
    uint32_t at;  // the token whose logit is no number
    float logprob;
    uint32_t rank;
    uint32_t tops;
};
static_assert(sizeof(Answer) == 24, "mirrored in layout.rs");

// What one block found in its part of a row.
struct Partial {
    uint64_t best;     // key of the likeliest token
    double raw_sum;    // sum of exp(logit - raw_max), where log-probabilities are wanted
    float raw_max;
    float least;       // the least logit above -inf
    uint32_t raw_bad;  // first logit that is no number: 2 * token + (it is a NaN)
    uint32_t bad;      // the same after the edits
};
static_assert(sizeof(Partial) == 32, "");

// What the later kernels need to know of a row.
struct State {
    double log_sum;        // ln(sum(exp(raw)))
    unsigned long long kept;  // weight of all tokens that min_p keeps
    float max, least;
    float inverse;         // log2(e) / temperature
    float bins_per_logit;
    float threshold;       // logits below it are dropped by min_p
    float raw_max;
    uint32_t draws;        // one of the constants below
    uint32_t unused;
};
static_assert(sizeof(State) == 48, "");

// How a row draws: not at all, by id, from a histogram, among the few likeliest.
constexpr uint32_t DRAWS_NOT = 0, DRAWS_BY_ID = 1, DRAWS_FROM_BINS = 2, DRAWS_AMONG_FEW = 3;

// Groups of 8 threads of a block of the first pass: each leaves the key of the likeliest token of its share.
constexpr uint32_t GROUPS = 64, MOST_GROUPS = 512;

// All that the kernels are given; scratch is sized by `Plan` in mod.rs.
struct SampleParams {
    const SampleRow* rows;
    const uint32_t* row_count;
    float* logits;
    const Bias* bias;
    const uint32_t* bans;
    const uint32_t* masks;
    uint32_t* counts;
    const unsigned long long* argmax;  // [rows, argmax_parts]: keys of the likeliest tokens, by the product that made the logits
    int32_t* sampled;
    Answer* answers;
    uint32_t* top_tokens;
    float* top_logprobs;
    float* edited;
    Partial* partials;
    State* states;
    uint32_t* tickets;
    unsigned long long* bin_weights;
    uint32_t* bin_counts;
    unsigned long long* chunk_weights;
    uint64_t* groups;  // [2, rows, chunks, GROUPS]: of the edited rows, then of the raw ones
    uint64_t stride;  // of a row of logits, of edited logits and of counts
    uint32_t vocab, chunk, chunks, capacity, argmax_parts, row_places;
};
static_assert(sizeof(SampleParams) == 192, "mirrored in layout.rs");

// --- weights: exp((logit - max) / temperature) in steps of 2^-40, so that sums are exact whatever their order ---

constexpr float WEIGHT_ONE = 1099511627776.0f;
// Natural units below the greatest logit from which on a weight is less than half a step.
constexpr float WEIGHTLESS = 28.5f;

__device__ __forceinline__ uint64_t weight_of(float logit, const State& s) {
    return __float2ull_rn(exp2f((logit - s.max) * s.inverse) * WEIGHT_ONE);
}

// Descends from the greatest logit; equal logits share a bin. Not for -inf.
__device__ __forceinline__ uint32_t bin_of(float logit, const State& s) {
    const float place = (s.max - logit) * s.bins_per_logit;
    return min(static_cast<uint32_t>(__float2int_rz(place)), BINS - 1);
}

// --- rows ---

__device__ __forceinline__ float* edited_row(const SampleParams& p, const SampleRow& row, uint32_t index) {
    return (row.flags & ROW_KEEPS_RAW ? p.edited : p.logits) + index * p.stride;
}

// Four logits from `at` on, a multiple of 4; what lies beyond the vocabulary is -inf.
__device__ __forceinline__ float4 load_logits(const float* row, uint32_t at, uint32_t vocab) {
    if (at + 4 <= vocab) return *reinterpret_cast<const float4*>(row + at);
    const float none = -INFINITY;
    return make_float4(at < vocab ? row[at] : none, at + 1 < vocab ? row[at + 1] : none, at + 2 < vocab ? row[at + 2] : none,
                       none);
}

// Calls f(four logits, id of the first) for this thread's share of [begin, end), in ascending order. `begin` is a multiple of 4;
// `end` is one, too, or the vocabulary's.
template <uint32_t THREADS, typename F>
__device__ __forceinline__ void visit(const float* row, uint32_t begin, uint32_t end, uint32_t vocab, F f) {
    constexpr uint32_t TILE = 4 * THREADS, DEPTH = 4;
    uint32_t at = begin + 4 * threadIdx.x;
    const uint32_t whole = min(end, vocab & ~3u);
    for (; at + (DEPTH - 1) * TILE < whole; at += DEPTH * TILE) {
        float4 v[DEPTH];
#pragma unroll
        for (uint32_t d = 0; d < DEPTH; ++d) v[d] = *reinterpret_cast<const float4*>(row + at + d * TILE);
#pragma unroll
        for (uint32_t d = 0; d < DEPTH; ++d) f(v[d], at + d * TILE);
    }
    for (; at < end; at += TILE) f(load_logits(row, at, vocab), at);
}

template <typename F>
__device__ __forceinline__ void each(float4 v, uint32_t at, F f) {
    f(v.x, at);
    f(v.y, at + 1);
    f(v.z, at + 2);
    f(v.w, at + 3);
}

// --- blocks ---

__device__ __forceinline__ uint64_t warp_sum_u64(uint64_t value) {
#pragma unroll
    for (int lane = 16; lane > 0; lane >>= 1) value += __shfl_xor_sync(0xffffffffu, value, lane);
    return value;
}

__device__ __forceinline__ uint64_t warp_max_u64(uint64_t value) {
#pragma unroll
    for (int lane = 16; lane > 0; lane >>= 1) value = max(value, __shfl_xor_sync(0xffffffffu, value, lane));
    return value;
}

// The sum of `value` over the threads before this one; `total` is that over all. Begins and ends with a barrier.
__device__ __forceinline__ uint64_t block_scan(uint64_t value, uint64_t (&scratch)[32], uint64_t& total) {
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    uint64_t sum = value;
#pragma unroll
    for (int step = 1; step < 32; step <<= 1) {
        const uint64_t before = __shfl_up_sync(0xffffffffu, sum, step);
        if (lane >= step) sum += before;
    }
    __syncthreads();
    if (lane == 31) scratch[warp] = sum;
    __syncthreads();
    uint64_t before = 0, all = 0;
    for (uint32_t w = 0; w < warps; ++w) {
        const uint64_t part = scratch[w];
        if (w < warp) before += part;
        all += part;
    }
    __syncthreads();
    total = all;
    return before + sum - value;
}

// Sorts the keys, greatest first; 0 fills up to a power of two, for which there must be room. A bitonic sort by 1024 threads, each
// with up to four keys in registers: far partners are in the same thread, near ones in the same warp, the others in shared memory.
constexpr uint32_t SORT_THREADS = 1024, SORT_ITEMS = MOST_CANDIDATES / SORT_THREADS;

__device__ __forceinline__ void sort_keys(uint32_t count, uint64_t* keys) {
    uint32_t size = 2;
    while (size < count) size *= 2;
    uint64_t own[SORT_ITEMS];
    __syncthreads();
#pragma unroll
    for (uint32_t m = 0; m < SORT_ITEMS; ++m) {
        const uint32_t i = threadIdx.x + m * SORT_THREADS;
        own[m] = i < count ? keys[i] : 0;
    }
    for (uint32_t run = 2; run <= size; run *= 2) {
        for (uint32_t step = run / 2; step > 0; step /= 2) {
            uint64_t other[SORT_ITEMS];
            if (step >= SORT_THREADS) {
                const bool far = step >= 2 * SORT_THREADS;
                other[0] = far ? own[2] : own[1], other[1] = far ? own[3] : own[0];
                other[2] = far ? own[0] : own[3], other[3] = far ? own[1] : own[2];
            } else if (step >= 32) {
                __syncthreads();
#pragma unroll
                for (uint32_t m = 0; m < SORT_ITEMS; ++m) {
                    const uint32_t i = threadIdx.x + m * SORT_THREADS;
                    if (i < size) keys[i] = own[m];
                }
                __syncthreads();
#pragma unroll
                for (uint32_t m = 0; m < SORT_ITEMS; ++m) {
                    const uint32_t i = threadIdx.x + m * SORT_THREADS;
                    other[m] = i < size ? keys[i ^ step] : 0;
                }
            } else {
#pragma unroll
                for (uint32_t m = 0; m < SORT_ITEMS; ++m) other[m] = __shfl_xor_sync(0xffffffffu, own[m], step);
            }
#pragma unroll
            for (uint32_t m = 0; m < SORT_ITEMS; ++m) {
                const uint32_t i = threadIdx.x + m * SORT_THREADS;
                const bool is_first = (i & step) == 0, descends = (i & run) == 0;
                own[m] = is_first == descends ? max(own[m], other[m]) : min(own[m], other[m]);
            }
        }
    }
    __syncthreads();
#pragma unroll
    for (uint32_t m = 0; m < SORT_ITEMS; ++m) {
        const uint32_t i = threadIdx.x + m * SORT_THREADS;
        if (i < size) keys[i] = own[m];
    }
    __syncthreads();
}

// How many tokens the groups' likeliest can bound without letting too many others through.
__device__ __forceinline__ uint32_t group_limit(uint32_t chunks) { return min(GROUPS * chunks, MOST_GROUPS) / 4 * 3; }

__device__ __forceinline__ uint64_t* groups_of(const SampleParams& p, uint32_t set, uint32_t index) {
    return p.groups + (static_cast<uint64_t>(set) * p.row_places + index) * p.chunks * GROUPS;
}

// A key that at least `wanted` tokens of the row reach: of the likeliest of each group, the `wanted`-th. At most group_limit.
__device__ __forceinline__ uint64_t group_bound(const SampleParams& p, uint32_t set, uint32_t index, uint32_t wanted,
                                                uint64_t* keys) {
    const uint64_t* groups = groups_of(p, set, index);
    const uint32_t all = GROUPS * p.chunks, count = min(all, MOST_GROUPS);
    if (threadIdx.x < count) {
        uint64_t best = 0;
        for (uint32_t i = threadIdx.x; i < all; i += MOST_GROUPS) best = max(best, groups[i]);
        keys[threadIdx.x] = best;
    }
    sort_keys(count, keys);
    const uint64_t bound = max(keys[wanted - 1], static_cast<uint64_t>(1));
    __syncthreads();
    return bound;
}

// Appends to `keys` what reaches `bound`. `collected`, which is 0 before, counts all of it; room is for MOST_CANDIDATES.
__device__ __forceinline__ void push_above(float logit, uint32_t token, uint64_t bound, uint64_t* keys, uint32_t* collected) {
    // The first comparison alone decides nearly always; it passes where the bound is no logit.
    if (logit < logit_of(bound) || logit == -INFINITY) return;
    const uint64_t key = key_of(logit, token);
    if (key < bound) return;
    const uint32_t place = atomicAdd(collected, 1);
    if (place < MOST_CANDIDATES) keys[place] = key;
}
