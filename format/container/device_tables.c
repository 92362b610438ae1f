/* Tables of the encoder of device chunks: they grow as needed; a new chunk empties them without clearing. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "device_tables.h"
#include "pages.h"
#include "memtrace/hash.h"
#include <string.h>

enum { CONTEXTS = 1024, SLOTS = 32, EPOCHS = 1 << 22 }; /* initial numbers; both stay below 2^21 in a chunk */

/* Makes room in `*p` for `want` elements of `size` bytes. Returns 0, or -1 without memory. */
static int device_tables_grow(void **p, size_t *room, size_t want, size_t size)
{
    if (want <= *room)
        return 0;
    size_t more = *room * 2 > want ? *room * 2 : want;
    void *q = mt_pages(more * size);
    if (!q)
        return -1;
    if (*room)
        memcpy(q, *p, *room * size);
    mt_pages_free(*p, *room * size);
    *p = q;
    *room = more;
    return 0;
}

static int index_room(struct mt_index *x, uint32_t cells)
{
    if (x->cells)
        mt_pages_free(x->cells, ((size_t)x->mask + 1) * sizeof *x->cells);
    x->mask = cells - 1;
    x->cells = mt_pages(cells * sizeof *x->cells);
    return x->cells ? 0 : -1;
}

int mt_tables_begin(struct mt_mtc_device_encoder *e)
{
    if ((!e->own && !(e->own = mt_pages(MT_MTC_OWN_PLACES * sizeof *e->own))) ||
        (!e->visits && !(e->visits = mt_pages(MT_VISITS * sizeof *e->visits))))
        return -1;
    if ((!e->context_index.cells && index_room(&e->context_index, 4 * CONTEXTS) != 0) ||
        (!e->slot_index.cells && index_room(&e->slot_index, 4 * SLOTS) != 0))
        return -1;
    if (device_tables_grow((void **)&e->contexts, &e->context_room, CONTEXTS, sizeof *e->contexts) != 0 ||
        device_tables_grow((void **)&e->slots, &e->slot_room, SLOTS, sizeof *e->slots) != 0)
        return -1;
    if (++e->epoch == EPOCHS) {
        memset(e->own, 0, MT_MTC_OWN_PLACES * sizeof *e->own);
        memset(e->context_index.cells, 0, ((size_t)e->context_index.mask + 1) * sizeof(uint64_t));
        memset(e->slot_index.cells, 0, ((size_t)e->slot_index.mask + 1) * sizeof(uint64_t));
        e->epoch = 1;
    }
    e->context_index.used = e->slot_index.used = 0;
    e->ncontexts = e->nvisits = 0;
    e->nslots = 1;
    e->slots[0].next = e->slots[0].second = MT_NONE;
    return 0;
}

void mt_tables_free(struct mt_mtc_device_encoder *e)
{
    mt_pages_free(e->contexts, e->context_room * sizeof *e->contexts);
    mt_pages_free(e->slots, e->slot_room * sizeof *e->slots);
    mt_pages_free(e->own, MT_MTC_OWN_PLACES * sizeof *e->own);
    mt_pages_free(e->visits, MT_VISITS * sizeof *e->visits);
    if (e->context_index.cells)
        mt_pages_free(e->context_index.cells, ((size_t)e->context_index.mask + 1) * sizeof(uint64_t));
    if (e->slot_index.cells)
        mt_pages_free(e->slot_index.cells, ((size_t)e->slot_index.mask + 1) * sizeof(uint64_t));
}

static uint32_t device_tables_mix(uint64_t a, uint64_t b)
{
    uint64_t h = mt_hash_number(a) ^ (b * UINT64_C(0xc2b2ae3d27d4eb4f));
    return (uint32_t)((h ^ h >> 29) * UINT64_C(0xff51afd7ed558ccd) >> 32);
}

static uint32_t hash_context(uint64_t cta, uint32_t warp, uint32_t smid)
{
    return device_tables_mix(cta, (uint64_t)smid << 32 | warp);
}

static uint32_t hash_slot(uint32_t site, uint32_t meta)
{
    return device_tables_mix(site, meta);
}

static void index_put(struct mt_index *x, uint32_t epoch, uint32_t hash, uint32_t number)
{
    uint32_t i = hash & x->mask;
    while (x->cells[i] >> 32 == epoch)
        i = (i + 1) & x->mask;
    x->cells[i] = (uint64_t)epoch << 32 | number;
}

static void device_tables_put_context(struct mt_mtc_device_encoder *e, uint32_t number)
{
    const struct mt_context *c = &e->contexts[number];
    index_put(&e->context_index, e->epoch, hash_context(c->cta, c->warp, c->smid), number);
}

