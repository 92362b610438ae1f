/* A count for each of many 64-bit keys: half the memory of a pairmap, so twice as much of it is in the
 * caches. */
#include "countmap.h"
#include <stdlib.h>
#include <string.h>

static inline size_t countmap_find(const struct mt_countmap *m, uint64_t key)
{
    size_t mask = ((size_t)1 << m->bits) - 1, i = mt_countmap_slot(m, key);
    while (m->slot[i].key != key && m->slot[i].count)
        i = (i + 1) & mask;
    return i;
}

static int countmap_grow(struct mt_countmap *m)
{
    struct mt_countmap old = *m;
    m->bits = old.slot ? old.bits + 1 : 8;
    m->slot = calloc((size_t)1 << m->bits, sizeof *m->slot);
    if (!m->slot) {
        *m = old;
        return -1;
    }
    for (size_t i = 0; old.slot && i < (size_t)1 << old.bits; i++)
        if (old.slot[i].count)
            m->slot[countmap_find(m, old.slot[i].key)] = old.slot[i];
    free(old.slot);
    return 0;
}

uint64_t *mt_countmap_at(struct mt_countmap *m, uint64_t key)
{
    if ((!m->slot || (m->count + 1) * 2 > (size_t)1 << m->bits) && countmap_grow(m) != 0)
        return NULL;
    struct mt_count *c = &m->slot[countmap_find(m, key)];
    m->count += c->count == 0;
    c->key = key;
    return &c->count;
}

void mt_countmap_each(const struct mt_countmap *m, void (*f)(void *arg, uint64_t key, uint64_t count),
                      void *arg)
{
    for (size_t i = 0; m->slot && i < (size_t)1 << m->bits; i++)
        if (m->slot[i].count)
            f(arg, m->slot[i].key, m->slot[i].count);
}

int mt_countmap_keep(struct mt_countmap *m, unsigned (*of)(uint64_t key), unsigned least)
{
    struct mt_countmap some = {0};
    for (size_t i = 0; m->slot && i < (size_t)1 << m->bits; i++)
        if (m->slot[i].count && of(m->slot[i].key) >= least &&
            mt_countmap_add(&some, m->slot[i].key, m->slot[i].count) != 0) {
            mt_countmap_free(&some);
            return -1;
        }
    mt_countmap_free(m);
    *m = some;
    return 0;
}

void mt_countmap_free(struct mt_countmap *m)
{
    free(m->slot);
    memset(m, 0, sizeof *m);
}
