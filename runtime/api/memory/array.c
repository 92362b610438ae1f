/* Arrays, textures and surfaces of the CPU device, and both sides of a copy. */
#include "memory.h"
#include "api/device/device.h"
#include "api/entry.h"
#include "api/tables/error.h"
#include "api/tables/map.h"
#include "api/streams/stream.h"
#include "base/fork.h"
#include "cpu/texture.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

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

/* ---- valid requests ---- */

/* Returns the bytes of an element, or 0 if invalid: valid are 1, 2 or 4 channels of 8, 16 or 32 bits. */
static size_t channel_bytes(const struct cudaChannelFormatDesc *d)
{
    int n = d->w ? 4 : d->z ? 3 : d->y ? 2 : 1;
    int same = (n < 2 || d->y == d->x) && (n < 4 || (d->z == d->x && d->w == d->x));
    if (n == 3 || !same || (d->x != 8 && d->x != 16 && d->x != 32))
        return 0;
    if (d->f == cudaChannelFormatKindFloat && d->x == 8)
        return 0;
    return (size_t)(n * d->x) / 8;
}

/* Returns 1 for CUDA formats that this device lacks. */
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

/* Checks a shape against the list for cudaMalloc3DArray in CUDA's documentation, with an H100's limits. */
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
    if (!channel_bytes(desc))
        return cudaErrorInvalidChannelDescriptor;
    return shape_fits(extent, flags) ? cudaSuccess : cudaErrorInvalidValue;
}

/* ---- arrays ---- */

/* Makes an array without memory and without its entry in the map. Returns NULL if out of memory. */
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
    a->element = channel_bytes(desc);
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
    if (flags & (cudaArrayLayered | cudaArrayCubemap)) /* layered arrays and cubes have a depth */
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

/* Makes levels without memory. Returns 0 or -1. */
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

/* ---- queries ---- */

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

/* A structure for copies of any shape: 1-D, 2-D and 3-D copies, arrays and symbols are all reduced to it. */

struct mt_box mt_box_1d(void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind)
{
    return mt_box_2d(dst, bytes, src, bytes, bytes, 1, kind);
}

struct mt_box mt_box_2d(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height,
                        enum cudaMemcpyKind kind)
{
    return (struct mt_box){
        .dst = {dst, dpitch, dpitch * height},
        .src = {(char *)(uintptr_t)src, spitch, spitch * height},
        .width = width,
        .height = height,
        .depth = 1,
        .kind = kind,
    };
}

/* Fills one side of a 3-D copy: an array (pos.x in elements) or pitched memory (pos.x in bytes). */
static cudaError_t side_3d(struct mt_side *s, cudaArray_t array, struct cudaPitchedPtr ptr,
                           struct cudaPos pos, const struct mt_box *b)
{
    if (array && ptr.ptr)
        return cudaErrorInvalidValue;
    if (array) {
        struct mt_array *a = mt_array_get(array);
        if (!a) { /* an array of a GPU, without address */
            *s = (struct mt_side){(char *)array, 0, 0};
            return mt_device_is_gpu() ? cudaSuccess : cudaErrorInvalidResourceHandle;
        }
        size_t x;
        if (__builtin_mul_overflow(pos.x, a->element, &x) || x > a->pitch || b->width > a->pitch - x ||
            pos.y > a->rows || b->height > a->rows - pos.y || pos.z > a->planes ||
            b->depth > a->planes - pos.z)
            return cudaErrorInvalidValue;
        *s = (struct mt_side){a->data + x + pos.y * a->pitch + pos.z * a->slice, a->pitch, a->slice};
        return cudaSuccess;
    }
    size_t rows = ptr.ysize ? ptr.ysize : b->height;
    *s = (struct mt_side){(char *)ptr.ptr + pos.x + (pos.y + pos.z * rows) * ptr.pitch, ptr.pitch,
                          ptr.pitch * rows};
    return ptr.ptr ? cudaSuccess : cudaErrorInvalidValue;
}

