/* The streams room for others: streams, their queues, what an event is, and captures. Thread-safe. */
#ifndef MT_API_STREAM_H
#define MT_API_STREAM_H
#include "trace/devices.h"
#include "trace/trace.h"
#include "trace/site.h"
#include "base/fd.h"
#include "device/gpu.h"
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

/* ---- clocks. Under MEMTRACE_CHECK: which operations of streams are ordered, whatever the order in which
 * they happen to run: by their stream, the rules of the legacy default stream, events, and what the host
 * waited for. A clock has a count for each stream; all of the host's threads have one clock together, so that
 * what only they order counts as ordered. All with the queue's lock held ---- */

struct mt_op;
struct mt_stream;
struct mt_mark;

enum { MT_ORDER_STREAMS = 64 }; /* of a process; when there are more, nothing is said any more */
struct mt_clock {
    uint32_t n[MT_ORDER_STREAMS]; /* so many operations of each stream come before */
};

/* ---- Streams, on both devices: what the trace and, on the CPU device, the API know of them. Thread-
 * safe ---- */

struct mt_capture;
struct mt_stream {
    cudaStream_t handle;
    uint64_t id;
    unsigned flags;
    int priority;
    int device;                   /* of the CPU device (trace/devices.h) */
    int lasting;                  /* not made by the program: the legacy stream, a thread's own */
    int legacy;                   /* it is its device's legacy stream */
    struct mt_stream *own_more;   /* of a thread's own: that of another device */
    pthread_mutex_t launching;    /* held while the trace is opened */
    struct mt_trace *trace;       /* from the first traced launch on */
    struct mt_capture *capture;   /* while it is captured; this and the next two belong to capture.c */
    struct CUgraphNode_st **tips; /* what the next operation of the capture follows */
    size_t ntips;
    /* The rest belongs to the queue. */
    struct mt_op *first, *last; /* what is to be done, the oldest first; that one may be under way */
    int running, blocked, active, waiters, refs;
    uint64_t issued, done;
    struct mt_stream *prev_active, *next_active;
    pthread_cond_t moved;
    int order;                         /* its number in clocks, counted from 1; 0: none yet */
    struct mt_clock clock;             /* of what was put into it last */
    cudaStreamAttrValue attribute[16]; /* hints: kept, not acted upon; by cudaStreamAttrID */
};

/* The stream of a handle of this thread: NULL and cudaStreamLegacy are the current device's legacy
 * default stream (or, in per-thread mode, the thread's), cudaStreamPerThread the thread's own. NULL:
 * no such stream. */
struct mt_stream *mt_stream_get(cudaStream_t handle);
/* The legacy default stream of a device; NULL: it has had nothing to do. */
struct mt_stream *mt_stream_legacy(int device);
/* Makes a stream of the current device known; handle NULL: the CPU device's, the stream is its own handle.
 * NULL: out of memory. */
struct mt_stream *mt_stream_add(cudaStream_t handle, unsigned flags, int priority);
/* Forgets it. When what is in it has been done, its trace is closed and it is freed. */
void mt_stream_remove(struct mt_stream *s);
/* cudaDeviceReset: those that the program made there are not streams any more. */
void mt_streams_reset(int device);
/* Frees a stream that nothing refers to any more. */
void mt_stream_free(struct mt_stream *s);
/* Its trace; opened on first use, which may wait for a FIFO's reader. */
struct mt_trace *mt_stream_trace(struct mt_stream *s);
/* Trace number for companion lines, -1: none yet. */
int64_t mt_stream_number(cudaStream_t handle);
int64_t mt_stream_number_of(const struct mt_stream *s);
/* Calls f for each stream while their table is locked. */
void mt_stream_each(void (*f)(void *stream, void *ctx), void *ctx);

/* Waits until everything that the next operation on `s` must follow is done. */
void mt_stream_wait(struct mt_stream *s);
/* Waits until what is in `s` now is done. */
void mt_stream_drain(struct mt_stream *s);
/* 1 when nothing is pending on it. */
int mt_stream_idle(struct mt_stream *s);
/* Waits until what is in any stream of the device (MT_ALL_DEVICES: of all) now is done. */
#define MT_ALL_DEVICES (-1)
void mt_stream_wait_all(int device);

/* ---- what is to be done on the CPU device: a queue of operations per stream. The oldest operation of a
 * stream begins when everything that it must follow has ended: those before it in the stream, the event it
 * waits for, and, by the rules of the legacy default stream, older operations of other streams. Operations
 * run in the thread that finds them ready: the caller when the stream is empty, else the thread that ended
 * the last one, which may be a worker of the CPU device; none of them may wait. Host functions have threads
 * of their own. Nothing waits actively, and no thread exists before there is work for it. Sequence numbers
 * (docs/trace-format.md) are drawn when an operation begins, so whatever is ordered by streams and events is
 * ordered by them. ---- */

/* A point in a stream that others wait for. */
struct mt_mark {
    int refs, done;
    uint64_t time_ns;       /* when it was reached */
    struct mt_clock *clock; /* of what comes before it, or NULL */
};

enum mt_op_kind {
    MT_OP_KERNEL,
    MT_OP_COPY,
    MT_OP_FILL,
    MT_OP_HOST,
    MT_OP_RECORD,
    MT_OP_WAIT,
    MT_OP_LIBRARY,
    MT_OP_OTHER
};
enum { MT_OP_DONE, MT_OP_PENDING };

/* The beginning of every operation: one block of malloc, `bytes` long, that points to nothing inside itself,
 * so that a copy of it is the same operation. */
