/* Lists of the report: launches, copies, allocations, sites, the stride graph. */
#define _GNU_SOURCE
#include "report.h"
#include "page_list.h"
#include "analysis/graph/graph.h"
#include "analysis/onchip/onchip.h"
#include "memtrace/order.h"
#include <stdlib.h>
#include <string.h>

enum { MOST_LISTED = 50000, MOST_COPIES = 20000, MOST_NODES = 60, MOST_EDGES = 240 };

/* ---- launches ---- */

/* From the stream to the library; none of it without an event. */
static void write_event(struct mt_tuples *w, const struct mt_launch_event *e, uint64_t zero)
{
    if (!e) {
        mt_tuples_null(w, 10);
        mt_tuples_text(w, "");
        mt_tuples_null(w, 5);
        return;
    }
    mt_tuples_number(w, e->stream);
    for (int i = 0; i < 3; i++)
        mt_tuples_number(w, e->grid[i]);
    for (int i = 0; i < 3; i++)
        mt_tuples_number(w, e->block[i]);
    mt_tuples_numbers(w, MT_NUMBERS(e->shared, e->begin_ns >= zero ? e->begin_ns - zero : 0,
                                    e->end_ns >= zero ? e->end_ns - zero : 0));
    mt_tuples_text(w, e->file);
    mt_tuples_number(w, e->line);
    mt_tuples_maybe(w, e->has_records, e->records);
    mt_tuples_number(w, e->untraced);
    mt_tuples_number(w, (uint64_t)(int64_t)e->status);
    if (*e->library)
        mt_tuples_text(w, e->library);
    else
        mt_tuples_null(w, 1);
}

