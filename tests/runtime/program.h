/* Stands for a compiled CUDA program: a fat binary with the test image after it, host stubs and shadows, and
 * their registration as the compiler would emit it. */
#ifndef TEST_RUNTIME_PROGRAM_H
#define TEST_RUNTIME_PROGRAM_H
#include <cuda_runtime_api.h>

extern void stub_fill(void), stub_nothing(void), stub_trap(void), stub_unsupported(void), stub_foreign(void);
extern void stub_meet(void), stub_step(void), stub_gone(void), stub_wide(void);
extern int program_streams; /* not 0: these two are registered */
extern unsigned shadow_counter[4], shadow_konst[4], shadow_foreign, shadow_gone;
extern int program_wide; /* not 0: a kernel with 70 parameters is registered */
/* Registers everything; `foreign` things come from a file without an image. */
extern const char *program_image;   /* NULL: the tests' own; "": there is none */
extern const char *program_foreign; /* its kernel's name */
void program_register(void);
/* Another file with a kernel of this host stub; its fat binary's handle. */
void **program_again(void (*stub)(void), const char *name);
void __cudaUnregisterFatBinary(void **handle);
/* A library that was loaded and unloaded before anything of CUDA was called:
 * nothing of it may be looked at. */
void program_come_and_go(void);

/* What the compiler and nvcc's headers call. */
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, cudaStream_t stream);
cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream);
cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *host);
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **args, size_t shared,
                               cudaStream_t stream);
cudaError_t cudaLaunchKernel_ptsz(const void *func, dim3 grid, dim3 block, void **args, size_t shared,
                                  cudaStream_t stream);
#endif
