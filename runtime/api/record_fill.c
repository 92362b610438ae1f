/* Recorders of fills. A 3-D fill is written down as one 2-D fill per plane. */
#include "entry.h"
#include "stream.h"
#include "common/events.h"
#include "common/site.h"
#include <stdint.h>

static cudaError_t note(cudaError_t e, const void *p, size_t pitch, int value, size_t width, size_t height,
                        cudaStream_t stream, const struct mt_host_site *site)
{
    if (e || !mt_tracing() || !width || !height)
        return e;
    struct mt_event_fill f = {
        .dst = (uint64_t)(uintptr_t)p,
        .value = (unsigned char)value,
        .bytes = (uint64_t)width * height,
        .stream = mt_stream_number(stream),
    };
    if (height > 1 && pitch != width) {
        f.width = width;
        f.height = height;
        f.pitch = pitch;
    }
    mt_event_memset(&f, site);
    return e;
}

cudaError_t REC(cudaMemset)(void *p, int value, size_t bytes)
{
    return note(MT_NEXT(cudaMemset)(p, value, bytes), p, bytes, value, bytes, 1, NULL, mt_host_site_take());
}

cudaError_t REC(cudaMemsetAsync)(void *p, int value, size_t bytes, cudaStream_t stream)
{
    return note(MT_NEXT(cudaMemsetAsync)(p, value, bytes, stream), p, bytes, value, bytes, 1, stream,
                mt_host_site_take());
}

cudaError_t REC(cudaMemset2D)(void *p, size_t pitch, int value, size_t width, size_t height)
{
    return note(MT_NEXT(cudaMemset2D)(p, pitch, value, width, height), p, pitch, value, width, height, NULL,
                mt_host_site_take());
}

cudaError_t REC(cudaMemset2DAsync)(void *p, size_t pitch, int value, size_t width, size_t height,
                                   cudaStream_t stream)
{
    return note(MT_NEXT(cudaMemset2DAsync)(p, pitch, value, width, height, stream), p, pitch, value, width,
                height, stream, mt_host_site_take());
}

static cudaError_t note_3d(cudaError_t e, struct cudaPitchedPtr p, int value, struct cudaExtent extent,
                           cudaStream_t stream)
{
    const struct mt_host_site *site = mt_host_site_take();
    size_t slice = p.pitch * (p.ysize ? p.ysize : extent.height);
    for (size_t z = 0; z < extent.depth && !e; z++)
        note(e, (char *)p.ptr + z * slice, p.pitch, value, extent.width, extent.height, stream, site);
    return e;
}

cudaError_t REC(cudaMemset3D)(struct cudaPitchedPtr p, int value, struct cudaExtent extent)
{
    return note_3d(MT_NEXT(cudaMemset3D)(p, value, extent), p, value, extent, NULL);
}

cudaError_t REC(cudaMemset3DAsync)(struct cudaPitchedPtr p, int value, struct cudaExtent extent,
                                   cudaStream_t stream)
{
    return note_3d(MT_NEXT(cudaMemset3DAsync)(p, value, extent, stream), p, value, extent, stream);
}
