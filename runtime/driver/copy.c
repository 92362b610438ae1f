/* Copies and fills of the driver API, as the runtime's. */
#include "copy.h"
#include "api/memory/array.h"
#include "api/copy/copy.h"
#include <string.h>

/* ---- 1-D ---- */

#define COPY(sync, async, to, from, dst, src, kind)                                                          \
    CUresult sync(to a, from b, size_t bytes)                                                                \
    {                                                                                                        \
        return mt_driver_result(cudaMemcpy(dst, src, bytes, kind));                                          \
    }                                                                                                        \
    CUresult async(to a, from b, size_t bytes, CUstream stream)                                              \
    {                                                                                                        \
        return mt_driver_result(cudaMemcpyAsync(dst, src, bytes, kind, (cudaStream_t)stream));               \
    }
COPY(drv_cuMemcpyHtoD_v2, drv_cuMemcpyHtoDAsync_v2, CUdeviceptr, const void *, MT_POINTER(a), b,
     cudaMemcpyHostToDevice)
COPY(drv_cuMemcpyDtoH_v2, drv_cuMemcpyDtoHAsync_v2, void *, CUdeviceptr, a, MT_POINTER(b),
     cudaMemcpyDeviceToHost)
COPY(drv_cuMemcpyDtoD_v2, drv_cuMemcpyDtoDAsync_v2, CUdeviceptr, CUdeviceptr, MT_POINTER(a), MT_POINTER(b),
     cudaMemcpyDeviceToDevice)

CUresult drv_cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t bytes)
{
    return mt_driver_result(cudaMemcpy(MT_POINTER(dst), MT_POINTER(src), bytes, cudaMemcpyDefault));
}

CUresult drv_cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream)
{
    return mt_driver_result(
        cudaMemcpyAsync(MT_POINTER(dst), MT_POINTER(src), bytes, cudaMemcpyDefault, (cudaStream_t)stream));
}

/* Whose memory it is, the addresses say. */
CUresult drv_cuMemcpyPeer(CUdeviceptr dst, CUcontext to, CUdeviceptr src, CUcontext from, size_t bytes)
{
    return drv_cuMemcpyDtoD_v2(dst, src, bytes);
}

CUresult drv_cuMemcpyPeerAsync(CUdeviceptr dst, CUcontext to, CUdeviceptr src, CUcontext from, size_t bytes,
                               CUstream s)
{
    return drv_cuMemcpyDtoDAsync_v2(dst, src, bytes, s);
}

/* ---- 2-D and 3-D ---- */

struct copy_side {
    cudaArray_t array;
    struct cudaPos pos; /* x in bytes, of arrays in elements */
    struct cudaPitchedPtr pointer;
    int host; /* 1, 0 for device memory and arrays, -1: by the address */
};

static CUresult copy_side(struct copy_side *s, CUmemorytype type, const void *host, CUdeviceptr device,
                          CUarray array, size_t pitch, size_t height)
{
    struct mt_array *a = type == CU_MEMORYTYPE_ARRAY ? mt_array_get((cudaArray_t)array) : NULL;
    void *p = type == CU_MEMORYTYPE_HOST ? (void *)(uintptr_t)host : MT_POINTER(device);
    if (type == CU_MEMORYTYPE_ARRAY ? !a : (unsigned)type < 1 || (unsigned)type > 4)
        return type == CU_MEMORYTYPE_ARRAY ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_INVALID_VALUE;
    s->host = type == CU_MEMORYTYPE_HOST ? 1 : type == CU_MEMORYTYPE_UNIFIED ? -1 : 0;
    if (!a) {
        s->pointer = (struct cudaPitchedPtr){p, pitch, pitch, height};
        return CUDA_SUCCESS;
    }
    if (s->pos.x % a->element)
        return CUDA_ERROR_INVALID_VALUE;
    s->pos.x /= a->element;
    s->array = (cudaArray_t)array;
    return CUDA_SUCCESS;
}

static enum cudaMemcpyKind copy_kind(const struct copy_side *dst, const struct copy_side *src)
{
    static const enum cudaMemcpyKind kinds[2][2] = {{cudaMemcpyDeviceToDevice, cudaMemcpyDeviceToHost},
                                                    {cudaMemcpyHostToDevice, cudaMemcpyHostToHost}};
    return dst->host < 0 || src->host < 0 ? cudaMemcpyDefault : kinds[src->host][dst->host];
}

