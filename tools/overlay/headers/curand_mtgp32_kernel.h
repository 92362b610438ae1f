/* In the overlay in place of the toolkit's header of this name, which it includes where there is one (it is
 * cuRAND's). The last header that clang pre-includes in CUDA sources: what nvcc gives to every CUDA source,
 * and clang 19 does not, is here. cuda.h has the beginning. */
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
