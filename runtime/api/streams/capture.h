/* Stream capture on the CPU device: while a stream is captured,
 * what is put into it becomes nodes of a graph. */
#ifndef MT_API_CAPTURE_H
#define MT_API_CAPTURE_H
#include "stream.h"

struct mt_op;
struct mt_event;
/* Whether the stream is being captured. */
static inline int mt_capturing(const struct mt_stream *s)
{
    return __atomic_load_n(&s->capture, __ATOMIC_ACQUIRE) != NULL;
}

enum mt_call {
    MT_CALL_ASYNC,  /* puts something into the stream */
    MT_CALL_SYNC,   /* waits for the stream, asks whether it is done, or launches a graph in it */
    MT_CALL_DEVICE, /* waits for all streams; the stream is NULL */
    MT_CALL_UNSAFE, /* allocations and the like; the stream is NULL */
};
/* May this call be made now, by this thread? CUDA's error if not (it is the thread's last error then, and the
 * captures it disturbs are invalid). `s` may be NULL. */
cudaError_t mt_capture_check(struct mt_stream *s, enum mt_call call);
/* The operation becomes a node after what was put into the stream before. */
cudaError_t mt_capture_add(struct mt_stream *s, struct mt_op *op);
/* cudaMallocAsync and cudaFreeAsync: the memory at `p` is the graph's; only what the graph allocated can be
 * freed in it. */
cudaError_t mt_capture_alloc(struct mt_stream *s, void *p, size_t bytes);
cudaError_t mt_capture_free(struct mt_stream *s, void *p);
/* cudaEventRecord in a captured stream. */
cudaError_t mt_capture_record(struct mt_stream *s, struct mt_event *e);
/* cudaStreamWaitEvent when the stream is captured or the event was recorded in one that was. */
cudaError_t mt_capture_wait(struct mt_stream *s, struct mt_event *e);
/* Somebody asks for an event that was recorded in a captured stream. */
cudaError_t mt_capture_asked(struct mt_event *e);
/* The stream is destroyed. */
void mt_capture_leave(struct mt_stream *s);
#endif
