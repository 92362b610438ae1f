/* Loads and stores with a cache hint (__ldcg, __ldcs, __stcs, …) for built-in and vector types, from the
 * toolkit. clang disables their header by its guard, because it has other functions of that header (__ldg and
 * __funnelshift_*) as builtins. */
#ifndef MT_CUDA_CACHE_H
#define MT_CUDA_CACHE_H
#if __has_include("mt-toolkit/sm_32_intrinsics.hpp")
#pragma push_macro("__CUDA_ARCH__")
#ifndef __CUDA_ARCH__
#define __CUDA_ARCH__ 9999 /* declares them on the host side, too */
#endif
#define __ldg __mt_toolkit_ldg
#define __funnelshift_l __mt_toolkit_funnelshift_l
#define __funnelshift_lc __mt_toolkit_funnelshift_lc
#define __funnelshift_r __mt_toolkit_funnelshift_r
#define __funnelshift_rc __mt_toolkit_funnelshift_rc
#undef __SM_32_INTRINSICS_HPP__
#include "mt-toolkit/sm_32_intrinsics.hpp"
#undef __ldg
#undef __funnelshift_l
#undef __funnelshift_lc
#undef __funnelshift_r
#undef __funnelshift_rc
#pragma pop_macro("__CUDA_ARCH__")
#endif
#endif
