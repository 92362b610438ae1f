/* What the analyses hold, in the order of the output. */
#define _GNU_SOURCE
#include "sorted.h"
#include "analysis/base/pairmap.h"
#include "memtrace/grow.h"
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

/* A copy in order; NULL without memory. */
static void *sorted_copy(const void *from, size_t n, size_t size,
                         int (*order)(const void *, const void *, void *), void *arg)
{
    void *to = malloc((n + 1) * size);
    if (to && n) {
        memcpy(to, from, n * size);
        qsort_r(to, n, size, order, arg);
    }
    return to;
}

/* 0 … n - 1 in order; NULL without memory. */
static size_t *sorted_numbers(size_t n, int (*order)(const void *, const void *, void *), void *arg)
{
    size_t *list = malloc((n + 1) * sizeof *list);
    for (size_t i = 0; list && i < n; i++)
        list[i] = i;
    if (list && n)
        qsort_r(list, n, sizeof *list, order, arg);
    return list;
}

static int by_launch(const void *a, const void *b, void *arg)
{
    const struct mt_comm *c = arg;
    size_t x = *(const size_t *)a, y = *(const size_t *)b;
    int d = mt_locality_compare_text(c->launches[x].kernel, c->launches[y].kernel);
    return d ? d : x < y ? -1 : x > y;
}

size_t *mt_launches_sorted(const struct mt_comm *c)
{
    return sorted_numbers(c->nlaunches, by_launch, (void *)c);
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
    return sorted_copy(m->lines.cells[by], m->lines.count[by], sizeof(struct mt_lines_cell), by_place, &o);
}

struct cells_order {
    const struct mt_coalescing_cell *cells;
    const struct mt_sites *sites;
};

static int by_request(const void *a, const void *b, void *arg)
{
    const struct cells_order *o = arg;
    const struct mt_coalescing_cell *x = &o->cells[*(const size_t *)a], *y = &o->cells[*(const size_t *)b];
    int d = mt_locality_compare_text(x->kernel, y->kernel);
    if (!d && x->line != y->line)
        d = strcmp(o->sites->lines.names[x->line], o->sites->lines.names[y->line]);
    return d ? d : (int)x->type - (int)y->type;
}

static int by_stride(const void *a, const void *b, void *arg)
{
    const struct mt_coalescing_stride *x = a, *y = b;
    (void)arg;
    return x->cell != y->cell      ? (x->cell < y->cell ? -1 : 1)
           : x->stride < y->stride ? -1
                                   : x->stride > y->stride;
}

size_t *mt_coalescing_order(const struct mt_coalescing *c, const struct mt_sites *sites)
{
    struct cells_order o = {c->cells, sites};
    return sorted_numbers(c->count, by_request, &o);
}

struct mt_coalescing_stride *mt_coalescing_strides(const struct mt_coalescing *c)
{
    return sorted_copy(c->strides, c->nstrides, sizeof *c->strides, by_stride, NULL);
}

size_t mt_coalescing_first_stride(const struct mt_coalescing_stride *strides, size_t n, size_t cell)
{
    return MT_FIRST(i, n, strides[i].cell >= cell);
}

static int by_side(const void *a, const void *b, void *arg)
{
    (void)arg;
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
    return sorted_copy(x->list, x->count, sizeof *x->list, by_side, NULL);
}

static int by_misses(const void *a, const void *b, void *arg)
{
    const struct mt_sites *sites = arg;
    const struct mt_miss *x = a, *y = b;
    if (x->misses != y->misses)
        return x->misses > y->misses ? -1 : 1;
    if (x->accesses != y->accesses)
        return x->accesses > y->accesses ? -1 : 1;
    int d = strcmp(sites->lines.names[x->line], sites->lines.names[y->line]);
    return d ? d : mt_locality_compare_text(x->kernel, y->kernel);
}

struct mt_miss *mt_misses_sorted(const struct mt_misses *x, const struct mt_sites *sites)
{
    return sorted_copy(x->list, x->count, sizeof *x->list, by_misses, (void *)(uintptr_t)sites);
}

static int by_times(const void *a, const void *b, void *arg)
{
    (void)arg;
    const struct mt_bounce *x = a, *y = b;
    if (x->times != y->times)
        return x->times > y->times ? -1 : 1;
    if (x->superstep != y->superstep)
        return x->superstep < y->superstep ? -1 : 1;
    for (int i = 0; i < 2; i++)
        if (x->line[i] != y->line[i])
            return x->line[i] < y->line[i] ? -1 : 1;
    return x->alloc != y->alloc ? x->alloc < y->alloc ? -1 : 1 : (int)x->type - (int)y->type;
}

struct mt_bounce *mt_bounces_sorted(const struct mt_bounces *x)
{
    return sorted_copy(x->list, x->count, sizeof *x->list, by_times, NULL);
}

static int by_alloc(const void *a, const void *b, void *arg)
{
    (void)arg;
    const struct mt_sharing_cell *x = a, *y = b;
    int d = mt_locality_compare_text(x->kernel, y->kernel);
    if (d || x->superstep != y->superstep)
        return d ? d : x->superstep < y->superstep ? -1 : 1;
    return x->alloc + 1 < y->alloc + 1 ? -1 : x->alloc + 1 > y->alloc + 1; /* none is UINT64_MAX */
}

