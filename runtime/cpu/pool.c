/* Worker threads and the launches they work on. A launch is queued by mt_cpu_run, which waits for its end;
 * workers claim CTAs in ascending order, in chunks for kernels without waits. A worker keeps several CTAs in
 * flight only when those it has do nothing but spin: then what they wait for may be a CTA that has not begun.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "image.h"
#include "local.h"
#include "scheduler.h"

#define CHUNK_MAX 64
#define STACKS_AT_ONCE 32
#define LOOP_STACK_MIN ((size_t)1 << 20)
#define RESIDENT_THREADS_MAX 65536 /* device threads in flight on one worker */
#define SPINS_BEFORE_MORE                                                                                    \
    32 /* times a plain launch's CTA may spin before the next CTA is begun beside it                         \
        */

_Thread_local struct mt_worker *mt_worker_self __attribute__((tls_model("initial-exec")));

static struct {
    pthread_mutex_t lock;
    pthread_cond_t work;
    struct mt_run *first; /* queue of launches with CTAs to claim, oldest first */
    struct mt_worker **workers;
    unsigned nworkers, active, sms, idle;
    uint64_t grids;
    int ready;
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER, .work = PTHREAD_COND_INITIALIZER};

static size_t buffer_bytes = (size_t)1 << 20, stack_bytes = (size_t)64 << 10;

/* ---- stacks and buffers
 * ------------------------------------------------------------------------------------------ */

size_t mt_stack_bytes(void)
{
    return stack_bytes;
}

static struct mt_stack *make_stack(char *low, size_t bytes, unsigned number)
{
    /* Neighbouring stacks lie a multiple of the page size apart; without an offset their tops would share a
     * few cache sets. */
    struct mt_stack *s = (struct mt_stack *)(low + bytes - 64 - (number * 5 % 61) * 64);
    s->top = s;
    s->canary = (uint64_t *)low;
    *s->canary = MT_CANARY;
    s->next = NULL;
    return s;
}

struct mt_stack *mt_worker_stack(struct mt_worker *w)
{
    struct mt_stack *s = w->free_stacks;
    if (!s) {
        size_t stride;
        char *p = mt_local_alloc(stack_bytes, STACKS_AT_ONCE, &stride);
        if (!p)
            return NULL;
        for (unsigned i = STACKS_AT_ONCE; i-- > 0;) {
            struct mt_stack *n = make_stack(p + i * stride, stack_bytes, i);
            n->next = w->free_stacks;
            w->free_stacks = n;
        }
        s = w->free_stacks;
    }
    w->free_stacks = s->next;
    return s;
}

/* Hands the buffer's records to the launch they belong to. */
void mt_worker_flush(struct mt_worker *w)
{
    struct mt_run *run = w->run;
    uint64_t words = (uint64_t)(mt_cpu_tls.cur - w->buffer);
    mt_cpu_tls.cur = w->buffer;
    if (!words || !run || !run->launch->flush)
        return;
    int in_device = w->in_device;
    w->in_device = 0;
    atomic_fetch_add_explicit(&run->records, words / 3, memory_order_relaxed);
    run->launch->flush(run->launch->flush_ctx, w->buffer, words / 3);
    w->in_device = in_device;
}

uint64_t *mt_cpu_trace_flush(void)
{
    mt_worker_flush(mt_worker_self);
    return mt_cpu_tls.cur;
}

void mt_cpu_untraced(const char *what)
{
    struct mt_cta *cta = mt_cta_current();
    if (cta)
        atomic_fetch_add_explicit(&cta->run->untraced, 1, memory_order_relaxed);
}

/* ---- claiming and reporting
 * -------------------------------------------------------------------------------------- */

static int claimable(const struct mt_run *run)
{
    return run->next < run->total && !atomic_load_explicit(&run->failed, memory_order_relaxed);
}

static void unlink_run(struct mt_run *run)
{
    for (struct mt_run **p = &pool.first; *p; p = &(*p)->link)
        if (*p == run) {
            *p = run->link;
            return;
        }
}

static void signal_if_done(struct mt_run *run)
{
    if (run->finished == run->claimed && !claimable(run))
        pthread_cond_signal(&run->done);
}