struct mt_op {
    struct mt_op *next;
    struct mt_stream *stream;
    uint64_t ticket;
    size_t bytes;
    enum mt_op_kind kind;
    int always; /* runs even when a kernel failed and the device is dead */
    /* MT_OP_DONE, or MT_OP_PENDING: somebody calls mt_op_finish. */
    int (*run)(struct mt_op *op);
    void (*drop)(struct mt_op *op); /* at the end, run or not: gives back what it holds; may be NULL */
    /* A graph's copy is about to be queued: what differs from launch to launch. 0, or an error;
     * may be NULL. */
    int (*renew)(struct mt_op *op);
    /* References; may be NULL. */
    struct mt_mark *after;   /* begins when this is reached */
    struct mt_mark *reaches; /* is reached when this ends */
    const struct mt_host_site *site;
};

/* A block of `bytes` with its head filled. NULL: out of memory. */
void *mt_op_new(size_t bytes, enum mt_op_kind kind, int (*run)(struct mt_op *));
void *mt_op_copy(const struct mt_op *op);
void mt_op_free(struct mt_op *op);
/* Puts it into the stream's queue, or into the graph when the stream is captured, and begins it when it can
 * begin. The operation is the queue's from here on. */
cudaError_t mt_op_submit(struct mt_stream *s, struct mt_op *op);
/* The same, captured or not. */
void mt_op_enqueue(struct mt_stream *s, struct mt_op *op);
/* While `at` runs: `op` comes right behind it, before all that was queued. Then more may follow `op`. */
void mt_op_follow(struct mt_op *at, struct mt_op *op);
/* A pending operation has ended. */
void mt_op_finish(struct mt_op *op);

/* A turn of the calling thread: it does its part itself between begin and end, in the stream's order. */
struct mt_turn {
    struct mt_op op;
    uint64_t outer; /* what the thread's lines were of before */
    int granted;
};
void mt_turn_begin(struct mt_turn *t, struct mt_stream *s);
/* The same if it need not wait: 1; else 0 and nothing has happened. */
int mt_turn_try(struct mt_turn *t, struct mt_stream *s);
void mt_turn_end(struct mt_turn *t);

struct mt_mark *mt_mark_new(void); /* with one reference; NULL: out of memory */
struct mt_mark *mt_mark_hold(struct mt_mark *m);
void mt_mark_release(struct mt_mark *m);
int mt_mark_done(struct mt_mark *m);
void mt_mark_wait(struct mt_mark *m);

/* ---- host functions of the program ---- */

/* fn(data), or callback(stream, error so far, data), of the program. NULL: out of memory. */
struct mt_op *mt_host_op(cudaHostFn_t fn, cudaStreamCallback_t callback, cudaStream_t handle, void *data);
void mt_host_parts(const struct mt_op *op, cudaHostFn_t *fn, void **data);
/* 1 in a thread that runs one of them: CUDA calls are not permitted there. */
int mt_in_host_function(void);

/* ---- What an event is, on both devices; api/launch/event.c makes them ---- */

struct mt_event {
    cudaEvent_t handle;
    uint64_t id; /* in companions */
    unsigned flags;
    int device;                     /* of the CPU device (trace/devices.h) */
    struct mt_gpu_point point;      /* its last record, on the way that a GPU's records take */
    struct mt_mark *mark;           /* the CPU device: its last record; NULL: none yet */
    struct mt_shared_event *shared; /* cudaEventInterprocess: its state in all processes, or NULL */
    struct mt_fd shared_file;       /* in the process that made it; ino 0 in others */
    /* Recorded in a stream that was captured: where in the graph. */
    struct mt_capture *capture;
    uint64_t capture_id;
    struct CUgraphNode_st **nodes;
    size_t nnodes;
};

/* ---- Stream capture on the CPU device: while a stream is captured, what is put into it becomes nodes
 * of a graph ---- */

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

/* ---- captures under way: capture.c knows streams, graphs/capture_graph.c knows graphs ---- */

struct CUgraph_st;
struct CUgraphNode_st;

struct mt_capture {
    unsigned long long id;
    struct CUgraph_st *graph;
    struct mt_stream *origin;
    pthread_t thread; /* that began it */
    enum cudaStreamCaptureMode mode;
    int invalid, given;           /* given: the graph is the program's */
    struct CUgraphNode_st **left; /* what streams did last that are gone */
    size_t nleft;
    struct mt_capture *next;
};

/* What becomes of what is put into a captured stream. */
struct mt_capture_ops {
    cudaError_t (*add)(struct mt_stream *s, struct mt_op *op); /* with the lock; takes the operation */
    cudaError_t (*alloc)(struct mt_stream *s, void *p, size_t bytes);
    cudaError_t (*free)(struct mt_stream *s, void *p);
    void (*leave)(struct mt_stream *s);
};
/* Set with the lock when the first capture begins, and never changed. */
extern const struct mt_capture_ops *mt_capture_ops;

/* All of these, and what streams, events and graphs say of captures. */
extern pthread_mutex_t mt_capture_lock;

/* All with the lock. The capture in which the event was recorded, if it is under way. */
void mt_capture_set(struct mt_stream *s, struct mt_capture *c);
/* It is under way from here on, with a number; and no more. */
void mt_capture_enlist(struct mt_capture *c);
void mt_capture_delist(struct mt_capture *c);
/* Adds what is not there yet to an array on the heap. 0, or -1. */
int mt_tips_add(struct CUgraphNode_st ***at, size_t *n, struct CUgraphNode_st *const *more, size_t count);
void mt_tips_clear(struct mt_stream *s);
#endif
