// sample_draw.cu   draws a token of each row with a temperature, after sample_scan.cu
//
//   w(l)   = exp((l - max) / temperature), in whole steps of 2^-40
//   k      : the top_k likeliest weigh W = W_k (all, where there is no top_k)
//   p      : the smallest leading part of them that weighs at least top_p W weighs W_p
//   min_p  : the leading part that is at least min_p times as likely as the likeliest weighs W_m
//   draw   : the token in whose share of min(W_p, W_m) the number uniform * min(W_p, W_m) lies
//
// Tokens stand in descending order of likelihood where top_k or top_p cuts, in ascending order of id elsewhere. All four are the same
// question, "in whose share does this number lie", asked of one list of weights: no order of the vocabulary is ever made.
//
// A small top_k: the first pass left a bound that at least top_k tokens reach; what reaches it is collected and sorted.
//
// Otherwise sample_histogram adds up weights (and numbers, for a large top_k) of tokens in 2048 bins of equal width in the logit, down
// to where weights vanish (or to the least logit). sample_draw knows from it in which few bins the three answers lie, collects the
// tokens of those (some hundreds of a hundred thousand), sorts them and answers exactly.
//
// Where too many tokens are collected (thousands of equal logits, outliers that leave everything else to a few bins) it narrows down
// by the bits of the logit instead, one pass over the row for each ten bits.
//
// mapping   histogram: grid (chunks, R), 512 threads; draw: one block of 1024 per row, 57 KB of shared memory
// numerics  weights are whole numbers, so that sums are exact, the same in any order, and equal in both kernels
// bound     the second-level cache: 2 passes; H200: 64 x 151936: 2 x 39 MB, about 8 us each
// limits    V <= 2^18 tokens of full weight fit the sums (2^58 of 2^64); V <= 2^22 is asked for by the plan
// rejected  sorting the row; a heap for each row; drawing again on rejection (would not be the reference's token)
#include "layout.cuh"

constexpr uint32_t HISTOGRAM_THREADS = 512, THREADS = 1024, ITEMS = MOST_CANDIDATES / THREADS, LEVEL_BITS = 10;
constexpr uint32_t NO_TOKEN = 0xffffffffu;
static_assert(BINS == 2 * THREADS && (1u << LEVEL_BITS) == THREADS, "a thread for two bins, for one of a level");

// --- the histogram ---

// Adds to a sum of 64 bits in two words, each by an atomic addition that the hardware has.
__device__ __forceinline__ void add_wide(uint32_t* low, uint32_t* high, uint64_t value) {
    const uint32_t part = static_cast<uint32_t>(value), before = atomicAdd(low, part);
    const uint32_t carried = static_cast<uint32_t>(value >> 32) + (before + part < before ? 1 : 0);
    if (carried != 0) atomicAdd(high, carried);
}

// The weight that min_p keeps, summed over this thread's share.
__device__ __forceinline__ uint64_t kept_weight(const float* row, uint32_t begin, uint32_t end, uint32_t vocab, const State& s) {
    uint64_t kept = 0;
    visit<HISTOGRAM_THREADS>(row, begin, end, vocab, [&](float4 v, uint32_t at) {
        each(v, at, [&](float logit, uint32_t) { kept += logit >= s.threshold ? weight_of(logit, s) : 0; });
    });
    return kept;
}

