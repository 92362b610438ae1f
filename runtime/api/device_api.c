/* The CPU device as cudaGetDevice* show it: one sm_90 device. */
#include "entry.h"
#include "device.h"
#include "error.h"
#include "heap.h"
#include "stream.h"
#include "sync.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define BUS_ID "0000:00:00.0"
#define CLOCK_KHZ 1000000

static _Atomic unsigned device_flags;
static _Atomic size_t limits[8] = {
    [cudaLimitStackSize] = 1024,
    [cudaLimitPrintfFifoSize] = 1 << 20,
    [cudaLimitMallocHeapSize] = 8 << 20,
    [cudaLimitDevRuntimeSyncDepth] = 2,
    [cudaLimitDevRuntimePendingLaunchCount] = 2048,
    [cudaLimitMaxL2FetchGranularity] = 64,
    [cudaLimitPersistingL2CacheSize] = 0,
};
static _Atomic int cache_config;
#if CUDART_VERSION < 14000
static _Atomic int shared_config = cudaSharedMemBankSizeFourByte;
#endif

static cudaError_t answer(int *out, int value)
{
    MT_RETURN_IF_FAILED();
    if (!out)
        return mt_fail(cudaErrorInvalidValue);
    *out = value;
    return cudaSuccess;
}

cudaError_t IMPL(cudaGetDeviceCount)(int *n)
{
    return answer(n, 1);
}

cudaError_t IMPL(cudaGetDevice)(int *device)
{
    return answer(device, 0);
}

cudaError_t IMPL(cudaSetDevice)(int device)
{
    MT_RETURN_IF_FAILED();
    return mt_fail(device ? cudaErrorInvalidDevice : cudaSuccess);
}

cudaError_t IMPL(cudaChooseDevice)(int *device, const struct cudaDeviceProp *wanted)
{
    return wanted ? answer(device, 0) : mt_fail(cudaErrorInvalidValue);
}

#if CUDART_VERSION >= 12000
cudaError_t IMPL(cudaInitDevice)(int device, unsigned device_flags_, unsigned flags)
{
    return mt_fail(device ? cudaErrorInvalidDevice : cudaSuccess);
}
#endif

