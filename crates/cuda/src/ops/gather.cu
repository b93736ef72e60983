// gather.cu   y[i] = x[rows[i]]
// shapes    x [*, width], y [count, width] of 16-byte pieces; rows i32 [count], each a row of x. y and x do not overlap
// mapping   a block a row of y, a piece a thread and turn
// numerics  bits are copied
// bound     memory; a prompt's one row: launch latency
// limits    rows of whole pieces, 16-byte aligned
#include "common.cuh"

struct GatherParams {
    const uint4* x;
    uint4* y;
    const int32_t* rows;
    uint32_t width;
    uint32_t unused;
};
static_assert(sizeof(GatherParams) == 32, "mirrored in gather.rs");

extern "C" __global__ void __launch_bounds__(256) gather(const __grid_constant__ GatherParams p) {
    pdl_launch();
    pdl_wait();
    const uint4* from = p.x + static_cast<int64_t>(p.rows[blockIdx.x]) * p.width;
    uint4* to = p.y + static_cast<int64_t>(blockIdx.x) * p.width;
    for (uint32_t at = threadIdx.x; at < p.width; at += blockDim.x) to[at] = from[at];
}
