/* What is to be done on the CPU device: a queue of operations per stream. The oldest operation of a stream
 * begins when everything that it must follow has ended: those before it in the stream, the event it waits
 * for, and, by the rules of the legacy default stream, older operations of other streams. Operations run in
 * the thread that finds them ready: the caller when the stream is empty, else the thread that ended the last
 * one, which may be a worker of the CPU device; none of them may wait. Host functions have threads of their
 * own (hostfn.c). Nothing waits actively, and no thread exists before there is work for it.
 *
 * Sequence numbers (docs/trace-format.md) are drawn when an operation begins, so whatever is ordered by
 * streams and events is ordered by them. */
#ifndef MT_API_QUEUE_H
#define MT_API_QUEUE_H
#include "stream.h"
#include "trace/site.h"
#include <stddef.h>

/* A point in a stream that others wait for. */
struct mt_mark {
    int refs, done;
    uint64_t time_ns;       /* when it was reached */
    struct mt_clock *clock; /* of what comes before it (order.c), or NULL */
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

/* For stream.c. */
void mt_queue_let_go(struct mt_stream *s);
void mt_queue_forked(void);

/* hostfn.c */
/* fn(data), or callback(stream, error so far, data), of the program. NULL: out of memory. */
struct mt_op *mt_host_op(cudaHostFn_t fn, cudaStreamCallback_t callback, cudaStream_t handle, void *data);
void mt_host_parts(const struct mt_op *op, cudaHostFn_t *fn, void **data);
/* 1 in a thread that runs one of them: CUDA calls are not permitted there. */
int mt_in_host_function(void);
void mt_hostfn_forked(void);
#endif
