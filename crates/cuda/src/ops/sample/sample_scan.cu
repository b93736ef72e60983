// sample_scan.cu   the first pass over rows of logits: edits, the likeliest token, what is no number
//
//   raw     = logits[r]                                          (must be numbers, and not all -inf)
//   l       = raw + bias; penalised where the slot has seen the token; -inf where banned or outside the mask
//   greedy  : token = argmax l, lowest id among equals
//   others  : max, least, and the constants of the draw (see sample_draw.cu)
//
// shapes    logits f32 [R, stride], stride % 4 == 0; counts u32 [slots, stride]; lists by range, see SampleRow. Rows whose raw logits
//           nobody reads later are changed in place, the others into `edited`
// mapping   grid (chunks, R): a block takes `chunk` logits (a multiple of 2048) of one row, 4 a thread at a time; the last block of
//           a row to finish combines what all found. 9 KB of shared memory
// numerics  edits round step by step as the reference does (no fused multiply-add); sums of exp in f32 per thread, in f64 between
//           them, in an order that depends on the chunks alone
// bound     the second-level cache: R * V * 4 bytes; H200: 64 x 151936: 39 MB, about 8 us. Greedy rows whose product hands over
//           `argmax` need no pass at all (sample_argmax)
// limits    V <= 2^30; the number of rows is read from the device, surplus blocks leave at once
#include "layout.cuh"

constexpr uint32_t THREADS = 512, TILE = 4 * THREADS;
static_assert(GROUPS * 8 == THREADS, "a group is 8 threads");

// What a thread, then a block, knows of its part.
struct Found {
    float max;      // the greatest logit, and the first token that has it
    uint32_t at;
    float least;    // the least logit above -inf
    uint32_t bad;   // code of the first logit that is no number
};
constexpr uint32_t NO_BAD = 0xffffffffu;
constexpr Found NOTHING_FOUND = {-INFINITY, 0xffffffffu, INFINITY, NO_BAD};

__device__ __forceinline__ void see(Found& found, float logit, uint32_t token) {
    if (!(logit < INFINITY)) found.bad = min(found.bad, 2 * token + (logit != logit));
    if (logit > found.max) found.max = logit, found.at = token;
    found.least = fminf(found.least, logit == -INFINITY ? INFINITY : logit);
}

// Sum of exp(logit - max) so far.
struct Exps {
    float max, sum;
};

__device__ __forceinline__ void add(Exps& exps, float4 v) {
    const float most = fmaxf(fmaxf(v.x, v.y), fmaxf(v.z, v.w));
    if (most > exps.max) {
        exps.sum *= expf(exps.max - most);
        exps.max = most;
    }
    if (exps.max == -INFINITY) return;
    exps.sum += expf(v.x - exps.max) + expf(v.y - exps.max) + expf(v.z - exps.max) + expf(v.w - exps.max);
}

// Entries are sorted by token; the first of several for one token adds them all, one after the other.
__device__ __forceinline__ void add_bias(const SampleParams& p, const SampleRow& row, uint32_t begin, float* tile) {
    const Bias* bias = p.bias + row.bias_start;
    for (uint32_t i = threadIdx.x; i < row.bias_count; i += THREADS) {
        const uint32_t token = bias[i].token, place = token - begin;
        if (place >= TILE || (i > 0 && bias[i - 1].token == token)) continue;
        for (uint32_t j = i; j < row.bias_count && bias[j].token == token; ++j) {
            tile[place] = __fadd_rn(tile[place], bias[j].value);
        }
    }
}

__device__ __forceinline__ void ban(const SampleParams& p, const SampleRow& row, uint32_t begin, float* tile) {
    for (uint32_t i = threadIdx.x; i < row.ban_count; i += THREADS) {
        const uint32_t place = p.bans[row.ban_start + i] - begin;
        if (place < TILE) tile[place] = -INFINITY;
    }
}

__device__ __forceinline__ float penalise(float logit, uint32_t count, const SampleRow& row) {
    if (count == 0) return logit;
    const uint32_t generated = count & ~SEEN;
    logit = logit > 0.0f ? __fdiv_rn(logit, row.repetition) : __fmul_rn(logit, row.repetition);
    logit = __fsub_rn(logit, __fmul_rn(row.frequency, static_cast<float>(generated)));
    return generated > 0 ? __fsub_rn(logit, row.presence) : logit;
}

