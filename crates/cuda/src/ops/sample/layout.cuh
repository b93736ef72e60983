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
    uint32_t draws;        // 0: no draw, 1: by id, 2: by likelihood
    uint32_t unused;
};
static_assert(sizeof(State) == 48, "");

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
    uint64_t stride;  // of a row of logits, of edited logits and of counts
    uint32_t vocab, chunk, chunks, capacity, argmax_parts, unused;
};
static_assert(sizeof(SampleParams) == 184, "mirrored in layout.rs");

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

// Sorts the keys, greatest first; 0 fills up to a power of two, for which there must be room.
template <uint32_t THREADS>
__device__ __forceinline__ void sort_keys(uint32_t count, uint64_t* keys) {
    uint32_t size = 2;
    while (size < count) size *= 2;
    for (uint32_t i = count + threadIdx.x; i < size; i += THREADS) keys[i] = 0;
    for (uint32_t run = 2; run <= size; run *= 2) {
        for (uint32_t step = run / 2; step > 0; step /= 2) {
            __syncthreads();
            for (uint32_t i = threadIdx.x; i < size; i += THREADS) {
                const uint32_t other = i ^ step;
                if (other <= i) continue;
                const uint64_t a = keys[i], b = keys[other];
                if (((i & run) == 0) == (a < b)) keys[i] = b, keys[other] = a;
            }
        }
    }
    __syncthreads();
}
