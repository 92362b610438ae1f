/* The CPU device as shown by cudaGetDevice*: identical sm_90 devices. */
#include "api/entry.h"
#include "api/streams/stream.h"
#include "trace/devices.h"
#include "api/device/device.h"
#include "api/launch/launch.h"
#include "api/tables/error.h"
#include "api/memory/memory.h"
#include "base/fork.h"
#include "trace/objects.h"
#include "memtrace/annotate.h"
#include "trace/events.h"
#include "device/gpu.h"
#include "api/graphs/graph.h"
#include "trace/site.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Settings of each device. */
static _Atomic unsigned device_flags[MT_DEVICES_MAX];
static _Atomic int cache_config[MT_DEVICES_MAX];
#if CUDART_VERSION < 14000
static _Atomic int shared_config[MT_DEVICES_MAX]; /* 0: the default; else the value + 1 */
#endif

static cudaError_t device_api_answer(int *out, int value)
{
    MT_RETURN_IF_FAILED();
    if (!out)
        return mt_fail(cudaErrorInvalidValue);
    *out = value;
    return cudaSuccess;
}

cudaError_t impl_cudaGetDeviceCount(int *n)
{
    return device_api_answer(n, mt_devices());
}

cudaError_t impl_cudaGetDevice(int *device)
{
    return device_api_answer(device, mt_device_current());
}

cudaError_t impl_cudaSetDevice(int device)
{
    if (!mt_device_there(device))
        return mt_fail(cudaErrorInvalidDevice);
    mt_device_select(device);
    return mt_failed();
}

cudaError_t impl_cudaChooseDevice(int *device, const struct cudaDeviceProp *wanted)
{
    return wanted ? device_api_answer(device, 0) : mt_fail(cudaErrorInvalidValue);
}

#if CUDART_VERSION >= 12000
cudaError_t impl_cudaInitDevice(int device, unsigned device_flags_, unsigned flags)
{
    if (!mt_device_there(device))
        return mt_fail(cudaErrorInvalidDevice);
    if (flags & ~(unsigned)cudaInitDeviceFlagsAreValid)
        return mt_fail(cudaErrorInvalidValue);
    int before = mt_device_select(device);
    cudaError_t e = flags ? impl_cudaSetDeviceFlags(device_flags_) : mt_failed();
    mt_device_select(before);
    return e;
}
#endif

cudaError_t impl_cudaSetValidDevices(int *list, int n)
{
    for (int i = 0; list && i < n; i++)
        if (!mt_device_there(list[i]))
            return mt_fail(cudaErrorInvalidDevice);
    return mt_fail(list || !n ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t impl_cudaSetDeviceFlags(unsigned flags)
{
    unsigned schedule = flags & cudaDeviceScheduleMask;
    MT_RETURN_IF_FAILED();
    if (flags & ~(unsigned)cudaDeviceMask || (schedule & (schedule - 1))) /* at most one way to wait */
        return mt_fail(cudaErrorInvalidValue);
    device_flags[mt_device_current()] = flags;
    return cudaSuccess;
}

cudaError_t impl_cudaGetDeviceFlags(unsigned *flags)
{
    return device_api_answer((int *)flags, (int)(device_flags[mt_device_current()] | cudaDeviceMapHost));
}

cudaError_t impl_cudaDeviceGetPCIBusId(char *out, int size, int device)
{
    MT_RETURN_IF_FAILED();
    if (!mt_device_there(device))
        return mt_fail(cudaErrorInvalidDevice);
    if (!out || size < (int)sizeof "0000:00:00.0")
        return mt_fail(cudaErrorInvalidValue);
    snprintf(out, (size_t)size, "0000:%02x:00.0", (unsigned)device & 0xff);
    return cudaSuccess;
}

cudaError_t impl_cudaDeviceGetByPCIBusId(int *device, const char *id)
{
    if (!id)
        return mt_fail(cudaErrorInvalidValue);
    char own[16];
    for (int i = 0; i < mt_devices(); i++) {
        snprintf(own, sizeof own, "0000:%02x:00.0", (unsigned)i & 0xff);
        if (!strcasecmp(id, own))
            return device_api_answer(device, i);
    }
    return mt_fail(cudaErrorInvalidDevice);
}

/* ---- settings ---- */

cudaError_t impl_cudaDeviceSetCacheConfig(enum cudaFuncCache config)
{
    MT_RETURN_IF_FAILED();
    if ((unsigned)config > cudaFuncCachePreferEqual)
        return mt_fail(cudaErrorInvalidValue);
    cache_config[mt_device_current()] = (int)config;
    return cudaSuccess;
}

cudaError_t impl_cudaDeviceGetCacheConfig(enum cudaFuncCache *out)
{
    return device_api_answer((int *)out, cache_config[mt_device_current()]);
}

#if CUDART_VERSION < 14000
cudaError_t impl_cudaDeviceSetSharedMemConfig(enum cudaSharedMemConfig config)
{
    MT_RETURN_IF_FAILED();
    if ((unsigned)config > cudaSharedMemBankSizeEightByte)
        return mt_fail(cudaErrorInvalidValue);
    shared_config[mt_device_current()] = (int)config + 1;
    return cudaSuccess;
}

cudaError_t impl_cudaDeviceGetSharedMemConfig(enum cudaSharedMemConfig *out)
{
    int set = shared_config[mt_device_current()];
    return device_api_answer((int *)out, set ? set - 1 : cudaSharedMemBankSizeFourByte);
}
#endif

cudaError_t impl_cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    MT_RETURN_IF_FAILED();
    if (least)
        *least = 0;
    if (greatest)
        *greatest = -5;
    return cudaSuccess;
}

cudaError_t impl_cudaCtxResetPersistingL2Cache(void)
{
    return mt_failed();
}

/* ---- the whole device ---- */

cudaError_t impl_cudaDeviceSynchronize(void)
{
    MT_RETURN_IF_FAILED();
    cudaError_t e = mt_capture_check(NULL, MT_CALL_DEVICE);
    if (e)
        return e;
    mt_stream_wait_all(mt_device_current());
    mt_synced();
    return mt_failed_sync();
}

cudaError_t impl_cudaDeviceReset(void)
{
    int device = mt_device_current();
    mt_stream_wait_all(mt_devices() > 1 ? MT_ALL_DEVICES : device); /* a peer may use its memory */
    mt_synced();
    mt_streams_reset(device);
    mt_events_reset(device);
    mt_arrays_reset(device);
    mt_memory_reset(device);
    mt_limits_reset(device);
    mt_fail_reset(device);
    for (int i = 0; i < MT_DEVICES_MAX; i++)
        mt_device_peers[device][i] = 0;
    return cudaSuccess;
}

/* ---- peers ---- */

cudaError_t impl_cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
    if (!mt_device_there(device) || !mt_device_there(peer))
        return mt_fail(cudaErrorInvalidDevice);
    return device_api_answer(can, device != peer);
}

