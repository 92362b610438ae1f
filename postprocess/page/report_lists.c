/* Lists of the report: launches, copies, allocations, sites, the stride graph. Rows are arrays; the page
 * knows the columns by their place (web/data.js). */
#define _GNU_SOURCE
#include "report.h"
#include "analysis/graph/graph.h"
#include "analysis/onchip/onchip.h"
#include "memtrace/order.h"
#include <stdlib.h>
#include <string.h>

enum { MOST_LISTED = 50000, MOST_COPIES = 20000, MOST_NODES = 60, MOST_EDGES = 240 };

/* ---- launches ---- */

static void write_dim(struct mt_json *j, const uint64_t dim[3])
{
    mt_json_array(j, NULL, 1);
    for (int i = 0; i < 3; i++)
        mt_json_u64(j, NULL, dim[i]);
    mt_json_end(j);
}

/* stream, grid, block, shared, begin, end, file, line, records, untraced, status, library */
static void write_event(struct mt_json *j, const struct mt_launch_event *e, uint64_t zero)
{
    mt_json_i64(j, NULL, (int64_t)e->stream); /* -1: of no stream that has a trace */
    write_dim(j, e->grid);
    write_dim(j, e->block);
    mt_json_u64(j, NULL, e->shared);
    mt_json_u64(j, NULL, e->begin_ns >= zero ? e->begin_ns - zero : 0);
    mt_json_u64(j, NULL, e->end_ns >= zero ? e->end_ns - zero : 0);
    mt_json_text(j, NULL, e->file);
    mt_json_u64(j, NULL, e->line);
    if (e->has_records)
        mt_json_u64(j, NULL, e->records);
    else
        mt_json_text(j, NULL, NULL);
    mt_json_u64(j, NULL, e->untraced);
    mt_json_i64(j, NULL, e->status);
    mt_json_text(j, NULL, *e->library ? e->library : NULL);
}

static void write_volume(struct mt_json *j, const struct mt_report_volume *v)
{
    mt_json_u64(j, NULL, v->load);
    mt_json_u64(j, NULL, v->store);
    mt_json_u64(j, NULL, v->comm_load);
    mt_json_u64(j, NULL, v->comm_store);
    mt_json_u64(j, NULL, v->same_launch);
    mt_json_u64(j, NULL, v->same_cta);
}

/* When the first thing happened; the page's times count from here. */
static uint64_t zero_of(const struct mt_report *r)
{
    uint64_t zero = UINT64_MAX;
    for (size_t i = 0; i < r->copies.n; i++)
        if (r->copies.at[i].begin_ns && r->copies.at[i].begin_ns < zero)
            zero = r->copies.at[i].begin_ns;
    for (size_t i = 0; i < r->ranges.n; i++)
        if (r->ranges.at[i].begin_ns && r->ranges.at[i].begin_ns < zero)
            zero = r->ranges.at[i].begin_ns;
    for (size_t i = 0; i < r->launches.n; i++)
        if (r->launches.at[i].event && r->launches.at[i].event->begin_ns < zero)
            zero = r->launches.at[i].event->begin_ns;
    for (size_t i = 0; i < r->untraced.n; i++)
        if (r->untraced.at[i]->begin_ns && r->untraced.at[i]->begin_ns < zero)
            zero = r->untraced.at[i]->begin_ns;
    return zero == UINT64_MAX ? 0 : zero;
}

/* superstep, kernel, six volumes, CTAs, SMs[, the event]; those not traced have superstep null. */
static void write_launches(struct mt_json *j, const struct mt_report *r, uint64_t zero)
{
    mt_json_array(j, "launches", 0);
    for (size_t i = 0; i < r->launches.n; i++) {
        const struct mt_report_launch *l = &r->launches.at[i];
        mt_json_array(j, NULL, 1);
        mt_json_u64(j, NULL, l->superstep);
        mt_json_u64(j, NULL, l->kernel);
        write_volume(j, &l->volume);
        mt_json_u64(j, NULL, l->ctas);
        mt_json_u64(j, NULL, l->sms);
        if (l->event)
            write_event(j, l->event, zero);
        mt_json_end(j);
    }
    for (size_t i = 0; i < r->untraced.n && i < MOST_LISTED; i++) {
        static const struct mt_report_volume none;
        mt_json_array(j, NULL, 1);
        mt_json_text(j, NULL, NULL);
        mt_json_u64(j, NULL, mt_report_kernel((struct mt_report *)r, r->untraced.at[i]->kernel));
        write_volume(j, &none);
        mt_json_u64(j, NULL, 0);
        mt_json_u64(j, NULL, 0);
        write_event(j, r->untraced.at[i], zero);
        mt_json_end(j);
    }
    mt_json_end(j);
}

/* ---- copies ---- */

struct positions {
    uint64_t *seq; /* of launches that are shown, ascending */
    size_t n;
};

