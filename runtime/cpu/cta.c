/* One CTA in flight: starting its threads, switching between them, ending it. Threads are started in order,
 * each only when nothing started before it can run; a thread that ends leaves its stack to the next one. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <xmmintrin.h>
#include "check.h"
#include "local.h"
#include "memtrace/record.h"
#include "scheduler.h"
#include "warps.h"

#define MT_DENORMALS_ARE_ZERO 0x8040u /* MXCSR: results and operands */
/* Lanes may yield on their way to where others of their warp wait for them: those go on without them only
 * when all that can run have done nothing but yield, so many times in a row. */
#define ROUNDS_BEFORE_RELEASE 16

_Thread_local struct mt_cpu_tls mt_cpu_tls __attribute__((tls_model("initial-exec")));

/* Where records are from. */
static void cta_place(const struct mt_cta *cta)
{
    struct mt_cpu_tls *t = &mt_cpu_tls;
    uint64_t word = mt_rec_cta(cta->ctaid[0], cta->ctaid[1], cta->ctaid[2]);
    t->smid = cta->smid;
    t->run_cta = word;
    if (mt_cpu_compact) {
        mt_worker_mark(cta->worker, word, cta->smid);
    } else {
        t->smid_hi = (uint64_t)cta->smid << 32;
        t->cta = t->third = word;
    }
}

static void cta_bind(struct mt_cta *cta)
{
    const struct mt_pool_launch *run = cta->run;
    const struct mt_cpu_launch *launch = run->launch;
    struct mt_cpu_tls *t = &mt_cpu_tls;
    mt_worker_quiet(cta->worker, cta->quiet);
    for (int i = 0; i < 3; i++) {
        t->ctaid[i] = cta->ctaid[i];
        t->ntid[i] = launch->block[i];
        t->nctaid[i] = launch->grid[i];
    }
    cta_place(cta);
    t->warp_first = 0;
    t->warp_end = (run->nthreads + MT_WARP - 1) / MT_WARP;
    t->shared = cta->shared;
    t->shared_bytes = run->shared_bytes;
    t->cluster_shared = cta->cluster ? cta->cluster->shared : cta->shared;
    t->cluster_stride = cta->cluster ? cta->cluster->stride : run->shared_bytes;
    for (int i = 0; i < 3; i++)
        t->cluster[i] = launch->cluster[i] ? launch->cluster[i] : 1;
    t->in_cluster = launch->cluster[0] != 0;
    t->grid_id = run->grid_id;
    t->dyn_shared = launch->dyn_shared;
    t->cooperative = run->cooperative;
    t->cta_state = cta;
    t->launch = (void *)run->launch;
    t->const_base = run->const_base;
    t->const_bytes = run->const_bytes;
    t->grid_workspace = run->cooperative ? run->workspace : NULL;
}

typedef uint64_t two_numbers __attribute__((aligned(4), may_alias));

static inline void cta_enter(struct mt_cta *cta, struct mt_fiber *f)
{
    struct mt_cpu_tls *t = &mt_cpu_tls;
    cta->current = f;
    *(two_numbers *)t->tid = *(const two_numbers *)f->tid; /* a switch takes 10 ns: each store counts */
    t->tid[2] = f->tid[2];
    t->laneid = f->lane;
    t->warpid = f->warp;
    if (cta->run->warps) {
        t->warp_first = f->warp;
        t->warp_end = f->warp + 1u;
    }
    if (t->thread_mask) /* else it is the CTA's word all the time */
        t->third = t->cta | ((uint64_t)f->warp * MT_WARP + f->lane);
}

static int more_shared(struct mt_cta *cta, uint64_t bytes)
{
    uint64_t stride;
    bytes = bytes < 16384 ? 16384 : bytes;
    char *p = mt_cluster_memory(bytes, 1, &stride);
    if (!p)
        return -1;
    cta->own_shared = p;
    cta->shared_capacity = bytes;
    return 0;
}

