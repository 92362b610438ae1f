/* One GPU: its rings, its launch contexts, and the marks by which it says that a launch has ended.
 *
 * Contexts are made once and lent to launches. After each launch, in its stream, the context's counters are
 * copied to host memory and then the lending's number is written beside them. So a reader that sees the
 * number has in its rings all that the launch wrote. The reader makes no CUDA call: such a call may wait for
 * a launch that waits for the reader to make room. */
#ifndef MT_GPU_DEVICE_H
#define MT_GPU_DEVICE_H
#include <pthread.h>
#include <time.h>
#include "flight.h"

#ifndef MT_GPU_RINGS /* tests have less of everything */
#define MT_GPU_RINGS 32u
#define MT_GPU_CONTEXTS 1024u /* launches in flight */
#define MT_GPU_BATCH 4096u    /* packets taken from a ring before others have their turn */
#endif

/* Of a context whose launch was given up: it is lent again when nothing of that launch can come any more. */
struct mt_gpu_debt {
    enum { MT_DEBT_NONE, MT_DEBT_MARK, MT_DEBT_RECORDS } waits_for;
    uint64_t taken, counted;  /* records that came, and, when the mark has, that were made */
    struct mt_gpu_node *node; /* whose counters the mark brings; NULL: the context's own */
};

struct mt_cuda;
struct mt_gpu_sites;
struct mt_gpu_device {
    int ordinal;
    struct mt_ring rings[MT_GPU_RINGS];
    struct mt_gpu_ring *on_device;   /* the rings, as the device sees them */
    struct mt_gpu_context *contexts; /* on the device */
    struct mt_gpu_context *mirror;   /* counters of each context as of its last end, in host memory */
    uint32_t *ends;                  /* number of the lending that ended last, by context, in host memory */
    uint64_t ends_device;            /* the same, as the device addresses it */
    uint64_t ctas;                   /* the rule which CTAs are traced, on the device; 0: all */
    struct mt_gpu_context before[MT_GPU_CONTEXTS];     /* counters when it was lent */
    uint32_t generation[MT_GPU_CONTEXTS];              /* number of its present or last lending */
    struct mt_flight *_Atomic flight[MT_GPU_CONTEXTS]; /* who has it */
    struct mt_gpu_debt debt[MT_GPU_CONTEXTS];          /* the reader's, while nobody has the context */
    uint32_t free[MT_GPU_CONTEXTS], nfree;
    struct mt_gpu_node *nodes;  /* free ones */
    uint32_t *numbers;          /* numbers[i] = i, in host memory: what contexts of nodes get as their id */
    _Atomic int damaged;        /* one of its rings is: nothing more is traced there */
    struct mt_gpu_sites *sites; /* programs whose sites have their base here (sites.c) */
    struct mt_gpu_device *next;
};

/* A kernel of a graph. Its launches follow each other, so one context does for all; its id is that of the
 * context that was lent to the launch under way, written in stream order before the graph and taken back
 * after it. */
struct mt_gpu_node {
    struct mt_gpu_device *device;
    struct mt_gpu_context *context; /* on the device */
    struct mt_gpu_context before;   /* its counters when the launch before ended; the reader's */
    struct mt_flight *first;        /* launches under way, the oldest first */
    int freed;
    struct mt_gpu_node *next; /* of the free ones */
};
/* The list of devices, the free contexts and nodes of all; signalled when some came back. */
extern pthread_mutex_t mt_gpu_lock;
extern pthread_cond_t mt_gpu_returned;
struct timespec mt_gpu_in_ms(unsigned ms); /* from now, for pthread_cond_timedwait */
/* A launch of a node has ended, or will never be. Called with the lock. */
void mt_gpu_node_left(struct mt_flight *f);
/* Before a launch: the code of its program knows the numbers of its sites on this device. 0:
 * some are not known. */
int mt_gpu_number_sites(struct mt_gpu_device *d, const struct mt_gpu_launch *l);
void mt_gpu_forget_sites(struct mt_gpu_device *d);
/* Copies to the device, and waits until it is there. */
cudaError_t mt_gpu_write(const struct mt_cuda *cu, void *to, const void *from, size_t bytes);

/* The current device of this thread; set up at its first use. NULL: it cannot be traced (reported once).
 * `at_exit` is registered with atexit after the driver's own handler, so that it runs first. */
struct mt_gpu_device *mt_gpu_device(void (*at_exit)(void));
/* The same if it was set up already. */
struct mt_gpu_device *mt_gpu_device_in_use(void);
/* Looks at no ring any more: their memory is about to go, with the driver. */
void mt_gpu_close(void);
int mt_gpu_closed(void);
/* Is the thread's current context the device's primary one? 1 when nothing is known. */
int mt_gpu_is_primary(const struct mt_cuda *cu, int ordinal);
/* The device is about to be reset: what was known of its context, and that it could not be set up. */
void mt_gpu_forget_primary(int ordinal);
void mt_gpu_try_again(int ordinal);
/* Its memory is about to go: it is set up anew when it is next used. Nothing may be under way there. */
void mt_gpu_retire(struct mt_gpu_device *d);
/* Lends f a context (of a node: the place and the number of one); waits up to `ms` for one. What to hand to
 * the kernel: its address, with MT_CONTEXT_IN_PARTS if not all CTAs are to be traced; NULL: none is free. */
void *mt_gpu_lend(struct mt_gpu_device *d, struct mt_flight *f, unsigned ms);
/* After the launch, in its stream: the copy and the mark. */
cudaError_t mt_gpu_mark(struct mt_gpu_device *d, struct mt_flight *f, cudaStream_t stream);
/* Gives the context back, which others get when it owes nothing. */
void mt_gpu_return(struct mt_flight *f);

/* Reader only: takes up to MT_GPU_BATCH packets from each ring of each device and hands them to their
 * launches; sets `ended` of launches whose mark was there before that. Returns packets taken. */
unsigned mt_gpu_poll(void);
#endif
