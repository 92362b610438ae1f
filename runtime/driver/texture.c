/* Arrays, textures and surfaces of the driver API. */
#include "driver.h"
#include "api/memory/array.h"
#include <string.h>

/* ---- formats ---- */

static const struct {
    CUarray_format format;
    enum cudaChannelFormatKind kind;
    int bits;
} texture_formats[] = {
    {CU_AD_FORMAT_UNSIGNED_INT8, cudaChannelFormatKindUnsigned, 8},
    {CU_AD_FORMAT_UNSIGNED_INT16, cudaChannelFormatKindUnsigned, 16},
    {CU_AD_FORMAT_UNSIGNED_INT32, cudaChannelFormatKindUnsigned, 32},
    {CU_AD_FORMAT_SIGNED_INT8, cudaChannelFormatKindSigned, 8},
    {CU_AD_FORMAT_SIGNED_INT16, cudaChannelFormatKindSigned, 16},
    {CU_AD_FORMAT_SIGNED_INT32, cudaChannelFormatKindSigned, 32},
    {CU_AD_FORMAT_HALF, cudaChannelFormatKindFloat, 16},
    {CU_AD_FORMAT_FLOAT, cudaChannelFormatKindFloat, 32},
};

static int texture_channels(struct cudaChannelFormatDesc *out, CUarray_format format, unsigned n)
{
    for (size_t i = 0; i < sizeof texture_formats / sizeof *texture_formats; i++)
        if (texture_formats[i].format == format && (n == 1 || n == 2 || n == 4)) {
            int bits = texture_formats[i].bits;
            *out = (struct cudaChannelFormatDesc){bits, n > 1 ? bits : 0, n > 2 ? bits : 0, n > 2 ? bits : 0,
                                                  texture_formats[i].kind};
            return 1;
        }
    return 0;
}

static CUarray_format texture_format(const struct cudaChannelFormatDesc *d, unsigned *n)
{
    *n = 1u + (d->y > 0) + (d->z > 0) + (d->w > 0);
    for (size_t i = 0; i < sizeof texture_formats / sizeof *texture_formats; i++)
        if (texture_formats[i].kind == d->f && texture_formats[i].bits == d->x)
            return texture_formats[i].format;
    return 0;
}

/* ---- arrays ---- */

CUresult drv_cuArray3DCreate_v2(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR_v2 *d)
{
    struct cudaChannelFormatDesc channels;
    if (!array || !d || !texture_channels(&channels, d->Format, d->NumChannels))
        return CUDA_ERROR_INVALID_VALUE;
    return mt_driver_result(cudaMalloc3DArray((cudaArray_t *)array, &channels,
                                              (struct cudaExtent){d->Width, d->Height, d->Depth}, d->Flags));
}

CUresult drv_cuArrayCreate_v2(CUarray *array, const CUDA_ARRAY_DESCRIPTOR_v2 *d)
{
    struct cudaChannelFormatDesc channels;
    if (!array || !d || !texture_channels(&channels, d->Format, d->NumChannels))
        return CUDA_ERROR_INVALID_VALUE;
    return mt_driver_result(cudaMallocArray((cudaArray_t *)array, &channels, d->Width, d->Height, 0));
}

CUresult drv_cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR_v2 *d, CUarray array)
{
    const struct mt_array *a = mt_array_get((cudaArray_t)array);
    if (!d || !a)
        return d ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_INVALID_VALUE;
    *d = (CUDA_ARRAY3D_DESCRIPTOR_v2){
        .Width = a->extent.width, .Height = a->extent.height, .Depth = a->extent.depth, .Flags = a->flags};
    d->Format = texture_format(&a->desc, &d->NumChannels);
    return CUDA_SUCCESS;
}

CUresult drv_cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR_v2 *d, CUarray array)
{
    CUDA_ARRAY3D_DESCRIPTOR_v2 d3;
    CUresult e = d ? drv_cuArray3DGetDescriptor_v2(&d3, array) : CUDA_ERROR_INVALID_VALUE;
    if (!e)
        *d = (CUDA_ARRAY_DESCRIPTOR_v2){d3.Width, d3.Height, d3.Format, d3.NumChannels};
    return e;
}

CUresult drv_cuMipmappedArrayCreate(CUmipmappedArray *array, const CUDA_ARRAY3D_DESCRIPTOR *d,
                                    unsigned levels)
{
    struct cudaChannelFormatDesc channels;
    if (!array || !d || !texture_channels(&channels, d->Format, d->NumChannels))
        return CUDA_ERROR_INVALID_VALUE;
    return mt_driver_result(cudaMallocMipmappedArray((cudaMipmappedArray_t *)array, &channels,
                                                     (struct cudaExtent){d->Width, d->Height, d->Depth},
                                                     levels, d->Flags));
}

/* ---- objects ---- */

