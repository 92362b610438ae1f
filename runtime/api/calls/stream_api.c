/* Streams and host functions on the CPU device. */
#include "api/streams/capture.h"
#include "api/entry.h"
#include "api/tables/error.h"
#include "api/device/device.h"
#include "api/streams/queue.h"
#include "api/memory/sync.h"
#include <stdlib.h>
#include <string.h>

#define LEAST 0
#define GREATEST (-5)

static struct mt_stream *stream_api_get(cudaStream_t handle, cudaError_t *e)
{
    *e = mt_failed();
    struct mt_stream *s = *e ? NULL : mt_stream_get(handle);
    if (!s && !*e)
        *e = mt_fail(cudaErrorInvalidResourceHandle);
    return s;
}

cudaError_t impl_cudaStreamCreateWithPriority(cudaStream_t *out, unsigned flags, int priority)
{
    MT_RETURN_IF_FAILED();
    if (!out || flags & ~(unsigned)cudaStreamNonBlocking)
        return mt_fail(cudaErrorInvalidValue);
    priority = priority < GREATEST ? GREATEST : priority > LEAST ? LEAST : priority;
    struct mt_stream *s = mt_stream_add(NULL, flags, priority);
    if (!s)
        return mt_fail(cudaErrorMemoryAllocation);
    *out = s->handle;
    return cudaSuccess;
}

cudaError_t impl_cudaStreamCreate(cudaStream_t *out)
{
    return impl_cudaStreamCreateWithPriority(out, cudaStreamDefault, 0);
}

cudaError_t impl_cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags)
{
    return impl_cudaStreamCreateWithPriority(out, flags, 0);
}

cudaError_t impl_cudaStreamDestroy(cudaStream_t handle)
{
    MT_RETURN_IF_FAILED();
    if (!handle || handle == cudaStreamLegacy || handle == cudaStreamPerThread)
        return mt_fail(cudaErrorInvalidResourceHandle);
    struct mt_stream *s = mt_stream_get(handle);
    if (!s)
        return mt_fail(cudaErrorInvalidResourceHandle);
    mt_stream_remove(s);
    return cudaSuccess;
}

cudaError_t impl_cudaStreamSynchronize(cudaStream_t handle)
{
    cudaError_t e;
    struct mt_stream *s = stream_api_get(handle, &e);
    if (!s || (e = mt_capture_check(s, MT_CALL_SYNC)))
        return e;
    mt_stream_drain(s);
    mt_synced();
    return mt_failed_sync();
}

cudaError_t impl_cudaStreamQuery(cudaStream_t handle)
{
    cudaError_t e;
    struct mt_stream *s = stream_api_get(handle, &e);
    if (!s || (e = mt_capture_check(s, MT_CALL_SYNC)))
        return e;
    return mt_stream_idle(s) ? mt_failed_sync() : cudaErrorNotReady;
}

cudaError_t impl_cudaStreamGetPriority(cudaStream_t handle, int *priority)
{
    cudaError_t e;
    struct mt_stream *s = stream_api_get(handle, &e);
    if (s && priority)
        *priority = s->priority;
    return s && !priority ? mt_fail(cudaErrorInvalidValue) : e;
}

cudaError_t impl_cudaStreamGetFlags(cudaStream_t handle, unsigned *flags)
{
    cudaError_t e;
    struct mt_stream *s = stream_api_get(handle, &e);
    if (s && flags)
        *flags = s->flags;
    return s && !flags ? mt_fail(cudaErrorInvalidValue) : e;
}

#if CUDART_VERSION >= 12000
cudaError_t impl_cudaStreamGetId(cudaStream_t handle, unsigned long long *id)
{
    cudaError_t e;
    struct mt_stream *s = stream_api_get(handle, &e);
    if (s && id)
        *id = s->id;
    return s && !id ? mt_fail(cudaErrorInvalidValue) : e;
}
#endif

