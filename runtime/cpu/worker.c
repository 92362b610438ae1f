/* A worker thread: claims CTAs, runs them, hands on their records. It keeps several CTAs in flight only if
 * those it has just spin: they may wait for a CTA that has not begun. */
#define _GNU_SOURCE
#include "trace/last.h"
#include "check.h"
#include "image.h"
#include "local.h"
#include "memtrace/record.h"
#include "scheduler.h"
#include "base/thread.h"
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Reports that `finished` CTAs of a run have ended with their records flushed; the run may be freed
 * afterwards. */
static void pool_report(struct mt_pool_launch *run, uint64_t finished);
/* Claims the next CTAs of a launch other than `run`. */
static int pool_claim_other(const struct mt_pool_launch *run, struct mt_claim *claim);
/* Claims the next CTAs, from `preferred` if it has any. Returns 0 if there are none. */
static int pool_claim(struct mt_pool_launch *preferred, struct mt_claim *claim);
/* Waits until there is something to claim. Returns the number of SMs. */
static unsigned pool_wait(const struct mt_worker *w);

#define RESIDENT_THREADS_MAX 65536 /* device threads in flight on one worker, unless cooperative */
#define OTHERS_THREADS_MAX (2 * RESIDENT_THREADS_MAX) /* the same with CTAs of other launches */
#define SPINS_BEFORE_STUCK 1024                       /* spins of a CTA before its wait is examined */
#define SPINS_BEFORE_MORE 32 /* spins of a plain launch's CTA before the next CTA begins */

_Thread_local struct mt_worker *mt_worker_self __attribute__((tls_model("initial-exec")));

static size_t buffer_bytes = (size_t)1 << 20;
static int compact;

void mt_cpu_set_buffer(size_t bytes)
{
    if (bytes >= 24)
        buffer_bytes = bytes;
}

void mt_cpu_set_compact(void)
{
    compact = 1;
}

/* ---- records: a worker's buffer of runs, handed on unchanged to compact traces, lane by lane to raw ones
 * ---- */

#define RUNS 512u /* maximum handed on at a time */

struct mt_access_runs {
    _Alignas(64) struct mt_access_run run[RUNS]; /* each in one cache line */
    uint64_t address[RUNS * MT_WARP];            /* addresses of runs that are not evenly spaced */
};

/* Empties the buffer. */
static void runs_open(struct mt_worker *w)
{
    struct mt_cpu_tls *t = &mt_cpu_tls;
    t->run = w->runs->run;
    t->run_end = mt_check_on ? t->run : t->run + RUNS; /* no room: each access is checked */
    t->run_address = w->runs->address;
}

/* Sums up the accesses of a launch whose program counts them, too. */
static void runs_tally(struct mt_pool_launch *run, const struct mt_access_run *r, size_t n)
{
    uint64_t sum[MT_COUNTS] = {0};
    for (size_t i = 0; i < n; i++) {
        uint32_t type = r[i].meta >> 28;
        if (type < MT_COUNTS / 2) {
            sum[2 * type] += r[i].count;
            sum[2 * type + 1] += (uint64_t)r[i].count * (r[i].meta & MT_RAW_MAX_SIZE);
        }
    }
    for (unsigned i = 0; i < MT_COUNTS; i++)
        atomic_fetch_add_explicit(&run->recorded[i], sum[i], memory_order_relaxed);
}

/* Hands on the contents of the other buffer. */
static void runs_flush_raw(struct mt_worker *w)
{
    if (w->raw)
        w->run->launch->flush(w->run->launch->flush_ctx, w->buffer, w->raw);
    w->raw = 0;
}

/* Expands runs to raw records in the worker's other buffer, which is handed on when full. */
static void runs_expand(struct mt_worker *w, const struct mt_access_run *r, size_t n)
{
    for (size_t k = 0; k < n; k++) {
        uint64_t what = (uint64_t)r[k].smid << 32 | r[k].meta, address = r[k].base, room[MT_RUN_ROWS];
        const struct mt_access_run lanes = mt_run_without_rows(&r[k], room);
        for (uint32_t i = 0; i < lanes.count; i++, address += (uint64_t)lanes.stride) {
            if (w->raw == w->raw_room)
                runs_flush_raw(w);
            uint64_t *at = &w->buffer[3 * w->raw++];
            at[0] = what;
            at[1] = lanes.addresses ? lanes.addresses[i] : address;
            at[2] = lanes.cta;
        }
    }
}

