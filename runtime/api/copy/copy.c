/* Copies and fills: operations of the CPU device, and their recording in the trace. */
#include "api/memory/memory.h"
#include "copy.h"
#include "api/device/device.h"
#include "api/entry.h"
#include "trace/events.h"
#include "trace/objects.h"
#include "api/streams/stream.h"
#include "trace/site.h"
#include "api/tables/error.h"
#include "trace/devices.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Recorders of copies. A 3-D copy is logged as one 2-D copy per plane. On a GPU, copies are logged at the
 * program's call; the CPU device logs each copy when it is executed. */

static uint64_t record_copy_address(const void *p)
{
    return (uint64_t)(uintptr_t)p;
}

static int copy_is_device(const void *p)
{
    struct mt_block b;
    return mt_object_is_device(p) || (mt_heap_find(p, &b) && b.kind == MT_HEAP_SYMBOL);
}

const char *mt_copy_kind(const struct mt_box *b)
{
    static const char *const names[] = {"h2h", "h2d", "d2h", "d2d"};
    if ((unsigned)b->kind < cudaMemcpyDefault)
        return names[b->kind];
    return names[(copy_is_device(b->dst.p) ? 1 : 0) | (copy_is_device(b->src.p) ? 2 : 0)];
}

static void copy_note(const struct mt_box *b, const struct mt_memcpy_line *what,
                      const struct mt_host_site *site)
{
    struct mt_planes dst = {record_copy_address(b->dst.p), b->dst.pitch, b->dst.slice,
                            mt_heap_owner(b->dst.p)};
    struct mt_planes src = {record_copy_address(b->src.p), b->src.pitch, b->src.slice,
                            mt_heap_owner(b->src.p)};
    mt_planes_copied(dst, src, (struct mt_planes_size){b->width, b->height, b->depth}, what, site);
}

static cudaError_t record_copy_note(cudaError_t e, const struct mt_box *b, cudaStream_t stream)
{
    const struct mt_host_site *site = mt_host_site_take();
    if (!e && mt_device_is_gpu())
        copy_note(b, &(struct mt_memcpy_line){.kind = mt_copy_kind(b), .stream = mt_stream_number(stream)},
                  site);
    return e;
}

/* Evaluates `call`, then logs the box. */
#define COPY(box, stream, call)                                                                              \
    struct mt_box b = box;                                                                                   \
    return record_copy_note((call), &b, (stream))

cudaError_t rec_cudaMemcpy(void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind)
{
    COPY(mt_box_1d(dst, src, bytes, kind), NULL, MT_NEXT(cudaMemcpy)(dst, src, bytes, kind));
}

cudaError_t rec_cudaMemcpyAsync(void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind,
                                cudaStream_t stream)
{
    COPY(mt_box_1d(dst, src, bytes, kind), stream, MT_NEXT(cudaMemcpyAsync)(dst, src, bytes, kind, stream));
}

cudaError_t rec_cudaMemcpyPeer(void *dst, int dst_device, const void *src, int src_device, size_t bytes)
{
    COPY(mt_box_1d(dst, src, bytes, cudaMemcpyDeviceToDevice), NULL,
         MT_NEXT(cudaMemcpyPeer)(dst, dst_device, src, src_device, bytes));
}

cudaError_t rec_cudaMemcpyPeerAsync(void *dst, int dst_device, const void *src, int src_device, size_t bytes,
                                    cudaStream_t stream)
{
    COPY(mt_box_1d(dst, src, bytes, cudaMemcpyDeviceToDevice), stream,
         MT_NEXT(cudaMemcpyPeerAsync)(dst, dst_device, src, src_device, bytes, stream));
}

cudaError_t rec_cudaMemcpy2D(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width,
                             size_t height, enum cudaMemcpyKind kind)
{
    COPY(mt_box_2d(dst, dpitch, src, spitch, width, height, kind), NULL,
         MT_NEXT(cudaMemcpy2D)(dst, dpitch, src, spitch, width, height, kind));
}

cudaError_t rec_cudaMemcpy2DAsync(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width,
                                  size_t height, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    COPY(mt_box_2d(dst, dpitch, src, spitch, width, height, kind), stream,
         MT_NEXT(cudaMemcpy2DAsync)(dst, dpitch, src, spitch, width, height, kind, stream));
}

/* ---- 3-D ---- */

static cudaError_t record_copy_note_3d(cudaError_t e, const struct cudaMemcpy3DParms *p, cudaStream_t stream)
{
    struct mt_box b = {0};
    return record_copy_note(e, e || mt_box_3d(&b, p) ? &(struct mt_box){0} : &b, stream);
}

static cudaError_t box_3d_peer(struct mt_box *b, const struct cudaMemcpy3DPeerParms *p)
{
    struct cudaMemcpy3DParms q = {
        .srcArray = p->srcArray,
        .srcPos = p->srcPos,
        .srcPtr = p->srcPtr,
        .dstArray = p->dstArray,
        .dstPos = p->dstPos,
        .dstPtr = p->dstPtr,
        .extent = p->extent,
        .kind = cudaMemcpyDeviceToDevice,
    };
    return mt_box_3d(b, &q);
}

