/* Recorders of fills. A 3-D fill is written down as one 2-D fill per plane. On a GPU they write down what the
 * program asks for, when it asks; the CPU device writes down each fill when it carries it out. */
#include "copy.h"
#include "api/device/device.h"
#include "api/entry.h"
#include "trace/planes.h"

void mt_fill_note(const struct mt_fill *f, int64_t stream, const struct mt_host_site *site)
{
    struct mt_planes dst = {(uint64_t)(uintptr_t)f->p, f->pitch, f->slice, -1};
    mt_planes_filled(dst, (struct mt_planes_size){f->width, f->height, f->depth}, (unsigned char)f->value,
                     stream, site);
}

/* The CPU device takes the call's site itself, maybe later than the arguments of note() are evaluated. */
static const struct mt_host_site *site_on_gpu(void)
{
    return mt_device_is_gpu() ? mt_host_site_take() : NULL;
}

static cudaError_t note_box(cudaError_t e, struct mt_fill f, cudaStream_t stream,
                            const struct mt_host_site *site)
{
    if (!e && mt_device_is_gpu())
        mt_fill_note(&f, mt_stream_number(stream), site);
    return e;
}

static cudaError_t record_fill_note(cudaError_t e, void *p, size_t pitch, int value, size_t width,
                                    size_t height, cudaStream_t stream, const struct mt_host_site *site)
{
    return note_box(e, (struct mt_fill){p, pitch, 0, width, height, 1, value, 1}, stream, site);
}

cudaError_t rec_cudaMemset(void *p, int value, size_t bytes)
{
    return record_fill_note(MT_NEXT(cudaMemset)(p, value, bytes), p, bytes, value, bytes, 1, NULL,
                            site_on_gpu());
}

cudaError_t rec_cudaMemsetAsync(void *p, int value, size_t bytes, cudaStream_t stream)
{
    return record_fill_note(MT_NEXT(cudaMemsetAsync)(p, value, bytes, stream), p, bytes, value, bytes, 1,
                            stream, site_on_gpu());
}

cudaError_t rec_cudaMemset2D(void *p, size_t pitch, int value, size_t width, size_t height)
{
    return record_fill_note(MT_NEXT(cudaMemset2D)(p, pitch, value, width, height), p, pitch, value, width,
                            height, NULL, site_on_gpu());
}

cudaError_t rec_cudaMemset2DAsync(void *p, size_t pitch, int value, size_t width, size_t height,
                                  cudaStream_t stream)
{
    return record_fill_note(MT_NEXT(cudaMemset2DAsync)(p, pitch, value, width, height, stream), p, pitch,
                            value, width, height, stream, site_on_gpu());
}

static cudaError_t note_3d(cudaError_t e, struct cudaPitchedPtr p, int value, struct cudaExtent extent,
                           cudaStream_t stream)
{
    size_t slice = p.pitch * (p.ysize ? p.ysize : extent.height);
    struct mt_fill f = {p.ptr, p.pitch, slice, extent.width, extent.height, extent.depth, value, 1};
    return note_box(e, f, stream, site_on_gpu());
}

cudaError_t rec_cudaMemset3D(struct cudaPitchedPtr p, int value, struct cudaExtent extent)
{
    return note_3d(MT_NEXT(cudaMemset3D)(p, value, extent), p, value, extent, NULL);
}

cudaError_t rec_cudaMemset3DAsync(struct cudaPitchedPtr p, int value, struct cudaExtent extent,
                                  cudaStream_t stream)
{
    return note_3d(MT_NEXT(cudaMemset3DAsync)(p, value, extent, stream), p, value, extent, stream);
}
