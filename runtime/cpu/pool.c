/* The pool of workers and the launches they work on. A launch is queued by mt_cpu_start; workers claim CTAs
 * in ascending order, in chunks for kernels without waits, and the one that reports the last CTA says that
 * the launch is done. */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/thread.h"
#include "check.h"
#include "image.h"
#include "local.h"
#include "scheduler.h"

#define CHUNK_MAX 64
#define LOOKS 32 /* of less than a microsecond each */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t work;
    struct mt_pool_launch *first; /* launches with CTAs to claim, by priority, then oldest first */
    _Atomic int queued;           /* there is a first: for looks without the lock */
    unsigned nworkers, active, sms, idle;
    uint64_t grids, progress;
    struct mt_worker *spare; /* made, but no thread could be had for it */
    int ready, installed;
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER, .work = PTHREAD_COND_INITIALIZER};

/* ---- for workers ---- */

static int pool_claimable(const struct mt_pool_launch *run)
{
    return run->next < run->total && !atomic_load_explicit(&run->failed, memory_order_relaxed);
}

static struct mt_pool_launch *first_claimable(void)
{
    struct mt_pool_launch *run = pool.first;
    while (run && !pool_claimable(run))
        run = run->link;
    return run;
}

static void unlink_run(struct mt_pool_launch *run)
{
    for (struct mt_pool_launch **p = &pool.first; *p; p = &(*p)->link)
        if (*p == run) {
            *p = run->link;
            break;
        }
    pool.queued = pool.first != NULL;
}

static int is_done(const struct mt_pool_launch *run)
{
    return run->finished == run->claimed && !pool_claimable(run);
}

/* Waking a thread takes longer than most small launches: a worker looks out for the next one for a moment,
 * and lets other threads run meanwhile. */
static void look_out(void)
{
    for (int i = 0; i < LOOKS && !atomic_load_explicit(&pool.queued, memory_order_relaxed); i++) {
        for (int k = 0; k < 32; k++)
            __builtin_ia32_pause();
        sched_yield();
    }
}

unsigned mt_pool_wait(const struct mt_worker *w)
{
    unsigned sms;
    if (w->id < pool.active)
        look_out();
    pthread_mutex_lock(&pool.lock);
    while (w->id >= pool.active || !first_claimable()) {
        pool.idle++;
        pthread_cond_wait(&pool.work, &pool.lock);
        pool.idle--;
    }
    sms = pool.sms;
    pthread_mutex_unlock(&pool.lock);
    return sms;
}

/* Called with the lock. */
static void claim_of(struct mt_pool_launch *run, struct mt_claim *claim)
{
    uint64_t n = (run->total - run->next) / (4 * pool.active);
    if (!run->loop || n < 1)
        n = 1;
    if (n > CHUNK_MAX)
        n = CHUNK_MAX;
    claim->run = run;
    claim->next = run->next;
    claim->end = run->next += n;
    run->claimed += n;
    if (run->next == run->total)
        unlink_run(run);
}

int mt_pool_claim(struct mt_pool_launch *preferred, struct mt_claim *claim)
{
    struct mt_pool_launch *run;
    pthread_mutex_lock(&pool.lock);
    run = first_claimable();
    if (preferred && run && preferred->launch->priority <= run->launch->priority && pool_claimable(preferred))
        run = preferred;
    if (run)
        claim_of(run, claim);
    pthread_mutex_unlock(&pool.lock);
    return run != NULL;
}

int mt_pool_claim_other(const struct mt_pool_launch *not_this, struct mt_claim *claim)
{
    struct mt_pool_launch *run;
    pthread_mutex_lock(&pool.lock);
    for (run = pool.first; run && (run == not_this || !pool_claimable(run));)
        run = run->link;
    if (run)
        claim_of(run, claim);
    pthread_mutex_unlock(&pool.lock);
    return run != NULL;
}

/* Its last CTA has ended: nobody but the caller knows the run any more. */
static void say_done(struct mt_pool_launch *run)
{
    struct mt_cpu_launch *l = run->launch;
    int status = mt_check_result(run);
    mt_image_args_free(run->args);
    l->records = run->records;
    l->untraced = run->untraced;
    l->undefined = run->undefined;
    l->parted = run->parted + (l->records && l->kernel->flags & MT_KERNEL_PARTED);
    for (unsigned i = 0; i < MT_COUNTS; i++) {
        l->counts[i] = run->counts[i];
        l->recorded[i] = run->recorded[i];
    }
    free(run);
    l->done(l->done_ctx, status);
}