static cudaError_t note_3d_peer(cudaError_t e, const struct cudaMemcpy3DPeerParms *p, cudaStream_t stream)
{
    struct mt_box b = {0};
    return record_copy_note(e, e || box_3d_peer(&b, p) ? &(struct mt_box){0} : &b, stream);
}

cudaError_t rec_cudaMemcpy3D(const struct cudaMemcpy3DParms *p)
{
    return record_copy_note_3d(MT_NEXT(cudaMemcpy3D)(p), p, NULL);
}

cudaError_t rec_cudaMemcpy3DAsync(const struct cudaMemcpy3DParms *p, cudaStream_t stream)
{
    return record_copy_note_3d(MT_NEXT(cudaMemcpy3DAsync)(p, stream), p, stream);
}

cudaError_t rec_cudaMemcpy3DPeer(const struct cudaMemcpy3DPeerParms *p)
{
    return note_3d_peer(MT_NEXT(cudaMemcpy3DPeer)(p), p, NULL);
}

cudaError_t rec_cudaMemcpy3DPeerAsync(const struct cudaMemcpy3DPeerParms *p, cudaStream_t stream)
{
    return note_3d_peer(MT_NEXT(cudaMemcpy3DPeerAsync)(p, stream), p, stream);
}

/* ---- symbols ---- */

static cudaError_t note_symbol(cudaError_t e, const void *symbol, size_t offset, const void *other,
                               size_t bytes, int to, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    struct mt_box b = mt_box_1d((void *)(uintptr_t)other, other, bytes, kind);
    if (!e && mt_side_symbol(to ? &b.dst : &b.src, symbol, offset, bytes))
        b.width = 0;
    if (kind == cudaMemcpyDefault)
        b.kind = copy_is_device(other) ? cudaMemcpyDeviceToDevice
                 : to                  ? cudaMemcpyHostToDevice
                                       : cudaMemcpyDeviceToHost;
    return record_copy_note(e, &b, stream);
}

cudaError_t rec_cudaMemcpyToSymbol(const void *symbol, const void *src, size_t bytes, size_t offset,
                                   enum cudaMemcpyKind kind)
{
    return note_symbol(MT_NEXT(cudaMemcpyToSymbol)(symbol, src, bytes, offset, kind), symbol, offset, src,
                       bytes, 1, kind, NULL);
}

cudaError_t rec_cudaMemcpyToSymbolAsync(const void *symbol, const void *src, size_t bytes, size_t offset,
                                        enum cudaMemcpyKind kind, cudaStream_t stream)
{
    return note_symbol(MT_NEXT(cudaMemcpyToSymbolAsync)(symbol, src, bytes, offset, kind, stream), symbol,
                       offset, src, bytes, 1, kind, stream);
}

cudaError_t rec_cudaMemcpyFromSymbol(void *dst, const void *symbol, size_t bytes, size_t offset,
                                     enum cudaMemcpyKind kind)
{
    return note_symbol(MT_NEXT(cudaMemcpyFromSymbol)(dst, symbol, bytes, offset, kind), symbol, offset, dst,
                       bytes, 0, kind, NULL);
}

cudaError_t rec_cudaMemcpyFromSymbolAsync(void *dst, const void *symbol, size_t bytes, size_t offset,
                                          enum cudaMemcpyKind kind, cudaStream_t stream)
{
    return note_symbol(MT_NEXT(cudaMemcpyFromSymbolAsync)(dst, symbol, bytes, offset, kind, stream), symbol,
                       offset, dst, bytes, 0, kind, stream);
}

/* ---- arrays ---- */

/* x in bytes, y in rows. With height 1, the bytes may continue over row ends, as in 1-D array copies. */
static cudaError_t side_array(struct mt_side *s, cudaArray_const_t handle, size_t x, size_t y, size_t width,
                              size_t height)
{
    struct mt_array *a = mt_array_get(handle);
    if (!a) {
        *s = (struct mt_side){(char *)(uintptr_t)handle, 0, 0};
        return mt_device_is_gpu() ? cudaSuccess : cudaErrorInvalidResourceHandle;
    }
    *s = (struct mt_side){a->data + y * a->pitch + x, a->pitch, a->slice};
    /* 1-D copies (height 1) may continue into the next rows. */
    size_t room = y < a->rows && x <= a->pitch ? (a->rows - y) * a->pitch - x : 0;
    size_t need;
    if (!height || !width)
        return cudaSuccess;
    if (width > room || __builtin_mul_overflow(height - 1, a->pitch, &need) || need > room - width)
        return cudaErrorInvalidValue;
    return height > 1 && x + width > a->pitch ? cudaErrorInvalidValue : cudaSuccess;
}

