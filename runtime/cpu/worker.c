/* A worker thread: claims CTAs, runs them, hands their records on. It keeps several CTAs in flight only when
 * those it has do nothing but spin: what they wait for may be a CTA that has not begun. */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include "trace/last.h"
#include "check.h"
#include "image.h"
#include "local.h"
#include "memtrace/record.h"
#include "scheduler.h"
#include "warps.h"

#define RESIDENT_THREADS_MAX 65536 /* device threads in flight on one worker, cooperative launches apart */
#define OTHERS_THREADS_MAX (2 * RESIDENT_THREADS_MAX) /* the same with CTAs of other launches */
#define SPINS_BEFORE_STUCK 1024                       /* times a CTA may spin before it is asked what for */
#define SPINS_BEFORE_MORE 32 /* times a plain launch's CTA may spin before the next CTA is begun */

_Thread_local struct mt_worker *mt_worker_self __attribute__((tls_model("initial-exec")));

/* Compact traces: a warp's accesses are put together when all of them are in the buffer, so the buffer grows
 * with what warps do, up to this. */
#define COMPACT_BYTES ((size_t)8 << 20)

static size_t buffer_bytes = (size_t)1 << 20;
int mt_cpu_compact;

void mt_cpu_set_buffer(size_t bytes)
{
    if (bytes >= 24)
        buffer_bytes = bytes;
}

void mt_cpu_set_compact(void)
{
    mt_cpu_compact = 1;
}

/* ---- records ---- */

/* Adds up the records of a launch whose program counts its accesses, too. */
static void worker_tally(struct mt_pool_launch *run, const uint64_t *records, uint64_t n)
{
    uint64_t sum[MT_COUNTS] = {0};
    for (uint64_t i = 0; i < n; i++) {
        uint64_t type = records[3 * i] >> 28 & 15;
        if (type < MT_COUNTS / 2 && records[3 * i + 2] < MT_ENTRY_LANES) {
            sum[2 * type]++;
            sum[2 * type + 1] += records[3 * i] & MT_RAW_MAX_SIZE;
        }
    }
    for (unsigned i = 0; i < MT_COUNTS; i++)
        atomic_fetch_add_explicit(&run->recorded[i], sum[i], memory_order_relaxed);
}

/* What the program counted since the worker came to this run. */
static void take_counts(struct mt_pool_launch *run)
{
    uint64_t *counts = mt_cpu_tls.counts;
    for (unsigned i = 0; i < MT_COUNTS; i++)
        if (counts[i])
            atomic_fetch_add_explicit(&run->counts[i], counts[i], memory_order_relaxed);
    memset(counts, 0, MT_COUNTS * sizeof *counts);
}

static void set_limit(struct mt_worker *w, uint64_t words)
{
    w->limit = words;
    mt_cpu_tls.end = mt_check_on ? mt_cpu_tls.cur : w->buffer + words; /* no room: each access asks */
}

static void hand_on_runs(void *worker, const struct mt_access_run *runs, size_t count, uint64_t accesses)
{
    struct mt_cpu_launch *l = ((struct mt_worker *)worker)->run->launch;
    l->flush_runs(l->flush_ctx, runs, count, accesses);
}

/* Puts entries together to accesses of warps. Those of a warp that may not have come to its end stay. */
static uint64_t put_together(struct mt_worker *w, uint64_t count, int all)
{
    struct mt_pool_launch *run = w->run;
    const struct mt_image *image = run->launch->image; /* some have added the base of sites themselves */
    uint64_t accesses, rest, limit = w->limit;
    mt_warps_open(w->warps, image->head->site_base ? 0 : image->site_base, hand_on_runs, w);
    if (!all && count * MT_ENTRY_WORDS == w->buffer_words) /* a thread alone has nobody to be parted from */
        all = run->nthreads > 1 ? MT_WARPS_FULL : 1;
    uint64_t used = mt_warps_put(w->warps, w->buffer, count, all, &accesses);
    atomic_fetch_add_explicit(&run->records, accesses, memory_order_relaxed);
    if (MT_UNLIKELY(run->launch->kernel->flags & MT_KERNEL_COUNTED))
        worker_tally(run, w->buffer, used);
    rest = (count - used) * MT_ENTRY_WORDS;
    memmove(w->buffer, w->buffer + used * MT_ENTRY_WORDS, rest * sizeof *w->buffer);
    if (rest > limit / 2)
        w->limit = limit * 2 < w->buffer_words ? limit * 2 : w->buffer_words;
    return rest;
}

