/* Properties and attributes of the CPU device. Attributes are read off the properties,
 * so that the two agree. */
#include "api/entry.h"
#include "device.h"
#include "trace/devices.h"
#include "api/tables/error.h"
#include <stdio.h>
#include <string.h>

#define CLOCK_KHZ 1000000

/* Sizes of arrays, textures and surfaces: those that CUDA documents for sm_90. */
static void set_textures(struct cudaDeviceProp *p)
{
    static const int layered[] = {32768, 32768, 2048}, cube[] = {32768, 2046};
    p->textureAlignment = p->surfaceAlignment = 512;
    p->texturePitchAlignment = 32;
    p->maxTexture1D = 131072;
    p->maxTexture1DMipmap = 32768;
    p->maxTexture2D[0] = p->maxSurface2D[0] = 131072;
    p->maxTexture2D[1] = p->maxSurface2D[1] = 65536;
    p->maxTexture2DMipmap[0] = p->maxTexture2DMipmap[1] = 32768;
    p->maxTexture2DLinear[0] = 131072;
    p->maxTexture2DLinear[1] = 65000;
    p->maxTexture2DLinear[2] = 2097120;
    p->maxTexture2DGather[0] = p->maxTexture2DGather[1] = 32768;
    for (int i = 0; i < 3; i++)
        p->maxTexture3D[i] = p->maxSurface3D[i] = 16384;
    p->maxTexture3DAlt[0] = p->maxTexture3DAlt[1] = 8192;
    p->maxTexture3DAlt[2] = 32768;
    p->maxTextureCubemap = p->maxSurfaceCubemap = 32768;
    p->maxSurface1D = 32768;
    p->maxTexture1DLayered[0] = p->maxSurface1DLayered[0] = 32768;
    p->maxTexture1DLayered[1] = p->maxSurface1DLayered[1] = 2048;
    memcpy(p->maxTexture2DLayered, layered, sizeof layered);
    memcpy(p->maxSurface2DLayered, layered, sizeof layered);
    memcpy(p->maxTextureCubemapLayered, cube, sizeof cube);
    memcpy(p->maxSurfaceCubemapLayered, cube, sizeof cube);
}

static void set_versioned(struct cudaDeviceProp *p)
{
#if CUDART_VERSION >= 12000
    p->hostRegisterSupported = 1;
    p->memoryPoolsSupported = 1;
    p->ipcEventSupported = 1;
#endif
#if CUDART_VERSION >= 13000
    p->hostNumaId = -1;
    p->deviceNumaId = -1;
#endif
#if CUDART_VERSION < 13000
    p->clockRate = p->memoryClockRate = CLOCK_KHZ;
    p->deviceOverlap = 1;
    p->singleToDoublePrecisionPerfRatio = 2;
    p->cooperativeMultiDeviceLaunch = 0;
#if CUDART_VERSION >= 12000
    p->maxTexture1DLinear = 1 << 28;
#endif
#endif
}