static CUresult texture_resource(struct cudaResourceDesc *out, const CUDA_RESOURCE_DESC *d)
{
    memset(out, 0, sizeof *out);
    out->resType = (enum cudaResourceType)d->resType;
    switch (d->resType) {
    case CU_RESOURCE_TYPE_ARRAY:
        out->res.array.array = (cudaArray_t)d->res.array.hArray;
        return CUDA_SUCCESS;
    case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
        out->res.mipmap.mipmap = (cudaMipmappedArray_t)d->res.mipmap.hMipmappedArray;
        return CUDA_SUCCESS;
    case CU_RESOURCE_TYPE_LINEAR:
        out->res.linear.devPtr = MT_POINTER(d->res.linear.devPtr);
        out->res.linear.sizeInBytes = d->res.linear.sizeInBytes;
        return texture_channels(&out->res.linear.desc, d->res.linear.format, d->res.linear.numChannels)
                   ? CUDA_SUCCESS
                   : CUDA_ERROR_INVALID_VALUE;
    case CU_RESOURCE_TYPE_PITCH2D:
        out->res.pitch2D.devPtr = MT_POINTER(d->res.pitch2D.devPtr);
        out->res.pitch2D.width = d->res.pitch2D.width;
        out->res.pitch2D.height = d->res.pitch2D.height;
        out->res.pitch2D.pitchInBytes = d->res.pitch2D.pitchInBytes;
        return texture_channels(&out->res.pitch2D.desc, d->res.pitch2D.format, d->res.pitch2D.numChannels)
                   ? CUDA_SUCCESS
                   : CUDA_ERROR_INVALID_VALUE;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

/* Bits and kind of what a texture's fetches give. */
static struct cudaChannelFormatDesc texture_channels_of(const struct cudaResourceDesc *r)
{
    cudaArray_t level = r->res.array.array;
    if (r->resType == cudaResourceTypeLinear)
        return r->res.linear.desc;
    if (r->resType == cudaResourceTypePitch2D)
        return r->res.pitch2D.desc;
    if (r->resType == cudaResourceTypeMipmappedArray &&
        cudaGetMipmappedArrayLevel(&level, r->res.mipmap.mipmap, 0))
        level = NULL;
    const struct mt_array *a = mt_array_get(level);
    return a ? a->desc : (struct cudaChannelFormatDesc){0};
}

CUresult drv_cuTexObjectCreate(CUtexObject *out, const CUDA_RESOURCE_DESC *resource,
                               const CUDA_TEXTURE_DESC *d, const CUDA_RESOURCE_VIEW_DESC *view)
{
    struct cudaResourceDesc r;
    struct cudaTextureDesc t = {0};
    struct cudaResourceViewDesc v = {0};
    if (!out || !resource || !d)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult e = texture_resource(&r, resource);
    if (e)
        return e;
    struct cudaChannelFormatDesc c = texture_channels_of(&r);
    /* Integers of 8 and 16 bits become numbers from 0 or -1 to 1, if they are not asked for as they are. */
    int normal = !(d->flags & CU_TRSF_READ_AS_INTEGER) && c.f != cudaChannelFormatKindFloat && c.x < 32;
    for (int i = 0; i < 3; i++)
        t.addressMode[i] = (enum cudaTextureAddressMode)d->addressMode[i];
    t.filterMode = (enum cudaTextureFilterMode)d->filterMode;
    t.readMode = normal ? cudaReadModeNormalizedFloat : cudaReadModeElementType;
    t.sRGB = (d->flags & CU_TRSF_SRGB) != 0;
    memcpy(t.borderColor, d->borderColor, sizeof t.borderColor);
    t.normalizedCoords = (d->flags & CU_TRSF_NORMALIZED_COORDINATES) != 0;
    t.maxAnisotropy = d->maxAnisotropy;
    t.mipmapFilterMode = (enum cudaTextureFilterMode)d->mipmapFilterMode;
    t.mipmapLevelBias = d->mipmapLevelBias;
    t.minMipmapLevelClamp = d->minMipmapLevelClamp;
    t.maxMipmapLevelClamp = d->maxMipmapLevelClamp;
    t.disableTrilinearOptimization = (d->flags & CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION) != 0;
    t.seamlessCubemap = (d->flags & CU_TRSF_SEAMLESS_CUBEMAP) != 0;
    if (view) {
        v.format = (enum cudaResourceViewFormat)view->format;
        v.width = view->width;
        v.height = view->height;
        v.depth = view->depth;
        v.firstMipmapLevel = view->firstMipmapLevel;
        v.lastMipmapLevel = view->lastMipmapLevel;
        v.firstLayer = view->firstLayer;
        v.lastLayer = view->lastLayer;
    }
    return mt_driver_result(cudaCreateTextureObject((cudaTextureObject_t *)out, &r, &t, view ? &v : NULL));
}

CUresult drv_cuSurfObjectCreate(CUsurfObject *out, const CUDA_RESOURCE_DESC *resource)
{
    struct cudaResourceDesc r;
    CUresult e = out && resource ? texture_resource(&r, resource) : CUDA_ERROR_INVALID_VALUE;
    return e ? e : mt_driver_result(cudaCreateSurfaceObject((cudaSurfaceObject_t *)out, &r));
}