static cudaError_t note_array(cudaError_t e, struct mt_box b, cudaArray_const_t dst, size_t dx, size_t dy,
                              cudaArray_const_t src, size_t sx, size_t sy, cudaStream_t stream)
{
    if (!e && dst)
        side_array(&b.dst, dst, dx, dy, b.width, b.height);
    if (!e && src)
        side_array(&b.src, src, sx, sy, b.width, b.height);
    return record_copy_note(e, &b, stream);
}

cudaError_t rec_cudaMemcpy2DToArray(cudaArray_t dst, size_t x, size_t y, const void *src, size_t spitch,
                                    size_t width, size_t height, enum cudaMemcpyKind kind)
{
    return note_array(MT_NEXT(cudaMemcpy2DToArray)(dst, x, y, src, spitch, width, height, kind),
                      mt_box_2d(NULL, width, src, spitch, width, height, kind), dst, x, y, NULL, 0, 0, NULL);
}

cudaError_t rec_cudaMemcpy2DToArrayAsync(cudaArray_t dst, size_t x, size_t y, const void *src, size_t spitch,
                                         size_t width, size_t height, enum cudaMemcpyKind kind,
                                         cudaStream_t stream)
{
    return note_array(MT_NEXT(cudaMemcpy2DToArrayAsync)(dst, x, y, src, spitch, width, height, kind, stream),
                      mt_box_2d(NULL, width, src, spitch, width, height, kind), dst, x, y, NULL, 0, 0,
                      stream);
}

cudaError_t rec_cudaMemcpy2DFromArray(void *dst, size_t dpitch, cudaArray_const_t src, size_t x, size_t y,
                                      size_t width, size_t height, enum cudaMemcpyKind kind)
{
    return note_array(MT_NEXT(cudaMemcpy2DFromArray)(dst, dpitch, src, x, y, width, height, kind),
                      mt_box_2d(dst, dpitch, NULL, width, width, height, kind), NULL, 0, 0, src, x, y, NULL);
}

cudaError_t rec_cudaMemcpy2DFromArrayAsync(void *dst, size_t dpitch, cudaArray_const_t src, size_t x,
                                           size_t y, size_t width, size_t height, enum cudaMemcpyKind kind,
                                           cudaStream_t stream)
{
    return note_array(
        MT_NEXT(cudaMemcpy2DFromArrayAsync)(dst, dpitch, src, x, y, width, height, kind, stream),
        mt_box_2d(dst, dpitch, NULL, width, width, height, kind), NULL, 0, 0, src, x, y, stream);
}

cudaError_t rec_cudaMemcpyToArray(cudaArray_t dst, size_t x, size_t y, const void *src, size_t bytes,
                                  enum cudaMemcpyKind kind)
{
    return note_array(MT_NEXT(cudaMemcpyToArray)(dst, x, y, src, bytes, kind),
                      mt_box_1d(NULL, src, bytes, kind), dst, x, y, NULL, 0, 0, NULL);
}

cudaError_t rec_cudaMemcpyToArrayAsync(cudaArray_t dst, size_t x, size_t y, const void *src, size_t bytes,
                                       enum cudaMemcpyKind kind, cudaStream_t stream)
{
    return note_array(MT_NEXT(cudaMemcpyToArrayAsync)(dst, x, y, src, bytes, kind, stream),
                      mt_box_1d(NULL, src, bytes, kind), dst, x, y, NULL, 0, 0, stream);
}

cudaError_t rec_cudaMemcpyFromArray(void *dst, cudaArray_const_t src, size_t x, size_t y, size_t bytes,
                                    enum cudaMemcpyKind kind)
{
    return note_array(MT_NEXT(cudaMemcpyFromArray)(dst, src, x, y, bytes, kind),
                      mt_box_1d(dst, NULL, bytes, kind), NULL, 0, 0, src, x, y, NULL);
}

cudaError_t rec_cudaMemcpyFromArrayAsync(void *dst, cudaArray_const_t src, size_t x, size_t y, size_t bytes,
                                         enum cudaMemcpyKind kind, cudaStream_t stream)
{
    return note_array(MT_NEXT(cudaMemcpyFromArrayAsync)(dst, src, x, y, bytes, kind, stream),
                      mt_box_1d(dst, NULL, bytes, kind), NULL, 0, 0, src, x, y, stream);
}

cudaError_t rec_cudaMemcpy2DArrayToArray(cudaArray_t dst, size_t dx, size_t dy, cudaArray_const_t src,
                                         size_t sx, size_t sy, size_t width, size_t height,
                                         enum cudaMemcpyKind kind)
{
    return note_array(MT_NEXT(cudaMemcpy2DArrayToArray)(dst, dx, dy, src, sx, sy, width, height, kind),
                      mt_box_2d(NULL, width, NULL, width, width, height, kind), dst, dx, dy, src, sx, sy,
                      NULL);
}

