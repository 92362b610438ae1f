/* Launches in flight on GPUs, the rings and launch contexts that they are lent, and the thread that reads the
 * rings. Knows no CUDA; users (runtime/gpu/gpu.c, runtime/gpu/inject) say how memory is got and what happens
 * on the device.
 *
 * Each trace has a queue of its launches in the order in which they were issued. The first one is open: its
 * records go to the trace. Records of a later one (they may overtake those of its predecessor, from another
 * ring) wait in memory until it is first. A launch leaves the queue when the device has ended it and all
 * records that the device counted have come. */
#ifndef MT_GPU_RINGS_H
#define MT_GPU_RINGS_H
#include "device/gpu.h"
#include "ring.h"
#include <pthread.h>

#ifndef MT_GPU_RINGS /* tests have less of everything */
#define MT_GPU_RINGS 32u
#define MT_GPU_CONTEXTS 1024u /* launches in flight */
#define MT_GPU_BATCH 4096u    /* packets taken from a ring before others have their turn */
#endif
#define MT_STALL_MS 500 /* between two looks whether anything came */

struct mt_rings;
struct mt_gpu_node;
struct mt_flight_queue; /* of one trace */

struct mt_flight {
    struct mt_gpu_launch launch;  /* our copy */
    struct mt_rings *rings;       /* what has lent the context */
    uint32_t context, generation; /* of the rings, and which lending of it */
    struct mt_gpu_node *node;     /* launched as part of a graph, and then: */
    struct mt_flight *node_next;  /* the node's next launch */
    uint64_t taken;               /* records that came */
    uint64_t counted;             /* that the device made; valid when ended */
    uint64_t untraced;
    uint64_t counts[6];  /* as in mt_launch_line */
    int ended;           /* the device has ended it; nothing more is written for it */
    int status;          /* cudaError_t it ends with */
    int gone;            /* the device died: what has come is all there is */
    int no_sites;        /* the code's are not those of the CPU image */
    int issuing;         /* between launch and issued: not to be freed */
    int cancelled;       /* it runs without record calls, or never: it has no place in the trace */
    uint64_t missing_ns; /* ended, but records are missing: since when */
    uint64_t number;     /* counts launches of the process */
    /* Launches of patched code (runtime/gpu/inject); NULL and 0 for others: */
    uint32_t (*site)(const struct mt_flight *f, const struct mt_packet *p); /* the number that readers know */
    const void *module;                                                     /* of its kernel */
    uint64_t code;   /* the pc from which sites count */
    uint64_t exits;  /* it has ended when so many threads have; 0: not known by that */
    uint64_t exited; /* threads that have ended */
    struct mt_flight_queue *queue;
    struct mt_flight *next; /* of the queue */
    struct mt_raw_record *held;
    size_t nheld, held_cap;
    /* Compact traces: what has come and is not handed on, in order; the last one has room. */
    struct mt_gather *gathered, *last;
    size_t blocks;
    uint64_t dropped; /* records for which there was no memory */
};

/* ---- rings ---- */

/* What users do in ways of their own. */
struct mt_rings_ops {
    /* With mt_rings_lock: f gets a context, or gives it back. 1: others may have it now. */
    void (*lent)(struct mt_rings *r, struct mt_flight *f);
    int (*returned)(struct mt_rings *r, struct mt_flight *f);
    /* The rest is called by the reader. Before it looks at rings: launches that have ended, to `ended`;
     * returns how many. May be NULL. */
    unsigned (*marked)(struct mt_rings *r, struct mt_flight **ended);
    /* So many records came of a context; `known`: of a launch, which has them. May be NULL. */
    void (*came)(struct mt_rings *r, uint32_t context, uint64_t records, int known);
    void (*left)(void); /* launches have; may be NULL */
};

/* In one memory: of a device, or of a context of the driver. */
struct mt_rings {
    const struct mt_rings_ops *ops;
    struct mt_ring ring[MT_GPU_RINGS];
    _Atomic uint64_t passed[MT_GPU_RINGS]; /* slots whose packets launches have */
    struct mt_gpu_ring *on_device;         /* the rings, as the device sees them */
    struct mt_gpu_context *contexts;       /* on the device */
    uint64_t ctas;                         /* the rule which CTAs are traced, on the device; 0: all */
    unsigned batch;                        /* MT_GPU_BATCH */
    _Atomic int damaged;                   /* one of them is: nothing more is traced there */
    struct mt_flight *_Atomic flight[MT_GPU_CONTEXTS]; /* who has the context */
    uint32_t lending[MT_GPU_CONTEXTS];                 /* number of its present or last lending */
    uint32_t free[MT_GPU_CONTEXTS], nfree;
    struct mt_rings *next;
};
extern pthread_mutex_t mt_rings_lock; /* free contexts, and who has the others */