static void worker_flush_here(void *worker, int all)
{
    struct mt_worker *w = worker;
    struct mt_pool_launch *run = w->run;
    uint64_t words = (uint64_t)(mt_cpu_tls.cur - w->buffer), rest = 0;
    if (words && run && (run->launch->flush || run->launch->flush_runs)) {
        if (w->warps) {
            rest = put_together(w, words / 3, all);
        } else {
            atomic_fetch_add_explicit(&run->records, words / 3, memory_order_relaxed);
            if (MT_UNLIKELY(run->launch->kernel->flags & MT_KERNEL_COUNTED))
                worker_tally(run, w->buffer, words / 3);
            run->launch->flush(run->launch->flush_ctx, w->buffer, words / 3);
        }
    }
    mt_cpu_tls.cur = w->buffer + rest;
    set_limit(w, w->limit);
}

/* Hands the buffer's records to the launch they belong to. all: in compact mode, those of the warp at work,
 * too. */
static void worker_flush(struct mt_worker *w, int all)
{
    mt_worker_call(w, worker_flush_here, all);
}

/* No more records of the worker's run will come. */
static void flush_last(struct mt_worker *w)
{
    worker_flush(w, 1);
    mt_access_runs_flush(w);
    if (!w->warps)
        return;
    mt_warps_flush(w->warps);
    atomic_fetch_add_explicit(&w->run->parted, mt_warps_parted(w->warps), memory_order_relaxed);
    set_limit(w, w->small);
}

static void hand_on_all(void *worker, int unused)
{
    const struct mt_cpu_launch *l = ((struct mt_worker *)worker)->run->launch;
    (void)unused;
    flush_last(worker);
    l->fence(l->flush_ctx);
}

void mt_worker_hand_on(struct mt_worker *w)
{
    if (w->run->launch->fence && !w->quiet) /* quiet: all that is not forgotten has been handed on */
        mt_worker_call(w, hand_on_all, 0);
}

void mt_worker_quiet(struct mt_worker *w, int quiet)
{
    struct mt_cpu_tls *t = &mt_cpu_tls;
    if (MT_LIKELY(w->quiet == quiet))
        return;
    mt_access_runs_flush(w);
    w->quiet = quiet;
    if (quiet) {
        w->kept.cur = t->cur;
        w->kept.end = t->end;
        w->kept.untraced = t->untraced;
        memcpy(w->kept.counts, t->counts, sizeof t->counts);
        t->cur = w->scratch;
        t->end = mt_check_on ? t->cur : w->scratch + MT_SCRATCH_WORDS;
    } else {
        t->cur = w->kept.cur;
        t->end = w->kept.end;
        t->untraced = w->kept.untraced;
        memcpy(t->counts, w->kept.counts, sizeof t->counts);
    }
}

/* Is the access of global memory, which alone is checked, a bad one? */
static int worker_is_bad(uint64_t address, uint32_t meta, uint32_t site, const void *caller)
{
    return MT_UNLIKELY(mt_check_on) && !mt_rec_space(meta >> 28) &&
           mt_check_access(address, meta, site, caller);
}

