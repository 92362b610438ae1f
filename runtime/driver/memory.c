/* Memory on the CPU device: allocations, copies, fills, virtual memory, stream memory operations, textures
 * and tensor maps. */
#define _GNU_SOURCE
#include "api/device/device.h"
#include "api/memory/memory.h"
#include "api/copy/copy.h"
#include "driver.h"
#include "trace/objects.h"
#include "trace/devices.h"
#include "base/file.h"
#include "base/fork.h"
#include "trace/site.h"
#include "base/report.h"
#include "cpu/tensor_map.h"
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

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

/* CUDA 12's forms, where a location is a device number, or -1 for the host. */
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

/* `b` is the block that contains `p`. */
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

/* For a pointer unknown to CUDA all attributes are 0, without an error. */
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
    return CUDA_SUCCESS; /* copies of host memory wait in any case */
}

/* ---- Copies and fills of the driver API, converted to the runtime's ---- */

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

/* The addresses tell the owners, so the contexts are not needed. */
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
    struct cudaPos pos; /* x in bytes, for arrays in elements */
    struct cudaPitchedPtr pointer;
    int host; /* 1: host, 0: device memory and arrays, -1: known from the address */
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

static enum cudaMemcpyKind driver_copy_kind(const struct copy_side *dst, const struct copy_side *src)
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
                                    .kind = driver_copy_kind(&dst, &src)};
    return CUDA_SUCCESS;
}

/* Returns the same copy as 3-D, with one plane. */
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

static CUresult driver_copy_start(const CUDA_MEMCPY3D_v2 *c, CUstream stream, int sync)
{
    struct cudaMemcpy3DParms p;
    CUresult e = mt_driver_copy_params(&p, c);
    if (e)
        return e;
    return mt_driver_result(sync ? cudaMemcpy3D(&p) : cudaMemcpy3DAsync(&p, (cudaStream_t)stream));
}

CUresult drv_cuMemcpy3D_v2(const CUDA_MEMCPY3D_v2 *c)
{
    return driver_copy_start(c, NULL, 1);
}

CUresult drv_cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D_v2 *c, CUstream stream)
{
    return driver_copy_start(c, stream, 0);
}

CUresult drv_cuMemcpy2D_v2(const CUDA_MEMCPY2D_v2 *c)
{
    CUDA_MEMCPY3D_v2 as3 = c ? driver_copy_2d(c) : (CUDA_MEMCPY3D_v2){0};
    return c ? driver_copy_start(&as3, NULL, 1) : CUDA_ERROR_INVALID_VALUE;
}

CUresult drv_cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D_v2 *c, CUstream stream)
{
    CUDA_MEMCPY3D_v2 as3 = c ? driver_copy_2d(c) : (CUDA_MEMCPY3D_v2){0};
    return c ? driver_copy_start(&as3, stream, 0) : CUDA_ERROR_INVALID_VALUE;
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
    return driver_copy_start(&c, NULL, 1);
}

CUresult drv_cuMemcpyAtoD_v2(CUdeviceptr dst, CUarray src, size_t offset, size_t bytes)
{
    CUDA_MEMCPY3D_v2 c = copy_row(bytes);
    copy_from_array(&c, src, offset);
    c.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    c.dstDevice = dst;
    return driver_copy_start(&c, NULL, 1);
}

static CUresult copy_host_to_array(CUarray dst, size_t offset, const void *src, size_t bytes, CUstream stream,
                                   int sync)
{
    CUDA_MEMCPY3D_v2 c = copy_row(bytes);
    copy_to_array(&c, dst, offset);
    c.srcMemoryType = CU_MEMORYTYPE_HOST;
    c.srcHost = src;
    return driver_copy_start(&c, stream, sync);
}

