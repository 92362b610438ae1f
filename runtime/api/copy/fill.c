/* cudaMemset in all its forms, on the CPU device. */
#include "api/streams/capture.h"
#include "copy.h"
#include "api/entry.h"
#include "api/tables/error.h"
#include "api/device/device.h"
#include "api/streams/queue.h"
#include "api/memory/sync.h"
#include <stdint.h>
#include <string.h>

struct fill_op {
    struct mt_op op;
    struct mt_fill fill;
    int64_t stream;
};

static void set_row(char *p, const struct mt_fill *f)
{
    if (f->element == 2)
        for (size_t i = 0; i < f->width; i += 2)
            memcpy(p + i, &(uint16_t){(uint16_t)f->value}, 2);
    else if (f->element == 4)
        for (size_t i = 0; i < f->width; i += 4)
            memcpy(p + i, &f->value, 4);
    else
        memset(p, f->value, f->width);
}

static void fill_perform(const struct mt_fill *f, int64_t stream, const struct mt_host_site *site)
{
    mt_fill_note(f, stream, site);
    for (size_t z = 0; z < f->depth; z++)
        for (size_t y = 0; y < f->height; y++)
            set_row(f->p + z * f->slice + y * f->pitch, f);
}

static int fill_run(struct mt_op *op)
{
    struct fill_op *f = (struct fill_op *)op;
    fill_perform(&f->fill, f->stream, op->site);
    return MT_OP_DONE;
}

/* *host: the program can look at the memory without a copy. */
static cudaError_t fill_check(const struct mt_fill *f, int *host)
{
    struct mt_block b;
    uint64_t rows, planes, bytes, reach = mt_heap_reach(f->p, -1, &b);
    if (f->height * f->depth > 1 && f->width > f->pitch)
        return cudaErrorInvalidPitchValue;
    if (__builtin_mul_overflow(f->height - 1, f->pitch, &rows) ||
        __builtin_mul_overflow(f->depth - 1, f->slice, &planes) ||
        __builtin_add_overflow(rows, planes, &bytes) || __builtin_add_overflow(bytes, f->width, &bytes))
        return cudaErrorInvalidValue;
    if (!reach || bytes > reach) {
        mt_failed_range("destination", f->p, bytes);
        return cudaErrorInvalidValue;
    }
    *host = b.kind != MT_HEAP_DEVICE && b.kind != MT_HEAP_SYMBOL && b.kind != MT_HEAP_IPC;
    return cudaSuccess;
}

static int fill_empty(const struct mt_fill *f)
{
    return !f->width || !f->height || !f->depth;
}

cudaError_t mt_fill_op(struct mt_op **out, const struct mt_fill *f, const struct mt_host_site *site)
{
    int host;
    cudaError_t e = fill_empty(f) ? cudaSuccess : fill_check(f, &host);
    if (e)
        return mt_fail(e);
    struct fill_op *o = mt_op_new(sizeof *o, MT_OP_FILL, fill_run);
    if (!o)
        return mt_fail(cudaErrorMemoryAllocation);
    o->op.site = site;
    o->fill = *f;
    o->stream = -1;
    *out = &o->op;
    return cudaSuccess;
}

void mt_fill_bind(struct mt_op *op, const struct mt_stream *s)
{
    ((struct fill_op *)op)->stream = mt_stream_number_of(s);
}

const struct mt_fill *mt_fill_of(const struct mt_op *op)
{
    return &((const struct fill_op *)op)->fill;
}

cudaError_t mt_fill_start(struct mt_fill f, cudaStream_t stream, int sync)
{
    const struct mt_host_site *site = mt_host_site_take();
    struct mt_turn t;
    struct mt_op *op = NULL;
    int host = 0;
    MT_RETURN_IF_FAILED();
    struct mt_stream *s = mt_stream_get(stream);
    if (!s)
        return mt_fail(cudaErrorInvalidResourceHandle);
    cudaError_t e = mt_capture_check(s, sync ? MT_CALL_SYNC : MT_CALL_ASYNC);
    if (e || fill_empty(&f))
        return e;
    e = fill_check(&f, &host);
    if (e)
        return mt_fail(e);
    int turn = !mt_capturing(s) && mt_turn_try(&t, s);
    if (!turn && !(sync && host)) {
        e = mt_fill_op(&op, &f, site);
        if (e)
            return e;
        mt_fill_bind(op, s);
        return mt_op_submit(s, op);
    }
    if (!turn)
        mt_turn_begin(&t, s);
    if (!mt_fail_of(s->device))
        fill_perform(&f, mt_stream_number_of(s), site);
    mt_turn_end(&t);
    return mt_failed();
}

static struct mt_fill fill_1d(void *p, int value, size_t bytes)
{
    return (struct mt_fill){p, bytes, bytes, bytes, 1, 1, value, 1};
}

static struct mt_fill fill_2d(void *p, size_t pitch, int value, size_t width, size_t height)
{
    return (struct mt_fill){p, pitch, 0, width, height, 1, value, 1};
}

static struct mt_fill fill_3d(struct cudaPitchedPtr p, int value, struct cudaExtent extent)
{
    size_t rows = p.ysize ? p.ysize : extent.height;
    return (struct mt_fill){p.ptr,         p.pitch,      p.pitch * rows, extent.width,
                            extent.height, extent.depth, value,          1};
}

cudaError_t impl_cudaMemset(void *p, int value, size_t bytes)
{
    return mt_fill_start(fill_1d(p, value, bytes), NULL, 1);
}

cudaError_t impl_cudaMemsetAsync(void *p, int value, size_t bytes, cudaStream_t stream)
{
    return mt_fill_start(fill_1d(p, value, bytes), stream, 0);
}

cudaError_t impl_cudaMemset2D(void *p, size_t pitch, int value, size_t width, size_t height)
{
    return mt_fill_start(fill_2d(p, pitch, value, width, height), NULL, 1);
}

cudaError_t impl_cudaMemset2DAsync(void *p, size_t pitch, int value, size_t width, size_t height,
                                   cudaStream_t stream)
{
    return mt_fill_start(fill_2d(p, pitch, value, width, height), stream, 0);
}

cudaError_t impl_cudaMemset3DAsync(struct cudaPitchedPtr p, int value, struct cudaExtent extent,
                                   cudaStream_t stream)
{
    return mt_fill_start(fill_3d(p, value, extent), stream, 0);
}

cudaError_t impl_cudaMemset3D(struct cudaPitchedPtr p, int value, struct cudaExtent extent)
{
    return mt_fill_start(fill_3d(p, value, extent), NULL, 1);
}
