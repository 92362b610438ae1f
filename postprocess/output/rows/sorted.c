/* What the analyses hold, in the order of the output. */
#define _GNU_SOURCE
#include "sorted.h"
#include "memtrace/order.h"
#include <stdlib.h>
#include <string.h>

/* ---- volumes ---- */

MT_ORDER_1(by_key, struct mt_volume, key)

void mt_volume_add(struct mt_volume *to, const struct mt_volume *v)
{
    to->load += v->load;
    to->store += v->store;
    to->comm_load += v->comm_load;
    to->comm_store += v->comm_store;
    for (int s = 0; s < MT_SENDER_KINDS; s++)
        to->from[s] += v->from[s];
}

static struct mt_volume sorted_actor(const struct mt_actor *a, enum mt_volume_by by)
{
    return (struct mt_volume){by == MT_VOLUME_CTA  ? mt_cta_order(a->cta)
                              : by == MT_VOLUME_SM ? a->smid
                                                   : 0,
                              a->load,
                              a->store,
                              mt_actor_comm_load(a),
                              a->comm_store,
                              {a->from[0], a->from[1], a->from[2]}};
}

struct mt_volume mt_volume_of_launch(const struct mt_comm *c, size_t launch)
{
    struct mt_volume sum = {0};
    for (uint32_t i = c->launches[launch].first; i < c->launches[launch].end; i++) {
        struct mt_volume v = sorted_actor(&c->actors[i], MT_VOLUME_LAUNCH);
        mt_volume_add(&sum, &v);
    }
    return sum;
}

size_t mt_volumes_of(const struct mt_comm *c, size_t launch, enum mt_volume_by by, struct mt_volume *rows)
{
    size_t n = 0, made = 0;
    if (by == MT_VOLUME_LAUNCH) {
        rows[0] = mt_volume_of_launch(c, launch);
        return 1;
    }
    for (uint32_t i = c->launches[launch].first; i < c->launches[launch].end; i++)
        rows[n++] = sorted_actor(&c->actors[i], by);
    qsort(rows, n, sizeof *rows, by_key);
    for (size_t i = 0; i < n; i++)
        if (made && rows[made - 1].key == rows[i].key)
            mt_volume_add(&rows[made - 1], &rows[i]);
        else
            rows[made++] = rows[i];
    return made;
}

size_t mt_volumes_room(const struct mt_comm *c)
{
    size_t most = 0;
    for (size_t i = 0; i < c->nlaunches; i++) {
        size_t n = c->launches[i].end - c->launches[i].first;
        most = n > most ? n : most;
    }
    return most + 1;
}

/* ---- further analyses ---- */

int mt_locality_compare_text(const char *a, const char *b)
{
    return a == b ? 0 : strcmp(a, b);
}

/* For sorting; NULL without memory. */
static void *sorted_copy(const void *from, size_t n, size_t size)
{
    void *to = malloc((n + 1) * size);
    if (to && n)
        memcpy(to, from, n * size);
    return to;
}

struct lines_order {
    const struct mt_locality *m;
    const struct mt_sites *sites;
    enum mt_lines_by by;
};

const char *mt_lines_place(char *out, const struct mt_locality *m, const struct mt_sites *sites,
                           enum mt_lines_by by, uint64_t place)
{
    if (by == MT_BY_ALLOC)
        return mt_alloc_label(out, m, place);
    return (by == MT_BY_LINE ? &sites->lines : &sites->vars)->names[place];
}

/* Lines and variables by their bytes, allocations by id, what is not known in front of them. */
static int by_place(const void *a, const void *b, void *arg)
{
    const struct mt_lines_cell *x = a, *y = b;
    const struct lines_order *o = arg;
    char left[MT_ALLOC_LABEL], right[MT_ALLOC_LABEL];
    int d = 0;
    if (x->place != y->place && o->by == MT_BY_ALLOC)
        d = x->place + 1 < y->place + 1 ? -1 : 1; /* none is UINT64_MAX */
    else if (x->place != y->place)
        d = strcmp(mt_lines_place(left, o->m, o->sites, o->by, x->place),
                   mt_lines_place(right, o->m, o->sites, o->by, y->place));
    return d ? d : mt_locality_compare_text(x->kernel, y->kernel);
}

struct mt_lines_cell *mt_lines_sorted(const struct mt_locality *m, const struct mt_sites *sites,
                                      enum mt_lines_by by)
{
    struct lines_order o = {m, sites, by};
    struct mt_lines_cell *cells = sorted_copy(m->lines.cells[by], m->lines.count[by], sizeof *cells);
    if (cells)
        qsort_r(cells, m->lines.count[by], sizeof *cells, by_place, &o);
    return cells;
}

struct cells_order {
    const struct mt_coalescing *c;
    const struct mt_sites *sites;
};

static int by_request(const void *a, const void *b, void *arg)
{
    const struct cells_order *o = arg;
    const struct mt_coalescing_cell *x = &o->c->cells[*(const size_t *)a],
                                    *y = &o->c->cells[*(const size_t *)b];
    int d = mt_locality_compare_text(x->kernel, y->kernel);
    if (!d && x->line != y->line)
        d = strcmp(o->sites->lines.names[x->line], o->sites->lines.names[y->line]);
    return d ? d : (int)x->type - (int)y->type;
}

MT_ORDER_2(by_stride, struct mt_coalescing_stride, cell, stride)