int mt_cta_begin(struct mt_cta *cta, struct mt_worker *w, struct mt_pool_launch *run, uint64_t linear,
                 struct mt_cluster *cluster, uint32_t rank)
{
    const struct mt_cpu_launch *launch = run->launch;
    uint64_t gx = launch->grid[0], gy = launch->grid[1];
    cta->worker = w;
    cta->run = run;
    cta->ctaid[0] = (uint32_t)(linear % gx);
    cta->ctaid[1] = (uint32_t)(linear / gx % gy);
    cta->ctaid[2] = (uint32_t)(linear / gx / gy);
    cta->smid = (uint32_t)(linear % mt_cpu_tls.nsmid);
    cta->quiet = launch->ctas && !mt_cta_is_traced(launch->ctas, linear, cta->ctaid);
    cta->cluster = cluster;
    cta->rank = rank;
    if (cluster)
        cluster->cta[rank] = cta;
    else if (run->shared_bytes > cta->shared_capacity && more_shared(cta, run->shared_bytes))
        return MT_ERR_MEMORY;
    cta->shared = cluster ? cluster->shared + rank * cluster->stride : cta->own_shared;
    cta->spins = 0;
    if (run->loop)
        return 0;
    memset(cta->shared + run->shared_bytes - MT_SHARED_RESERVED, 0, MT_SHARED_RESERVED);
    cta->nthreads = cta->alive = run->nthreads;
    cta->nwarps = run->warps ? 0 : (run->nthreads + MT_WARP - 1) / MT_WARP;
    cta->unstarted = cta->nready = cta->yields = cta->parked = 0;
    cta->ready.head = cta->ready.tail = NULL;
    cta->cluster_waiters.head = cta->cluster_waiters.tail = NULL;
    cta->cluster_arrived = cta->cluster_phase = 0;
    cta->stalled = 0;
    memset(cta->next_tid, 0, sizeof cta->next_tid);
    for (uint32_t i = 0; i < cta->nwarps; i++) {
        struct mt_warp *warp = &cta->warp[i];
        uint32_t left = cta->nthreads - i * MT_WARP;
        warp->lanes = left >= MT_WARP ? ~0u : (1u << left) - 1;
        warp->exited = warp->blocked = warp->parked = warp->settled = warp->ngroups = 0;
    }
    for (uint32_t m = cta->active_barriers; m; m &= m - 1)
        memset(&cta->barrier[__builtin_ctz(m)], 0, sizeof cta->barrier[0]);
    cta->active_barriers = cta->uneven = cta->stays_uneven = cta->polls = 0;
    return 0;
}

/* The next thread that has not started yet, on `stack` or, when NULL, on a stack of its own. */
static struct mt_fiber *cta_start(struct mt_cta *cta, struct mt_stack *stack)
{
    uint32_t i = cta->unstarted, *tid = cta->next_tid;
    const uint32_t *block = cta->run->launch->block;
    struct mt_fiber *f = &cta->fiber[i];
    if (!stack) {
        stack = mt_stack_take(cta->worker, (int)cta->run->warps);
        if (!stack)
            mt_fault_fail(MT_ERR_MEMORY, "no memory for the stacks of the device threads");
        f->sp = mt_fiber_prepare(stack);
    }
    cta->unstarted = i + 1;
    f->stack = stack;
    /* In one store, as cta_enter loads them, which may be at once. */
    *(two_numbers *)f->tid = tid[0] | (uint64_t)tid[1] << 32;
    f->tid[2] = tid[2];
    if (cta->run->warps) { /* the first of its threads */
        for (tid[0] += MT_WARP; tid[0] >= block[0]; tid[0] -= block[0])
            if (++tid[1] == block[1]) {
                tid[1] = 0;
                tid[2]++;
            }
        f->lane = 0;
        f->warp = (uint16_t)i;
        return f;
    }
    if (++tid[0] == block[0]) {
        tid[0] = 0;
        if (++tid[1] == block[1]) {
            tid[1] = 0;
            tid[2]++;
        }
    }
    f->lane = i % MT_WARP;
    f->warp = (uint16_t)(i / MT_WARP);
    return f;
}

/* Takes the next fiber that can run, or NULL. */
static inline struct mt_fiber *cta_pick(struct mt_cta *cta)
{
    struct mt_fiber *f = cta->ready.head;
    if (MT_LIKELY(f != NULL)) {
        cta->ready.head = f->next;
        cta->nready--;
        return f;
    }
    return cta->unstarted < cta->nthreads ? cta_start(cta, NULL) : NULL;
}

/* Nothing can run: settles what waits, in the order in which it is surely right. NULL: other CTAs of the
 * cluster will. */
static __attribute__((noinline)) struct mt_fiber *cta_idle(struct mt_cta *cta)
{
    char text[256];
    struct mt_cluster *c = cta->cluster;
    if (mt_warp_release_parked(cta))
        return cta_pick(cta);
    if (c && cta->cluster_waiters.head && c->stalled + 1 < c->left) {
        c->stalled++;
        cta->stalled = 1;
        mt_warp_say_uneven(cta, 0);
        return NULL;
    }
    if (mt_barrier_force(cta) || mt_warp_force_collective(cta))
        return cta_pick(cta);
    mt_barrier_describe(cta, text, sizeof text);
    if (mt_check_all)
        mt_barrier_tell(cta);
    mt_fault_fail(MT_ERR_TIMEOUT, "deadlock: %s", text);
}

static void to_worker(struct mt_cta *cta, void **save, enum mt_status status)
{
    cta->worker->status = status;
    mt_fiber_switch(save, cta->worker->sched_sp, 0);
}

