// sample_counts.cu   which tokens each slot has seen, for penalties
//
//   counts[slot, t] = SEEN where t occurs in prompt or output, plus how often it was generated
//
// shapes    counts u32 [slots, stride]
// mapping   reset: grid (stride / CHUNK, resets): a block clears its part of the slot, then counts what of the lists falls into it;
//           count: a thread for each row of the step
// numerics  whole numbers: atomic additions in any order
// bound     memory: 4 * stride bytes a reset, and the lists once for each part
// limits    less than 2^31 tokens of a kind
#include "layout.cuh"

constexpr uint32_t CHUNK = 16384, THREADS = 512;

struct CountReset {
    uint32_t slot, prompt_start, prompt_count, generated_start, generated_count, unused;
};

struct CountResetParams {
    const CountReset* resets;
    const uint32_t* tokens;
    uint32_t* counts;
    uint64_t stride;
};
static_assert(sizeof(CountResetParams) == 32, "mirrored in counts.rs");

extern "C" __global__ void __launch_bounds__(THREADS) count_reset(const __grid_constant__ CountResetParams p) {
    pdl_launch();
    pdl_wait();
    const CountReset reset = p.resets[blockIdx.y];
    const uint32_t begin = blockIdx.x * CHUNK;
    const uint32_t length = static_cast<uint32_t>(min(static_cast<uint64_t>(CHUNK), p.stride - begin));
    uint32_t* counts = p.counts + reset.slot * p.stride + begin;
    for (uint32_t i = threadIdx.x; i < length; i += THREADS) counts[i] = 0;
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < reset.prompt_count; i += THREADS) {
        const uint32_t place = p.tokens[reset.prompt_start + i] - begin;
        if (place < length) atomicOr(counts + place, SEEN);
    }
    for (uint32_t i = threadIdx.x; i < reset.generated_count; i += THREADS) {
        const uint32_t place = p.tokens[reset.generated_start + i] - begin;
        if (place >= length) continue;
        atomicOr(counts + place, SEEN);
        atomicAdd(counts + place, 1);
    }
}

// Counts what was sampled. Its own kernel, behind all rows of the step: every row is penalised by the counts before the step.
extern "C" __global__ void __launch_bounds__(128) sample_count(const __grid_constant__ SampleParams p) {
    pdl_launch();
    pdl_wait();
    const uint32_t index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= *p.row_count) return;
    const SampleRow& row = p.rows[index];
    const Answer answer = p.answers[index];
    if (row.kind != ROW_SAMPLE || !(row.flags & ROW_PENALTIES) || answer.status != STATUS_OK) return;
    uint32_t* count = p.counts + row.slot * p.stride + answer.token;
    atomicOr(count, SEEN);
    atomicAdd(count, 1);
}