/* Completes the sites of the runs. Returns their number of accesses; *meta: bits common to all. */
static uint64_t runs_finish(struct mt_access_run *r, size_t n, uint32_t site_base, uint32_t *meta)
{
    uint64_t accesses = 0;
    uint32_t any = 0;
    for (size_t i = 0; i < n; i++) {
        accesses += r[i].count;
        any |= r[i].meta;
    }
    for (size_t i = 0; site_base && i < n; i++)
        r[i].site += site_base;
    *meta = any;
    return accesses;
}

/* Removes accesses that raw traces do not have. Returns the number left. */
static size_t runs_global(struct mt_access_run *r, size_t n, uint64_t *accesses)
{
    size_t kept = 0;
    *accesses = 0;
    for (size_t i = 0; i < n; i++)
        if (!mt_rec_space(r[i].meta >> 28)) {
            *accesses += r[i].count;
            r[kept++] = r[i];
        }
    return kept;
}

/* last: no more records of the worker's run will come. */
static void runs_flush_here(void *worker, int last)
{
    struct mt_worker *w = worker;
    struct mt_pool_launch *run = w->run;
    struct mt_access_run *r = w->runs->run;
    size_t n = (size_t)(mt_cpu_tls.run - r);
    uint64_t accesses = 0;
    if (run && (w->quiet || !(run->launch->flush_runs || run->launch->flush)))
        n = 0; /* from code that still has record calls */
    if (n && run) {
        const struct mt_image *image = run->launch->image;
        uint32_t base = image->head->site_base ? 0 : image->site_base; /* otherwise the image has added it */
        uint32_t meta;
        accesses = runs_finish(r, n, base, &meta);
        if (mt_rec_space(meta >> 28) && !run->launch->flush_runs)
            n = runs_global(r, n, &accesses);
        atomic_fetch_add_explicit(&run->records, accesses, memory_order_relaxed);
        if (MT_UNLIKELY(run->launch->kernel->flags & MT_KERNEL_COUNTED))
            runs_tally(run, r, n);
        if (run->launch->flush_runs)
            run->launch->flush_runs(run->launch->flush_ctx, r, n, accesses);
        else
            runs_expand(w, r, n);
    }
    if (last)
        runs_flush_raw(w);
    runs_open(w);
}

/* Calls f on the worker's own stack: a device thread may have used up nearly all of its own, and an
 * overflow under locks of the trace could not become a failed launch. */
static void worker_call(struct mt_worker *w, void (*f)(void *worker, int last), int last)
{
    int in_device = w->in_device;
    w->in_device = 0; /* a fault inside is not the kernel's */
    if (in_device)
        mt_fiber_call(w->sched_sp, f, w, last);
    else
        f(w, last);
    w->in_device = in_device;
}

static void hand_on_all(void *worker, int last)
{
    const struct mt_cpu_launch *l = ((struct mt_worker *)worker)->run->launch;
    runs_flush_here(worker, last);
    l->fence(l->flush_ctx);
}

void mt_worker_hand_on(struct mt_worker *w)
{
    if (w->run->launch->fence && !w->quiet) /* quiet: all records that are kept have been handed on */
        worker_call(w, hand_on_all, 1);
}

struct mt_run_room mt_cpu_run_room(uint64_t base, int64_t stride, const uint64_t *lane, uint32_t mask,
                                   uint32_t meta, uint32_t site)
{
    uint32_t bad = 0;
    struct mt_cpu_tls *t = &mt_cpu_tls;
    const struct mt_access_runs *runs = mt_worker_self->runs;
    if (MT_UNLIKELY(mt_check_on)) {
        uint64_t list[MT_WARP];
        for (uint32_t i = 0; i < MT_WARP; i++)
            list[i] = lane ? lane[i] : base + i * (uint64_t)stride;
        if (!mt_rec_space(meta >> 28)) /* only global memory is checked */
            bad = mt_check_warp(list, mask, meta, site, __builtin_return_address(0));
    }
    if (t->run == runs->run + RUNS)
        worker_call(mt_worker_self, runs_flush_here, 0);
    if (mt_check_on)
        t->run_end = t->run + 1; /* room for this access */
    return (struct mt_run_room){t->run, bad};
}

void mt_cpu_run_bad(void)
{
    mt_check_end();
}