cudaError_t rec_cudaMemcpyArrayToArray(cudaArray_t dst, size_t dx, size_t dy, cudaArray_const_t src,
                                       size_t sx, size_t sy, size_t bytes, enum cudaMemcpyKind kind)
{
    return note_array(MT_NEXT(cudaMemcpyArrayToArray)(dst, dx, dy, src, sx, sy, bytes, kind),
                      mt_box_1d(NULL, NULL, bytes, kind), dst, dx, dy, src, sx, sy, NULL);
}

#define STAGED_MAX ((size_t)64 << 20) /* most bytes of pageable memory staged for a waiting copy */

/* Returns the bytes from the first to the last byte of one side. */
static int copy_span(const struct mt_box *b, const struct mt_side *s, uint64_t *out)
{
    uint64_t rows, planes;
    return __builtin_mul_overflow(b->height - 1, s->pitch, &rows) ||
           __builtin_mul_overflow(b->depth - 1, s->slice, &planes) ||
           __builtin_add_overflow(rows, planes, out) || __builtin_add_overflow(*out, b->width, out);
}

/* Checks that the device can access the pointer, and that the whole span is in one allocation. */
static cudaError_t check_device(const struct mt_side *s, uint64_t bytes, const char *what)
{
    struct mt_block b;
    uint64_t reach = mt_heap_reach(s->p, -1, &b);
    if (reach && bytes <= reach)
        return cudaSuccess;
    mt_failed_range(what, s->p, bytes);
    return cudaErrorInvalidValue;
}

/* Returns whether the host can access the memory; the program's own memory is in no table. */
static int host_reaches(const struct mt_side *s, uint64_t bytes)
{
    struct mt_block b;
    if (!s->p || !mt_heap_find(s->p, &b))
        return s->p != NULL;
    return b.kind != MT_HEAP_DEVICE && b.kind != MT_HEAP_SYMBOL &&
           (b.kind == MT_HEAP_REGISTERED || bytes <= b.base + b.bytes - (uint64_t)(uintptr_t)s->p);
}

static cudaError_t check_host(const struct mt_side *s, uint64_t bytes, const char *what)
{
    if (host_reaches(s, bytes))
        return cudaSuccess;
    mt_failed_range(what, s->p, bytes);
    return cudaErrorInvalidValue;
}

/* Checks one side by the direction of the copy, with a detailed message if the direction is reversed. */
static cudaError_t copy_check_side(enum cudaMemcpyKind kind, const struct mt_side *s, uint64_t bytes,
                                   int device, const char *what)
{
    static const char *const kinds[] = {"HostToHost", "HostToDevice", "DeviceToHost", "DeviceToDevice"};
    struct mt_block b;
    int known = s->p && mt_heap_find(s->p, &b);
    cudaError_t e = (device ? check_device : check_host)(s, bytes, what);
    if (e && s->p && known != device)
        mt_failed_turned(kinds[kind], what, s->p);
    return e;
}

static cudaError_t copy_check_any(const struct mt_side *s, uint64_t bytes, const char *what)
{
    struct mt_block b;
    return s->p && mt_heap_find(s->p, &b) ? check_device(s, bytes, what) : check_host(s, bytes, what);
}

/* skip: bit 0: destination, bit 1: source already checked by the maker of the box (arrays, symbols). */
static cudaError_t copy_check(const struct mt_box *b, int skip)
{
    uint64_t dst, src;
    cudaError_t e = cudaSuccess;
    if ((unsigned)b->kind > cudaMemcpyDefault)
        return cudaErrorInvalidMemcpyDirection;
    if (b->height * b->depth > 1 && (b->width > b->dst.pitch || b->width > b->src.pitch))
        return cudaErrorInvalidPitchValue;
    if (copy_span(b, &b->dst, &dst) || copy_span(b, &b->src, &src))
        return cudaErrorInvalidValue;
    int to_device = b->kind == cudaMemcpyHostToDevice || b->kind == cudaMemcpyDeviceToDevice;
    int from_device = b->kind == cudaMemcpyDeviceToHost || b->kind == cudaMemcpyDeviceToDevice;
    if (b->kind == cudaMemcpyDefault) {
        e = skip & 1 ? e : copy_check_any(&b->dst, dst, "destination");
        return e || skip & 2 ? e : copy_check_any(&b->src, src, "source");
    }
    if (!(skip & 1))
        e = copy_check_side(b->kind, &b->dst, dst, to_device, "destination");
    if (!e && !(skip & 2))
        e = copy_check_side(b->kind, &b->src, src, from_device, "source");
    return e;
}

static void copy_move(const struct mt_box *b)
{
    if (b->dst.pitch == b->width && b->src.pitch == b->width && b->depth == 1) {
        memmove(b->dst.p, b->src.p, b->width * b->height);
        return;
    }
    for (size_t z = 0; z < b->depth; z++)
        for (size_t y = 0; y < b->height; y++)
            memmove(b->dst.p + z * b->dst.slice + y * b->dst.pitch,
                    b->src.p + z * b->src.slice + y * b->src.pitch, b->width);
}