CUresult mt_driver_copy_params(struct cudaMemcpy3DParms *p, const CUDA_MEMCPY3D_v2 *c)
{
    struct copy_side dst = {0}, src = {0};
    if (!c || c->srcLOD || c->dstLOD)
        return CUDA_ERROR_INVALID_VALUE;
    size_t width = c->WidthInBytes;
    src.pos = (struct cudaPos){c->srcXInBytes, c->srcY, c->srcZ};
    dst.pos = (struct cudaPos){c->dstXInBytes, c->dstY, c->dstZ};
    CUresult e = copy_side(&src, c->srcMemoryType, c->srcHost, c->srcDevice, c->srcArray,
                           c->srcPitch ? c->srcPitch : width, c->srcHeight ? c->srcHeight : c->Height);
    if (!e)
        e = copy_side(&dst, c->dstMemoryType, c->dstHost, c->dstDevice, c->dstArray,
                      c->dstPitch ? c->dstPitch : width, c->dstHeight ? c->dstHeight : c->Height);
    if (e)
        return e;
    struct mt_array *a = mt_array_get(src.array ? src.array : dst.array);
    if (a && width % a->element)
        return CUDA_ERROR_INVALID_VALUE;
    *p = (struct cudaMemcpy3DParms){.srcArray = src.array,
                                    .srcPos = src.pos,
                                    .srcPtr = src.pointer,
                                    .dstArray = dst.array,
                                    .dstPos = dst.pos,
                                    .dstPtr = dst.pointer,
                                    .extent = {a ? width / a->element : width, c->Height, c->Depth},
                                    .kind = copy_kind(&dst, &src)};
    return CUDA_SUCCESS;
}

/* The same copy with one plane. */
static CUDA_MEMCPY3D_v2 driver_copy_2d(const CUDA_MEMCPY2D_v2 *c)
{
    return (CUDA_MEMCPY3D_v2){.srcXInBytes = c->srcXInBytes,
                              .srcY = c->srcY,
                              .srcMemoryType = c->srcMemoryType,
                              .srcHost = c->srcHost,
                              .srcDevice = c->srcDevice,
                              .srcArray = c->srcArray,
                              .srcPitch = c->srcPitch,
                              .dstXInBytes = c->dstXInBytes,
                              .dstY = c->dstY,
                              .dstMemoryType = c->dstMemoryType,
                              .dstHost = c->dstHost,
                              .dstDevice = c->dstDevice,
                              .dstArray = c->dstArray,
                              .dstPitch = c->dstPitch,
                              .WidthInBytes = c->WidthInBytes,
                              .Height = c->Height,
                              .Depth = 1};
}

static CUresult copy_start(const CUDA_MEMCPY3D_v2 *c, CUstream stream, int sync)
{
    struct cudaMemcpy3DParms p;
    CUresult e = mt_driver_copy_params(&p, c);
    if (e)
        return e;
    return mt_driver_result(sync ? cudaMemcpy3D(&p) : cudaMemcpy3DAsync(&p, (cudaStream_t)stream));
}

CUresult drv_cuMemcpy3D_v2(const CUDA_MEMCPY3D_v2 *c)
{
    return copy_start(c, NULL, 1);
}

CUresult drv_cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D_v2 *c, CUstream stream)
{
    return copy_start(c, stream, 0);
}

CUresult drv_cuMemcpy2D_v2(const CUDA_MEMCPY2D_v2 *c)
{
    CUDA_MEMCPY3D_v2 as3 = c ? driver_copy_2d(c) : (CUDA_MEMCPY3D_v2){0};
    return c ? copy_start(&as3, NULL, 1) : CUDA_ERROR_INVALID_VALUE;
}

CUresult drv_cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D_v2 *c)
{
    return drv_cuMemcpy2D_v2(c);
}

CUresult drv_cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D_v2 *c, CUstream stream)
{
    CUDA_MEMCPY3D_v2 as3 = c ? driver_copy_2d(c) : (CUDA_MEMCPY3D_v2){0};
    return c ? copy_start(&as3, stream, 0) : CUDA_ERROR_INVALID_VALUE;
}

/* ---- one-dimensional arrays ---- */

static CUDA_MEMCPY3D_v2 copy_row(size_t bytes)
{
    return (CUDA_MEMCPY3D_v2){.WidthInBytes = bytes, .Height = 1, .Depth = 1};
}

static void copy_from_array(CUDA_MEMCPY3D_v2 *c, CUarray a, size_t offset)
{
    c->srcMemoryType = CU_MEMORYTYPE_ARRAY;
    c->srcArray = a;
    c->srcXInBytes = offset;
}

static void copy_to_array(CUDA_MEMCPY3D_v2 *c, CUarray a, size_t offset)
{
    c->dstMemoryType = CU_MEMORYTYPE_ARRAY;
    c->dstArray = a;
    c->dstXInBytes = offset;
}

CUresult drv_cuMemcpyDtoA_v2(CUarray dst, size_t offset, CUdeviceptr src, size_t bytes)
{
    CUDA_MEMCPY3D_v2 c = copy_row(bytes);
    copy_to_array(&c, dst, offset);
    c.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    c.srcDevice = src;
    return copy_start(&c, NULL, 1);
}

