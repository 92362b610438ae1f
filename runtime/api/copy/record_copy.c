/* Recorders of copies. A 3-D copy is written down as one 2-D copy per plane. On a GPU they write down what
 * the program asks for, when it asks; the CPU device writes down each copy when it carries it out. */
#include "api/memory/box.h"
#include "copy.h"
#include "api/device/device.h"
#include "api/entry.h"
#include "trace/events.h"
#include "trace/objects.h"
#include "api/streams/stream.h"
#include "trace/planes.h"
#include "trace/site.h"
#include <stdint.h>
#include <string.h>

static uint64_t record_copy_address(const void *p)
{
    return (uint64_t)(uintptr_t)p;
}

static int is_device(const void *p)
{
    struct mt_block b;
    return mt_object_is_device(p) || (mt_heap_find(p, &b) && b.kind == MT_HEAP_SYMBOL);
}

const char *mt_copy_kind(const struct mt_box *b)
{
    static const char *const names[] = {"h2h", "h2d", "d2h", "d2d"};
    if ((unsigned)b->kind < cudaMemcpyDefault)
        return names[b->kind];
    return names[(is_device(b->dst.p) ? 1 : 0) | (is_device(b->src.p) ? 2 : 0)];
}

void mt_copy_note(const struct mt_box *b, const struct mt_memcpy_line *what, const struct mt_host_site *site)
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
        mt_copy_note(b, &(struct mt_memcpy_line){.kind = mt_copy_kind(b), .stream = mt_stream_number(stream)},
                     site);
    return e;
}

/* Evaluates `call`, then writes down the box. */
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

static cudaError_t note_3d(cudaError_t e, const struct cudaMemcpy3DParms *p, cudaStream_t stream)
{
    struct mt_box b = {0};
    return record_copy_note(e, e || mt_box_3d(&b, p) ? &(struct mt_box){0} : &b, stream);
}

static cudaError_t note_3d_peer(cudaError_t e, const struct cudaMemcpy3DPeerParms *p, cudaStream_t stream)
{
    struct mt_box b = {0};
    return record_copy_note(e, e || mt_box_3d_peer(&b, p) ? &(struct mt_box){0} : &b, stream);
}

cudaError_t rec_cudaMemcpy3D(const struct cudaMemcpy3DParms *p)
{
    return note_3d(MT_NEXT(cudaMemcpy3D)(p), p, NULL);
}

cudaError_t rec_cudaMemcpy3DAsync(const struct cudaMemcpy3DParms *p, cudaStream_t stream)
{
    return note_3d(MT_NEXT(cudaMemcpy3DAsync)(p, stream), p, stream);
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
        b.kind = is_device(other) ? cudaMemcpyDeviceToDevice
                 : to             ? cudaMemcpyHostToDevice
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

static cudaError_t note_array(cudaError_t e, struct mt_box b, cudaArray_const_t dst, size_t dx, size_t dy,
                              cudaArray_const_t src, size_t sx, size_t sy, cudaStream_t stream)
{
    if (!e && dst)
        mt_side_array(&b.dst, dst, dx, dy, b.width, b.height);
    if (!e && src)
        mt_side_array(&b.src, src, sx, sy, b.width, b.height);
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