/* Returns whether the destination already equals the source. Usually the first bytes differ. */
static int copy_is_held(const struct mt_box *b)
{
    for (size_t z = 0; z < b->depth; z++)
        for (size_t y = 0; y < b->height; y++)
            if (memcmp(b->dst.p + z * b->dst.slice + y * b->dst.pitch,
                       b->src.p + z * b->src.slice + y * b->src.pitch, b->width) != 0)
                return 0;
    return 1;
}

/* ---- execution ---- */

static void copy_perform(const struct mt_copy_op *c)
{
    struct mt_memcpy_line line = {
        .kind = c->kind, .stream = c->stream, .unchanged = mt_tracing() && copy_is_held(&c->moved)};
    copy_note(&c->box, &line, c->op.site);
    copy_move(&c->moved);
}

static int copy_run(struct mt_op *op)
{
    copy_perform((struct mt_copy_op *)op);
    return MT_OP_DONE;
}

static void copy_drop(struct mt_op *op)
{
    free(((struct mt_copy_op *)op)->staged);
}

/* Sets the rest of a copy; op.site is set. */
static void copy_describe(struct mt_copy_op *c, const struct mt_box *b)
{
    c->box = c->moved = *b;
    c->staged = NULL;
    c->kind = mt_copy_kind(b);
    c->stream = -1;
}

static int copy_empty(const struct mt_box *b)
{
    return !b->width || !b->height || !b->depth;
}

static void copy_bind(struct mt_op *op, struct mt_stream *s)
{
    ((struct mt_copy_op *)op)->stream = mt_stream_number_of(s);
}

cudaError_t mt_copy_op(struct mt_op **out, const struct mt_box *b, int skip, const struct mt_host_site *site)
{
    cudaError_t e = copy_empty(b) ? cudaSuccess : copy_check(b, skip);
    if (e)
        return mt_fail(e);
    struct mt_copy_op *c = mt_op_new(sizeof *c, MT_OP_COPY, copy_run);
    if (!c)
        return mt_fail(cudaErrorMemoryAllocation);
    c->op.site = site;
    c->op.drop = copy_drop;
    c->op.bind = copy_bind;
    copy_describe(c, b);
    *out = &c->op;
    return cudaSuccess;
}

/* Returns whether the memory is pageable: the program may reuse it as soon as the call returns. */
static int is_pageable(const struct mt_side *s)
{
    struct mt_block b;
    return !mt_heap_find(s->p, &b);
}

/* Stages the source, rows and planes without gaps. Returns 0, or -1 if it is too large. */
static int copy_stage(struct mt_copy_op *c)
{
    const struct mt_box *b = &c->box;
    size_t plane = b->width * b->height;
    if (plane * b->depth > STAGED_MAX || !(c->staged = malloc(plane * b->depth)))
        return -1;
    struct mt_box aside = *b;
    aside.dst = (struct mt_side){c->staged, b->width, plane};
    copy_move(&aside);
    c->moved.src = aside.dst;
    return 0;
}

/* Copies in the stream's order while the caller waits; does nothing after a failed kernel. */
static void in_turn(struct mt_stream *s, const struct mt_box *b, const struct mt_host_site *site, int granted,
                    struct mt_turn *t)
{
    struct mt_copy_op c = {.op = {.site = site}};
    copy_describe(&c, b);
    c.stream = mt_stream_number_of(s);
    if (!granted)
        mt_turn_begin(t, s);
    if (!copy_empty(b) && !mt_fail_of(s->device))
        copy_perform(&c);
    mt_turn_end(t);
}

/* Queues an asynchronous copy. With pageable memory, its source was read, or its destination written, when
 * the call returns. */
static cudaError_t copy_async(struct mt_stream *s, const struct mt_box *b, int skip,
                              const struct mt_host_site *site)
{
    struct mt_turn t;
    struct mt_op *op;
    int captured = mt_capturing(s);
    int from_program = !captured && !(skip & 2) && is_pageable(&b->src);
    int to_program = !captured && !(skip & 1) && is_pageable(&b->dst);
    if (!captured && mt_turn_try(&t, s, to_program)) {
        in_turn(s, b, site, 1, &t);
        return mt_failed();
    }
    cudaError_t e = to_program ? cudaSuccess : mt_copy_op(&op, b, skip, site);
    if (e)
        return e;
    if (to_program || (from_program && copy_stage((struct mt_copy_op *)op))) {
        if (!to_program)
            mt_op_free(op);
        in_turn(s, b, site, 0, &t);
        return mt_failed();
    }
    copy_bind(op, s);
    return mt_op_submit(s, op);
}

