/* Texture and surface objects: CUDA's descriptions checked and turned into
 * what the sampler reads (runtime/cpu/texture.h). */
#include "texture.h"
#include "array.h"
#include "cpu/texture.h"
#include "api/device/device.h"
#include "api/entry.h"
#include "api/tables/error.h"
#include "api/tables/map.h"
#include "api/streams/stream.h"
#include "base/fork.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* What a handle refers to; the map's key is the handle. */
struct texture {
    int device; /* whose it is; first */
    struct mt_texture sampler;
    uint64_t handle;
    struct cudaResourceDesc resource;
    struct cudaTextureDesc texture;
    struct cudaResourceViewDesc view;
    int has_view;
};
struct surface {
    int device; /* whose it is; first */
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

/* A channel format as the sampler has it, element type read mode. 0 or -1. */
static int kind_of(const struct cudaChannelFormatDesc *d, enum mt_texel_kind *kind)
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

/* The element format of a resource view; block-compressed ones are not here. 0 or -1. */
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
    unsigned bytes = (unsigned)mt_channel_bytes(d), bits = (unsigned)d->x;
    if (!bytes || kind_of(d, &kind))
        return cudaErrorInvalidChannelDescriptor;
    /* Integers of 32 bits are never promoted, CUDA says. */
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

/* Linear or pitched memory that the device can reach, all of it. */
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
    size_t bytes = mt_channel_bytes(d), n = bytes ? r->res.linear.sizeInBytes / bytes : 0;
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
    size_t bytes = mt_channel_bytes(d), width = r->res.pitch2D.width, height = r->res.pitch2D.height;
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

/* Another format of the same size, and a part of levels and layers. */
static cudaError_t set_view(struct mt_texture *t, const struct cudaResourceViewDesc *v,
                            struct cudaChannelFormatDesc *d)
{
    size_t before = mt_channel_bytes(d);
    if (v->format >= cudaResViewFormatUnsignedBlockCompressed1)
        return cudaErrorNotSupported;
    if (v->format != cudaResViewFormatNone && (view_format(v->format, d) || mt_channel_bytes(d) != before))
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
        t->linear = 0; /* CUDA ignores it */
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

/* Kernels that were launched before may still read it. */
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

struct texture_search {
    int device;
    void *found;
};

static void texture_look(void *value, void *ctx)
{
    struct texture_search *l = ctx;
    if (*(const int *)value == l->device)
        l->found = value;
}

/* One of the device's; NULL: there is none. */
static void *texture_any(struct mt_map *m, int device)
{
    struct texture_search l = {device, NULL};
    mt_map_each(m, texture_look, &l);
    return l.found;
}

void mt_textures_reset(int device)
{
    for (struct texture *t; (t = texture_any(&textures, device));) {
        mt_map_take(&textures, texture_key(t->handle));
        mt_tex_object_take(MT_TEX_OBJECT, t->handle);
        free(t);
    }
    for (struct surface *s; (s = texture_any(&surfaces, device));) {
        mt_map_take(&surfaces, texture_key(s->handle));
        mt_tex_object_take(MT_SURF_OBJECT, s->handle);
        free(s);
    }
}
