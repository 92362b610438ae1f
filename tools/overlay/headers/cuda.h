/* In the overlay in place of the toolkit's cuda.h, which it includes. clang pre-includes a wrapper header in
 * CUDA sources
 * (__clang_cuda_runtime_wrapper.h); cuda.h is the first of the toolkit's headers that it reads, and
 * curand_mtgp32_kernel.h the last. Between the two the program's macros are hidden. */
#if defined(__CUDA__) && defined(__CLANG_CUDA_RUNTIME_WRAPPER_H__) && !defined(__MT_CUDA_PREINCLUDE)
#define __MT_CUDA_PREINCLUDE 1
#include "mt_user_macros_push.h"
#include "mt_cuda_unsigned_atomics.h"
#endif
#include "mt-toolkit/cuda.h"
#ifdef __MT_CUDA_PREINCLUDE
#include "mt_cuda_fast_math.h"
#endif