/* How memory is got and written; errors are NVIDIA's. */
struct mt_rings_maker {
    int error;     /* the first one: nothing is got or written after it */
    int no_memory; /* the one that says so */
    int (*get)(struct mt_rings_maker *m, size_t bytes, int host, void **at, uint64_t *device);
    int (*put)(struct mt_rings_maker *m, void *to, const void *from,
               size_t bytes); /* it is there on return */
};
/* Memory of the device, or of the host, zeroed; *device: its address there. NULL: m->error. */
void *mt_rings_memory(struct mt_rings_maker *m, size_t bytes, int host, uint64_t *device);
/* Fills what is zero. `code` as in struct mt_gpu_context. What is half made at m->error stays the driver's.
 */
void mt_rings_make(struct mt_rings *r, const struct mt_rings_ops *ops, uint64_t code,
                   struct mt_rings_maker *m);
/* A launch context for these rings, as it is on the device. */
struct mt_gpu_context mt_rings_context(const struct mt_rings *r, uint32_t id, uint64_t code);
/* The reader looks at them from here on. */
void mt_rings_add(struct mt_rings *r);
/* Their memory is about to go. Nobody may have one of their contexts. They stay, but are not looked at. */
void mt_rings_retire(struct mt_rings *r);
/* The same of all, for ever: the driver is about to shut down. */
void mt_rings_close(void);
int mt_rings_closed(void);
/* Lends f a context, and waits for one while others come back within `patience` times MT_STALL_MS. What to
 * hand to the kernel: its address, with MT_CONTEXT_IN_PARTS if not all CTAs are to be traced; NULL: none is
 * free. */
void *mt_rings_lend(struct mt_rings *r, struct mt_flight *f, unsigned patience);
/* Gives it back, if there is one: the launch will not be added to a queue. */
void mt_rings_return(struct mt_flight *f);
/* A context that `returned` kept. */
void mt_rings_free(struct mt_rings *r, uint32_t context);
/* Records that were made in a context. */
uint64_t mt_rings_records(const struct mt_gpu_context *c);
/* Waits until the reader has taken what is below the heads, or nothing of the filter is left. -1: it does
 * not. */
struct mt_flight_filter;
int mt_rings_pass(const struct mt_rings *r, const uint64_t heads[MT_GPU_RINGS],
                  const struct mt_flight_filter *filter, unsigned patience);

/* ---- launches ---- */

/* Before the device can begin it: adds it after the launches of its trace, whose queue is then locked until
 * mt_queue_leave, and the reader reads. *q: NULL, or locked already. The flight is the queue's from here on,
 * but stays at least until mt_flight_issued or mt_flight_cancel. -1: there is no memory or no thread. */
int mt_flight_begin(struct mt_flight *f, struct mt_flight_queue **q);
void mt_queue_leave(struct mt_flight_queue *q);
/* The trace is about to be closed; its queue is empty. */
void mt_queue_forget(struct mt_trace *trace);
/* It was issued. */
void mt_flight_issued(struct mt_flight *f);
/* It makes no records: it will never run (status says why), or was issued without record calls (0). */
void mt_flight_cancel(struct mt_flight *f, int status);

/* Which launches are meant: NULL means any, and so does before = 0. */
struct mt_flight_filter {
    const struct mt_trace *trace;
    const void *rings;
    uint64_t before; /* those issued earlier, by their number */
    const void *module;
};
/* How many launches there were so far. */
uint64_t mt_flight_issued_so_far(void);
int mt_flight_matches(const struct mt_flight *f, const struct mt_flight_filter *filter);
unsigned mt_flight_count(const struct mt_flight_filter *filter);
/* Waits until those that are under way now have left, or `ms` have passed; returns how many of them are left.
 */
unsigned mt_flight_wait(const struct mt_flight_filter *filter, unsigned ms);
/* Waits until they have left. 0; -1: nothing came for `patience` times MT_STALL_MS; or what `ask` (may be
 * NULL), asked each time, said. (A reader that does not turn is writing to a FIFO that nobody reads: that is
 * waited for.) */
int mt_flight_end(const struct mt_flight_filter *filter, unsigned patience, int (*ask)(const void *data),
                  const void *data);
/* They will never end: what is there is all. */
void mt_flight_give_up(const struct mt_flight_filter *filter, int status, const char *why);
/* Calls f for each flight, with the list locked. */
void mt_flight_each(void (*f)(struct mt_flight *flight, void *data), void *data);
#endif
