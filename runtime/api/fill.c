/* cudaMemset in all its forms, on the CPU device. */
#include "entry.h"
#include "error.h"
#include "heap.h"
#include "stream.h"
#include <stdint.h>
#include <string.h>

static cudaError_t fill(char *p, size_t pitch, size_t slice, int value, size_t width, size_t height,
                        size_t depth, cudaStream_t stream)
{
    struct mt_block b;
    uint64_t rows, planes, bytes;
    MT_RETURN_IF_FAILED();
    struct mt_stream *s = mt_stream_get(stream);
    if (!s)
        return mt_fail(cudaErrorInvalidResourceHandle);
    if (!width || !height || !depth)
        return cudaSuccess;
    if (height * depth > 1 && width > pitch)
        return mt_fail(cudaErrorInvalidPitchValue);
    if (__builtin_mul_overflow(height - 1, pitch, &rows) ||
        __builtin_mul_overflow(depth - 1, slice, &planes) || __builtin_add_overflow(rows, planes, &bytes) ||
        __builtin_add_overflow(bytes, width, &bytes))
        return mt_fail(cudaErrorInvalidValue);
    if (!mt_heap_find(p, &b) || bytes > b.base + b.bytes - (uint64_t)(uintptr_t)p)
        return mt_fail(cudaErrorInvalidValue);
    mt_stream_wait(s);
    for (size_t z = 0; z < depth; z++)
        for (size_t y = 0; y < height; y++)
            memset(p + z * slice + y * pitch, value, width);
    return cudaSuccess;
}

cudaError_t IMPL(cudaMemset)(void *p, int value, size_t bytes)
{
    return fill(p, bytes, bytes, value, bytes, 1, 1, NULL);
}

cudaError_t IMPL(cudaMemsetAsync)(void *p, int value, size_t bytes, cudaStream_t stream)
{
    return fill(p, bytes, bytes, value, bytes, 1, 1, stream);
}

cudaError_t IMPL(cudaMemset2D)(void *p, size_t pitch, int value, size_t width, size_t height)
{
    return fill(p, pitch, 0, value, width, height, 1, NULL);
}

cudaError_t IMPL(cudaMemset2DAsync)(void *p, size_t pitch, int value, size_t width, size_t height,
                                    cudaStream_t stream)
{
    return fill(p, pitch, 0, value, width, height, 1, stream);
}

cudaError_t IMPL(cudaMemset3DAsync)(struct cudaPitchedPtr p, int value, struct cudaExtent extent,
                                    cudaStream_t stream)
{
    size_t rows = p.ysize ? p.ysize : extent.height;
    return fill(p.ptr, p.pitch, p.pitch * rows, value, extent.width, extent.height, extent.depth, stream);
}

cudaError_t IMPL(cudaMemset3D)(struct cudaPitchedPtr p, int value, struct cudaExtent extent)
{
    return IMPL(cudaMemset3DAsync)(p, value, extent, NULL);
}