extern "C" __global__ void __launch_bounds__(HISTOGRAM_THREADS) sample_histogram(const __grid_constant__ SampleParams p) {
    __shared__ uint32_t low[BINS], high[BINS], count[BINS];
    __shared__ uint64_t sums[32];
    pdl_launch();
    pdl_wait();
    const uint32_t index = blockIdx.y;
    if (index >= *p.row_count) return;
    const State s = p.states[index];
    if (s.draws != DRAWS_BY_ID && s.draws != DRAWS_FROM_BINS) return;
    const float* row = edited_row(p, p.rows[index], index);
    const bool counts = p.rows[index].top_k > 0;
    const uint32_t begin = blockIdx.x * p.chunk, end = min(begin + p.chunk, p.vocab);
    if (s.draws == DRAWS_BY_ID) {
        uint64_t total;
        block_scan(kept_weight(row, begin, end, p.vocab, s), sums, total);
        if (threadIdx.x == 0) p.chunk_weights[static_cast<uint64_t>(index) * p.chunks + blockIdx.x] = total;
        return;
    }
    for (uint32_t bin = threadIdx.x; bin < BINS; bin += HISTOGRAM_THREADS) low[bin] = high[bin] = count[bin] = 0;
    __syncthreads();
    uint64_t kept = 0;
    visit<HISTOGRAM_THREADS>(row, begin, end, p.vocab, [&](float4 v, uint32_t at) {
        each(v, at, [&](float logit, uint32_t) {
            const uint64_t weight = weight_of(logit, s);
            if (weight == 0) return;
            const uint32_t bin = bin_of(logit, s);
            add_wide(low + bin, high + bin, weight);
            if (counts) atomicAdd(count + bin, 1);
            if (logit >= s.threshold) kept += weight;
        });
    });
    uint64_t total;
    block_scan(kept, sums, total);
    if (threadIdx.x == 0) atomicAdd(&p.states[index].kept, static_cast<unsigned long long>(total));
    for (uint32_t bin = threadIdx.x; bin < BINS; bin += HISTOGRAM_THREADS) {
        const unsigned long long weight = static_cast<unsigned long long>(high[bin]) << 32 | low[bin];
        if (weight == 0) continue;
        const uint64_t place = static_cast<uint64_t>(index) * BINS + bin;
        atomicAdd(p.bin_weights + place, weight);
        if (counts) atomicAdd(p.bin_counts + place, count[bin]);
    }
}

// --- the draw ---

struct Shared {
    uint64_t keys[MOST_CANDIDATES];
    uint64_t weights[BINS + 1];  // weight of all bins before
    uint64_t scan[32];
    uint64_t through_k, through_p, base, base_weight;  // answers, and where a search goes on
    uint32_t counts[BINS + 1];                         // tokens in all bins before
    uint32_t low[3], length[3];                        // stretches of bins to collect: of k, of p, of the draw
    uint32_t collected, found, place;
};

// The number in [0, weight) whose owner is drawn.
__device__ __forceinline__ uint64_t drawn_number(double uniform, uint64_t weight) {
    const uint64_t number = static_cast<uint64_t>(uniform * static_cast<double>(weight));
    return weight == 0 ? 0 : min(number, weight - 1);
}

// The last number that the nucleus of `weight` must hold.
__device__ __forceinline__ uint64_t nucleus_number(float top_p, uint64_t weight) {
    const uint64_t wanted = static_cast<uint64_t>(ceil(static_cast<double>(top_p) * static_cast<double>(weight)));
    return min(max(wanted, static_cast<uint64_t>(1)), max(weight, static_cast<uint64_t>(1))) - 1;
}

// The last bin that begins at or before `number`, in sums over all bins before. By one whole warp.
template <typename T>
__device__ __forceinline__ uint32_t bin_at(const T* before, T number) {
    constexpr uint32_t STRIDE = BINS / 32;
    const uint32_t lane = threadIdx.x % 32;
    const uint32_t part = STRIDE * (__popc(__ballot_sync(0xffffffffu, before[STRIDE * lane] <= number)) - 1);
    uint32_t bin = part - 1;
#pragma unroll
    for (uint32_t i = 0; i < STRIDE; i += 32) bin += __popc(__ballot_sync(0xffffffffu, before[part + i + lane] <= number));
    return bin;
}

// The sum of `value` over the lanes up to and with this one.
__device__ __forceinline__ uint64_t warp_scan(uint64_t value) {
#pragma unroll
    for (int step = 1; step < 32; step <<= 1) {
        const uint64_t before = __shfl_up_sync(0xffffffffu, value, step);
        if (threadIdx.x % 32 >= step) value += before;
    }
    return value;
}

