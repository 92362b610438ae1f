/* The scheduler's own structures, shared by worker.c (workers, launches), cta.c (one CTA, barriers,
 * collectives) and check.c. Device code runs only on fibers: one per device thread, or one per worker for
 * kernels without waits ("loop"). A fiber never leaves its worker; nothing here is touched by two workers,
 * except struct mt_pool_launch under the pool's lock and through its atomics. */
#ifndef MT_CPU_SCHEDULER_H
#define MT_CPU_SCHEDULER_H
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include "cpu.h"
#include "format/cta_rule.h"

#define MT_LIKELY(x) __builtin_expect(!!(x), 1)
#define MT_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define MT_WARP 32u
#define MT_CTA_MAX 1024u
#define MT_WARPS_MAX (MT_CTA_MAX / MT_WARP)
#define MT_BARRIERS 16u

/* cudaError_t values that this device makes. */
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
    void *workspace; /* of grid barriers, in the local range: its accesses are not the program's */
    void (*entry)(void **);
    void (*loop)(void **);                                /* NULL: fibers */
    void (*quiet_entry)(void **), (*quiet_loop)(void **); /* for CTAs that are not traced */
    uint64_t total;                                       /* CTAs, or clusters: what is claimed at once */
    uint64_t grid_id;
    uint32_t nthreads; /* of a CTA: its fibers, where it has any */
    uint32_t warps;    /* a fiber is a warp, and struct mt_warp is not used */
    uint32_t cooperative;
    int fibers;  /* one for each thread of a warp: its accesses are not grouped into requests */
    int ordered; /* its CTAs may meet at barriers of the grid, and run on several workers */
    uint64_t shared_bytes, const_base, const_bytes;
    /* Under the pool's lock. */
    uint64_t next, claimed, finished;
    struct mt_pool_launch *link;
    int over; /* done was said */
    /* Shared by workers. */
    _Atomic int failed;    /* error code; CTAs are abandoned when it is set */
    _Atomic uint32_t gone; /* CTAs that have ended, but for those of loops */
    _Atomic int warned;    /* an incomplete collective was reported */
    /* MEMTRACE_CHECK (check.c): */
    _Atomic uint64_t found;            /* findings */
    _Atomic uint64_t printed;          /* bytes of printf's buffer that a GPU would use at least */
    _Atomic int bad;                   /* error code of the first bad access */
    _Atomic int ended;                 /* a thread could not skip its own, and ended */
    _Atomic int told;                  /* why the launch fails is one of them */
    _Atomic uint32_t after_bad, spins; /* accesses since then, and turns that waiting threads gave away */
    _Atomic uint64_t records, untraced;
    _Atomic uint64_t undefined; /* results of warp functions that CUDA does not define */
    _Atomic uint64_t counts[MT_COUNTS], recorded[MT_COUNTS];
};

/* ---- fibers
 * --------------------------------------------------------------------------------------------------- */

/* Stands at the top of a device stack; the first stack pointer is its own address, 64-byte aligned, at an
 * offset that differs from stack to stack. */
struct mt_stack {
    char *low;        /* lowest address */
    uint64_t *canary; /* lowest word: MT_CANARY, or the stack overflowed; NULL when a guard page shows it */
    int warp;         /* runs a warp, which has 32 threads' local variables */
};
#define MT_CANARY 0x6d656d7472616365ull

/* Saves the callee-saved registers on the running stack, its pointer in *save, and continues where `to`
 * stopped: that call of mt_fiber_switch returns `result`. */
uint64_t mt_fiber_switch(void **save, void *to, uint64_t result);
/* Calls f(a, b) on the stack whose pointer was saved as `sp`, below what is there; returns when it does. */
void mt_fiber_call(void *sp, void (*f)(void *a, int b), void *a, int b);
/* Makes `stack` start in mt_fiber_main when switched to. */
void *mt_fiber_prepare(struct mt_stack *stack);
_Noreturn void mt_fiber_main(void); /* cta.c */

