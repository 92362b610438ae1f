/* What nvcc declares in every CUDA source and clang 19's pre-included headers do not. */
#ifndef MT_CUDA_EXTRAS_H
#define MT_CUDA_EXTRAS_H
/* nvcc's value; clang leaves it empty, and then "#if __CUDACC__" is an error. */
#undef __CUDACC__
#define __CUDACC__ 1
/* These come with cuda_runtime.h under nvcc; math.h has isfinite and its like for the host without std::. */
#include <math.h>
#include <new> /* clang's has new and delete for the device */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#if __cplusplus
/* Declared by clang's headers and defined nowhere. */
static __device__ __inline__ double nan(const char *tag)
{
    return __nv_nan((const signed char *)tag);
}
static __device__ __inline__ float nanf(const char *tag)
{
    return __nv_nanf((const signed char *)tag);
}
#endif
#include "mt_cuda_minmax.h"
#include "mt_cuda_cache.h"
#include "mt_cuda_surface.h"
#if __cplusplus >= 201103L
#include "mt_cuda_nv_atomic.h"
#endif
#include "mt_cuda_nvcc.h"
/* What clang's atomicCAS of 16 bits calls and nobody defines. */
extern "C" __device__ inline unsigned short __usAtomicCAS(unsigned short *p, unsigned short expected,
                                                          unsigned short value)
{
    __atomic_compare_exchange_n(p, &expected, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    return expected;
}
/* Stands in the tables of abstract classes. */
extern "C" __device__ inline __attribute__((weak)) void __cxa_pure_virtual()
{
    __builtin_trap();
}
/* clang 19 has no attribute for it: the plugin's pass knows the section (MT_MANAGED_SECTION), and the host's
 * variable is the device's, too. Whether the plugin is there is asked at each use: headers may be precompiled
 * without it. */
#undef __managed__
#define __managed__ MT_MANAGED_CHOOSE(__has_attribute(memtrace_trace))
#define MT_MANAGED_CHOOSE(plugin) MT_MANAGED_PASTE(plugin)
#define MT_MANAGED_PASTE(plugin) MT_MANAGED_##plugin
#define MT_MANAGED_1 __device__ __attribute__((section("memtrace_managed")))
#define MT_MANAGED_0                                                                                         \
    _Pragma(                                                                                                 \
        "GCC error \"clang 19 has no __managed__ variables without memtrace's plugin: compile with nvcc\"")
#endif
