#include "capture.h"
#include "error.h"
#include "queue.h"

cudaError_t mt_capture_check(struct mt_stream *s, enum mt_call call)
{
    return mt_in_host_function() ? mt_fail(cudaErrorNotPermitted) : cudaSuccess;
}

cudaError_t mt_capture_add(struct mt_stream *s, struct mt_op *op)
{
    mt_op_free(op);
    return mt_fail(cudaErrorNotSupported);
}

void mt_capture_leave(struct mt_stream *s)
{
}

cudaError_t mt_capture_record(struct mt_stream *s, struct mt_event *e)
{
    return mt_fail(cudaErrorNotSupported);
}

cudaError_t mt_capture_wait(struct mt_stream *s, struct mt_event *e)
{
    return mt_fail(cudaErrorNotSupported);
}

cudaError_t mt_capture_asked(struct mt_event *e)
{
    return mt_fail(cudaErrorCapturedEvent);
}
