/* CUDA arrays on the CPU device: memory of the host, row-major,
 * which kernels reach through textures and surfaces. */
#include "array.h"
#include "api/device/device.h"
#include "api/entry.h"
#include "api/tables/error.h"
#include "api/tables/map.h"
#include "api/streams/stream.h"
#include "base/fork.h"
#include <stdint.h>
#include <stdlib.h>

static struct mt_map arrays = MT_MAP_INIT, mipmaps = MT_MAP_INIT;
MT_FORK_TABLE(arrays);
MT_FORK_TABLE(mipmaps);

struct mt_array *mt_array_get(cudaArray_const_t a)
{
    return mt_map_get(&arrays, a);
}

struct mt_mipmap *mt_mipmap_get(cudaMipmappedArray_const_t m)
{
    return mt_map_get(&mipmaps, m);
}

/* ---- what can be asked for ---- */

size_t mt_channel_bytes(const struct cudaChannelFormatDesc *d)
{
    int n = d->w ? 4 : d->z ? 3 : d->y ? 2 : 1;
    int same = (n < 2 || d->y == d->x) && (n < 4 || (d->z == d->x && d->w == d->x));
    if (n == 3 || !same || (d->x != 8 && d->x != 16 && d->x != 32))
        return 0;
    if (d->f == cudaChannelFormatKindFloat && d->x == 8)
        return 0;
    return (size_t)(n * d->x) / 8;
}

/* Formats that CUDA has and this device has not. */
static int array_unsupported(const struct cudaChannelFormatDesc *d)
{
#if CUDART_VERSION >= 11050
    return d->f == cudaChannelFormatKindNV12 || d->f >= cudaChannelFormatKindUnsignedBlockCompressed1;
#else
    return 0;
#endif
}

static int array_within(struct cudaExtent e, size_t width, size_t height, size_t depth)
{
    return e.width <= width && e.height <= height && e.depth <= depth;
}

/* The shapes that CUDA's documentation of cudaMalloc3DArray lists, with an H100's limits. */
static int shape_fits(struct cudaExtent e, unsigned flags)
{
    int layered = (flags & cudaArrayLayered) != 0, gather = (flags & cudaArrayTextureGather) != 0;
    if (!e.width)
        return 0;
    if (flags & cudaArrayCubemap)
        return e.width == e.height && (layered ? e.depth && e.depth % 6 == 0 : e.depth == 6) && !gather &&
               array_within(e, 32768, 32768, 2046);
    if (layered)
        return e.depth && (e.height || !gather) && array_within(e, 32768, 32768, 2048);
    if (e.depth)
        return e.height && !gather && array_within(e, 16384, 16384, 16384);
    if (e.height)
        return gather ? array_within(e, 32768, 32768, 0) : array_within(e, 131072, 65536, 0);
    return !gather && array_within(e, 131072, 0, 0);
}

static cudaError_t array_check(const struct cudaChannelFormatDesc *desc, struct cudaExtent extent,
                               unsigned flags)
{
    const unsigned known =
        cudaArrayLayered | cudaArraySurfaceLoadStore | cudaArrayCubemap | cudaArrayTextureGather;
    const unsigned other = cudaArrayColorAttachment | 0x40 | 0x80; /* sparse and deferred arrays */
    if (!desc || flags & ~(known | other))
        return cudaErrorInvalidValue;
    if (array_unsupported(desc) || flags & other)
        return cudaErrorNotSupported;
    if (!mt_channel_bytes(desc))
        return cudaErrorInvalidChannelDescriptor;
    return shape_fits(extent, flags) ? cudaSuccess : cudaErrorInvalidValue;
}

/* ---- arrays ---- */

