/* Several analyses as shards of one: who owns what, copies between them, their results together. */
#define _GNU_SOURCE
#include "comm_internal.h"
#include "memtrace/order.h"
#include <stdlib.h>
#include <string.h>

static size_t transfers_combine(struct mt_transfer *t, size_t n);

void mt_comm_shard(struct mt_comm *c, unsigned shard, unsigned shards)
{
    c->shard = shard;
    c->shards = shards;
    c->readers.most /= shards;
}

int mt_comm_meet(struct mt_comm *c, uint64_t cta, uint32_t smid)
{
    return mt_comm_actor(c, cta, smid) ? 0 : -1;
}

/* Bytes from `address` on, of `length`, that lie in its region. */
static uint64_t in_region(uint64_t address, uint64_t length)
{
    uint64_t room = (1ull << MT_REGION_BITS) - (address & ((1ull << MT_REGION_BITS) - 1));
    return length < room ? length : room;
}

void mt_comm_fill(struct mt_comm *c, uint64_t address, uint64_t length, uint32_t entry, uint64_t start)
{
    /* What is far is in all shards alike: whoever owns a page of it knows better. */
    if (c->shards <= 1 || length >= MT_SHADOW_FAR) {
        mt_shadow_fill(c->shadow, address, length, entry, start);
        return;
    }
    for (uint64_t n; length > 0; address += n, length -= n) {
        n = in_region(address, length);
        if (mt_comm_owns(c, address))
            mt_shadow_fill(c->shadow, address, n, entry, start);
    }
}

void mt_comm_fill_rows(struct mt_comm *c, const struct mt_copy_event *e, uint32_t entry)
{
    const struct mt_comb rows = {e->dst, e->width, e->height, e->dpitch, entry, 0, 0};
    if (c->shards <= 1 || e->height > MT_SHADOW_TALL || e->dpitch == e->width) {
        mt_shadow_fill_rows(c->shadow, &rows);
        return;
    }
    for (uint64_t row = 0; row < e->height && !c->shadow->failed; row++)
        mt_comm_fill(c, e->dst + row * e->dpitch, e->width, entry, 0);
}

/* ---- accesses that cross shards ---- */

void mt_comm_cross(struct mt_comm *c, uint64_t record, uint32_t src, uint32_t dst)
{
    const struct mt_crossing *last = c->ncrossings ? &c->crossings[c->ncrossings - 1] : NULL;
    if (last && last->record == record && last->src == src && last->dst == dst)
        return;
    if (mt_comm_reserve(c, &c->crossings, c->ncrossings, &c->crossing_room, sizeof *c->crossings) == 0)
        c->crossings[c->ncrossings++] = (struct mt_crossing){record, src, dst};
}

static int by_ends(const struct mt_crossing *x, const struct mt_crossing *y)
{
    if (x->src != y->src)
        return x->src < y->src ? -1 : 1;
    return x->dst < y->dst ? -1 : x->dst > y->dst;
}

static int crossing_order(const void *a, const void *b)
{
    const struct mt_crossing *x = a, *y = b;
    int d = by_ends(x, y);
    return d ? d : x->record < y->record ? -1 : x->record > y->record;
}

/* All notes go to the first shard, where each access counts once for each source:
 * as a transfer of no bytes. */
int mt_comm_add_crossings(struct mt_comm *const *shards, unsigned n)
{
    struct mt_comm *c = shards[0];
    for (unsigned i = 1; i < n; i++) {
        for (size_t k = 0; k < shards[i]->ncrossings; k++) {
            const struct mt_crossing *x = &shards[i]->crossings[k];
            mt_comm_cross(c, x->record, x->src, x->dst);
        }
        shards[i]->ncrossings = 0;
    }
    struct mt_crossing *x = c->crossings;
    if (c->ncrossings == 0)
        return c->why ? -1 : 0;
    qsort(x, c->ncrossings, sizeof *x, crossing_order);
    for (size_t i = 0; i < c->ncrossings;) {
        struct mt_transfer t = {.src = x[i].src, .dst = x[i].dst, .last = UINT64_MAX};
        size_t k = i;
        for (; k < c->ncrossings && by_ends(&x[k], &x[i]) == 0; k++)
            t.count += k == i || x[k].record != x[k - 1].record;
        i = k;
        if (mt_comm_reserve(c, &c->crossed, c->ncrossed, &c->crossed_room, sizeof *c->crossed) != 0)
            return -1;
        c->crossed[c->ncrossed++] = t;
    }
    c->ncrossings = 0;
    if (c->ncrossed > 2 * c->crossed_low + 1024) { /* those of the same ends together */
        c->ncrossed = transfers_combine(c->crossed, c->ncrossed);
        c->crossed_low = c->ncrossed;
    }
    return c->why ? -1 : 0;
}

