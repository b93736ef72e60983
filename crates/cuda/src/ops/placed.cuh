// Where elements of a weight go: in runs of `run` elements, each beginning `pitch` elements behind the one before it. A thread
// places 8 elements at a time, which never straddle a run.
#pragma once
#include "common.cuh"

__device__ __forceinline__ void place8(bf16* to, uint64_t index, uint64_t run, uint64_t pitch, const float (&values)[8]) {
    const uint64_t place = index / run * pitch + index % run;
    *reinterpret_cast<uint4*>(to + place) = make_uint4(pack_bf16(values[0], values[1]), pack_bf16(values[2], values[3]),
                                                       pack_bf16(values[4], values[5]), pack_bf16(values[6], values[7]));
}