size_t *mt_coalescing_order(const struct mt_coalescing *c, const struct mt_sites *sites)
{
    struct cells_order o = {c, sites};
    size_t *order = malloc((c->count + 1) * sizeof *order);
    for (size_t i = 0; order && i < c->count; i++)
        order[i] = i;
    if (order)
        qsort_r(order, c->count, sizeof *order, by_request, &o);
    return order;
}

struct mt_coalescing_stride *mt_coalescing_strides(const struct mt_coalescing *c)
{
    struct mt_coalescing_stride *strides = sorted_copy(c->strides, c->nstrides, sizeof *strides);
    if (strides)
        qsort(strides, c->nstrides, sizeof *strides, by_stride);
    return strides;
}

size_t mt_coalescing_first_stride(const struct mt_coalescing_stride *strides, size_t n, size_t cell)
{
    size_t lo = 0, hi = n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (strides[mid].cell < cell)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static int by_side(const void *a, const void *b)
{
    const struct mt_conflict *x = a, *y = b;
    int d = mt_locality_compare_text(x->kernel, y->kernel);
    if (d || x->superstep != y->superstep)
        return d ? d : x->superstep < y->superstep ? -1 : 1;
    for (int i = 0; i < 2; i++)
        if (x->side[i] != y->side[i])
            return x->side[i] < y->side[i] ? -1 : 1;
    return 0;
}

struct mt_conflict *mt_conflicts_sorted(const struct mt_conflicts *x)
{
    struct mt_conflict *list = sorted_copy(x->list, x->count, sizeof *list);
    if (list)
        qsort(list, x->count, sizeof *list, by_side);
    return list;
}

static int by_alloc(const void *a, const void *b)
{
    const struct mt_sharing_cell *x = a, *y = b;
    int d = mt_locality_compare_text(x->kernel, y->kernel);
    if (d || x->superstep != y->superstep)
        return d ? d : x->superstep < y->superstep ? -1 : 1;
    return x->alloc + 1 < y->alloc + 1 ? -1 : x->alloc + 1 > y->alloc + 1; /* none is UINT64_MAX */
}

static int by_accesses(const void *a, const void *b)
{
    const struct mt_sharing_line *x = a, *y = b;
    if (x->superstep != y->superstep)
        return x->superstep < y->superstep ? -1 : 1;
    if (x->kind != y->kind)
        return x->kind > y->kind ? -1 : 1; /* false sharing first: it can be avoided */
    if (x->accesses != y->accesses)
        return x->accesses > y->accesses ? -1 : 1;
    return x->address < y->address ? -1 : x->address > y->address;
}

int mt_sharing_sorted(const struct mt_sharing *s, struct mt_sharing_cell **cells,
                      struct mt_sharing_line **top)
{
    *cells = malloc((s->count + 1) * sizeof **cells);
    *top = malloc((s->ntop + 1) * sizeof **top);
    if (!*cells || !*top) {
        free(*cells);
        free(*top);
        return -1;
    }
    if (s->count)
        memcpy(*cells, s->cells, s->count * sizeof **cells);
    if (s->ntop)
        memcpy(*top, s->top, s->ntop * sizeof **top);
    qsort(*cells, s->count, sizeof **cells, by_alloc);
    qsort(*top, s->ntop, sizeof **top, by_accesses);
    return 0;
}

struct sites_order {
    const struct mt_coalescing_cell *cells;
    const struct mt_sites *sites;
};

static int by_site(const void *a, const void *b, void *arg)
{
    const struct sites_order *o = arg;
    const struct mt_coalescing_cell *x = &o->cells[*(const size_t *)a], *y = &o->cells[*(const size_t *)b];
    const struct mt_site_place *p = &o->sites->places[x->place], *q = &o->sites->places[y->place];
    int d = strcmp(o->sites->lines.names[x->line], o->sites->lines.names[y->line]);
    if (!d && p->column != q->column)
        d = p->column < q->column ? -1 : 1;
    if (!d)
        d = strcmp(o->sites->vars.names[p->var], o->sites->vars.names[q->var]);
    if (!d)
        d = mt_locality_compare_text(x->kernel, y->kernel);
    return d ? d : (int)x->type - (int)y->type;
}

size_t *mt_coalescing_sites_order(const struct mt_coalescing *c, const struct mt_sites *sites)
{
    struct sites_order o = {c->sites.cells, sites};
    size_t *order = malloc((c->sites.count + 1) * sizeof *order);
    for (size_t i = 0; order && i < c->sites.count; i++)
        order[i] = i;
    if (order)
        qsort_r(order, c->sites.count, sizeof *order, by_site, &o);
    return order;
}

static int by_kernel(const void *a, const void *b)
{
    const struct mt_reuse_launch *const *x = a, *const *y = b;
    int d = mt_locality_compare_text((*x)->kernel, (*y)->kernel);
    return d ? d : (*x)->superstep<(*y)->superstep ? -1 : (*x)->superstep>(*y)->superstep;
}

const struct mt_reuse_launch **mt_reuse_sorted(const struct mt_reuse *r, size_t *n)
{
    const struct mt_reuse_launch **order = malloc((r->count + 1) * sizeof *order);
    *n = 0;
    for (size_t i = 0; order && i < r->count; i++)
        if (r->launches[i].selected)
            order[(*n)++] = &r->launches[i];
    if (*n)
        qsort(order, *n, sizeof *order, by_kernel);
    return order;
}
