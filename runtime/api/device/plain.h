/* The two versions that a kernel has on a GPU: without record calls, and with (plain.c). */
#ifndef MT_API_PLAIN_H
#define MT_API_PLAIN_H
#include "api/device/module.h"
#include <cuda_runtime_api.h>

struct mt_launch_config {
    dim3 grid, block;
    size_t shared; /* dynamic bytes */
    cudaStream_t stream;
    int cooperative;
    dim3 cluster; /* CTAs of a cluster, x 0: the launch does not say */
};

/* Registers f with the real runtime, and its version with record calls, if the GPU's code has one; f's module
 * is loaded. */
void mt_plain_register(void **real, struct mt_function *f);
/* What to launch for records, which takes the launch context after the program's arguments. */
const void *mt_traced_of(const struct mt_function *f);
/* What to launch without, which is what the program launches; NULL: there is one version only. */
const void *mt_plain_of(const struct mt_function *f);
/* Why the current device cannot run it with record calls in this configuration, though it can without:
 * cudaErrorLaunchOutOfResources or cudaErrorCooperativeLaunchTooLarge; cudaSuccess:
 * it can, or nothing is known. */
cudaError_t mt_plain_must(const struct mt_function *f, const struct mt_launch_config *c);
/* For that reason it runs without although it was to be traced: says so, once per kernel. */
void mt_plain_tell(struct mt_function *f, const struct mt_launch_config *c, cudaError_t why);
/* mt_traced_of for launches by handle; NULL: there is one version only. */
cudaKernel_t mt_traced_handle(struct mt_function *f);
#endif
