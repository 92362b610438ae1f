/* Launches in flight on GPUs, the rings and launch contexts lent to them, and the thread that reads the
 * rings. Contains no CUDA; its users (runtime/gpu/gpu.c, runtime/gpu/inject) supply memory and device
 * operations.
 *
 * Each trace has a queue of its launches in the order of issue. The first is open: its records go to the
 * trace. Records of a later launch, which may arrive before those of its predecessor through another ring,
 * wait in memory until it is first. A launch leaves the queue when it has ended on the device and all records
 * counted by the device have arrived. */
#ifndef MT_GPU_RINGS_H
#define MT_GPU_RINGS_H
#include "device/gpu.h"
#include "format/packet.h"
#include "memtrace/device.h"
#include "memtrace/record.h"
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

/* ---- packets of a ring (format/packet.h); one reader per ring ---- */

/* Returns the number of bits set. Nearly always all are, and the baseline processor has no instruction for
 * it. */
static inline uint32_t mt_ring_lanes(uint32_t mask)
{
    return mask == UINT32_MAX ? 32 : (uint32_t)__builtin_popcount(mask);
}

struct mt_ring {
    const struct mt_slot *slots; /* mask + 1 of them, zeroed at the start */
    uint64_t *tail;              /* read position for the GPU */
    uint64_t mask;
    uint64_t at; /* number of slots read */
    int damaged; /* closed after an invalid packet or at the end: the ring is not read any more */
};

/* An unpacked packet. words[], by kind: REGULAR address of the lowest active lane, and stride per further
 * lane; LANES one address per active lane, ascending; BLOCKS address and bytes of each; EXIT the context's
 * counters (struct mt_gpu_totals); NOTHING none. There are no other kinds here. */
struct mt_packet {
    uint32_t kind, context, smid, mask, meta, site, warp;
    uint64_t cta;
    uint64_t words[MT_SLOT_WORDS * MT_PACKET_MAX_SLOTS];
};

/* Takes the next whole packet. Returns 1 with *p set, 0 if there is none yet, or -1 if the ring is damaged.
 * mt_ring_publish returns the room to the GPU; for a damaged ring it lets writers go on, so that no kernel
 * waits. */
int mt_ring_take(struct mt_ring *r, struct mt_packet *p);
void mt_ring_publish(struct mt_ring *r);

/* Returns the number of raw records in a packet; 0 for EXIT and NOTHING. */
uint64_t mt_packet_count(const struct mt_packet *p);
/* ---- runs: a packet already holds the accesses of a warp ---- */

#define MT_GATHER_RUNS 4096u
#define MT_GATHER_ADDRESSES (8u * MT_GATHER_RUNS)

struct mt_gather {
    size_t runs, addresses;
    uint64_t accesses; /* accesses of threads in the runs */
    struct mt_gather *next;
    struct mt_access_run run[MT_GATHER_RUNS];
    uint64_t address[MT_GATHER_ADDRESSES];
};

/* Appends the packet's records from number `from` on, as far as there is room. Returns their number. `site`:
 * number in the companion file, or 0. */
uint64_t mt_gather_put(struct mt_gather *g, const struct mt_packet *p, uint64_t from, uint32_t site);
void mt_gather_clear(struct mt_gather *g);
/* Appends the contents of `more`. Returns 0 if there is no room. */
int mt_gather_join(struct mt_gather *g, const struct mt_gather *more);

/* Writes the records of a run, lanes ascending. Returns their number. */
size_t mt_run_expand(const struct mt_access_run *r, struct mt_raw_record *out);

#ifndef MT_GPU_RINGS /* tests override these with smaller values */
#define MT_GPU_RINGS 32u
#define MT_GPU_CONTEXTS 4000u /* launches in flight */
#define MT_GPU_BATCH 32768u   /* most packets taken from a ring in one turn */
#endif
#define MT_STALL_MS 500 /* pause between two looks for new records */

struct mt_rings;
struct mt_gpu_node;
struct mt_flight_queue; /* queue of one trace */

/* Counters of a launch context, since it was made, modulo 2^63. */
struct mt_gpu_totals {
    uint64_t records, untraced, repeated;
};