/* Returns the unit of the extent: elements if an array takes part. */
static size_t box_element(cudaArray_t a, cudaArray_t b)
{
    cudaArray_t one = a ? a : b;
    struct mt_array *known = one ? mt_array_get(one) : NULL;
    struct cudaChannelFormatDesc d;
    if (known)
        return known->element;
    if (one && mt_device_is_gpu() && !MT_NEXT(cudaArrayGetInfo)(&d, NULL, NULL, one))
        return (size_t)(d.x + d.y + d.z + d.w) / 8;
    return 1;
}

cudaError_t mt_box_3d(struct mt_box *b, const struct cudaMemcpy3DParms *p)
{
    size_t scale = box_element(p->srcArray, p->dstArray);
    if (p->srcArray && p->dstArray && scale != box_element(p->dstArray, NULL))
        return cudaErrorInvalidValue;
    *b = (struct mt_box){.width = p->extent.width * scale,
                         .height = p->extent.height,
                         .depth = p->extent.depth,
                         .kind = p->kind};
    cudaError_t e = side_3d(&b->dst, p->dstArray, p->dstPtr, p->dstPos, b);
    return e ? e : side_3d(&b->src, p->srcArray, p->srcPtr, p->srcPos, b);
}

cudaError_t mt_side_symbol(struct mt_side *s, const void *symbol, size_t offset, size_t bytes)
{
    void *p = NULL;
    size_t size = 0;
    cudaError_t e = MT_NEXT(cudaGetSymbolAddress)(&p, symbol);
    if (!e)
        e = MT_NEXT(cudaGetSymbolSize)(&size, symbol);
    if (e)
        return e;
    *s = (struct mt_side){(char *)p + offset, bytes, bytes};
    return offset > size || bytes > size - offset ? cudaErrorInvalidValue : cudaSuccess;
}

/* Texture and surface objects: CUDA's descriptions, checked and converted for the sampler
 * (runtime/cpu/texture.h). */

/* Object of a handle; the map's key is the handle. */
struct texture {
    int device; /* owner; first field */
    struct mt_texture sampler;
    uint64_t handle;
    struct cudaResourceDesc resource;
    struct cudaTextureDesc texture;
    struct cudaResourceViewDesc view;
    int has_view;
};
struct surface {
    int device; /* owner; first field */
    struct mt_surface access;
    uint64_t handle;
    struct cudaResourceDesc resource;
};
static struct mt_map textures = MT_MAP_INIT, surfaces = MT_MAP_INIT;
MT_FORK_TABLE(textures);
MT_FORK_TABLE(surfaces);

static const void *texture_key(uint64_t handle)
{
    return (const void *)(uintptr_t)handle;
}

/* ---- formats ---- */

/* Converts a channel format for the sampler, in read mode element type. Returns 0 or -1. */
static int texel_kind(const struct cudaChannelFormatDesc *d, enum mt_texel_kind *kind)
{
    int f = (int)d->f;
    if (f == cudaChannelFormatKindSigned || f == cudaChannelFormatKindUnsigned)
        *kind = f == cudaChannelFormatKindSigned ? MT_TEXEL_SIGNED : MT_TEXEL_UNSIGNED;
    else if (f == cudaChannelFormatKindFloat)
        *kind = MT_TEXEL_FLOAT;
#if CUDART_VERSION >= 11050
    else if (f >= cudaChannelFormatKindUnsignedNormalized8X1 &&
             f <= cudaChannelFormatKindUnsignedNormalized16X4)
        *kind = MT_TEXEL_UNORM;
    else if (f >= cudaChannelFormatKindSignedNormalized8X1 && f <= cudaChannelFormatKindSignedNormalized16X4)
        *kind = MT_TEXEL_SNORM;
#endif
    else
        return -1;
    return 0;
}

/* Converts the element format of a resource view; block-compressed ones are not supported. Returns 0 or -1.
 */
