/* The scheduler's own structures, shared by worker.c, matrix.c and check.c. Device code runs only on fibers:
 * one per device thread, or one per worker for kernels without waits ("loop"). A fiber never leaves its
 * worker. Workers share only struct mt_pool_launch, under the pool's lock or by its atomics. */
#ifndef MT_CPU_SCHEDULER_H
#define MT_CPU_SCHEDULER_H

#include "cpu.h"
#include "format/cta_rule.h"
#include "memtrace/device.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define MT_LIKELY(x) __builtin_expect(!!(x), 1)
#define MT_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define MT_WARP 32u
#define MT_CTA_MAX 1024u
#define MT_WARPS_MAX (MT_CTA_MAX / MT_WARP)
#define MT_BARRIERS 16u

/* cudaError_t values of this device. */
enum {
    MT_ERR_CONFIGURATION = 9,
    MT_ERR_MEMORY = 2,
    MT_ERR_ADDRESS = 700,
    MT_ERR_TIMEOUT = 702,
    MT_ERR_ASSERT = 710,
    MT_ERR_MISALIGNED = 716,
    MT_ERR_LAUNCH = 719,
    MT_ERR_UNSUPPORTED = 801,
};

/* ---- launches
 * ------------------------------------------------------------------------------------------------- */

struct mt_pool_launch {
    struct mt_cpu_launch *launch;
    void **args;     /* copy in the local range */
    void *workspace; /* counters of grid barriers, in the local range: not memory of the program */
    void (*entry)(void **);
    void (*loop)(void **);                                /* function for kernels without waits; NULL:
                                                           * fibers */
    void (*quiet_entry)(void **), (*quiet_loop)(void **); /* entry points for CTAs that are not traced */
    uint64_t total;                                       /* number of units claimed at once: CTAs or
                                                           * clusters */
    uint64_t grid_id;
    uint32_t nthreads; /* fibers of a CTA, if it has any */
    uint32_t warps;    /* 1: a fiber is a warp, and struct mt_warp is unused */
    uint32_t cooperative;
    int fibers;  /* one fiber per thread: accesses are not grouped into requests */
    int ordered; /* CTAs may meet at grid barriers and run on several workers */
    uint64_t shared_bytes, const_base, const_bytes;
    /* Under the pool's lock. */
    uint64_t next, claimed, finished;
    struct mt_pool_launch *link;
    int over; /* `done` was called */
    /* Shared by workers. */
    _Atomic int failed;    /* error code; CTAs are abandoned once it is set */
    _Atomic uint32_t gone; /* number of CTAs that have ended, without those of loops */
    _Atomic int warned;    /* an incomplete collective was reported */
    /* MEMTRACE_CHECK (check.c): */
    _Atomic uint64_t found;            /* number of findings */
    _Atomic uint64_t printed;          /* bytes of printf's buffer that a GPU would need at least */
    _Atomic int bad;                   /* error code of the first bad access */
    _Atomic int ended;                 /* a thread could not skip its bad access, and ended */
    _Atomic int told;                  /* the cause of failure was reported as a finding */
    _Atomic uint32_t after_bad, spins; /* accesses since the bad one, and yields of waiting threads */
    _Atomic uint64_t records, untraced;
    _Atomic uint64_t undefined; /* number of warp function results that CUDA does not define */
    _Atomic uint64_t counts[MT_COUNTS], recorded[MT_COUNTS];
};

/* ---- fibers
 * --------------------------------------------------------------------------------------------------- */

/* Header at the top of a device stack. The first stack pointer is its own address, 64-byte aligned, at an
 * offset that differs between stacks. */
struct mt_stack {
    char *low;        /* lowest address */
    uint64_t *canary; /* lowest word, MT_CANARY unless the stack overflowed; NULL with a guard page */
    int warp;         /* 1: runs a warp, which has 32 threads' local variables */
};
#define MT_CANARY 0x6d656d7472616365ull

/* Saves the callee-saved registers on the running stack and the stack pointer in *save, then continues
 * where `to` stopped: its call of mt_fiber_switch returns `result`. */