struct mt_flight {
    struct mt_gpu_launch launch;  /* our copy */
    struct mt_rings *rings;       /* rings that lent the context */
    uint32_t context, generation; /* context of the rings, and number of its lending */
    struct mt_gpu_node *node;     /* node, if launched as part of a graph, and: */
    struct mt_flight *node_next;  /* next launch of the node */
    uint64_t taken;               /* records received */
    uint64_t counted;             /* records made by the device; valid once ended */
    uint64_t untraced;
    uint64_t counts[6];  /* counts as in mt_launch_line */
    int ended;           /* ended on the device; no further records will be written */
    int status;          /* its final cudaError_t */
    int gone;            /* the device died: no more records will come */
    int no_sites;        /* its code has sites other than those of the CPU image */
    int issuing;         /* between launch and issued: must not be freed */
    int cancelled;       /* runs without record calls, or never: has no place in the trace */
    uint64_t missing_ns; /* ended with records missing: since when */
    uint64_t number;     /* number among the launches of the process */
    /* Launches of patched code (runtime/gpu/inject); NULL and 0 for others: */
    /* Returns the number in the companion file of a packet's site. */
    uint32_t (*site)(const struct mt_flight *f, uint32_t site, uint32_t meta);
    uint64_t unseen;             /* kinds of accesses that no patch sees: each counts once as untraced */
    uint64_t kernel;             /* its number in totals */
    const void *module;          /* module of its kernel */
    uint64_t code;               /* pc from which sites are counted */
    uint64_t exits;              /* number of its threads, all of which say when they end; 0: unknown */
    int polls;                   /* repeats of its accesses are counted, if exits are */
    int exited;                  /* all of them have ended */
    struct mt_gpu_totals before; /* of its context, when it was lent */
    uint64_t repeated;           /* accesses without record, as they repeat another one */
    struct mt_flight_queue *queue;
    struct mt_flight *next; /* next of the queue */
    /* Records received and not yet passed on, in order; the last block has room. */
    struct mt_gather *gathered, *last;
    size_t blocks;
    uint64_t dropped; /* records lost for lack of memory */
};

/* ---- rings ---- */

/* Operations that differ between users. */
struct mt_rings_ops {
    /* Called with mt_rings_lock held when f gets a context, or returns it. `returned` gives 1 if others may
     * have it now. */
    void (*lent)(struct mt_rings *r, struct mt_flight *f);
    int (*returned)(struct mt_rings *r, struct mt_flight *f);
    /* The reader calls the rest. Before it looks at rings: stores the launches that have ended in `ended` and
     * returns their number. May be NULL. */
    unsigned (*marked)(struct mt_rings *r, struct mt_flight **ended);
    /* Reports records that arrived for a context; `known`: they belong to a launch. May be NULL. */
    void (*came)(struct mt_rings *r, uint32_t context, uint64_t records, int known);
    void (*left)(void); /* some launches have left; may be NULL */
};

/* Rings in one memory: of a device, or of a context of the driver. */
struct mt_rings {
    const struct mt_rings_ops *ops;
    unsigned count; /* rings in use: 1 if one thread reads them, which keeps the order across CTAs */
    struct mt_ring ring[MT_GPU_RINGS];
    _Atomic uint64_t passed[MT_GPU_RINGS]; /* slots whose packets were given to launches */
    struct mt_gpu_ring *on_device;         /* device address of the rings */
    struct mt_gpu_context *contexts;       /* device address */
    uint64_t ctas;                         /* device address of the rule that selects CTAs; 0: all */
    uint64_t polls;                        /* device address of struct mt_poll[MT_POLLS]; 0: none */
    uint64_t tallies;                      /* device address of totals in place of records; 0: none */
    unsigned batch;                        /* most packets taken in one turn, MT_GPU_BATCH */
    _Atomic int damaged;                   /* a ring is damaged: nothing more is traced there */
    struct mt_flight *_Atomic flight[MT_GPU_CONTEXTS]; /* launch that holds the context, or NULL */
    uint32_t lending[MT_GPU_CONTEXTS];                 /* number of its current or last lending */
    uint32_t free[MT_GPU_CONTEXTS], nfree;
    struct mt_rings *next;
};
extern pthread_mutex_t mt_rings_lock; /* protects the free contexts and the holders of the others */

/* Allocation and writing of memory; errors are NVIDIA's. */
struct mt_rings_maker {
    int error;     /* first error; nothing is allocated or written after it */
    int no_memory; /* value that means out of memory */
    int (*get)(struct mt_rings_maker *m, size_t bytes, int host, void **at, uint64_t *device);
    int (*put)(struct mt_rings_maker *m, void *to, const void *from,
               size_t bytes); /* the data is on the device on return */
};
/* Returns the number of threads that read rings. Several write the records of different CTAs in no defined
 * order. */