CUresult drv_cuMemcpyAtoD_v2(CUdeviceptr dst, CUarray src, size_t offset, size_t bytes)
{
    CUDA_MEMCPY3D_v2 c = copy_row(bytes);
    copy_from_array(&c, src, offset);
    c.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    c.dstDevice = dst;
    return copy_start(&c, NULL, 1);
}

static CUresult copy_host_to_array(CUarray dst, size_t offset, const void *src, size_t bytes, CUstream stream,
                                   int sync)
{
    CUDA_MEMCPY3D_v2 c = copy_row(bytes);
    copy_to_array(&c, dst, offset);
    c.srcMemoryType = CU_MEMORYTYPE_HOST;
    c.srcHost = src;
    return copy_start(&c, stream, sync);
}

static CUresult copy_array_to_host(void *dst, CUarray src, size_t offset, size_t bytes, CUstream stream,
                                   int sync)
{
    CUDA_MEMCPY3D_v2 c = copy_row(bytes);
    copy_from_array(&c, src, offset);
    c.dstMemoryType = CU_MEMORYTYPE_HOST;
    c.dstHost = dst;
    return copy_start(&c, stream, sync);
}

CUresult drv_cuMemcpyHtoA_v2(CUarray dst, size_t offset, const void *src, size_t bytes)
{
    return copy_host_to_array(dst, offset, src, bytes, NULL, 1);
}

CUresult drv_cuMemcpyHtoAAsync_v2(CUarray dst, size_t offset, const void *src, size_t bytes, CUstream stream)
{
    return copy_host_to_array(dst, offset, src, bytes, stream, 0);
}

CUresult drv_cuMemcpyAtoH_v2(void *dst, CUarray src, size_t offset, size_t bytes)
{
    return copy_array_to_host(dst, src, offset, bytes, NULL, 1);
}

CUresult drv_cuMemcpyAtoHAsync_v2(void *dst, CUarray src, size_t offset, size_t bytes, CUstream stream)
{
    return copy_array_to_host(dst, src, offset, bytes, stream, 0);
}

CUresult drv_cuMemcpyAtoA_v2(CUarray dst, size_t to, CUarray src, size_t from, size_t bytes)
{
    CUDA_MEMCPY3D_v2 c = copy_row(bytes);
    copy_to_array(&c, dst, to);
    copy_from_array(&c, src, from);
    return copy_start(&c, NULL, 1);
}

/* ---- fills with elements of 1, 2 and 4 bytes ---- */

static CUresult copy_fill(CUdeviceptr p, size_t pitch, unsigned value, unsigned element, size_t width,
                          size_t height, CUstream stream, int sync)
{
    size_t bytes;
    if (__builtin_mul_overflow(width, (size_t)element, &bytes) || p % element || pitch % element)
        return CUDA_ERROR_INVALID_VALUE;
    pitch = height > 1 ? pitch : bytes;
    return mt_driver_result(mt_fill_start(
        (struct mt_fill){MT_POINTER(p), pitch, pitch * height, bytes, height, 1, (int)value, element},
        (cudaStream_t)stream, sync));
}

#define FILL(bits, type, sync, async, rows, rows_async)                                                      \
    CUresult sync(CUdeviceptr p, type value, size_t n)                                                       \
    {                                                                                                        \
        return copy_fill(p, 0, value, (bits) / 8, n, 1, NULL, 1);                                            \
    }                                                                                                        \
    CUresult async(CUdeviceptr p, type value, size_t n, CUstream stream)                                     \
    {                                                                                                        \
        return copy_fill(p, 0, value, (bits) / 8, n, 1, stream, 0);                                          \
    }                                                                                                        \
    CUresult rows(CUdeviceptr p, size_t pitch, type value, size_t width, size_t height)                      \
    {                                                                                                        \
        return copy_fill(p, pitch, value, (bits) / 8, width, height, NULL, 1);                               \
    }                                                                                                        \
    CUresult rows_async(CUdeviceptr p, size_t pitch, type value, size_t width, size_t height,                \
                        CUstream stream)                                                                     \
    {                                                                                                        \
        return copy_fill(p, pitch, value, (bits) / 8, width, height, stream, 0);                             \
    }
FILL(8, unsigned char, drv_cuMemsetD8_v2, drv_cuMemsetD8Async, drv_cuMemsetD2D8_v2, drv_cuMemsetD2D8Async)
FILL(16, unsigned short, drv_cuMemsetD16_v2, drv_cuMemsetD16Async, drv_cuMemsetD2D16_v2,
     drv_cuMemsetD2D16Async)
FILL(32, unsigned, drv_cuMemsetD32_v2, drv_cuMemsetD32Async, drv_cuMemsetD2D32_v2, drv_cuMemsetD2D32Async)
