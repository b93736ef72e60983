// qkv_prepare.cu   q[t, h] = rotate(norm(q[t, h])); the cache at slot[t] = rotate(norm(k[t])), v[t]
//
//   norm(x)   = x / sqrt(mean(x^2) + eps) * w       the mean over one head, or over the whole projection; may be absent
//   rotate(x) : half-split over the first 2 * half elements, the rest passes:
//               y[i] = x[i] * c[i] - x[i + half] * s[i],  y[i + half] = x[i + half] * c[i] + x[i] * s[i]
//               c, s = factor * cos, sin of (position * inv_freq[table][i]);  half = 0: no rotation
// shapes    qkv [T, (H + 2 Hk) * D] bf16, row-major, biases added; q [T, H * D] bf16; not in place
//           arena [block][K, V][Hk][16][D], bf16 or e4m3 of value / scale; slots [T]: block * 16 + offset, < 0: the row is
//           padding and writes nothing; positions [T]; regimes [T] or null (all 0): which row of inv_freq [tables, half]
//           q_weight, k_weight f32: [D], or [H * D] and [Hk * D] for a mean over the projection; null: no norm
// mapping   heads that are rotated whole, norms over heads: a warp takes a row and a share of its heads, 4, 8 or 16 lanes a head.
//           A lane holds eight elements and the eight that they are rotated with, the weights and turns of both for all of
//           its heads, and asks for two heads ahead.
//           others: a block takes one row (x) and a share of its heads (y); the rotation of the row lies in shared memory;
//           2^lane_bits >= D / 8 lanes a head, 16 bytes each. Both compute turns before the wait for the projection
// numerics  float32 throughout, one rounding at the end; a row's result depends on the row alone
// bound     memory: (4 H + 8 Hk) * D bytes a row; H 32, Hk 8, D 128: 8192 rows 200 MB, 43 us; one row: launch latency
// limits    D a multiple of 8, <= 256; half <= 128; at most 256 threads a block
#include "head.cuh"

struct QkvPrepareParams {
    const bf16* qkv;
    bf16* q;
    char* arena;
    const int* slots;
    const int* positions;
    const int* regimes;
    const float* inv_freq;
    const float* q_weight;
    const float* k_weight;
    float factors[2];
    float eps;
    float k_inverse_scale;
    float v_inverse_scale;
    uint32_t heads;
    uint32_t kv_heads;
    uint32_t head_dim;
    uint32_t half;
    uint32_t lane_bits;
    uint32_t whole_projection;
    uint32_t rows;
    uint32_t shares;  // warps that share a row, where warps take rows
    uint32_t padding;
};
static_assert(sizeof(QkvPrepareParams) == 128, "mirrored in qkv_prepare.rs");

constexpr int MAX_WARPS = 8;

// 1 / rms of the row's q and k projections, for a mean over the whole of each.
__device__ float2 projection_inverse(const QkvPrepareParams& p, const bf16* row) {
    __shared__ float sums[2][MAX_WARPS];
    int q_vectors = p.heads * p.head_dim / 8, k_vectors = p.kv_heads * p.head_dim / 8;
    float q = 0.0f, k = 0.0f;
    for (int v = threadIdx.x; v < q_vectors + k_vectors; v += blockDim.x) {
        float x[8];
        load_bf16x8(x, row + 8 * v);
        (v < q_vectors ? q : k) += sum_of_squares(x);
    }
    q = warp_sum(q);
    k = warp_sum(k);
    if (threadIdx.x % 32 == 0) sums[0][threadIdx.x / 32] = q, sums[1][threadIdx.x / 32] = k;
    __syncthreads();
    q = k = 0.0f;
    for (int warp = 0; warp < blockDim.x / 32; ++warp) q += sums[0][warp], k += sums[1][warp];
    return make_float2(rsqrtf(q / (8.0f * q_vectors) + p.eps), rsqrtf(k / (8.0f * k_vectors) + p.eps));
}

