/* Sorts what the analysis holds into the order of the output, and writes it. */
#define _GNU_SOURCE
#include "comm_json.h"
#include "../analysis/shadow.h"
#include <stdlib.h>
#include <string.h>

const char *const mt_section_names[MT_SECTIONS] = {"KCV", "KDV", "CCV",       "CDV",
                                                   "SCV", "SDV", "transfers", "addresses"};

/* Ascending order of this number is the order of CTAs: z, then y, then x. */
static uint64_t cta_order(uint64_t word)
{
    return (word & 0xffff) << 48 | (word >> 16 & 0xffff) << 32 | word >> 32;
}

static const char *cta_key(char *out, uint64_t order)
{
    return mt_key_cta(out, order & 0xffffffff, order >> 32 & 0xffff, order >> 48);
}

/* ---- volumes ---- */

struct cell {
    uint64_t key, load, store;
};

static int by_key(const void *a, const void *b)
{
    uint64_t x = ((const struct cell *)a)->key, y = ((const struct cell *)b)->key;
    return x < y ? -1 : x > y;
}

static void write_volume(struct mt_json *j, const char *key, uint64_t load, uint64_t store)
{
    mt_json_object(j, key, 1);
    mt_json_u64(j, "Load", load);
    mt_json_u64(j, "Store", store);
    mt_json_end(j);
}

/* The volumes of one launch: by CTA, by SM, or in all. `cells` has room for one per actor. */
static void write_launch(struct mt_json *j, const struct mt_comm *c, size_t superstep,
                         enum mt_section section, struct cell *cells)
{
    const struct mt_comm_launch *l = &c->launches[superstep];
    int comm = section == MT_KCV || section == MT_CCV || section == MT_SCV;
    int by_cta = section == MT_CCV || section == MT_CDV, by_sm = section == MT_SCV || section == MT_SDV;
    size_t n = 0;
    for (uint32_t i = l->first; i < l->end; i++) {
        const struct mt_actor *a = &c->actors[i];
        cells[n++] = (struct cell){.key = by_cta  ? cta_order(a->cta)
                                          : by_sm ? a->smid
                                                  : 0,
                                   .load = comm ? a->comm_load : a->load,
                                   .store = comm ? a->comm_store : a->store};
    }
    char key[64];
    mt_key_u64(key, superstep);
    if (!by_cta && !by_sm) {
        uint64_t load = 0, store = 0;
        for (size_t i = 0; i < n; i++) {
            load += cells[i].load;
            store += cells[i].store;
        }
        write_volume(j, key, load, store);
        return;
    }
    qsort(cells, n, sizeof *cells, by_key);
    mt_json_object(j, key, 0);
    for (size_t i = 0; i < n;) {
        struct cell sum = cells[i];
        for (i++; i < n && cells[i].key == sum.key; i++) {
            sum.load += cells[i].load;
            sum.store += cells[i].store;
        }
        if (by_cta)
            cta_key(key, sum.key);
        else
            mt_key_u64(key, sum.key);
        write_volume(j, key, sum.load, sum.store);
    }
    mt_json_end(j);
}

static int launch_order(const void *a, const void *b, void *arg)
{
    const struct mt_comm *c = arg;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    const char *p = c->launches[x].kernel, *q = c->launches[y].kernel;
    int d = p == q ? 0 : strcmp(p, q);
    return d ? d : x < y ? -1 : x > y;
}

static void write_volumes(struct mt_json *j, const struct mt_comm *c, const uint32_t *order, size_t n,
                          enum mt_section section, struct cell *cells)
{
    mt_json_object(j, mt_section_names[section], 0);
    const char *open = NULL;
    for (size_t i = 0; i < n; i++) {
        const struct mt_comm_launch *l = &c->launches[order[i]];
        if (!l->selected)
            continue;
        if (!open || strcmp(open, l->kernel) != 0) {
            if (open)
                mt_json_end(j);
            mt_json_object(j, l->kernel, 0);
            open = l->kernel;
        }
        write_launch(j, c, order[i], section, cells);
    }
    if (open)
        mt_json_end(j);
    mt_json_end(j);
}

/* ---- transfers ---- */

/* One end of a transfer; ordered by kernel, CTA, superstep. */
struct end {
    const char *kernel;
    uint64_t cta;
    uint32_t kernel_rank, superstep;
    uint32_t id; /* instance, or MT_ENTRY_HOST | host write */
};

static int end_order(const void *a, const void *b)
{
    const struct end *x = a, *y = b;
    if (x->kernel_rank != y->kernel_rank)
        return x->kernel_rank < y->kernel_rank ? -1 : 1;
    if (x->cta != y->cta)
        return x->cta < y->cta ? -1 : 1;
    return x->superstep < y->superstep ? -1 : x->superstep > y->superstep;
}

struct sorted {
    uint64_t key; /* rank of the source, rank of the destination */
    size_t transfer;
};

static int sorted_order(const void *a, const void *b)
{
    uint64_t x = ((const struct sorted *)a)->key, y = ((const struct sorted *)b)->key;
    return x < y ? -1 : x > y;
}

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