static uint64_t *worker_room(void)
{
    struct mt_worker *w = mt_worker_self;
    struct mt_cpu_tls *t = &mt_cpu_tls;
    if (MT_UNLIKELY(mt_check_on)) {
        if (w->quiet)
            t->cur = w->scratch;
        else if (t->cur == w->buffer + w->limit)
            worker_flush(w, 0);
        t->end = t->cur + 3; /* room for this one */
        return t->cur;
    }
    if (MT_UNLIKELY(w->quiet))
        t->cur = w->scratch;
    else
        worker_flush(w, 0);
    return t->cur;
}

uint64_t *mt_cpu_trace_room(uint64_t address, uint32_t meta, uint32_t site, uint64_t place)
{
    (void)place;
    if (worker_is_bad(address, meta, site, __builtin_return_address(0)))
        mt_check_end();
    return worker_room();
}

struct mt_room mt_cpu_trace_room_to(uint64_t address, uint32_t meta, uint32_t site, uint64_t place)
{
    struct mt_worker *w = mt_worker_self;
    (void)place;
    if (worker_is_bad(address, meta, site, __builtin_return_address(0))) {
        if ((meta & MT_RAW_MAX_SIZE) > sizeof w->nowhere)
            mt_check_end();
        memset(w->nowhere, 0, sizeof w->nowhere);
        address = (uint64_t)(uintptr_t)w->nowhere;
    }
    return (struct mt_room){worker_room(), address};
}

/* The third word of the entry that was written last; 0: it is not here. */
static uint64_t worker_newest(const struct mt_worker *w)
{
    return mt_cpu_tls.cur > w->buffer ? mt_cpu_tls.cur[-1] : 0;
}

static void worker_entry(struct mt_worker *w, uint64_t first, uint64_t second, uint64_t third)
{
    struct mt_cpu_tls *t = &mt_cpu_tls;
    if (t->cur == w->buffer + w->limit)
        worker_flush(w, 0);
    t->cur[0] = first;
    t->cur[1] = second;
    t->cur[2] = third;
    t->cur += MT_ENTRY_WORDS;
    if (mt_check_on)
        t->end = t->cur;
}

void mt_worker_mark(struct mt_worker *w, uint64_t cta, uint32_t smid)
{
    if (w->quiet)
        return;
    if (worker_newest(w) == MT_ENTRY_MARK)
        mt_cpu_tls.cur -= MT_ENTRY_WORDS; /* there was nothing of the CTA before */
    worker_entry(w, smid, cta, MT_ENTRY_MARK);
}

void mt_worker_lanes(struct mt_worker *w, uint64_t lanes, uint64_t warp)
{
    if (!w->warps || w->quiet || !w->run->launch->flush_runs)
        return;
    if (warp != MT_ENTRY_ALL || worker_newest(w) != MT_ENTRY_LANES || mt_cpu_tls.cur[-2] != warp)
        worker_entry(w, lanes, warp, MT_ENTRY_LANES);
}

int mt_worker_recorded(const struct mt_worker *w, uint32_t thread)
{
    uint64_t newest = w->warps && !w->quiet ? worker_newest(w) : 0;
    return newest && newest < MT_ENTRY_LANES && newest % MT_CTA_MAX == thread;
}

/* ---- claiming and reporting ---- */