// Whose share holds the number, of 32 lanes in order; the number becomes that within the share. 32 where it is beyond all shares;
// the number becomes that behind them.
__device__ __forceinline__ uint32_t owner_lane(uint64_t share, uint64_t& number) {
    const uint64_t through = warp_scan(share);
    const uint32_t owner = __popc(__ballot_sync(0xffffffffu, through <= number));
    number -= __shfl_sync(0xffffffffu, owner < 32 ? through - share : through, owner < 32 ? owner : 31);
    return owner;
}

__device__ __forceinline__ uint64_t kept_weight_of(float logit, const State& s) {
    return logit >= s.threshold ? weight_of(logit, s) : 0;
}

// Calls f(four weights, id of the first) for the warp's logits in [begin, end), 128 at a time, until it says stop.
template <typename F>
__device__ __forceinline__ void walk(const float* row, uint32_t begin, uint32_t end, uint32_t vocab, const State& s, F f) {
#pragma unroll 4
    for (uint32_t at = begin + 4 * (threadIdx.x % 32); at < end; at += 128) {
        const float4 v = load_logits(row, at, vocab);
        const uint64_t weights[4] = {kept_weight_of(v.x, s), kept_weight_of(v.y, s), kept_weight_of(v.z, s), kept_weight_of(v.w, s)};
        if (f(weights, at)) return;
    }
}

// By id: the chunk that owns the number, then the warp's part of it, then the token.
__device__ __forceinline__ uint32_t draw_by_id(const SampleParams& p, const float* row, uint32_t index, double uniform,
                                               const State& s, Shared& shared) {
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const unsigned long long* sums = p.chunk_weights + static_cast<uint64_t>(index) * p.chunks;
    const uint64_t first = lane < p.chunks ? sums[lane] : 0, second = lane + 32 < p.chunks ? sums[lane + 32] : 0;
    const uint64_t first_half = warp_sum_u64(first);
    uint64_t number = drawn_number(uniform, first_half + warp_sum_u64(second));
    uint32_t chunk;
    if (number < first_half) {
        chunk = owner_lane(first, number);
    } else {
        number -= first_half;
        chunk = 32 + owner_lane(second, number);
    }
    // Parts are whole steps of a warp, so that its accesses are.
    const uint32_t part = (p.chunk / 32 + 127) / 128 * 128, limit = min((chunk + 1) * p.chunk, p.vocab);
    const uint32_t begin = chunk * p.chunk + warp * part, end = min(begin + part, limit);
    uint64_t sum = 0;
    walk(row, begin, end, p.vocab, s, [&](const uint64_t (&weights)[4], uint32_t) {
        sum += weights[0] + weights[1] + weights[2] + weights[3];
        return false;
    });
    sum = warp_sum_u64(sum);
    if (lane == 0) shared.scan[warp] = sum;
    if (threadIdx.x == 0) shared.found = 0;
    __syncthreads();
    if (owner_lane(shared.scan[lane], number) == warp) {
        // Every lane of the warp takes the same way: begin and end are the warp's, and a lane beyond them has no weight.
        for (uint32_t step = begin; step < end; step += 128) {
            uint64_t weights[4] = {0, 0, 0, 0};
            walk(row, step, min(step + 128, end), p.vocab, s, [&](const uint64_t (&own)[4], uint32_t) {
                for (int i = 0; i < 4; ++i) weights[i] = own[i];
                return true;
            });
            const uint64_t share = weights[0] + weights[1] + weights[2] + weights[3];
            const uint32_t owner = owner_lane(share, number);
            if (owner == 32) continue;
            if (owner == lane) {
                uint32_t i = 0;
                while (i < 3 && number >= weights[i]) number -= weights[i++];
                shared.found = step + 4 * lane + i;
            }
            break;
        }
    }
    __syncthreads();
    return shared.found;
}

