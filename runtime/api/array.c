#include "array.h"
#include "entry.h"
#include "error.h"
#include "map.h"
#include <stdint.h>
#include <stdlib.h>

static struct mt_map arrays = MT_MAP_INIT;

struct mt_array *mt_array_get(cudaArray_const_t a)
{
    return mt_map_get(&arrays, a);
}

cudaError_t IMPL(cudaMalloc3DArray)(cudaArray_t *out, const struct cudaChannelFormatDesc *desc,
                                    struct cudaExtent extent, unsigned flags)
{
    MT_RETURN_IF_FAILED();
    if (!out || !desc || !extent.width || (extent.depth && !extent.height && !(flags & cudaArrayLayered)))
        return mt_fail(cudaErrorInvalidValue);
    int bits = desc->x + desc->y + desc->z + desc->w;
    if (bits <= 0 || bits % 8 || bits > 128)
        return mt_fail(cudaErrorInvalidChannelDescriptor);
    struct mt_array *a = calloc(1, sizeof *a);
    size_t bytes;
    if (!a)
        return mt_fail(cudaErrorMemoryAllocation);
    a->desc = *desc;
    a->extent = extent;
    a->flags = flags;
    a->element = (size_t)bits / 8;
    a->rows = extent.height ? extent.height : 1;
    a->planes = extent.depth ? extent.depth : 1;
    if (__builtin_mul_overflow(extent.width, a->element, &a->pitch) ||
        __builtin_mul_overflow(a->pitch, a->rows, &a->slice) ||
        __builtin_mul_overflow(a->slice, a->planes, &bytes) || !(a->data = malloc(bytes)) ||
        mt_map_set(&arrays, a, a)) {
        free(a->data);
        free(a);
        return mt_fail(cudaErrorMemoryAllocation);
    }
    *out = (cudaArray_t)a;
    return cudaSuccess;
}

cudaError_t IMPL(cudaMallocArray)(cudaArray_t *out, const struct cudaChannelFormatDesc *desc, size_t width,
                                  size_t height, unsigned flags)
{
    return IMPL(cudaMalloc3DArray)(out, desc, (struct cudaExtent){width, height, 0}, flags);
}

cudaError_t IMPL(cudaFreeArray)(cudaArray_t handle)
{
    MT_RETURN_IF_FAILED();
    if (!handle)
        return cudaSuccess;
    struct mt_array *a = mt_map_take(&arrays, handle);
    if (!a)
        return mt_fail(cudaErrorInvalidValue);
    free(a->data);
    free(a);
    return cudaSuccess;
}

cudaError_t IMPL(cudaArrayGetInfo)(struct cudaChannelFormatDesc *desc, struct cudaExtent *extent,
                                   unsigned *flags, cudaArray_t handle)
{
    MT_RETURN_IF_FAILED();
    struct mt_array *a = mt_array_get(handle);
    if (!a)
        return mt_fail(cudaErrorInvalidResourceHandle);
    if (desc)
        *desc = a->desc;
    if (extent)
        *extent = a->extent;
    if (flags)
        *flags = a->flags;
    return cudaSuccess;
}

cudaError_t IMPL(cudaGetChannelDesc)(struct cudaChannelFormatDesc *desc, cudaArray_const_t handle)
{
    return IMPL(cudaArrayGetInfo)(desc, NULL, NULL, (cudaArray_t)(uintptr_t)handle);
}

struct cudaChannelFormatDesc IMPL(cudaCreateChannelDesc)(int x, int y, int z, int w,
                                                         enum cudaChannelFormatKind f)
{
    return (struct cudaChannelFormatDesc){x, y, z, w, f};
}