struct mt_fiber {
    void *sp;
    struct mt_fiber *next; /* of the ready queue or a barrier's waiters */
    uint32_t tid[3];
    uint16_t lane, warp;
    uint64_t result; /* of the wait it is in */
    struct mt_stack *stack;
    uint32_t cluster_phase; /* of the cluster's barrier, when it arrived there last */
    uint32_t pad[3];
};
_Static_assert(sizeof(struct mt_fiber) == 64, "one cache line per fiber");

struct mt_queue {
    struct mt_fiber *head, *tail;
};

/* Lanes of a warp that wait in the same collective. */
struct mt_group {
    uint32_t key; /* operation and mode */
    uint32_t mask, arrived;
    uint64_t site; /* of the call, of the lane that came first */
};

struct mt_warp {
    uint32_t lanes; /* that exist */
    uint32_t exited;
    uint32_t blocked; /* waiting for others: barrier, collective or parked */
    uint32_t parked;  /* at activemask */
    uint32_t ngroups;
    struct mt_group group[MT_WARP];
    uint64_t value[MT_WARP]; /* what each lane brought */
    uint32_t a[MT_WARP], b[MT_WARP];
    uint64_t site[MT_WARP]; /* of parked lanes: call site, or a hash of the chain of call sites */
};

struct mt_barrier {
    uint32_t arrived, expected; /* expected 0: all threads that have not exited */
    uint32_t acc, kind;
    uint32_t reduce;  /* some waiter wants the result */
    const void *site; /* MEMTRACE_CHECK: where the first one comes to it; NULL: another has come elsewhere */
    struct mt_queue waiters;
    uint32_t nwaiters;
};

/* CTAs of a launch with clusters that run together. */
#define MT_CLUSTER_MAX 16u
struct mt_cluster {
    struct mt_cluster *next; /* of the worker's free ones */
    char *shared;            /* of rank 0; the others' follow, `stride` bytes apart, room for `room` */
    uint64_t stride;
    uint32_t room, ctas, left;          /* left: CTAs that have not ended */
    uint32_t alive;                     /* threads that have not exited */
    uint32_t arrived, phase;            /* at the barrier; how often it has been passed */
    uint32_t stalled;                   /* CTAs in which all threads wait for others of the cluster */
    struct mt_cta *cta[MT_CLUSTER_MAX]; /* by rank; NULL: not begun, or ended */
};

/* A CTA in flight. Reused from CTA to CTA. */
struct mt_cta {
    struct mt_worker *worker;
    struct mt_pool_launch *run;
    struct mt_fiber *current;
    struct mt_queue ready;
    uint32_t nready;
    uint32_t nthreads, unstarted; /* unstarted: index of the next thread to start */
    uint32_t next_tid[3];
    uint32_t alive;           /* threads not exited, unstarted included */
    uint32_t yields;          /* in a row, by all fibers */
    uint32_t nwarps, parked;  /* of lanes with a fiber each; parked: lanes of all warps */
    uint32_t active_barriers; /* bit per barrier with arrivals */
    uint32_t spins;           /* times in a row that the CTA did nothing but yield */
    uint32_t ctaid[3], smid;
    int quiet; /* not traced: MEMTRACE_CTAS, MEMTRACE_SAMPLE */
    char *shared;
    char *own_shared; /* where that is without clusters */
    uint64_t shared_capacity;
    struct mt_cluster *cluster;              /* NULL: none */
    uint32_t rank;                           /* in it */
    int stalled;                             /* no thread can run before others of the cluster have */
    uint32_t cluster_arrived, cluster_phase; /* the cluster's barrier, where it is alone */
    struct mt_queue cluster_waiters;
    struct mt_cta *next; /* ring of resident CTAs, or free list */
    struct mt_barrier barrier[MT_BARRIERS];
    struct mt_warp warp[MT_WARPS_MAX];
    struct mt_fiber fiber[MT_CTA_MAX];
};

/* ---- workers
 * -------------------------------------------------------------------------------------------------- */

/* Why a fiber gave control back to its worker. */
enum mt_status { MT_CTA_DONE, MT_CTA_SPINS, MT_CTA_STALLED, MT_CTA_FAILED };

struct mt_claim {
    struct mt_pool_launch *run;
    uint64_t next, end; /* CTAs, linear; clusters, where there are any */
};

