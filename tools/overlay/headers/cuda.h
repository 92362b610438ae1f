/* Replaces the toolkit's cuda.h in the overlay, and includes it. clang pre-includes a wrapper header in CUDA
 * sources (__clang_cuda_runtime_wrapper.h), which reads cuda.h first of the toolkit's headers and
 * curand_mtgp32_kernel.h last. Between the two the program's macros are hidden. */
#if defined(__CUDA__) && defined(__CLANG_CUDA_RUNTIME_WRAPPER_H__) && !defined(__MT_CUDA_PREINCLUDE)
#define __MT_CUDA_PREINCLUDE 1
#include "mt_user_macros_push.h"
#include "mt_cuda_unsigned_atomics.h"
#endif
#include "mt-toolkit/cuda.h"
#ifdef __MT_CUDA_PREINCLUDE
#include "mt_cuda_fast_math.h"
#endif