template <class Cache>
__device__ __forceinline__ void qkv_prepare(const QkvPrepareParams& p) {
    __shared__ float2 turns[128];
    pdl_launch();
    int64_t t = blockIdx.x;
    int slot = p.slots[t], half = p.half, dim = p.head_dim;
    int table = p.regimes != nullptr ? p.regimes[t] : 0;
    for (int i = threadIdx.x; i < half; i += blockDim.x)
        turns[i] = rotation(p.positions[t], p.inv_freq[table * half + i], p.factors[table]);
    pdl_wait();
    if (slot < 0) return;
    __syncthreads();

    int total = p.heads + 2 * p.kv_heads;
    const bf16* row = p.qkv + t * total * dim;
    float2 inverses = make_float2(1.0f, 1.0f);
    if (p.whole_projection) inverses = projection_inverse(p, row);

    int lanes = 1 << p.lane_bits, v = threadIdx.x & (lanes - 1), groups = blockDim.x >> p.lane_bits;
    int64_t tokens = static_cast<int64_t>(slot / BLOCK_TOKENS) * 2 * p.kv_heads * BLOCK_TOKENS + slot % BLOCK_TOKENS;
    for (int base = blockIdx.y * groups; base < total; base += gridDim.y * groups) {
        int head = base + (threadIdx.x >> p.lane_bits);
        bool valid = head < total && 8 * v < dim;
        bool is_q = head < p.heads, is_v = head >= p.heads + p.kv_heads;
        int at = is_q ? head : is_v ? head - p.heads - p.kv_heads : head - p.heads;
        const float* weight = is_v ? nullptr : is_q ? p.q_weight : p.k_weight;
        int turned = is_v ? 0 : half;
        HeadVector x = {};
        if (valid) head_load(x, row + head * dim, v, turned);
        float inverse = is_q ? inverses.x : inverses.y;
        if (!p.whole_projection) {
            float sum = sum_of_squares(x.own);
            for (int lane = lanes / 2; lane > 0; lane /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, lane);
            inverse = rsqrtf(sum / dim + p.eps);
        } else if (weight != nullptr) {
            weight += at * dim;
        }
        if (!valid) continue;
        head_finish(x, v, turned, inverse, weight, turns);
        if (is_q) {
            store_cached<Bf16Cache>(p.q + (t * p.heads + head) * dim + 8 * v, x.own, 1.0f);
        } else {
            int64_t token = tokens + static_cast<int64_t>((is_v ? p.kv_heads : 0) + at) * BLOCK_TOKENS;
            char* to = p.arena + (token * dim + 8 * v) * Cache::BYTES;
            store_cached<Cache>(to, x.own, is_v ? p.v_inverse_scale : p.k_inverse_scale);
        }
    }
}

extern "C" __global__ void __launch_bounds__(256) qkv_prepare_bf16(const __grid_constant__ QkvPrepareParams p) {
    qkv_prepare<Bf16Cache>(p);
}

extern "C" __global__ void __launch_bounds__(256) qkv_prepare_fp8(const __grid_constant__ QkvPrepareParams p) {
    qkv_prepare<Fp8Cache>(p);
}

__device__ __forceinline__ void unpack_eight(float (&out)[8], const uint4& raw) {
    const uint32_t words[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        float2 pair = unpack_bf16(words[i]);
        out[2 * i] = pair.x, out[2 * i + 1] = pair.y;
    }
}

__device__ __forceinline__ void load_eight(float (&out)[8], const float* from) {
    const float4 low = reinterpret_cast<const float4*>(from)[0], high = reinterpret_cast<const float4*>(from)[1];
    out[0] = low.x, out[1] = low.y, out[2] = low.z, out[3] = low.w;
    out[4] = high.x, out[5] = high.y, out[6] = high.z, out[7] = high.w;
}

// Cosines and sines of this lane's eight pairs: the lanes that have the same ones in other heads compute a part each.
template <int LANES>
__device__ __forceinline__ void lane_turns(const QkvPrepareParams& p, int64_t t, float (&cosine)[8], float (&sine)[8]) {
    constexpr int GROUPS = 32 / LANES, EACH = 8 / GROUPS;
    const int lane = threadIdx.x % 32, v = lane % LANES, half = p.half;
    const int table = p.regimes != nullptr ? p.regimes[t] : 0, position = p.positions[t];
    const float factor = table == 0 ? p.factors[0] : p.factors[1];
    float2 mine[EACH];
#pragma unroll
    for (int k = 0; k < EACH; ++k) {
        const int i = 8 * v + lane / LANES * EACH + k;
        mine[k] = rotation(position, i < half ? p.inv_freq[table * half + i] : 0.0f, factor);
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        cosine[i] = __shfl_sync(0xffffffffu, mine[i % EACH].x, i / EACH * LANES + v);
        sine[i] = __shfl_sync(0xffffffffu, mine[i % EACH].y, i / EACH * LANES + v);
    }
}

// Two times eight elements of a head, as they were read.
struct Halves {
    uint4 low, high;
};