cudaError_t impl_cudaDeviceEnablePeerAccess(int peer, unsigned flags)
{
    int device = mt_device_current();
    MT_RETURN_IF_FAILED();
    if (flags || !mt_device_there(peer) || peer == device)
        return mt_fail(flags ? cudaErrorInvalidValue : cudaErrorInvalidDevice);
    int before = atomic_exchange(&mt_device_peers[device][peer], 1);
    mt_heap_generation++; /* access rights have changed */
    return mt_fail(before ? cudaErrorPeerAccessAlreadyEnabled : cudaSuccess);
}

cudaError_t impl_cudaDeviceDisablePeerAccess(int peer)
{
    MT_RETURN_IF_FAILED();
    if (!mt_device_there(peer))
        return mt_fail(cudaErrorInvalidDevice);
    int before = atomic_exchange(&mt_device_peers[mt_device_current()][peer], 0);
    mt_heap_generation++;
    return mt_fail(before ? cudaSuccess : cudaErrorPeerAccessNotEnabled);
}

cudaError_t impl_cudaDeviceGetP2PAttribute(int *out, enum cudaDeviceP2PAttr a, int src, int dst)
{
    if (!mt_device_there(src) || !mt_device_there(dst) || src == dst)
        return mt_fail(cudaErrorInvalidDevice);
    if ((int)a < cudaDevP2PAttrPerformanceRank || (int)a > cudaDevP2PAttrCudaArrayAccessSupported)
        return mt_fail(cudaErrorInvalidValue);
    return device_api_answer(out, a != cudaDevP2PAttrPerformanceRank);
}

/* ---- versions, profiler ---- */

cudaError_t impl_cudaDriverGetVersion(int *version)
{
    return device_api_answer(version, CUDART_VERSION);
}

cudaError_t impl_cudaRuntimeGetVersion(int *version)
{
    return device_api_answer(version, CUDART_VERSION);
}

cudaError_t impl_cudaProfilerStart(void)
{
    return mt_failed();
}

cudaError_t impl_cudaProfilerStop(void)
{
    return mt_failed();
}

/* Answers of the runtime about the driver, its log and its notifications, without a driver. */

#if CUDART_VERSION >= 13000
/* A single device is not its own peer. */
cudaError_t impl_cudaDeviceGetP2PAtomicCapabilities(unsigned *capabilities,
                                                    const enum cudaAtomicOperation *operations,
                                                    unsigned count, int from, int to)
{
    return mt_fail(cudaErrorInvalidDevice);
}
#endif