/* Everything but the memory and the entry in the map; NULL: out of memory. */
static struct mt_array *array_make(const struct cudaChannelFormatDesc *desc, struct cudaExtent extent,
                                   unsigned flags)
{
    struct mt_array *a = calloc(1, sizeof *a);
    if (!a)
        return NULL;
    a->device = mt_device_current();
    a->desc = *desc;
    a->extent = extent;
    a->flags = flags;
    a->element = mt_channel_bytes(desc);
    a->rows = extent.height ? extent.height : 1;
    a->planes = extent.depth ? extent.depth : 1;
    a->pitch = extent.width * a->element; /* the limits of shape_fits keep all of this far below 2^64 */
    a->slice = a->pitch * a->rows;
    return a;
}

cudaError_t impl_cudaMalloc3DArray(cudaArray_t *out, const struct cudaChannelFormatDesc *desc,
                                   struct cudaExtent extent, unsigned flags)
{
    MT_RETURN_IF_FAILED();
    cudaError_t e = out ? array_check(desc, extent, flags) : cudaErrorInvalidValue;
    if (e)
        return mt_fail(e);
    struct mt_array *a = array_make(desc, extent, flags);
    if (!a)
        return mt_fail(cudaErrorMemoryAllocation);
    a->data = mt_heap_alloc(mt_device_current(), a->slice * a->planes, MT_HEAP_DEVICE, 0);
    if (!a->data || mt_map_set(&arrays, a, a)) {
        if (a->data)
            mt_heap_free(a->data, 1u << MT_HEAP_DEVICE);
        free(a);
        return mt_fail(cudaErrorMemoryAllocation);
    }
    *out = (cudaArray_t)a;
    return cudaSuccess;
}

cudaError_t impl_cudaMallocArray(cudaArray_t *out, const struct cudaChannelFormatDesc *desc, size_t width,
                                 size_t height, unsigned flags)
{
    if (flags & (cudaArrayLayered | cudaArrayCubemap)) /* these have a depth */
        return mt_fail(cudaErrorInvalidValue);
    return impl_cudaMalloc3DArray(out, desc, (struct cudaExtent){width, height, 0}, flags);
}

cudaError_t impl_cudaFreeArray(cudaArray_t handle)
{
    MT_RETURN_IF_FAILED();
    if (!handle)
        return cudaSuccess;
    struct mt_array *a = mt_array_get(handle);
    if (!a || a->mipmap || !mt_map_take(&arrays, handle))
        return mt_fail(cudaErrorInvalidValue);
    mt_stream_wait_all(MT_ALL_DEVICES);
    mt_heap_free(a->data, 1u << MT_HEAP_DEVICE);
    free(a);
    return cudaSuccess;
}

/* ---- mipmapped arrays ---- */

static size_t array_half(size_t n)
{
    return n > 1 ? n / 2 : n;
}

static unsigned levels_of(struct cudaExtent e, unsigned flags)
{
    size_t longest = e.width > e.height ? e.width : e.height;
    unsigned n = 1;
    if (!(flags & (cudaArrayLayered | cudaArrayCubemap)) && e.depth > longest)
        longest = e.depth;
    while (longest >>= 1)
        n++;
    return n;
}

static void array_drop(struct mt_mipmap *m)
{
    if (m->nlevels && m->level[0] && m->level[0]->data)
        mt_heap_free(m->level[0]->data, 1u << MT_HEAP_DEVICE);
    for (unsigned i = 0; i < m->nlevels; i++) {
        mt_map_take(&arrays, m->level[i]);
        free(m->level[i]);
    }
    free(m);
}

/* Levels without memory. 0 or -1. */
static int make_levels(struct mt_mipmap *m, const struct cudaChannelFormatDesc *desc,
                       struct cudaExtent extent, unsigned flags, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        struct mt_array *a = array_make(desc, extent, flags);
        if (!a)
            return -1;
        m->level[m->nlevels++] = a;
        a->mipmap = m;
        m->bytes += (a->slice * a->planes + 511) / 512 * 512;
        extent.width = array_half(extent.width);
        extent.height = array_half(extent.height);
        if (!(flags & (cudaArrayLayered | cudaArrayCubemap)))
            extent.depth = array_half(extent.depth);
    }
    return 0;
}