struct mt_worker {
    void *sched_sp; /* the worker's own stack while device code runs */
    enum mt_status status;
    int in_device; /* a fault now is the kernel's */
    unsigned id;
    struct mt_stacks {
        struct mt_stack **free; /* the last one first: its top is still in the cache */
        unsigned nfree, made;
    } stacks[2]; /* of threads, of warps */
    struct mt_fiber loop_fiber;
    struct mt_cta *resident, *free_ctas, *loop_cta;
    struct mt_cluster *free_clusters;
    uint32_t nresident;
    uint64_t resident_threads;
    struct mt_claim claim;       /* CTAs claimed but not begun */
    struct mt_pool_launch *run;  /* whose records are in the buffer */
    uint64_t finished;           /* CTAs of `run`, not yet reported */
    uint64_t *buffer;            /* of raw records; NULL in compact traces */
    uint64_t raw, raw_room;      /* records in it, and how many it has room for */
    struct mt_access_runs *runs; /* what device code records */
    int quiet; /* a CTA that is not traced runs: its records are forgotten, and this waits meanwhile: */
    struct {
        uint64_t untraced, counts[MT_COUNTS];
    } kept;
    _Alignas(64) char nowhere[256]; /* where bad accesses are made (MEMTRACE_CHECK=1) */
    char *fault_stack;              /* signal handlers run here */
};

extern _Thread_local struct mt_worker *mt_worker_self __attribute__((tls_model("initial-exec")));

/* stack.c: device stacks; the worker keeps its free ones. NULL when memory is exhausted. */
struct mt_stack *mt_stack_take(struct mt_worker *w, int warp);
static inline void mt_stack_give(struct mt_worker *w, struct mt_stack *stack)
{
    struct mt_stacks *of = &w->stacks[stack->warp];
    of->free[of->nfree++] = stack;
}
extern _Atomic int mt_stack_unguarded; /* some stacks have a canary */
struct mt_stack *mt_stack_for_loops(void);
size_t mt_stack_bytes(void);

/* quiet 1: what device code records and counts from here on is forgotten; 0: no longer. */
void mt_worker_quiet(struct mt_worker *w, int quiet);
/* All that was recorded until now comes before what any worker hands on later. */
void mt_worker_hand_on(struct mt_worker *w);

/* cta.c */
/* Gives `cta` the CTA `linear` of a run, with shared memory, of `cluster` (NULL: none) the one of this rank.
 * 0, or MT_ERR_MEMORY. */
int mt_cta_begin(struct mt_cta *cta, struct mt_worker *w, struct mt_pool_launch *run, uint64_t linear,
                 struct mt_cluster *cluster, uint32_t rank);

/* A cluster for the CTAs of a run that are begun next; NULL: no memory. */
struct mt_cluster *mt_cluster_take(struct mt_worker *w, const struct mt_pool_launch *run);
/* The CTA has ended. 1: it was the last of its cluster, or has none. */
int mt_cluster_left(struct mt_cta *cta);
/* Runs it as fibers until it is done, fails, or all that can run only spins. */
enum mt_status mt_cta_resume(struct mt_cta *cta);
/* Runs it as one call of run->loop. */
enum mt_status mt_cta_loop(struct mt_cta *cta);
/* Drops the fibers of a CTA that will not be resumed. */
void mt_cta_abandon(struct mt_cta *cta);
static inline struct mt_cta *mt_cta_current(void)
{
    return mt_cpu_tls.cta_state;
}

/* warp.c */
int mt_warp_release_parked(struct mt_cta *cta); /* lanes made ready */
/* Nothing can run any more: says so of each barrier that threads wait at, under MEMTRACE_CHECK. */
void mt_barrier_tell(struct mt_cta *cta);

/* check.c */
#define MT_FAULT_STACK 16384
void mt_fault_install(void);
/* Before a launch: the program may have put handlers of its own there since. */
void mt_fault_take_back(void);
void mt_fault_thread(
    struct mt_worker *w); /* signal stack of this worker; w->fault_stack has 4 * MT_FAULT_STACK */
/* Records the launch's failure (first one wins) and gives the worker its control back. On a worker only. */
_Noreturn void mt_fault_fail(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));
void mt_fault_record(struct mt_pool_launch *run, int code, const char *text);
#endif