/* Makes a copy between devices in a default stream follow all earlier work of both devices. */
static void copy_between(const struct mt_box *b)
{
    int to = mt_heap_owner(b->dst.p), from = mt_heap_owner(b->src.p);
    if (to < 0 || from < 0 || to == from)
        return;
    mt_stream_wait_all(to);
    mt_stream_wait_all(from);
}

static cudaError_t copy_start(const struct mt_box *b, int skip, cudaStream_t stream, int async)
{
    const struct mt_host_site *site = mt_host_site_take();
    MT_RETURN_IF_FAILED();
    struct mt_stream *s = mt_stream_get(stream);
    if (!s)
        return mt_fail(cudaErrorInvalidResourceHandle);
    cudaError_t e = mt_capture_check(s, async ? MT_CALL_ASYNC : MT_CALL_SYNC);
    if (!e && !async)
        e = mt_capture_check(NULL, MT_CALL_UNSAFE);
    if (e)
        return e;
    e = copy_empty(b) ? cudaSuccess : copy_check(b, skip);
    if (e)
        return mt_fail(e);
    if (s->legacy)
        copy_between(b);
    if (async)
        return copy_empty(b) ? cudaSuccess : copy_async(s, b, skip, site);
    struct mt_turn t;
    in_turn(s, b, site, 0, &t);
    mt_synced();
    return mt_failed_sync();
}

/* ---- linear ---- */

cudaError_t impl_cudaMemcpy(void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind)
{
    struct mt_box b = mt_box_1d(dst, src, bytes, kind);
    return copy_start(&b, 0, NULL, 0);
}

cudaError_t impl_cudaMemcpyAsync(void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind,
                                 cudaStream_t stream)
{
    struct mt_box b = mt_box_1d(dst, src, bytes, kind);
    return copy_start(&b, 0, stream, 1);
}

static cudaError_t copy_peer(void *dst, int to, const void *src, int from, size_t bytes, cudaStream_t stream)
{
    struct mt_box b = mt_box_1d(dst, src, bytes, cudaMemcpyDeviceToDevice);
    int there = mt_device_there(to) && mt_device_there(from);
    return there ? copy_start(&b, 0, stream, 1) : mt_fail(cudaErrorInvalidDevice);
}

cudaError_t impl_cudaMemcpyPeer(void *dst, int dst_device, const void *src, int src_device, size_t bytes)
{
    return copy_peer(dst, dst_device, src, src_device, bytes, NULL);
}

cudaError_t impl_cudaMemcpyPeerAsync(void *dst, int dst_device, const void *src, int src_device, size_t bytes,
                                     cudaStream_t stream)
{
    return copy_peer(dst, dst_device, src, src_device, bytes, stream);
}

cudaError_t impl_cudaMemcpy2D(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width,
                              size_t height, enum cudaMemcpyKind kind)
{
    struct mt_box b = mt_box_2d(dst, dpitch, src, spitch, width, height, kind);
    return copy_start(&b, 0, NULL, 0);
}

cudaError_t impl_cudaMemcpy2DAsync(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width,
                                   size_t height, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    struct mt_box b = mt_box_2d(dst, dpitch, src, spitch, width, height, kind);
    return copy_start(&b, 0, stream, 1);
}

/* ---- symbols ---- */

static cudaError_t symbol_copy(const void *symbol, size_t offset, const void *other, size_t bytes, int to,
                               enum cudaMemcpyKind kind, cudaStream_t stream, int async)
{
    struct mt_box b = mt_box_1d((void *)(uintptr_t)other, other, bytes, kind);
    MT_RETURN_IF_FAILED();
    cudaError_t e = mt_side_symbol(to ? &b.dst : &b.src, symbol, offset, bytes);
    if (!e &&
        (kind == cudaMemcpyHostToHost || kind == (to ? cudaMemcpyDeviceToHost : cudaMemcpyHostToDevice)))
        e = cudaErrorInvalidMemcpyDirection;
    return e ? mt_fail(e) : copy_start(&b, to ? 1 : 2, stream, async);
}

cudaError_t impl_cudaMemcpyToSymbol(const void *symbol, const void *src, size_t bytes, size_t offset,
                                    enum cudaMemcpyKind kind)
{
    return symbol_copy(symbol, offset, src, bytes, 1, kind, NULL, 0);
}

cudaError_t impl_cudaMemcpyToSymbolAsync(const void *symbol, const void *src, size_t bytes, size_t offset,
                                         enum cudaMemcpyKind kind, cudaStream_t stream)
{
    return symbol_copy(symbol, offset, src, bytes, 1, kind, stream, 1);
}

cudaError_t impl_cudaMemcpyFromSymbol(void *dst, const void *symbol, size_t bytes, size_t offset,
                                      enum cudaMemcpyKind kind)
{
    return symbol_copy(symbol, offset, dst, bytes, 0, kind, NULL, 0);
}

cudaError_t impl_cudaMemcpyFromSymbolAsync(void *dst, const void *symbol, size_t bytes, size_t offset,
                                           enum cudaMemcpyKind kind, cudaStream_t stream)
{
    return symbol_copy(symbol, offset, dst, bytes, 0, kind, stream, 1);
}

