/* Rows of the further analyses, in the order of comm.json. */
#define _GNU_SOURCE
#include "comm_formats.h"
#include "sorted.h"
#include "links.h"
#include "relations_parts.h"
#include "analysis/base/order.h"
#include <math.h>
#include <stdlib.h>

/* An allocation's id and label. */
static void relations_buffer(struct mt_tuples *w, const struct mt_locality *m, uint64_t alloc, char *label)
{
    if (alloc < m->nallocs)
        mt_tuples_number(w, m->allocs[alloc].id);
    else
        mt_tuples_null(w, 1);
    mt_tuples_text(w, mt_alloc_label(label, m, alloc));
}

/* ---- lines ---- */

static int relations_lines_by(struct mt_tuples *w, const struct mt_comm_result *r, enum mt_lines_by by)
{
    const struct mt_lines *lines = &r->locality->lines;
    struct mt_lines_cell *cells = mt_lines_sorted(r->locality, r->sites, by);
    char room[MT_TUPLES_FILE], label[MT_ALLOC_LABEL];
    int rc = cells ? 0 : mt_tuples_memory(w);
    for (size_t i = 0; rc == 0 && i < lines->count[by]; i++) {
        const struct mt_lines_cell *c = &cells[i];
        mt_tuples_text(w, c->kernel);
        if (by == MT_BY_LINE)
            mt_tuples_place(w, r->sites->lines.names[c->place], room);
        else if (by == MT_BY_VAR)
            mt_tuples_text(w, c->place ? r->sites->vars.names[c->place] : NULL);
        else
            relations_buffer(w, r->locality, c->place, label);
        mt_tuples_numbers(w, MT_NUMBERS(c->load, c->store, c->accesses[MT_LOAD], c->accesses[MT_STORE],
                                        c->accesses[MT_ATOMIC], c->accesses[MT_UNKNOWN]));
        rc = mt_tuples_next(w);
    }
    free(cells);
    return rc;
}

int mt_tuples_of_lines(struct mt_tuples *w, const struct mt_comm_result *r)
{
    return relations_lines_by(w, r, MT_BY_LINE);
}

int mt_tuples_of_variables(struct mt_tuples *w, const struct mt_comm_result *r)
{
    return relations_lines_by(w, r, MT_BY_VAR);
}

int mt_tuples_of_buffers(struct mt_tuples *w, const struct mt_comm_result *r)
{
    return relations_lines_by(w, r, MT_BY_ALLOC);
}

/* ---- coalescing ---- */

static void relations_figures(struct mt_tuples *w, const struct mt_coalescing_cell *c)
{
    mt_tuples_numbers(w, MT_NUMBERS(c->requests, c->accesses, c->bytes, c->distinct, c->sectors, c->lines));
}

static void relations_request(struct mt_tuples *w, const struct mt_comm_result *r,
                              const struct mt_coalescing_cell *c, char *room)
{
    mt_tuples_text(w, c->kernel);
    mt_tuples_place(w, r->sites->lines.names[c->line], room);
    mt_tuples_text(w, mt_access_types[c->type]);
}

int mt_tuples_of_coalescing(struct mt_tuples *w, const struct mt_comm_result *r)
{
    const struct mt_coalescing *x = &r->locality->coalescing;
    size_t *order = mt_coalescing_order(x, r->sites);
    char room[MT_TUPLES_FILE];
    int rc = order ? 0 : mt_tuples_memory(w);
    for (size_t i = 0; rc == 0 && i < x->count; i++) {
        const struct mt_coalescing_cell *c = &x->cells[order[i]];
        relations_request(w, r, c, room);
        relations_figures(w, c);
        mt_tuples_real(w, mt_efficiency(c->distinct, c->sectors));
        mt_tuples_number(w, c->single);
        mt_tuples_number(w, c->irregular);
        rc = mt_tuples_next(w);
    }
    free(order);
    return rc;
}

int mt_tuples_of_coalescing_sites(struct mt_tuples *w, const struct mt_comm_result *r)
{
    const struct mt_coalescing *x = &r->locality->coalescing;
    size_t *order = mt_coalescing_sites_order(x, r->sites);
    char room[MT_TUPLES_FILE];
    int rc = order ? 0 : mt_tuples_memory(w);
    for (size_t i = 0; rc == 0 && i < x->sites.count; i++) {
        const struct mt_coalescing_cell *c = &x->sites.cells[order[i]];
        const struct mt_site_location *p = &r->sites->places[c->place];
        mt_tuples_place(w, r->sites->lines.names[c->line], room);
        mt_tuples_number(w, p->column);
        mt_tuples_text(w, p->var ? r->sites->vars.names[p->var] : NULL);
        mt_tuples_text(w, c->kernel);
        mt_tuples_text(w, mt_access_types[c->type]);
        relations_figures(w, c);
        rc = mt_tuples_next(w);
    }
    free(order);
    return rc;
}