void mt_pool_report(struct mt_pool_launch *run, uint64_t finished)
{
    pthread_mutex_lock(&pool.lock);
    pool.progress += finished;
    run->finished += finished;
    int over = !run->over && is_done(run);
    if (over) {
        run->over = 1;
        unlink_run(run);
    }
    pthread_mutex_unlock(&pool.lock);
    if (over)
        say_done(run);
}

uint64_t mt_cpu_progress(void)
{
    pthread_mutex_lock(&pool.lock);
    uint64_t n = pool.progress;
    pthread_mutex_unlock(&pool.lock);
    return n;
}

/* ---- workers ---- */

static void pool_forked(void)
{
    /* The workers do not exist here, nor does anybody who waits for them; their memory may be used again. */
    pthread_mutex_init(&pool.lock, NULL);
    pthread_cond_init(&pool.work, NULL);
    pool.first = NULL;
    pool.queued = 0;
    pool.nworkers = pool.idle = 0;
    pool.spare = NULL; /* its stack is in the memory that is used again */
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
    int rc = mt_local_init();
    if (rc)
        return rc;
    pthread_mutex_lock(&pool.lock);
    if (!pool.installed) {
        pool.installed = 1;
        pthread_atfork(NULL, NULL, pool_forked);
        mt_fault_install();
    }
    pool.active = threads ? threads : online_cpus();
    pool.sms = sms ? sms : 1;
    pool.ready = 1;
    pthread_cond_broadcast(&pool.work);
    pthread_mutex_unlock(&pool.lock);
    return 0;
}

unsigned mt_cpu_workers(void)
{
    return pool.active;
}

static int start_worker(void)
{
    struct mt_worker *w = pool.spare ? pool.spare : mt_worker_new();
    if (!w)
        return ENOMEM;
    pool.spare = w; /* until there is a thread for it: the next launch tries again */
    w->id = pool.nworkers;
    int rc = mt_base_thread_start(NULL, 1, mt_worker_main, w);
    if (rc)
        return rc;
    pool.nworkers++;
    pool.spare = NULL;
    return 0;
}

/* Called with the lock: worker threads up to pool.active. 0, or an errno when there is not even one. */
static int start_workers(void)
{
    int rc = 0;
    if (pool.nworkers >= pool.active)
        return 0;
    while (pool.nworkers < pool.active && !rc)
        rc = start_worker();
    return pool.nworkers ? 0 : rc;
}

/* ---- launches ---- */

static int pool_reject(struct mt_cpu_launch *l, int code, const char *why)
{
    snprintf(l->message, sizeof l->message, "%s", why);
    return code;
}

static int pool_check(struct mt_cpu_launch *l)
{
    uint64_t threads = (uint64_t)l->block[0] * l->block[1] * l->block[2];
    if (!pool.ready)
        return pool_reject(l, MT_ERR_LAUNCH, "the CPU device is not initialised");
    if (mt_worker_self && mt_worker_self->in_device)
        return pool_reject(l, MT_ERR_LAUNCH, "launched from device code");
    for (int i = 0; i < 3; i++)
        if (!l->grid[i] || !l->block[i] || l->block[i] > MT_CTA_MAX)
            return pool_reject(l, MT_ERR_CONFIGURATION, "a dimension of the grid or block is 0 or too large");
    if (threads > MT_CTA_MAX)
        return pool_reject(l, MT_ERR_CONFIGURATION, "more than 1024 threads in a block");
    uint64_t ctas = (uint64_t)l->cluster[0] * l->cluster[1] * l->cluster[2];
    if (l->cluster[0] && (!ctas || ctas > MT_CLUSTER_MAX || l->grid[0] % l->cluster[0] ||
                          l->grid[1] % l->cluster[1] || l->grid[2] % l->cluster[2]))
        return pool_reject(l, MT_ERR_CONFIGURATION, "the grid cannot be divided into such clusters");
    return 0;
}

/* Called with the lock. */
static void pool_queue(struct mt_pool_launch *run)
{
    struct mt_pool_launch **tail = &pool.first;
    run->grid_id = ++pool.grids;
    while (*tail && (*tail)->launch->priority <= run->launch->priority)
        tail = &(*tail)->link;
    run->link = *tail;
    *tail = run;
    pool.queued = 1;
    if (pool.nworkers > pool.active) /* a sleeper that may not work must not swallow the signal */
        pthread_cond_broadcast(&pool.work);
    else
        for (uint64_t i = 0; i < run->total && i < pool.idle; i++)
            pthread_cond_signal(&pool.work);
}