cudaError_t impl_cudaMallocMipmappedArray(cudaMipmappedArray_t *out, const struct cudaChannelFormatDesc *desc,
                                          struct cudaExtent extent, unsigned nlevels, unsigned flags)
{
    MT_RETURN_IF_FAILED();
    cudaError_t e = out ? array_check(desc, extent, flags) : cudaErrorInvalidValue;
    if (e)
        return mt_fail(e);
    unsigned most = levels_of(extent, flags);
    nlevels = !nlevels ? 1 : nlevels > most ? most : nlevels;
    struct mt_mipmap *m = calloc(1, sizeof *m);
    char *data = NULL;
    if (m)
        m->device = mt_device_current();
    int failed = !m || make_levels(m, desc, extent, flags, nlevels) ||
                 !(data = mt_heap_alloc(mt_device_current(), m->bytes, MT_HEAP_DEVICE, 0)) ||
                 mt_map_set(&mipmaps, m, m);
    if (m && m->nlevels && m->level[0])
        m->level[0]->data = data;
    for (unsigned i = 0; !failed && i < nlevels; i++) {
        struct mt_array *a = m->level[i];
        a->data = data;
        data += (a->slice * a->planes + 511) / 512 * 512;
        failed = mt_map_set(&arrays, a, a);
    }
    if (failed) {
        mt_map_take(&mipmaps, m);
        if (m)
            array_drop(m);
        return mt_fail(cudaErrorMemoryAllocation);
    }
    *out = (cudaMipmappedArray_t)m;
    return cudaSuccess;
}

cudaError_t impl_cudaGetMipmappedArrayLevel(cudaArray_t *out, cudaMipmappedArray_const_t handle,
                                            unsigned level)
{
    MT_RETURN_IF_FAILED();
    struct mt_mipmap *m = mt_mipmap_get(handle);
    if (!m)
        return mt_fail(cudaErrorInvalidResourceHandle);
    if (!out || level >= m->nlevels)
        return mt_fail(cudaErrorInvalidValue);
    *out = (cudaArray_t)m->level[level];
    return cudaSuccess;
}

cudaError_t impl_cudaFreeMipmappedArray(cudaMipmappedArray_t handle)
{
    MT_RETURN_IF_FAILED();
    if (!handle)
        return cudaSuccess;
    struct mt_mipmap *m = mt_map_take(&mipmaps, handle);
    if (!m)
        return mt_fail(cudaErrorInvalidValue);
    mt_stream_wait_all(MT_ALL_DEVICES);
    array_drop(m);
    return cudaSuccess;
}

/* ---- questions ---- */

cudaError_t impl_cudaArrayGetInfo(struct cudaChannelFormatDesc *desc, struct cudaExtent *extent,
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

cudaError_t impl_cudaGetChannelDesc(struct cudaChannelFormatDesc *desc, cudaArray_const_t handle)
{
    if (!desc)
        return mt_fail(cudaErrorInvalidValue);
    return impl_cudaArrayGetInfo(desc, NULL, NULL, (cudaArray_t)(uintptr_t)handle);
}

struct cudaChannelFormatDesc impl_cudaCreateChannelDesc(int x, int y, int z, int w,
                                                        enum cudaChannelFormatKind f)
{
    return (struct cudaChannelFormatDesc){x, y, z, w, f};
}

/* ---- cudaDeviceReset ---- */

struct array_search {
    int device;
    void *found;
};

static void array_look(void *value, void *ctx)
{
    struct array_search *l = ctx;
    if (*(const int *)value == l->device)
        l->found = value;
}

static void array_empty(struct mt_map *m, int device)
{
    for (;;) {
        struct array_search l = {device, NULL};
        mt_map_each(m, array_look, &l);
        if (!l.found)
            return;
        mt_map_take(m, l.found);
        free(l.found);
    }
}

void mt_arrays_reset(int device)
{
    array_empty(&arrays, device);
    array_empty(&mipmaps, device);
}