int mt_tuples_of_lane_strides(struct mt_tuples *w, const struct mt_comm_result *r)
{
    const struct mt_coalescing *x = &r->locality->coalescing;
    size_t *order = mt_coalescing_order(x, r->sites);
    struct mt_coalescing_stride *strides = mt_coalescing_strides(x);
    char room[MT_TUPLES_FILE];
    int rc = order && strides ? 0 : mt_tuples_memory(w);
    for (size_t i = 0; rc == 0 && i < x->count; i++) {
        size_t k = mt_coalescing_first_stride(strides, x->nstrides, order[i]);
        for (; rc == 0 && k < x->nstrides && strides[k].cell == order[i]; k++) {
            relations_request(w, r, &x->cells[order[i]], room);
            mt_tuples_number(w, (uint64_t)strides[k].stride);
            mt_tuples_number(w, strides[k].requests);
            rc = mt_tuples_next(w);
        }
    }
    free(order);
    free(strides);
    return rc;
}

/* ---- reuse ---- */

static void relations_level(struct mt_tuples *w, const struct mt_reuse_launch *l, int level)
{
    mt_tuples_number(w, l->superstep);
    mt_tuples_text(w, l->kernel);
    mt_tuples_text(w, mt_reuse_levels[level]);
}

static int relations_reuse_row(struct mt_tuples *w, const struct mt_reuse_launch *l, int level)
{
    const struct mt_reuse_counts *c = &l->level[level];
    const double lines = (double)l->level[MT_REUSE_DEVICE].lines,
                 unseen = (double)(1ull << l->sample_bits[MT_REUSE_DEVICE]) - 1, error = mt_reuse_error(l);
    relations_level(w, l, level);
    mt_tuples_numbers(w, MT_NUMBERS(l->uses, c->contexts, c->lines, c->largest, c->cold));
    if (error >= 0) {
        mt_tuples_real(w, error);
        mt_tuples_real(w, sqrt(unseen * lines));
    } else {
        mt_tuples_null(w, 2);
    }
    return mt_tuples_next(w);
}

static int relations_distances(struct mt_tuples *w, const struct mt_reuse_launch *l, int level)
{
    int rc = 0;
    for (unsigned b = 0; rc == 0 && b < MT_REUSE_BUCKETS; b++) {
        if (!l->level[level].histogram[b])
            continue;
        relations_level(w, l, level);
        mt_tuples_number(w, b ? 1ull << (b - 1) : 0);
        mt_tuples_number(w, l->level[level].histogram[b]);
        rc = mt_tuples_next(w);
    }
    return rc;
}

/* Calls `row` for each selected launch and level. */
static int relations_reuse_each(struct mt_tuples *w, const struct mt_comm_result *r,
                                int (*row)(struct mt_tuples *, const struct mt_reuse_launch *, int))
{
    size_t n;
    const struct mt_reuse_launch **order = mt_reuse_sorted(&r->locality->reuse, &n);
    int rc = order ? 0 : mt_tuples_memory(w);
    for (size_t i = 0; i < n; i++)
        for (int level = 0; rc == 0 && level < MT_REUSE_LEVELS; level++)
            rc = row(w, order[i], level);
    free(order);
    return rc;
}

int mt_tuples_of_reuse(struct mt_tuples *w, const struct mt_comm_result *r)
{
    return relations_reuse_each(w, r, relations_reuse_row);
}

int mt_tuples_of_reuse_distances(struct mt_tuples *w, const struct mt_comm_result *r)
{
    return relations_reuse_each(w, r, relations_distances);
}

/* ---- sharing ---- */

int mt_tuples_of_sharing(struct mt_tuples *w, const struct mt_comm_result *r)
{
    struct mt_sharing_cell *cells;
    struct mt_sharing_line *top;
    char label[MT_ALLOC_LABEL];
    if (mt_sharing_sorted(&r->locality->sharing, &cells, &top) != 0)
        return mt_tuples_memory(w);
    int rc = 0;
    for (size_t i = 0; i < r->locality->sharing.count; i++)
        for (int kind = 0; rc == 0 && kind < MT_SHARING_KINDS; kind++) {
            mt_tuples_number(w, cells[i].superstep);
            mt_tuples_text(w, cells[i].kernel);
            relations_buffer(w, r->locality, cells[i].alloc, label);
            mt_tuples_text(w, mt_sharing_kinds[kind]);
            mt_tuples_number(w, cells[i].lines[kind]);
            mt_tuples_number(w, cells[i].accesses[kind]);
            rc = mt_tuples_next(w);
        }
    free(cells);
    free(top);
    return rc;
}

