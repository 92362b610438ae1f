/* Captures under way, for capture.c, which knows streams, and capture_graph.c, which knows graphs. */
#ifndef MT_API_CAPTURE_STATE_H
#define MT_API_CAPTURE_STATE_H
#include "stream.h"

struct CUgraph_st;
struct CUgraphNode_st;
struct mt_event;

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
struct mt_op;
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