/* Flushes, and reports the finished CTAs of the run that the worker is at. */
static void worker_report(struct mt_worker *w)
{
    struct mt_pool_launch *run = w->run;
    uint64_t finished = w->finished;
    mt_worker_quiet(w, 0);
    if (!run)
        return;
    flush_last(w);
    if (mt_cpu_tls.untraced)
        atomic_fetch_add_explicit(&run->untraced, mt_cpu_tls.untraced, memory_order_relaxed);
    mt_cpu_tls.untraced = 0;
    if (MT_UNLIKELY(run->launch->kernel->flags & MT_KERNEL_COUNTED))
        take_counts(run);
    w->run = NULL;
    w->finished = 0;
    mt_pool_report(run, finished);
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

/* CTAs claimed but not begun; those of a failed run never are. */
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

/* Takes the next claimed CTA; the worker is attached to its run then. */
static void take_claim(struct mt_worker *w, struct mt_pool_launch **run, uint64_t *linear)
{
    *run = w->claim.run;
    *linear = w->claim.next++;
    worker_attach(w, *run);
}

/* Takes the next CTA. 0 when there is none. */
static int worker_claim(struct mt_worker *w, struct mt_pool_launch **run, uint64_t *linear)
{
    if (!has_claim(w) && !mt_pool_claim(w->run, &w->claim))
        return 0;
    take_claim(w, run, linear);
    return 1;
}

/* The same while a CTA of `spins` does nothing but spin: what it waits for may be in another launch, or in
 * its own. A launch whose CTAs all spin must not keep the others out. */
static int claim_beside(struct mt_worker *w, const struct mt_cta *spins, struct mt_pool_launch **run,
                        uint64_t *linear)
{
    const struct mt_pool_launch *own = spins->run;
    int room = own->cooperative || w->resident_threads + MT_CTA_MAX <= RESIDENT_THREADS_MAX;
    int others = w->resident_threads + MT_CTA_MAX <= OTHERS_THREADS_MAX || own->cooperative;
    if (!has_claim(w) && !(others && mt_pool_claim_other(own, &w->claim)) &&
        !(room && mt_pool_claim(w->run, &w->claim)))
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
    w->resident = cta; /* its turn is now */
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

/* Begins a CTA: kernels without waits run to their end here, others become resident. */
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

/* Begins all CTAs of a cluster: they may wait for one another. */
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

/* Have all CTAs that have not ended come to the barrier of the grid, to which the others never will? Its word
 * counts those that came, the first CTA as half of its range less the others. */
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

/* Runs the resident CTA whose turn it is until it ends or spins. */
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

struct mt_worker *mt_worker_new(void)
{
    size_t most = mt_cpu_compact && buffer_bytes < COMPACT_BYTES ? COMPACT_BYTES : buffer_bytes;
    struct mt_worker *w = calloc(1, sizeof *w);
    if (!w)
        return NULL;
    w->buffer_words = most / 24 * 3;
    w->small = w->limit = buffer_bytes / 24 * 3;
    w->buffer = aligned_alloc(64, (w->buffer_words * 8 + 63) & ~63ull);
    w->loop_cta = calloc(1, sizeof *w->loop_cta);
    w->fault_stack = malloc(4 * MT_FAULT_STACK);
    w->runs = mt_access_runs_new();
    w->warps = mt_cpu_compact ? mt_warps_new() : NULL;
    int all = w->buffer && w->loop_cta && w->fault_stack && w->runs && (w->warps || !mt_cpu_compact);
    w->loop_fiber.stack = all ? mt_stack_for_loops() : NULL; /* last: it cannot be given back */
    if (w->loop_fiber.stack) {
        w->loop_fiber.sp = mt_fiber_prepare(w->loop_fiber.stack);
        return w;
    }
    if (w->warps)
        mt_warps_free(w->warps);
    free(w->runs);
    free(w->fault_stack);
    free(w->loop_cta);
    free(w->buffer);
    free(w);
    return NULL;
}

void *mt_worker_main(void *worker)
{
    struct mt_worker *w = worker;
    struct mt_cpu_tls *t = &mt_cpu_tls;
    mt_worker_self = w;
    mt_last_ours();
    t->local_base = mt_local_base();
    t->local_bytes = mt_local_bytes();
    t->cur = w->buffer;
    set_limit(w, w->limit);
    mt_access_runs_open(w);
    t->site_mask = mt_cpu_compact ? UINT64_MAX : UINT32_MAX;
    t->thread_mask = mt_cpu_compact ? UINT64_MAX : 0;
    t->place_mask = mt_cpu_compact ? (UINT64_MAX >> 1) & ~(uint64_t)(MT_PLACE_ONE - 1) : 0;
    mt_fault_thread(w);
    for (;;) {
        t->nsmid = mt_pool_wait(w);
        worker_drain(w);
    }
    return NULL;
}