/* Flushes, and reports the finished CTAs of the run that the worker is at; it may be gone afterwards. */
static void settle(struct mt_worker *w)
{
    struct mt_run *run = w->run;
    if (!run)
        return;
    mt_worker_flush(w);
    w->run = NULL;
    pthread_mutex_lock(&pool.lock);
    run->finished += w->settled_pending;
    w->settled_pending = 0;
    signal_if_done(run);
    pthread_mutex_unlock(&pool.lock);
}

static void attach(struct mt_worker *w, struct mt_run *run)
{
    if (w->run != run) {
        settle(w);
        w->run = run;
    }
}

/* Takes the next CTA. The worker is attached to its run then. */
static int claim(struct mt_worker *w, struct mt_run **out, uint64_t *linear)
{
    if (w->claim_next < w->claim_end && atomic_load_explicit(&w->claim_run->failed, memory_order_relaxed)) {
        attach(w, w->claim_run);
        w->settled_pending += w->claim_end - w->claim_next; /* never begun */
        w->claim_next = w->claim_end;
    }
    if (w->claim_next == w->claim_end) {
        struct mt_run *run;
        pthread_mutex_lock(&pool.lock);
        run = w->run && claimable(w->run) ? w->run : pool.first;
        while (run && !claimable(run))
            run = run->link;
        if (run) {
            uint64_t left = run->total - run->next, n = left / (4 * pool.active);
            if (!run->loop || n < 1)
                n = 1;
            if (n > CHUNK_MAX)
                n = CHUNK_MAX;
            w->claim_run = run;
            w->claim_next = run->next;
            w->claim_end = run->next += n;
            run->claimed += n;
            if (run->next == run->total)
                unlink_run(run);
        }
        pthread_mutex_unlock(&pool.lock);
        if (!run)
            return 0;
    }
    *out = w->claim_run;
    *linear = w->claim_next++;
    attach(w, *out);
    return 1;
}

/* ---- running CTAs
 * ------------------------------------------------------------------------------------------------ */

static int run_loop(struct mt_worker *w, struct mt_run *run, uint64_t linear)
{
    struct mt_cta *cta = w->loop_cta;
    if (mt_cta_begin(cta, w, run, linear)) {
        mt_fault_record(run, MT_ERR_MEMORY, "no memory for the CTA's shared memory");
        return 0;
    }
    mt_cta_loop(cta);
    return 0;
}

/* Begins a CTA: kernels without waits run to their end here, others become resident. */
static void begin(struct mt_worker *w, struct mt_run *run, uint64_t linear)
{
    struct mt_cta *cta;
    if (run->loop) {
        run_loop(w, run, linear);
        w->settled_pending++;
        return;
    }
    cta = w->free_ctas;
    if (cta)
        w->free_ctas = cta->next;
    else
        cta = calloc(1, sizeof *cta);
    if (!cta || mt_cta_begin(cta, w, run, linear)) {
        mt_fault_record(run, MT_ERR_MEMORY, "no memory for a CTA");
        w->settled_pending++;
        if (cta) {
            cta->next = w->free_ctas;
            w->free_ctas = cta;
        }
        return;
    }
    if (w->resident) { /* runs next: before the one at the head of the ring */
        cta->next = w->resident->next;
        w->resident->next = cta;
        w->resident = cta;
    } else {
        cta->next = cta;
    }
    w->resident = cta;
    w->nresident++;
    w->resident_threads += run->nthreads;
}

static void remove_resident(struct mt_worker *w, struct mt_cta *cta)
{
    struct mt_cta *p = cta;
    while (p->next != cta)
        p = p->next;
    p->next = cta->next;
    w->resident = p == cta ? NULL : p->next;
    w->nresident--;
    w->resident_threads -= cta->run->nthreads;
    cta->next = w->free_ctas;
    w->free_ctas = cta;
}

/* Runs the resident CTA whose turn it is until it ends or spins. */
static void step(struct mt_worker *w)
{
    struct mt_cta *cta = w->resident;
    struct mt_run *run = cta->run, *next;
    enum mt_status status;
    uint64_t linear;
    attach(w, run);
    status = atomic_load_explicit(&run->failed, memory_order_relaxed) ? MT_CTA_FAILED : mt_cta_resume(cta);
    if (status == MT_CTA_FAILED)
        mt_cta_abandon(cta);
    if (status != MT_CTA_SPINS) {
        remove_resident(w, cta);
        w->settled_pending++;
        return;
    }
    cta->spins++;
    if ((run->cooperative || cta->spins > SPINS_BEFORE_MORE) &&
        w->resident_threads + MT_CTA_MAX <= RESIDENT_THREADS_MAX && claim(w, &next, &linear)) {
        begin(w, next, linear);
        return;
    }
    w->resident = cta->next;
    if (w->nresident == 1 || cta->spins % 64 == 0)
        sched_yield();
}

