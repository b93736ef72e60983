// add_bias.cu   y[t, n] = y[t, n] + bias[n], in place
// shapes    y bf16 [T, N], rows without a gap; bias f32 [N]
// mapping   a thread changes 8 columns of one row: grid (columns / 8 / 256, T)
// numerics  f32, rounded once
// bound     memory: T * N * 4 bytes
// limits    N % 8 == 0; T <= 65535; T == 0 returns on the host
#include "rows.cuh"

struct AddBiasParams {
    bf16* y;
    const float* bias;
    uint32_t columns;
    uint32_t unused;
};
static_assert(sizeof(AddBiasParams) == 24, "mirrored in add_bias.rs");

extern "C" __global__ void __launch_bounds__(256) add_bias(const __grid_constant__ AddBiasParams p) {
    pdl_launch();
    const uint32_t column = 8 * (blockIdx.x * blockDim.x + threadIdx.x);
    const bool inside = column < p.columns;
    float bias[8];
    if (inside) load8(p.bias + column, bias);
    pdl_wait();
    if (!inside) return;
    bf16* y = p.y + static_cast<uint64_t>(blockIdx.y) * p.columns + column;
    float value[8];
    load8(y, value);
#pragma unroll
    for (int i = 0; i < 8; ++i) value[i] += bias[i];
    store8(y, value);
}
