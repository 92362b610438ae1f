/* Records of launches whose code runs whole warps (builtins/warp_access.c makes them): a worker's buffer of
 * runs, handed on as they are to compact traces, lane by lane to raw ones. */
#include <stdlib.h>
#include <string.h>
#include "check.h"
#include "image.h"
#include "memtrace/record.h"
#include "scheduler.h"
#include "warps.h"

struct mt_access_runs {
    _Alignas(64) struct mt_access_run run[MT_WARPS_RUNS]; /* each in one line of the cache */
    uint64_t address[MT_WARPS_RUNS * MT_WARP];            /* of runs that are not even */
};

struct mt_access_runs *mt_access_runs_new(void)
{
    return aligned_alloc(_Alignof(struct mt_access_runs),
                         sizeof(struct mt_access_runs)); /* most is never touched */
}

/* Under MEMTRACE_CHECK each access asks. */
static void runs_limit(const struct mt_access_runs *runs)
{
    mt_cpu_tls.run_end = mt_check_on ? mt_cpu_tls.run : (struct mt_access_run *)runs->run + MT_WARPS_RUNS;
}

void mt_access_runs_open(struct mt_worker *w)
{
    struct mt_cpu_tls *t = &mt_cpu_tls;
    t->run = w->runs->run;
    runs_limit(w->runs);
    t->run_address = w->runs->address;
}

/* Adds up the accesses of a launch whose program counts them, too. */
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

/* Raw records, as many as the worker's other buffer has room for at a time. */
static void runs_expand(struct mt_worker *w, const struct mt_access_run *r, size_t n)
{
    struct mt_cpu_launch *l = w->run->launch;
    uint64_t *at = w->buffer, *end = w->buffer + w->buffer_words;
    for (size_t k = 0; k < n; k++) {
        uint64_t what = (uint64_t)r[k].smid << 32 | r[k].meta, address = r[k].base, room[MT_RUN_ROWS];
        const struct mt_access_run lanes = mt_run_without_rows(&r[k], room);
        for (uint32_t i = 0; i < lanes.count; i++, address += (uint64_t)lanes.stride) {
            if (at == end) {
                l->flush(l->flush_ctx, w->buffer, w->buffer_words / 3);
                at = w->buffer;
            }
            at[0] = what;
            at[1] = lanes.addresses ? lanes.addresses[i] : address;
            at[2] = lanes.cta;
            at += 3;
        }
    }
    if (at > w->buffer)
        l->flush(l->flush_ctx, w->buffer, (uint64_t)(at - w->buffer) / 3);
}

/* Gives the runs their sites. Returns their accesses; *meta: what all of them have in it. */
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

/* Takes out what raw traces do not have. Returns how many are left. */
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

static void runs_flush_here(void *worker, int unused)
{
    struct mt_worker *w = worker;
    struct mt_pool_launch *run = w->run;
    struct mt_access_run *r = w->runs->run;
    size_t n = (size_t)(mt_cpu_tls.run - r);
    uint64_t accesses = 0;
    (void)unused;
    if (run && (w->quiet || !(run->launch->flush_runs || run->launch->flush)))
        n = 0; /* by code that has record calls all the same */
    if (n && run) {
        const struct mt_image *image = run->launch->image;
        uint32_t base = image->head->site_base ? 0 : image->site_base; /* else the image has added it */
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
    mt_access_runs_open(w);
}

void mt_worker_call(struct mt_worker *w, void (*f)(void *worker, int all), int all)
{
    int in_device = w->in_device;
    w->in_device = 0; /* a fault in there is not the kernel's */
    if (in_device)
        mt_fiber_call(w->sched_sp, f, w, all);
    else
        f(w, all);
    w->in_device = in_device;
}

void mt_access_runs_flush(struct mt_worker *w)
{
    mt_worker_call(w, runs_flush_here, 0);
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
        if (!mt_rec_space(meta >> 28)) /* global memory alone is checked */
            bad = mt_check_warp(list, mask, meta, site, __builtin_return_address(0));
    }
    if (t->run == runs->run + MT_WARPS_RUNS)
        mt_access_runs_flush(mt_worker_self);
    if (mt_check_on)
        t->run_end = t->run + 1; /* room for this one */
    return (struct mt_run_room){t->run, bad};
}

void mt_cpu_run_bad(void)
{
    mt_check_end();
}
