/* Neighbouring launches of a kernel as one row of a page. */
#define _GNU_SOURCE

#include "fold.h"
#include "analysis/locality/reuse.h"
#include "analysis/locality/sharing.h"
#include "memtrace/order.h"

#include <stdlib.h>
#include <string.h>

/* ---- which launches form a row ---- */

/* Returns the kernels and supersteps of all launches as ascending numbers. */
static uint64_t *fold_keys(const struct mt_report *r)
{
    uint64_t *keys = malloc((r->launches.n + 1) * sizeof *keys);
    for (size_t i = 0; keys && i < r->launches.n; i++)
        keys[i] = (uint64_t)r->launches.at[i].kernel << 32 | r->launches.at[i].superstep;
    if (keys)
        qsort(keys, r->launches.n, sizeof *keys, mt_order_u64);
    return keys;
}

/* Returns the number of rows if supersteps that differ only in their lowest bits form one. */
static size_t fold_rows(const uint64_t *keys, size_t n, unsigned bits)
{
    size_t rows = 0;
    for (size_t i = 0; i < n; i++)
        rows += !i || keys[i] >> bits != keys[i - 1] >> bits;
    return rows;
}

/* Sets r->first: by superstep, that of the launch's row. */
static int fold_find(struct mt_report *r)
{
    const size_t n = r->launches.n;
    uint64_t *keys = fold_keys(r);
    unsigned bits = 1;
    r->first = calloc((size_t)r->launches.at[n - 1].superstep + 1, sizeof *r->first);
    if (keys && r->first) {
        r->nfirst = (size_t)r->launches.at[n - 1].superstep + 1;
        while (bits < 32 && fold_rows(keys, n, bits) > MT_FOLD_MOST)
            bits++;
        for (size_t i = 0, of = 0; i < n; i++) {
            of = !i || keys[i] >> bits != keys[i - 1] >> bits ? i : of;
            r->first[(uint32_t)keys[i]] = (uint32_t)keys[of];
        }
    }
    free(keys);
    return r->nfirst ? 0 : -1;
}

/* Returns the superstep of a launch's row. */
static uint64_t fold_of(const struct mt_report *r, uint64_t superstep)
{
    return superstep < r->nfirst ? r->first[superstep] : superstep;
}

/* ---- launches ---- */

static void fold_event(struct mt_launch_event *to, const struct mt_launch_event *e)
{
    to->begin_ns = e->begin_ns < to->begin_ns ? e->begin_ns : to->begin_ns;
    to->end_ns = e->end_ns > to->end_ns ? e->end_ns : to->end_ns;
    to->has_records &= e->has_records;
    to->records += e->records;
    to->untraced += e->untraced;
    to->status = to->status ? to->status : e->status;
}

static void fold_launch(struct mt_report_launch *to, const struct mt_report_launch *l,
                        struct mt_launch_event *event)
{
    to->ctas += l->ctas;
    to->sms = l->sms > to->sms ? l->sms : to->sms;
    to->count++;
    to->busy += mt_report_busy(l->event);
    mt_report_volume_add(&to->volume, &l->volume);
    if (to->event && l->event)
        fold_event(event, l->event);
}

int mt_fold_launches(struct mt_report *r)
{
    if (r->launches.n <= MT_FOLD_FROM)
        return 0;
    r->folded = calloc(MT_FOLD_MOST, sizeof *r->folded);
    uint32_t *row = fold_find(r) == 0 ? malloc(r->nfirst * sizeof *row) : NULL;
    size_t n = 0;
    for (size_t i = 0; row && r->folded && i < r->launches.n; i++) {
        const struct mt_report_launch l = r->launches.at[i];
        uint32_t first = r->first[l.superstep];
        if (first != l.superstep) {
            fold_launch(&r->launches.at[row[first]], &l, &r->folded[row[first]]);
            continue;
        }
        row[first] = (uint32_t)n;
        if (l.event)
            r->folded[n] = *l.event;
        r->launches.at[n] = l;
        r->launches.at[n].count = 1;
        r->launches.at[n].busy = mt_report_busy(l.event);
        r->launches.at[n].event = l.event ? &r->folded[n] : NULL;
        n++;
    }
    int rc = row && r->folded ? 0 : -1;
    if (rc == 0)
        r->launches.n = n;
    free(row);
    return rc;
}

/* ---- results by launch ---- */

MT_ORDER_1(fold_reuse_order, struct mt_reuse_launch, superstep)

int mt_fold_reuse(const struct mt_report *r, struct mt_reuse *x)
{
    size_t n = 0;
    int rc = 0;
    for (size_t i = 0; r->nfirst && i < x->count; i++) {
        struct mt_reuse_launch l = x->launches[i];
        if (l.selected) {
            l.superstep = fold_of(r, l.superstep);
            x->launches[n++] = l;
        } else {
            mt_reuse_launch_free(&l);
        }
    }
    if (!r->nfirst)
        return 0;
    if (n)
        qsort(x->launches, n, sizeof *x->launches, fold_reuse_order);
    x->count = 0;
    for (size_t i = 0; i < n; i++)
        if (x->count && x->launches[x->count - 1].superstep == x->launches[i].superstep)
            rc |= mt_reuse_launch_join(&x->launches[x->count - 1], &x->launches[i]);
        else
            x->launches[x->count++] = x->launches[i];
    return rc;
}

MT_ORDER_2(fold_cell_order, struct mt_sharing_cell, superstep, alloc)

static void fold_cell(void *to, const void *from)
{
    struct mt_sharing_cell *a = to;
    const struct mt_sharing_cell *b = from;
    for (int i = 0; i < MT_SHARING_KINDS; i++) {
        a->lines[i] += b->lines[i];
        a->accesses[i] += b->accesses[i];
    }
}

/* By row and kind, most accesses first. */
static int fold_line_order(const void *x, const void *y)
{
    const struct mt_sharing_line *a = x, *b = y;
    if (a->superstep != b->superstep)
        return a->superstep < b->superstep ? -1 : 1;
    if (a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    if (a->accesses != b->accesses)
        return a->accesses > b->accesses ? -1 : 1;
    return (a->address > b->address) - (a->address < b->address);
}

/* Keeps as many lines of each kind in a row as in a launch. */
static void fold_lines(struct mt_sharing *x)
{
    size_t n = 0, same = 0;
    if (x->ntop)
        qsort(x->top, x->ntop, sizeof *x->top, fold_line_order);
    for (size_t i = 0; i < x->ntop; i++) {
        const struct mt_sharing_line *before = n ? &x->top[n - 1] : NULL;
        same = before && before->superstep == x->top[i].superstep && before->kind == x->top[i].kind ? same + 1
                                                                                                    : 0;
        if (same < x->options.top)
            x->top[n++] = x->top[i];
    }
    x->ntop = n;
}

void mt_fold_sharing(const struct mt_report *r, struct mt_sharing *x)
{
    if (!r->nfirst)
        return;
    for (size_t i = 0; i < x->count; i++)
        x->cells[i].superstep = fold_of(r, x->cells[i].superstep);
    for (size_t i = 0; i < x->ntop; i++)
        x->top[i].superstep = fold_of(r, x->top[i].superstep);
    x->count = mt_order_join(x->cells, x->count, sizeof *x->cells, fold_cell_order, fold_cell);
    fold_lines(x);
}
