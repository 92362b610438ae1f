/* Streams, on both devices: what the trace and, on the CPU device, the API know of them. Thread-safe. */
#ifndef MT_API_STREAM_H
#define MT_API_STREAM_H
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdint.h>
#include "common/trace.h"

struct mt_stream {
    cudaStream_t handle;
    uint64_t id;
    unsigned flags;
    int priority;
    pthread_mutex_t launching; /* held during a launch: those of one stream are one after the other */
    struct mt_trace *trace;    /* from the first traced launch on; under `launching` */
    /* Host functions of this stream run on threads of their own, in order. */
    pthread_mutex_t lock;
    pthread_cond_t moved;
    uint64_t issued, done;
    cudaStreamAttrValue attribute[16]; /* hints: kept, not acted upon; by cudaStreamAttrID */
};

/* The stream behind a handle of this thread: NULL and cudaStreamLegacy are the legacy default stream (or, in
 * per-thread mode, the thread's), cudaStreamPerThread the thread's own. NULL: no such stream. */
struct mt_stream *mt_stream_get(cudaStream_t handle);
/* Makes a stream known; handle NULL: the CPU device's, the stream is its own handle. NULL: out of memory. */
struct mt_stream *mt_stream_add(cudaStream_t handle, unsigned flags, int priority);
/* Forgets and frees it; its trace is closed. */
void mt_stream_remove(struct mt_stream *s);
/* Its trace; opened on first use. Call with `launching` held. */
struct mt_trace *mt_stream_trace(struct mt_stream *s);
/* Trace number for companion lines, -1: none yet. */
int64_t mt_stream_number(cudaStream_t handle);

/* Runs fn(data) after what is in the stream, on another thread. 0, or an errno value. */
int mt_stream_call(struct mt_stream *s, void (*fn)(void *), void *data);
/* Waits until everything that the next operation on `s` must follow is done. */
void mt_stream_wait(struct mt_stream *s);
/* 1 when nothing is pending on it. */
int mt_stream_idle(struct mt_stream *s);
void mt_stream_wait_all(void);
#endif