cudaError_t impl_cudaGetDeviceProperties(struct cudaDeviceProp *p, int device)
{
    MT_RETURN_IF_FAILED();
    if (!p || !mt_device_there(device))
        return mt_fail(p ? cudaErrorInvalidDevice : cudaErrorInvalidValue);
    memset(p, 0, sizeof *p);
    snprintf(p->name, sizeof p->name, "%s", MT_DEV_NAME);
    memcpy(p->uuid.bytes, "memtrace-cpu-dev", sizeof p->uuid.bytes);
    p->uuid.bytes[15] = (char)(p->uuid.bytes[15] ^ device);
    p->pciBusID = device;
    p->multiGpuBoardGroupID = device; /* each a board of its own */
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
    p->multiProcessorCount = (int)mt_device_sms();
    p->integrated = 1;
    p->canMapHostMemory = 1;
    p->concurrentKernels = 1;
    p->asyncEngineCount = 1;
    p->unifiedAddressing = 1;
    p->memoryBusWidth = 64;
    p->l2CacheSize = MT_DEV_L2;
    p->persistingL2CacheMaxSize = MT_DEV_L2_PERSISTING;
    p->accessPolicyMaxWindowSize = MT_DEV_L2;
    p->maxThreadsPerMultiProcessor = MT_DEV_THREADS_PER_SM;
    p->streamPrioritiesSupported = 1;
    p->globalL1CacheSupported = p->localL1CacheSupported = 1;
    p->sharedMemPerMultiprocessor = MT_DEV_SHARED_SM;
    p->managedMemory = p->concurrentManagedAccess = 1;
    p->hostNativeAtomicSupported = 1;
    p->computePreemptionSupported = 1;
    p->canUseHostPointerForRegisteredMem = 1;
    p->cooperativeLaunch = 1;
#if CUDART_VERSION >= 12000
    p->clusterLaunch = 1;
#endif
    p->sharedMemPerBlockOptin = MT_DEV_SHARED_OPTIN;
    p->directManagedMemAccessFromHost = 1;
    p->maxBlocksPerMultiProcessor = MT_DEV_BLOCKS_PER_SM;
    p->reservedSharedMemPerBlock = MT_DEV_SHARED_RESERVED;
    set_textures(p);
    set_versioned(p);
    return cudaSuccess;
}

/* 0 and *out; -1: no such attribute. */
static int device_attributes_attribute(int a, const struct cudaDeviceProp *p, int *out)
{
    switch (a) {
#define MT_ATTRIBUTE(name, value)                                                                            \
    case cudaDevAttr##name:                                                                                  \
        *out = (int)(value);                                                                                 \
        return 0;
#include "device.def"
    default:
        *out = 0; /* what later toolkits ask for, and reserved numbers: does not have it */
        return a >= 1 && a <= 160 ? 0 : -1;
    }
}

cudaError_t impl_cudaDeviceGetAttribute(int *out, enum cudaDeviceAttr a, int device)
{
    struct cudaDeviceProp p;
    int value;
    cudaError_t e = impl_cudaGetDeviceProperties(&p, device);
    if (e)
        return e;
    if (!out || device_attributes_attribute((int)a, &p, &value))
        return mt_fail(cudaErrorInvalidValue);
    *out = value;
    return cudaSuccess;
}

#if CUDART_VERSION >= 11010
cudaError_t impl_cudaDeviceGetTexture1DLinearMaxWidth(size_t *out, const struct cudaChannelFormatDesc *f,
                                                      int device)
{
    MT_RETURN_IF_FAILED();
    int bits = f ? f->x + f->y + f->z + f->w : 0;
    if (!out || bits < 8 || bits > 128)
        return mt_fail(cudaErrorInvalidValue);
    if (!mt_device_there(device))
        return mt_fail(cudaErrorInvalidDevice);
    *out = (size_t)1 << 28;
    return cudaSuccess;
}
#endif

#if CUDART_VERSION >= 13000
/* All atomic operations of the device are the host's own. */
cudaError_t impl_cudaDeviceGetHostAtomicCapabilities(unsigned *capabilities,
                                                     const enum cudaAtomicOperation *operations,
                                                     unsigned count, int device)
{
    MT_RETURN_IF_FAILED();
    if (!capabilities || !operations || !count)
        return mt_fail(cudaErrorInvalidValue);
    if (!mt_device_there(device))
        return mt_fail(cudaErrorInvalidDevice);
    for (unsigned i = 0; i < count; i++) {
        if ((unsigned)operations[i] > cudaAtomicOperationFloatMax)
            return mt_fail(cudaErrorInvalidValue);
        capabilities[i] = cudaAtomicCapabilitySigned | cudaAtomicCapabilityUnsigned |
                          cudaAtomicCapabilityReduction | cudaAtomicCapabilityScalar32 |
                          cudaAtomicCapabilityScalar64;
    }
    return cudaSuccess;
}
#endif