static int by_accesses(const void *a, const void *b, void *arg)
{
    (void)arg;
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
    *cells = sorted_copy(s->cells, s->count, sizeof **cells, by_alloc, NULL);
    *top = sorted_copy(s->top, s->ntop, sizeof **top, by_accesses, NULL);
    if (*cells && *top)
        return 0;
    free(*cells);
    free(*top);
    return -1;
}

static int by_site(const void *a, const void *b, void *arg)
{
    const struct cells_order *o = arg;
    const struct mt_coalescing_cell *x = &o->cells[*(const size_t *)a], *y = &o->cells[*(const size_t *)b];
    const struct mt_site_location *p = &o->sites->places[x->place], *q = &o->sites->places[y->place];
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
    struct cells_order o = {c->sites.cells, sites};
    return sorted_numbers(c->sites.count, by_site, &o);
}

static int by_kernel(const void *a, const void *b, void *arg)
{
    (void)arg;
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
        qsort_r(order, *n, sizeof *order, by_kernel, NULL);
    return order;
}

/* ---- transfers ---- */

/* By reader, then by writer: hosts last. */
static int end_order(const struct mt_comm *c, uint32_t x, uint32_t y)
{
    if ((x ^ y) & MT_ENTRY_HOST)
        return x & MT_ENTRY_HOST ? 1 : -1;
    if (x & MT_ENTRY_HOST) {
        const struct mt_host_actor *p = &c->hosts[x & MT_ENTRY_MAX], *q = &c->hosts[y & MT_ENTRY_MAX];
        if (p->superstep != q->superstep)
            return p->superstep < q->superstep ? -1 : 1;
        return strcmp(mt_comm_location_name(c, p->place), mt_comm_location_name(c, q->place));
    }
    const struct mt_actor *p = &c->actors[x], *q = &c->actors[y];
    if (p->launch != q->launch)
        return p->launch < q->launch ? -1 : 1;
    uint64_t v = mt_cta_order(p->cta), w = mt_cta_order(q->cta);
    return v < w ? -1 : v > w;
}

static int by_transfer(const void *a, const void *b, void *arg)
{
    const struct mt_comm *c = arg;
    const struct mt_transfer *x = &c->transfers[*(const size_t *)a], *y = &c->transfers[*(const size_t *)b];
    int d = end_order(c, x->dst, y->dst);
    return d ? d : end_order(c, x->src, y->src);
}

size_t *mt_transfers_sort(const struct mt_comm *c)
{
    return sorted_numbers(c->ntransfers, by_transfer, (void *)c);
}

uint32_t *mt_kernel_ranks(const struct mt_comm *c)
{
    size_t *order = mt_launches_sorted(c);
    uint32_t *ranks = malloc((c->nlaunches + 1) * sizeof *ranks), rank = 0;
    for (size_t i = 0; order && ranks && i < c->nlaunches; i++) {
        if (i &&
            mt_locality_compare_text(c->launches[order[i]].kernel, c->launches[order[i - 1]].kernel) != 0)
            rank++;
        ranks[order[i]] = rank;
    }
    if (!order) {
        free(ranks);
        ranks = NULL;
    }
    free(order);
    return ranks;
}

const char **mt_kernels_apart(const struct mt_comm *c, const struct mt_launch_event *const *events, size_t *n)
{
    size_t *order = mt_launches_sorted(c);
    const char **list = malloc((c->nlaunches + 1) * sizeof *list);
    *n = 0;
    for (size_t i = 0; order && list && i < c->nlaunches; i++) {
        const struct mt_launch_event *e = events ? events[order[i]] : NULL;
        const char *kernel = c->launches[order[i]].kernel;
        if (c->launches[order[i]].selected && e && e->parted && (!*n || strcmp(list[*n - 1], kernel) != 0))
            list[(*n)++] = kernel;
    }
    if (!order) {
        free(list);
        list = NULL;
    }
    free(order);
    return list;
}

MT_ORDER_2(by_flow, struct mt_sent, src, dst)

static uint64_t sorted_group(const struct mt_comm *c, const uint32_t *group, uint32_t end)
{
    if (end & MT_ENTRY_HOST)
        return MT_SENT_HOST;
    return group ? group[c->actors[end].launch] : c->actors[end].launch;
}

struct mt_sent *mt_sent_of(const struct mt_comm *c, const uint32_t *group, size_t *n)
{
    struct mt_pairmap index = {0};
    struct mt_sent *list = NULL;
    size_t room = 0;
    int failed = mt_grow(&list, &room, 1, sizeof *list) != 0;
    *n = 0;
    for (size_t i = 0; !failed && i < c->ntransfers; i++) {
        const struct mt_transfer *t = &c->transfers[i];
        uint64_t src = sorted_group(c, group, t->src), dst = sorted_group(c, group, t->dst);
        uint64_t *at = mt_pairmap_get(&index, src, dst, *n);
        if ((failed = !at || mt_grow(&list, &room, *n + 1, sizeof *list) != 0))
            break;
        if (*at == *n)
            list[(*n)++] = (struct mt_sent){.src = src, .dst = dst, .reader = UINT64_MAX};
        struct mt_sent *f = &list[*at];
        uint64_t reader = t->dst & MT_ENTRY_HOST ? UINT64_MAX : c->actors[t->dst].launch;
        f->bytes += t->size;
        f->accesses += t->count;
        f->transfers++;
        f->reader = reader < f->reader ? reader : f->reader;
    }
    mt_pairmap_free(&index);
    if (failed) {
        free(list);
        return NULL;
    }
    qsort(list, *n, sizeof *list, by_flow);
    return list;
}
