// sample_logprobs.cu   log-probability and rank of a row's token, and the likeliest tokens, in the raw distribution
//
//   logprob(t) = raw[t] - ln(sum(exp(raw)))     rank = 1 + tokens that are likelier (of equals: lower ids)
//
// shapes    logits f32 [R, stride], raw; answers from sample_scan.cu or sample_draw.cu; top_tokens u32, top_logprobs f32
//           [R, MOST_TOP]: likeliest first, equal ones by ascending id, none that is forbidden (-inf)
// mapping   one block of 1024 per row, 33 KB of shared memory; rows without the wish leave at once. Of the likeliest tokens of each
//           group's share, which the first pass left, the n-th is a bound that the n likeliest of the row all reach: one pass collects
//           what does, and counts what is likelier than the row's token
// numerics  the sum comes from sample_scan.cu; differences in f64, rounded once
// bound     the second-level cache: R * V * 4 bytes
// limits    MOST_TOP tokens; a row on which more than MOST_CANDIDATES reach the bound takes a pass for each token
#include "layout.cuh"

constexpr uint32_t THREADS = 1024;

struct Shared {
    uint64_t keys[MOST_CANDIDATES];
    uint64_t scan[32];
    uint32_t collected;
};

// As group_bound, for more tokens than there are groups: by the likeliest of each thread's share, in a pass of its own.
__device__ __forceinline__ uint64_t thread_bound(const float* row, uint32_t vocab, uint32_t wanted, Shared& shared) {
    uint32_t at_max = 0;
    float max_logit = -INFINITY;
    visit<THREADS>(row, 0, vocab, vocab, [&](float4 v, uint32_t at) {
        each(v, at, [&](float logit, uint32_t token) {
            if (logit > max_logit) max_logit = logit, at_max = token;
        });
    });
    shared.keys[threadIdx.x] = max_logit == -INFINITY ? 0 : key_of(max_logit, at_max);
    sort_keys(THREADS, shared.keys);
    const uint64_t bound = max(shared.keys[wanted - 1], static_cast<uint64_t>(1));
    __syncthreads();
    return bound;
}

// The key of the likeliest token below `bound`, over the whole block.
__device__ __forceinline__ uint64_t next_below(const float* row, uint32_t vocab, uint64_t bound, Shared& shared) {
    uint64_t best = 0;
    visit<THREADS>(row, 0, vocab, vocab, [&](float4 v, uint32_t at) {
        each(v, at, [&](float logit, uint32_t token) {
            const uint64_t key = key_of(logit, token);
            if (logit > -INFINITY && key < bound) best = max(best, key);
        });
    });
    best = warp_max_u64(best);
    __syncthreads();
    if (threadIdx.x % 32 == 0) shared.scan[threadIdx.x / 32] = best;
    __syncthreads();
    return warp_max_u64(shared.scan[threadIdx.x % 32]);
}

// Sorts what was collected. Leaves the `wanted` likeliest tokens in `shared.keys` and returns how many there are.
__device__ __forceinline__ uint32_t finish_top(const float* row, uint32_t vocab, uint32_t wanted, Shared& shared) {
    const uint32_t collected = shared.collected;
    if (collected <= MOST_CANDIDATES) {
        sort_keys(collected, shared.keys);
        return min(collected, wanted);
    }
    uint64_t below = ~0ull;
    for (uint32_t i = 0; i < wanted; ++i) {
        below = next_below(row, vocab, below, shared);
        if (below == 0) return i;
        if (threadIdx.x == 0) shared.keys[i] = below;
    }
    __syncthreads();
    return wanted;
}

extern "C" __global__ void __launch_bounds__(THREADS) sample_logprobs(const __grid_constant__ SampleParams p) {
    __shared__ Shared shared;
    pdl_launch();
    pdl_wait();
    const uint32_t index = blockIdx.x;
    if (index >= *p.row_count) return;
    const SampleRow wanted = p.rows[index];
    if (!(wanted.flags & ROW_LOGPROBS) || p.answers[index].status != STATUS_OK) return;
    const float* row = p.logits + index * p.stride;
    const double log_sum = p.states[index].log_sum;
    const uint32_t token = static_cast<uint32_t>(p.answers[index].token), top = min(wanted.top, MOST_TOP);
    const float own = row[token];
    const uint64_t bound = top == 0                       ? ~0ull
                           : top <= group_limit(p.chunks) ? group_bound(p, 1, index, top, shared.keys)
                                                          : thread_bound(row, p.vocab, top, shared);
    if (threadIdx.x == 0) shared.collected = 0;
    __syncthreads();
    uint32_t own_likelier = 0;
    visit<THREADS>(row, 0, p.vocab, p.vocab, [&](float4 v, uint32_t at) {
        each(v, at, [&](float logit, uint32_t other) {
            own_likelier += logit > own || (logit == own && other < token);
            if (top > 0) push_above(logit, other, bound, shared.keys, &shared.collected);
        });
    });
    uint64_t likelier;
    block_scan(own_likelier, shared.scan, likelier);
    const uint32_t tops = top == 0 ? 0 : finish_top(row, p.vocab, top, shared);
    if (threadIdx.x == 0) {
        p.answers[index].logprob = static_cast<float>(own - log_sum);
        p.answers[index].rank = static_cast<uint32_t>(likelier) + 1;
        p.answers[index].tops = tops;
    }
    __syncthreads();
    if (threadIdx.x < tops) {
        const uint64_t key = shared.keys[threadIdx.x], place = static_cast<uint64_t>(index) * MOST_TOP + threadIdx.x;
        p.top_tokens[place] = token_of(key);
        p.top_logprobs[place] = static_cast<float>(logit_of(key) - log_sum);
    }
}
