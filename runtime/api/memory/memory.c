/* Allocation on the CPU device. */
#include "api/entry.h"
#include "array.h"
#include "api/streams/capture.h"
#include "graph_memory.h"
#include "api/device/device.h"
#include "api/tables/error.h"
#include "advise.h"
#include "pool.h"
#include "api/streams/stream.h"
#include "sync.h"
#include "trace/devices.h"
#include "format/image.h"
#include <errno.h>
#include <stdint.h>
#include <string.h>

#define BIT(kind) (1u << (kind))

static cudaError_t memory_alloc(void **out, size_t bytes, enum mt_heap_kind kind, unsigned flags)
{
    MT_RETURN_IF_FAILED();
    if (!out)
        return mt_fail(cudaErrorInvalidValue);
    cudaError_t e = mt_capture_check(NULL, MT_CALL_UNSAFE);
    if (e)
        return e;
    *out = NULL;
    if (!bytes)
        return cudaSuccess;
    *out = mt_heap_alloc(mt_device_current(), bytes, kind, flags);
    if (!*out)
        mt_failed_why("%llu bytes of %llu are used, %llu more are asked for",
                      (unsigned long long)mt_heap_used(mt_device_current()),
                      (unsigned long long)mt_device_memory(), (unsigned long long)bytes);
    return *out ? cudaSuccess : mt_fail(cudaErrorMemoryAllocation);
}

cudaError_t impl_cudaMalloc(void **out, size_t bytes)
{
    return memory_alloc(out, bytes, MT_HEAP_DEVICE, 0);
}

cudaError_t impl_cudaMallocHost(void **out, size_t bytes)
{
    return memory_alloc(out, bytes, MT_HEAP_HOST, cudaHostAllocDefault);
}

cudaError_t impl_cudaHostAlloc(void **out, size_t bytes, unsigned flags)
{
    if (flags & ~(unsigned)(cudaHostAllocPortable | cudaHostAllocMapped | cudaHostAllocWriteCombined))
        return mt_fail(cudaErrorInvalidValue);
    return memory_alloc(out, bytes, MT_HEAP_HOST, flags);
}

cudaError_t impl_cudaMallocManaged(void **out, size_t bytes, unsigned flags)
{
    if ((flags != cudaMemAttachGlobal && flags != cudaMemAttachHost) || !bytes)
        return mt_fail(cudaErrorInvalidValue);
    return memory_alloc(out, bytes, MT_HEAP_MANAGED, flags);
}

cudaError_t impl_cudaMallocPitch(void **out, size_t *pitch, size_t width, size_t height)
{
    size_t p = (width + MT_DEV_PITCH - 1) / MT_DEV_PITCH * MT_DEV_PITCH, bytes;
    if (!pitch || width > SIZE_MAX - MT_DEV_PITCH || __builtin_mul_overflow(p, height, &bytes))
        return mt_fail(cudaErrorInvalidValue);
    *pitch = p;
    return memory_alloc(out, bytes, MT_HEAP_DEVICE, 0);
}

cudaError_t impl_cudaMalloc3D(struct cudaPitchedPtr *out, struct cudaExtent extent)
{
    size_t rows;
    if (!out || __builtin_mul_overflow(extent.height, extent.depth, &rows))
        return mt_fail(cudaErrorInvalidValue);
    cudaError_t e = impl_cudaMallocPitch(&out->ptr, &out->pitch, extent.width, rows);
    out->xsize = extent.width;
    out->ysize = extent.height;
    return e;
}

/* Waits for the devices whose kernels may use the block at p. */
static void memory_wait(const void *p)
{
    struct mt_block b;
    int found = mt_heap_find(p, &b);
    for (int device = 0; device < mt_devices(); device++)
        if (!found || mt_heap_reaches(device, &b))
            mt_stream_wait_all(device);
}

/* Frees what only this call may free from now on; before that its devices are waited for. */
static cudaError_t free_after_all(void *p, unsigned kinds)
{
    struct mt_block b;
    if (!mt_heap_condemn(p, kinds)) { /* nothing to wait for */
        mt_failed_free(p, kinds);
        return mt_fail(cudaErrorInvalidValue);
    }
    memory_wait(p);
    int found = mt_heap_find(p, &b);
    mt_heap_free_condemned(p);
    if (found && b.kind == MT_HEAP_DEVICE)
        mt_pool_freed(b.flags, b.bytes);
    if (found && b.kind == MT_HEAP_MANAGED)
        mt_advice_forget(b.base);
    return cudaSuccess;
}

cudaError_t impl_cudaFree(void *p)
{
    MT_RETURN_IF_FAILED();
    cudaError_t e = mt_capture_check(NULL, MT_CALL_UNSAFE);
    int of_graph = e ? 0 : mt_graph_gave_back(p);
    if (of_graph < 0)
        e = mt_fail(cudaErrorInvalidValue);
    if (!e && p && !of_graph)
        e = free_after_all(p, BIT(MT_HEAP_DEVICE) | BIT(MT_HEAP_MANAGED));
    if (e)
        return e;
    mt_stream_wait_all(mt_device_current());
    mt_synced();
    return mt_failed_sync();
}