int mt_tuples_of_traffic(struct mt_tuples *w, const struct mt_comm_result *r)
{
    const struct mt_traffic_grid *g = &r->locality->traffic.launches;
    char label[MT_ALLOC_LABEL];
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < g->count; i++) {
        const struct mt_traffic_cell *c = &g->cells[i];
        relations_buffer(w, r->locality, c->alloc, label);
        mt_tuples_numbers(
            w, MT_NUMBERS((uint64_t)c->superstep << g->step_bits, 1ull << g->step_bits, c->load, c->store));
        for (int type = MT_LOAD; type <= MT_UNKNOWN; type++)
            mt_tuples_number(w, c->accesses[type]);
        rc = mt_tuples_next(w);
    }
    return rc;
}

int mt_tuples_of_shared_lines(struct mt_tuples *w, const struct mt_comm_result *r)
{
    struct mt_sharing_cell *cells;
    struct mt_sharing_line *top;
    char label[MT_ALLOC_LABEL];
    if (mt_sharing_sorted(&r->locality->sharing, &cells, &top) != 0)
        return mt_tuples_memory(w);
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < r->locality->sharing.ntop; i++) {
        mt_tuples_number(w, top[i].superstep);
        mt_tuples_text(w, r->comm->launches[top[i].superstep].kernel);
        mt_tuples_number(w, top[i].address);
        relations_buffer(w, r->locality, top[i].alloc, label);
        mt_tuples_text(w, mt_sharing_kinds[top[i].kind]);
        mt_tuples_number(w, top[i].accesses);
        mt_tuples_maybe(w, top[i].kind == MT_SHARED_FALSE, top[i].writers);
        rc = mt_tuples_next(w);
    }
    free(cells);
    free(top);
    return rc;
}

/* ---- conflicts ---- */

static int relations_conflict(struct mt_tuples *w, const struct mt_comm_result *r,
                              const struct mt_conflict *c, struct mt_buffers *buffers)
{
    const struct mt_locality *m = r->locality;
    char room[2][MT_TUPLES_FILE], label[MT_ALLOC_LABEL];
    mt_buffers_launch(buffers, c->seq);
    const struct mt_alloc_event *a = mt_buffers_find(buffers, c->address);
    mt_tuples_number(w, c->superstep);
    mt_tuples_text(w, c->kernel);
    for (int i = 0; i < 2; i++) {
        mt_tuples_text(w, mt_access_types[mt_side_type(c->side[i])]);
        mt_tuples_place(w, r->sites->lines.names[mt_side_line(c->side[i])], room[i]);
        mt_tuples_cta(w, c->cta[i]);
    }
    mt_tuples_number(w, c->bytes);
    mt_tuples_number(w, c->address);
    relations_buffer(w, m, a ? mt_buffers_place(buffers, a) : UINT64_MAX, label);
    mt_tuples_number(w, c->cooperative != 0);
    return mt_tuples_next(w);
}

int mt_tuples_of_conflicts(struct mt_tuples *w, const struct mt_comm_result *r)
{
    const struct mt_locality *m = r->locality;
    struct mt_conflict *list = mt_conflicts_sorted(&m->conflicts);
    struct mt_buffers buffers;
    if (!list || mt_buffers_init(&buffers, m->allocs, m->nallocs) != 0) {
        free(list);
        return mt_tuples_memory(w);
    }
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < m->conflicts.count; i++)
        rc = relations_conflict(w, r, &list[i], &buffers);
    mt_buffers_free(&buffers);
    free(list);
    return rc;
}

/* ---- misses ---- */

int mt_tuples_of_misses(struct mt_tuples *w, const struct mt_comm_result *r)
{
    const struct mt_misses *x = &r->locality->misses;
    struct mt_miss *list = mt_misses_sorted(x, r->sites);
    char room[MT_TUPLES_FILE];
    int rc = list ? 0 : mt_tuples_memory(w);
    for (size_t i = 0; rc == 0 && i < x->count; i++) {
        const struct mt_miss *m = &list[i];
        mt_tuples_text(w, m->kernel);
        mt_tuples_place(w, r->sites->lines.names[m->line], room);
        mt_tuples_numbers(w, MT_NUMBERS(m->accesses, m->misses, m->store_misses, m->fetched, m->used));
        rc = mt_tuples_next(w);
    }
    free(list);
    return rc;
}

/* ---- devices ---- */

int mt_tuples_of_devices(struct mt_tuples *w, const struct mt_comm_result *r)
{
    size_t n;
    struct mt_device_flow *list = mt_device_flows(r, 0, &n);
    int rc = list ? 0 : mt_tuples_memory(w);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        struct mt_device_flow_place from = mt_device_flow_place(list[i].from),
                                    to = mt_device_flow_place(list[i].to);
        mt_tuples_maybe(w, list[i].superstep != MT_FLOW_NO_LAUNCH, list[i].superstep);
        mt_tuples_text(w, list[i].kernel ? list[i].kernel : "");
        mt_tuples_text(w, mt_device_flow_names[list[i].how]);
        mt_tuples_text(w, from.text);
        mt_tuples_text(w, to.text);
        mt_tuples_numbers(w, MT_NUMBERS(list[i].accesses, list[i].bytes));
        rc = mt_tuples_next(w);
    }
    free(list);
    return rc;
}

