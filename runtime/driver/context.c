/* Devices and contexts on the CPU device: cuInit, cuDevice*, primary contexts, cuCtx*, and the names of
 * errors. */
#include "driver.h"
#include "api/device/device.h"
#include "trace/devices.h"
#include "api/entry.h"
#include "api/streams/stream.h"
#include "api/tables/error.h"
#include "trace/selection.h"
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Devices of the driver API on the CPU device, and the names of errors ---- */

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

CUresult drv_cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
    struct cudaDeviceProp p;
    CUresult e = !bytes ? CUDA_ERROR_INVALID_VALUE : device_properties(device, &p);
    if (!e)
        *bytes = p.totalGlobalMem;
    return e;
}

/* Handles attributes without a name in the runtime API. Returns 1 with *value set. */
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

/* Texts of the runtime are also the driver's; codes known only to the driver are described by their names. */
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

/* A context. Never freed: programs may use one that they have destroyed, and get an error. */
struct CUctx_st {
    struct CUctx_st *next;
    unsigned long long id;
    int device;
    _Atomic unsigned flags;
    _Atomic int alive; /* number of retains of a primary context; else 1 while it exists */
};

static struct CUctx_st primary[MT_DEVICES_MAX]; /* by device */
static struct CUctx_st *_Atomic contexts;       /* all others */
static _Atomic unsigned long long context_last_id = MT_DEVICES_MAX;
static _Atomic int initialised;
/* Stack of contexts as a list, since a libmemtrace.so opened late may get little thread-local memory. */
static _Thread_local struct context_level {
    struct context_level *outer;
    struct CUctx_st *context;
} *top;

static struct CUctx_st *context_primary(int device)
{
    primary[device].id = (unsigned long long)device + 1;
    primary[device].device = device;
    return &primary[device];
}

static int context_is_primary(const struct CUctx_st *c)
{
    return c >= primary && c < primary + mt_devices();
}

static int context_alive(const struct CUctx_st *c)
{
    if (context_is_primary(c))
        return c->alive > 0 || mt_registered || mt_entry_called;
    for (const struct CUctx_st *i = contexts; i; i = i->next)
        if (i == c)
            return i->alive > 0;
    return 0;
}

/* Returns this thread's context, or NULL. The runtime API makes the current device's primary context current
 * by itself. */
static CUcontext context_current(void)
{
    int device = mt_device_current();
    if (top && top->context->device == device)
        return top->context;
    return top || mt_registered || mt_entry_called ? context_primary(device) : NULL;
}

CUcontext mt_context_on(int device)
{
    CUcontext c = context_current();
    if (c && c->device == device)
        return c;
    for (c = contexts; c; c = c->next)
        if (c->device == device && c->alive > 0 && !primary[device].alive)
            return c;
    return context_primary(device);
}

CUresult mt_context_check(enum mt_driver_needs needs)
{
    if (needs == MT_NEEDS_NOTHING)
        return CUDA_SUCCESS;
    if (!initialised && !mt_registered && !mt_entry_called)
        return CUDA_ERROR_NOT_INITIALIZED;
    if (needs == MT_NEEDS_INIT)
        return CUDA_SUCCESS;
    CUcontext c = context_current();
    return !c                 ? CUDA_ERROR_INVALID_CONTEXT
           : context_alive(c) ? CUDA_SUCCESS
                              : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

CUresult drv_cuInit(unsigned flags)
{
    if (flags)
        return CUDA_ERROR_INVALID_VALUE;
    initialised = 1;
    return CUDA_SUCCESS;
}

/* ---- the stack of this thread ---- */

CUresult drv_cuCtxPushCurrent_v2(CUcontext c)
{
    if (!context_alive(c))
        return CUDA_ERROR_INVALID_CONTEXT;
    struct context_level *level = malloc(sizeof *level);
    if (!level)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *level = (struct context_level){top, c};
    top = level;
    mt_device_select(c->device);
    return CUDA_SUCCESS;
}

static void context_drop(void)
{
    struct context_level *level = top;
    if (level)
        top = level->outer;
    if (top)
        mt_device_select(top->context->device);
    free(level);
}

CUresult drv_cuCtxPopCurrent_v2(CUcontext *c)
{
    if (!context_current())
        return CUDA_ERROR_INVALID_CONTEXT;
    if (c)
        *c = context_current();
    context_drop();
    return CUDA_SUCCESS;
}

CUresult drv_cuCtxSetCurrent(CUcontext c)
{
    if (c && !context_alive(c))
        return CUDA_ERROR_INVALID_CONTEXT;
    context_drop();
    return c ? drv_cuCtxPushCurrent_v2(c) : CUDA_SUCCESS;
}

CUresult drv_cuCtxGetCurrent(CUcontext *c)
{
    if (!c)
        return CUDA_ERROR_INVALID_VALUE;
    *c = context_current();
    return CUDA_SUCCESS;
}

/* ---- created by the program ---- */

CUresult drv_cuCtxCreate_v2(CUcontext *out, unsigned flags, CUdevice device)
{
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    if (!mt_device_there(device))
        return CUDA_ERROR_INVALID_DEVICE;
    struct CUctx_st *c = calloc(1, sizeof *c);
    if (!c)
        return CUDA_ERROR_OUT_OF_MEMORY;
    c->id = ++context_last_id;
    c->device = device;
    c->flags = flags;
    c->alive = 1;
    c->next = contexts;
    while (!atomic_compare_exchange_weak(&contexts, &c->next, c)) {
    }
    *out = c;
    return drv_cuCtxPushCurrent_v2(c);
}

CUresult drv_cuCtxCreate_v3(CUcontext *c, CUexecAffinityParam *affinity, int n, unsigned flags,
                            CUdevice device)
{
    return n ? CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY : drv_cuCtxCreate_v2(c, flags, device);
}

#if CUDA_VERSION >= 12050
CUresult drv_cuCtxCreate_v4(CUcontext *c, CUctxCreateParams *params, unsigned flags, CUdevice device)
{
    return params && params->numExecAffinityParams ? CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY
                                                   : drv_cuCtxCreate_v2(c, flags, device);
}
#endif

/* Makes the call with the device current. */
static CUresult context_call(int device, cudaError_t (*call)(void))
{
    int before = mt_device_select(device);
    CUresult e = mt_driver_result(call());
    mt_device_select(before);
    return e;
}

CUresult drv_cuCtxDestroy_v2(CUcontext c)
{
    if (!c || context_is_primary(c) || !context_alive(c))
        return CUDA_ERROR_INVALID_CONTEXT;
    CUresult e = context_call(c->device, cudaDeviceSynchronize);
    c->alive = 0;
    if (top && top->context == c)
        context_drop();
    return e;
}

/* ---- primary context ---- */

CUresult drv_cuDevicePrimaryCtxRetain(CUcontext *c, CUdevice device)
{
    if (!c)
        return CUDA_ERROR_INVALID_VALUE;
    if (!mt_device_there(device))
        return CUDA_ERROR_INVALID_DEVICE;
    *c = context_primary(device);
    (*c)->alive++;
    return CUDA_SUCCESS;
}

CUresult drv_cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    if (!mt_device_there(device))
        return CUDA_ERROR_INVALID_DEVICE;
    int n = primary[device].alive;
    while (n > 0 && !atomic_compare_exchange_weak(&primary[device].alive, &n, n - 1)) {
    }
    return n > 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult drv_cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned flags)
{
    if (!mt_device_there(device))
        return CUDA_ERROR_INVALID_DEVICE;
    primary[device].flags = flags;
    return CUDA_SUCCESS;
}