// Sums over the bins before each bin.
__device__ __forceinline__ void load_bins(const SampleParams& p, uint32_t index, Shared& shared) {
    const uint64_t place = static_cast<uint64_t>(index) * BINS + 2 * threadIdx.x;
    const uint64_t w0 = p.bin_weights[place], w1 = p.bin_weights[place + 1];
    const uint32_t c0 = p.bin_counts[place], c1 = p.bin_counts[place + 1];
    uint64_t weight, count;
    const uint64_t before = block_scan(w0 + w1, shared.scan, weight), counted = block_scan(c0 + c1, shared.scan, count);
    shared.weights[2 * threadIdx.x] = before, shared.weights[2 * threadIdx.x + 1] = before + w0;
    shared.counts[2 * threadIdx.x] = counted, shared.counts[2 * threadIdx.x + 1] = counted + c0;
    if (threadIdx.x == 0) shared.weights[BINS] = weight, shared.counts[BINS] = count;
    __syncthreads();
}

// Whether top_k cuts anything off that has weight.
__device__ __forceinline__ bool cuts_k(const SampleRow& row, const Shared& shared) {
    return row.top_k > 0 && row.top_k < shared.counts[BINS];
}

__device__ __forceinline__ void mark(Shared& shared, int which, uint32_t first, uint32_t last) {
    if (threadIdx.x == 0) shared.low[which] = first, shared.length[which] = last - first + 1;
}

// Between which bounds each answer lies, and thereby which bins must be looked into. By one whole warp.
__device__ __forceinline__ void mark_bins(const SampleRow& row, const State& s, Shared& shared) {
    if (threadIdx.x < 3) shared.length[threadIdx.x] = 0;
    __syncwarp();
    uint64_t least = shared.weights[BINS], most = least;
    if (cuts_k(row, shared)) {
        const uint32_t bin = bin_at(shared.counts, row.top_k - 1);
        const bool whole = shared.counts[bin + 1] == row.top_k;
        least = shared.weights[whole ? bin + 1 : bin], most = shared.weights[bin + 1];
        if (!whole) mark(shared, 0, bin, bin);
    }
    if (threadIdx.x == 0) shared.through_k = most;
    if (row.top_p < 1.0f) {
        const uint64_t first = nucleus_number(row.top_p, least), last = nucleus_number(row.top_p, most);
        const uint32_t last_bin = bin_at(shared.weights, last);
        mark(shared, 1, bin_at(shared.weights, first), last_bin);
        least = first + 1, most = shared.weights[last_bin + 1];
    }
    least = min(least, static_cast<uint64_t>(s.kept)), most = min(most, static_cast<uint64_t>(s.kept));
    mark(shared, 2, bin_at(shared.weights, drawn_number(row.uniform, least)),
         bin_at(shared.weights, drawn_number(row.uniform, most)));
}

__device__ __forceinline__ void collect(const SampleParams& p, const float* row, const State& s, Shared& shared) {
    if (threadIdx.x == 0) shared.collected = 0;
    __syncthreads();
    const uint32_t low0 = shared.low[0], low1 = shared.low[1], low2 = shared.low[2];
    const uint32_t length0 = shared.length[0], length1 = shared.length[1], length2 = shared.length[2];
    visit<THREADS>(row, 0, p.vocab, p.vocab, [&](float4 v, uint32_t at) {
        each(v, at, [&](float logit, uint32_t token) {
            if (logit == -INFINITY) return;
            const uint32_t bin = bin_of(logit, s);
            if (bin - low0 >= length0 && bin - low1 >= length1 && bin - low2 >= length2) return;
            if (weight_of(logit, s) == 0) return;
            const uint32_t place = atomicAdd(&shared.collected, 1);
            if (place < MOST_CANDIDATES) shared.keys[place] = key_of(logit, token);
        });
    });
    __syncthreads();
}

// Where a thread's candidates lie in the list of all weights.
struct Items {
    uint64_t begin[ITEMS], weight[ITEMS];
    uint32_t rank[ITEMS];
};

