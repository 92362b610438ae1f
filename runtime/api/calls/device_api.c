/* The CPU device as cudaGetDevice* show it: one sm_90 device. */
#include "api/entry.h"
#include "api/streams/capture.h"
#include "api/device/device.h"
#include "api/device/device_heap.h"
#include "api/launch/event.h"
#include "api/tables/error.h"
#include "api/memory/advise.h"
#include "api/memory/array.h"
#include "api/memory/texture.h"
#include "api/device/heap.h"
#include "api/memory/pool.h"
#include "api/streams/stream.h"
#include "api/memory/sync.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define BUS_ID "0000:00:00.0"

static _Atomic unsigned device_flags;
#define LIMITS                                                                                               \
    [cudaLimitStackSize] = 1024, [cudaLimitPrintfFifoSize] = 1 << 20,                                        \
    [cudaLimitMallocHeapSize] = MT_DEV_KERNEL_HEAP, [cudaLimitDevRuntimePendingLaunchCount] = 2048,          \
    [cudaLimitMaxL2FetchGranularity] = 64, [cudaLimitPersistingL2CacheSize] = 0
static const size_t first_limits[] = {LIMITS};
static _Atomic size_t limits[] = {LIMITS};
static _Atomic int cache_config;
#if CUDART_VERSION < 14000
static _Atomic int shared_config = cudaSharedMemBankSizeFourByte;
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
    return device_api_answer(n, 1);
}

cudaError_t impl_cudaGetDevice(int *device)
{
    return device_api_answer(device, 0);
}

cudaError_t impl_cudaSetDevice(int device)
{
    MT_RETURN_IF_FAILED();
    return mt_fail(device ? cudaErrorInvalidDevice : cudaSuccess);
}

cudaError_t impl_cudaChooseDevice(int *device, const struct cudaDeviceProp *wanted)
{
    return wanted ? device_api_answer(device, 0) : mt_fail(cudaErrorInvalidValue);
}

#if CUDART_VERSION >= 12000
cudaError_t impl_cudaInitDevice(int device, unsigned device_flags_, unsigned flags)
{
    if (device)
        return mt_fail(cudaErrorInvalidDevice);
    if (flags & ~(unsigned)cudaInitDeviceFlagsAreValid)
        return mt_fail(cudaErrorInvalidValue);
    return flags ? impl_cudaSetDeviceFlags(device_flags_) : mt_failed();
}
#endif