uint64_t mt_cpu_run_nowhere(uint32_t meta)
{
    struct mt_worker *w = mt_worker_self;
    if ((meta & MT_RAW_MAX_SIZE) > sizeof w->nowhere)
        mt_check_end();
    memset(w->nowhere, 0, sizeof w->nowhere);
    return (uint64_t)(uintptr_t)w->nowhere;
}

/* Collects the program's counts since the worker joined this run. */
static void take_counts(struct mt_pool_launch *run)
{
    uint64_t *counts = mt_cpu_tls.counts;
    for (unsigned i = 0; i < MT_COUNTS; i++)
        if (counts[i])
            atomic_fetch_add_explicit(&run->counts[i], counts[i], memory_order_relaxed);
    memset(counts, 0, MT_COUNTS * sizeof *counts);
}

void mt_worker_quiet(struct mt_worker *w, int quiet)
{
    struct mt_cpu_tls *t = &mt_cpu_tls;
    if (MT_LIKELY(w->quiet == quiet))
        return;
    worker_call(w, runs_flush_here, 0);
    w->quiet = quiet;
    if (quiet) {
        w->kept.untraced = t->untraced;
        memcpy(w->kept.counts, t->counts, sizeof t->counts);
    } else {
        t->untraced = w->kept.untraced;
        memcpy(t->counts, w->kept.counts, sizeof t->counts);
    }
}

/* ---- claiming and reporting ---- */

/* Flushes, and reports the finished CTAs of the worker's run. */
static void worker_report(struct mt_worker *w)
{
    struct mt_pool_launch *run = w->run;
    uint64_t finished = w->finished;
    mt_worker_quiet(w, 0);
    if (!run)
        return;
    worker_call(w, runs_flush_here, 1);
    if (mt_cpu_tls.untraced)
        atomic_fetch_add_explicit(&run->untraced, mt_cpu_tls.untraced, memory_order_relaxed);
    mt_cpu_tls.untraced = 0;
    if (MT_UNLIKELY(run->launch->kernel->flags & MT_KERNEL_COUNTED))
        take_counts(run);
    w->run = NULL;
    w->finished = 0;
    pool_report(run, finished);
}

static void worker_attach(struct mt_worker *w, struct mt_pool_launch *run)
{
    if (w->run != run) {
        worker_report(w);
        w->run = run;
    }
}

static int has_failed(struct mt_pool_launch *run)
{
    return atomic_load_explicit(&run->failed, memory_order_relaxed) != 0;
}

/* Returns 1 if CTAs are claimed but not begun; those of a failed run never begin. */
static int has_claim(struct mt_worker *w)
{
    struct mt_claim *c = &w->claim;
    if (c->next < c->end && has_failed(c->run)) {
        worker_attach(w, c->run);
        w->finished += c->end - c->next;
        c->next = c->end;
    }
    return c->next < c->end;
}

/* Takes the next claimed CTA and attaches the worker to its run. */
static void take_claim(struct mt_worker *w, struct mt_pool_launch **run, uint64_t *linear)
{
    *run = w->claim.run;
    *linear = w->claim.next++;
    worker_attach(w, *run);
}

/* Takes the next CTA. Returns 0 if there is none. */
static int worker_claim(struct mt_worker *w, struct mt_pool_launch **run, uint64_t *linear)
{
    if (!has_claim(w) && !pool_claim(w->run, &w->claim))
        return 0;
    take_claim(w, run, linear);
    return 1;
}

/* Takes another CTA while one of `spins` only spins: its wait may be for another launch, or for its own. A
 * launch whose CTAs all spin must not keep the others out. */
static int claim_beside(struct mt_worker *w, const struct mt_cta *spins, struct mt_pool_launch **run,
                        uint64_t *linear)
{
    const struct mt_pool_launch *own = spins->run;
    int room = own->cooperative || w->resident_threads + MT_CTA_MAX <= RESIDENT_THREADS_MAX;
    int others = w->resident_threads + MT_CTA_MAX <= OTHERS_THREADS_MAX || own->cooperative;
    if (!has_claim(w) && !(others && pool_claim_other(own, &w->claim)) &&
        !(room && pool_claim(w->run, &w->claim)))
        return 0;
    take_claim(w, run, linear);
    return 1;
}

/* ---- running CTAs ---- */

static struct mt_cta *take_cta(struct mt_worker *w)
{
    struct mt_cta *cta = w->free_ctas;
    if (cta)
        w->free_ctas = cta->next;
    else
        cta = calloc(1, sizeof *cta);
    return cta;
}

