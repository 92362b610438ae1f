/* Memory of the driver API: what its functions ask of an address, and pitched memory. */
#include "context.h"
#include "api/device/device.h"
#include <string.h>

CUresult drv_cuMemAllocPitch_v2(CUdeviceptr *p, size_t *pitch, size_t width, size_t height, unsigned element)
{
    if (element != 4 && element != 8 && element != 16)
        return CUDA_ERROR_INVALID_VALUE;
    return mt_driver_result(cudaMallocPitch((void **)p, pitch, width, height));
}

CUresult drv_cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes, CUdeviceptr p)
{
    struct mt_block b;
    if (!mt_heap_find(MT_POINTER(p), &b))
        return CUDA_ERROR_NOT_FOUND;
    if (base)
        *base = b.base;
    if (bytes)
        *bytes = b.bytes;
    return CUDA_SUCCESS;
}

/* CUDA 12's forms, in which a place is a device's number, -1 the host. */
static struct cudaMemLocation memory_location(CUdevice device)
{
    return (struct cudaMemLocation){device < 0 ? cudaMemLocationTypeHost : cudaMemLocationTypeDevice,
                                    device < 0 ? 0 : device};
}

#if CUDA_VERSION >= 13000
CUresult drv_cuMemPrefetchAsync(CUdeviceptr p, size_t bytes, CUdevice device, CUstream stream)
{
    return mt_driver_result(
        cudaMemPrefetchAsync(MT_POINTER(p), bytes, memory_location(device), 0, (cudaStream_t)stream));
}

CUresult drv_cuMemAdvise(CUdeviceptr p, size_t bytes, CUmem_advise advice, CUdevice device)
{
    return mt_driver_result(
        cudaMemAdvise(MT_POINTER(p), bytes, (enum cudaMemoryAdvise)advice, memory_location(device)));
}
#endif

/* ---- attributes of pointers ---- */

#define PUT(type, value)                                                                                     \
    do {                                                                                                     \
        *(type *)data = (type)(value);                                                                       \
        return CUDA_SUCCESS;                                                                                 \
    } while (0)

/* `b` is the block that holds `p`. */
static CUresult memory_attribute(void *data, CUpointer_attribute a, CUdeviceptr p, const struct mt_block *b)
{
    int host = b->kind == MT_HEAP_HOST || b->kind == MT_HEAP_REGISTERED;
    switch ((int)a) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        PUT(CUcontext, mt_context_on(b->device));
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        PUT(unsigned, host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE);
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        PUT(CUdeviceptr, p);
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        *(void **)data = host || b->kind == MT_HEAP_MANAGED ? MT_POINTER(p) : NULL;
        return *(void **)data ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        PUT(unsigned long long, b->base);
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        PUT(unsigned, b->kind == MT_HEAP_MANAGED);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        PUT(int, b->device);
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        PUT(CUdeviceptr, b->base);
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        PUT(size_t, b->bytes);
    case CU_POINTER_ATTRIBUTE_MAPPED:
        PUT(unsigned, 1);
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
        PUT(unsigned, 0);
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        PUT(unsigned long long, 0);
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        PUT(unsigned, CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE);
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        PUT(CUmemoryPool, NULL);
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}
#undef PUT

CUresult drv_cuPointerGetAttribute(void *data, CUpointer_attribute a, CUdeviceptr p)
{
    struct mt_block b;
    if (!data || !mt_heap_find(MT_POINTER(p), &b))
        return CUDA_ERROR_INVALID_VALUE;
    return memory_attribute(data, a, p, &b);
}

/* Of a pointer that is none of CUDA's everything is 0, and there is no error. */
CUresult drv_cuPointerGetAttributes(unsigned n, CUpointer_attribute *attributes, void **data, CUdeviceptr p)
{
    struct mt_block b;
    int known = mt_heap_find(MT_POINTER(p), &b);
    if (!attributes || !data)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < n; i++) {
        if (!data[i])
            return CUDA_ERROR_INVALID_VALUE;
        if (!known && attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
            *(int *)data[i] = -2;
        else if (!known)
            memset(data[i], 0,
                   attributes[i] == CU_POINTER_ATTRIBUTE_MEMORY_TYPE ||
                           attributes[i] == CU_POINTER_ATTRIBUTE_IS_MANAGED
                       ? sizeof(int)
                       : sizeof(void *));
        else
            memory_attribute(data[i], attributes[i], p, &b);
    }
    return CUDA_SUCCESS;
}

CUresult drv_cuPointerSetAttribute(const void *value, CUpointer_attribute a, CUdeviceptr p)
{
    struct mt_block b;
    if (!value || a != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS || !mt_heap_find(MT_POINTER(p), &b))
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS; /* copies of the host's memory wait anyway */
}