static int view_format(enum cudaResourceViewFormat f, struct cudaChannelFormatDesc *d)
{
    static const struct {
        int bits;
        enum cudaChannelFormatKind kind;
    } table[] = {
        {8, cudaChannelFormatKindUnsigned},  {8, cudaChannelFormatKindSigned},
        {16, cudaChannelFormatKindUnsigned}, {16, cudaChannelFormatKindSigned},
        {32, cudaChannelFormatKindUnsigned}, {32, cudaChannelFormatKindSigned},
        {16, cudaChannelFormatKindFloat},    {32, cudaChannelFormatKindFloat},
    };
    if (f < cudaResViewFormatUnsignedChar1 || f > cudaResViewFormatFloat4)
        return -1;
    unsigned i = (unsigned)f - cudaResViewFormatUnsignedChar1;
    int bits = table[i / 3].bits, n = 1 << i % 3;
    *d = (struct cudaChannelFormatDesc){bits, n > 1 ? bits : 0, n > 2 ? bits : 0, n > 2 ? bits : 0,
                                        table[i / 3].kind};
    return 0;
}

static cudaError_t set_format(struct mt_texture *t, const struct cudaChannelFormatDesc *d,
                              const struct cudaTextureDesc *x)
{
    enum mt_texel_kind kind;
    unsigned bytes = (unsigned)channel_bytes(d), bits = (unsigned)d->x;
    if (!bytes || texel_kind(d, &kind))
        return cudaErrorInvalidChannelDescriptor;
    /* CUDA never promotes 32-bit integers. */
    if (x->readMode == cudaReadModeNormalizedFloat && bits < 32 && kind == MT_TEXEL_UNSIGNED)
        kind = x->sRGB && bits == 8 ? MT_TEXEL_SRGB : MT_TEXEL_UNORM;
    else if (x->readMode == cudaReadModeNormalizedFloat && bits < 32 && kind == MT_TEXEL_SIGNED)
        kind = MT_TEXEL_SNORM;
    if ((t->linear || t->linear_levels) && (kind == MT_TEXEL_SIGNED || kind == MT_TEXEL_UNSIGNED))
        return cudaErrorInvalidFilterSetting;
    t->bytes = bytes;
    t->channels = (int)(bytes * 8 / bits);
    t->floats = kind == MT_TEXEL_FLOAT && bits == 32;
    t->load = mt_texel_loader(kind, bits, (unsigned)t->channels);
    return t->load ? cudaSuccess : cudaErrorInvalidChannelDescriptor;
}

static cudaError_t set_mode(struct mt_texture *t, const struct cudaTextureDesc *x)
{
    static const uint8_t modes[] = {[cudaAddressModeWrap] = MT_TEX_WRAP,
                                    [cudaAddressModeClamp] = MT_TEX_CLAMP,
                                    [cudaAddressModeMirror] = MT_TEX_MIRROR,
                                    [cudaAddressModeBorder] = MT_TEX_BORDER};
    if ((unsigned)x->filterMode > cudaFilterModeLinear ||
        (unsigned)x->mipmapFilterMode > cudaFilterModeLinear ||
        (unsigned)x->readMode > cudaReadModeNormalizedFloat)
        return cudaErrorInvalidValue;
    for (int d = 0; d < 3; d++) {
        if ((unsigned)x->addressMode[d] > cudaAddressModeBorder)
            return cudaErrorInvalidValue;
        t->address[d] = modes[x->addressMode[d]];
    }
    t->normalized = x->normalizedCoords != 0;
    t->linear = x->filterMode == cudaFilterModeLinear;
    t->linear_levels = x->mipmapFilterMode == cudaFilterModeLinear;
    t->bias = x->mipmapLevelBias;
    t->low = x->minMipmapLevelClamp;
    t->high = x->maxMipmapLevelClamp;
#if CUDART_VERSION >= 11060
    t->seamless = x->seamlessCubemap != 0;
#endif
    memcpy(t->border, x->borderColor, sizeof t->border);
    return cudaSuccess;
}

/* ---- resources ---- */