uint64_t mt_cta_block(struct mt_cta *cta, struct mt_fiber *self)
{
    struct mt_fiber *f = cta_pick(cta);
    cta->yields = 0;
    if (MT_UNLIKELY(!f) && !(f = cta_idle(cta))) {
        to_worker(cta, &self->sp, MT_CTA_STALLED);
        return self->result;
    }
    if (f == self)
        return self->result;
    cta_enter(cta, f);
    if (cta->ready.head) /* the one after it: its stack is seldom in the nearest cache */
        __builtin_prefetch(cta->ready.head->sp);
    return mt_fiber_switch(&self->sp, f->sp, f->result);
}

void mt_cta_cannot_wait(const char *what)
{
    mt_fault_fail(MT_ERR_LAUNCH, "%s in a kernel that was compiled as one without waits", what);
}

/* The running thread has ended. Returns when its stack was handed to the next thread (only if `reuse`). */
static void thread_exit(struct mt_cta *cta, int reuse)
{
    struct mt_fiber *self = cta->current, *f;
    struct mt_stack *stack = self->stack;
    void *dead;
    if (MT_UNLIKELY(atomic_load_explicit(&mt_stack_unguarded, memory_order_relaxed)) && stack->canary &&
        *stack->canary != MT_CANARY) {
        *stack->canary = MT_CANARY;
        mt_check_stack(cta->run);
        mt_fault_fail(MT_ERR_LAUNCH,
                      "stack overflow of a device thread (%zu bytes; MEMTRACE_CPU_STACK sets more)",
                      mt_stack_bytes());
    }
    cta->yields = 0;
    cta->alive--;
    if (!cta->run->warps)
        mt_warp_exited(cta, self);
    if (cta->active_barriers)
        mt_barrier_exited(cta);
    mt_cluster_exited(cta);
    f = NULL;
    if (!cta->ready.head && cta->unstarted < cta->nthreads && reuse) {
        self->stack = NULL;
        cta_enter(cta, cta_start(cta, stack));
        return;
    }
    if (cta->alive) { /* before the stack is given away: f must not be prepared on it */
        f = cta_pick(cta);
        if (!f)
            f = cta_idle(cta);
        if (f)
            cta_enter(cta, f);
    }
    self->stack = NULL;
    mt_stack_give(cta->worker, stack);
    if (!f)
        to_worker(cta, &dead, cta->alive ? MT_CTA_STALLED : MT_CTA_DONE);
    mt_fiber_switch(&dead, f->sp, f->result);
    __builtin_unreachable();
}

/* A kernel without waits goes on with the next CTA that the worker has claimed,
 * without leaving device code. */
static int next_in_loop(struct mt_cta *cta)
{
    struct mt_pool_launch *run = cta->run;
    struct mt_claim *c = &cta->worker->claim;
    struct mt_cpu_tls *t = &mt_cpu_tls;
    const struct mt_cta_rule *ctas = run->launch->ctas;
    const uint32_t *grid = run->launch->grid;
    uint32_t *at = cta->ctaid;
    if (c->next == c->end || c->run != run || atomic_load_explicit(&run->failed, memory_order_relaxed))
        return 0;
    uint64_t linear = c->next++;
    cta->worker->finished++; /* the one before */
    /* Not read back after they are stored: a load of two of them would wait until all that the kernel has
     * stored before is in the cache. */
    uint32_t x = at[0] + 1, y = at[1], z = at[2];
    if (x == grid[0]) {
        x = 0;
        if (++y == grid[1]) {
            y = 0;
            z++;
        }
    }
    t->ctaid[0] = at[0] = x;
    t->ctaid[1] = at[1] = y;
    t->ctaid[2] = at[2] = z;
    if (++cta->smid == t->nsmid)
        cta->smid = 0;
    if (MT_UNLIKELY(ctas != NULL)) {
        cta->quiet = !mt_cta_is_traced(ctas, linear, at);
        mt_worker_quiet(cta->worker, cta->quiet);
    }
    cta_place(cta);
    return 1;
}

__attribute__((used)) _Noreturn void mt_fiber_main(void)
{
    for (;;) {
        struct mt_cta *cta = mt_cta_current();
        struct mt_pool_launch *run = cta->run;
        if (run->loop) {
            do
                (cta->quiet ? run->quiet_loop : run->loop)(run->args);
            while (next_in_loop(cta));
            to_worker(cta, &cta->worker->loop_fiber.sp, MT_CTA_DONE);
        } else {
            (cta->quiet ? run->quiet_entry : run->entry)(run->args);
            thread_exit(cta, 1);
        }
    }
}

void mt_cpu_exit_thread(void)
{
    thread_exit(mt_cta_waiting("exit"), 0);
    __builtin_unreachable();
}

