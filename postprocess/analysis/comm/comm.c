/* Launches, actors and transfers of the communication analysis; its hot loop is in comm_access.c,
 * the host in comm_host.c. */
#define _GNU_SOURCE
#include "comm_internal.h"
#include "memtrace/grow.h"
#include "memtrace/hash.h"
#include <stdlib.h>
#include <string.h>

int mt_comm_fail(struct mt_comm *c, const char *why)
{
    if (!c->why)
        c->why = why;
    return -1;
}

int mt_comm_reserve(struct mt_comm *c, void *array, size_t n, size_t *room, size_t size)
{
    return mt_grow(array, room, n + 1, size) == 0 ? 0 : mt_comm_fail(c, "out of memory");
}

int mt_comm_init(struct mt_comm *c, const struct mt_comm_options *options)
{
    memset(c, 0, sizeof *c);
    c->options = *options;
    c->shadow = malloc(sizeof *c->shadow);
    if (!c->shadow || mt_shadow_init(c->shadow, options->addresses) != 0)
        return mt_comm_fail(c, "out of memory");
    /* Actor 0 does not exist: entry 0 means never written. */
    if (mt_comm_reserve(c, &c->actors, 0, &c->actor_room, sizeof *c->actors) != 0)
        return -1;
    memset(c->actors, 0, sizeof *c->actors);
    c->nactors = 1;
    c->transfer_index.epoch = 1; /* before the first launch there are only host readers */
    if (options->readers)
        mt_readers_init(&c->readers);
    return mt_comm_host_init(c);
}

void mt_comm_forget(struct mt_comm *c)
{
    if (c->shadow)
        mt_shadow_free(c->shadow);
    free(c->shadow);
    c->shadow = NULL;
    mt_readers_forget(&c->readers);
}

void mt_comm_free(struct mt_comm *c)
{
    mt_comm_forget(c);
    free(c->launches);
    free(c->actors);
    free(c->transfers);
    free(c->crossings);
    free(c->crossed);
    mt_comm_host_free(c);
    free(c->actor_index.slot);
    free(c->instance_index.slot);
    free(c->transfer_index.slot);
    mt_keyset_free(&c->keys);
    mt_readers_free(&c->readers);
    memset(c, 0, sizeof *c);
}

/* ---- indices ---- */

static inline uint64_t comm_mix(uint64_t a, uint64_t b)
{
    a = mt_hash_number(a ^ b * 0xd6e8feb86659fd93ull);
    return a ^ a >> 32;
}

enum which { ACTORS, INSTANCES, TRANSFERS };

static inline int comm_same(const struct mt_comm *c, enum which w, uint32_t value, uint64_t a, uint64_t b)
{
    if (w == TRANSFERS) {
        const struct mt_transfer *t = &c->transfers[c->first_transfer + value];
        return t->src == a && t->dst == b;
    }
    const struct mt_actor *actor = &c->actors[value];
    return actor->cta == a && (w == INSTANCES || actor->smid == b);
}

static inline uint64_t hash_of(const struct mt_comm *c, enum which w, uint32_t value)
{
    if (w == TRANSFERS)
        return comm_mix(c->transfers[c->first_transfer + value].src,
                        c->transfers[c->first_transfer + value].dst);
    return comm_mix(c->actors[value].cta, w == INSTANCES ? 0 : c->actors[value].smid);
}

/* The slot of the key (a, b), with `hash` = mix(a, b): live if its epoch is the index's. */
static inline size_t index_slot(const struct mt_comm *c, const struct mt_actor_index *x, enum which w,
                                uint64_t hash, uint64_t a, uint64_t b)
{
    size_t mask = ((size_t)1 << x->bits) - 1, i = hash & mask;
    while (x->slot[i].epoch == x->epoch && !comm_same(c, w, x->slot[i].value, a, b))
        i = (i + 1) & mask;
    return i;
}

/* Room for one more entry. */
static int index_reserve(struct mt_comm *c, struct mt_actor_index *x, enum which w)
{
    if (x->slot && (uint64_t)(x->used + 1) * 2 <= (uint64_t)1 << x->bits)
        return 0;
    struct mt_actor_index old = *x;
    unsigned bits = old.slot ? old.bits + 1 : 10;
    void *p = calloc((size_t)1 << bits, sizeof *x->slot);
    if (!p)
        return mt_comm_fail(c, "out of memory");
    x->slot = p;
    x->bits = bits;
    size_t mask = ((size_t)1 << bits) - 1;
    for (size_t k = 0; old.slot && k < (size_t)1 << old.bits; k++) {
        if (old.slot[k].epoch != x->epoch)
            continue;
        size_t i = hash_of(c, w, old.slot[k].value) & mask;
        while (x->slot[i].epoch == x->epoch)
            i = (i + 1) & mask;
        x->slot[i] = old.slot[k];
    }
    free(old.slot);
    return 0;
}

