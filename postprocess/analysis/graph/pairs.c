/* What two sequences consist of, side by side: the counts of their tokens, or of their n-grams. */
#define _GNU_SOURCE
#include "sequence.h"
#include <math.h>
#include <stdlib.h>

struct pairs {
    const struct mt_sequence *a, *b;
    int grams;
    struct mt_count_pair *list;
    size_t n;
};

double mt_sequence_share(const struct mt_sequence *s, int grams, uint64_t count)
{
    uint64_t all = grams ? s->all_grams : s->elements;
    return all ? (double)count / (double)all : 0;
}

/* Of the shares. */
static double pairs_change(const struct pairs *p, const struct mt_count_pair *c)
{
    return fabs(mt_sequence_share(p->b, p->grams, c->b) - mt_sequence_share(p->a, p->grams, c->a));
}

static void pairs_of_a(void *arg, uint64_t gram, uint64_t unused, uint64_t count)
{
    struct pairs *p = arg;
    (void)unused;
    p->list[p->n++] = (struct mt_count_pair){(uint32_t)gram, count, 0};
}

static void pairs_of_b(void *arg, uint64_t gram, uint64_t unused, uint64_t count)
{
    struct pairs *p = arg;
    (void)unused;
    p->list[p->n++] = (struct mt_count_pair){(uint32_t)gram, 0, count};
}

static void pairs_collect(struct pairs *p, const struct mt_sequence *s,
                          void (*take)(void *, uint64_t, uint64_t, uint64_t))
{
    if (p->grams)
        mt_pairmap_each(&s->grams, take, p);
    for (size_t i = 0; !p->grams && i < s->ncounts; i++)
        if (s->counts[i])
            take(p, i, 0, s->counts[i]);
}

static int pairs_by_name(const void *x, const void *y)
{
    uint32_t a = ((const struct mt_count_pair *)x)->what, b = ((const struct mt_count_pair *)y)->what;
    return a < b ? -1 : a > b;
}

static uint64_t pairs_difference(const struct mt_count_pair *p)
{
    return p->a > p->b ? p->a - p->b : p->b - p->a;
}

static int pairs_most_first(const void *x, const void *y, void *arg)
{
    const struct mt_count_pair *a = x, *b = y;
    const struct pairs *p = arg;
    double more = pairs_change(p, b) - pairs_change(p, a);
    if (more != 0)
        return more < 0 ? -1 : 1;
    if (pairs_difference(a) != pairs_difference(b))
        return pairs_difference(a) > pairs_difference(b) ? -1 : 1;
    return pairs_by_name(x, y);
}

/* Two of one name become one. */
static void pairs_merge(struct pairs *p)
{
    size_t kept = 0;
    for (size_t i = 0; i < p->n; i++)
        if (kept && p->list[kept - 1].what == p->list[i].what) {
            p->list[kept - 1].a += p->list[i].a;
            p->list[kept - 1].b += p->list[i].b;
        } else {
            p->list[kept++] = p->list[i];
        }
    p->n = kept;
}

struct mt_count_pair *mt_sequence_pairs(const struct mt_sequence *a, const struct mt_sequence *b, int grams,
                                        size_t *n)
{
    size_t most = grams ? a->grams.count + b->grams.count : a->ncounts + b->ncounts;
    struct pairs p = {a, b, grams, malloc((most + 1) * sizeof *p.list), 0};
    if (!p.list)
        return NULL;
    pairs_collect(&p, a, pairs_of_a);
    pairs_collect(&p, b, pairs_of_b);
    qsort(p.list, p.n, sizeof *p.list, pairs_by_name);
    pairs_merge(&p);
    qsort_r(p.list, p.n, sizeof *p.list, pairs_most_first, &p);
    *n = p.n;
    return p.list;
}
