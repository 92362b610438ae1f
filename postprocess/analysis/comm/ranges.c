/* Bytes touched by each CTA of a launch: for every CTA and type of access the half-open address ranges,
 * ascending, disjoint and not adjacent. */
#include "ranges.h"
#include "memtrace/grow.h"
#include "memtrace/order.h"
#include <stdlib.h>

enum { TIDY_FROM = 4096 }; /* minimum number of ranges to sort before more room is allocated */

static struct mt_range_set *set_of(struct mt_touched *r, uint64_t cta, uint32_t type)
{
    if (r->last && r->last_cta == cta && r->last_type == type)
        return r->last;
    uint64_t *at = mt_pairmap_get(&r->index, cta, type, UINT64_MAX);
    if (!at)
        return NULL;
    if (*at == UINT64_MAX) {
        if (mt_grow(&r->sets, &r->room, r->nsets + 1, sizeof *r->sets) != 0)
            return NULL;
        *at = r->nsets;
        r->sets[r->nsets++] = (struct mt_range_set){.cta = cta, .type = type};
    }
    r->last_cta = cta;
    r->last_type = type;
    return r->last = &r->sets[*at];
}

MT_ORDER_1(by_start, struct mt_touched_range, start)

/* Sorts the ranges and joins those that overlap or touch. */
static void ranges_tidy(struct mt_range_set *s)
{
    if (s->tidy == s->n)
        return;
    qsort(s->list, s->n, sizeof *s->list, by_start);
    size_t n = 0;
    for (size_t i = 1; i < s->n; i++) {
        struct mt_touched_range *last = &s->list[n], next = s->list[i];
        if (next.start > last->end)
            s->list[++n] = next;
        else if (next.end > last->end)
            last->end = next.end;
    }
    s->n = s->tidy = n + 1;
}

static int ranges_grow(struct mt_range_set *s)
{
    if (s->n >= TIDY_FROM)
        ranges_tidy(s);
    if (s->n <= s->room / 2 && s->room)
        return 0;
    return mt_grow(&s->list, &s->room, s->room + 1, sizeof *s->list);
}

/* Adds [start, end); a range at the top of the address space ends at its last byte. */
static int ranges_add(struct mt_range_set *s, uint64_t start, uint64_t end)
{
    if (end <= start)
        end = UINT64_MAX;
    if (s->n) {
        struct mt_touched_range *last = &s->list[s->n - 1];
        if (start >= last->start && start <= last->end) {
            if (end > last->end)
                last->end = end; /* the last range is the highest one, also in a tidy list */
            return 0;
        }
    }
    if (s->n == s->room && ranges_grow(s) != 0)
        return -1;
    s->list[s->n++] = (struct mt_touched_range){start, end};
    return 0;
}

static int add_run(struct mt_range_set *s, const struct mt_access_run *run)
{
    uint32_t size = run->meta & MT_RAW_MAX_SIZE;
    if (!run->addresses && run->count > 1 && run->stride == (int64_t)size &&
        run->base + (uint64_t)run->count * size > run->base)
        return ranges_add(s, run->base, run->base + (uint64_t)run->count * size);
    for (uint32_t k = 0; k < run->count; k++) {
        uint64_t a = run->addresses ? run->addresses[k] : run->base + k * (uint64_t)run->stride;
        if (ranges_add(s, a, a + size) != 0)
            return -1;
    }
    return 0;
}

static int ranges_runs(void *self, const struct mt_access_run *runs, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct mt_range_set *s = set_of(self, runs[i].cta, runs[i].meta >> 28);
        if (!s || add_run(s, &runs[i]) != 0)
            return -1;
    }
    return 0;
}

const struct mt_analysis mt_touched_analysis = {.runs = ranges_runs};

static uint64_t ranges_order(uint64_t cta)
{
    return (cta & 0xffff) << 48 | (cta >> 16 & 0xffff) << 32 | cta >> 32;
}

static int by_cta(const void *a, const void *b)
{
    const struct mt_range_set *x = a, *y = b;
    if (x->cta != y->cta)
        return ranges_order(x->cta) < ranges_order(y->cta) ? -1 : 1;
    return x->type < y->type ? -1 : x->type > y->type;
}

int mt_touched_end(struct mt_touched *r,
                   int (*f)(void *arg, uint64_t cta, uint32_t type, const struct mt_touched_range *range),
                   void *arg)
{
    int rc = 0;
    if (r->nsets)
        qsort(r->sets, r->nsets, sizeof *r->sets, by_cta);
    for (size_t i = 0; i < r->nsets; i++) {
        struct mt_range_set *s = &r->sets[i];
        if (rc == 0)
            ranges_tidy(s);
        for (size_t k = 0; k < s->n && rc == 0; k++)
            rc = f(arg, s->cta, s->type, &s->list[k]);
        free(s->list);
    }
    r->nsets = 0;
    r->last = NULL;
    mt_pairmap_clear(&r->index);
    return rc;
}

void mt_touched_free(struct mt_touched *r)
{
    for (size_t i = 0; i < r->nsets; i++)
        free(r->sets[i].list);
    free(r->sets);
    mt_pairmap_free(&r->index);
    *r = (struct mt_touched){.nsets = 0};
}