static inline void index_put(struct mt_actor_index *x, size_t slot, uint32_t value)
{
    x->slot[slot].epoch = x->epoch;
    x->slot[slot].value = value;
    x->used++;
}

static void index_clear(struct mt_actor_index *x)
{
    x->used = 0;
    if (++x->epoch == 0) { /* 2^32 launches: start over */
        if (x->slot)
            memset(x->slot, 0, ((size_t)1 << x->bits) * sizeof *x->slot);
        x->epoch = 1;
    }
}

/* ---- launches, actors, transfers ---- */

int mt_comm_launch(struct mt_comm *c, const char *kernel, int selected)
{
    if (c->nlaunches == UINT32_MAX)
        return mt_comm_fail(c, "more than 2^32 - 1 launches");
    if (mt_comm_reserve(c, &c->launches, c->nlaunches, &c->launch_room, sizeof *c->launches) != 0)
        return -1;
    index_clear(&c->actor_index);
    index_clear(&c->instance_index);
    index_clear(&c->transfer_index);
    mt_readers_launch(&c->readers);
    c->last_actor = 0;
    c->partial |= !selected;
    c->first_transfer = c->ntransfers;
    c->launches[c->nlaunches++] =
        (struct mt_comm_launch){kernel, (uint32_t)c->nactors, (uint32_t)c->nactors, selected};
    return 0;
}

uint32_t mt_comm_actor(struct mt_comm *c, uint64_t cta, uint32_t smid)
{
    uint64_t hash = comm_mix(cta, smid);
    if (index_reserve(c, &c->actor_index, ACTORS) != 0 ||
        index_reserve(c, &c->instance_index, INSTANCES) != 0)
        return 0;
    size_t slot = index_slot(c, &c->actor_index, ACTORS, hash, cta, smid);
    if (c->actor_index.slot[slot].epoch == c->actor_index.epoch)
        return c->actor_index.slot[slot].value;
    if (c->nactors > MT_ENTRY_MAX) {
        mt_comm_fail(c, "more than 2^30 - 1 CTA instances: select inputs or cut the trace");
        return 0;
    }
    if (mt_comm_reserve(c, &c->actors, c->nactors, &c->actor_room, sizeof *c->actors) != 0)
        return 0;
    uint32_t id = (uint32_t)c->nactors++;
    c->actors[id] =
        (struct mt_actor){.cta = cta, .smid = smid, .launch = (uint32_t)(c->nlaunches - 1), .instance = id};
    index_put(&c->actor_index, slot, id);
    slot = index_slot(c, &c->instance_index, INSTANCES, comm_mix(cta, 0), cta, 0);
    if (c->instance_index.slot[slot].epoch == c->instance_index.epoch)
        c->actors[id].instance = c->instance_index.slot[slot].value;
    else
        index_put(&c->instance_index, slot, id);
    c->launches[c->nlaunches - 1].end = id + 1;
    return id;
}

size_t mt_comm_transfer(struct mt_comm *c, uint32_t src, uint32_t dst)
{
    /* A CTA takes from its few neighbours in turn. Readers are of one launch,
     * so what is here stays true. */
    struct mt_recent_transfer *recent = &c->recent_transfers[(src ^ dst << 2) % MT_RECENT_TRANSFERS];
    if (recent->src == src && recent->dst == dst)
        return recent->at;
    if (index_reserve(c, &c->transfer_index, TRANSFERS) != 0)
        return SIZE_MAX;
    size_t slot = index_slot(c, &c->transfer_index, TRANSFERS, comm_mix(src, dst), src, dst);
    if (c->transfer_index.slot[slot].epoch == c->transfer_index.epoch) {
        *recent =
            (struct mt_recent_transfer){src, dst, c->first_transfer + c->transfer_index.slot[slot].value};
        return recent->at;
    }
    if (c->ntransfers - c->first_transfer == UINT32_MAX) {
        mt_comm_fail(c, "more than 2^32 - 1 transfers into one launch");
        return SIZE_MAX;
    }
    if (mt_comm_reserve(c, &c->transfers, c->ntransfers, &c->transfer_room, sizeof *c->transfers) != 0)
        return SIZE_MAX;
    index_put(&c->transfer_index, slot, (uint32_t)(c->ntransfers - c->first_transfer));
    c->transfers[c->ntransfers] = (struct mt_transfer){.src = src, .dst = dst, .last = UINT64_MAX};
    *recent = (struct mt_recent_transfer){src, dst, c->ntransfers};
    return c->ntransfers++;
}