static struct mt_tex_level level_of(const struct mt_array *a)
{
    int layered = (a->flags & (cudaArrayLayered | cudaArrayCubemap)) != 0;
    return (struct mt_tex_level){
        .data = a->data,
        .size = {(int)a->extent.width, (int)a->rows, layered ? 1 : (int)a->planes},
        .pitch = a->pitch,
        .slice = a->slice,
    };
}

static int layers_of(const struct mt_array *a)
{
    return a->flags & (cudaArrayLayered | cudaArrayCubemap) ? (int)a->planes : 1;
}

/* Returns whether the device can access all of a linear or pitched memory range. */
static int texture_reachable(const void *p, uint64_t bytes)
{
    struct mt_block b;
    return p && !((uintptr_t)p % MT_DEV_ALIGN) && mt_heap_find(p, &b) &&
           bytes <= b.base + b.bytes - (uint64_t)(uintptr_t)p;
}

static cudaError_t set_linear(struct mt_texture *t, const struct cudaResourceDesc *r,
                              struct cudaChannelFormatDesc *d)
{
    *d = r->res.linear.desc;
    size_t bytes = channel_bytes(d), n = bytes ? r->res.linear.sizeInBytes / bytes : 0;
    if (!bytes)
        return cudaErrorInvalidChannelDescriptor;
    if (!n || n > MT_DEV_TEXTURE_LINEAR ||
        !texture_reachable(r->res.linear.devPtr, r->res.linear.sizeInBytes))
        return cudaErrorInvalidValue;
    t->level[0] = (struct mt_tex_level){r->res.linear.devPtr, {(int)n, 1, 1}, n * bytes, n * bytes};
    t->linear_memory = 1;
    return cudaSuccess;
}

static cudaError_t set_pitched(struct mt_texture *t, const struct cudaResourceDesc *r,
                               struct cudaChannelFormatDesc *d)
{
    *d = r->res.pitch2D.desc;
    size_t bytes = channel_bytes(d), width = r->res.pitch2D.width, height = r->res.pitch2D.height;
    size_t pitch = r->res.pitch2D.pitchInBytes;
    if (!bytes)
        return cudaErrorInvalidChannelDescriptor;
    if (!width || !height || width > 131072 || height > 65000 || pitch > 2097120 || width * bytes > pitch ||
        pitch % MT_DEV_TEXTURE_PITCH ||
        !texture_reachable(r->res.pitch2D.devPtr, (height - 1) * pitch + width * bytes))
        return cudaErrorInvalidValue;
    t->level[0] =
        (struct mt_tex_level){r->res.pitch2D.devPtr, {(int)width, (int)height, 1}, pitch, pitch * height};
    return cudaSuccess;
}

static cudaError_t set_array(struct mt_texture *t, const struct mt_array *a, struct cudaChannelFormatDesc *d)
{
    if (!a)
        return cudaErrorInvalidResourceHandle;
    *d = a->desc;
    t->layers = layers_of(a);
    t->level[0] = level_of(a);
    return cudaSuccess;
}

static cudaError_t set_mipmap(struct mt_texture *t, const struct mt_mipmap *m,
                              struct cudaChannelFormatDesc *d)
{
    if (!m)
        return cudaErrorInvalidResourceHandle;
    cudaError_t e = set_array(t, m->level[0], d);
    t->nlevels = (int)m->nlevels;
    for (unsigned i = 0; i < m->nlevels; i++)
        t->level[i] = level_of(m->level[i]);
    return e;
}

/* Applies a view: another format of the same size, and a part of levels and layers. */
static cudaError_t set_view(struct mt_texture *t, const struct cudaResourceViewDesc *v,
                            struct cudaChannelFormatDesc *d)
{
    size_t before = channel_bytes(d);
    if (v->format >= cudaResViewFormatUnsignedBlockCompressed1)
        return cudaErrorNotSupported;
    if (v->format != cudaResViewFormatNone && (view_format(v->format, d) || channel_bytes(d) != before))
        return cudaErrorInvalidValue;
    unsigned first = v->firstMipmapLevel, last = v->lastMipmapLevel;
    if (first > last || last >= (unsigned)t->nlevels || v->firstLayer > v->lastLayer ||
        v->lastLayer >= (unsigned)t->layers)
        return cudaErrorInvalidValue;
    t->nlevels = (int)(last - first + 1);
    memmove(t->level, t->level + first, (size_t)t->nlevels * sizeof *t->level);
    if (t->layers > 1 && (v->firstLayer || v->lastLayer)) {
        t->layers = (int)(v->lastLayer - v->firstLayer + 1);
        for (int i = 0; i < t->nlevels; i++)
            t->level[i].data += v->firstLayer * t->level[i].slice;
    }
    return cudaSuccess;
}

