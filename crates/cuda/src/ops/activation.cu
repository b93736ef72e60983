// activation.cu   a[t, i] = f(gate[t, i]) * up[t, i]
// shapes    gate_up bf16 [T, 2 I], columns interleaved in groups of 8: 16b..16b+8 are gate columns 8b..8b+8, the 8 after them are
//           up columns 8b..8b+8; a bf16 [T, I]
// mapping   a thread reads one pair of groups (32 bytes) and writes one (16 bytes); rows follow one another without a gap, so
//           group g of the whole matrix lies at 16 g and is written at 8 g
// numerics  f32, rounded once; silu = x / (1 + e^-x), gelu by tanhf and erff
// bound     memory: T * I * (4 read + 2 written) bytes; H200: 8000 x 12288: 590 MB, floor 125 us
// limits    I % 8 == 0; T == 0 returns on the host
#include "rows.cuh"

struct ActivationParams {
    const bf16* gate_up;
    bf16* a;
    uint64_t groups;
};
static_assert(sizeof(ActivationParams) == 24, "mirrored in activation.rs");

struct Silu {
    static __device__ __forceinline__ float of(float x) { return x / (1.0f + expf(-x)); }
};
struct GeluTanh {
    static __device__ __forceinline__ float of(float x) {
        return 0.5f * x * (1.0f + tanhf(0.7978845608f * fmaf(0.044715f * x * x, x, x)));
    }
};
struct GeluErf {
    static __device__ __forceinline__ float of(float x) { return 0.5f * x * (1.0f + erff(x * 0.7071067812f)); }
};

template <typename F>
__device__ __forceinline__ void activate(const ActivationParams& p) {
    pdl_launch();
    pdl_wait();
    const uint64_t group = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (group >= p.groups) return;
    float gate[8], up[8];
    load8(p.gate_up + 16 * group, gate);
    load8(p.gate_up + 16 * group + 8, up);
#pragma unroll
    for (int i = 0; i < 8; ++i) gate[i] = F::of(gate[i]) * up[i];
    store8(p.a + 8 * group, gate);
}

#define ACTIVATION(name, function)                                                                                        \
    extern "C" __global__ void __launch_bounds__(256) activation_##name(const __grid_constant__ ActivationParams p) {       \
        activate<function>(p);                                                                                             \
    }

ACTIVATION(silu, Silu)
ACTIVATION(gelu_tanh, GeluTanh)
ACTIVATION(gelu_erf, GeluErf)