/* ---- copies ---- */

int mt_comm_move(struct mt_comm *const *shards, unsigned n, const struct mt_copy_event *e)
{
    uint32_t nobody;
    const struct mt_rows rows = {e->dst, e->src, e->width, e->height, e->dpitch, e->spitch};
    struct mt_shadow **part = malloc(n * sizeof *part);
    if (!part || mt_comm_nobody(shards[0], e, &nobody) != 0) {
        free(part);
        return mt_comm_fail(shards[0], "out of memory");
    }
    for (unsigned i = 0; i < n; i++)
        part[i] = shards[i]->shadow;
    const struct mt_shadow_parts parts = {part, n, mt_comm_owner, 1u << MT_REGION_BITS};
    int rc = mt_shadow_move(&parts, &rows, nobody);
    free(part);
    return rc == 0    ? 0
           : rc == -1 ? mt_comm_fail(shards[0], "out of memory")
                      : mt_comm_fail(shards[0],
                                     "a copy of so many rows, from memory that was filled in rows, cannot "
                                     "be followed: --no-host leaves copies out");
}

/* ---- results ---- */

MT_ORDER_2(transfer_order, struct mt_transfer, src, dst)

/* Sorts and adds up those with the same ends; how many are left. */
static size_t transfers_combine(struct mt_transfer *t, size_t n)
{
    size_t out = 0;
    if (n) /* t may be NULL */
        qsort(t, n, sizeof *t, transfer_order);
    for (size_t i = 0; i < n; i++) {
        if (out > 0 && transfer_order(&t[out - 1], &t[i]) == 0) {
            t[out - 1].size += t[i].size;
            t[out - 1].count += t[i].count;
        } else {
            t[out++] = t[i];
        }
    }
    return out;
}

static int add_transfers(struct mt_comm *into, const struct mt_transfer *t, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (mt_comm_reserve(into, &into->transfers, into->ntransfers, &into->transfer_room,
                            sizeof *into->transfers) != 0)
            return -1;
        into->transfers[into->ntransfers++] = t[i];
    }
    return 0;
}

int mt_comm_merge(struct mt_comm *into, const struct mt_comm *from)
{
    if (into->nactors != from->nactors || into->nlaunches != from->nlaunches || into->nhosts != from->nhosts)
        return mt_comm_fail(into, "shards disagree about the actors");
    for (size_t i = 0; i < from->nactors; i++) {
        struct mt_actor *a = &into->actors[i];
        const struct mt_actor *b = &from->actors[i];
        a->load += b->load;
        a->store += b->store;
        a->comm_store += b->comm_store;
        for (int s = 0; s < MT_SENDER_KINDS; s++)
            a->from[s] += b->from[s];
    }
    for (size_t i = 0; i < from->nhosts; i++) {
        struct mt_host_actor *a = &into->hosts[i];
        const struct mt_host_actor *b = &from->hosts[i];
        a->load += b->load;
        a->store += b->store;
        a->comm_load += b->comm_load;
        a->comm_store += b->comm_store;
    }
    into->unknown += from->unknown;
    if (mt_keyset_merge(&into->keys, &from->keys) != 0)
        return mt_comm_fail(into, "out of memory");
    if (into->options.readers)
        mt_readers_add(&into->readers, from->readers.lost ? NULL : from->readers.sets + 1,
                       from->readers.n - 1);
    if (add_transfers(into, from->crossed, from->ncrossed) != 0)
        return -1;
    return add_transfers(into, from->transfers, from->ntransfers);
}

int mt_comm_merged(struct mt_comm *c)
{
    int rc = add_transfers(c, c->crossed, c->ncrossed);
    c->ncrossed = 0;
    c->ntransfers = transfers_combine(c->transfers, c->ntransfers);
    return rc;
}