/* Which version for whole warps fits the CTA's shape, or NULL. */
static void (*pool_vector(const uint32_t *block, const void *rows, const void *tiles,
                          const void *any))(void **)
{
    const void *code = NULL;
    if (block[0] % MT_WARP == 0)
        code = rows;
    else if (block[0] % (MT_WARP / 2) == 0 && (uint64_t)block[0] * block[1] * block[2] % MT_WARP == 0)
        code = tiles;
    return (void (*)(void **))(uintptr_t)(code ? code : any);
}

static int pool_is_traced(const struct mt_cpu_launch *l)
{
    return l->flush || l->flush_runs;
}

/* Warps as vectors. 0: not this launch. */
static int pool_choose_vector(struct mt_pool_launch *run)
{
    const struct mt_cpu_launch *l = run->launch;
    const struct mt_image_kernel *k = l->kernel;
    void (*record)(void **) = pool_vector(l->block, k->record_rows, k->record_tiles, k->record_any);
    void (*plain)(void **) = pool_vector(l->block, k->vector_rows, k->vector_tiles, k->record_any);
    void (*quiet)(void **) = mt_check_on ? record : plain,
                       (*code)(void **) = pool_is_traced(l) ? record : quiet;
    int waits = (k->flags & MT_KERNEL_WARPS) != 0;
    if (!code || !quiet)
        return 0;
    /* CTAs of a cluster are begun side by side; a bad access ends a warp. */
    run->warps = waits || l->cluster[0] || mt_check_on;
    run->loop = run->warps ? NULL : code;
    run->quiet_loop = run->warps ? NULL : quiet;
    run->entry = code;
    run->quiet_entry = quiet;
    run->nthreads = run->warps ? (run->nthreads + MT_WARP - 1) / MT_WARP : run->nthreads;
    return 1;
}

/* Which code runs: whole warps where there is such code for the CTA's shape, else a fiber for each thread;
 * without record calls when nobody wants to know. */
static void choose_code(struct mt_pool_launch *run)
{
    const struct mt_image_kernel *k = run->launch->kernel;
    if (pool_choose_vector(run))
        return;
    int plain = k->plain_entry && !mt_check_on;
    run->entry = plain && !pool_is_traced(run->launch) ? k->plain_entry : k->entry;
    run->quiet_entry = plain ? k->plain_entry : run->entry;
}

/* Fills the run of a launch. 0, or why it cannot run. */
static int pool_prepare(struct mt_pool_launch *run, struct mt_cpu_launch *l)
{
    run->launch = l;
    run->cooperative = l->cooperative;
    run->ordered = l->cooperative && pool.active > 1;
    run->nthreads = l->block[0] * l->block[1] * l->block[2];
    run->total = (uint64_t)l->grid[0] * l->grid[1] * l->grid[2];
    if (l->cluster[0])
        run->total /= (uint64_t)l->cluster[0] * l->cluster[1] * l->cluster[2];
    run->shared_bytes = ((l->image->shared_size + l->dyn_shared + 15) & ~15ull) + MT_SHARED_RESERVED;
    mt_image_constant_hull(&run->const_base, &run->const_bytes);
    choose_code(run); /* after nthreads */
    if (!run->loop && !run->entry)
        return pool_reject(l, MT_ERR_UNSUPPORTED, "the CPU image has no code for it");
    run->args = mt_image_args_copy(l, &run->workspace);
    return run->args ? 0 : pool_reject(l, MT_ERR_MEMORY, "no memory for its arguments");
}

int mt_cpu_start(struct mt_cpu_launch *l)
{
    int rc = pool_check(l);
    l->records = l->untraced = l->undefined = l->parted = 0;
    memset(l->counts, 0, sizeof l->counts);
    memset(l->recorded, 0, sizeof l->recorded);
    if (rc)
        return rc;
    l->message[0] = 0;
    mt_fault_take_back();
    struct mt_pool_launch *run = calloc(1, sizeof *run);
    if (!run)
        return pool_reject(l, MT_ERR_MEMORY, "no memory for a launch");
    rc = pool_prepare(run, l);
    if (rc)
        goto fail;
    pthread_mutex_lock(&pool.lock);
    rc = start_workers();
    if (!rc)
        pool_queue(run);
    pthread_mutex_unlock(&pool.lock);
    if (!rc)
        return 0;
    mt_image_args_free(run->args);
    rc = pool_reject(l, MT_ERR_MEMORY, "no worker thread could be started");
fail:
    free(run);
    return rc;
}
