// rms_norm.cu   x[r] = h[row[r]] * rsqrt(mean(h[row[r]]^2) + eps) * weight
// shapes    h f32 [T, hidden]; rows i32 [R] (null: row r itself; negative: r is padding and left as it is); weight f32 [hidden];
//           x bf16 [R, hidden] (null: not wanted); full f32 [R, hidden] (null: not wanted)
// mapping   one block per row, 8 elements a thread (16 from 8192 on); 128 bytes of shared memory
// numerics  f32; the sum in an order that depends on `hidden` alone (batch-invariant)
// bound     memory: R * hidden * (4 read + 2 written (+ 4)) bytes
// limits    hidden % 8 == 0, hidden <= 16384; R == 0 returns on the host
#include "rows.cuh"

struct RmsNormParams {
    const float* h;
    const int32_t* rows;
    const float* weight;
    bf16* x;
    float* full;
    uint32_t hidden;
    float eps;
};
static_assert(sizeof(RmsNormParams) == 48, "mirrored in rms_norm.rs");

template <int STRETCHES>
__device__ __forceinline__ void rms_norm_row(const RmsNormParams& p) {
    __shared__ float scratch[32];
    pdl_launch();
    Row<STRETCHES> weight;
    load_row(p.weight, p.hidden, weight);
    pdl_wait();
    const int32_t from = p.rows == nullptr ? static_cast<int32_t>(blockIdx.x) : p.rows[blockIdx.x];
    if (from < 0) return;
    Row<STRETCHES> row;
    load_row(p.h + static_cast<uint64_t>(from) * p.hidden, p.hidden, row);
    norm_row(row, weight, p.hidden, p.eps, scratch);
    const uint64_t to = static_cast<uint64_t>(blockIdx.x) * p.hidden;
    if (p.x != nullptr) store_row(p.x + to, p.hidden, row);
    if (p.full != nullptr) store_row(p.full + to, p.hidden, row);
}

extern "C" __global__ void __launch_bounds__(1024) rms_norm(const __grid_constant__ RmsNormParams p) { rms_norm_row<1>(p); }
extern "C" __global__ void __launch_bounds__(1024) rms_norm_wide(const __grid_constant__ RmsNormParams p) {
    rms_norm_row<2>(p);
}