uint64_t mt_fiber_switch(void **save, void *to, uint64_t result);
/* Calls f(a, b) on the stack whose pointer was saved as `sp`, below its contents; returns when f does. */
void mt_fiber_call(void *sp, void (*f)(void *a, int b), void *a, int b);

_Noreturn void mt_fiber_main(void);

struct mt_fiber {
    void *sp;
    struct mt_fiber *next; /* next in the ready queue or among a barrier's waiters */
    uint32_t tid[3];
    uint16_t lane, warp;
    uint64_t result; /* result of the present wait */
    struct mt_stack *stack;
    uint32_t cluster_phase; /* phase of the cluster's barrier at its last arrival */
    uint32_t place;         /* MEMTRACE_CHECK: note of the barrier that it waits at, and the code's address */
    const void *code;
};
_Static_assert(sizeof(struct mt_fiber) == 64, "one cache line per fiber");

struct mt_queue {
    struct mt_fiber *head, *tail;
};

/* Lanes of a warp that wait in the same collective operation. */
struct mt_group {
    uint32_t key; /* operation and mode */
    uint32_t mask, arrived;
    uint64_t site;  /* call address in the first lane */
    uint32_t place; /* its note (mt_cpu_tls.place) */
};

struct mt_warp {
    uint32_t lanes; /* lanes that exist */
    uint32_t exited;
    uint32_t blocked; /* lanes that wait: at a barrier, in a collective, or parked */
    uint32_t parked;  /* lanes that wait in activemask */
    uint32_t ngroups;
    struct mt_group group[MT_WARP];
    uint64_t value[MT_WARP]; /* value of each lane */
    uint32_t a[MT_WARP], b[MT_WARP];
    uint64_t site[MT_WARP]; /* per parked lane: call site, or a hash of the chain of call sites */
};

struct mt_barrier {
    uint32_t arrived, expected; /* threads that arrived and that are expected; expected 0: all that have
                                 * not exited */
    uint32_t acc, kind;
    uint32_t reduce;  /* 1: some waiter wants the result */
    const void *site; /* MEMTRACE_CHECK: code address of the first arrival; NULL: arrivals at several
                       * addresses */
    struct mt_queue waiters;
    uint32_t nwaiters;
};

/* CTAs of a launch with clusters, which run together. */
#define MT_CLUSTER_MAX 16u
struct mt_cluster {
    struct mt_cluster *next; /* next of the worker's free clusters */
    char *shared;            /* shared memory of rank 0; other ranks follow, `stride` bytes apart, up to
                              * `room` */
    uint64_t stride;
    uint32_t room, ctas, left;          /* capacity, CTAs, CTAs that have not ended */
    uint32_t alive;                     /* threads that have not exited */
    uint32_t arrived, phase;            /* arrivals at the barrier, and how often it has been passed */
    uint32_t stalled;                   /* number of CTAs whose threads all wait for others of the cluster */
    struct mt_cta *cta[MT_CLUSTER_MAX]; /* CTAs by rank; NULL: not begun or ended */
};

/* A CTA in flight. The structure is reused for later CTAs. */
struct mt_cta {
    struct mt_worker *worker;
    struct mt_pool_launch *run;
    struct mt_fiber *current;
    struct mt_queue ready;
    uint32_t nready;
    uint32_t nthreads, unstarted; /* unstarted: index of the next thread to start */
    uint32_t next_tid[3];
    uint32_t alive;           /* threads that have not exited, including unstarted ones */
    uint32_t yields;          /* consecutive yields by all fibers */
    uint32_t nwarps, parked;  /* warps with a fiber per lane; parked: lanes of all warps */
    uint32_t active_barriers; /* one bit per barrier with arrivals */
    uint32_t spins;           /* consecutive rounds in which the CTA only yielded */
    uint32_t ctaid[3], smid;
    int quiet; /* not traced (MEMTRACE_CTAS, MEMTRACE_SAMPLE) */
    char *shared;
    char *own_shared; /* shared memory outside clusters */
    uint64_t shared_capacity;
    struct mt_cluster *cluster;              /* NULL: none */
    uint32_t rank;                           /* rank in the cluster */
    int stalled;                             /* 1: no thread can run before others of the cluster */
    uint32_t cluster_arrived, cluster_phase; /* state of the cluster's barrier if the CTA is its only
                                              * member */
    struct mt_queue cluster_waiters;
    struct mt_cta *next; /* ring of resident CTAs, or free list */
    struct mt_barrier barrier[MT_BARRIERS];
    struct mt_warp warp[MT_WARPS_MAX];
    struct mt_fiber fiber[MT_CTA_MAX];
};