/* ---- bounces ---- */

int mt_tuples_of_bounces(struct mt_tuples *w, const struct mt_comm_result *r)
{
    const struct mt_locality *m = r->locality;
    struct mt_bounce *list = mt_bounces_sorted(&m->bounces);
    char room[2][MT_TUPLES_FILE], label[MT_ALLOC_LABEL];
    int rc = list ? 0 : mt_tuples_memory(w);
    for (size_t i = 0; rc == 0 && i < m->bounces.count; i++) {
        const struct mt_bounce *b = &list[i];
        mt_tuples_text(w, b->kernel);
        relations_buffer(w, m, b->alloc, label);
        for (int k = 0; k < 2; k++)
            mt_tuples_place(w, r->sites->lines.names[b->line[k]], room[k]);
        mt_tuples_text(w, mt_access_types[b->type]);
        mt_tuples_numbers(w,
                          MT_NUMBERS(b->times, b->same, b->thread[0] >> 32, b->thread[1] >> 32, b->address));
        rc = mt_tuples_next(w);
    }
    free(list);
    return rc;
}

/* ---- placement ---- */

static void relations_distinct(struct mt_tuples *w, const struct mt_placement *p, const uint64_t *bytes,
                               size_t i)
{
    if (p->distinct_known)
        mt_tuples_number(w, bytes[i]);
    else
        mt_tuples_null(w, 1);
}

int mt_tuples_of_links(struct mt_tuples *w, const struct mt_comm_result *r)
{
    size_t n;
    uint64_t outside;
    struct mt_link_load *list = mt_link_loads(r, &n, &outside);
    int rc = list ? 0 : mt_tuples_memory(w);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        mt_tuples_text(w, list[i].link.name);
        mt_tuples_text(w, mt_topology_words[list[i].link.kind]);
        mt_tuples_real(w, list[i].link.speed);
        mt_tuples_maybe(w, list[i].superstep != MT_FLOW_NO_LAUNCH, list[i].superstep);
        mt_tuples_text(w, list[i].kernel ? list[i].kernel : "");
        mt_tuples_text(w, mt_device_flow_names[list[i].how]);
        mt_tuples_numbers(w, MT_NUMBERS(list[i].bytes));
        rc = mt_tuples_next(w);
    }
    free(list);
    return rc;
}

int mt_tuples_of_placement(struct mt_tuples *w, const struct mt_comm_result *r)
{
    const struct mt_placement *p = r->placement;
    int rc = 0;
    for (size_t i = 0; i < p->nlaunches; i++)
        for (int k = 0; rc == 0 && r->comm->launches[i].selected && k < MT_PLACE_POLICIES; k++) {
            mt_tuples_number(w, i);
            mt_tuples_text(w, r->comm->launches[i].kernel);
            mt_tuples_text(w, mt_placement_policies[k]);
            mt_tuples_number(w, p->launches[i].load);
            mt_tuples_number(w, p->launches[i].cross[k]);
            relations_distinct(w, p, p->launches[i].distinct, (size_t)k);
            rc = mt_tuples_next(w);
        }
    return rc;
}

int mt_tuples_of_placement_traffic(struct mt_tuples *w, const struct mt_comm_result *r)
{
    const struct mt_placement *p = r->placement;
    int rc = 0;
    for (int k = 0; k < MT_PLACE_POLICIES; k++)
        for (unsigned i = 0; rc == 0 && i < p->devices * p->devices; i++) {
            mt_tuples_text(w, mt_placement_policies[k]);
            mt_tuples_numbers(w, MT_NUMBERS(i / p->devices, i % p->devices, p->traffic[k][i]));
            relations_distinct(w, p, p->distinct_traffic[k], i);
            rc = mt_tuples_next(w);
        }
    return rc;
}

int mt_tuples_of_placement_ctas(struct mt_tuples *w, const struct mt_comm_result *r)
{
    const struct mt_placement *p = r->placement;
    int rc = 0;
    for (size_t i = 0; i < p->nlaunches; i++)
        for (size_t k = p->launches[i].first; rc == 0 && k < p->launches[i].end; k++) {
            mt_tuples_number(w, i);
            mt_tuples_cta(w, mt_cta_of_order(p->ctas[k]));
            mt_tuples_number(w, p->device[MT_PLACE_MINCUT][k]);
            rc = mt_tuples_next(w);
        }
    return rc;
}