// Changes the four logits from `at` on, which lie in the tile from `begin` on. Every thread of the block is here.
__device__ __forceinline__ float4 edit(const SampleParams& p, const SampleRow& row, float4 v, uint32_t at, uint32_t begin,
                                       float* tile) {
    float4* own = reinterpret_cast<float4*>(tile) + threadIdx.x;
    if (row.bias_count > 0) {
        *own = v;
        __syncthreads();
        add_bias(p, row, begin, tile);
        __syncthreads();
        v = *own;
    }
    if ((row.flags & ROW_PENALTIES) && at < p.vocab) {
        const uint4 counts = *reinterpret_cast<const uint4*>(p.counts + row.slot * p.stride + at);
        v.x = penalise(v.x, counts.x, row);
        v.y = penalise(v.y, counts.y, row);
        v.z = penalise(v.z, counts.z, row);
        v.w = penalise(v.w, counts.w, row);
    }
    if (row.flags & ROW_MASK) {
        const uint32_t word = at / 32 < row.mask_words ? p.masks[row.mask_start + at / 32] >> (at % 32) : 0;
        v.x = word & 1 ? v.x : -INFINITY;
        v.y = word & 2 ? v.y : -INFINITY;
        v.z = word & 4 ? v.z : -INFINITY;
        v.w = word & 8 ? v.w : -INFINITY;
    }
    if (row.ban_count > 0) {
        *own = v;
        __syncthreads();
        ban(p, row, begin, tile);
        __syncthreads();
        v = *own;
    }
    return v;
}

__device__ __forceinline__ void store_logits(float* row, uint32_t at, uint32_t vocab, float4 v) {
    if (at + 4 <= vocab) {
        *reinterpret_cast<float4*>(row + at) = v;
    } else {
        if (at < vocab) row[at] = v.x;
        if (at + 1 < vocab) row[at + 1] = v.y;
        if (at + 2 < vocab) row[at + 2] = v.z;
    }
}

__device__ __forceinline__ void see4(Found& found, float4 v, uint32_t at) {
    each(v, at, [&](float logit, uint32_t token) { see(found, logit, token); });
}

// 0 where there is nothing above -inf.
__device__ __forceinline__ uint64_t best_of(const Found& found) {
    return found.max == -INFINITY ? 0 : key_of(found.max, found.at);
}

// Sums relative to the greatest maximum. The order is that of the lanes, whatever the values.
__device__ __forceinline__ double warp_exps(float max, double sum, float& most) {
    most = warp_max(max);
    double scaled = max == -INFINITY ? 0.0 : sum * exp(static_cast<double>(max) - static_cast<double>(most));
#pragma unroll
    for (int lane = 16; lane > 0; lane >>= 1) scaled += __shfl_xor_sync(0xffffffffu, scaled, lane);
    return scaled;
}

struct Scratch {
    uint64_t best[32];
    double sum[32];
    float least[32], max[32], raw_max[32];
    uint32_t bad[32], raw_bad[32];
    uint32_t is_last;
};

// Leaves the key of the likeliest token of each 8 threads.
__device__ __forceinline__ void store_group(const SampleParams& p, uint32_t set, uint32_t index, uint64_t key) {
#pragma unroll
    for (int lane = 4; lane > 0; lane >>= 1) key = max(key, __shfl_xor_sync(0xffffffffu, key, lane));
    if (threadIdx.x % 8 == 0) groups_of(p, set, index)[blockIdx.x * GROUPS + threadIdx.x / 8] = key;
}

// Combines what the block's threads found; the result is whole in thread 0.
__device__ __forceinline__ Partial block_partial(Found raw, Found found, Exps exps, bool logprobs, Scratch& scratch) {
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const uint64_t best = warp_max_u64(best_of(found));
    const float least = -warp_max(-found.least), raw_max = warp_max(raw.max);
    const uint32_t bad = __reduce_min_sync(0xffffffffu, found.bad), raw_bad = __reduce_min_sync(0xffffffffu, raw.bad);
    float most = -INFINITY;
    const double sum = logprobs ? warp_exps(exps.max, exps.sum, most) : 0.0;
    if (lane == 0) {
        scratch.best[warp] = best, scratch.least[warp] = least, scratch.bad[warp] = bad;
        scratch.raw_bad[warp] = raw_bad, scratch.raw_max[warp] = raw_max;
        scratch.sum[warp] = sum, scratch.max[warp] = most;
    }
    __syncthreads();
    Partial partial = {};
    if (warp == 0) {
        const bool is_warp = lane < THREADS / 32;
        partial.best = warp_max_u64(is_warp ? scratch.best[lane] : 0);
        partial.least = -warp_max(is_warp ? -scratch.least[lane] : -INFINITY);
        partial.bad = __reduce_min_sync(0xffffffffu, is_warp ? scratch.bad[lane] : NO_BAD);
        partial.raw_bad = __reduce_min_sync(0xffffffffu, is_warp ? scratch.raw_bad[lane] : NO_BAD);
        partial.raw_max = warp_max(is_warp ? scratch.raw_max[lane] : -INFINITY);
        float whole;
        if (logprobs) {
            partial.raw_sum = warp_exps(is_warp ? scratch.max[lane] : -INFINITY, is_warp ? scratch.sum[lane] : 0.0, whole);
        }
    }
    return partial;
}

