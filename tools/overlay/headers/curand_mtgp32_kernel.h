/* Replaces cuRAND's header of this name in the overlay, and includes it if the toolkit has it. It is the last
 * header that clang pre-includes in CUDA sources, and adds what nvcc gives to every CUDA source and clang 19
 * does not. cuda.h is the first one. */
#if __has_include("mt-toolkit/curand_mtgp32_kernel.h")
#include "mt-toolkit/curand_mtgp32_kernel.h"
#endif
#if defined(__MT_CUDA_PREINCLUDE) && __MT_CUDA_PREINCLUDE == 1
#undef __MT_CUDA_PREINCLUDE
#define __MT_CUDA_PREINCLUDE 2
/* clang's wrapper has its own dim3 and uint3 while it reads this header. */
#pragma push_macro("dim3")
#pragma push_macro("uint3")
#undef dim3
#undef uint3
#include "mt_cuda_extras.h"
#pragma pop_macro("dim3")
#pragma pop_macro("uint3")
#include "mt_user_macros_pop.h"
#endif