/* Adds all contexts to the index. Returns 0, or -1 without memory. */
static int device_tables_index_contexts(struct mt_mtc_device_encoder *e)
{
    struct mt_index *x = &e->context_index;
    uint32_t cells = x->mask + 1;
    while (2 * e->ncontexts >= cells)
        cells *= 4;
    if (cells != x->mask + 1) {
        if (index_room(x, cells) != 0)
            return -1;
        x->used = 0;
    }
    for (; x->used < e->ncontexts; x->used++)
        device_tables_put_context(e, x->used);
    return 0;
}

static uint32_t device_tables_find_context(const struct mt_mtc_device_encoder *e,
                                           const struct mt_access_run *r)
{
    const struct mt_index *x = &e->context_index;
    for (uint32_t i = hash_context(r->cta, r->warp, r->smid) & x->mask; x->cells[i] >> 32 == e->epoch;
         i = (i + 1) & x->mask) {
        const struct mt_context *c = &e->contexts[(uint32_t)x->cells[i]];
        if (c->cta == r->cta && c->warp == r->warp && c->smid == r->smid)
            return (uint32_t)x->cells[i];
    }
    return MT_NONE;
}

static uint32_t device_tables_add_context(struct mt_mtc_device_encoder *e, const struct mt_access_run *r,
                                          int *is_new)
{
    uint32_t number = e->ncontexts;
    *is_new = 1;
    if (__builtin_expect(number == e->context_room, 0) &&
        device_tables_grow((void **)&e->contexts, &e->context_room, (size_t)number + 1,
                           sizeof *e->contexts) != 0)
        return MT_NONE;
    e->contexts[number] =
        (struct mt_context){.cta = r->cta, .warp = r->warp, .smid = r->smid, .successor = MT_NONE};
    return e->ncontexts++;
}

static __attribute__((noinline)) uint32_t device_tables_search(struct mt_mtc_device_encoder *e,
                                                               const struct mt_access_run *r, int *is_new)
{
    if (device_tables_index_contexts(e) != 0)
        return MT_NONE;
    uint32_t found = device_tables_find_context(e, r);
    return found != MT_NONE ? found : device_tables_add_context(e, r, is_new);
}

uint32_t mt_context_of(struct mt_mtc_device_encoder *e, const struct mt_access_run *r, int *is_new)
{
    return mt_context_ahead(e, r->cta, r->warp) ? device_tables_add_context(e, r, is_new)
                                                : device_tables_search(e, r, is_new);
}

void mt_own_write(struct mt_mtc_device_encoder *e)
{
    for (uint32_t i = 0; i < e->nvisits; i++) {
        const struct mt_visit *v = &e->visits[i];
        uint64_t who;
        struct mt_own *o = mt_own_place(e, v->context, v->slot, &who);
        o->who = who;
        o->address = v->address;
    }
    e->nvisits = 0;
}

uint32_t mt_slot_find(const struct mt_mtc_device_encoder *e, uint32_t site, uint32_t meta)
{
    const struct mt_index *x = &e->slot_index;
    for (uint32_t i = hash_slot(site, meta) & x->mask; x->cells[i] >> 32 == e->epoch; i = (i + 1) & x->mask) {
        const struct mt_table_slot *s = &e->slots[(uint32_t)x->cells[i]];
        if (s->site == site && s->meta == meta)
            return (uint32_t)x->cells[i];
    }
    return MT_NONE;
}

uint32_t mt_slot_add(struct mt_mtc_device_encoder *e, uint32_t site, uint32_t meta)
{
    struct mt_index *x = &e->slot_index;
    uint32_t number = e->nslots, first = mt_slot_find(e, site, meta);
    if (device_tables_grow((void **)&e->slots, &e->slot_room, (size_t)number + 1, sizeof *e->slots) != 0)
        return MT_NONE;
    struct mt_table_slot *s = &e->slots[number];
    memset(s, 0, offsetof(struct mt_table_slot, shape));
    memset(&s->shape[0], 0, offsetof(struct mt_shape, delta));
    memset(&s->shape[1], 0, offsetof(struct mt_shape, delta));
    s->next = s->second = s->others = s->visited = MT_NONE;
    s->site = site;
    s->meta = meta;
    if (first != MT_NONE) { /* the index has only the first slot of a site and meta */
        s->others = e->slots[first].others;
        e->slots[first].others = number;
        return e->nslots++;
    }
    if (2 * x->used > x->mask) {
        if (index_room(x, 4 * (x->mask + 1)) != 0)
            return MT_NONE;
        for (uint32_t i = 1; i < number; i++)
            if (mt_slot_find(e, e->slots[i].site, e->slots[i].meta) == MT_NONE)
                index_put(x, e->epoch, hash_slot(e->slots[i].site, e->slots[i].meta), i);
    }
    x->used++;
    index_put(x, e->epoch, hash_slot(site, meta), number);
    return e->nslots++;
}
