/* Stands in when runtime/gpu is not built in. */
#include "device/gpu.h"

__attribute__((weak)) const struct mt_gpu_ops *mt_gpu(void)
{
    return NULL;
}
