/* Open addressing, linear probing, at most half full. */
#include "pairmap.h"
#include <stdlib.h>
#include <string.h>

static size_t pairmap_slot_of(const struct mt_pairmap *m, uint64_t a, uint64_t b)
{
    size_t mask = ((size_t)1 << m->bits) - 1;
    size_t i = mt_pairmap_slot(m, a, b);
    while (m->slot[i].epoch == m->epoch && (m->slot[i].a != a || m->slot[i].b != b))
        i = (i + 1) & mask;
    return i;
}

static int pairmap_grow(struct mt_pairmap *m)
{
    struct mt_pairmap old = *m;
    m->bits = old.slot ? old.bits + 1 : 8;
    m->slot = calloc((size_t)1 << m->bits, sizeof *m->slot);
    if (!m->slot) {
        *m = old;
        return -1;
    }
    if (m->epoch == 0)
        m->epoch = 1;
    for (size_t i = 0; old.slot && i < (size_t)1 << old.bits; i++)
        if (old.slot[i].epoch == m->epoch)
            m->slot[pairmap_slot_of(m, old.slot[i].a, old.slot[i].b)] = old.slot[i];
    free(old.slot);
    return 0;
}

uint64_t *mt_pairmap_get(struct mt_pairmap *m, uint64_t a, uint64_t b, uint64_t fresh)
{
    if ((!m->slot || (m->count + 1) * 2 > (size_t)1 << m->bits) && pairmap_grow(m) != 0)
        return NULL;
    struct mt_pair *p = &m->slot[pairmap_slot_of(m, a, b)];
    if (p->epoch != m->epoch) {
        *p = (struct mt_pair){a, b, fresh, m->epoch};
        m->count++;
    }
    return &p->value;
}

const uint64_t *mt_pairmap_find(const struct mt_pairmap *m, uint64_t a, uint64_t b)
{
    const struct mt_pair *p = m->slot ? &m->slot[pairmap_slot_of(m, a, b)] : NULL;
    return p && p->epoch == m->epoch ? &p->value : NULL;
}

void mt_pairmap_clear(struct mt_pairmap *m)
{
    m->epoch++;
    m->count = 0;
}

void mt_pairmap_each(const struct mt_pairmap *m, void (*f)(void *arg, uint64_t a, uint64_t b, uint64_t value),
                     void *arg)
{
    for (size_t i = 0; m->slot && i < (size_t)1 << m->bits; i++)
        if (m->slot[i].epoch == m->epoch)
            f(arg, m->slot[i].a, m->slot[i].b, m->slot[i].value);
}

void mt_pairmap_free(struct mt_pairmap *m)
{
    free(m->slot);
    memset(m, 0, sizeof *m);
}
