/* What the driver API does to memory on a GPU, and the runtime has no function for, or none that takes what
 * the driver has made: fills with elements of 2 and 4 bytes, words that streams write, arrays, copies of
 * rows. The real driver does it, and the trace has its line. */
#include "copy.h"
#include "launch.h"
#include "api/box.h"
#include "api/copy.h"
#include "trace/objects.h"
#include "api/stream.h"

#define REAL(name) ((__typeof__(&name))mt_driver_real(MT_D_##name))

static int64_t recorded_stream(CUstream stream)
{
    mt_driver_know_stream(stream);
    return mt_stream_number((cudaStream_t)stream);
}

/* ---- fills --------------------------------------------------------------------------------------- */

static CUresult recorded_fill(CUresult e, CUdeviceptr p, size_t pitch, unsigned value, unsigned element,
                              size_t width, size_t height, CUstream stream)
{
    size_t bytes = width * element, row = height > 1 ? pitch : bytes;
    const struct mt_fill f = {MT_POINTER(p), row, row * height, bytes, height, 1, (int)value, element};
    if (!e)
        mt_fill_note(&f, recorded_stream(stream), NULL);
    return e;
}

#define FILL(bits, type)                                                                                     \
    CUresult GPU(cuMemsetD##bits##_v2)(CUdeviceptr p, type value, size_t n)                                  \
    {                                                                                                        \
        return recorded_fill(REAL(cuMemsetD##bits##_v2)(p, value, n), p, 0, value, (bits) / 8, n, 1, NULL);  \
    }                                                                                                        \
    CUresult GPU(cuMemsetD##bits##Async)(CUdeviceptr p, type value, size_t n, CUstream s)                    \
    {                                                                                                        \
        return recorded_fill(REAL(cuMemsetD##bits##Async)(p, value, n, s), p, 0, value, (bits) / 8, n, 1,    \
                             s);                                                                             \
    }                                                                                                        \
    CUresult GPU(cuMemsetD2D##bits##_v2)(CUdeviceptr p, size_t pitch, type value, size_t n, size_t rows)     \
    {                                                                                                        \
        return recorded_fill(REAL(cuMemsetD2D##bits##_v2)(p, pitch, value, n, rows), p, pitch, value,        \
                             (bits) / 8, n, rows, NULL);                                                     \
    }                                                                                                        \
    CUresult GPU(cuMemsetD2D##bits##Async)(CUdeviceptr p, size_t pitch, type value, size_t n, size_t rows,   \
                                           CUstream s)                                                       \
    {                                                                                                        \
        return recorded_fill(REAL(cuMemsetD2D##bits##Async)(p, pitch, value, n, rows, s), p, pitch, value,   \
                             (bits) / 8, n, rows, s);                                                        \
    }
FILL(8, unsigned char)
FILL(16, unsigned short)
FILL(32, unsigned)

#define VALUE(bits, version)                                                                                 \
    CUresult GPU(cuStreamWriteValue##bits##version)(CUstream s, CUdeviceptr p, cuuint##bits##_t value,       \
                                                    unsigned flags)                                          \
    {                                                                                                        \
        return recorded_fill(REAL(cuStreamWriteValue##bits##version)(s, p, value, flags), p, 0,              \
                             (unsigned)value, 1, (bits) / 8, 1, s);                                          \
    }
VALUE(32, )
VALUE(64, )
VALUE(32, _v2)
VALUE(64, _v2)

/* ---- arrays: their handle stands for the address, with no bytes, as the runtime's do (record_memory.c) ----
 */

static CUresult recorded_array(CUresult e, const void *const *array)
{
    if (!e)
        mt_object_add(*array, 0, "array", NULL);
    return e;
}

CUresult GPU(cuArrayCreate_v2)(CUarray *array, const CUDA_ARRAY_DESCRIPTOR_v2 *d)
{
    return recorded_array(REAL(cuArrayCreate_v2)(array, d), (const void *const *)array);
}

CUresult GPU(cuArray3DCreate_v2)(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR_v2 *d)
{
    return recorded_array(REAL(cuArray3DCreate_v2)(array, d), (const void *const *)array);
}

CUresult GPU(cuMipmappedArrayCreate)(CUmipmappedArray *array, const CUDA_ARRAY3D_DESCRIPTOR *d,
                                     unsigned levels)
{
    return recorded_array(REAL(cuMipmappedArrayCreate)(array, d, levels), (const void *const *)array);
}

CUresult GPU(cuArrayDestroy)(CUarray array)
{
    struct mt_object *o = mt_object_take(array);
    CUresult e = REAL(cuArrayDestroy)(array);
    mt_object_done(o, !e);
    return e;
}

CUresult GPU(cuMipmappedArrayDestroy)(CUmipmappedArray array)
{
    struct mt_object *o = mt_object_take(array);
    CUresult e = REAL(cuMipmappedArrayDestroy)(array);
    mt_object_done(o, !e);
    return e;
}

/* ---- copies of rows ------------------------------------------------------------------------------ */

/* A side and its kind: 1 the host, 0 the device, -1 by its address. */
static int recorded_side(struct mt_side *s, CUmemorytype type, const void *host, CUdeviceptr device,
                         CUarray array, size_t x, size_t y, size_t z, size_t pitch, size_t rows)
{
    const char *p = type == CU_MEMORYTYPE_HOST ? host : MT_POINTER(device);
    if (type == CU_MEMORYTYPE_ARRAY)
        *s = (struct mt_side){(char *)array, 0, 0};
    else
        *s = (struct mt_side){(char *)(uintptr_t)p + z * pitch * rows + y * pitch + x, pitch, pitch * rows};
    return type == CU_MEMORYTYPE_HOST ? 1 : type == CU_MEMORYTYPE_UNIFIED ? -1 : 0;
}

static CUresult recorded_copy(CUresult e, const CUDA_MEMCPY3D_v2 *c, CUstream stream)
{
    static const enum cudaMemcpyKind kinds[2][2] = {{cudaMemcpyDeviceToDevice, cudaMemcpyDeviceToHost},
                                                    {cudaMemcpyHostToDevice, cudaMemcpyHostToHost}};
    struct mt_box b = {.width = c->WidthInBytes, .height = c->Height, .depth = c->Depth};
    int src = recorded_side(&b.src, c->srcMemoryType, c->srcHost, c->srcDevice, c->srcArray, c->srcXInBytes,
                            c->srcY, c->srcZ, c->srcPitch ? c->srcPitch : b.width,
                            c->srcHeight ? c->srcHeight : b.height);
    int dst = recorded_side(&b.dst, c->dstMemoryType, c->dstHost, c->dstDevice, c->dstArray, c->dstXInBytes,
                            c->dstY, c->dstZ, c->dstPitch ? c->dstPitch : b.width,
                            c->dstHeight ? c->dstHeight : b.height);
    b.kind = src < 0 || dst < 0 ? cudaMemcpyDefault : kinds[src][dst];
    if (!e)
        mt_copy_note(&b, mt_copy_kind(&b), recorded_stream(stream), NULL);
    return e;
}

static CUresult recorded_copy_2d(CUresult e, const CUDA_MEMCPY2D_v2 *c, CUstream stream)
{
    CUDA_MEMCPY3D_v2 as3 = e ? (CUDA_MEMCPY3D_v2){0} : mt_driver_copy_2d(c);
    return recorded_copy(e, &as3, stream);
}

CUresult GPU(cuMemcpy2D_v2)(const CUDA_MEMCPY2D_v2 *c)
{
    return recorded_copy_2d(REAL(cuMemcpy2D_v2)(c), c, NULL);
}

CUresult GPU(cuMemcpy2DUnaligned_v2)(const CUDA_MEMCPY2D_v2 *c)
{
    return recorded_copy_2d(REAL(cuMemcpy2DUnaligned_v2)(c), c, NULL);
}

CUresult GPU(cuMemcpy2DAsync_v2)(const CUDA_MEMCPY2D_v2 *c, CUstream s)
{
    return recorded_copy_2d(REAL(cuMemcpy2DAsync_v2)(c, s), c, s);
}

CUresult GPU(cuMemcpy3D_v2)(const CUDA_MEMCPY3D_v2 *c)
{
    CUresult e = REAL(cuMemcpy3D_v2)(c);
    return e ? e : recorded_copy(e, c, NULL);
}

CUresult GPU(cuMemcpy3DAsync_v2)(const CUDA_MEMCPY3D_v2 *c, CUstream s)
{
    CUresult e = REAL(cuMemcpy3DAsync_v2)(c, s);
    return e ? e : recorded_copy(e, c, s);
}

/* Bytes in a row; an array's handle may be a side. */
static CUresult recorded_row(CUresult e, void *dst, const void *src, enum cudaMemcpyKind kind, size_t bytes,
                             CUstream stream)
{
    const struct mt_box b = mt_box_1d(dst, src, bytes, kind);
    if (!e)
        mt_copy_note(&b, mt_copy_kind(&b), recorded_stream(stream), NULL);
    return e;
}

CUresult GPU(cuMemcpyDtoA_v2)(CUarray dst, size_t at, CUdeviceptr src, size_t n)
{
    return recorded_row(REAL(cuMemcpyDtoA_v2)(dst, at, src, n), dst, MT_POINTER(src),
                        cudaMemcpyDeviceToDevice, n, NULL);
}

CUresult GPU(cuMemcpyAtoD_v2)(CUdeviceptr dst, CUarray src, size_t at, size_t n)
{
    return recorded_row(REAL(cuMemcpyAtoD_v2)(dst, src, at, n), MT_POINTER(dst), src,
                        cudaMemcpyDeviceToDevice, n, NULL);
}

CUresult GPU(cuMemcpyHtoA_v2)(CUarray dst, size_t at, const void *src, size_t n)
{
    return recorded_row(REAL(cuMemcpyHtoA_v2)(dst, at, src, n), dst, src, cudaMemcpyHostToDevice, n, NULL);
}

CUresult GPU(cuMemcpyHtoAAsync_v2)(CUarray dst, size_t at, const void *src, size_t n, CUstream s)
{
    return recorded_row(REAL(cuMemcpyHtoAAsync_v2)(dst, at, src, n, s), dst, src, cudaMemcpyHostToDevice, n,
                        s);
}

CUresult GPU(cuMemcpyAtoH_v2)(void *dst, CUarray src, size_t at, size_t n)
{
    return recorded_row(REAL(cuMemcpyAtoH_v2)(dst, src, at, n), dst, src, cudaMemcpyDeviceToHost, n, NULL);
}

CUresult GPU(cuMemcpyAtoHAsync_v2)(void *dst, CUarray src, size_t at, size_t n, CUstream s)
{
    return recorded_row(REAL(cuMemcpyAtoHAsync_v2)(dst, src, at, n, s), dst, src, cudaMemcpyDeviceToHost, n,
                        s);
}

CUresult GPU(cuMemcpyAtoA_v2)(CUarray dst, size_t to, CUarray src, size_t from, size_t n)
{
    return recorded_row(REAL(cuMemcpyAtoA_v2)(dst, to, src, from, n), dst, src, cudaMemcpyDeviceToDevice, n,
                        NULL);
}

CUresult GPU(cuMemcpyPeer)(CUdeviceptr dst, CUcontext to, CUdeviceptr src, CUcontext from, size_t n)
{
    return recorded_row(REAL(cuMemcpyPeer)(dst, to, src, from, n), MT_POINTER(dst), MT_POINTER(src),
                        cudaMemcpyDeviceToDevice, n, NULL);
}

CUresult GPU(cuMemcpyPeerAsync)(CUdeviceptr dst, CUcontext to, CUdeviceptr src, CUcontext from, size_t n,
                                CUstream s)
{
    return recorded_row(REAL(cuMemcpyPeerAsync)(dst, to, src, from, n, s), MT_POINTER(dst), MT_POINTER(src),
                        cudaMemcpyDeviceToDevice, n, s);
}
