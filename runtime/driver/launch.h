/* What launches of the driver API and kernels in its graphs have in common. */
#ifndef MT_DRIVER_LAUNCH_H
#define MT_DRIVER_LAUNCH_H
#include "driver.h"

struct mt_driver_arguments {
    void **args; /* a pointer per parameter */
    void **made; /* the caller's to free, or NULL */
};
/* `params` and `extra` as cuLaunchKernel has them. CUDA_ERROR_INVALID_HANDLE, CUDA_ERROR_INVALID_VALUE. */
CUresult mt_driver_arguments(struct mt_driver_arguments *a, const void *function, void **params,
                             void **extra);
#if CUDA_VERSION >= 11080
#endif
#endif