CUresult drv_cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active)
{
    if (!mt_device_there(device))
        return CUDA_ERROR_INVALID_DEVICE;
    if (!flags || !active)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = primary[device].flags;
    *active = context_alive(&primary[device]);
    return CUDA_SUCCESS;
}

CUresult drv_cuDevicePrimaryCtxReset_v2(CUdevice device)
{
    return mt_device_there(device) ? context_call(device, cudaDeviceReset) : CUDA_ERROR_INVALID_DEVICE;
}

/* ---- queries ---- */

CUresult drv_cuCtxGetDevice(CUdevice *device)
{
    if (!device)
        return CUDA_ERROR_INVALID_VALUE;
    *device = mt_device_current();
    return CUDA_SUCCESS;
}

#if CUDA_VERSION >= 13000
CUresult drv_cuCtxGetDevice_v2(CUdevice *device, CUcontext c)
{
    if (!c)
        return drv_cuCtxGetDevice(device);
    if (!context_alive(c) || !device)
        return device ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_INVALID_VALUE;
    *device = c->device;
    return CUDA_SUCCESS;
}

CUresult drv_cuCtxSynchronize_v2(CUcontext c)
{
    if (c && !context_alive(c))
        return CUDA_ERROR_INVALID_CONTEXT;
    return context_call(c ? c->device : mt_device_current(), cudaDeviceSynchronize);
}
#endif

CUresult drv_cuCtxGetFlags(unsigned *flags)
{
    if (!flags)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = context_current()->flags;
    return CUDA_SUCCESS;
}

CUresult drv_cuCtxSetFlags(unsigned flags)
{
    context_current()->flags = flags;
    return CUDA_SUCCESS;
}

CUresult drv_cuCtxGetId(CUcontext c, unsigned long long *id)
{
    c = c ? c : context_current();
    if (!id)
        return CUDA_ERROR_INVALID_VALUE;
    if (!c || !context_alive(c))
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    *id = c->id;
    return CUDA_SUCCESS;
}

CUresult drv_cuCtxGetApiVersion(CUcontext c, unsigned *version)
{
    c = c ? c : context_current();
    if (!version)
        return CUDA_ERROR_INVALID_VALUE;
    if (!c || !context_alive(c))
        return CUDA_ERROR_INVALID_CONTEXT;
    *version = 3020;
    return CUDA_SUCCESS;
}

CUresult drv_cuStreamGetCtx(CUstream stream, CUcontext *c)
{
    if (!c)
        return CUDA_ERROR_INVALID_VALUE;
    const struct mt_stream *s = mt_stream_get((cudaStream_t)stream);
    if (s)
        *c = mt_context_on(s->device);
    return s ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult drv_cuCtxEnablePeerAccess(CUcontext peer, unsigned flags)
{
    if (!context_alive(peer))
        return CUDA_ERROR_INVALID_CONTEXT;
    return peer->device == mt_device_current()
               ? CUDA_ERROR_PEER_ACCESS_UNSUPPORTED
               : mt_driver_result(cudaDeviceEnablePeerAccess(peer->device, flags));
}

CUresult drv_cuCtxDisablePeerAccess(CUcontext peer)
{
    return context_alive(peer) ? mt_driver_result(cudaDeviceDisablePeerAccess(peer->device))
                               : CUDA_ERROR_INVALID_CONTEXT;
}