#if CUDART_VERSION >= 12080
cudaError_t impl_cudaStreamGetDevice(cudaStream_t handle, int *device)
{
    cudaError_t e;
    struct mt_stream *s = stream_api_get(handle, &e);
    if (s && device)
        *device = s->device;
    return s && !device ? mt_fail(cudaErrorInvalidValue) : e;
}
#endif

cudaError_t impl_cudaStreamAttachMemAsync(cudaStream_t handle, void *p, size_t bytes, unsigned flags)
{
    cudaError_t e;
    struct mt_block b;
    struct mt_stream *s = stream_api_get(handle, &e);
    if (!s)
        return e;
    int known = flags == cudaMemAttachGlobal || flags == cudaMemAttachHost || flags == cudaMemAttachSingle;
    if (!known || !mt_heap_find(p, &b) || (b.kind != MT_HEAP_MANAGED && b.kind != MT_HEAP_SYMBOL) ||
        (uint64_t)(uintptr_t)p != b.base || (bytes && bytes != b.bytes))
        return mt_fail(cudaErrorInvalidValue);
    if (flags == cudaMemAttachSingle && s->legacy)
        return mt_fail(cudaErrorInvalidValue);
    return cudaSuccess; /* who may touch it when: the CPU device lets everybody */
}

static cudaStreamAttrValue *stream_api_attribute(cudaStream_t handle, cudaStreamAttrID id, const void *value,
                                                 cudaError_t *e)
{
    struct mt_stream *s = stream_api_get(handle, e);
    if (s && (!value || (unsigned)id >= sizeof s->attribute / sizeof *s->attribute))
        *e = mt_fail(cudaErrorInvalidValue);
    return *e ? NULL : &s->attribute[id];
}

cudaError_t impl_cudaStreamSetAttribute(cudaStream_t handle, cudaStreamAttrID id,
                                        const cudaStreamAttrValue *value)
{
    cudaError_t e;
    cudaStreamAttrValue *at = stream_api_attribute(handle, id, value, &e);
    if (at)
        *at = *value;
    return e;
}

cudaError_t impl_cudaStreamGetAttribute(cudaStream_t handle, cudaStreamAttrID id, cudaStreamAttrValue *value)
{
    cudaError_t e;
    cudaStreamAttrValue *at = stream_api_attribute(handle, id, value, &e);
    if (at)
        *value = *at;
    return e;
}

cudaError_t impl_cudaStreamCopyAttributes(cudaStream_t dst, cudaStream_t src)
{
    cudaError_t e;
    struct mt_stream *to = stream_api_get(dst, &e), *from = to ? stream_api_get(src, &e) : NULL;
    if (from)
        memcpy(to->attribute, from->attribute, sizeof to->attribute);
    return e;
}

/* ---- host functions ---- */

static cudaError_t host_call(cudaStream_t handle, cudaStreamCallback_t callback, cudaHostFn_t fn, void *data)
{
    cudaError_t e;
    struct mt_stream *s = stream_api_get(handle, &e);
    if (!s)
        return e;
    if (!callback && !fn)
        return mt_fail(cudaErrorInvalidValue);
    /* Graphs have no callbacks, only host functions. */
    e = mt_capture_check(s, callback && mt_capturing(s) ? MT_CALL_SYNC : MT_CALL_ASYNC);
    if (e)
        return e;
    struct mt_op *op = mt_host_op(fn, callback, handle, data);
    return op ? mt_op_submit(s, op) : mt_fail(cudaErrorMemoryAllocation);
}

cudaError_t impl_cudaStreamAddCallback(cudaStream_t handle, cudaStreamCallback_t callback, void *data,
                                       unsigned flags)
{
    return flags ? mt_fail(cudaErrorInvalidValue) : host_call(handle, callback, NULL, data);
}

cudaError_t impl_cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t fn, void *data)
{
    return host_call(handle, NULL, fn, data);
}
