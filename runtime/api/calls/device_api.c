/* The CPU device as cudaGetDevice* show it: sm_90 devices, all alike. */
#include "api/entry.h"
#include "api/streams/capture.h"
#include "trace/devices.h"
#include "api/device/device.h"
#include "api/launch/event.h"
#include "api/tables/error.h"
#include "api/memory/advise.h"
#include "api/memory/array.h"
#include "api/memory/texture.h"
#include "api/memory/pool.h"
#include "api/streams/stream.h"
#include "api/memory/sync.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* What each device has. */
static _Atomic unsigned device_flags[MT_DEVICES_MAX];
static _Atomic int cache_config[MT_DEVICES_MAX];
#if CUDART_VERSION < 14000
static _Atomic int shared_config[MT_DEVICES_MAX]; /* 0: as at first; else one more */
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

cudaError_t impl_cudaDeviceSetLimit(enum cudaLimit limit, size_t value)
{
    MT_RETURN_IF_FAILED();
    if (!mt_limit_there(limit))
        return mt_fail(cudaErrorUnsupportedLimit);
    if (limit == cudaLimitMaxL2FetchGranularity && value > 128)
        value = 128;
    if (limit == cudaLimitPersistingL2CacheSize && value > MT_DEV_L2_PERSISTING)
        return mt_fail(cudaErrorInvalidValue);
    if (limit == cudaLimitMallocHeapSize && mt_device_heap_limit(value))
        return mt_fail(cudaErrorInvalidValue);
    mt_limit_set(mt_device_current(), limit, value);
    return cudaSuccess;
}

cudaError_t impl_cudaDeviceGetLimit(size_t *out, enum cudaLimit limit)
{
    MT_RETURN_IF_FAILED();
    if (!out)
        return mt_fail(cudaErrorInvalidValue);
    if (!mt_limit_there(limit))
        return mt_fail(cudaErrorUnsupportedLimit);
    *out = mt_limit_get(mt_device_current(), limit);
    return cudaSuccess;
}

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

/* The heap of kernels is one for all devices. */
static void device_api_reset_limits(int device)
{
    mt_limits_reset(device);
    if (mt_devices() > 1)
        return;
    mt_device_heap_reset();
    mt_device_heap_limit(MT_DEV_KERNEL_HEAP);
}

cudaError_t impl_cudaDeviceReset(void)
{
    int device = mt_device_current();
    mt_stream_wait_all(mt_devices() > 1 ? MT_ALL_DEVICES : device); /* a peer may use its memory */
    mt_synced();
    mt_streams_reset(device);
    mt_events_reset(device);
    mt_textures_reset(device);
    mt_arrays_reset(device);
    mt_advice_reset(device);
    mt_heap_reset(device);
    device_api_reset_limits(device);
    mt_pools_reset(device);
    mt_fail_reset(device);
    mt_device_alone(device);
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
    int before = mt_device_reach(device, peer, 1);
    mt_heap_generation++; /* who may touch what */
    return mt_fail(before ? cudaErrorPeerAccessAlreadyEnabled : cudaSuccess);
}

cudaError_t impl_cudaDeviceDisablePeerAccess(int peer)
{
    MT_RETURN_IF_FAILED();
    if (!mt_device_there(peer))
        return mt_fail(cudaErrorInvalidDevice);
    int before = mt_device_reach(mt_device_current(), peer, 0);
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