/* ---- 3-D ---- */

static cudaError_t copy_3d(const struct cudaMemcpy3DParms *p, cudaStream_t stream, int async)
{
    struct mt_box b;
    MT_RETURN_IF_FAILED();
    cudaError_t e = p ? mt_box_3d(&b, p) : cudaErrorInvalidValue;
    return e ? mt_fail(e) : copy_start(&b, (p->dstArray ? 1 : 0) | (p->srcArray ? 2 : 0), stream, async);
}

static cudaError_t copy_3d_peer(const struct cudaMemcpy3DPeerParms *p, cudaStream_t stream)
{
    struct mt_box b;
    MT_RETURN_IF_FAILED();
    cudaError_t e = p ? box_3d_peer(&b, p) : cudaErrorInvalidValue;
    if (!e && (!mt_device_there(p->srcDevice) || !mt_device_there(p->dstDevice)))
        e = cudaErrorInvalidDevice;
    return e ? mt_fail(e) : copy_start(&b, (p->dstArray ? 1 : 0) | (p->srcArray ? 2 : 0), stream, 1);
}

cudaError_t impl_cudaMemcpy3D(const struct cudaMemcpy3DParms *p)
{
    return copy_3d(p, NULL, 0);
}

cudaError_t impl_cudaMemcpy3DAsync(const struct cudaMemcpy3DParms *p, cudaStream_t stream)
{
    return copy_3d(p, stream, 1);
}

cudaError_t impl_cudaMemcpy3DPeer(const struct cudaMemcpy3DPeerParms *p)
{
    return copy_3d_peer(p, NULL);
}

cudaError_t impl_cudaMemcpy3DPeerAsync(const struct cudaMemcpy3DPeerParms *p, cudaStream_t stream)
{
    return copy_3d_peer(p, stream);
}

/* ---- arrays ---- */

static cudaError_t array_copy(struct mt_box *b, cudaArray_const_t array, size_t x, size_t y, int to,
                              cudaStream_t stream, int async)
{
    MT_RETURN_IF_FAILED();
    cudaError_t e = side_array(to ? &b->dst : &b->src, array, x, y, b->width, b->height);
    return e ? mt_fail(e) : copy_start(b, to ? 1 : 2, stream, async);
}

cudaError_t impl_cudaMemcpy2DToArrayAsync(cudaArray_t dst, size_t x, size_t y, const void *src, size_t spitch,
                                          size_t width, size_t height, enum cudaMemcpyKind kind,
                                          cudaStream_t stream)
{
    struct mt_box b = mt_box_2d(NULL, width, src, spitch, width, height, kind);
    return array_copy(&b, dst, x, y, 1, stream, 1);
}

cudaError_t impl_cudaMemcpy2DToArray(cudaArray_t dst, size_t x, size_t y, const void *src, size_t spitch,
                                     size_t width, size_t height, enum cudaMemcpyKind kind)
{
    struct mt_box b = mt_box_2d(NULL, width, src, spitch, width, height, kind);
    return array_copy(&b, dst, x, y, 1, NULL, 0);
}

cudaError_t impl_cudaMemcpy2DFromArrayAsync(void *dst, size_t dpitch, cudaArray_const_t src, size_t x,
                                            size_t y, size_t width, size_t height, enum cudaMemcpyKind kind,
                                            cudaStream_t stream)
{
    struct mt_box b = mt_box_2d(dst, dpitch, NULL, width, width, height, kind);
    return array_copy(&b, src, x, y, 0, stream, 1);
}

cudaError_t impl_cudaMemcpy2DFromArray(void *dst, size_t dpitch, cudaArray_const_t src, size_t x, size_t y,
                                       size_t width, size_t height, enum cudaMemcpyKind kind)
{
    struct mt_box b = mt_box_2d(dst, dpitch, NULL, width, width, height, kind);
    return array_copy(&b, src, x, y, 0, NULL, 0);
}

cudaError_t impl_cudaMemcpyToArray(cudaArray_t dst, size_t x, size_t y, const void *src, size_t bytes,
                                   enum cudaMemcpyKind kind)
{
    struct mt_box b = mt_box_1d(NULL, src, bytes, kind);
    return array_copy(&b, dst, x, y, 1, NULL, 0);
}

cudaError_t impl_cudaMemcpyToArrayAsync(cudaArray_t dst, size_t x, size_t y, const void *src, size_t bytes,
                                        enum cudaMemcpyKind kind, cudaStream_t stream)
{
    struct mt_box b = mt_box_1d(NULL, src, bytes, kind);
    return array_copy(&b, dst, x, y, 1, stream, 1);
}

