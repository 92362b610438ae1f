/* The section transfers: who sent what to whom, in the order of the output. */
#define _GNU_SOURCE
#include "comm_json.h"
#include "memtrace/order.h"
#include <stdlib.h>
#include <string.h>

/* One end of a transfer; ordered by kernel, CTA, superstep. */
struct end {
    const char *kernel;
    uint64_t cta; /* of the host: rank of its place */
    uint32_t kernel_rank, superstep;
    uint32_t id; /* instance, or MT_ENTRY_HOST | host actor */
};

MT_ORDER_3(end_order, struct end, kernel_rank, cta, superstep)

struct sorted {
    uint64_t key; /* rank of the source, rank of the destination */
    size_t transfer;
};

MT_ORDER_1(sorted_order, struct sorted, key)

static int same_text(const char *a, const char *b)
{
    return a == b || strcmp(a, b) == 0;
}

/* The six levels that the output nests, by depth. */
static int same_level(const struct end *const a[2], const struct end *const b[2], int level)
{
    const struct end *x = a[level / 3], *y = b[level / 3];
    switch (level % 3) {
    case 0:
        return same_text(x->kernel, y->kernel);
    case 1:
        return x->cta == y->cta;
    default:
        return x->superstep == y->superstep;
    }
}

static const char *end_key(char *out, const struct mt_comm *c, const struct end *e, int level)
{
    if (level == 0)
        return e->kernel;
    if (level == 2)
        return mt_key_u64(out, e->superstep);
    return e->id & MT_ENTRY_HOST ? mt_comm_location_name(c, c->hosts[e->id & MT_ENTRY_MAX].place)
                                 : mt_cta_key(out, e->cta);
}

static void write_transfer(struct mt_json *j, const struct mt_comm *c, const struct mt_transfer *t,
                           const struct end *const at[2], const struct end *const before[2])
{
    int level = 0;
    char key[64];
    if (before[0]) {
        while (same_level(at, before, level))
            level++;
        for (int i = 5; i > level; i--)
            mt_json_end(j);
    }
    for (; level < 5; level++)
        mt_json_object(j, end_key(key, c, at[level / 3], level % 3), 0);
    mt_json_object(j, end_key(key, c, at[1], 2), 1);
    mt_json_u64(j, "Size", t->size);
    mt_json_u64(j, "cnt", t->count);
    if (!(t->src & MT_ENTRY_HOST) && at[0]->superstep == at[1]->superstep)
        mt_json_bool(j, "unordered", 1);
    mt_json_end(j);
}

static int name_order(const void *a, const void *b, void *arg)
{
    return strcmp(mt_comm_location_name(arg, *(const uint32_t *)a),
                  mt_comm_location_name(arg, *(const uint32_t *)b));
}

/* rank[place] in the order of the names; NULL without memory. */
static uint32_t *rank_places(const struct mt_comm *c)
{
    uint32_t *order = malloc(c->places.count * sizeof *order), *rank = malloc(c->places.count * sizeof *rank);
    if (order && rank) {
        for (uint32_t i = 0; i < c->places.count; i++)
            order[i] = i;
        qsort_r(order, c->places.count, sizeof *order, name_order, (void *)c);
        for (uint32_t i = 0; i < c->places.count; i++)
            rank[order[i]] = i;
    } else {
        free(rank);
        rank = NULL;
    }
    free(order);
    return rank;
}

static size_t end_of(const struct mt_comm *c, uint32_t id)
{
    return id & MT_ENTRY_HOST ? c->nactors + (id & MT_ENTRY_MAX) : id;
}

/* All ends in order, and rank[end_of(id)]. */
static struct end *sort_ends(const struct mt_comm *c, const size_t *order, uint32_t *rank, size_t *count)
{
    struct end *ends = malloc((c->nactors + c->nhosts + 1) * sizeof *ends);
    uint32_t *kernel_rank = malloc((c->nlaunches + 1) * sizeof *kernel_rank), *place_rank = rank_places(c);
    uint32_t host_rank = 0, r = 1;
    size_t n = 0;
    if (!ends || !kernel_rank || !place_rank)
        goto out;
    for (size_t i = 0; i < c->nlaunches; i++) {
        const char *name = c->launches[order[i]].kernel;
        if (i > 0 && !same_text(name, c->launches[order[i - 1]].kernel))
            r += 2;
        kernel_rank[order[i]] = r;
        if (strcmp(name, MT_HOST_NAME) < 0)
            host_rank = r + 1;
    }
    for (uint32_t i = 1; i < c->nactors; i++) {
        const struct mt_actor *a = &c->actors[i];
        if (a->instance == i)
            ends[n++] = (struct end){c->launches[a->launch].kernel, mt_cta_order(a->cta),
                                     kernel_rank[a->launch], a->launch, i};
    }
    for (uint32_t i = 0; i < c->nhosts; i++)
        ends[n++] = (struct end){MT_HOST_NAME, place_rank[c->hosts[i].place], host_rank,
                                 c->hosts[i].superstep, MT_ENTRY_HOST | i};
    qsort(ends, n, sizeof *ends, end_order);
    for (size_t i = 0; i < n; i++)
        rank[end_of(c, ends[i].id)] = (uint32_t)i;
    *count = n;
out:
    if (!kernel_rank || !place_rank) {
        free(ends);
        ends = NULL;
    }
    free(kernel_rank);
    free(place_rank);
    return ends;
}

int mt_transfers_write(struct mt_json *j, const struct mt_comm *c, const size_t *order)
{
    int rc = -1;
    size_t n;
    uint32_t *rank = malloc((c->nactors + c->nhosts + 1) * sizeof *rank);
    struct sorted *sorted = malloc((c->ntransfers + 1) * sizeof *sorted);
    struct end *ends = rank ? sort_ends(c, order, rank, &n) : NULL;
    if (!ends || !sorted)
        goto out;
    for (size_t i = 0; i < c->ntransfers; i++) {
        const struct mt_transfer *t = &c->transfers[i];
        sorted[i] = (struct sorted){(uint64_t)rank[end_of(c, t->src)] << 32 | rank[end_of(c, t->dst)], i};
    }
    qsort(sorted, c->ntransfers, sizeof *sorted, sorted_order);
    mt_json_object(j, mt_section_names[MT_TRANSFERS], 0);
    const struct end *before[2] = {NULL, NULL};
    for (size_t i = 0; i < c->ntransfers; i++) {
        const struct end *at[2] = {&ends[sorted[i].key >> 32], &ends[sorted[i].key & 0xffffffff]};
        write_transfer(j, c, &c->transfers[sorted[i].transfer], at, before);
        before[0] = at[0];
        before[1] = at[1];
    }
    for (int i = 0; i < 5 && before[0]; i++)
        mt_json_end(j);
    mt_json_end(j);
    rc = 0;
out:
    free(rank);
    free(sorted);
    free(ends);
    return rc;
}
