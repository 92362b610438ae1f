/* Views as trees whose leaves are the clocks of CTAs: each number of a CTA is a path of digits. */
#include "views.h"

#include <stdlib.h>
#include <string.h>

enum { DIGIT = 4, BRANCHES = 1 << DIGIT, BLOCK = 1 << 20 };

struct mt_view {
    const struct mt_view *moved; /* while views are moved: its copy */
    const struct mt_view *branch[BRANCHES];
};

/* Leaf: times of a CTA's threads. */
struct view_times {
    const struct view_times *moved;
    uint32_t n, time[];
};

struct mt_views_block {
    struct mt_views_block *next;
    _Alignas(16) char bytes[];
};

static void views_free(struct mt_views_block *b)
{
    while (b) {
        struct mt_views_block *next = b->next;
        free(b);
        b = next;
    }
}

void mt_views_clear(struct mt_views *v, uint64_t ctas)
{
    views_free(v->blocks);
    views_free(v->old);
    *v = (struct mt_views){.levels = 1};
    while (v->levels < 32 / DIGIT && ctas > (uint64_t)1 << (DIGIT * v->levels))
        v->levels++;
}

static void *views_take(struct mt_views *v, size_t size)
{
    size = (size + 15) / 16 * 16;
    if (size > v->left) {
        size_t bytes = size > BLOCK ? size : BLOCK;
        struct mt_views_block *b = malloc(sizeof *b + bytes);
        if (!b) {
            v->failed = 1;
            return NULL;
        }
        b->next = v->blocks;
        v->blocks = b;
        v->left = bytes;
        v->bytes += bytes;
    }
    return v->blocks->bytes + (v->left -= size);
}

/* ---- leaves ---- */

static int times_within(const struct view_times *part, const struct view_times *of)
{
    uint32_t more = part->n > of->n;
    for (uint32_t i = 0; i < part->n && i < of->n; i++)
        more |= part->time[i] > of->time[i];
    return !more;
}

static const struct view_times *times_join(struct mt_views *v, const struct view_times *a,
                                           const struct view_times *b)
{
    if (times_within(b, a))
        return a;
    if (times_within(a, b))
        return b;
    uint32_t n = a->n > b->n ? a->n : b->n;
    struct view_times *x = views_take(v, sizeof *x + n * sizeof *x->time);
    if (!x)
        return a;
    x->moved = NULL;
    x->n = n;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t p = i < a->n ? a->time[i] : 0, q = i < b->n ? b->time[i] : 0;
        x->time[i] = p > q ? p : q;
    }
    return x;
}

/* ---- trees ---- */

/* level: levels below this node, 0 for a leaf */
static const void *views_join(struct mt_views *v, const void *a, const void *b, unsigned level)
{
    if (a == b || !b)
        return a;
    if (!a)
        return b;
    if (!level)
        return times_join(v, a, b);
    const struct mt_view *x = a, *y = b;
    struct mt_view joined;
    int as_a = 1, as_b = 1;
    for (int i = 0; i < BRANCHES; i++) {
        joined.branch[i] = views_join(v, x->branch[i], y->branch[i], level - 1);
        as_a &= joined.branch[i] == x->branch[i];
        as_b &= joined.branch[i] == y->branch[i];
    }
    if (as_a || as_b)
        return as_a ? a : b;
    struct mt_view *node = views_take(v, sizeof *node);
    if (!node)
        return a;
    *node = joined;
    node->moved = NULL;
    return node;
}

const struct mt_view *mt_view_join(struct mt_views *v, const struct mt_view *a, const struct mt_view *b)
{
    return views_join(v, a, b, v->levels);
}

const struct mt_view *mt_view_add(struct mt_views *v, const struct mt_view *a, uint32_t cta,
                                  const uint32_t *times, uint32_t n)
{
    struct view_times *x = views_take(v, sizeof *x + n * sizeof *x->time);
    const void *path = x;
    if (!x)
        return a;
    x->moved = NULL;
    x->n = n;
    memcpy(x->time, times, n * sizeof *times);
    for (unsigned level = 0; level < v->levels; level++) {
        struct mt_view *node = views_take(v, sizeof *node);
        if (!node)
            return a;
        memset(node, 0, sizeof *node);
        node->branch[cta >> (DIGIT * level) & (BRANCHES - 1)] = path;
        path = node;
    }
    return mt_view_join(v, a, path);
}

/* ---- moving ---- */

void mt_views_move_begin(struct mt_views *v)
{
    v->old = v->blocks;
    v->blocks = NULL;
    v->left = v->bytes = 0;
}

static const void *times_move(struct mt_views *v, const struct view_times *old)
{
    size_t size = sizeof *old + old->n * sizeof *old->time;
    struct view_times *new = old->moved ? NULL : views_take(v, size);
    if (!new)
        return old->moved;
    memcpy(new, old, size);
    ((struct view_times *)old)->moved = new;
    return new;
}

/* Returns the copy of a view or leaf; NULL without memory. level: levels below it. */
static const void *views_move(struct mt_views *v, const void *old, unsigned level)
{
    if (!old)
        return NULL;
    if (!level)
        return times_move(v, old);
    struct mt_view *from = (struct mt_view *)old, *new = from->moved ? NULL : views_take(v, sizeof *new);
    if (!new)
        return from->moved;
    new->moved = NULL;
    for (int i = 0; i < BRANCHES; i++)
        new->branch[i] = views_move(v, from->branch[i], level - 1);
    from->moved = new;
    return new;
}

void mt_views_move(struct mt_views *v, const struct mt_view **at)
{
    *at = views_move(v, *at, v->levels);
}

void mt_views_move_end(struct mt_views *v)
{
    views_free(v->old);
    v->old = NULL;
}

uint32_t mt_view_time(const struct mt_views *v, const struct mt_view *a, uint32_t cta, uint32_t thread)
{
    const void *at = a;
    for (unsigned level = v->levels; at && level--;)
        at = ((const struct mt_view *)at)->branch[cta >> (DIGIT * level) & (BRANCHES - 1)];
    const struct view_times *x = at;
    return x && thread < x->n ? x->time[thread] : 0;
}
