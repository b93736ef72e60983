// block_copy.cu   block `to` of every layer = block `from` of it
//
// shapes    layers [L]: address of each layer's arena; pairs [N]: (from, to); a block is `bytes` long, a multiple of 16
// mapping   one block of threads a copy and layer, 16 bytes a thread
// limits    no block is both read and written in one launch; grid (N, L); the kernel after it must wait for it (no overlap):
//           attention requests cached tokens before its own wait
#include "common.cuh"

struct BlockCopyParams {
    const uint64_t* layers;
    const uint2* pairs;
    uint64_t bytes;
};
static_assert(sizeof(BlockCopyParams) == 24, "mirrored in block_copy.rs");

extern "C" __global__ void block_copy(const __grid_constant__ BlockCopyParams p) {
    pdl_launch();
    pdl_wait();
    uint2 pair = p.pairs[blockIdx.x];
    char* arena = reinterpret_cast<char*>(p.layers[blockIdx.y]);
    const uint4* from = reinterpret_cast<const uint4*>(arena + pair.x * p.bytes);
    uint4* to = reinterpret_cast<uint4*>(arena + pair.y * p.bytes);
    for (uint64_t i = threadIdx.x; i < p.bytes / 16; i += blockDim.x) to[i] = from[i];
}
