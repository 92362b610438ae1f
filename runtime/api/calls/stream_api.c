/* Streams and host functions on the CPU device. */
#include "api/streams/stream.h"
#include "api/entry.h"
#include "api/tables/error.h"
#include "api/device/device.h"
#include "api/memory/memory.h"
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
    return cudaSuccess; /* attachment restricts access, but the CPU device allows all */
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

/* Batches of copies on the CPU device: each copy is made and recorded like a single call. */

#if CUDART_VERSION >= 12080
/* Advances `at`, the index of the attributes of copy i. Returns -1 if the table is invalid. */
static int check_attributes(const struct cudaMemcpyAttributes *attributes, const size_t *first, size_t n,
                            size_t copies)
{
    if (!attributes || !first || !n || n > copies || first[0])
        return -1;
    for (size_t i = 0; i < n; i++)
        if ((i && first[i] <= first[i - 1]) || first[i] >= copies ||
            (int)attributes[i].srcAccessOrder < cudaMemcpySrcAccessOrderStream ||
            attributes[i].srcAccessOrder > cudaMemcpySrcAccessOrderAny)
            return -1;
    return 0;
}

/* Completes a copy made with `e`: a source valid only during the call has been read when this returns. */
static cudaError_t batch_made(cudaError_t e, enum cudaMemcpySrcAccessOrder order, cudaStream_t stream)
{
    return !e && order == cudaMemcpySrcAccessOrderDuringApiCall ? impl_cudaStreamSynchronize(stream) : e;
}

static cudaError_t batch_run(void *const *dst, const void *const *src, const size_t *bytes, size_t n,
                             const struct cudaMemcpyAttributes *attributes, const size_t *first,
                             size_t nattributes, size_t *failed, cudaStream_t stream)
{
    MT_RETURN_IF_FAILED();
    if (failed)
        *failed = SIZE_MAX;
    if (!dst || !src || !bytes || !n || !stream || stream == cudaStreamLegacy ||
        check_attributes(attributes, first, nattributes, n))
        return mt_fail(cudaErrorInvalidValue);
    if (!mt_stream_get(stream))
        return mt_fail(cudaErrorInvalidResourceHandle);
    for (size_t i = 0, at = 0; i < n; i++) {
        at += at + 1 < nattributes && first[at + 1] == i;
        cudaError_t e = rec_cudaMemcpyAsync(dst[i], src[i], bytes[i], cudaMemcpyDefault, stream);
        e = batch_made(e, attributes[at].srcAccessOrder, stream);
        if (e && failed)
            *failed = i;
        if (e)
            return e;
    }
    return cudaSuccess;
}

#if CUDART_VERSION >= 13000
cudaError_t impl_cudaMemcpyBatchAsync(void *const *dst, const void *const *src, const size_t *bytes, size_t n,
                                      struct cudaMemcpyAttributes *attributes, size_t *first,
                                      size_t nattributes, cudaStream_t stream)
{
    return batch_run(dst, src, bytes, n, attributes, first, nattributes, NULL, stream);
}
#else
cudaError_t impl_cudaMemcpyBatchAsync(void **dst, void **src, size_t *bytes, size_t n,
                                      struct cudaMemcpyAttributes *attributes, size_t *first,
                                      size_t nattributes, size_t *failed, cudaStream_t stream)
{
    return batch(dst, (const void *const *)src, bytes, n, attributes, first, nattributes, failed, stream);
}
#endif

/* ---- 3-D ---- */

static cudaError_t batch_operand(const struct cudaMemcpy3DOperand *o, const struct cudaExtent *extent,
                                 cudaArray_t *array, struct cudaPos *pos, struct cudaPitchedPtr *ptr)
{
    if (o->type == cudaMemcpyOperandTypeArray) {
        *array = o->op.array.array;
        *pos = (struct cudaPos){o->op.array.offset.x, o->op.array.offset.y, o->op.array.offset.z};
        return cudaSuccess;
    }
    if (o->type != cudaMemcpyOperandTypePointer)
        return cudaErrorInvalidValue;
    size_t row = o->op.ptr.rowLength ? o->op.ptr.rowLength : extent->width;
    *ptr = (struct cudaPitchedPtr){o->op.ptr.ptr, row, row,
                                   o->op.ptr.layerHeight ? o->op.ptr.layerHeight : extent->height};
    return cudaSuccess;
}

static cudaError_t batch_3d(const struct cudaMemcpy3DBatchOp *ops, size_t n, unsigned long long flags,
                            size_t *failed, cudaStream_t stream)
{
    MT_RETURN_IF_FAILED();
    if (failed)
        *failed = SIZE_MAX;
    if (!ops || !n || flags || !stream || stream == cudaStreamLegacy)
        return mt_fail(cudaErrorInvalidValue);
    if (!mt_stream_get(stream))
        return mt_fail(cudaErrorInvalidResourceHandle);
    for (size_t i = 0; i < n; i++) {
        struct cudaMemcpy3DParms p = {.extent = ops[i].extent, .kind = cudaMemcpyDefault};
        cudaError_t e = batch_operand(&ops[i].src, &ops[i].extent, &p.srcArray, &p.srcPos, &p.srcPtr);
        if (!e)
            e = batch_operand(&ops[i].dst, &ops[i].extent, &p.dstArray, &p.dstPos, &p.dstPtr);
        e = e ? mt_fail(e) : rec_cudaMemcpy3DAsync(&p, stream);
        e = batch_made(e, ops[i].srcAccessOrder, stream);
        if (e && failed)
            *failed = i;
        if (e)
            return e;
    }
    return cudaSuccess;
}

#if CUDART_VERSION >= 13000
cudaError_t impl_cudaMemcpy3DBatchAsync(size_t n, struct cudaMemcpy3DBatchOp *ops, unsigned long long flags,
                                        cudaStream_t stream)
{
    return batch_3d(ops, n, flags, NULL, stream);
}
#else
cudaError_t impl_cudaMemcpy3DBatchAsync(size_t n, struct cudaMemcpy3DBatchOp *ops, size_t *failed,
                                        unsigned long long flags, cudaStream_t stream)
{
    return batch_3d(ops, n, flags, failed, stream);
}
#endif
#endif
