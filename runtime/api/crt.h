/* Functions that compiled CUDA code calls but cuda_runtime_api.h does not declare: registration of fat
 * binaries, kernels and variables, and launches. The compiler emits these calls (see nvcc's
 * crt/host_runtime.h; clang emits the same). gen_entries.py reads this file like CUDA's own header. */
#ifndef MT_API_CRT_H
#define MT_API_CRT_H
#include <cuda_runtime_api.h>
#include "interop.h"
#if CUDART_VERSION < 12010
typedef struct CUkern_st *cudaKernel_t;
#endif

extern void **__cudaRegisterFatBinary(void *wrapper);
extern void __cudaRegisterFatBinaryEnd(void **handle);
extern void __cudaUnregisterFatBinary(void **handle);
extern void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name,
                                   int thread_limit, uint3 *tid, uint3 *bid, dim3 *block, dim3 *grid,
                                   int *warp);
extern void __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int ext, size_t size,
                              int constant, int global);
extern void __cudaRegisterManagedVar(void **handle, void **host, char *device, const char *name, int ext,
                                     size_t size, int constant, int global);
extern void __cudaRegisterHostVar(void **handle, const char *name, char *host, size_t size);
extern void __cudaRegisterTexture(void **handle, const void *host, const void **device, const char *name,
                                  int dim, int norm, int ext);
extern void __cudaRegisterSurface(void **handle, const void *host, const void **device, const char *name,
                                  int dim, int ext);
extern char __cudaInitModule(void **handle);
extern unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, cudaStream_t stream);
extern cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream);
extern cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *host);
extern cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **args, size_t shared,
                                      cudaStream_t stream);
extern cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t kernel, dim3 grid, dim3 block, void **args,
                                           size_t shared, cudaStream_t stream);
#endif