unsigned mt_rings_readers(void);
/* Allocates zeroed memory of the device or the host, with *device set to its device address. Returns NULL
 * with m->error set. */
void *mt_rings_memory(struct mt_rings_maker *m, size_t bytes, int host, uint64_t *device);
/* Fills zeroed rings. `code` as in struct mt_gpu_context. After m->error, half-made parts are left to the
 * driver. */
void mt_rings_make(struct mt_rings *r, const struct mt_rings_ops *ops, uint64_t code,
                   struct mt_rings_maker *m);
/* Returns a launch context for these rings, as stored on the device. */
struct mt_gpu_context mt_rings_context(const struct mt_rings *r, uint32_t id, uint64_t code);
/* Adds rings for the reader to read. */
void mt_rings_add(struct mt_rings *r);
/* Stops the reading of rings whose memory is about to go. None of their contexts may be lent. The structure
 * stays. */
void mt_rings_retire(struct mt_rings *r);
/* Stops the reading of all rings for ever, before the driver shuts down. */
void mt_rings_close(void);
int mt_rings_closed(void);
/* Lends f a context. Waits for a free one as long as contexts come back within `patience` times MT_STALL_MS.
 * Returns the value for the kernel: the context's address, with MT_CONTEXT_IN_PARTS if only some CTAs are
 * traced; or NULL if none is free. */
void *mt_rings_lend(struct mt_rings *r, struct mt_flight *f, unsigned patience);
/* Gives back the context of f, if any: the launch will not be added to a queue. */
void mt_rings_return(struct mt_flight *f);
/* Frees a context that `returned` kept. */
void mt_rings_free(struct mt_rings *r, uint32_t context);
/* Returns the number of records made in a context. */
uint64_t mt_rings_records(const struct mt_gpu_context *c);
/* Waits until the reader has passed the given heads, or no launch matches the filter. Returns 0, or -1 if the
 * reader stalls. */
struct mt_flight_filter;
int mt_rings_pass(const struct mt_rings *r, const uint64_t heads[MT_GPU_RINGS],
                  const struct mt_flight_filter *filter, unsigned patience);

/* ---- launches ---- */

/* Adds a launch after the earlier ones of its trace, before the device can begin it, and starts the reader.
 * The queue then stays locked until mt_queue_leave. *q: NULL, or already locked. The queue owns the flight,
 * but keeps it at least until mt_flight_issued or mt_flight_cancel. Returns -1 if there is no memory or no
 * thread. */
int mt_flight_begin(struct mt_flight *f, struct mt_flight_queue **q);
void mt_queue_leave(struct mt_flight_queue *q);
/* Forgets the empty queue of a trace that is about to be closed. */
void mt_queue_forget(struct mt_trace *trace);
/* Marks the launch as issued. */
void mt_flight_issued(struct mt_flight *f);
/* Cancels a launch without records: it will never run (status says why), or was issued without record calls
 * (0). */
void mt_flight_cancel(struct mt_flight *f, int status);

/* Filter of launches; NULL and before = 0 match any. */
struct mt_flight_filter {
    const struct mt_trace *trace;
    const void *rings;
    uint64_t before; /* launches with a lower number */
    const void *module;
};
/* Returns the number of launches so far. */
uint64_t mt_flight_issued_so_far(void);
int mt_flight_matches(const struct mt_flight *f, const struct mt_flight_filter *filter);
unsigned mt_flight_count(const struct mt_flight_filter *filter);
/* Waits until the matching launches under way now have left, or `ms` have passed. Returns the number left. */
unsigned mt_flight_wait(const struct mt_flight_filter *filter, unsigned ms);
/* Waits until the matching launches have left. Returns 0, -1 if nothing arrived for `patience` times
 * MT_STALL_MS, or the nonzero result of `ask` (may be NULL), called on each turn. A reader that is blocked by
 * a FIFO without reader is waited for. */
int mt_flight_end(const struct mt_flight_filter *filter, unsigned patience, int (*ask)(const void *data),
                  const void *data);
/* Gives up the matching launches, which will never end; their records so far are kept. */
void mt_flight_give_up(const struct mt_flight_filter *filter, int status, const char *why);
/* Ends a launch of patched code, whose context has counted so much by now. */
void mt_flight_counted(struct mt_flight *f, const struct mt_gpu_totals *now);
/* Calls f for each flight, with the list locked. */
void mt_flight_each(void (*f)(struct mt_flight *flight, void *data), void *data);
#endif