/* ---- workers
 * -------------------------------------------------------------------------------------------------- */

/* Reasons for a fiber to return control to its worker. */
enum mt_status { MT_CTA_DONE, MT_CTA_SPINS, MT_CTA_STALLED, MT_CTA_FAILED };

struct mt_claim {
    struct mt_pool_launch *run;
    uint64_t next, end; /* range of linear CTA numbers, or of clusters */
};

/* ---- records: runs.c ---- */

#define MT_RUNS 512u /* maximum number of runs handed on at a time */

/* Runs and regions (format/container/region.h). */
struct mt_access_runs {
    _Alignas(64) struct mt_access_run run[MT_RUNS]; /* each in one cache line */
    uint64_t address[MT_RUNS * MT_WARP];            /* addresses of runs that are not evenly spaced */
};

struct mt_worker;
void mt_runs_open(struct mt_worker *w); /* empties the buffer */
/* Hands on the records of the calling worker (struct mt_worker). last: no more will come of its run. */
void mt_runs_flush(void *worker, int last);

struct mt_worker {
    void *sched_sp; /* the worker's own stack while device code runs */
    enum mt_status status;
    int in_device; /* 1: a fault now is the kernel's */
    unsigned id;
    struct mt_stacks {
        struct mt_stack **free; /* free stacks, used last in first out: the top is still in the cache */
        unsigned nfree, made;
    } stacks[2]; /* for threads and for warps */
    struct mt_fiber loop_fiber;
    struct mt_cta *resident, *free_ctas, *loop_cta;
    struct mt_cluster *free_clusters;
    uint32_t nresident;
    uint64_t resident_threads;
    struct mt_claim claim;       /* CTAs claimed but not begun */
    struct mt_pool_launch *run;  /* launch whose records are in the buffer */
    uint64_t finished;           /* CTAs of `run` that have ended but are not yet reported */
    uint64_t *buffer;            /* raw records; NULL in compact traces */
    uint64_t raw, raw_room;      /* number of records in it, and its capacity */
    struct mt_access_runs *runs; /* runs written by device code */
    int quiet; /* 1: an untraced CTA runs; its records are dropped, and these wait meanwhile: */
    struct {
        uint64_t untraced, counts[MT_COUNTS];
    } kept;
    _Alignas(64) char nowhere[256]; /* target of bad accesses (MEMTRACE_CHECK=1) */
    char *fault_stack;              /* stack for signal handlers */
};

extern _Thread_local struct mt_worker *mt_worker_self __attribute__((tls_model("initial-exec")));

static inline void mt_stack_give(struct mt_worker *w, struct mt_stack *stack)
{
    struct mt_stacks *of = &w->stacks[stack->warp];
    of->free[of->nfree++] = stack;
}
extern _Atomic int mt_stack_unguarded; /* 1: some stacks have a canary */

static inline struct mt_cta *mt_cta_current(void)
{
    return mt_cpu_tls.cta_state;
}

/* ---- check.c ---- */
#define MT_FAULT_STACK 16384
void mt_fault_install(void);
/* Takes the signal handlers back before a launch, as the program may have set its own since. */
void mt_fault_take_back(void);

/* Records the launch's failure (the first one wins) and returns control to the worker. Called only on a
 * worker. */
_Noreturn void mt_fault_fail(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));
void mt_fault_record(struct mt_pool_launch *run, int code, const char *text);
#endif
