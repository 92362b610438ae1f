/* Recorders of allocations and frees: each calls the device's function and writes down what came of it. */
#include "api/memory/array.h"
#include "api/device/device.h"
#include "api/entry.h"
#include "api/launch/stack.h"
#include "device/gpu.h"
#include "api/graphs/graph_gpu.h"
#include "trace/devices.h"
#include "trace/events.h"
#include "trace/objects.h"
#include "trace/site.h"
#include <stdint.h>

/* Evaluates `call`; when it succeeds notes `p` of `bytes`. */
#define ALLOC(call, p, bytes, kind)                                                                          \
    const struct mt_host_site *site = mt_host_site_take();                                                   \
    cudaError_t e = (call);                                                                                  \
    if (!e)                                                                                                  \
        mt_heap_identify((p), mt_object_add((p), (bytes), (kind), mt_heap_owner(p), site));                  \
    return e

cudaError_t rec_cudaMalloc(void **out, size_t bytes)
{
    ALLOC(MT_NEXT(cudaMalloc)(out, bytes), *out, bytes, "cudaMalloc");
}

cudaError_t rec_cudaMallocHost(void **out, size_t bytes)
{
    ALLOC(MT_NEXT(cudaMallocHost)(out, bytes), *out, bytes, "host");
}

cudaError_t rec_cudaHostAlloc(void **out, size_t bytes, unsigned flags)
{
    ALLOC(MT_NEXT(cudaHostAlloc)(out, bytes, flags), *out, bytes, "host");
}

cudaError_t rec_cudaHostRegister(void *p, size_t bytes, unsigned flags)
{
    ALLOC(MT_NEXT(cudaHostRegister)(p, bytes, flags), p, bytes, "host");
}

cudaError_t rec_cudaMallocManaged(void **out, size_t bytes, unsigned flags)
{
    ALLOC(MT_NEXT(cudaMallocManaged)(out, bytes, flags), *out, bytes, "managed");
}

cudaError_t rec_cudaMallocPitch(void **out, size_t *pitch, size_t width, size_t height)
{
    ALLOC(MT_NEXT(cudaMallocPitch)(out, pitch, width, height), *out, *pitch * height, "cudaMalloc");
}

cudaError_t rec_cudaMalloc3D(struct cudaPitchedPtr *out, struct cudaExtent extent)
{
    ALLOC(MT_NEXT(cudaMalloc3D)(out, extent), out->ptr, out->pitch * extent.height * extent.depth,
          "cudaMalloc");
}

cudaError_t rec_cudaMallocAsync(void **out, size_t bytes, cudaStream_t stream)
{
    ALLOC(MT_NEXT(cudaMallocAsync)(out, bytes, stream), *out, bytes, "async");
}

cudaError_t rec_cudaMallocFromPoolAsync(void **out, size_t bytes, cudaMemPool_t pool, cudaStream_t stream)
{
    ALLOC(MT_NEXT(cudaMallocFromPoolAsync)(out, bytes, pool, stream), *out, bytes, "async");
}

/* A GPU's arrays have no address: their handle stands for it, with no bytes. */
static const void *array_base(cudaArray_t a)
{
    struct mt_array *known = mt_array_get(a);
    return known ? (const void *)known->data : (const void *)a;
}

static uint64_t array_bytes(cudaArray_t a)
{
    struct mt_array *known = mt_array_get(a);
    return known ? (uint64_t)known->slice * known->planes : 0;
}

cudaError_t rec_cudaMallocArray(cudaArray_t *out, const struct cudaChannelFormatDesc *desc, size_t width,
                                size_t height, unsigned flags)
{
    ALLOC(MT_NEXT(cudaMallocArray)(out, desc, width, height, flags), array_base(*out), array_bytes(*out),
          "array");
}

cudaError_t rec_cudaMalloc3DArray(cudaArray_t *out, const struct cudaChannelFormatDesc *desc,
                                  struct cudaExtent extent, unsigned flags)
{
    ALLOC(MT_NEXT(cudaMalloc3DArray)(out, desc, extent, flags), array_base(*out), array_bytes(*out), "array");
}

/* How much of another process's memory it is, only the CPU device knows. */
static uint64_t known_bytes(const void *p)
{
    struct mt_block b;
    return mt_heap_find(p, &b) ? b.bytes : 0;
}