static void drain(struct mt_worker *w)
{
    struct mt_run *run;
    uint64_t linear;
    for (;;) {
        if (w->resident)
            step(w);
        else if (claim(w, &run, &linear))
            begin(w, run, linear);
        else
            break;
    }
    settle(w);
}

static int worker_memory(struct mt_worker *w)
{
    size_t bytes = stack_bytes > LOOP_STACK_MIN ? stack_bytes : LOOP_STACK_MIN, stride;
    char *p = mt_local_alloc(bytes, 1, &stride);
    uint64_t records = buffer_bytes / 24 ? buffer_bytes / 24 : 1;
    w->buffer_words = records * 3;
    w->buffer = aligned_alloc(64, (w->buffer_words * 8 + 63) & ~63ull);
    w->loop_cta = calloc(1, sizeof *w->loop_cta);
    w->fault_stack = malloc(4 * MT_FAULT_STACK);
    if (!p || !w->buffer || !w->loop_cta || !w->fault_stack)
        return ENOMEM;
    w->loop_fiber.stack = make_stack(p, bytes, 0);
    w->loop_fiber.sp = mt_fiber_prepare(w->loop_fiber.stack);
    return 0;
}

static void *worker_main(void *arg)
{
    struct mt_worker *w = arg;
    struct mt_cpu_tls *t = &mt_cpu_tls;
    mt_worker_self = w;
    t->local_base = mt_local_base();
    t->local_bytes = mt_local_bytes();
    t->cur = w->buffer;
    t->end = w->buffer + w->buffer_words;
    mt_fault_thread(w);
    pthread_mutex_lock(&pool.lock);
    for (;;) {
        struct mt_run *run = w->id < pool.active ? pool.first : NULL;
        while (run && !claimable(run))
            run = run->link;
        if (!run) {
            pool.idle++;
            pthread_cond_wait(&pool.work, &pool.lock);
            pool.idle--;
            continue;
        }
        t->nsmid = pool.sms;
        pthread_mutex_unlock(&pool.lock);
        drain(w);
        pthread_mutex_lock(&pool.lock);
    }
    return NULL;
}

/* ---- pool
 * -------------------------------------------------------------------------------------------------------- */

static void forked(void)
{
    /* The workers do not exist here, nor does anybody who waits for them; their memory may be used again. */
    pthread_mutex_init(&pool.lock, NULL);
    pthread_cond_init(&pool.work, NULL);
    pool.first = NULL;
    pool.nworkers = pool.idle = 0;
    pool.workers = NULL;
    mt_image_args_reset();
    mt_local_reset();
}

static unsigned online_cpus(void)
{
    cpu_set_t set;
    int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
    return n > 0 ? (unsigned)n : 1;
}

int mt_cpu_init(unsigned threads, unsigned sms)
{
    static int atfork;
    int rc = mt_local_init();
    if (rc)
        return rc;
    pthread_mutex_lock(&pool.lock);
    if (!atfork) {
        atfork = 1;
        pthread_atfork(NULL, NULL, forked);
        mt_fault_install();
    }
    pool.active = threads ? threads : online_cpus();
    pool.sms = sms ? sms : 1;
    pool.ready = 1;
    pthread_cond_broadcast(&pool.work);
    pthread_mutex_unlock(&pool.lock);
    return 0;
}

unsigned mt_cpu_threads(void)
{
    return pool.active;
}

void mt_cpu_set_buffer(size_t bytes)
{
    if (bytes >= 24)
        buffer_bytes = bytes;
}

void mt_cpu_set_stack(size_t bytes)
{
    if (bytes)
        stack_bytes = bytes < 16384 ? 16384 : (bytes + 4095) & ~(size_t)4095;
}

int mt_cpu_is_worker(void)
{
    return mt_worker_self != NULL;
}