static cudaError_t texture_describe(struct mt_texture *t, const struct cudaResourceDesc *r,
                                    const struct cudaTextureDesc *x, const struct cudaResourceViewDesc *v)
{
    struct cudaChannelFormatDesc d = {0};
    cudaError_t e = set_mode(t, x);
    int is_array = r->resType == cudaResourceTypeArray || r->resType == cudaResourceTypeMipmappedArray;
    t->layers = t->nlevels = 1;
    if (e || (v && !is_array))
        return cudaErrorInvalidValue;
    switch (r->resType) {
    case cudaResourceTypeArray:
        e = set_array(t, mt_array_get(r->res.array.array), &d);
        break;
    case cudaResourceTypeMipmappedArray:
        e = set_mipmap(t, mt_mipmap_get(r->res.mipmap.mipmap), &d);
        break;
    case cudaResourceTypeLinear:
        e = set_linear(t, r, &d);
        t->linear = 0; /* ignored by CUDA */
        break;
    case cudaResourceTypePitch2D:
        e = set_pitched(t, r, &d);
        break;
    default:
        return cudaErrorInvalidValue;
    }
    if (r->resType != cudaResourceTypeMipmappedArray)
        t->linear_levels = 0;
    if (!e && v)
        e = set_view(t, v, &d);
    return e ? e : set_format(t, &d, x);
}

/* ---- texture objects ---- */

cudaError_t impl_cudaCreateTextureObject(cudaTextureObject_t *out, const struct cudaResourceDesc *resource,
                                         const struct cudaTextureDesc *texture,
                                         const struct cudaResourceViewDesc *view)
{
    MT_RETURN_IF_FAILED();
    if (!out || !resource || !texture)
        return mt_fail(cudaErrorInvalidValue);
    struct texture *t = calloc(1, sizeof *t);
    if (!t)
        return mt_fail(cudaErrorMemoryAllocation);
    t->device = mt_device_current();
    t->resource = *resource;
    t->texture = *texture;
    if ((t->has_view = view != NULL))
        t->view = *view;
    cudaError_t e = texture_describe(&t->sampler, resource, texture, view);
    mt_tex_prepare(&t->sampler);
    if (!e && (!(t->handle = mt_tex_object_add(MT_TEX_OBJECT, &t->sampler)) ||
               mt_map_set(&textures, texture_key(t->handle), t)))
        e = cudaErrorMemoryAllocation;
    if (e) {
        mt_tex_object_take(MT_TEX_OBJECT, t->handle);
        free(t);
        return mt_fail(e);
    }
    *out = t->handle;
    return cudaSuccess;
}

/* Waits for kernels launched before, which may still read it. */
cudaError_t impl_cudaDestroyTextureObject(cudaTextureObject_t object)
{
    MT_RETURN_IF_FAILED();
    struct texture *t = mt_map_take(&textures, texture_key(object));
    if (!t)
        return mt_fail(cudaErrorInvalidValue);
    mt_stream_wait_all(MT_ALL_DEVICES);
    mt_tex_object_take(MT_TEX_OBJECT, t->handle);
    free(t);
    return cudaSuccess;
}

static const struct texture *texture_find(cudaTextureObject_t object)
{
    return mt_map_get(&textures, texture_key(object));
}

cudaError_t impl_cudaGetTextureObjectResourceDesc(struct cudaResourceDesc *out, cudaTextureObject_t object)
{
    MT_RETURN_IF_FAILED();
    const struct texture *t = texture_find(object);
    if (!out || !t)
        return mt_fail(cudaErrorInvalidValue);
    *out = t->resource;
    return cudaSuccess;
}