cudaError_t rec_cudaIpcGetMemHandle(cudaIpcMemHandle_t *out, void *p)
{
    mt_host_site_take();
    cudaError_t e = MT_NEXT(cudaIpcGetMemHandle)(out, p);
    int64_t id = e ? -1 : mt_object_id(p);
    if (id >= 0)
        mt_event_share((uint64_t)id, 0, out, sizeof *out);
    return e;
}

cudaError_t rec_cudaIpcOpenMemHandle(void **out, cudaIpcMemHandle_t handle, unsigned flags)
{
    const struct mt_host_site *site = mt_host_site_take();
    cudaError_t e = MT_NEXT(cudaIpcOpenMemHandle)(out, handle, flags);
    int64_t id = e ? -1 : mt_object_add(*out, known_bytes(*out), "ipc", mt_heap_owner(*out), site);
    mt_heap_identify(e ? NULL : *out, id);
    if (id >= 0)
        mt_event_share((uint64_t)id, 1, &handle, sizeof handle);
    return e;
}

static const void *mipmap_base(cudaMipmappedArray_t m)
{
    struct mt_mipmap *known = mt_mipmap_get(m);
    return known ? (const void *)known->level[0]->data : (const void *)m;
}

static uint64_t mipmap_bytes(cudaMipmappedArray_t m)
{
    struct mt_mipmap *known = mt_mipmap_get(m);
    return known ? known->bytes : 0;
}

/* All levels are one object. */
cudaError_t rec_cudaMallocMipmappedArray(cudaMipmappedArray_t *out, const struct cudaChannelFormatDesc *desc,
                                         struct cudaExtent extent, unsigned levels, unsigned flags)
{
    ALLOC(MT_NEXT(cudaMallocMipmappedArray)(out, desc, extent, levels, flags), mipmap_base(*out),
          mipmap_bytes(*out), "array");
}

#define FREE(p, call)                                                                                        \
    mt_host_site_take();                                                                                     \
    struct mt_object *o = mt_object_take(p);                                                                 \
    cudaError_t e = (call);                                                                                  \
    mt_object_done(o, !e);                                                                                   \
    return e

cudaError_t rec_cudaFree(void *p)
{
    FREE(p, MT_NEXT(cudaFree)(p));
}

cudaError_t rec_cudaIpcCloseMemHandle(void *p)
{
    FREE(p, MT_NEXT(cudaIpcCloseMemHandle)(p));
}

cudaError_t rec_cudaFreeHost(void *p)
{
    FREE(p, MT_NEXT(cudaFreeHost)(p));
}

cudaError_t rec_cudaHostUnregister(void *p)
{
    FREE(p, MT_NEXT(cudaHostUnregister)(p));
}

/* The CPU device writes it down when the stream comes to it (pool.c). */
cudaError_t rec_cudaFreeAsync(void *p, cudaStream_t stream)
{
    if (!mt_device_is_gpu()) {
        mt_host_site_take();
        return MT_NEXT(cudaFreeAsync)(p, stream);
    }
    FREE(p, MT_NEXT(cudaFreeAsync)(p, stream));
}

cudaError_t rec_cudaFreeArray(cudaArray_t a)
{
    FREE(a ? array_base(a) : NULL, MT_NEXT(cudaFreeArray)(a));
}

cudaError_t rec_cudaFreeMipmappedArray(cudaMipmappedArray_t m)
{
    FREE(m ? mipmap_base(m) : NULL, MT_NEXT(cudaFreeMipmappedArray)(m));
}

static int record_gone(uint64_t base)
{
    struct mt_block b;
    return !mt_heap_find((const void *)(uintptr_t)base, &b);
}

cudaError_t rec_cudaDeviceReset(void)
{
    mt_host_site_take();
    if (mt_device_is_gpu() && mt_gpu()) {
        mt_gpu()->reset();
        mt_graph_gpu_reset();
    }
    cudaError_t e = MT_NEXT(cudaDeviceReset)();
    if (!e) {
        mt_objects_reset(mt_devices() > 1 ? record_gone : NULL);
        mt_stack_reset();
    }
    return e;
}
