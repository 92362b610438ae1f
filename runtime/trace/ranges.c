/* An ordered table of disjoint address ranges, each with a pointer of its user. */
#include "ranges.h"
#include "memtrace/grow.h"
#include "memtrace/order.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Ranges are stored in leaves of this size, so that a table of a million changes as fast as one of a
 * thousand. */
enum { LEAF = 512 };
struct mt_ranges_leaf {
    size_t n;
    struct mt_range at[LEAF];
};

/* A place between two ranges: before number `i` of this leaf. */
struct ranges_place {
    size_t leaf, i;
};

static uint64_t ranges_first(const struct mt_ranges *t, size_t leaf)
{
    return t->at[leaf]->at[0].base;
}

/* Returns the place after the last range with base <= address; i is 0 only if there is none. */
static struct ranges_place ranges_behind(const struct mt_ranges *t, uint64_t address)
{
    size_t leaf = MT_FIRST(i, t->n, ranges_first(t, i) > address);
    if (!leaf--)
        return (struct ranges_place){0, 0};
    return (struct ranges_place){leaf, MT_FIRST(i, t->at[leaf]->n, t->at[leaf]->at[i].base > address)};
}

/* Return the neighbours of a place, or NULL. */
static struct mt_range *ranges_below(const struct mt_ranges *t, struct ranges_place p)
{
    return p.i ? &t->at[p.leaf]->at[p.i - 1] : NULL;
}

static struct mt_range *ranges_above(const struct mt_ranges *t, struct ranges_place p)
{
    if (p.leaf < t->n && p.i < t->at[p.leaf]->n)
        return &t->at[p.leaf]->at[p.i];
    return p.leaf + 1 < t->n ? &t->at[p.leaf + 1]->at[0] : NULL;
}

static uint64_t ranges_length(const struct mt_range *r)
{
    return r->bytes ? r->bytes : 1;
}

/* Makes room for one more range at *p: adds a first leaf, or splits a full one in half, or begins a new one
 * if the table grows at its end. */
static int ranges_make_room(struct mt_ranges *t, struct ranges_place *p)
{
    struct mt_ranges_leaf *old = t->n ? t->at[p->leaf] : NULL, *leaf;
    if (old && old->n < LEAF)
        return 0;
    if (mt_grow(&t->at, &t->capacity, t->n + 1, sizeof *t->at) || !(leaf = malloc(sizeof *leaf)))
        return ENOMEM;
    size_t at = old ? p->leaf + 1 : 0, keep = !old || p->i == LEAF ? LEAF : LEAF / 2;
    leaf->n = LEAF - keep;
    if (old) {
        memcpy(leaf->at, old->at + keep, leaf->n * sizeof *leaf->at);
        old->n = keep;
    }
    memmove(t->at + at + 1, t->at + at, (t->n - at) * sizeof(struct mt_ranges_leaf *));
    t->at[at] = leaf;
    t->n++;
    if (old && (p->i > keep || keep == LEAF))
        *p = (struct ranges_place){at, p->i - keep};
    return 0;
}

static int ranges_insert(struct mt_ranges *t, const struct mt_range *r)
{
    struct ranges_place p = ranges_behind(t, r->base);
    const struct mt_range *below = ranges_below(t, p), *above = ranges_above(t, p);
    if ((below && r->base - below->base < ranges_length(below)) ||
        (above && above->base - r->base < ranges_length(r)))
        return EEXIST;
    if (ranges_make_room(t, &p))
        return ENOMEM;
    struct mt_ranges_leaf *leaf = t->at[p.leaf];
    memmove(leaf->at + p.i + 1, leaf->at + p.i, (leaf->n - p.i) * sizeof *leaf->at);
    leaf->at[p.i] = *r;
    leaf->n++;
    return 0;
}

static void ranges_remove(struct mt_ranges *t, size_t leaf, size_t i)
{
    struct mt_ranges_leaf *l = t->at[leaf];
    memmove(l->at + i, l->at + i + 1, (--l->n - i) * sizeof *l->at);
    if (l->n)
        return;
    free(l);
    memmove(t->at + leaf, t->at + leaf + 1, (--t->n - leaf) * sizeof(struct mt_ranges_leaf *));
}

int mt_ranges_add(struct mt_ranges *t, uint64_t base, uint64_t bytes, void *data)
{
    pthread_rwlock_wrlock(&t->lock);
    int rc = ranges_insert(t, &(struct mt_range){base, bytes, data});
    pthread_rwlock_unlock(&t->lock);
    return rc;
}

int mt_ranges_take(struct mt_ranges *t, uint64_t base, struct mt_range *out)
{
    pthread_rwlock_wrlock(&t->lock);
    struct ranges_place p = ranges_behind(t, base);
    const struct mt_range *below = ranges_below(t, p);
    int found = below && below->base == base;
    if (found) {
        *out = *below;
        ranges_remove(t, p.leaf, p.i - 1);
    }
    pthread_rwlock_unlock(&t->lock);
    return found;
}

int mt_ranges_find(struct mt_ranges *t, uint64_t address, struct mt_range *out)
{
    pthread_rwlock_rdlock(&t->lock);
    const struct mt_range *below = ranges_below(t, ranges_behind(t, address));
    int found = below && address - below->base < ranges_length(below);
    if (found)
        *out = *below;
    pthread_rwlock_unlock(&t->lock);
    return found;
}

void mt_ranges_around(struct mt_ranges *t, uint64_t address, struct mt_range *below, struct mt_range *above)
{
    pthread_rwlock_rdlock(&t->lock);
    struct ranges_place p = ranges_behind(t, address);
    const struct mt_range *b = ranges_below(t, p), *a = ranges_above(t, p);
    *below = b ? *b : (struct mt_range){0};
    *above = a ? *a : (struct mt_range){0};
    pthread_rwlock_unlock(&t->lock);
}

int mt_ranges_pop(struct mt_ranges *t, struct mt_range *out)
{
    pthread_rwlock_wrlock(&t->lock);
    int found = t->n > 0;
    if (found) {
        struct mt_ranges_leaf *last = t->at[t->n - 1];
        *out = last->at[last->n - 1];
        ranges_remove(t, t->n - 1, last->n - 1);
    }
    if (!t->n) { /* an empty table holds no memory */
        free(t->at);
        t->at = NULL;
        t->capacity = 0;
    }
    pthread_rwlock_unlock(&t->lock);
    return found;
}