__device__ __forceinline__ void fail(const SampleParams& p, uint32_t index, uint32_t status, uint32_t at) {
    p.answers[index] = {0, status, at, 0.0f, 0, 0};
    p.sampled[index] = 0;
    p.states[index].draws = DRAWS_NOT;
}

// The constants of the draw from the row's extremes.
__device__ __forceinline__ State draw_state(const SampleRow& row, uint32_t chunks, float max, float least, float raw_max,
                                            double log_sum) {
    State s = {};
    s.log_sum = log_sum, s.max = max, s.least = least, s.raw_max = raw_max;
    if (row.kind != ROW_SAMPLE || row.temperature <= 0.0f) return s;
    const double temperature = row.temperature;
    s.inverse = static_cast<float>(fmin(1.4426950408889634 / temperature, 3.4e38));
    const double range = fmin(WEIGHTLESS * temperature, static_cast<double>(max) - static_cast<double>(least));
    s.bins_per_logit = range > 0.0 ? static_cast<float>(fmin((BINS - 1) / range, 1e30)) : 0.0f;
    s.threshold = row.min_p > 0.0f
                      ? __double2float_ru(static_cast<double>(max) + temperature * log(static_cast<double>(row.min_p)))
                      : -INFINITY;
    const bool is_few = row.top_k > 0 && row.top_k <= group_limit(chunks);
    s.draws = is_few ? DRAWS_AMONG_FEW : row.top_k > 0 || row.top_p < 1.0f ? DRAWS_FROM_BINS : DRAWS_BY_ID;
    return s;
}

// Warp 0 of the last block of a row: the answer of a greedy row, the state of the others.
__device__ __forceinline__ void finish_row(const SampleParams& p, const SampleRow& row, uint32_t index) {
    const uint32_t lane = threadIdx.x;
    const bool logprobs = row.flags & ROW_LOGPROBS;
    uint64_t best = 0;
    uint32_t bad = NO_BAD, raw_bad = NO_BAD;
    float least = INFINITY, raw_max = -INFINITY;
    double sum = 0.0;
    for (uint32_t c = lane; c < p.chunks; c += 32) {
        const volatile Partial& part = p.partials[static_cast<uint64_t>(index) * p.chunks + c];
        best = max(best, static_cast<uint64_t>(part.best));
        least = fminf(least, part.least);
        bad = min(bad, part.bad);
        raw_bad = min(raw_bad, part.raw_bad);
        const float most = fmaxf(raw_max, part.raw_max);
        if (logprobs && most > -INFINITY) {
            const double own = part.raw_max == -INFINITY ? 0.0 : part.raw_sum * exp(static_cast<double>(part.raw_max) - most);
            sum = (raw_max == -INFINITY ? 0.0 : sum * exp(static_cast<double>(raw_max) - most)) + own;
        }
        raw_max = most;
    }
    best = warp_max_u64(best);
    least = -warp_max(-least);
    bad = __reduce_min_sync(0xffffffffu, bad);
    raw_bad = __reduce_min_sync(0xffffffffu, raw_bad);
    float most = warp_max(raw_max);
    const double whole = logprobs ? warp_exps(raw_max, sum, most) : 0.0;
    if (lane != 0) return;
    p.tickets[index] = 0;
    if (raw_bad != NO_BAD) return fail(p, index, raw_bad & 1 ? STATUS_RAW_NAN : STATUS_RAW_INFINITE, raw_bad / 2);
    if (most == -INFINITY) return fail(p, index, STATUS_RAW_NOTHING, 0);
    if (bad != NO_BAD) return fail(p, index, bad & 1 ? STATUS_NAN : STATUS_INFINITE, bad / 2);
    if (best == 0) return fail(p, index, STATUS_NOTHING, 0);
    const double log_sum = logprobs ? static_cast<double>(most) + log(whole) : 0.0;
    p.states[index] = draw_state(row, p.chunks, logit_of(best), least, most, log_sum);
    const int32_t token = row.kind == ROW_SCORE ? static_cast<int32_t>(row.target) : static_cast<int32_t>(token_of(best));
    p.answers[index] = {token, STATUS_OK, 0, 0.0f, 0, 0};
    p.sampled[index] = token;
}