// Every bin that was collected was collected whole: a candidate's place is that of its bin, plus what comes before it there.
__device__ __forceinline__ void place_items(const State& s, uint32_t count, Shared& shared, Items& items) {
    const uint32_t first = ITEMS * threadIdx.x;
    uint32_t bins[ITEMS];
    uint64_t sum = 0, total;
#pragma unroll
    for (uint32_t i = 0; i < ITEMS; ++i) {
        const float logit = logit_of(shared.keys[first + i]);
        items.weight[i] = first + i < count ? weight_of(logit, s) : 0;
        bins[i] = first + i < count ? bin_of(logit, s) : BINS;
        items.begin[i] = sum;
        sum += items.weight[i];
    }
    const uint64_t before = block_scan(sum, shared.scan, total);
    const uint32_t previous = first > 0 && first < count ? bin_of(logit_of(shared.keys[first - 1]), s) : BINS;
#pragma unroll
    for (uint32_t i = 0; i < ITEMS; ++i) {
        items.begin[i] += before;
        if (bins[i] != (i > 0 ? bins[i - 1] : previous) && bins[i] < BINS) {
            shared.weights[bins[i]] -= items.begin[i];
            shared.counts[bins[i]] -= first + i;
        }
    }
    __syncthreads();
#pragma unroll
    for (uint32_t i = 0; i < ITEMS; ++i) {
        if (bins[i] == BINS) continue;
        items.begin[i] += shared.weights[bins[i]];
        items.rank[i] = first + i + shared.counts[bins[i]];
    }
}

// Nucleus and draw among candidates whose places are known; `shared.through_k` is the weight that top_k leaves.
__device__ __forceinline__ uint32_t draw_item(const SampleRow& wanted, uint64_t kept, const Items& items, Shared& shared) {
    const uint32_t first = ITEMS * threadIdx.x;
    if (threadIdx.x == 0) {
        shared.through_p = wanted.top_p < 1.0f ? 0 : shared.through_k;
        shared.found = NO_TOKEN;
    }
    __syncthreads();
    if (wanted.top_p < 1.0f) {
        const uint64_t number = nucleus_number(wanted.top_p, shared.through_k);
#pragma unroll
        for (uint32_t i = 0; i < ITEMS; ++i) {
            if (items.begin[i] <= number && number - items.begin[i] < items.weight[i]) {
                shared.through_p = items.begin[i] + items.weight[i];
            }
        }
    }
    __syncthreads();
    if (shared.through_p == 0) return NO_TOKEN;
    const uint64_t number = drawn_number(wanted.uniform, min(shared.through_p, kept));
#pragma unroll
    for (uint32_t i = 0; i < ITEMS; ++i) {
        if (items.begin[i] <= number && number - items.begin[i] < items.weight[i]) shared.found = token_of(shared.keys[first + i]);
    }
    __syncthreads();
    return shared.found;
}

// The drawn token, or NO_TOKEN where too many lie in the bins.
__device__ __forceinline__ uint32_t draw_from_bins(const SampleParams& p, const float* row, uint32_t index, const SampleRow& wanted,
                                                   const State& s, Shared& shared) {
    load_bins(p, index, shared);
    if (threadIdx.x < 32) mark_bins(wanted, s, shared);
    __syncthreads();
    const bool cuts = cuts_k(wanted, shared) && shared.length[0] > 0;
    collect(p, row, s, shared);
    const uint32_t count = shared.collected, first = ITEMS * threadIdx.x;
    if (count > p.capacity) return NO_TOKEN;
    sort_keys(count, shared.keys);
    Items items;
    place_items(s, count, shared, items);
    if (cuts) {
#pragma unroll
        for (uint32_t i = 0; i < ITEMS; ++i) {
            if (first + i < count && items.rank[i] == wanted.top_k - 1) shared.through_k = items.begin[i] + items.weight[i];
        }
    }
    __syncthreads();
    return draw_item(wanted, s.kept, items, shared);
}

