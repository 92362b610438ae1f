/* Contexts of the driver API on the CPU device. All of one GPU share its memory and its streams; what they
 * give is what programs ask of them: which one is current in a thread, flags, numbers. */
#ifndef MT_DRIVER_CONTEXT_H
#define MT_DRIVER_CONTEXT_H
#include "driver.h"

/* CUDA_SUCCESS when a function with these needs may be called now in this thread. */
CUresult mt_context_check(enum mt_driver_needs needs);
/* One of the device: the current one, if it is. */
CUcontext mt_context_on(int device);
#endif
