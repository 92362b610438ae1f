/* nvcc's names for itself. Programs ask for them to recognise a CUDA compiler, whose version it is, and
 * whether
 * __host__ and
 * __device__ mean something. Headers of the toolkit that would take clang for nvcc come first: they decide by
 * what they see here, and their guards keep it so.
 * MT_CUDA_NO_NVCC: not so (CMake asks which compiler it is, and is to know that options are clang's). */
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
/* What its options define. Lambdas are what C++ says here, none is of nvcc's kinds. */
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