// The drawn token of a row with a small top_k, or NO_TOKEN where too many reach the bound of the top_k likeliest.
__device__ __forceinline__ uint32_t draw_among_few(const SampleParams& p, const float* row, uint32_t index, const SampleRow& wanted,
                                                   const State& s, Shared& shared) {
    const uint64_t bound = group_bound(p, 0, index, wanted.top_k, shared.keys);
    if (threadIdx.x == 0) shared.collected = 0;
    __syncthreads();
    visit<THREADS>(row, 0, p.vocab, p.vocab, [&](float4 v, uint32_t at) {
        each(v, at, [&](float logit, uint32_t token) { push_above(logit, token, bound, shared.keys, &shared.collected); });
    });
    __syncthreads();
    if (shared.collected > p.capacity) return NO_TOKEN;
    const uint32_t collected = shared.collected, count = min(collected, wanted.top_k), first = ITEMS * threadIdx.x;
    sort_keys(collected, shared.keys);
    Items items;
    uint64_t sum = 0, kept = 0, total, all_kept;
#pragma unroll
    for (uint32_t i = 0; i < ITEMS; ++i) {
        const float logit = first + i < count ? logit_of(shared.keys[first + i]) : -INFINITY;
        items.weight[i] = weight_of(logit, s);
        items.begin[i] = sum;
        sum += items.weight[i];
        kept += logit >= s.threshold ? items.weight[i] : 0;
    }
    const uint64_t before = block_scan(sum, shared.scan, total);
    block_scan(kept, shared.scan, all_kept);
#pragma unroll
    for (uint32_t i = 0; i < ITEMS; ++i) items.begin[i] += before;
    if (threadIdx.x == 0) shared.through_k = total;
    __syncthreads();
    return draw_item(wanted, all_kept, items, shared);
}

// --- the same, where bins are too full: by the bits of the logit ---

struct Located {
    uint64_t through;  // weight of everything up to and with the owner
    uint32_t key;      // its logit, ordered
    uint64_t ordinal;  // its place among equals
};

// The owner of `number` in the list of weights (or, `by_count`, the token of that rank), likeliest first.
__device__ __noinline__ Located locate(const float* row, uint32_t vocab, const State& s, bool by_count, uint64_t number,
                                       Shared& shared) {
    unsigned long long* weights = reinterpret_cast<unsigned long long*>(shared.keys);
    unsigned long long* counts = weights + THREADS;
    uint32_t low = ordered(s.least), high = ordered(s.max);
    uint64_t base = 0, base_weight = 0;
    while (low < high) {
        const int bits = 32 - __clz(high - low), shift = max(bits - static_cast<int>(LEVEL_BITS), 0);
        __syncthreads();
        weights[threadIdx.x] = counts[threadIdx.x] = 0;
        if (threadIdx.x == 0) shared.place = THREADS;
        __syncthreads();
        visit<THREADS>(row, 0, vocab, vocab, [&](float4 v, uint32_t at) {
            each(v, at, [&](float logit, uint32_t) {
                const uint32_t key = ordered(logit);
                if (key < low || key > high) return;
                const uint64_t weight = weight_of(logit, s);
                if (weight == 0) return;
                atomicAdd(weights + ((high - key) >> shift), static_cast<unsigned long long>(weight));
                if (by_count) atomicAdd(counts + ((high - key) >> shift), 1ull);
            });
        });
        __syncthreads();
        const uint64_t weight = weights[threadIdx.x], unit = by_count ? counts[threadIdx.x] : weight;
        uint64_t total;
        const uint64_t before = block_scan(unit, shared.scan, total), weight_before = block_scan(weight, shared.scan, total);
        if (before <= number - base && number - base < before + unit) {
            shared.place = threadIdx.x, shared.base = base + before, shared.base_weight = base_weight + weight_before;
        }
        __syncthreads();
        // The number lies below the sum of all units: somebody owns it.
        if (shared.place == THREADS) __trap();
        const uint32_t mask = (1u << shift) - 1;
        base = shared.base, base_weight = shared.base_weight;
        high -= shared.place << shift;
        low = high - low > mask ? high - mask : low;
    }
    const uint64_t weight = weight_of(logit_of_ordered(high), s), ordinal = (number - base) / (by_count ? 1 : weight);
    return {base_weight + (ordinal + 1) * weight, high, ordinal};
}