cudaError_t impl_cudaFreeHost(void *p)
{
    MT_RETURN_IF_FAILED();
    cudaError_t e = mt_capture_check(NULL, MT_CALL_UNSAFE);
    if (!e && p)
        return free_after_all(p, BIT(MT_HEAP_HOST));
    if (!e)
        mt_stream_wait_all(MT_ALL_DEVICES);
    return e;
}

/* ---- the program's own memory ---- */

cudaError_t impl_cudaHostRegister(void *p, size_t bytes, unsigned flags)
{
    static const unsigned known = cudaHostRegisterPortable | cudaHostRegisterMapped |
                                  cudaHostRegisterIoMemory | cudaHostRegisterReadOnly;
    MT_RETURN_IF_FAILED();
    if (!p || !bytes || flags & ~known || (uintptr_t)p + bytes < (uintptr_t)p)
        return mt_fail(cudaErrorInvalidValue);
    int rc = mt_heap_adopt(mt_device_current(), p, bytes, MT_HEAP_REGISTERED, flags);
    return mt_fail(rc == EEXIST ? cudaErrorHostMemoryAlreadyRegistered
                   : rc         ? cudaErrorMemoryAllocation
                                : cudaSuccess);
}

cudaError_t impl_cudaHostUnregister(void *p)
{
    MT_RETURN_IF_FAILED();
    if (!p)
        return mt_fail(cudaErrorInvalidValue);
    if (mt_heap_free(p, BIT(MT_HEAP_REGISTERED)))
        return cudaSuccess;
    mt_failed_free(p, BIT(MT_HEAP_REGISTERED));
    return mt_fail(cudaErrorHostMemoryNotRegistered);
}

static int is_host(const struct mt_block *b)
{
    return b->kind == MT_HEAP_HOST || b->kind == MT_HEAP_REGISTERED;
}

cudaError_t impl_cudaHostGetDevicePointer(void **out, void *host, unsigned flags)
{
    struct mt_block b;
    MT_RETURN_IF_FAILED();
    if (!out || flags || !mt_heap_find(host, &b) || !is_host(&b))
        return mt_fail(cudaErrorInvalidValue);
    *out = host;
    return cudaSuccess;
}

cudaError_t impl_cudaHostGetFlags(unsigned *flags, void *host)
{
    struct mt_block b;
    MT_RETURN_IF_FAILED();
    if (!flags || !mt_heap_find(host, &b) || !is_host(&b))
        return mt_fail(cudaErrorInvalidValue);
    *flags = b.flags | cudaHostAllocMapped; /* all host memory is reachable for the device */
    return cudaSuccess;
}

/* ---- questions ---- */

cudaError_t impl_cudaMemGetInfo(size_t *free_bytes, size_t *total)
{
    MT_RETURN_IF_FAILED();
    if (!free_bytes || !total)
        return mt_fail(cudaErrorInvalidValue);
    uint64_t all = mt_device_memory(), used = mt_heap_used(mt_device_current());
    *total = all;
    *free_bytes = used < all ? all - used : 0;
    return cudaSuccess;
}

cudaError_t impl_cudaPointerGetAttributes(struct cudaPointerAttributes *a, const void *p)
{
    static const enum cudaMemoryType types[] = {
        [MT_HEAP_DEVICE] = cudaMemoryTypeDevice, [MT_HEAP_MANAGED] = cudaMemoryTypeManaged,
        [MT_HEAP_HOST] = cudaMemoryTypeHost,     [MT_HEAP_REGISTERED] = cudaMemoryTypeHost,
        [MT_HEAP_SYMBOL] = cudaMemoryTypeDevice, [MT_HEAP_IPC] = cudaMemoryTypeDevice,
    };
    struct mt_block b;
    MT_RETURN_IF_FAILED();
    if (!a || !p)
        return mt_fail(cudaErrorInvalidValue);
    memset(a, 0, sizeof *a);
    if (!mt_heap_find(p, &b)) {
        a->type = cudaMemoryTypeUnregistered;
        a->device = cudaInvalidDeviceId;
        a->hostPointer = (void *)(uintptr_t)p;
        return cudaSuccess;
    }
    a->type = types[b.kind];
    a->device = b.kind == MT_HEAP_SYMBOL && b.flags == MT_VAR_MANAGED ? mt_device_current() : b.device;
    if (b.kind == MT_HEAP_SYMBOL && b.flags == MT_VAR_MANAGED)
        a->type = cudaMemoryTypeManaged;
    a->devicePointer = (void *)(uintptr_t)p;
    a->hostPointer = a->type == cudaMemoryTypeDevice ? NULL : (void *)(uintptr_t)p;
    return cudaSuccess;
}