cudaError_t impl_cudaSetValidDevices(int *list, int n)
{
    for (int i = 0; list && i < n; i++)
        if (list[i])
            return mt_fail(cudaErrorInvalidDevice);
    return mt_fail(list || !n ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t impl_cudaSetDeviceFlags(unsigned flags)
{
    unsigned schedule = flags & cudaDeviceScheduleMask;
    MT_RETURN_IF_FAILED();
    if (flags & ~(unsigned)cudaDeviceMask || (schedule & (schedule - 1))) /* at most one way to wait */
        return mt_fail(cudaErrorInvalidValue);
    device_flags = flags;
    return cudaSuccess;
}

cudaError_t impl_cudaGetDeviceFlags(unsigned *flags)
{
    return device_api_answer((int *)flags, (int)(device_flags | cudaDeviceMapHost));
}

cudaError_t impl_cudaDeviceGetPCIBusId(char *out, int size, int device)
{
    MT_RETURN_IF_FAILED();
    if (!out || size <= (int)strlen(BUS_ID) || device)
        return mt_fail(device ? cudaErrorInvalidDevice : cudaErrorInvalidValue);
    snprintf(out, (size_t)size, "%s", BUS_ID);
    return cudaSuccess;
}

cudaError_t impl_cudaDeviceGetByPCIBusId(int *device, const char *id)
{
    if (!id)
        return mt_fail(cudaErrorInvalidValue);
    return strcasecmp(id, BUS_ID) ? mt_fail(cudaErrorInvalidDevice) : device_api_answer(device, 0);
}

/* ---- settings ---- */

/* The depth of device-side synchronisation: gone from sm_90 on. */
static int has_limit(enum cudaLimit limit)
{
    return (unsigned)limit <= cudaLimitPersistingL2CacheSize && limit != cudaLimitDevRuntimeSyncDepth;
}

cudaError_t impl_cudaDeviceSetLimit(enum cudaLimit limit, size_t value)
{
    MT_RETURN_IF_FAILED();
    if (!has_limit(limit))
        return mt_fail(cudaErrorUnsupportedLimit);
    if (limit == cudaLimitMaxL2FetchGranularity && value > 128)
        value = 128;
    if (limit == cudaLimitPersistingL2CacheSize && value > MT_DEV_L2_PERSISTING)
        return mt_fail(cudaErrorInvalidValue);
    if (limit == cudaLimitMallocHeapSize && mt_device_heap_limit(value))
        return mt_fail(cudaErrorInvalidValue);
    limits[limit] = value;
    return cudaSuccess;
}

cudaError_t impl_cudaDeviceGetLimit(size_t *out, enum cudaLimit limit)
{
    MT_RETURN_IF_FAILED();
    if (!out)
        return mt_fail(cudaErrorInvalidValue);
    if (!has_limit(limit))
        return mt_fail(cudaErrorUnsupportedLimit);
    *out = limits[limit];
    return cudaSuccess;
}

cudaError_t impl_cudaDeviceSetCacheConfig(enum cudaFuncCache config)
{
    MT_RETURN_IF_FAILED();
    if ((unsigned)config > cudaFuncCachePreferEqual)
        return mt_fail(cudaErrorInvalidValue);
    cache_config = (int)config;
    return cudaSuccess;
}

cudaError_t impl_cudaDeviceGetCacheConfig(enum cudaFuncCache *out)
{
    return device_api_answer((int *)out, cache_config);
}

#if CUDART_VERSION < 14000
cudaError_t impl_cudaDeviceSetSharedMemConfig(enum cudaSharedMemConfig config)
{
    MT_RETURN_IF_FAILED();
    if ((unsigned)config > cudaSharedMemBankSizeEightByte)
        return mt_fail(cudaErrorInvalidValue);
    shared_config = (int)config;
    return cudaSuccess;
}

cudaError_t impl_cudaDeviceGetSharedMemConfig(enum cudaSharedMemConfig *out)
{
    return device_api_answer((int *)out, shared_config);
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
    mt_stream_wait_all();
    mt_synced();
    return mt_failed_sync();
}

static void device_api_reset_limits(void)
{
    mt_device_heap_reset();
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        limits[i] = first_limits[i];
    mt_device_heap_limit(MT_DEV_KERNEL_HEAP);
}

cudaError_t impl_cudaDeviceReset(void)
{
    mt_stream_wait_all();
    mt_synced();
    mt_streams_reset();
    mt_events_reset();
    mt_textures_reset();
    mt_arrays_reset();
    mt_heap_reset();
    device_api_reset_limits();
    mt_advice_reset();
    mt_pools_reset();
    mt_fail_reset();
    return cudaSuccess;
}

/* ---- peers: there is one device ---- */

cudaError_t impl_cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
    return device || peer ? mt_fail(cudaErrorInvalidDevice) : device_api_answer(can, 0);
}

cudaError_t impl_cudaDeviceEnablePeerAccess(int peer, unsigned flags)
{
    return mt_fail(flags ? cudaErrorInvalidValue : cudaErrorInvalidDevice);
}

cudaError_t impl_cudaDeviceDisablePeerAccess(int peer)
{
    return mt_fail(peer ? cudaErrorInvalidDevice : cudaErrorPeerAccessNotEnabled);
}

cudaError_t impl_cudaDeviceGetP2PAttribute(int *out, enum cudaDeviceP2PAttr a, int src, int dst)
{
    return mt_fail(cudaErrorInvalidDevice); /* needs two devices */
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
