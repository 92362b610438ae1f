/* Batches of copies on the CPU device: each is made, and recorded, as if it had been asked for alone. */
#include "api/entry.h"
#include "api/tables/error.h"
#include "api/streams/stream.h"
#include <string.h>

#if CUDART_VERSION >= 12080
/* The index of the attributes that belong to copy i is `at`, which only grows; -1:
 * the table makes no sense. */
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

/* After a copy that was asked for with `e`: a source that is only valid now has
 * been read when this returns. */
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