cudaError_t IMPL(cudaSetValidDevices)(int *list, int n)
{
    for (int i = 0; list && i < n; i++)
        if (list[i])
            return mt_fail(cudaErrorInvalidDevice);
    return mt_fail(list || !n ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t IMPL(cudaSetDeviceFlags)(unsigned flags)
{
    MT_RETURN_IF_FAILED();
    if (flags & ~(unsigned)cudaDeviceMask)
        return mt_fail(cudaErrorInvalidValue);
    device_flags = flags;
    return cudaSuccess;
}

cudaError_t IMPL(cudaGetDeviceFlags)(unsigned *flags)
{
    return answer((int *)flags, (int)(device_flags | cudaDeviceMapHost));
}

cudaError_t IMPL(cudaGetDeviceProperties)(struct cudaDeviceProp *p, int device)
{
    MT_RETURN_IF_FAILED();
    if (!p || device)
        return mt_fail(p ? cudaErrorInvalidDevice : cudaErrorInvalidValue);
    memset(p, 0, sizeof *p);
    snprintf(p->name, sizeof p->name, "%s", MT_DEV_NAME);
    memcpy(p->uuid.bytes, "memtrace-cpu-dev", sizeof p->uuid.bytes);
    p->totalGlobalMem = mt_device_memory();
    p->sharedMemPerBlock = MT_DEV_SHARED_BLOCK;
    p->regsPerBlock = p->regsPerMultiprocessor = MT_DEV_REGISTERS;
    p->warpSize = 32;
    p->memPitch = 0x7fffffff;
    p->maxThreadsPerBlock = p->maxThreadsDim[0] = p->maxThreadsDim[1] = MT_DEV_THREADS_PER_BLOCK;
    p->maxThreadsDim[2] = MT_DEV_BLOCK_Z;
    p->maxGridSize[0] = (int)MT_DEV_GRID_X;
    p->maxGridSize[1] = p->maxGridSize[2] = MT_DEV_GRID_YZ;
    p->totalConstMem = 64 << 10;
    p->major = MT_DEV_MAJOR;
    p->minor = MT_DEV_MINOR;
    p->textureAlignment = p->surfaceAlignment = 512;
    p->texturePitchAlignment = 32;
    p->multiProcessorCount = (int)mt_device_sms();
    p->integrated = 1;
    p->canMapHostMemory = 1;
    p->concurrentKernels = 1;
    p->asyncEngineCount = 1;
    p->unifiedAddressing = 1;
    p->memoryBusWidth = 64;
    p->l2CacheSize = 4 << 20;
    p->maxThreadsPerMultiProcessor = MT_DEV_THREADS_PER_SM;
    p->streamPrioritiesSupported = 1;
    p->globalL1CacheSupported = p->localL1CacheSupported = 1;
    p->sharedMemPerMultiprocessor = MT_DEV_SHARED_SM;
    p->managedMemory = p->concurrentManagedAccess = 1;
    p->hostNativeAtomicSupported = 1;
    p->canUseHostPointerForRegisteredMem = 1;
    p->cooperativeLaunch = 1;
    p->sharedMemPerBlockOptin = MT_DEV_SHARED_OPTIN;
    p->directManagedMemAccessFromHost = 1;
    p->maxBlocksPerMultiProcessor = MT_DEV_BLOCKS_PER_SM;
    p->reservedSharedMemPerBlock = MT_DEV_SHARED_RESERVED;
#if CUDART_VERSION >= 12000
    p->hostRegisterSupported = 1;
    p->memoryPoolsSupported = 1;
    p->unifiedFunctionPointers = 0;
#endif
#if CUDART_VERSION < 13000
    p->clockRate = p->memoryClockRate = CLOCK_KHZ;
    p->deviceOverlap = 1;
    p->singleToDoublePrecisionPerfRatio = 2;
#endif
    return cudaSuccess;
}

static int attribute(enum cudaDeviceAttr a, const struct cudaDeviceProp *p)
{
    switch ((int)a) {
    case cudaDevAttrMaxThreadsPerBlock:
    case cudaDevAttrMaxBlockDimX:
    case cudaDevAttrMaxBlockDimY:
        return MT_DEV_THREADS_PER_BLOCK;
    case cudaDevAttrMaxBlockDimZ:
        return MT_DEV_BLOCK_Z;
    case cudaDevAttrMaxGridDimX:
        return (int)MT_DEV_GRID_X;
    case cudaDevAttrMaxGridDimY:
    case cudaDevAttrMaxGridDimZ:
        return MT_DEV_GRID_YZ;
    case cudaDevAttrMaxSharedMemoryPerBlock:
        return MT_DEV_SHARED_BLOCK;
    case cudaDevAttrTotalConstantMemory:
        return (int)p->totalConstMem;
    case cudaDevAttrWarpSize:
        return p->warpSize;
    case cudaDevAttrMaxPitch:
        return (int)p->memPitch;
    case cudaDevAttrMaxRegistersPerBlock:
    case cudaDevAttrMaxRegistersPerMultiprocessor:
        return MT_DEV_REGISTERS;
    case cudaDevAttrClockRate:
    case cudaDevAttrMemoryClockRate:
        return CLOCK_KHZ;
    case cudaDevAttrTextureAlignment:
        return (int)p->textureAlignment;
    case cudaDevAttrSurfaceAlignment:
        return (int)p->surfaceAlignment;
    case cudaDevAttrTexturePitchAlignment:
        return (int)p->texturePitchAlignment;
    case cudaDevAttrMultiProcessorCount:
        return p->multiProcessorCount;
    case cudaDevAttrGlobalMemoryBusWidth:
        return p->memoryBusWidth;
    case cudaDevAttrL2CacheSize:
        return p->l2CacheSize;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
        return MT_DEV_THREADS_PER_SM;
    case cudaDevAttrComputeCapabilityMajor:
        return MT_DEV_MAJOR;
    case cudaDevAttrComputeCapabilityMinor:
        return MT_DEV_MINOR;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
        return MT_DEV_SHARED_SM;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
        return MT_DEV_SHARED_OPTIN;
    case cudaDevAttrReservedSharedMemoryPerBlock:
        return MT_DEV_SHARED_RESERVED;
    case cudaDevAttrMaxBlocksPerMultiprocessor:
        return MT_DEV_BLOCKS_PER_SM;
    case cudaDevAttrSingleToDoublePrecisionPerfRatio:
        return 2;
    case cudaDevAttrGpuOverlap:
    case cudaDevAttrIntegrated:
    case cudaDevAttrCanMapHostMemory:
    case cudaDevAttrConcurrentKernels:
    case cudaDevAttrAsyncEngineCount:
    case cudaDevAttrUnifiedAddressing:
    case cudaDevAttrStreamPrioritiesSupported:
    case cudaDevAttrGlobalL1CacheSupported:
    case cudaDevAttrLocalL1CacheSupported:
    case cudaDevAttrManagedMemory:
    case cudaDevAttrConcurrentManagedAccess:
    case cudaDevAttrHostNativeAtomicSupported:
    case cudaDevAttrCanUseHostPointerForRegisteredMem:
    case cudaDevAttrCooperativeLaunch:
    case cudaDevAttrHostRegisterSupported:
    case cudaDevAttrDirectManagedMemAccessFromHost:
    case cudaDevAttrMemoryPoolsSupported:
        return 1;
    default:
        return 0; /* textures, surfaces, clusters, RDMA, NUMA, boards: none */
    }
}

cudaError_t IMPL(cudaDeviceGetAttribute)(int *out, enum cudaDeviceAttr a, int device)
{
    struct cudaDeviceProp p;
    if ((int)a < 1 || (int)a > 1024)
        return mt_fail(cudaErrorInvalidValue);
    cudaError_t e = IMPL(cudaGetDeviceProperties)(&p, device);
    return e ? e : answer(out, attribute(a, &p));
}

cudaError_t IMPL(cudaDeviceGetPCIBusId)(char *out, int size, int device)
{
    MT_RETURN_IF_FAILED();
    if (!out || size <= 0 || device)
        return mt_fail(device ? cudaErrorInvalidDevice : cudaErrorInvalidValue);
    snprintf(out, (size_t)size, "%s", BUS_ID);
    return cudaSuccess;
}

cudaError_t IMPL(cudaDeviceGetByPCIBusId)(int *device, const char *id)
{
    if (!id)
        return mt_fail(cudaErrorInvalidValue);
    return strcasecmp(id, BUS_ID) ? mt_fail(cudaErrorInvalidDevice) : answer(device, 0);
}

/* ---- settings ---- */

cudaError_t IMPL(cudaDeviceSetLimit)(enum cudaLimit limit, size_t value)
{
    MT_RETURN_IF_FAILED();
    if ((unsigned)limit > cudaLimitPersistingL2CacheSize)
        return mt_fail(cudaErrorUnsupportedLimit);
    limits[limit] = value;
    return cudaSuccess;
}

cudaError_t IMPL(cudaDeviceGetLimit)(size_t *out, enum cudaLimit limit)
{
    MT_RETURN_IF_FAILED();
    if (!out)
        return mt_fail(cudaErrorInvalidValue);
    if ((unsigned)limit > cudaLimitPersistingL2CacheSize)
        return mt_fail(cudaErrorUnsupportedLimit);
    *out = limits[limit];
    return cudaSuccess;
}

cudaError_t IMPL(cudaDeviceSetCacheConfig)(enum cudaFuncCache config)
{
    MT_RETURN_IF_FAILED();
    cache_config = (int)config;
    return cudaSuccess;
}

cudaError_t IMPL(cudaDeviceGetCacheConfig)(enum cudaFuncCache *out)
{
    return answer((int *)out, cache_config);
}

#if CUDART_VERSION < 14000
cudaError_t IMPL(cudaDeviceSetSharedMemConfig)(enum cudaSharedMemConfig config)
{
    MT_RETURN_IF_FAILED();
    shared_config = (int)config;
    return cudaSuccess;
}

cudaError_t IMPL(cudaDeviceGetSharedMemConfig)(enum cudaSharedMemConfig *out)
{
    return answer((int *)out, shared_config);
}
#endif

cudaError_t IMPL(cudaDeviceGetStreamPriorityRange)(int *least, int *greatest)
{
    MT_RETURN_IF_FAILED();
    if (least)
        *least = 0;
    if (greatest)
        *greatest = -5;
    return cudaSuccess;
}

cudaError_t IMPL(cudaCtxResetPersistingL2Cache)(void)
{
    return mt_failed();
}

/* ---- the whole device ---- */

cudaError_t IMPL(cudaDeviceSynchronize)(void)
{
    MT_RETURN_IF_FAILED();
    mt_stream_wait_all();
    mt_synced();
    return mt_failed_sync();
}

cudaError_t IMPL(cudaDeviceReset)(void)
{
    mt_stream_wait_all();
    mt_synced();
    mt_heap_reset();
    mt_fail_reset();
    return cudaSuccess;
}

/* ---- peers: there is one device ---- */

cudaError_t IMPL(cudaDeviceCanAccessPeer)(int *can, int device, int peer)
{
    return device || peer ? mt_fail(cudaErrorInvalidDevice) : answer(can, 0);
}

cudaError_t IMPL(cudaDeviceEnablePeerAccess)(int peer, unsigned flags)
{
    return mt_fail(flags ? cudaErrorInvalidValue : cudaErrorInvalidDevice);
}

cudaError_t IMPL(cudaDeviceDisablePeerAccess)(int peer)
{
    return mt_fail(peer ? cudaErrorInvalidDevice : cudaErrorPeerAccessNotEnabled);
}

cudaError_t IMPL(cudaDeviceGetP2PAttribute)(int *out, enum cudaDeviceP2PAttr a, int src, int dst)
{
    return mt_fail(cudaErrorInvalidDevice); /* needs two devices */
}

/* ---- versions, profiler ---- */

cudaError_t IMPL(cudaDriverGetVersion)(int *version)
{
    return answer(version, CUDART_VERSION);
}

cudaError_t IMPL(cudaRuntimeGetVersion)(int *version)
{
    return answer(version, CUDART_VERSION);
}

cudaError_t IMPL(cudaProfilerStart)(void)
{
    return mt_failed();
}

cudaError_t IMPL(cudaProfilerStop)(void)
{
    return mt_failed();
}
