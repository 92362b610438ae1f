/* An ordered table of disjoint address ranges, each with a pointer of its user. */
#include "ranges.h"
#include "memtrace/grow.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Index of the first range with base > address. */
static size_t ranges_above(const struct mt_ranges *t, uint64_t address)
{
    size_t lo = 0, hi = t->n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (t->at[mid].base > address)
            hi = mid;
        else
            lo = mid + 1;
    }
    return lo;
}

static uint64_t ranges_length(const struct mt_range *r)
{
    return r->bytes ? r->bytes : 1;
}

static int ranges_insert(struct mt_ranges *t, const struct mt_range *r)
{
    size_t i = ranges_above(t, r->base);
    if ((i && r->base - t->at[i - 1].base < ranges_length(&t->at[i - 1])) ||
        (i < t->n && t->at[i].base - r->base < ranges_length(r)))
        return EEXIST;
    if (mt_grow(&t->at, &t->capacity, t->n + 1, sizeof *t->at))
        return ENOMEM;
    memmove(t->at + i + 1, t->at + i, (t->n - i) * sizeof *t->at);
    t->at[i] = *r;
    t->n++;
    return 0;
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
    size_t i = ranges_above(t, base);
    int found = i && t->at[i - 1].base == base;
    if (found) {
        *out = t->at[i - 1];
        memmove(t->at + i - 1, t->at + i, (t->n - i) * sizeof *t->at);
        t->n--;
    }
    pthread_rwlock_unlock(&t->lock);
    return found;
}

int mt_ranges_find(struct mt_ranges *t, uint64_t address, struct mt_range *out)
{
    pthread_rwlock_rdlock(&t->lock);
    size_t i = ranges_above(t, address);
    int found = i && address - t->at[i - 1].base < ranges_length(&t->at[i - 1]);
    if (found)
        *out = t->at[i - 1];
    pthread_rwlock_unlock(&t->lock);
    return found;
}

void mt_ranges_around(struct mt_ranges *t, uint64_t address, struct mt_range *below, struct mt_range *behind)
{
    pthread_rwlock_rdlock(&t->lock);
    size_t i = ranges_above(t, address);
    *below = i ? t->at[i - 1] : (struct mt_range){0};
    *behind = i < t->n ? t->at[i] : (struct mt_range){0};
    pthread_rwlock_unlock(&t->lock);
}

int mt_ranges_pop(struct mt_ranges *t, struct mt_range *out)
{
    pthread_rwlock_wrlock(&t->lock);
    int found = t->n > 0;
    if (found)
        *out = t->at[--t->n];
    pthread_rwlock_unlock(&t->lock);
    return found;
}