/* Goes to a device thread, and comes back when the CTA has nothing to run. */
static void cta_run(struct mt_cta *cta, void *sp, uint64_t result)
{
    struct mt_worker *w = cta->worker;
    int flush = cta->run->launch->kernel->flags & MT_KERNEL_FLUSH;
    unsigned before = MT_UNLIKELY(flush) ? _mm_getcsr() : 0;
    if (MT_UNLIKELY(flush))
        _mm_setcsr(before | MT_DENORMALS_ARE_ZERO);
    w->in_device = 1;
    mt_fiber_switch(&w->sched_sp, sp, result);
    w->in_device = 0;
    if (MT_UNLIKELY(flush))
        _mm_setcsr(before);
}

enum mt_status mt_cta_resume(struct mt_cta *cta)
{
    struct mt_worker *w = cta->worker;
    cta_bind(cta);
    /* start() may have to report that memory is exhausted, and there is no fiber yet to leave. */
    int warps = (int)cta->run->warps;
    if (!cta->ready.head && !w->stacks[warps].nfree) {
        struct mt_stack *s = mt_stack_take(w, warps);
        if (!s) {
            mt_fault_record(cta->run, MT_ERR_MEMORY, "no memory for the stacks of the device threads");
            return MT_CTA_FAILED;
        }
        mt_stack_give(w, s);
    }
    mt_warp_say_uneven(cta, 1);
    struct mt_fiber *f = cta_pick(cta);
    cta_enter(cta, f);
    cta_run(cta, f->sp, f->result);
    mt_cpu_tls.cta_state = NULL;
    return w->status;
}

enum mt_status mt_cta_loop(struct mt_cta *cta)
{
    struct mt_worker *w = cta->worker;
    cta_bind(cta);
    cta_enter(cta, &w->loop_fiber);
    cta_run(cta, w->loop_fiber.sp, 0);
    mt_cpu_tls.cta_state = NULL;
    if (w->status == MT_CTA_FAILED)
        w->loop_fiber.sp = mt_fiber_prepare(w->loop_fiber.stack);
    return w->status;
}

void mt_cta_abandon(struct mt_cta *cta)
{
    if (cta->run->loop)
        return;
    for (uint32_t i = 0; i < cta->unstarted; i++)
        if (cta->fiber[i].stack)
            mt_stack_give(cta->worker, cta->fiber[i].stack);
    cta->active_barriers = (1u << MT_BARRIERS) - 1;
}

void mt_cpu_warp_turn(void)
{
    struct mt_cta *cta = mt_cta_current();
    struct mt_fiber *self = cta->current, *f;
    if (MT_UNLIKELY(cta->run->loop != NULL))
        return;
    if (cta->unstarted < cta->nthreads)
        f = cta_start(cta, NULL);
    else if (cta->ready.head)
        f = cta_pick(cta);
    else
        return;
    mt_queue_append(&cta->ready, self);
    cta->nready++;
    cta_enter(cta, f);
    mt_fiber_switch(&self->sp, f->sp, f->result);
}

/* Where a device thread may be for long without waiting: lets other fibers of the CTA,
 * then other CTAs, go on. */
void mt_cpu_yield(void)
{
    struct mt_cta *cta = mt_cta_current();
    struct mt_fiber *self = cta->current, *f;
    if (MT_UNLIKELY(atomic_load_explicit(&cta->run->failed, memory_order_relaxed)))
        to_worker(cta, &self->sp, MT_CTA_FAILED);
    if (MT_UNLIKELY(atomic_load_explicit(&cta->run->bad, memory_order_relaxed)))
        mt_check_spins(cta->run);
    if (cta->run->loop) {
        sched_yield();
        return;
    }
    if (cta->nwarps)
        mt_warp_gives_way(cta);
    if (cta->unstarted < cta->nthreads) {
        f = cta_start(cta, NULL);
        cta->yields = 0;
    } else {
        if (++cta->yields % (cta->nready + 1) == 0) { /* everyone that can run has just yielded */
            int stuck = cta->parked && cta->yields > ROUNDS_BEFORE_RELEASE * (cta->nready + 1);
            if (stuck)
                cta->yields = 0;
            if (!stuck || !mt_warp_release_parked(cta)) {
                mt_queue_append(&cta->ready, self);
                cta->nready++;
                to_worker(cta, &self->sp, MT_CTA_SPINS);
                return;
            }
        }
        f = cta_pick(cta);
        if (!f) /* cannot be: the last one that can run gives way to the worker above */
            return;
    }
    mt_queue_append(&cta->ready, self);
    cta->nready++;
    cta_enter(cta, f);
    mt_fiber_switch(&self->sp, f->sp, f->result);
}

void mt_cpu_nanosleep(uint32_t ns)
{
    mt_cpu_yield();
}
