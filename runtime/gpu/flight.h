/* Launches in flight on GPUs: which context belongs to which launch, and the order in which launches of one
 * stream reach its trace. Knows no CUDA; the caller says what happens on the device.
 *
 * Each trace has a queue of its launches in the order in which they were issued. The first one is open: its
 * records go to the trace. Records of a later one (they may overtake those of its predecessor, from another
 * ring) wait in memory until it is first. A launch leaves the queue when the device has ended it and all
 * records that the device counted have come.
 *
 * mt_flight_packet and mt_flight_retire are called by one thread, the reader; the rest by any. */
#ifndef MT_GPU_FLIGHT_H
#define MT_GPU_FLIGHT_H
#include "device/gpu.h"
#include "gather.h"
#include "ring.h"

struct mt_gpu_device;
struct mt_gpu_node;
struct mt_flight_queue; /* of one trace */

struct mt_flight {
    struct mt_gpu_launch launch; /* our copy */
    struct mt_gpu_device *device;
    uint32_t context, generation; /* of the device, and which lending of it */
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
    const void *place;  /* what has lent the context, instead of `device` */
    const void *module; /* of its kernel */
    uint64_t code;      /* the pc from which sites count */
    uint64_t exits;     /* it has ended when so many threads have; 0: not known by that */
    uint64_t exited;    /* threads that have ended */
    struct mt_flight_queue *queue;
    struct mt_flight *next; /* of the queue */
    struct mt_raw_record *held;
    size_t nheld, held_cap;
    /* Compact traces: what has come and is not handed on, in order; the last one is being filled. */
    struct mt_gather *gathered, *filling;
    size_t blocks;
    uint64_t dropped; /* records for which there was no memory */
};

/* Locks the order of a trace's launches, from before one is added until it is issued or cancelled.
 * NULL: no memory. */
struct mt_flight_queue *mt_queue_enter(struct mt_trace *trace);
void mt_queue_leave(struct mt_flight_queue *q);
/* The trace is about to be closed; its queue is empty. */
void mt_queue_forget(struct mt_trace *trace);

/* After the launches of its queue, before the device can begin it. The flight is the queue's from here on,
 * but stays at least until mt_flight_issued or mt_flight_cancel. */
void mt_flight_add(struct mt_flight_queue *q, struct mt_flight *f);
/* It was issued. */
void mt_flight_issued(struct mt_flight *f);
/* It makes no records: it will never run (status says why), or was issued without record calls (0). */
void mt_flight_cancel(struct mt_flight *f, int status);
/* What one of several readers has gathered of a launch, in compact traces. */
struct mt_flight_part {
    struct mt_gather *first, *last; /* blocks, in order; */
    size_t blocks;
    uint64_t taken, notes, exited,
        dropped; /* records, accesses without one, threads that ended; no memory for */
};
/* Gives them to the launch. 1: it is open, and the caller hands the blocks on (mt_flight_hand_on) before the
 * launch may end; 0: it has them. One caller at a time, as mt_flight_packet. */
int mt_flight_merge(struct mt_flight *f, const struct mt_flight_part *p);
/* It has its turn in the trace, until the caller of mt_flight_retire says otherwise. */
int mt_flight_is_open(const struct mt_flight *f);
/* Of an open launch; by any thread. The block stays the caller's. */
void mt_flight_hand_on(struct mt_flight *f, struct mt_gather *g);
/* The number of the packet's site in the process; by any thread. */
uint32_t mt_flight_site(const struct mt_flight *f, const struct mt_packet *p);
/* Records of a launch. */
void mt_flight_packet(struct mt_flight *f, const struct mt_packet *p);
/* Ends what can be ended, in order. Calls `done` for each flight that left; it is freed then. Returns how
 * many. Records that are missing are given up when no packet has come for a while: the rings were looked at
 * last at `looked`, and one came last at `moved` (mt_now_ns; a slow sink can be between this and that, not
 * after `looked`). */
unsigned mt_flight_retire(void (*done)(struct mt_flight *f), uint64_t looked, uint64_t moved);
/* Which launches are meant: NULL means any, and so does before = 0. */
struct mt_flight_filter {
    const struct mt_trace *trace;
    const void *device; /* or the `place` */
    uint64_t before;    /* those issued earlier, by their number */
};
/* How many launches there were so far. */
uint64_t mt_flight_issued_so_far(void);
int mt_flight_matches(const struct mt_flight *f, const struct mt_flight_filter *filter);
unsigned mt_flight_count(const struct mt_flight_filter *filter);
/* Waits until those that are under way now have left, or `ms` have passed;
 * returns how many of them are left. */
unsigned mt_flight_wait(const struct mt_flight_filter *filter, unsigned ms);
/* Calls f for each flight, with the list locked. */
void mt_flight_each(void (*f)(struct mt_flight *flight, void *data), void *data);
#endif
