/* A worker's buffer of records: runs and regions (format/container/region.h), handed on unchanged to compact
 * traces, lane by lane to raw ones. */
#include "scheduler.h"
#include "check.h"
#include "image.h"
#include "format/container/region.h"
#include "memtrace/record.h"

#include <string.h>

void mt_runs_open(struct mt_worker *w)
{
    struct mt_cpu_tls *t = &mt_cpu_tls;
    t->run = w->runs->run;
    t->run_end = mt_check_on ? t->run : t->run + MT_RUNS; /* no room: each access is checked */
    t->run_address = w->runs->address;
}

/* Sums up accesses of one type and size. */
static void runs_tally_one(uint64_t *sum, uint32_t meta, uint64_t count)
{
    uint32_t type = meta >> 28;
    if (type < MT_COUNTS / 2) {
        sum[2 * type] += count;
        sum[2 * type + 1] += count * (meta & MT_RAW_MAX_SIZE);
    }
}

/* Sums up the accesses of a launch whose program counts them, too. */
static void runs_tally(struct mt_pool_launch *run, const struct mt_access_run *r, size_t n)
{
    uint64_t sum[MT_COUNTS] = {0};
    for (size_t i = 0; i < n; i += mt_region_units(&r[i])) {
        const uint64_t *word = mt_region_entry_of(&r[i]);
        const struct mt_region *g = word ? mt_region_of(word) : NULL;
        if (!g)
            runs_tally_one(sum, r[i].meta, r[i].count);
        for (uint32_t k = 0; g && k < g->n; k++)
            runs_tally_one(sum, g->access[k].meta, mt_region_laps(g, word) * MT_WARP);
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

/* Expands a run to raw records in the worker's other buffer, which is handed on when full. */
static void runs_expand_one(struct mt_worker *w, const struct mt_access_run *r)
{
    uint64_t what = (uint64_t)r->smid << 32 | r->meta, address = r->base, room[MT_RUN_ROWS];
    const struct mt_access_run lanes = mt_run_without_rows(r, room);
    for (uint32_t i = 0; i < lanes.count; i++, address += (uint64_t)lanes.stride) {
        if (w->raw == w->raw_room)
            runs_flush_raw(w);
        uint64_t *at = &w->buffer[3 * w->raw++];
        at[0] = what;
        at[1] = lanes.addresses ? lanes.addresses[i] : address;
        at[2] = lanes.cta;
    }
}

static void runs_expand_region(struct mt_worker *w, const struct mt_region *g, const uint64_t *word)
{
    struct mt_access_run r;
    for (uint64_t lap = 0, laps = mt_region_laps(g, word); lap < laps; lap++)
        for (uint32_t i = 0; i < g->n; i++) {
            mt_region_run(g, word, i, lap, &r);
            runs_expand_one(w, &r);
        }
}

static void runs_expand(struct mt_worker *w, const struct mt_access_run *r, size_t n)
{
    for (size_t k = 0; k < n; k += mt_region_units(&r[k])) {
        const uint64_t *word = mt_region_entry_of(&r[k]);
        if (word)
            runs_expand_region(w, mt_region_of(word), word);
        else
            runs_expand_one(w, &r[k]);
    }
}

/* Removes accesses that the trace does not have: raw ones have those of global memory, and under
 * MEMTRACE_CHECK local memory is checked alone, as nothing reads its records then. Returns the number left.
 */
static size_t runs_wanted(struct mt_access_run *r, size_t n, int raw, uint64_t *accesses)
{
    size_t kept = 0, units;
    for (size_t i = 0; i < n; i += units) {
        units = mt_region_units(&r[i]);
        if (!mt_rec_space(r[i].meta >> 28) || (!raw && mt_rec_space(r[i].meta >> 28) != MT_IN_LOCAL)) {
            memmove(&r[kept], &r[i], units * sizeof *r);
            kept += units;
        } else {
            *accesses -= r[i].count;
        }
    }
    return kept;
}

void mt_runs_flush(void *worker, int last)
{
    struct mt_worker *w = worker;
    struct mt_pool_launch *run = w->run;
    struct mt_access_run *r = w->runs->run;
    size_t n = (size_t)(mt_cpu_tls.run - r);
    uint64_t accesses = 0;
    if (run && (w->quiet || !(run->launch->flush_runs || run->launch->flush)))
        n = 0; /* from code that still has record calls */
    if (n && run) {
        int counted = (run->launch->kernel->flags & MT_KERNEL_COUNTED) != 0;
        if (MT_LIKELY(run->launch->flush_runs && !counted && !mt_check_all)) {
            accesses = run->launch->flush_runs(run->launch->flush_ctx, r, n, run->fibers);
        } else {
            accesses = mt_region_accesses(r, n);
            if (!run->launch->flush_runs || mt_check_all)
                n = runs_wanted(r, n, !run->launch->flush_runs, &accesses);
            if (counted)
                runs_tally(run, r, n);
            if (run->launch->flush_runs && n)
                run->launch->flush_runs(run->launch->flush_ctx, r, n, run->fibers);
            else
                runs_expand(w, r, n);
        }
        atomic_fetch_add_explicit(&run->records, accesses, memory_order_relaxed);
    }
    if (last)
        runs_flush_raw(w);
    mt_runs_open(w);
}