void mt_report_write_volume(struct mt_tuples *w, const struct mt_report_volume *v)
{
    mt_tuples_numbers(
        w, MT_NUMBERS(v->load, v->store, v->comm_load, v->comm_store, v->same_launch, v->same_cta));
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

static int write_launches(struct mt_json *j, const struct mt_report *r, uint64_t zero)
{
    struct mt_page_rows p;
    mt_page_begin(&p, j, MT_PAGE_launches);
    for (size_t i = 0; i < r->launches.n; i++) {
        const struct mt_report_launch *l = &r->launches.at[i];
        mt_tuples_number(&p.w, l->superstep);
        mt_tuples_number(&p.w, l->kernel);
        mt_report_write_volume(&p.w, &l->volume);
        mt_tuples_number(&p.w, l->ctas);
        mt_tuples_number(&p.w, l->sms);
        write_event(&p.w, l->event, zero);
        mt_page_row(&p);
    }
    for (size_t i = 0; i < r->untraced.n && i < MOST_LISTED; i++) {
        static const struct mt_report_volume none;
        mt_tuples_null(&p.w, 1);
        mt_tuples_number(&p.w, mt_report_kernel((struct mt_report *)r, r->untraced.at[i]->kernel));
        mt_report_write_volume(&p.w, &none);
        mt_tuples_number(&p.w, 0);
        mt_tuples_number(&p.w, 0);
        write_event(&p.w, r->untraced.at[i], zero);
        mt_page_row(&p);
    }
    return mt_page_end(&p);
}

/* ---- copies ---- */

struct positions {
    uint64_t *seq; /* of launches that are shown, ascending */
    size_t n;
};

/* Launches shown that came before the event. */
static size_t report_lists_position(const struct positions *p, uint64_t seq)
{
    return MT_FIRST(i, p->n, p->seq[i] >= seq);
}

/* Too many are summed up per place and kind. */
static int write_copies(struct mt_json *j, const struct mt_report *r, const struct positions *p,
                        uint64_t zero)
{
    static const char *const kinds[] = {"h2h", "h2d", "d2h", "d2d", "set", "new"};
    int sum = r->copies.n > MOST_COPIES;
    struct mt_page_rows page;
    mt_page_begin(&page, j, MT_PAGE_copies);
    for (size_t i = 0; i < r->copies.n; i++) {
        const struct mt_copy_event *c = &r->copies.at[i];
        size_t at = report_lists_position(p, c->seq);
        uint64_t bytes = c->width * c->height, count = 1;
        char to[64], from[64];
        while (sum && i + 1 < r->copies.n && r->copies.at[i + 1].kind == c->kind &&
               report_lists_position(p, r->copies.at[i + 1].seq) == at) {
            i++;
            bytes += r->copies.at[i].width * r->copies.at[i].height;
            count++;
        }
        mt_tuples_number(&page.w, at);
        mt_tuples_text(&page.w, kinds[c->kind]);
        if (sum) {
            mt_tuples_null(&page.w, 2);
        } else {
            mt_tuples_text(&page.w, mt_key_hex(to, c->dst));
            mt_tuples_text(&page.w, mt_key_hex(from, c->src));
        }
        mt_tuples_number(&page.w, bytes);
        mt_tuples_number(&page.w, count);
        mt_tuples_maybe(&page.w, c->begin_ns != 0, c->begin_ns - zero);
        mt_page_row(&page);
    }
    return mt_page_end(&page);
}

static int write_ranges(struct mt_json *j, const struct mt_report *r, uint64_t zero)
{
    struct mt_page_rows p;
    mt_page_begin(&p, j, MT_PAGE_ranges);
    for (size_t i = 0; i < r->ranges.n && i < MOST_LISTED; i++) {
        const struct mt_range_event *e = &r->ranges.at[i];
        mt_tuples_text(&p.w, e->name);
        mt_tuples_text(&p.w, e->domain);
        mt_tuples_numbers(&p.w, MT_NUMBERS(e->thread, e->begin_ns >= zero ? e->begin_ns - zero : 0,
                                           e->end_ns >= zero ? e->end_ns - zero : 0, e->open != 0));
        mt_page_row(&p);
    }
    return mt_page_end(&p);
}

/* ---- allocations and sites ---- */

static int write_allocs(struct mt_json *j, const struct mt_report *r, const struct positions *p)
{
    struct mt_page_rows page;
    mt_page_begin(&page, j, MT_PAGE_allocations);
    for (size_t i = 0, n = 0; i < r->nallocs && n < MOST_LISTED; i++) {
        const struct mt_alloc_event *a = &r->allocs[i];
        char base[64];
        if (a->first && a->first - 1 != i)
            continue; /* of a host program a row for each call */
        n++;
        mt_tuples_number(&page.w, a->id);
        mt_tuples_text(&page.w, a->kind);
        mt_tuples_text(&page.w, a->name);
        mt_tuples_text(&page.w, mt_key_hex(base, a->base));
        mt_tuples_number(&page.w, mt_alloc_bytes(a));
        mt_tuples_number(&page.w, a->like ? a->like : 1);
        mt_tuples_text(&page.w, a->file);
        mt_tuples_number(&page.w, a->line);
        mt_tuples_number(&page.w, report_lists_position(p, a->seq));
        mt_tuples_maybe(&page.w, a->free_seq != MT_SEQ_NONE, report_lists_position(p, a->free_seq));
        mt_page_row(&page);
    }
    int rc = mt_page_end(&page);
    mt_json_u64(j, "allocations_in_all", r->nallocs);
    return rc;
}

static int write_sites(struct mt_json *j, const struct mt_report *r)
{
    struct mt_page_rows p;
    mt_page_begin(&p, j, MT_PAGE_sites);
    for (size_t i = 0; i < r->sites.n && i < MOST_LISTED; i++) {
        const struct mt_site_event *s = &r->sites.at[i];
        mt_tuples_number(&p.w, s->id);
        mt_tuples_text(&p.w, s->file);
        mt_tuples_number(&p.w, s->line);
        mt_tuples_number(&p.w, s->column);
        mt_tuples_text(&p.w, s->op);
        mt_tuples_number(&p.w, s->size);
        mt_tuples_text(&p.w, s->function);
        mt_tuples_text(&p.w, *s->space ? mt_onchip_variable(s) : s->var);
        mt_page_row(&p);
    }
    int rc = mt_page_end(&p);
    mt_json_u64(j, "sites_in_all", r->sites.n);
    return rc;
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
    int bad = write_launches(j, r, zero) || write_copies(j, r, &p, zero) || write_ranges(j, r, zero) ||
              write_allocs(j, r, &p) || write_sites(j, r);
    free(p.seq);
    return bad ? -1 : 0;
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

static int write_nodes(struct mt_json *j, const struct mt_stride_graph *g, const uint32_t *order,
                       uint32_t *place)
{
    struct mt_page_rows p;
    mt_page_begin(&p, j, MT_PAGE_nodes);
    for (size_t i = 0; i < g->nnodes && i < MOST_NODES; i++) {
        const struct mt_node *n = &g->nodes[order[i]];
        place[order[i]] = (uint32_t)i + 1;
        mt_tuples_maybe(&p.w, n->buffer != MT_BUFFER_NONE, n->buffer);
        mt_tuples_numbers(&p.w, MT_NUMBERS((uint64_t)n->stride, n->type, n->bytes));
        mt_tuples_text(&p.w, n->kernel);
        mt_tuples_number(&p.w, n->kernels);
        mt_tuples_number(&p.w, n->count);
        mt_page_row(&p);
    }
    return mt_page_end(&p);
}

static int write_edges(struct mt_json *j, const struct mt_stride_graph *g, const uint32_t *place,
                       struct mt_edge *edges)
{
    size_t n = 0;
    for (size_t i = 0; i < g->nedges; i++)
        if (place[g->edges[i].from] && place[g->edges[i].to])
            edges[n++] =
                (struct mt_edge){place[g->edges[i].from] - 1, place[g->edges[i].to] - 1, g->edges[i].count};
    qsort(edges, n, sizeof *edges, edge_by_count);
    struct mt_page_rows p;
    mt_page_begin(&p, j, MT_PAGE_edges);
    for (size_t i = 0; i < n && i < MOST_EDGES; i++) {
        mt_tuples_numbers(&p.w, MT_NUMBERS(edges[i].from, edges[i].to, edges[i].count));
        mt_page_row(&p);
    }
    return mt_page_end(&p);
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
    rc = write_nodes(j, g, order, place) || write_edges(j, g, place, edges) ? -1 : 0;
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
