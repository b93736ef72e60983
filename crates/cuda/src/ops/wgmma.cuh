// Hopper's products of a warpgroup's 64 rows, one k16 step each.
//
// The accumulator d[j] of a thread holds columns 8 j + 2 (lane % 4) and the next of rows lane / 4 and lane / 4 + 8 of its
// warp's 16 rows: the layout of mma.sync, and of the A operand in registers once two neighbours are packed to bf16.
#pragma once
#include "common.cuh"

#if TM_WGMMA

#define ACC(d, j) "+f"(d[j][0]), "+f"(d[j][1]), "+f"(d[j][2]), "+f"(d[j][3])

// d = a b^T (+ d where `add`): a [64][16] and b [COLUMNS][16] in shared memory, both K-major.
template <int COLUMNS>
__device__ __forceinline__ void wgmma_shared(float (&d)[COLUMNS / 8][4], uint64_t a, uint64_t b, int add) {
    static_assert(COLUMNS == 64 || COLUMNS == 128);
    if constexpr (COLUMNS == 64) {
        asm volatile("{\n .reg .pred p;\n setp.ne.b32 p, %34, 0;\n"
                     "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
                     "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, "
                     "%21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
                     "}, %32, %33, p, 1, 1, 0, 0;\n}"
                     : ACC(d, 0), ACC(d, 1), ACC(d, 2), ACC(d, 3), ACC(d, 4), ACC(d, 5), ACC(d, 6), ACC(d, 7)
                     : "l"(a), "l"(b), "r"(add));
    } else if constexpr (COLUMNS == 128) {
        asm volatile("{\n .reg .pred p;\n setp.ne.b32 p, %66, 0;\n"
                     "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
                     "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, "
                     "%21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, "
                     "%40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, "
                     "%59, %60, %61, %62, %63"
                     "}, %64, %65, p, 1, 1, 0, 0;\n}"
                     : ACC(d, 0), ACC(d, 1), ACC(d, 2), ACC(d, 3), ACC(d, 4), ACC(d, 5), ACC(d, 6), ACC(d, 7), ACC(d, 8), 
                       ACC(d, 9), ACC(d, 10), ACC(d, 11), ACC(d, 12), ACC(d, 13), ACC(d, 14), ACC(d, 15)
                     : "l"(a), "l"(b), "r"(add));
    }
}

// d += a b: a [64][16] in registers, b [16][COLUMNS] in shared memory, rows one after the other (MN-major).
template <int COLUMNS>
__device__ __forceinline__ void wgmma_registers(float (&d)[COLUMNS / 8][4], const uint32_t (&a)[4], uint64_t b) {
    static_assert(COLUMNS == 64 || COLUMNS == 80 || COLUMNS == 96 || COLUMNS == 128 || COLUMNS == 256);
    if constexpr (COLUMNS == 64) {
        asm volatile("{\n .reg .pred p;\n setp.ne.b32 p, %37, 0;\n"
                     "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
                     "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, "
                     "%21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
                     "}, {%32, %33, %34, %35}, %36, p, 1, 1, 1;\n}"
                     : ACC(d, 0), ACC(d, 1), ACC(d, 2), ACC(d, 3), ACC(d, 4), ACC(d, 5), ACC(d, 6), ACC(d, 7)
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(1));
    } else if constexpr (COLUMNS == 80) {
        asm volatile("{\n .reg .pred p;\n setp.ne.b32 p, %45, 0;\n"
                     "wgmma.mma_async.sync.aligned.m64n80k16.f32.bf16.bf16 {"
                     "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, "
                     "%21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39"
                     "}, {%40, %41, %42, %43}, %44, p, 1, 1, 1;\n}"
                     : ACC(d, 0), ACC(d, 1), ACC(d, 2), ACC(d, 3), ACC(d, 4), ACC(d, 5), ACC(d, 6), ACC(d, 7), ACC(d, 8), 
                       ACC(d, 9)
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(1));
    } else if constexpr (COLUMNS == 96) {
        asm volatile("{\n .reg .pred p;\n setp.ne.b32 p, %53, 0;\n"
                     "wgmma.mma_async.sync.aligned.m64n96k16.f32.bf16.bf16 {"
                     "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, "
                     "%21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, "
                     "%40, %41, %42, %43, %44, %45, %46, %47"
                     "}, {%48, %49, %50, %51}, %52, p, 1, 1, 1;\n}"
                     : ACC(d, 0), ACC(d, 1), ACC(d, 2), ACC(d, 3), ACC(d, 4), ACC(d, 5), ACC(d, 6), ACC(d, 7), ACC(d, 8), 
                       ACC(d, 9), ACC(d, 10), ACC(d, 11)
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(1));
    } else if constexpr (COLUMNS == 128) {
        asm volatile("{\n .reg .pred p;\n setp.ne.b32 p, %69, 0;\n"
                     "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
                     "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, "
                     "%21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, "
                     "%40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, "
                     "%59, %60, %61, %62, %63"
                     "}, {%64, %65, %66, %67}, %68, p, 1, 1, 1;\n}"
                     : ACC(d, 0), ACC(d, 1), ACC(d, 2), ACC(d, 3), ACC(d, 4), ACC(d, 5), ACC(d, 6), ACC(d, 7), ACC(d, 8), 
                       ACC(d, 9), ACC(d, 10), ACC(d, 11), ACC(d, 12), ACC(d, 13), ACC(d, 14), ACC(d, 15)
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(1));
    } else if constexpr (COLUMNS == 256) {
        asm volatile("{\n .reg .pred p;\n setp.ne.b32 p, %133, 0;\n"
                     "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {"
                     "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, "
                     "%21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, "
                     "%40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, "
                     "%59, %60, %61, %62, %63, %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, "
                     "%78, %79, %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, %96, "
                     "%97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, %112, "
                     "%113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
                     "}, {%128, %129, %130, %131}, %132, p, 1, 1, 1;\n}"
                     : ACC(d, 0), ACC(d, 1), ACC(d, 2), ACC(d, 3), ACC(d, 4), ACC(d, 5), ACC(d, 6), ACC(d, 7), ACC(d, 8), 
                       ACC(d, 9), ACC(d, 10), ACC(d, 11), ACC(d, 12), ACC(d, 13), ACC(d, 14), ACC(d, 15), ACC(d, 16), 
                       ACC(d, 17), ACC(d, 18), ACC(d, 19), ACC(d, 20), ACC(d, 21), ACC(d, 22), ACC(d, 23), ACC(d, 24), 
                       ACC(d, 25), ACC(d, 26), ACC(d, 27), ACC(d, 28), ACC(d, 29), ACC(d, 30), ACC(d, 31)
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(1));
    }
}

#undef ACC

// Keeps the compiler from moving reads or writes of accumulators across this point.
template <int GROUPS>
__device__ __forceinline__ void hold(float (&d)[GROUPS][4]) {
#pragma unroll
    for (int j = 0; j < GROUPS; j++) {
        asm volatile("" : "+f"(d[j][0]), "+f"(d[j][1]), "+f"(d[j][2]), "+f"(d[j][3])::"memory");
    }
}

#endif  // TM_WGMMA
