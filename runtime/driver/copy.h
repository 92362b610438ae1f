/* Copies of the driver API in the runtime's terms. */
#ifndef MT_DRIVER_COPY_H
#define MT_DRIVER_COPY_H
#include "driver.h"

/* Widths and x positions become elements where an array takes part. CUDA_ERROR_INVALID_VALUE,
 * CUDA_ERROR_INVALID_HANDLE. */
CUresult mt_driver_copy_params(struct cudaMemcpy3DParms *p, const CUDA_MEMCPY3D_v2 *c);
#endif