// The token of that place among the equals of a logit, by id.
__device__ __forceinline__ uint32_t token_among_equals(const float* row, uint32_t vocab, uint32_t key, uint64_t ordinal,
                                                       Shared& shared) {
    for (uint32_t tile = 0; tile < vocab; tile += 4 * THREADS) {
        const uint32_t at = tile + 4 * threadIdx.x;
        uint32_t equals = 0;
        if (at < vocab) {
            each(load_logits(row, at, vocab), at, [&](float logit, uint32_t token) {
                equals |= (logit > -INFINITY && ordered(logit) == key ? 1u : 0u) << (token - at);
            });
        }
        uint64_t total, before = block_scan(__popc(equals), shared.scan, total);
        if (ordinal < total) {
            for (uint32_t i = 0; i < 4; ++i) {
                if (equals >> i & 1 && before++ == ordinal) shared.found = at + i;
            }
            break;
        }
        ordinal -= total;
    }
    __syncthreads();
    return shared.found;
}

__device__ __noinline__ uint32_t draw_by_bits(const SampleParams& p, const float* row, const SampleRow& wanted, const State& s,
                                              Shared& shared) {
    uint64_t own_through = 0, own_kept = 0, through, kept, count;
    uint32_t own_count = 0;
    visit<THREADS>(row, 0, p.vocab, p.vocab, [&](float4 v, uint32_t at) {
        each(v, at, [&](float logit, uint32_t) {
            const uint64_t weight = weight_of(logit, s);
            own_through += weight;
            own_kept += logit >= s.threshold ? weight : 0;
            own_count += weight > 0;
        });
    });
    block_scan(own_through, shared.scan, through);
    block_scan(own_kept, shared.scan, kept);
    block_scan(own_count, shared.scan, count);
    if (wanted.top_k > 0 && wanted.top_k < count) {
        through = locate(row, p.vocab, s, true, wanted.top_k - 1, shared).through;
    }
    if (wanted.top_p < 1.0f) {
        through = locate(row, p.vocab, s, false, nucleus_number(wanted.top_p, through), shared).through;
    }
    const Located owner = locate(row, p.vocab, s, false, drawn_number(wanted.uniform, min(through, kept)), shared);
    return token_among_equals(row, p.vocab, owner.key, owner.ordinal, shared);
}

extern "C" __global__ void __launch_bounds__(THREADS) sample_draw(const __grid_constant__ SampleParams p) {
    extern __shared__ __align__(16) uint8_t memory[];
    Shared& shared = *reinterpret_cast<Shared*>(memory);
    static_assert(sizeof(Shared) <= 58 * 1024, "asked for in mod.rs");
    pdl_launch();
    pdl_wait();
    const uint32_t index = blockIdx.x;
    if (index >= *p.row_count) return;
    const State s = p.states[index];
    if (s.draws == DRAWS_NOT) return;
    const SampleRow wanted = p.rows[index];
    const float* row = edited_row(p, wanted, index);
    uint32_t token;
    if (s.draws == DRAWS_BY_ID) {
        token = draw_by_id(p, row, index, wanted.uniform, s, shared);
    } else {
        token = s.draws == DRAWS_AMONG_FEW ? draw_among_few(p, row, index, wanted, s, shared)
                                           : draw_from_bins(p, row, index, wanted, s, shared);
        __syncthreads();
        if (token == NO_TOKEN) token = draw_by_bits(p, row, wanted, s, shared);
    }
    if (threadIdx.x == 0) {
        p.answers[index].token = static_cast<int32_t>(token);
        p.sampled[index] = static_cast<int32_t>(token);
    }
}