__device__ __forceinline__ void answer_nothing(const SampleParams& p, uint32_t index) {
    if (blockIdx.x == 0 && threadIdx.x == 0) fail(p, index, STATUS_OK, 0);
}

// The histogram of a row that draws begins empty: each block clears its share.
__device__ __forceinline__ void clear_bins(const SampleParams& p, uint32_t index) {
    for (uint32_t bin = blockIdx.x * THREADS + threadIdx.x; bin < BINS; bin += gridDim.x * THREADS) {
        p.bin_weights[static_cast<uint64_t>(index) * BINS + bin] = 0;
        p.bin_counts[static_cast<uint64_t>(index) * BINS + bin] = 0;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) sample_scan(const __grid_constant__ SampleParams p) {
    __shared__ __align__(16) float tile[TILE];
    __shared__ Scratch scratch;
    pdl_launch();
    pdl_wait();
    const uint32_t index = blockIdx.y, row_count = *p.row_count;
    const SampleRow row = p.rows[index];
    if (index >= row_count) return;
    if (row.kind == ROW_NOTHING) return answer_nothing(p, index);
    if (row.kind == ROW_SAMPLE && row.temperature > 0.0f) clear_bins(p, index);
    const bool edits = row.flags & ROW_EDITS, logprobs = row.flags & ROW_LOGPROBS;
    const float* from = p.logits + index * p.stride;
    float* to = edited_row(p, row, index);
    Found raw = NOTHING_FOUND, found = NOTHING_FOUND;
    Exps exps = {-INFINITY, 0.0f};
    const uint32_t begin = blockIdx.x * p.chunk, end = min(begin + p.chunk, p.vocab);
    if (edits) {
        for (uint32_t tile_begin = begin; tile_begin < end; tile_begin += TILE) {
            const uint32_t at = tile_begin + 4 * threadIdx.x;
            float4 v = load_logits(from, at, p.vocab);
            see4(raw, v, at);
            if (logprobs) add(exps, v);
            v = edit(p, row, v, at, tile_begin, tile);
            see4(found, v, at);
            store_logits(to, at, p.vocab, v);
        }
    } else {
        visit<THREADS>(from, begin, end, p.vocab, [&](float4 v, uint32_t at) {
            see4(raw, v, at);
            if (logprobs) add(exps, v);
        });
    }
    if (!edits) found = raw;
    if (row.temperature > 0.0f && row.top_k > 0) store_group(p, 0, index, best_of(found));
    if (logprobs && row.top > 0) store_group(p, 1, index, best_of(raw));
    const Partial partial = block_partial(raw, found, exps, logprobs, scratch);
    if (threadIdx.x == 0) {
        p.partials[static_cast<uint64_t>(index) * p.chunks + blockIdx.x] = partial;
        __threadfence();
        scratch.is_last = atomicAdd(p.tickets + index, 1) == p.chunks - 1;
        __threadfence();
    }
    __syncthreads();
    if (scratch.is_last && threadIdx.x < 32) finish_row(p, row, index);
}

// Greedy rows without edits and log-probabilities, from what the product found for each of its parts. A part that holds a
// logit that is no number hands over the key of the first one, with the logit as it is: above every number.
extern "C" __global__ void __launch_bounds__(128) sample_argmax(const __grid_constant__ SampleParams p) {
    __shared__ uint64_t best[4];
    pdl_launch();
    pdl_wait();
    const uint32_t index = blockIdx.x;
    if (index >= *p.row_count) return;
    if (p.rows[index].kind == ROW_NOTHING) {
        if (threadIdx.x == 0) fail(p, index, STATUS_OK, 0);
        return;
    }
    uint64_t key = 0;
    for (uint32_t part = threadIdx.x; part < p.argmax_parts; part += 128) {
        key = max(key, static_cast<uint64_t>(p.argmax[static_cast<uint64_t>(index) * p.argmax_parts + part]));
    }
    key = warp_max_u64(key);
    if (threadIdx.x % 32 == 0) best[threadIdx.x / 32] = key;
    __syncthreads();
    if (threadIdx.x != 0) return;
    key = max(max(best[0], best[1]), max(best[2], best[3]));
    const float logit = logit_of(key);
    if (key >> 32 == NAN_KEY) return fail(p, index, STATUS_RAW_NAN, token_of(key));
    if (logit == INFINITY) return fail(p, index, STATUS_RAW_INFINITE, token_of(key));
    if (key >> 32 <= ordered(-INFINITY)) return fail(p, index, STATUS_RAW_NOTHING, 0);
    const int32_t token = static_cast<int32_t>(token_of(key));
    p.answers[index] = {token, STATUS_OK, 0, 0.0f, 0, 0};
    p.sampled[index] = token;
}
