/* nvcc's predefined macros. Programs use them to recognise a CUDA compiler, its version, and support for
 * __host__ and __device__. Headers of the toolkit that would take clang for nvcc are included first, so that
 * they see the macros as they are here. MT_CUDA_NO_NVCC omits the macros, for CMake's test of the compiler,
 * which must find that options are clang's. */
#ifndef MT_CUDA_NVCC_H
#define MT_CUDA_NVCC_H
#if __cplusplus >= 201103L && !defined(__NVCC__) && !defined(MT_CUDA_NO_NVCC)
#if __has_include(<nv/target>)
#include <nv/target>
#endif
#if __cplusplus >= 201703L && __has_include(<cuda/std/__cccl/compiler.h>)
#include <cuda/std/__cccl/compiler.h>
#endif
#define __NVCC__ 1
#endif
/* Macros of nvcc's options. Lambdas are standard C++ here, none is an extended lambda of nvcc's. */
#ifdef MT_CUDA_RELAXED_CONSTEXPR
#define __CUDACC_RELAXED_CONSTEXPR__ 1
#endif
#ifdef MT_CUDA_EXTENDED_LAMBDA
#define __CUDACC_EXTENDED_LAMBDA__ 1
#endif
#define __nv_is_extended_device_lambda_closure_type(type) false
#define __nv_is_extended_host_device_lambda_closure_type(type) false
#define __nv_is_extended_device_lambda_with_preserved_return_type(type) false
#ifndef __CUDACC_VER_MAJOR__
#include "mt_cuda_version.h"
#endif
#endif