static void write_transfer(struct mt_json *j, const struct mt_transfer *t, const struct end *const at[2],
                           const struct end *const before[2])
{
    int level = 0;
    char key[64];
    if (before[0]) {
        while (same_level(at, before, level))
            level++;
        for (int i = 5; i > level; i--)
            mt_json_end(j);
    }
    for (; level < 5; level++) {
        const struct end *e = at[level / 3];
        mt_json_object(j,
                       level % 3 == 0   ? e->kernel
                       : level % 3 == 1 ? cta_key(key, e->cta)
                                        : mt_key_u64(key, e->superstep),
                       0);
    }
    mt_json_object(j, mt_key_u64(key, at[1]->superstep), 1);
    mt_json_u64(j, "Size", t->size);
    mt_json_u64(j, "cnt", t->count);
    if (!(t->src & MT_ENTRY_HOST) && at[0]->superstep == at[1]->superstep)
        mt_json_bool(j, "unordered", 1);
    mt_json_end(j);
}

/* All ends in order, and rank[id] (instances), rank[nactors + i] (host writes). */
static struct end *sort_ends(const struct mt_comm *c, const uint32_t *order, uint32_t *rank, size_t *count)
{
    struct end *ends = malloc((c->nactors + c->nhosts + 1) * sizeof *ends);
    uint32_t *kernel_rank = malloc((c->nlaunches + 1) * sizeof *kernel_rank);
    uint32_t host_rank = 0, r = 1;
    size_t n = 0;
    if (!ends || !kernel_rank)
        goto out;
    for (size_t i = 0; i < c->nlaunches; i++) {
        const char *name = c->launches[order[i]].kernel;
        if (i > 0 && !same_text(name, c->launches[order[i - 1]].kernel))
            r += 2;
        kernel_rank[order[i]] = r;
        if (strcmp(name, "<host>") < 0)
            host_rank = r + 1;
    }
    for (uint32_t i = 1; i < c->nactors; i++) {
        const struct mt_actor *a = &c->actors[i];
        if (a->instance == i)
            ends[n++] = (struct end){c->launches[a->launch].kernel, cta_order(a->cta), kernel_rank[a->launch],
                                     a->launch, i};
    }
    for (uint32_t i = 0; i < c->nhosts; i++)
        ends[n++] = (struct end){"<host>", 0, host_rank, c->hosts[i], MT_ENTRY_HOST | i};
    qsort(ends, n, sizeof *ends, end_order);
    for (size_t i = 0; i < n; i++)
        rank[ends[i].id & MT_ENTRY_HOST ? c->nactors + (ends[i].id & MT_ENTRY_MAX) : ends[i].id] =
            (uint32_t)i;
    *count = n;
out:
    if (!kernel_rank) {
        free(ends);
        ends = NULL;
    }
    free(kernel_rank);
    return ends;
}

static int write_transfers(struct mt_json *j, const struct mt_comm *c, const uint32_t *order)
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
        size_t src = t->src & MT_ENTRY_HOST ? c->nactors + (t->src & MT_ENTRY_MAX) : t->src;
        sorted[i] = (struct sorted){(uint64_t)rank[src] << 32 | rank[t->dst], i};
    }
    qsort(sorted, c->ntransfers, sizeof *sorted, sorted_order);
    mt_json_object(j, mt_section_names[MT_TRANSFERS], 0);
    const struct end *before[2] = {NULL, NULL};
    for (size_t i = 0; i < c->ntransfers; i++) {
        const struct end *at[2] = {&ends[sorted[i].key >> 32], &ends[sorted[i].key & 0xffffffff]};
        write_transfer(j, &c->transfers[sorted[i].transfer], at, before);
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

int mt_comm_write(struct mt_json *j, const struct mt_comm *c, unsigned sections)
{
    int rc = -1;
    size_t most = 0;
    uint32_t *order = malloc((c->nlaunches + 1) * sizeof *order);
    for (size_t i = 0; i < c->nlaunches; i++) {
        size_t n = c->launches[i].end - c->launches[i].first;
        most = n > most ? n : most;
        if (order)
            order[i] = (uint32_t)i;
    }
    struct cell *cells = malloc((most + 1) * sizeof *cells);
    if (!order || !cells)
        goto out;
    qsort_r(order, c->nlaunches, sizeof *order, launch_order, (void *)c);
    for (unsigned s = MT_KCV; s <= MT_SDV; s++)
        if (sections & 1u << s)
            write_volumes(j, c, order, c->nlaunches, s, cells);
    rc = sections & 1u << MT_TRANSFERS ? write_transfers(j, c, order) : 0;
out:
    free(order);
    free(cells);
    return rc;
}

void mt_addresses_write(struct mt_json *j, const struct mt_addresses *a, const struct mt_comm *c)
{
    static const char *const types[] = {
#define MT_ACCESS_TYPE(name, code, text) [code] = text,
#include "memtrace/record.def"
    };
    char key[64];
    for (size_t k = a->first; k < a->end; k++) {
        mt_json_array(j, mt_key_hex(key, a->keys[k]), 0);
        for (uint64_t i = 0; i < a->count[k]; i++) {
            const struct mt_operation *op = &a->operations[a->place[k] + i];
            const struct mt_raw_record *r = &op->record;
            mt_json_object(j, NULL, 1);
            mt_json_text(j, "kernel", c->launches[op->superstep].kernel);
            mt_json_u64(j, "it", op->superstep);
            mt_json_array(j, "cta", 1);
            mt_json_u64(j, NULL, mt_rec_cta_x(r));
            mt_json_u64(j, NULL, mt_rec_cta_y(r));
            mt_json_u64(j, NULL, mt_rec_cta_z(r));
            mt_json_end(j);
            mt_json_hex(j, "addr", mt_rec_address(r));
            mt_json_u64(j, "smid", mt_rec_smid(r));
            mt_json_u64(j, "size", mt_rec_size(r));
            mt_json_text(j, "type", types[mt_rec_type(r)]);
            mt_json_end(j);
        }
        mt_json_end(j);
    }
}