/* The driver's error log on the CPU device. It is empty, since memtrace reports errors on stderr. Callbacks
 * can be registered, but are never called. */

#if CUDART_VERSION >= 12090
struct CUlogsCallbackEntry_st {
    struct CUlogsCallbackEntry_st *next;
};
static cudaLogsCallbackHandle asked;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
MT_FORK_LOCK(lock, MT_FORK_LEAVES);

cudaError_t impl_cudaLogsRegisterCallback(cudaLogsCallback_t callback, void *data,
                                          cudaLogsCallbackHandle *out)
{
    cudaLogsCallbackHandle h = callback && out ? malloc(sizeof *h) : NULL;
    if (!h)
        return mt_fail(callback && out ? cudaErrorMemoryAllocation : cudaErrorInvalidValue);
    pthread_mutex_lock(&lock);
    h->next = asked;
    asked = h;
    pthread_mutex_unlock(&lock);
    *out = h;
    return cudaSuccess;
}

cudaError_t impl_cudaLogsUnregisterCallback(cudaLogsCallbackHandle callback)
{
    pthread_mutex_lock(&lock);
    cudaLogsCallbackHandle *at = &asked, found;
    while (*at && *at != callback)
        at = &(*at)->next;
    if ((found = *at) != NULL)
        *at = found->next;
    pthread_mutex_unlock(&lock);
    free(found);
    return found ? cudaSuccess : mt_fail(cudaErrorInvalidValue);
}
#endif

/* Names of allocations: the variables of the caller that hold their addresses, and memtrace_name. */

enum { NAME = 512 };

__attribute__((visibility("default"))) uint64_t __mt_host_allocations(void)
{
    return mt_event_allocations();
}

/* Returns the name with the index used in its last "[]". */
static const char *names_indexed(char out[NAME], const char *name, uint64_t index)
{
    const char *at = NULL;
    for (const char *c = name; (c = strstr(c, "[]")); c++)
        at = c;
    if (!at || index == UINT64_MAX)
        return name;
    snprintf(out, NAME, "%.*s[%lld]%s", (int)(at - name), name, (long long)index, at + 2);
    return out;
}

/* Returns the memory of an array for its handle. */
static uint64_t names_base(uint64_t word)
{
    struct mt_array *array = word ? mt_array_get((cudaArray_const_t)(uintptr_t)word) : NULL;
    return array ? (uint64_t)(uintptr_t)array->data : word;
}

__attribute__((visibility("default"))) void __mt_host_named(const struct mt_host_name *what, uint64_t before,
                                                            const void *slot, uint64_t value, uint64_t index)
{
    char name[NAME], rest[NAME];
    if (mt_event_allocations() == before) /* the usual case: nothing was allocated meanwhile */
        return;
    struct mt_object_name n = {names_indexed(name, what->name, index), names_indexed(rest, what->rest, index),
                               what->record};
    if (!slot)
        mt_object_name(names_base(value), before, &n);
    for (uint32_t i = 0; slot && i + sizeof value <= what->bytes; i += sizeof value) {
        memcpy(&value, (const char *)slot + i, sizeof value);
        mt_object_name(names_base(value), before, &n);
    }
}

__attribute__((visibility("default"))) void memtrace_name(const void *p, const char *name)
{
    if (name && *name)
        mt_object_name_whole(p, name);
}

/* Recorders of allocations and frees: each calls the device's function and logs the result. */

/* Evaluates `call`; on success records `p` of `bytes`. */
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

#define ALLOC_IN(call, p, bytes, stream)                                                                     \
    const struct mt_host_site *site = mt_host_site_take();                                                   \
    cudaError_t e = (call);                                                                                  \
    if (!e && (p)) {                                                                                         \
        mt_heap_identify((p), mt_object_add((p), (bytes), "async", mt_heap_owner(p), site));                 \
        mt_memory_ordered((p), (stream));                                                                    \
    }                                                                                                        \
    return e

cudaError_t rec_cudaMallocAsync(void **out, size_t bytes, cudaStream_t stream)
{
    ALLOC_IN(MT_NEXT(cudaMallocAsync)(out, bytes, stream), *out, bytes, stream);
}

cudaError_t rec_cudaMallocFromPoolAsync(void **out, size_t bytes, cudaMemPool_t pool, cudaStream_t stream)
{
    ALLOC_IN(MT_NEXT(cudaMallocFromPoolAsync)(out, bytes, pool, stream), *out, bytes, stream);
}

/* Returns the handle of a GPU's array in place of an address, with 0 bytes. */
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

/* Returns the size of another process's memory, known only on the CPU device. */
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

/* The CPU device logs it when the stream reaches it (memory.c). */
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
