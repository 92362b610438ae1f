/* Devices of the driver API on the CPU device, and the names of errors. */
#include "driver.h"
#include "api/device/device.h"
#include "trace/devices.h"
#include <stdio.h>
#include <string.h>

CUresult drv_cuDeviceGet(CUdevice *device, int ordinal)
{
    if (!device)
        return CUDA_ERROR_INVALID_VALUE;
    if (!mt_device_there(ordinal))
        return CUDA_ERROR_INVALID_DEVICE;
    *device = ordinal;
    return CUDA_SUCCESS;
}

static CUresult device_properties(CUdevice device, struct cudaDeviceProp *p)
{
    return mt_device_there(device) ? mt_driver_result(cudaGetDeviceProperties(p, device))
                                   : CUDA_ERROR_INVALID_DEVICE;
}

CUresult drv_cuDeviceGetName(char *name, int length, CUdevice device)
{
    struct cudaDeviceProp p;
    CUresult e = !name || length < 1 ? CUDA_ERROR_INVALID_VALUE : device_properties(device, &p);
    if (!e)
        snprintf(name, (size_t)length, "%s", p.name);
    return e;
}

CUresult drv_cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device)
{
    struct cudaDeviceProp p;
    CUresult e = !uuid ? CUDA_ERROR_INVALID_VALUE : device_properties(device, &p);
    if (!e)
        memcpy(uuid, &p.uuid, sizeof *uuid);
    return e;
}

CUresult drv_cuDeviceGetUuid(CUuuid *uuid, CUdevice device)
{
    return drv_cuDeviceGetUuid_v2(uuid, device);
}

CUresult drv_cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
    struct cudaDeviceProp p;
    CUresult e = !bytes ? CUDA_ERROR_INVALID_VALUE : device_properties(device, &p);
    if (!e)
        *bytes = p.totalGlobalMem;
    return e;
}

/* Attributes that the runtime API has no name for: 1 and *value. */
static int device_attribute_more(CUdevice_attribute a, int *value)
{
    switch ((int)a) {
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR:
        *value = 1;
        return 1;
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_WIN32_HANDLE_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_WIN32_KMT_HANDLE_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_GENERIC_COMPRESSION_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED:
        *value = 0;
        return 1;
    default:
        return 0;
    }
}

CUresult drv_cuDeviceGetAttribute(int *value, CUdevice_attribute a, CUdevice device)
{
    if (!value)
        return CUDA_ERROR_INVALID_VALUE;
    if (!mt_device_there(device))
        return CUDA_ERROR_INVALID_DEVICE;
    return device_attribute_more(a, value)
               ? CUDA_SUCCESS
               : mt_driver_result(cudaDeviceGetAttribute(value, (enum cudaDeviceAttr)a, device));
}

CUresult drv_cuDeviceComputeCapability(int *major, int *minor, CUdevice device)
{
    if (!major || !minor)
        return CUDA_ERROR_INVALID_VALUE;
    *major = MT_DEV_MAJOR;
    *minor = MT_DEV_MINOR;
    return mt_device_there(device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult drv_cuDeviceGetProperties(CUdevprop *out, CUdevice device)
{
    struct cudaDeviceProp p;
    CUresult e = !out ? CUDA_ERROR_INVALID_VALUE : device_properties(device, &p);
    if (e)
        return e;
    memset(out, 0, sizeof *out);
    out->maxThreadsPerBlock = p.maxThreadsPerBlock;
    memcpy(out->maxThreadsDim, p.maxThreadsDim, sizeof out->maxThreadsDim);
    memcpy(out->maxGridSize, p.maxGridSize, sizeof out->maxGridSize);
    out->sharedMemPerBlock = (int)p.sharedMemPerBlock;
    out->totalConstantMemory = (int)p.totalConstMem;
    out->SIMDWidth = p.warpSize;
    out->memPitch = (int)p.memPitch;
    out->regsPerBlock = p.regsPerBlock;
    out->textureAlign = (int)p.textureAlignment;
    return CUDA_SUCCESS;
}

CUresult drv_cuDeviceGetTexture1DLinearMaxWidth(size_t *width, CUarray_format format, unsigned channels,
                                                CUdevice device)
{
    if (!width || !channels || channels > 4)
        return CUDA_ERROR_INVALID_VALUE;
    *width = MT_DEV_TEXTURE_LINEAR;
    return mt_device_there(device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult drv_cuDeviceGetExecAffinitySupport(int *supported, CUexecAffinityType type, CUdevice device)
{
    if (!supported)
        return CUDA_ERROR_INVALID_VALUE;
    *supported = 0;
    return mt_device_there(device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

/* ---- errors ---- */

static const struct {
    CUresult code;
    const char *name;
} device_errors[] = {
#define MT_DRIVER_ERROR(code, name) {code, #name},
#include "driver_errors.inc"
};

static const char *device_error_name(CUresult e)
{
    for (size_t i = 0; i < sizeof device_errors / sizeof *device_errors; i++)
        if (device_errors[i].code == e)
            return device_errors[i].name;
    return NULL;
}

CUresult drv_cuGetErrorName(CUresult error, const char **name)
{
    if (!name)
        return CUDA_ERROR_INVALID_VALUE;
    *name = device_error_name(error);
    return *name ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* The runtime's texts are the driver's; codes that only the driver has are described by their names. */
CUresult drv_cuGetErrorString(CUresult error, const char **text)
{
    if (!text)
        return CUDA_ERROR_INVALID_VALUE;
    const char *name = device_error_name(error);
    *text = name ? cudaGetErrorString((cudaError_t)error) : NULL;
    if (name && !strcmp(*text, "unrecognized error code"))
        *text = name;
    return name ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
