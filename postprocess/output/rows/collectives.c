/* Bytes that collectives of libraries take from rank to rank. */
#include "collectives.h"
#include "memtrace/grow.h"
#include "memtrace/order.h"
#include <stdlib.h>
#include <string.h>

const char *const mt_collective_ways[MT_COLLECTIVE_WAYS] = {"direct", "ring", "tree"};

/* From whom a rank takes: the result of its own, or of the root alone. */
enum form { ALL, FROM_ROOT, TO_ROOT, FROM_PEER };
static const struct op {
    const char *name;
    enum form form;
    int reduces, routed; /* routed: ring and tree are ways for it */
} ops[] = {
    {"allreduce", ALL, 1, 1},  {"broadcast", FROM_ROOT, 0, 1}, {"reduce", TO_ROOT, 1, 1},
    {"allgather", ALL, 0, 1},  {"reducescatter", ALL, 1, 1},   {"alltoall", ALL, 0, 0},
    {"gather", TO_ROOT, 0, 0}, {"scatter", FROM_ROOT, 0, 0},   {"recv", FROM_PEER, 0, 0},
};

static const struct op *collectives_op(const struct mt_collective *c)
{
    for (size_t i = 0; c->op && i < sizeof ops / sizeof *ops; i++)
        if (strcmp(c->op, ops[i].name) == 0)
            return &ops[i];
    return NULL;
}

static uint64_t collectives_direct(const struct mt_collective *c, const struct op *o, uint64_t from)
{
    uint64_t root = (uint64_t)c->root;
    int takes = o->form == ALL         ? 1
                : o->form == FROM_ROOT ? from == root
                : o->form == TO_ROOT   ? c->rank == root
                                       : from == (uint64_t)c->peer;
    return takes ? c->count * c->size : 0;
}

/* Part k of n of the elements, as even as can be. */
static uint64_t collectives_part(const struct mt_collective *c, uint64_t k)
{
    return (c->count / c->ranks + (k < c->count % c->ranks)) * c->size;
}

static uint64_t collectives_ring(const struct mt_collective *c, const struct op *o, uint64_t from)
{
    uint64_t n = c->ranks, before = (c->rank + n - 1) % n, bytes = c->count * c->size;
    if (from != before)
        return 0;
    if (o->form == ALL)
        return strcmp(o->name, "allreduce") == 0
                   ? 2 * bytes - collectives_part(c, before) - collectives_part(c, c->rank)
                   : (n - 1) * bytes;
    uint64_t first =
        o->form == FROM_ROOT ? (uint64_t)c->root : ((uint64_t)c->root + 1) % n; /* takes nothing */
    return c->rank == first ? 0 : bytes;
}

/* In a tree whose node v has the children 2v + 1 and 2v + 2, counted from the root. */
static uint64_t collectives_tree(const struct mt_collective *c, const struct op *o, uint64_t from)
{
    uint64_t n = c->ranks, root = c->root < 0 ? 0 : (uint64_t)c->root, bytes = c->count * c->size;
    uint64_t v = (c->rank + n - root) % n, u = (from + n - root) % n;
    int up = u && (u - 1) / 2 == v, down = v && (v - 1) / 2 == u;
    return (o->reduces && up ? bytes : 0) + (o->form != TO_ROOT && down ? bytes : 0);
}

uint64_t mt_collective_bytes(const struct mt_collective *c, enum mt_collective_way way, uint64_t from)
{
    const struct op *o = collectives_op(c);
    if (!o || from == c->rank || ((o->form == FROM_ROOT || o->form == TO_ROOT) && c->root < 0))
        return 0;
    if (!o->routed || way == MT_COLLECTIVE_DIRECT)
        return collectives_direct(c, o, from);
    int both = strcmp(o->name, "allgather") && strcmp(o->name, "reducescatter");
    return way == MT_COLLECTIVE_TREE && both ? collectives_tree(c, o, from) : collectives_ring(c, o, from);
}

/* ---- devices ---- */

MT_ORDER_2(collectives_order, struct mt_communicator_event, comm, rank)

int mt_collective_places_add(struct mt_collective_places *p, const struct mt_companion *c)
{
    if (!c->ncommunicators)
        return 0;
    if (mt_grow(&p->list, &p->room, p->n + c->ncommunicators, sizeof *p->list) != 0)
        return -1;
    memcpy(p->list + p->n, c->communicators, c->ncommunicators * sizeof *p->list);
    p->n += c->ncommunicators;
    return 0;
}

void mt_collective_places_order(struct mt_collective_places *p)
{
    if (p->n)
        qsort(p->list, p->n, sizeof *p->list, collectives_order);
}

int mt_collective_place(const struct mt_collective_places *p, uint64_t comm, uint64_t rank, int64_t *device)
{
    const struct mt_communicator_event key = {.comm = comm, .rank = rank},
                                       *e = p->n ? bsearch(&key, p->list, p->n, sizeof key, collectives_order)
                                                 : NULL;
    if (!e)
        return -1;
    *device = e->device;
    return 0;
}

void mt_collective_places_free(struct mt_collective_places *p)
{
    free(p->list);
}