static CUresult copy_array_to_host(void *dst, CUarray src, size_t offset, size_t bytes, CUstream stream,
                                   int sync)
{
    CUDA_MEMCPY3D_v2 c = copy_row(bytes);
    copy_from_array(&c, src, offset);
    c.dstMemoryType = CU_MEMORYTYPE_HOST;
    c.dstHost = dst;
    return driver_copy_start(&c, stream, sync);
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
    return driver_copy_start(&c, NULL, 1);
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

/* Virtual memory management of the driver API on the CPU device: reservations of address ranges, unnamed
 * files that hold memory, and mappings of these. */

#define VMM_GRANULARITY ((size_t)2 << 20)

struct vmm_memory {
    struct vmm_memory *next;
    size_t bytes;
    unsigned refs; /* handles and mappings */
    int fd;
    CUmemAllocationProp prop;
};
struct vmm_range {
    struct vmm_range *next;
    uint64_t base;
    size_t bytes;
    struct vmm_memory *memory; /* memory of a mapping; NULL: a reservation */
    uint64_t readers;          /* bit mask of the devices with access */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
MT_FORK_LOCK(lock, MT_FORK_MODULES);
static struct vmm_memory *memories;
static struct vmm_range *reserved, *mapped;

static struct vmm_memory *vmm_memory_of(CUmemGenericAllocationHandle handle)
{
    struct vmm_memory *m = memories;
    while (m && m != MT_POINTER(handle))
        m = m->next;
    return m;
}

static void vmm_drop(struct vmm_memory *m)
{
    if (--m->refs)
        return;
    struct vmm_memory **at = &memories;
    while (*at != m)
        at = &(*at)->next;
    *at = m->next;
    close(m->fd);
    free(m);
}

/* Returns the range of the list that contains [p, p + bytes), with *at set to its place. */
static struct vmm_range *vmm_within(struct vmm_range *list, uint64_t p, size_t bytes)
{
    for (; list; list = list->next)
        if (p >= list->base && bytes <= list->bytes && p - list->base <= list->bytes - bytes)
            return list;
    return NULL;
}

static struct vmm_range *vmm_meets(struct vmm_range *list, uint64_t p, size_t bytes)
{
    for (; list; list = list->next)
        if (p < list->base + list->bytes && list->base < p + bytes)
            return list;
    return NULL;
}

static CUresult vmm_add(struct vmm_range **list, uint64_t base, size_t bytes, struct vmm_memory *memory)
{
    struct vmm_range *r = malloc(sizeof *r);
    if (!r)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *r = (struct vmm_range){*list, base, bytes, memory, 0};
    *list = r;
    return CUDA_SUCCESS;
}

CUresult drv_cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *prop,
                                           CUmemAllocationGranularity_flags option)
{
    if (!granularity || !prop)
        return CUDA_ERROR_INVALID_VALUE;
    *granularity = VMM_GRANULARITY;
    return CUDA_SUCCESS;
}

/* ---- addresses ---- */

CUresult drv_cuMemAddressReserve(CUdeviceptr *out, size_t bytes, size_t alignment, CUdeviceptr wanted,
                                 unsigned long long flags)
{
    size_t align = alignment > VMM_GRANULARITY ? alignment : VMM_GRANULARITY;
    if (!out || !bytes || bytes % VMM_GRANULARITY || (alignment & (alignment - 1)) || bytes + align < bytes ||
        flags)
        return CUDA_ERROR_INVALID_VALUE;
    char *at = mmap(MT_POINTER(wanted), bytes + align, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                    -1, 0);
    if (at == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    char *base = (char *)(((uintptr_t)at + align - 1) / align * align);
    if (base > at)
        munmap(at, (size_t)(base - at));
    munmap(base + bytes, (size_t)(at + align - base));
    pthread_mutex_lock(&lock);
    CUresult e = vmm_add(&reserved, (uintptr_t)base, bytes, NULL);
    pthread_mutex_unlock(&lock);
    if (e)
        munmap(base, bytes);
    else
        *out = (CUdeviceptr)(uintptr_t)base;
    return e;
}

CUresult drv_cuMemAddressFree(CUdeviceptr p, size_t bytes)
{
    CUresult e = CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    for (struct vmm_range **at = &reserved; *at; at = &(*at)->next)
        if ((*at)->base == p && (*at)->bytes == bytes && !vmm_meets(mapped, p, bytes)) {
            struct vmm_range *r = *at;
            *at = r->next;
            free(r);
            munmap(MT_POINTER(p), bytes);
            e = CUDA_SUCCESS;
            break;
        }
    pthread_mutex_unlock(&lock);
    return e;
}

/* ---- memory ---- */

CUresult drv_cuMemCreate(CUmemGenericAllocationHandle *out, size_t bytes, const CUmemAllocationProp *prop,
                         unsigned long long flags)
{
    if (!out || !prop || !bytes || bytes % VMM_GRANULARITY || flags ||
        prop->type != CU_MEM_ALLOCATION_TYPE_PINNED)
        return CUDA_ERROR_INVALID_VALUE;
    if (prop->requestedHandleTypes != CU_MEM_HANDLE_TYPE_NONE)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE && !mt_device_there(prop->location.id))
        return CUDA_ERROR_INVALID_DEVICE;
    struct vmm_memory *m = calloc(1, sizeof *m);
    int fd = m ? memfd_create("memtrace-device-memory", MFD_CLOEXEC) : -1;
    if (fd < 0 || bytes > mt_device_memory() || ftruncate(fd, (off_t)bytes)) {
        if (fd >= 0)
            close(fd);
        free(m);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *m = (struct vmm_memory){NULL, bytes, 1, fd, *prop};
    pthread_mutex_lock(&lock);
    m->next = memories;
    memories = m;
    pthread_mutex_unlock(&lock);
    *out = (CUmemGenericAllocationHandle)(uintptr_t)m;
    return CUDA_SUCCESS;
}

CUresult drv_cuMemRelease(CUmemGenericAllocationHandle handle)
{
    pthread_mutex_lock(&lock);
    struct vmm_memory *m = vmm_memory_of(handle);
    if (m)
        vmm_drop(m);
    pthread_mutex_unlock(&lock);
    return m ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult drv_cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *p)
{
    if (!handle)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    struct vmm_range *r = vmm_within(mapped, (uintptr_t)p, 1);
    if (r) {
        r->memory->refs++;
        *handle = (CUmemGenericAllocationHandle)(uintptr_t)r->memory;
    }
    pthread_mutex_unlock(&lock);
    return r ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult drv_cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop,
                                                    CUmemGenericAllocationHandle handle)
{
    pthread_mutex_lock(&lock);
    struct vmm_memory *m = prop ? vmm_memory_of(handle) : NULL;
    if (m)
        *prop = m->prop;
    pthread_mutex_unlock(&lock);
    return m ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- mappings ---- */

static int vmm_device(const struct vmm_memory *m)
{
    return m->prop.location.type == CU_MEM_LOCATION_TYPE_DEVICE ? m->prop.location.id : 0;
}

CUresult drv_cuMemMap(CUdeviceptr p, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                      unsigned long long flags)
{
    CUresult e = CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    struct vmm_memory *m = vmm_memory_of(handle);
    if (m && bytes && !(p % VMM_GRANULARITY) && !(bytes % VMM_GRANULARITY) && !(offset % VMM_GRANULARITY) &&
        bytes <= m->bytes && offset <= m->bytes - bytes && vmm_within(reserved, p, bytes) &&
        !vmm_meets(mapped, p, bytes)) {
        e = vmm_add(&mapped, p, bytes, m);
        if (!e && mmap(MT_POINTER(p), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, m->fd, (off_t)offset) ==
                      MAP_FAILED) {
            struct vmm_range *r = mapped;
            mapped = r->next;
            free(r);
            e = CUDA_ERROR_OUT_OF_MEMORY;
        }
        m->refs += !e;
    }
    pthread_mutex_unlock(&lock);
    if (!e && !mt_heap_adopt(vmm_device(m), MT_POINTER(p), bytes, MT_HEAP_DEVICE, 0))
        mt_heap_identify(MT_POINTER(p),
                         mt_object_add(MT_POINTER(p), bytes, "cudaMalloc", vmm_device(m), NULL));
    return e;
}

/* Combines all entries of `access`. Returns CUDA_SUCCESS or an error. */
static CUresult vmm_read(const CUmemAccessDesc *access, size_t n, int *most, uint64_t *with,
                         uint64_t *without)
{
    *most = 0;
    *with = *without = 0;
    for (size_t i = 0; i < n; i++) {
        int device = access[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE ? access[i].location.id : 0;
        if (!mt_device_there(device))
            return CUDA_ERROR_INVALID_DEVICE;
        *(access[i].flags ? with : without) |= 1ull << device;
        *most |= (int)access[i].flags;
    }
    return CUDA_SUCCESS;
}

CUresult drv_cuMemSetAccess(CUdeviceptr p, size_t bytes, const CUmemAccessDesc *access, size_t n)
{
    int flags = 0;
    uint64_t with, without, at = p;
    CUresult e = access && n ? vmm_read(access, n, &flags, &with, &without) : CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    while (!e && at < p + bytes) {
        struct vmm_range *r = vmm_within(mapped, at, 1);
        at = r ? r->base + r->bytes : at;
        e = r ? e : CUDA_ERROR_INVALID_VALUE;
        if (!r)
            break;
        r->readers = (r->readers | with) & ~without;
        flags = !flags && r->readers ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : flags;
        if (mt_devices() > 1)
            mt_heap_open(MT_POINTER(r->base), r->readers);
    }
    int protection = flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE ? PROT_READ | PROT_WRITE
                     : flags == CU_MEM_ACCESS_FLAGS_PROT_READ    ? PROT_READ
                                                                 : PROT_NONE;
    if (!e && mprotect(MT_POINTER(p), bytes, protection))
        e = CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_unlock(&lock);
    return e;
}

CUresult drv_cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location, CUdeviceptr p)
{
    if (!flags || !location)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    struct vmm_range *r = vmm_within(mapped, p, 1);
    pthread_mutex_unlock(&lock);
    int other = r && mt_devices() > 1 && location->type == CU_MEM_LOCATION_TYPE_DEVICE &&
                (location->id < 0 || location->id >= MT_DEVICES_MAX || !(r->readers >> location->id & 1));
    *flags = other ? CU_MEM_ACCESS_FLAGS_PROT_NONE : CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    return r ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult drv_cuMemUnmap(CUdeviceptr p, size_t bytes)
{
    CUresult e = mt_driver_result(cudaDeviceSynchronize()), found = CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    for (struct vmm_range **at = &mapped; *at && !e;) {
        struct vmm_range *r = *at;
        if (r->base < p || r->base - p + r->bytes > bytes) {
            at = &r->next;
            continue;
        }
        *at = r->next;
        mt_object_done(mt_object_take(MT_POINTER(r->base)),
                       mt_heap_free(MT_POINTER(r->base), 1u << MT_HEAP_DEVICE));
        mmap(MT_POINTER(r->base), r->bytes, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
        vmm_drop(r->memory);
        free(r);
        found = CUDA_SUCCESS;
    }
    pthread_mutex_unlock(&lock);
    return e ? e : found;
}

/* Stream memory operations on the CPU device: a stream writes a word, or waits until it has a value. A wait
 * is a host function, since it may last long and must not block a worker of the device. */

#define LONGEST_NS 1000000

struct memory_op {
    void *at;
    uint64_t value;
    unsigned bytes; /* 4 or 8 */
    unsigned flags;
    int write, kept; /* kept: a graph may run it again */
    CUstream stream;
    const struct mt_host_site *site;
};

static void memory_write(void *ctx)
{
    struct memory_op *m = ctx;
    if (m->bytes == 4)
        __atomic_store_n((uint32_t *)m->at, (uint32_t)m->value, __ATOMIC_SEQ_CST);
    else
        __atomic_store_n((uint64_t *)m->at, m->value, __ATOMIC_SEQ_CST);
    mt_fill_note(&(struct mt_fill){m->at, m->bytes, m->bytes, m->bytes, 1, 1, (int)m->value, 1},
                 mt_stream_number((cudaStream_t)m->stream), m->site);
    if (!m->kept)
        free(m);
}

static int memory_has(const struct memory_op *m)
{
    int narrow = m->bytes == 4;
    uint64_t now = narrow ? __atomic_load_n((uint32_t *)m->at, __ATOMIC_SEQ_CST)
                          : __atomic_load_n((uint64_t *)m->at, __ATOMIC_SEQ_CST);
    uint64_t mask = narrow ? UINT32_MAX : UINT64_MAX, ahead = (now - m->value) & mask;
    switch (m->flags) {
    case CU_STREAM_WAIT_VALUE_GEQ: /* for numbers that wrap around */
        return ahead <= mask >> 1;
    case CU_STREAM_WAIT_VALUE_EQ:
        return now == m->value;
    case CU_STREAM_WAIT_VALUE_AND:
        return (now & m->value) != 0;
    default:
        return (~(now | m->value) & mask) != 0;
    }
}

static void driver_wait_value(void *ctx)
{
    struct memory_op *m = ctx;
    struct timespec moment = {.tv_nsec = 1000};
    while (!memory_has(m)) {
        nanosleep(&moment, NULL);
        moment.tv_nsec = moment.tv_nsec * 2 < LONGEST_NS ? moment.tv_nsec * 2 : LONGEST_NS;
    }
    if (!m->kept)
        free(m);
}

static CUresult memory_start(CUstream stream, CUdeviceptr p, uint64_t value, unsigned bytes, unsigned flags,
                             int write)
{
    struct mt_block b;
    enum cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
    if (!write && flags & CU_STREAM_WAIT_VALUE_FLUSH)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (flags > (write ? 1u : 3u) || p % bytes || !mt_heap_find(MT_POINTER(p), &b))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult e = mt_driver_result(cudaStreamIsCapturing((cudaStream_t)stream, &capture));
    struct memory_op *m = e ? NULL : malloc(sizeof *m);
    if (!m)
        return e ? e : CUDA_ERROR_OUT_OF_MEMORY;
    *m = (struct memory_op){.at = MT_POINTER(p),
                            .value = value,
                            .bytes = bytes,
                            .flags = flags,
                            .write = write,
                            .kept = capture == cudaStreamCaptureStatusActive,
                            .stream = stream,
                            .site = mt_host_site_take()};
    e = mt_driver_result(
        cudaLaunchHostFunc((cudaStream_t)stream, write ? memory_write : driver_wait_value, m));
    if (e)
        free(m);
    return e;
}

#define VALUE(bits, write, wait)                                                                             \
    CUresult write(CUstream s, CUdeviceptr p, cuuint##bits##_t value, unsigned flags)                        \
    {                                                                                                        \
        return memory_start(s, p, value, (bits) / 8, flags, 1);                                              \
    }                                                                                                        \
    CUresult wait(CUstream s, CUdeviceptr p, cuuint##bits##_t value, unsigned flags)                         \
    {                                                                                                        \
        return memory_start(s, p, value, (bits) / 8, flags, 0);                                              \
    }
VALUE(32, drv_cuStreamWriteValue32, drv_cuStreamWaitValue32)
VALUE(64, drv_cuStreamWriteValue64, drv_cuStreamWaitValue64)
VALUE(32, drv_cuStreamWriteValue32_v2, drv_cuStreamWaitValue32_v2)
VALUE(64, drv_cuStreamWriteValue64_v2, drv_cuStreamWaitValue64_v2)

static CUresult memory_batched(CUstream s, const CUstreamBatchMemOpParams *p)
{
    switch ((int)p->operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
        return memory_start(s, p->waitValue.address, p->waitValue.value, 4, p->waitValue.flags, 0);
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
        return memory_start(s, p->waitValue.address, p->waitValue.value64, 8, p->waitValue.flags, 0);
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
        return memory_start(s, p->writeValue.address, p->writeValue.value, 4, p->writeValue.flags, 1);
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
        return memory_start(s, p->writeValue.address, p->writeValue.value64, 8, p->writeValue.flags, 1);
    case 6: /* CU_STREAM_MEM_OP_BARRIER: operations are in order anyway */
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}

CUresult drv_cuStreamBatchMemOp_v2(CUstream s, unsigned n, CUstreamBatchMemOpParams *p, unsigned flags)
{
    CUresult e = flags || (n && !p) || n > 256 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    for (unsigned i = 0; i < n && !e; i++)
        e = memory_batched(s, &p[i]);
    return e;
}

/* ---- Arrays, textures and surfaces of the driver API ---- */

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

/* Returns bits and kind of a texture's fetched values. */
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
    /* 8- and 16-bit integers become values in [0, 1] or [-1, 1], unless read as integers. */
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

/* Tensor maps for the copies of cp.async.bulk.tensor: arguments are checked by the rules of cuda.h, and
 * stored in the CPU device's own layout. */

#if CUDA_VERSION >= 12000
_Static_assert(sizeof(CUtensorMap) == sizeof(struct mt_tensor_map), "one layout in the other");

#define PACKED_TYPES 16 /* end of the packed types, which begin at MT_TENSOR_TYPES */
#define LARGE_ATOMS 7
#define STRIDE_MAX (1ull << 40)

static int tensor_is_float(int type)
{
    return type >= MT_TENSOR_F16 && type < MT_TENSOR_TYPES;
}

static CUresult tensor_missing(const char *what)
{
    mt_report("cuTensorMapEncodeTiled: the CPU device does not have %s; it returns CUDA_ERROR_NOT_SUPPORTED",
              what);
    return CUDA_ERROR_NOT_SUPPORTED;
}

/* Checks the enumerations. */
static CUresult tensor_kinds(int type, int interleave, int swizzle, int promotion, int fill)
{
    if (type < 0 || type >= PACKED_TYPES || interleave < 0 || interleave > 2 || swizzle < 0 ||
        swizzle >= LARGE_ATOMS || promotion < 0 || promotion > 3 || fill < 0 || fill > 1)
        return CUDA_ERROR_INVALID_VALUE;
    if (fill && !tensor_is_float(type))
        return CUDA_ERROR_INVALID_VALUE;
    if (type >= MT_TENSOR_TYPES)
        return tensor_missing("packed types of 4 and 6 bits");
    if (interleave)
        return tensor_missing("interleaved layouts");
    return swizzle > 3 ? tensor_missing("swizzles of atoms of 32 and 64 bytes") : CUDA_SUCCESS;
}

/* Adds one dimension; all but the first have a stride. */
static int tensor_dimension(struct mt_tensor_map *m, unsigned i, uint64_t elements, uint64_t stride,
                            unsigned box, unsigned step)
{
    if (!elements || elements > 1ull << 32 || !box || box > 256 || !step || step > 8)
        return -1;
    if (i && (stride % 16 || stride >= STRIDE_MAX))
        return -1;
    m->last[i] = (uint32_t)(elements - 1);
    m->box[i] = (uint16_t)box;
    m->step[i] = (uint8_t)step;
    if (i)
        m->stride[i - 1] = stride;
    return 0;
}

CUresult drv_cuTensorMapEncodeTiled(CUtensorMap *out, CUtensorMapDataType type, cuuint32_t rank,
                                    void *address, const cuuint64_t *dims, const cuuint64_t *strides,
                                    const cuuint32_t *box, const cuuint32_t *steps,
                                    CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                    CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill)
{
    struct mt_tensor_map m = {.magic = MT_TENSOR_MAGIC, .address = (uintptr_t)address};
    CUresult e = tensor_kinds((int)type, (int)interleave, (int)swizzle, (int)promotion, (int)fill);
    if (e)
        return e;
    if (!out || (uintptr_t)out % MT_TENSOR_ALIGN || !rank || rank > MT_TENSOR_RANK || !address ||
        (uintptr_t)address % 16 || !dims || !box || !steps || (rank > 1 && !strides))
        return CUDA_ERROR_INVALID_VALUE;
    m.type = (uint8_t)type;
    m.rank = (uint8_t)rank;
    m.swizzle = (uint8_t)swizzle;
    m.fill = (uint8_t)fill;
    for (unsigned i = 0; i < rank; i++)
        if (tensor_dimension(&m, i, dims[i], i ? strides[i - 1] : 0, box[i], steps[i]))
            return CUDA_ERROR_INVALID_VALUE;
    uint32_t bytes = m.box[0] * mt_tensor_element(&m);
    if (bytes % 16 || (swizzle && bytes > mt_tensor_pitch(&m)))
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(out, &m, sizeof m);
    return CUDA_SUCCESS;
}

CUresult drv_cuTensorMapReplaceAddress(CUtensorMap *map, void *address)
{
    struct mt_tensor_map m;
    if (!map || (uintptr_t)map % MT_TENSOR_ALIGN || !address || (uintptr_t)address % 16)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(&m, map, sizeof m);
    if (m.magic != MT_TENSOR_MAGIC)
        return CUDA_ERROR_INVALID_VALUE;
    m.address = (uintptr_t)address;
    memcpy(map, &m, sizeof m);
    return CUDA_SUCCESS;
}
#endif