template <class Cache, int LANES>
__device__ __forceinline__ void qkv_prepare_whole(const QkvPrepareParams& p) {
    constexpr int GROUPS = 32 / LANES;
    pdl_launch();
    const uint32_t warp = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    const int64_t t = warp / p.shares;
    if (t >= p.rows) return;
    const int lane = threadIdx.x % 32, v = lane % LANES, group = lane / LANES;
    const int heads = p.heads, kv_heads = p.kv_heads, dim = p.head_dim, half = p.half, total = heads + 2 * kv_heads;
    const int all = (total + GROUPS - 1) / GROUPS, each = (all + p.shares - 1) / p.shares;
    const int begin = warp % p.shares * each, end = min(begin + each, all);
    const bool inside = 8 * v < half, normed = p.q_weight != nullptr;
    const float inverse_dim = 1.0f / dim;
    const int slot = p.slots[t];
    float cosine[8], sine[8];
    lane_turns<LANES>(p, t, cosine, sine);
    float low_weight[8], high_weight[8];
    const float* held = nullptr;  // whose weights these are
    pdl_wait();
    if (slot < 0 || begin >= end) return;

    const bf16* row = p.qkv + t * total * dim + 8 * v;
    auto ask = [&](int i) {
        Halves raw = {make_uint4(0, 0, 0, 0), make_uint4(0, 0, 0, 0)};
        const int head = i * GROUPS + group;
        if (i < end && inside && head < total) {
            raw.low = *reinterpret_cast<const uint4*>(row + head * dim);
            raw.high = *reinterpret_cast<const uint4*>(row + head * dim + half);
        }
        return raw;
    };
    int64_t token = static_cast<int64_t>(slot / BLOCK_TOKENS) * 2 * kv_heads * BLOCK_TOKENS + slot % BLOCK_TOKENS;
    Halves next = ask(begin), after = ask(begin + 1);
    for (int i = begin; i < end; ++i) {
        const Halves raw = next;
        next = after;
        after = ask(i + 2);
        const int head = i * GROUPS + group;
        const bool is_q = head < heads, is_v = head >= heads + kv_heads;
        float low[8], high[8], inverse = 1.0f;
        unpack_eight(low, raw.low);
        unpack_eight(high, raw.high);
        if (normed) {
            float sum = sum_of_squares(low) + sum_of_squares(high);
#pragma unroll
            for (int lane = LANES / 2; lane > 0; lane /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, lane);
            inverse = rsqrtf(fmaf(sum, inverse_dim, p.eps));
        }
        if (!inside || head >= total) continue;
        if (!is_v) {
            const float* weight = is_q ? p.q_weight : p.k_weight;
            if (normed && weight != held) {
                load_eight(low_weight, weight + 8 * v);
                load_eight(high_weight, weight + half + 8 * v);
                held = weight;
            }
#pragma unroll
            for (int e = 0; e < 8; ++e) {
                float a = low[e], b = high[e];
                if (normed) a *= inverse * low_weight[e], b *= inverse * high_weight[e];
                low[e] = a * cosine[e] - b * sine[e];
                high[e] = b * cosine[e] + a * sine[e];
            }
        }
        if (is_q) {
            bf16* to = p.q + (t * heads + head) * dim + 8 * v;
            store_cached<Bf16Cache>(to, low, 1.0f);
            store_cached<Bf16Cache>(to + half, high, 1.0f);
        } else {
            // Values' heads follow keys' in the projection and in a block alike.
            const int64_t place = token + static_cast<int64_t>(head - heads) * BLOCK_TOKENS;
            const float scale = is_v ? p.v_inverse_scale : p.k_inverse_scale;
            char* to = p.arena + (place * dim + 8 * v) * Cache::BYTES;
            store_cached<Cache>(to, low, scale);
            store_cached<Cache>(to + half * Cache::BYTES, high, scale);
        }
    }
}

#define QKV_PREPARE_WHOLE(name, Cache, LANES)                                                                  \
    extern "C" __global__ void __launch_bounds__(128, 5)                                                       \
        qkv_prepare_##name##_whole_##LANES(const __grid_constant__ QkvPrepareParams p) {                       \
        qkv_prepare_whole<Cache, LANES>(p);                                                                    \
    }

QKV_PREPARE_WHOLE(bf16, Bf16Cache, 4)
QKV_PREPARE_WHOLE(bf16, Bf16Cache, 8)
QKV_PREPARE_WHOLE(bf16, Bf16Cache, 16)
QKV_PREPARE_WHOLE(fp8, Fp8Cache, 4)
QKV_PREPARE_WHOLE(fp8, Fp8Cache, 8)
QKV_PREPARE_WHOLE(fp8, Fp8Cache, 16)