static void give_cta(struct mt_worker *w, struct mt_cta *cta)
{
    cta->next = w->free_ctas;
    w->free_ctas = cta;
}

static void add_resident(struct mt_worker *w, struct mt_cta *cta)
{
    if (w->resident) {
        cta->next = w->resident->next;
        w->resident->next = cta;
    } else {
        cta->next = cta;
    }
    w->resident = cta; /* it runs next */
    w->nresident++;
    w->resident_threads += cta->run->nthreads;
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
    give_cta(w, cta);
}

static void no_memory(struct mt_pool_launch *run)
{
    mt_fault_record(run, MT_ERR_MEMORY, "no memory for a CTA and its shared memory");
}

/* Begins a CTA: kernels without waits run to the end here, others become resident. */
static void begin_cta(struct mt_worker *w, struct mt_pool_launch *run, uint64_t linear)
{
    struct mt_cta *cta = run->loop ? w->loop_cta : take_cta(w);
    int rc = cta ? mt_cta_begin(cta, w, run, linear, NULL, 0) : MT_ERR_MEMORY;
    if (rc)
        no_memory(run);
    else if (run->loop)
        mt_cta_loop(cta);
    else
        add_resident(w, cta);
    if (rc || run->loop)
        w->finished++;
    if (rc && cta && !run->loop)
        give_cta(w, cta);
}

/* Begins all CTAs of a cluster, which may wait for one another. */
static void begin_cluster(struct mt_worker *w, struct mt_pool_launch *run, uint64_t number)
{
    const uint32_t *size = run->launch->cluster, *grid = run->launch->grid;
    uint64_t across = grid[0] / size[0], up = grid[1] / size[1];
    uint64_t x = number % across * size[0], y = number / across % up * size[1],
             z = number / across / up * size[2];
    struct mt_cta *cta[MT_CLUSTER_MAX];
    uint32_t n = size[0] * size[1] * size[2], made = 0;
    while (made < n && (cta[made] = take_cta(w)))
        made++;
    struct mt_cluster *cluster = made == n ? mt_cluster_take(w, run) : NULL;
    for (uint32_t r = 0; r < made; r++) {
        if (!cluster) {
            give_cta(w, cta[r]);
            continue;
        }
        uint64_t linear =
            x + r % size[0] + grid[0] * (y + r / size[0] % size[1] + grid[1] * (z + r / size[0] / size[1]));
        mt_cta_begin(cta[r], w, run, linear, cluster, r);
        add_resident(w, cta[r]);
    }
    if (!cluster) {
        no_memory(run);
        w->finished++;
    }
}

static void worker_begin(struct mt_worker *w, struct mt_pool_launch *run, uint64_t number)
{
    if (run->launch->cluster[0])
        begin_cluster(w, run, number);
    else
        begin_cta(w, run, number);
}

static void worker_deadlock(struct mt_cta *cta)
{
    const struct mt_fiber *first = cta->cluster_waiters.head;
    uint32_t number = first ? (uint32_t)(first - cta->fiber) * (cta->run->warps ? MT_WARP : 1) : 0;
    mt_check_tell(cta, number, MT_FINDING_OF_BARRIER, NULL,
                  "waits at its cluster's barrier, to which others never come");
    cta->run->told |= mt_check_all;
    mt_fault_record(cta->run, MT_ERR_TIMEOUT,
                    "deadlock: threads wait at a cluster's barrier, others never come");
}

/* Returns 1 if all CTAs that have not ended are at the grid's barrier, which the others can never reach.
 * Its word counts arrivals, the first CTA as half of its range less the others. */
static int worker_grid_is_stuck(const struct mt_cta *cta)
{
    struct mt_pool_launch *run = cta->run;
    const uint32_t *grid = run->launch->grid;
    uint32_t ctas = grid[0] * grid[1] * grid[2], gone = run->gone;
    if (!gone || cta->spins % SPINS_BEFORE_STUCK)
        return 0;
    uint32_t came = __atomic_load_n((uint32_t *)run->workspace + MT_GRID_BARRIER, __ATOMIC_ACQUIRE) << 1 >> 1;
    came = came < 1u << 30 ? came : came - (1u << 31) + ctas;
    return came && came == ctas - gone;
}