cudaError_t impl_cudaGetTextureObjectTextureDesc(struct cudaTextureDesc *out, cudaTextureObject_t object)
{
    MT_RETURN_IF_FAILED();
    const struct texture *t = texture_find(object);
    if (!out || !t)
        return mt_fail(cudaErrorInvalidValue);
    *out = t->texture;
    return cudaSuccess;
}

cudaError_t impl_cudaGetTextureObjectResourceViewDesc(struct cudaResourceViewDesc *out,
                                                      cudaTextureObject_t object)
{
    MT_RETURN_IF_FAILED();
    const struct texture *t = texture_find(object);
    if (!out || !t || !t->has_view)
        return mt_fail(cudaErrorInvalidValue);
    *out = t->view;
    return cudaSuccess;
}

/* ---- surface objects ---- */

cudaError_t impl_cudaCreateSurfaceObject(cudaSurfaceObject_t *out, const struct cudaResourceDesc *resource)
{
    MT_RETURN_IF_FAILED();
    if (!out || !resource || resource->resType != cudaResourceTypeArray)
        return mt_fail(cudaErrorInvalidValue);
    const struct mt_array *a = mt_array_get(resource->res.array.array);
    if (!a)
        return mt_fail(cudaErrorInvalidResourceHandle);
    if (!(a->flags & cudaArraySurfaceLoadStore))
        return mt_fail(cudaErrorInvalidValue);
    struct surface *s = calloc(1, sizeof *s);
    if (!s)
        return mt_fail(cudaErrorMemoryAllocation);
    s->resource = *resource;
    s->access = (struct mt_surface){level_of(a), (unsigned)a->element, layers_of(a)};
    s->handle = mt_tex_object_add(MT_SURF_OBJECT, &s->access);
    if (!s->handle || mt_map_set(&surfaces, texture_key(s->handle), s)) {
        mt_tex_object_take(MT_SURF_OBJECT, s->handle);
        free(s);
        return mt_fail(cudaErrorMemoryAllocation);
    }
    *out = s->handle;
    return cudaSuccess;
}

cudaError_t impl_cudaDestroySurfaceObject(cudaSurfaceObject_t object)
{
    MT_RETURN_IF_FAILED();
    struct surface *s = mt_map_take(&surfaces, texture_key(object));
    if (!s)
        return mt_fail(cudaErrorInvalidValue);
    mt_stream_wait_all(MT_ALL_DEVICES);
    mt_tex_object_take(MT_SURF_OBJECT, s->handle);
    free(s);
    return cudaSuccess;
}

cudaError_t impl_cudaGetSurfaceObjectResourceDesc(struct cudaResourceDesc *out, cudaSurfaceObject_t object)
{
    MT_RETURN_IF_FAILED();
    const struct surface *s = mt_map_get(&surfaces, texture_key(object));
    if (!out || !s)
        return mt_fail(cudaErrorInvalidValue);
    *out = s->resource;
    return cudaSuccess;
}

/* ---- cudaDeviceReset ---- */

/* All objects here begin with their device. */
static int array_is_of(const void *object, int device)
{
    return *(const int *)object == device;
}

static void array_empty(struct mt_map *m, int device)
{
    for (void *a; (a = mt_map_any(m, array_is_of, device));)
        free(mt_map_take(m, a));
}

void mt_arrays_reset(int device)
{
    for (struct texture *t; (t = mt_map_any(&textures, array_is_of, device));) {
        mt_map_take(&textures, texture_key(t->handle));
        mt_tex_object_take(MT_TEX_OBJECT, t->handle);
        free(t);
    }
    for (struct surface *s; (s = mt_map_any(&surfaces, array_is_of, device));) {
        mt_map_take(&surfaces, texture_key(s->handle));
        mt_tex_object_take(MT_SURF_OBJECT, s->handle);
        free(s);
    }
    array_empty(&arrays, device);
    array_empty(&mipmaps, device);
}
