/* Launches: checks, the hidden launch context, the trace. */
#ifndef MT_API_LAUNCH_H
#define MT_API_LAUNCH_H
#include "module.h"
#include <cuda_runtime_api.h>

struct mt_launch_config {
    dim3 grid, block;
    size_t shared; /* dynamic bytes */
    cudaStream_t stream;
    int cooperative;
};

/* The kernel behind `func`, with its code. cudaErrorInvalidDeviceFunction, or
 * cudaErrorNoKernelImageForDevice, as the thread's last error. */
cudaError_t mt_function_get(const void *func, struct mt_function **f);
/* Bytes of dynamic shared memory a launch of `f` may ask for. */
size_t mt_launch_dynamic_max(const struct mt_function *f);
/* Threads per block a launch of `f` may have. */
unsigned mt_launch_threads_max(const struct mt_function *f);
/* Resident CTAs of `f` on one SM, with blocks of `threads` and `shared` dynamic bytes; 0: cannot run. */
unsigned mt_launch_resident(const struct mt_function *f, unsigned threads, size_t shared);
/* Runs a launch on the CPU device, to its end. */
cudaError_t mt_launch_cpu(const void *func, const struct mt_launch_config *c, void **args);
#endif