static void worker_grid_deadlock(const struct mt_cta *cta)
{
    struct mt_pool_launch *run = cta->run;
    mt_check_tell(cta, 0, MT_FINDING_OF_BARRIER, NULL,
                  "waits at its grid's barrier, and %u CTAs have ended without it", run->gone);
    run->told |= mt_check_all;
    mt_fault_record(run, MT_ERR_TIMEOUT,
                    "deadlock: CTAs wait at the grid's barrier, others have ended without it");
}

/* Runs the next resident CTA until it ends or spins. */
static void worker_step(struct mt_worker *w)
{
    struct mt_cta *cta = w->resident;
    struct mt_pool_launch *run = cta->run, *next;
    enum mt_status status;
    uint64_t linear;
    worker_attach(w, run);
    status = has_failed(run) ? MT_CTA_FAILED : cta->stalled ? MT_CTA_STALLED : mt_cta_resume(cta);
    if (status == MT_CTA_FAILED)
        mt_cta_abandon(cta);
    if (status == MT_CTA_FAILED || status == MT_CTA_DONE) {
        int last = mt_cluster_left(cta);
        run->gone++;
        remove_resident(w, cta);
        w->finished += (uint64_t)last;
        return;
    }
    if (status == MT_CTA_STALLED) {
        if (cta->cluster->stalled == cta->cluster->left)
            worker_deadlock(cta);
        w->resident = cta->next;
        return;
    }
    cta->spins++;
    if ((run->cooperative || cta->spins > SPINS_BEFORE_MORE) && claim_beside(w, cta, &next, &linear)) {
        worker_begin(w, next, linear);
        return;
    }
    if (run->cooperative && worker_grid_is_stuck(cta))
        worker_grid_deadlock(cta);
    w->resident = cta->next;
    if (w->nresident == 1 || cta->spins % 64 == 0)
        sched_yield();
}

static void worker_drain(struct mt_worker *w)
{
    struct mt_pool_launch *run;
    uint64_t linear;
    for (;;) {
        if (w->resident)
            worker_step(w);
        else if (worker_claim(w, &run, &linear))
            worker_begin(w, run, linear);
        else
            break;
    }
    worker_report(w);
}

/* ---- the thread ---- */

static struct mt_worker *worker_new(void)
{
    struct mt_worker *w = calloc(1, sizeof *w);
    if (!w)
        return NULL;
    w->raw_room = buffer_bytes / 24;
    w->buffer = compact ? NULL : malloc(w->raw_room * 24);
    w->loop_cta = calloc(1, sizeof *w->loop_cta);
    w->fault_stack = malloc(4 * MT_FAULT_STACK);
    w->runs = aligned_alloc(_Alignof(struct mt_access_runs), sizeof *w->runs); /* mostly never touched */
    int all = (w->buffer || compact) && w->loop_cta && w->fault_stack && w->runs;
    w->loop_fiber.stack = all ? mt_stack_for_loops() : NULL; /* last: it cannot be freed */
    if (w->loop_fiber.stack) {
        w->loop_fiber.sp = mt_fiber_prepare(w->loop_fiber.stack);
        return w;
    }
    free(w->runs);
    free(w->fault_stack);
    free(w->loop_cta);
    free(w->buffer);
    free(w);
    return NULL;
}

static void *worker_main(void *worker)
{
    struct mt_worker *w = worker;
    struct mt_cpu_tls *t = &mt_cpu_tls;
    mt_worker_self = w;
    mt_last_ours();
    t->local_base = mt_local_base();
    t->local_bytes = mt_local_bytes();
    runs_open(w);
    t->compact = (uint32_t)compact;
    mt_fault_thread(w);
    for (;;) {
        t->nsmid = pool_wait(w);
        worker_drain(w);
    }
    return NULL;
}

/* The pool of workers and their launches. mt_cpu_start queues a launch; workers claim CTAs in ascending
 * order, in chunks for kernels without waits; the worker that reports the last CTA ends the launch. */

#define CHUNK_MAX 64
#define LOOKS 32 /* looks for work, of less than a microsecond each */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t work;
    struct mt_pool_launch *first; /* launches with CTAs to claim, by priority, then by age */
    _Atomic int queued;           /* 1: `first` is set, for tests without the lock */
    unsigned nworkers, active, sms, idle;
    uint64_t grids, progress;
    struct mt_worker *spare; /* a worker for which there was no thread */
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

/* Waits a moment for the next launch and lets other threads run: waking a thread takes longer than most
 * small launches. */