/* Launches shown that came before the event. */
static size_t report_lists_position(const struct positions *p, uint64_t seq)
{
    size_t lo = 0, hi = p->n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (p->seq[mid] < seq)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* launches before, kind, to, from, bytes, how many, when. Too many are summed up per place and kind. */
static void write_copies(struct mt_json *j, const struct mt_report *r, const struct positions *p,
                         uint64_t zero)
{
    static const char *const kinds[] = {"h2h", "h2d", "d2h", "d2d", "set", "new"};
    int sum = r->copies.n > MOST_COPIES;
    mt_json_array(j, "copies", 0);
    for (size_t i = 0; i < r->copies.n; i++) {
        const struct mt_copy_event *c = &r->copies.at[i];
        size_t at = report_lists_position(p, c->seq);
        uint64_t bytes = c->width * c->height, count = 1;
        while (sum && i + 1 < r->copies.n && r->copies.at[i + 1].kind == c->kind &&
               report_lists_position(p, r->copies.at[i + 1].seq) == at) {
            i++;
            bytes += r->copies.at[i].width * r->copies.at[i].height;
            count++;
        }
        mt_json_array(j, NULL, 1);
        mt_json_u64(j, NULL, at);
        mt_json_text(j, NULL, kinds[c->kind]);
        if (sum) {
            mt_json_text(j, NULL, NULL);
            mt_json_text(j, NULL, NULL);
        } else {
            mt_json_hex(j, NULL, c->dst);
            mt_json_hex(j, NULL, c->src);
        }
        mt_json_u64(j, NULL, bytes);
        mt_json_u64(j, NULL, count);
        if (c->begin_ns)
            mt_json_u64(j, NULL, c->begin_ns - zero);
        else
            mt_json_text(j, NULL, NULL);
        mt_json_end(j);
    }
    mt_json_end(j);
}

/* name, domain, thread, begin, end, still open */
static void write_ranges(struct mt_json *j, const struct mt_report *r, uint64_t zero)
{
    mt_json_array(j, "ranges", 0);
    for (size_t i = 0; i < r->ranges.n && i < MOST_LISTED; i++) {
        const struct mt_range_event *e = &r->ranges.at[i];
        mt_json_array(j, NULL, 1);
        mt_json_text(j, NULL, e->name);
        mt_json_text(j, NULL, e->domain);
        mt_json_u64(j, NULL, e->thread);
        mt_json_u64(j, NULL, e->begin_ns >= zero ? e->begin_ns - zero : 0);
        mt_json_u64(j, NULL, e->end_ns >= zero ? e->end_ns - zero : 0);
        mt_json_bool(j, NULL, e->open);
        mt_json_end(j);
    }
    mt_json_end(j);
}

/* ---- allocations and sites ---- */

/* id, kind, name, base, bytes, file, line, launches before it, launches before its release */
static void write_allocs(struct mt_json *j, const struct mt_report *r, const struct positions *p)
{
    mt_json_array(j, "allocations", 0);
    for (size_t i = 0; i < r->nallocs && i < MOST_LISTED; i++) {
        const struct mt_alloc_event *a = &r->allocs[i];
        mt_json_array(j, NULL, 1);
        mt_json_u64(j, NULL, a->id);
        mt_json_text(j, NULL, a->kind);
        mt_json_text(j, NULL, a->name);
        mt_json_hex(j, NULL, a->base);
        mt_json_u64(j, NULL, a->bytes);
        mt_json_text(j, NULL, a->file);
        mt_json_u64(j, NULL, a->line);
        mt_json_u64(j, NULL, report_lists_position(p, a->seq));
        if (a->free_seq == MT_SEQ_NONE)
            mt_json_text(j, NULL, NULL);
        else
            mt_json_u64(j, NULL, report_lists_position(p, a->free_seq));
        mt_json_end(j);
    }
    mt_json_end(j);
    mt_json_u64(j, "allocations_in_all", r->nallocs);
}

/* id, file, line, column, operation, bytes, function, variable */
static void write_sites(struct mt_json *j, const struct mt_report *r)
{
    mt_json_array(j, "sites", 0);
    for (size_t i = 0; i < r->sites.n && i < MOST_LISTED; i++) {
        const struct mt_site_event *s = &r->sites.at[i];
        mt_json_array(j, NULL, 1);
        mt_json_u64(j, NULL, s->id);
        mt_json_text(j, NULL, s->file);
        mt_json_u64(j, NULL, s->line);
        mt_json_u64(j, NULL, s->column);
        mt_json_text(j, NULL, s->op);
        mt_json_u64(j, NULL, s->size);
        mt_json_text(j, NULL, s->function);
        mt_json_text(j, NULL, *s->space ? mt_onchip_variable(s) : s->var);
        mt_json_end(j);
    }
    mt_json_end(j);
    mt_json_u64(j, "sites_in_all", r->sites.n);
}

int mt_report_write_lists(struct mt_json *j, const struct mt_report *r)
{
    struct positions p = {.seq = malloc((r->launches.n + 1) * sizeof *p.seq)};
    if (!p.seq)
        return -1;
    for (size_t i = 0; i < r->launches.n; i++)
        if (r->launches.at[i].event)
            p.seq[p.n++] = r->launches.at[i].event->seq;
    qsort(p.seq, p.n, sizeof *p.seq, mt_order_u64);
    uint64_t zero = zero_of(r);
    write_launches(j, r, zero);
    write_copies(j, r, &p, zero);
    write_ranges(j, r, zero);
    write_allocs(j, r, &p);
    write_sites(j, r);
    free(p.seq);
    return 0;
}

/* ---- the stride graph ---- */

static int by_count(const void *a, const void *b, void *arg)
{
    const struct mt_stride_graph *g = arg;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    if (g->nodes[x].count != g->nodes[y].count)
        return g->nodes[x].count > g->nodes[y].count ? -1 : 1;
    return x < y ? -1 : x > y;
}

static int edge_by_count(const void *a, const void *b)
{
    const struct mt_edge *x = a, *y = b;
    if (x->count != y->count)
        return x->count > y->count ? -1 : 1;
    return x->from != y->from ? (x->from < y->from ? -1 : 1) : x->to < y->to ? -1 : x->to > y->to;
}

/* buffer (null: in no allocation), stride, type, bytes of the buffer, kernel, kernels, count */
static void write_node(struct mt_json *j, const struct mt_node *n)
{
    mt_json_array(j, NULL, 1);
    if (n->buffer == MT_BUFFER_NONE)
        mt_json_text(j, NULL, NULL);
    else
        mt_json_u64(j, NULL, n->buffer);
    mt_json_i64(j, NULL, n->stride);
    mt_json_u64(j, NULL, n->type);
    mt_json_u64(j, NULL, n->bytes);
    mt_json_text(j, NULL, n->kernel);
    mt_json_u64(j, NULL, n->kernels);
    mt_json_u64(j, NULL, n->count);
    mt_json_end(j);
}

static void write_edges(struct mt_json *j, const struct mt_stride_graph *g, const uint32_t *place,
                        struct mt_edge *edges)
{
    size_t n = 0;
    for (size_t i = 0; i < g->nedges; i++)
        if (place[g->edges[i].from] && place[g->edges[i].to])
            edges[n++] =
                (struct mt_edge){place[g->edges[i].from] - 1, place[g->edges[i].to] - 1, g->edges[i].count};
    qsort(edges, n, sizeof *edges, edge_by_count);
    mt_json_array(j, "edges", 0);
    for (size_t i = 0; i < n && i < MOST_EDGES; i++) {
        mt_json_array(j, NULL, 1);
        mt_json_u64(j, NULL, edges[i].from);
        mt_json_u64(j, NULL, edges[i].to);
        mt_json_u64(j, NULL, edges[i].count);
        mt_json_end(j);
    }
    mt_json_end(j);
}

static int write_graph(struct mt_json *j, const char *key, const struct mt_report_graph *from)
{
    const struct mt_stride_graph *g = from->graph;
    if (!g)
        return 0;
    uint32_t *order = malloc((g->nnodes + 1) * sizeof *order), *place = calloc(g->nnodes + 1, sizeof *place);
    struct mt_edge *edges = malloc((g->nedges + 1) * sizeof *edges);
    int rc = order && place && edges ? 0 : -1;
    if (rc != 0)
        goto out;
    for (size_t i = 0; i < g->nnodes; i++)
        order[i] = (uint32_t)i;
    qsort_r(order, g->nnodes, sizeof *order, by_count, (void *)g);
    uint64_t all = 0;
    for (size_t i = 0; i < g->nnodes; i++)
        all += g->nodes[i].count;
    mt_json_object(j, key, 0);
    mt_json_text(j, "stride", from->stride);
    mt_json_u64(j, "nodes_in_all", g->nnodes);
    mt_json_u64(j, "edges_in_all", g->nedges);
    mt_json_u64(j, "strides", all);
    mt_json_u64(j, "accesses", g->records);
    mt_json_u64(j, "left_out", g->left_out);
    mt_json_array(j, "nodes", 0);
    for (size_t i = 0; i < g->nnodes && i < MOST_NODES; i++) {
        place[order[i]] = (uint32_t)i + 1;
        write_node(j, &g->nodes[order[i]]);
    }
    mt_json_end(j);
    write_edges(j, g, place, edges);
    mt_json_end(j);
out:
    free(order);
    free(place);
    free(edges);
    return rc;
}

int mt_report_write_graph(struct mt_json *j, const struct mt_report *r)
{
    return write_graph(j, "graph", &r->graph) == 0 && write_graph(j, "lane_graph", &r->lanes) == 0 ? 0 : -1;
}