cudaError_t impl_cudaMemcpyFromArray(void *dst, cudaArray_const_t src, size_t x, size_t y, size_t bytes,
                                     enum cudaMemcpyKind kind)
{
    struct mt_box b = mt_box_1d(dst, NULL, bytes, kind);
    return array_copy(&b, src, x, y, 0, NULL, 0);
}

cudaError_t impl_cudaMemcpyFromArrayAsync(void *dst, cudaArray_const_t src, size_t x, size_t y, size_t bytes,
                                          enum cudaMemcpyKind kind, cudaStream_t stream)
{
    struct mt_box b = mt_box_1d(dst, NULL, bytes, kind);
    return array_copy(&b, src, x, y, 0, stream, 1);
}

static cudaError_t array_to_array(struct mt_box *b, cudaArray_t dst, size_t dx, size_t dy,
                                  cudaArray_const_t src, size_t sx, size_t sy)
{
    MT_RETURN_IF_FAILED();
    cudaError_t e = side_array(&b->dst, dst, dx, dy, b->width, b->height);
    if (!e)
        e = side_array(&b->src, src, sx, sy, b->width, b->height);
    return e ? mt_fail(e) : copy_start(b, 3, NULL, 1);
}

cudaError_t impl_cudaMemcpy2DArrayToArray(cudaArray_t dst, size_t dx, size_t dy, cudaArray_const_t src,
                                          size_t sx, size_t sy, size_t width, size_t height,
                                          enum cudaMemcpyKind kind)
{
    struct mt_box b = mt_box_2d(NULL, width, NULL, width, width, height, kind);
    return array_to_array(&b, dst, dx, dy, src, sx, sy);
}

cudaError_t impl_cudaMemcpyArrayToArray(cudaArray_t dst, size_t dx, size_t dy, cudaArray_const_t src,
                                        size_t sx, size_t sy, size_t bytes, enum cudaMemcpyKind kind)
{
    struct mt_box b = mt_box_1d(NULL, NULL, bytes, kind);
    return array_to_array(&b, dst, dx, dy, src, sx, sy);
}

/* Recorders of fills. A 3-D fill is logged as one 2-D fill per plane. On a GPU, fills are logged at the
 * program's call; the CPU device logs each fill when it is executed. */

void mt_fill_note(const struct mt_fill *f, int64_t stream, const struct mt_host_site *site)
{
    struct mt_planes dst = {(uint64_t)(uintptr_t)f->p, f->pitch, f->slice, -1};
    mt_planes_filled(dst, (struct mt_planes_size){f->width, f->height, f->depth}, (unsigned char)f->value,
                     stream, site);
}

/* Returns the site on a GPU. The CPU device takes it itself, maybe after the arguments of note() are
 * evaluated. */
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

static cudaError_t record_fill_note_3d(cudaError_t e, struct cudaPitchedPtr p, int value,
                                       struct cudaExtent extent, cudaStream_t stream)
{
    size_t slice = p.pitch * (p.ysize ? p.ysize : extent.height);
    struct mt_fill f = {p.ptr, p.pitch, slice, extent.width, extent.height, extent.depth, value, 1};
    return note_box(e, f, stream, site_on_gpu());
}

cudaError_t rec_cudaMemset3D(struct cudaPitchedPtr p, int value, struct cudaExtent extent)
{
    return record_fill_note_3d(MT_NEXT(cudaMemset3D)(p, value, extent), p, value, extent, NULL);
}

cudaError_t rec_cudaMemset3DAsync(struct cudaPitchedPtr p, int value, struct cudaExtent extent,
                                  cudaStream_t stream)
{
    return record_fill_note_3d(MT_NEXT(cudaMemset3DAsync)(p, value, extent, stream), p, value, extent,
                               stream);
}

/* ---- cudaMemset in all its forms, on the CPU device ---- */

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
    struct mt_fill_op *f = (struct mt_fill_op *)op;
    fill_perform(&f->fill, f->stream, op->site);
    return MT_OP_DONE;
}

/* *host: the program can read the memory without a copy. */
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

static void fill_bind(struct mt_op *op, struct mt_stream *s)
{
    ((struct mt_fill_op *)op)->stream = mt_stream_number_of(s);
}

cudaError_t mt_fill_op(struct mt_op **out, const struct mt_fill *f, const struct mt_host_site *site)
{
    int host;
    cudaError_t e = fill_empty(f) ? cudaSuccess : fill_check(f, &host);
    if (e)
        return mt_fail(e);
    struct mt_fill_op *o = mt_op_new(sizeof *o, MT_OP_FILL, fill_run);
    if (!o)
        return mt_fail(cudaErrorMemoryAllocation);
    o->op.site = site;
    o->op.bind = fill_bind;
    o->fill = *f;
    o->stream = -1;
    *out = &o->op;
    return cudaSuccess;
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
    int turn = !mt_capturing(s) && mt_turn_try(&t, s, sync && host);
    if (!turn && !(sync && host)) {
        e = mt_fill_op(&op, &f, site);
        if (e)
            return e;
        fill_bind(op, s);
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
