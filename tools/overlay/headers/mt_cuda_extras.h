/* Declarations that nvcc adds to every CUDA source, and clang 19's pre-included headers do not. */
#ifndef MT_CUDA_EXTRAS_H
#define MT_CUDA_EXTRAS_H
/* nvcc's value; clang's is empty, which makes "#if __CUDACC__" an error. */
#undef __CUDACC__
#define __CUDACC__ 1
/* nvcc's cuda_runtime.h includes these; math.h declares isfinite and similar functions for the host without
 * std::. */
#include <math.h>
#include <new> /* clang's version has new and delete for the device */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#if __cplusplus
/* Declared by clang's headers, but not defined. */
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
/* Called by clang's 16-bit atomicCAS, but not defined there. */
extern "C" __device__ inline unsigned short __usAtomicCAS(unsigned short *p, unsigned short expected,
                                                          unsigned short value)
{
    __atomic_compare_exchange_n(p, &expected, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    return expected;
}
/* Placeholder in the virtual tables of abstract classes. */
extern "C" __device__ inline __attribute__((weak)) void __cxa_pure_virtual()
{
    __builtin_trap();
}
/* __managed__, which clang 19 lacks. The plugin's pass recognises the section (MT_MANAGED_SECTION), and the
 * host's variable is used on the device, too. Each use checks for the plugin, since headers may be
 * precompiled without it. */
#undef __managed__
#define __managed__ MT_MANAGED_CHOOSE(__has_attribute(memtrace_trace))
#define MT_MANAGED_CHOOSE(plugin) MT_MANAGED_PASTE(plugin)
#define MT_MANAGED_PASTE(plugin) MT_MANAGED_##plugin
#define MT_MANAGED_1 __device__ __attribute__((section("memtrace_managed")))
#define MT_MANAGED_0                                                                                         \
    _Pragma(                                                                                                 \
        "GCC error \"clang 19 has no __managed__ variables without memtrace's plugin: compile with nvcc\"")
#endif