static void look_out(void)
{
    for (int i = 0; i < LOOKS && !atomic_load_explicit(&pool.queued, memory_order_relaxed); i++) {
        for (int k = 0; k < 32; k++)
            __builtin_ia32_pause();
        sched_yield();
    }
}

static unsigned pool_wait(const struct mt_worker *w)
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

static int pool_claim(struct mt_pool_launch *preferred, struct mt_claim *claim)
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

static int pool_claim_other(const struct mt_pool_launch *not_this, struct mt_claim *claim)
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

/* Calls `done` after the last CTA: only the caller knows the run by now. */
static void say_done(struct mt_pool_launch *run)
{
    struct mt_cpu_launch *l = run->launch;
    int status = mt_check_result(run);
    mt_image_args_free(run->args);
    l->records = run->records;
    l->untraced = run->untraced;
    l->undefined = run->undefined;
    l->ungrouped = l->records && l->flush_runs && run->fibers;
    l->parted = !l->ungrouped && l->records && l->flush_runs && l->kernel->flags & MT_KERNEL_PARTED;
    for (unsigned i = 0; i < MT_COUNTS; i++) {
        l->counts[i] = run->counts[i];
        l->recorded[i] = run->recorded[i];
    }
    free(run);
    l->done(l->done_ctx, status);
}

static void pool_report(struct mt_pool_launch *run, uint64_t finished)
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
    /* The workers do not exist here, nor do threads that wait for them; their memory may be reused. */
    pthread_mutex_init(&pool.lock, NULL);
    pthread_cond_init(&pool.work, NULL);
    pool.first = NULL;
    pool.queued = 0;
    pool.nworkers = pool.idle = 0;
    pool.spare = NULL; /* its stack is in memory that is reused */
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
    struct mt_worker *w = pool.spare ? pool.spare : worker_new();
    if (!w)
        return ENOMEM;
    pool.spare = w; /* kept until there is a thread for it: the next launch tries again */
    w->id = pool.nworkers;
    int rc = mt_base_thread_start(NULL, 1, worker_main, w);
    if (rc)
        return rc;
    pool.nworkers++;
    pool.spare = NULL;
    return 0;
}

/* Starts worker threads up to pool.active, with the lock held. Returns 0, or an errno value if there is
 * none at all. */
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
    if (pool.nworkers > pool.active) /* a sleeper that may not work must not consume the signal */
        pthread_cond_broadcast(&pool.work);
    else
        for (uint64_t i = 0; i < run->total && i < pool.idle; i++)
            pthread_cond_signal(&pool.work);
}

/* Returns the whole-warp version that fits the CTA's shape, or NULL. */
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

/* Chooses warps as vectors. Returns 0 if the launch does not allow it. */
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
    /* CTAs of a cluster begin together; a bad access ends a warp. */
    run->warps = waits || l->cluster[0] || mt_check_on;
    run->loop = run->warps ? NULL : code;
    run->quiet_loop = run->warps ? NULL : quiet;
    run->entry = code;
    run->quiet_entry = quiet;
    run->nthreads = run->warps ? (run->nthreads + MT_WARP - 1) / MT_WARP : run->nthreads;
    return 1;
}

/* Chooses the code: for whole warps if there is a version for the CTA's shape, else a fiber per thread;
 * without record calls if they are not needed. */
static void choose_code(struct mt_pool_launch *run)
{
    const struct mt_image_kernel *k = run->launch->kernel;
    if (pool_choose_vector(run))
        return;
    run->fibers = run->nthreads > 1; /* a single thread is its own warp */
    int plain = k->plain_entry && !mt_check_on;
    run->entry = plain && !pool_is_traced(run->launch) ? k->plain_entry : k->entry;
    run->quiet_entry = plain ? k->plain_entry : run->entry;
}

/* Fills the run of a launch. Returns 0, or a reason why it cannot run. */
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
    choose_code(run); /* after nthreads is set */
    if (!run->loop && !run->entry)
        return pool_reject(l, MT_ERR_UNSUPPORTED, "the CPU image has no code for it");
    run->args = mt_image_args_copy(l, &run->workspace);
    return run->args ? 0 : pool_reject(l, MT_ERR_MEMORY, "no memory for its arguments");
}

int mt_cpu_start(struct mt_cpu_launch *l)
{
    int rc = pool_check(l);
    l->records = l->untraced = l->undefined = l->parted = 0;
    l->ungrouped = 0;
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