/* Called with the lock: worker threads up to pool.active. 0, or an errno when there is not even one. */
static int spawn(void)
{
    sigset_t all, old;
    int rc = 0;
    if (pool.nworkers >= pool.active)
        return 0;
    struct mt_worker **grown = realloc(pool.workers, pool.active * sizeof *grown);
    if (!grown)
        return pool.nworkers ? 0 : ENOMEM;
    pool.workers = grown;
    sigfillset(&all); /* the program's signals stay with the program's threads */
    sigdelset(&all, SIGSEGV);
    sigdelset(&all, SIGBUS);
    sigdelset(&all, SIGFPE);
    sigdelset(&all, SIGILL);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    while (pool.nworkers < pool.active && !rc) {
        pthread_attr_t attr;
        struct mt_worker *w = calloc(1, sizeof *w);
        rc = w ? worker_memory(w) : ENOMEM;
        if (rc)
            break;
        w->id = pool.nworkers;
        pthread_attr_init(&attr);
        pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
        rc = pthread_create(&w->thread, &attr, worker_main, w);
        pthread_attr_destroy(&attr);
        if (!rc)
            pool.workers[pool.nworkers++] = w;
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return pool.nworkers ? 0 : rc;
}

/* ---- launches
 * ---------------------------------------------------------------------------------------------------- */

static int reject(struct mt_cpu_launch *l, int code, const char *why)
{
    snprintf(l->message, sizeof l->message, "kernel %s: %s", (const char *)l->kernel->pretty, why);
    return code;
}

static int check(struct mt_cpu_launch *l)
{
    uint64_t threads = (uint64_t)l->block[0] * l->block[1] * l->block[2];
    if (!pool.ready)
        return reject(l, MT_ERR_LAUNCH, "the CPU device is not initialised");
    if (mt_worker_self)
        return reject(l, MT_ERR_LAUNCH, "launched from device code");
    for (int i = 0; i < 3; i++)
        if (!l->grid[i] || !l->block[i] || l->block[i] > MT_CTA_MAX)
            return reject(l, MT_ERR_CONFIGURATION, "a dimension of the grid or block is 0 or too large");
    if (threads > MT_CTA_MAX)
        return reject(l, MT_ERR_CONFIGURATION, "more than 1024 threads in a block");
    if (!l->kernel->entry && !l->kernel->loop)
        return reject(l, MT_ERR_UNSUPPORTED, "the CPU image has no code for it");
    return 0;
}

int mt_cpu_run(struct mt_cpu_launch *l)
{
    struct mt_run run = {.launch = l, .entry = l->kernel->entry, .cooperative = l->cooperative};
    uint64_t static_shared = l->image->head->shared_size;
    int rc = check(l);
    l->records = l->untraced = 0;
    if (rc)
        return rc;
    l->message[0] = 0;
    run.nthreads = l->block[0] * l->block[1] * l->block[2];
    run.total = (uint64_t)l->grid[0] * l->grid[1] * l->grid[2];
    run.shared_bytes = static_shared + l->dyn_shared;
    mt_image_constant_hull(&run.const_base, &run.const_bytes);
    if (l->kernel->loop && !(l->kernel->flags & MT_KERNEL_SYNC) && (!l->cooperative || !l->kernel->entry))
        run.loop = l->kernel->loop;
    if (!run.loop && !run.entry)
        return reject(l, MT_ERR_UNSUPPORTED, "the CPU image has no code for it");
    run.args = mt_image_args_copy(l, &run.workspace);
    if (!run.args)
        return reject(l, MT_ERR_MEMORY, "no memory for its arguments");
    pthread_cond_init(&run.done, NULL);
    pthread_mutex_lock(&pool.lock);
    rc = spawn();
    if (!rc) {
        struct mt_run **tail = &pool.first;
        run.grid_id = ++pool.grids;
        while (*tail)
            tail = &(*tail)->link;
        *tail = &run;
        for (uint64_t i = 0; i < run.total && i < pool.idle; i++)
            pthread_cond_signal(&pool.work);
        if (pool.nworkers > pool.active) /* a sleeper that may not work must not swallow the signal */
            pthread_cond_broadcast(&pool.work);
        while (run.finished != run.claimed || claimable(&run))
            pthread_cond_wait(&run.done, &pool.lock);
        unlink_run(&run);
    }
    pthread_mutex_unlock(&pool.lock);
    pthread_cond_destroy(&run.done);
    mt_image_args_free(run.args);
    l->records = run.records;
    l->untraced = run.untraced;
    if (rc)
        return reject(l, MT_ERR_MEMORY, "no worker thread could be started");
    return run.failed;
}
