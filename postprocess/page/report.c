/* The page of memtrace report: its lists, their data from analyses and companion files, static pages. */
#define _GNU_SOURCE

#include "report.h"
#include "memtrace/grow.h"
#include "analysis/graph/graph.h"
#include "analysis/onchip/onchip.h"
#include "memtrace/order.h"
#include "output/results/results.h"
#include "memtrace/record.h"
#include "analysis/base/pairmap.h"
#include "output/versus/versus.h"
#include "output/results/summary.h"
#include "output/text/table.h"
#include "output/dot/dot.h"
#include "output/rows/sorted.h"
#include "output/json/json.h"
#include "output/rows/relations.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum mt_page_list {
#define MT_LIST(name, columns) MT_PAGE_##name,
#include "page.def"
    MT_PAGE_LISTS
};

/* Writer of a list: an object, to which the caller may add members before the first row of a pack. page_row
 * follows the values of each row (mt_tuples_number(&p->w, …) and so on). The end returns 0, or -1 without
 * memory. */
struct mt_page_rows {
    struct mt_tuples w;
    struct mt_relation list;
    struct mt_column columns[MT_RELATION_COLUMNS];
    char names[300];
    struct mt_json *j;
    unsigned keys; /* number of key columns; 0: not a pack */
    int failed;
    unsigned char *bytes; /* contents of the pack, so far */
    size_t n, room;
    uint64_t *group; /* rows of the current group, without its keys */
    size_t ngroup, group_room, count;
    uint64_t key[MT_RELATION_COLUMNS];
};

#define MT_REPORT_FILE(name) extern const char mt_report_##name[], mt_report_##name##_end[]

MT_REPORT_FILE(html);

MT_REPORT_FILE(css);

MT_REPORT_FILE(js);

MT_REPORT_FILE(d3);

MT_REPORT_FILE(licence);

#undef MT_REPORT_FILE

/* ---- writers of lists in the page's data ---- */

static const struct {
    const char *name, *columns;
} lists[MT_PAGE_LISTS] = {
#define MT_LIST(name, columns) {#name, columns},
#include "page.def"
};

#define MT_LIST(name, columns)                                                                               \
    _Static_assert(sizeof columns <= sizeof((struct mt_page_rows *)NULL)->names, #name);
#include "page.def"

/* ---- rows ---- */

static void page_list_array(struct mt_json *j, unsigned n, const struct mt_value *v)
{
    mt_json_array(j, NULL, 1);
    for (unsigned i = 0; i < n; i++)
        if (v[i].null || v[i].text)
            mt_json_text(j, NULL, v[i].null ? NULL : v[i].text);
        else
            mt_json_i64(j, NULL, v[i].number);
    mt_json_end(j);
}

/* ---- packs ---- */

static int page_list_put(struct mt_page_rows *to, uint64_t v)
{
    if (mt_grow(&to->bytes, &to->room, to->n + 10, 1) != 0)
        return -1;
    for (; v > 127; v >>= 7)
        to->bytes[to->n++] = (unsigned char)(v | 128);
    to->bytes[to->n++] = (unsigned char)v;
    return 0;
}

/* Writes the current group: its keys, the number of its rows, and the rows. */
static int page_list_flush(struct mt_page_rows *to)
{
    unsigned width = to->list.n - to->keys;
    int rc = 0;
    if (!to->ngroup)
        return 0;
    for (unsigned i = 0; rc == 0 && i < to->keys; i++)
        rc = page_list_put(to, to->key[i]);
    if (rc == 0)
        rc = page_list_put(to, to->ngroup / width);
    for (size_t i = 0; rc == 0 && i < to->ngroup; i++)
        rc = page_list_put(to, to->group[i] - (i % width || !i ? 0 : to->group[i - width]));
    to->ngroup = 0;
    return rc;
}

static int page_list_packed(struct mt_page_rows *to, const struct mt_value *v)
{
    const unsigned keys = to->keys, n = to->list.n;
    int same = to->ngroup != 0;
    for (unsigned i = 0; i < keys; i++)
        same &= to->key[i] == (uint64_t)v[i].number;
    if (!same && page_list_flush(to) != 0)
        return -1;
    if (mt_grow(&to->group, &to->group_room, to->ngroup + n, sizeof *to->group) != 0)
        return -1;
    for (unsigned i = 0; i < n; i++)
        *(i < keys ? &to->key[i] : &to->group[to->ngroup++]) = (uint64_t)v[i].number;
    to->count++;
    return 0;
}

static int page_list_base64(const struct mt_page_rows *to)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char *text = malloc((to->n + 2) / 3 * 4 + 1);
    size_t out = 0;
    for (size_t i = 0; text && i < to->n; i += 3) {
        size_t left = to->n - i;
        uint32_t v = (uint32_t)to->bytes[i] << 16 | (left > 1 ? (uint32_t)to->bytes[i + 1] << 8 : 0) |
                     (left > 2 ? to->bytes[i + 2] : 0);
        text[out++] = digits[v >> 18];
        text[out++] = digits[v >> 12 & 63];
        text[out++] = left > 1 ? digits[v >> 6 & 63] : '=';
        text[out++] = left > 2 ? digits[v & 63] : '=';
    }
    if (!text)
        return -1;
    text[out] = 0;
    mt_json_text(to->j, "data", text);
    free(text);
    return 0;
}

/* ---- rows and packs ---- */

static int page_list_row(void *arg, const struct mt_relation *r, const struct mt_value *v, char *why)
{
    struct mt_page_rows *to = arg;
    if (to->keys)
        return page_list_packed(to, v);
    page_list_array(to->j, r->n, v);
    return 0;
}

/* Writes the names of a list's columns. */
static void page_list_columns(struct mt_page_rows *p, const char *key, enum mt_page_list list)
{
    snprintf(p->names, sizeof p->names, "%s", lists[list].columns);
    mt_json_array(p->j, key, 1);
    for (char *save, *name = strtok_r(p->names, " ", &save); name; name = strtok_r(NULL, " ", &save))
        if (*name == '|') {
            p->keys = p->list.n;
        } else if (p->list.n < MT_RELATION_COLUMNS) {
            p->columns[p->list.n++].name = name;
            mt_json_text(p->j, NULL, name);
        }
    mt_json_end(p->j);
}

static void page_begin(struct mt_page_rows *p, struct mt_json *j, enum mt_page_list list)
{
    static const struct mt_tuples_ops ops = {.row = page_list_row};
    *p = (struct mt_page_rows){.w = {.ops = &ops, .arg = p, .now = &p->list},
                               .list = {.name = lists[list].name, .columns = p->columns},
                               .j = j};
    mt_json_object(j, lists[list].name, strchr(lists[list].columns, '|') != NULL);
    page_list_columns(p, "columns", list);
    if (!p->keys)
        mt_json_array(j, "rows", 0);
}

static void page_row(struct mt_page_rows *p)
{
    p->failed |= mt_tuples_next(&p->w) != 0;
}

static int page_end(struct mt_page_rows *p)
{
    if (p->keys) {
        p->failed |= page_list_flush(p) != 0;
        mt_json_u64(p->j, "keys", p->keys);
        mt_json_u64(p->j, "count", p->count);
        p->failed |= page_list_base64(p) != 0;
    } else {
        mt_json_end(p->j);
    }
    mt_json_end(p->j);
    free(p->bytes);
    free(p->group);
    return p->failed ? -1 : 0;
}

/* Writes the member "columns": names of the columns of lists inside sections of comm.json. */
static void page_names(struct mt_json *j)
{
    mt_json_object(j, "columns", 0);
    for (int i = MT_PAGE_traffic_launches; i <= MT_PAGE_traffic_heat; i++)
        page_list_columns(&(struct mt_page_rows){.j = j}, lists[i].name, i);
    mt_json_end(j);
}

/* ---- lists of the report: launches, copies, allocations, sites, the stride graph ---- */

enum { MOST_LISTED = 50000, MOST_COPIES = 20000, MOST_NODES = 60, MOST_EDGES = 240 };

/* ---- launches ---- */

/* Writes the columns from the stream to the library; all are null without an event. */
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

static void report_write_times(struct mt_tuples *w, uint64_t count, uint64_t busy)
{
    mt_tuples_number(w, count);
    mt_tuples_number(w, busy);
}

static void report_write_volume(struct mt_tuples *w, const struct mt_report_volume *v)
{
    mt_tuples_numbers(
        w, MT_NUMBERS(v->load, v->store, v->comm_load, v->comm_store, v->same_launch, v->same_cta));
}

/* Returns the time of the first event, which is time 0 of the page. */
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
    page_begin(&p, j, MT_PAGE_launches);
    for (size_t i = 0; i < r->launches.n; i++) {
        const struct mt_report_launch *l = &r->launches.at[i];
        mt_tuples_number(&p.w, l->superstep);
        mt_tuples_number(&p.w, l->kernel);
        report_write_volume(&p.w, &l->volume);
        mt_tuples_number(&p.w, l->ctas);
        mt_tuples_number(&p.w, l->sms);
        write_event(&p.w, l->event, zero);
        report_write_times(&p.w, l->count ? l->count : 1, l->count ? l->busy : mt_report_busy(l->event));
        page_row(&p);
    }
    for (size_t i = 0; i < r->untraced.n && i < MOST_LISTED; i++) {
        static const struct mt_report_volume none;
        mt_tuples_null(&p.w, 1);
        mt_tuples_number(&p.w, mt_report_kernel((struct mt_report *)r, r->untraced.at[i]->kernel));
        report_write_volume(&p.w, &none);
        mt_tuples_number(&p.w, 0);
        mt_tuples_number(&p.w, 0);
        write_event(&p.w, r->untraced.at[i], zero);
        report_write_times(&p.w, 1, mt_report_busy(r->untraced.at[i]));
        page_row(&p);
    }
    return page_end(&p);
}

/* ---- copies ---- */

struct positions {
    uint64_t *seq; /* seq of the launches shown, ascending */
    size_t n;
};

/* Returns the number of shown launches before the event. */
static size_t report_lists_position(const struct positions *p, uint64_t seq)
{
    return MT_FIRST(i, p->n, p->seq[i] >= seq);
}

/* Writes the copies; if there are too many, sums by position and kind. */
static int write_copies(struct mt_json *j, const struct mt_report *r, const struct positions *p,
                        uint64_t zero)
{
    static const char *const kinds[] = {"h2h", "h2d", "d2h", "d2d", "set", "new"};
    int sum = r->copies.n > MOST_COPIES;
    struct mt_page_rows page;
    page_begin(&page, j, MT_PAGE_copies);
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
        page_row(&page);
    }
    return page_end(&page);
}

static int write_ranges(struct mt_json *j, const struct mt_report *r, uint64_t zero)
{
    struct mt_page_rows p;
    page_begin(&p, j, MT_PAGE_ranges);
    for (size_t i = 0; i < r->ranges.n && i < MOST_LISTED; i++) {
        const struct mt_range_event *e = &r->ranges.at[i];
        mt_tuples_text(&p.w, e->name);
        mt_tuples_text(&p.w, e->domain);
        mt_tuples_numbers(&p.w, MT_NUMBERS(e->thread, e->begin_ns >= zero ? e->begin_ns - zero : 0,
                                           e->end_ns >= zero ? e->end_ns - zero : 0, e->open != 0));
        page_row(&p);
    }
    return page_end(&p);
}

/* ---- allocations and sites ---- */

static int write_allocs(struct mt_json *j, const struct mt_report *r, const struct positions *p)
{
    struct mt_page_rows page;
    page_begin(&page, j, MT_PAGE_allocations);
    for (size_t i = 0, n = 0; i < r->nallocs && n < MOST_LISTED; i++) {
        const struct mt_alloc_event *a = &r->allocs[i];
        char base[64];
        if (a->first && a->first - 1 != i)
            continue; /* a host program has one row for each call */
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
        page_row(&page);
    }
    int rc = page_end(&page);
    mt_json_u64(j, "allocations_in_all", r->nallocs);
    return rc;
}

static int write_sites(struct mt_json *j, const struct mt_report *r)
{
    struct mt_page_rows p;
    page_begin(&p, j, MT_PAGE_sites);
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
        page_row(&p);
    }
    int rc = page_end(&p);
    mt_json_u64(j, "sites_in_all", r->sites.n);
    return rc;
}

/* Writes launches, copies, allocations, sites and graph. */
static int report_write_lists(struct mt_json *j, const struct mt_report *r)
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

static int report_by_count(const void *a, const void *b, void *arg)
{
    const struct mt_stride_graph *g = arg;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    if (g->nodes[x].count != g->nodes[y].count)
        return g->nodes[x].count > g->nodes[y].count ? -1 : 1;
    return x < y ? -1 : x > y;
}

MT_ORDER_FUNCTION(edge_by_count, struct mt_edge,
                  MT_ORDER_DIFFER(y, x, count) MT_ORDER_DIFFER(x, y, from) MT_ORDER_DIFFER(x, y, to))

static int write_nodes(struct mt_json *j, const struct mt_stride_graph *g, const uint32_t *order,
                       uint32_t *place)
{
    struct mt_page_rows p;
    page_begin(&p, j, MT_PAGE_nodes);
    for (size_t i = 0; i < g->nnodes && i < MOST_NODES; i++) {
        const struct mt_node *n = &g->nodes[order[i]];
        place[order[i]] = (uint32_t)i + 1;
        mt_tuples_maybe(&p.w, n->buffer != MT_BUFFER_NONE, n->buffer);
        mt_tuples_numbers(&p.w, MT_NUMBERS((uint64_t)n->stride, n->type, n->bytes));
        mt_tuples_text(&p.w, n->kernel);
        mt_tuples_number(&p.w, n->kernels);
        mt_tuples_number(&p.w, n->count);
        page_row(&p);
    }
    return page_end(&p);
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
    page_begin(&p, j, MT_PAGE_edges);
    for (size_t i = 0; i < n && i < MOST_EDGES; i++) {
        mt_tuples_numbers(&p.w, MT_NUMBERS(edges[i].from, edges[i].to, edges[i].count));
        page_row(&p);
    }
    return page_end(&p);
}

static int report_write_graph(struct mt_json *j, const char *key, const struct mt_report_graph *from)
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
    qsort_r(order, g->nnodes, sizeof *order, report_by_count, (void *)g);
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

/* ---- shared and local memory: the rows of the text's tables, the largest ones first ---- */

enum { REPORT_SHARED_MOST_ROWS = 2000, REPORT_SHARED_MOST_CELLS = 1 << 16 };

static const char *const types[] = {
#define MT_ACCESS_TYPE(name, code, text) [code] = text,
#include "memtrace/record.def"
};

static int shared_by_conflicts(const void *a, const void *b)
{
    const struct mt_onchip_place *p = *(const struct mt_onchip_place *const *)a,
                                 *q = *(const struct mt_onchip_place *const *)b;
    uint64_t x = p->sum.wavefronts - p->sum.least, y = q->sum.wavefronts - q->sum.least;
    if (x != y)
        return x < y ? 1 : -1;
    if (p->sum.bytes != q->sum.bytes)
        return p->sum.bytes < q->sum.bytes ? 1 : -1;
    return (p > q) - (p < q);
}

static int shared_by_count(const void *a, const void *b)
{
    const struct mt_onchip_hazard *p = *(const struct mt_onchip_hazard *const *)a,
                                  *q = *(const struct mt_onchip_hazard *const *)b;
    return p->h.count != q->h.count ? (p->h.count < q->h.count ? 1 : -1) : (p > q) - (p < q);
}

static void shared_site(struct mt_json *j, const struct mt_site_event *s)
{
    mt_json_text(j, "file", s ? s->file : "");
    mt_json_u64(j, "line", s ? s->line : 0);
    mt_json_u64(j, "column", s ? s->column : 0);
    mt_json_text(j, "variable", mt_onchip_variable(s));
    if (s && !*s->file && *s->at) /* machine code without lines */
        mt_json_text(j, "at", s->at);
}

static void shared_figures(struct mt_json *j, const struct mt_bank_cell *c)
{
    mt_json_u64(j, "requests", c->requests);
    mt_json_u64(j, "accesses", c->accesses);
    mt_json_u64(j, "bytes", c->bytes);
    mt_json_u64(j, "wavefronts", c->wavefronts);
    mt_json_u64(j, "ideal", c->least);
    mt_json_u64(j, "worst", c->worst);
}

/* Writes the rows of one space; *n is the number of rows written, which are in `shown`. */
static void shared_places(struct mt_json *j, const struct mt_onchip_rows *r, uint32_t space,
                          const struct mt_onchip_place **shown, size_t *n)
{
    size_t all = 0;
    for (size_t i = 0; i < r->nplaces; i++)
        if (mt_rec_space(r->places[i].sum.type) == space)
            shown[all++] = &r->places[i];
    qsort(shown, all, sizeof *shown, shared_by_conflicts);
    *n = all < REPORT_SHARED_MOST_ROWS ? all : REPORT_SHARED_MOST_ROWS;
    mt_json_object(j, space == MT_IN_SHARED ? "banks" : "local", 0);
    mt_json_u64(j, "left_out", all - *n);
    mt_json_array(j, "rows", 0);
    for (size_t i = 0; i < *n; i++) {
        mt_json_object(j, NULL, 1);
        shared_site(j, shown[i]->site);
        mt_json_text(j, "kernel", shown[i]->kernel);
        mt_json_text(j, "type", types[shown[i]->sum.type & 3]);
        mt_json_u64(j, "launches", shown[i]->launches);
        shared_figures(j, &shown[i]->sum);
        mt_json_end(j);
    }
    mt_json_end(j);
    mt_json_end(j);
}

static int shared_cells(struct mt_json *j, const struct mt_report *r, const struct mt_onchip_place **shown,
                        size_t n)
{
    struct mt_page_rows p;
    uint64_t cells = 0;
    for (size_t i = 0; i < n; i++)
        cells += shown[i]->launches;
    if (cells > REPORT_SHARED_MOST_CELLS)
        return 0;
    page_begin(&p, j, MT_PAGE_shared_cells);
    for (size_t i = 0; i < n; i++) {
        const struct mt_bank_cell *c = r->onchip->rows.cells + shown[i]->first,
                                  *end = r->onchip->rows.cells + shown[i]->end;
        while (c < end) {
            struct mt_bank_cell sum = {.launch = c->launch};
            for (; c < end && c->launch == sum.launch; c++)
                mt_onchip_add(&sum, c);
            mt_tuples_numbers(&p.w,
                              MT_NUMBERS(i, r->onchip->launches[sum.launch].superstep, sum.requests,
                                         sum.accesses, sum.bytes, sum.wavefronts, sum.least, sum.worst));
            page_row(&p);
        }
    }
    return page_end(&p);
}

static void shared_hazard(struct mt_json *j, const struct mt_report *r, const struct mt_onchip_hazard *x)
{
    static const char *const sides[] = {"first", "second"};
    const struct mt_hazard *h = &x->h;
    mt_json_object(j, NULL, 1);
    mt_json_text(j, "kind", mt_hazard_words[h->kind]);
    mt_json_text(j, "kernel", h->kernel);
    mt_json_text(j, "between", mt_hazard_between_words[h->between]);
    for (int i = 0; i < 2; i++) {
        mt_json_object(j, sides[i], 1);
        shared_site(j, x->side[i]);
        mt_json_text(j, "type", types[h->type[i]]);
        mt_json_u64(j, "thread", h->thread[i]);
        mt_json_end(j);
    }
    mt_json_u64(j, "words", h->count);
    mt_json_u64(j, "launches", h->launches);
    mt_json_u64(j, "launch", r->onchip->launches[h->launch].superstep);
    mt_json_numbers(j, "cta", MT_NUMBERS(h->cta[1] >> 32, h->cta[1] >> 16 & 0xffff, h->cta[1] & 0xffff));
    mt_json_u64(j, "address", h->address);
    mt_json_end(j);
}

static int shared_hazard_cells(struct mt_json *j, const struct mt_report *r,
                               const struct mt_onchip_hazard **shown, size_t n)
{
    struct mt_page_rows p;
    uint64_t cells = 0;
    for (size_t i = 0; i < n; i++)
        cells += shown[i]->h.launches;
    if (cells > REPORT_SHARED_MOST_CELLS)
        return 0;
    page_begin(&p, j, MT_PAGE_hazard_cells);
    for (size_t i = 0; i < n; i++)
        for (size_t k = shown[i]->first; k < shown[i]->end; k++) {
            const struct mt_hazard_share *c = &r->onchip->rows.hazard_cells[k];
            mt_tuples_numbers(&p.w, MT_NUMBERS(i, r->onchip->launches[c->launch].superstep, c->count));
            page_row(&p);
        }
    return page_end(&p);
}

static int shared_hazards(struct mt_json *j, const struct mt_report *r)
{
    const struct mt_onchip_rows *rows = r->onchip ? &r->onchip->rows : NULL;
    const struct mt_onchip_hazard **shown = malloc((rows->nhazards + 1) * sizeof *shown);
    size_t n = rows->nhazards < REPORT_SHARED_MOST_ROWS ? rows->nhazards : REPORT_SHARED_MOST_ROWS;
    if (!shown)
        return -1;
    for (size_t i = 0; i < rows->nhazards; i++)
        shown[i] = &rows->hazards[i];
    qsort(shown, rows->nhazards, sizeof *shown, shared_by_count);
    mt_json_object(j, "hazards", 0);
    mt_json_u64(j, "left_out", rows->nhazards - n);
    mt_json_array(j, "rows", 0);
    for (size_t i = 0; i < n; i++)
        shared_hazard(j, r, shown[i]);
    mt_json_end(j);
    int rc = shared_hazard_cells(j, r, shown, n);
    mt_json_end(j);
    free(shown);
    return rc;
}

static void report_shared_note(void *j, const char *note)
{
    mt_json_text(j, NULL, note);
}

/* Writes shared and local memory, if the trace has any. */
static int report_write_shared(struct mt_json *j, const struct mt_report *r)
{
    const struct mt_onchip_rows *rows = r->onchip ? &r->onchip->rows : NULL;
    if (!rows || !rows->nplaces)
        return 0;
    const struct mt_onchip_place **shown = malloc(rows->nplaces * sizeof *shown);
    size_t banks, local;
    if (!shown)
        return -1;
    mt_json_object(j, "shared", 0);
    mt_json_u64(j, "blocks", r->onchip->banks.blocks);
    mt_json_array(j, "notes", 0);
    mt_shared_notes(r->onchip, report_shared_note, j);
    mt_json_end(j);
    shared_places(j, rows, MT_IN_SHARED, shown, &banks);
    shared_places(j, rows, MT_IN_LOCAL, shown + banks, &local);
    int rc = shared_cells(j, r, shown, banks + local);
    rc = rc ? rc : shared_hazards(j, r);
    mt_json_end(j);
    free(shown);
    return rc;
}

/* ---- lines of source files, as they are when the report is made ----
 * Includes the lines that the report refers to and a few around them. Files that are missing, or that the
 * user may not want to show, have none. */

#define XXH_INLINE_ALL
#include <xxhash.h>

enum { AROUND = 4, MOST_FILES = 200, MOST_BYTES = 1 << 20, LONGEST = 400, LARGEST = 16 << 20 };

struct mention {
    const char *file;
    uint64_t line;
};

struct mentions {
    struct mention *at;
    size_t n, room;
};

MT_ORDER_FUNCTION(mention_order, struct mention, MT_ORDER_TEXT(x->file, y->file) MT_ORDER_DIFFER(x, y, line))

static int report_source_mention(struct mentions *m, const char *file, uint64_t line)
{
    if (!file || !*file || line == 0)
        return 0;
    struct mention *at = mt_report_more(m, sizeof *at);
    if (at)
        *at = (struct mention){file, line};
    return at ? 0 : -1;
}

static int report_source_collect(struct mentions *m, const struct mt_report *r)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < r->sites.n; i++)
        rc = report_source_mention(m, r->sites.at[i].file, r->sites.at[i].line);
    for (size_t i = 0; rc == 0 && i < r->launches.n; i++)
        if (r->launches.at[i].event)
            rc = report_source_mention(m, r->launches.at[i].event->file, r->launches.at[i].event->line);
    for (size_t i = 0; rc == 0 && i < r->nallocs; i++)
        rc = report_source_mention(m, r->allocs[i].file, r->allocs[i].line);
    if (m->n)
        qsort(m->at, m->n, sizeof *m->at, mention_order);
    return rc;
}

/* ---- selection of files ---- */

/* Source file, read once: the checked contents are the shown contents. */
struct contents {
    char *at;
    size_t n;
};

/* Returns 1 if the open file lies, with links resolved, in one of the folders given by the user. */
static int in_a_root(const struct mt_report *r, int fd)
{
    char link[64], path[PATH_MAX], root[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    path[n > 0 ? n : 0] = 0;
    for (size_t i = 0; n > 0 && i < r->nroots; i++) {
        size_t length = realpath(r->roots[i], root) ? strlen(root) : 0;
        if (length && strncmp(path, root, length) == 0 && (path[length] == '/' || root[length - 1] == '/'))
            return 1;
    }
    return 0;
}

/* Returns 1 if the trace has the hash of these contents. */
static int is_known(const struct mt_report *r, const char *file, const struct contents *c)
{
    char text[33];
    XXH128_hash_t hash = XXH3_128bits(c->at, c->n);
    snprintf(text, sizeof text, "%016llx%016llx", (unsigned long long)hash.high64,
             (unsigned long long)hash.low64);
    for (size_t i = 0; i < r->texts.n; i++) {
        const struct mt_text_event *t = &r->texts.at[i];
        if (t->bytes == c->n && strcmp(t->file, file) == 0 && strcmp(t->xxh128, text) == 0)
            return 1;
    }
    return 0;
}

/* Reads a regular file only: a FIFO with that name would block forever. Returns 0 or -1. */
static int report_source_slurp(int fd, struct contents *c)
{
    struct stat st;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size <= 0 || st.st_size > LARGEST)
        return -1;
    c->n = 0;
    if (!(c->at = malloc((size_t)st.st_size)))
        return -1;
    for (ssize_t n = 1; n > 0 && c->n < (size_t)st.st_size; c->n += n > 0 ? (size_t)n : 0)
        do
            n = read(fd, c->at + c->n, (size_t)st.st_size - c->n);
        while (n < 0 && errno == EINTR);
    return 0;
}

/* Tries a path of the file. Returns 1 with its contents if it may be shown. */
static int try_source(const struct mt_report *r, const char *file, const char *path, struct contents *c)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK), good = 0;
    if (fd < 0)
        return 0;
    if (report_source_slurp(fd, c) == 0) {
        good = c->n > 0 && (in_a_root(r, fd) || is_known(r, file, c));
        if (!good)
            free(c->at);
    }
    close(fd);
    return good;
}

/* Finds PTX that the runtime wrote beside a trace; both may have been moved together. */
static int report_source_beside(const struct mt_report *r, const char *file, struct contents *c)
{
    const char *slash = strrchr(file, '/'), *name = slash ? slash + 1 : file;
    char path[PATH_MAX];
    for (size_t i = 0; i < r->ninputs; i++) {
        struct stat st;
        const char *in = r->inputs[i], *end = strrchr(in, '/');
        int folder = stat(in, &st) == 0 && S_ISDIR(st.st_mode);
        int n = folder ? snprintf(path, sizeof path, "%s/%s", in, name)
                       : snprintf(path, sizeof path, "%.*s%s", end ? (int)(end + 1 - in) : 0, in, name);
        if (n > 0 && n < (int)sizeof path && try_source(r, file, path, c))
            return 1;
    }
    return 0;
}

static int get_source(const struct mt_report *r, const char *file, struct contents *c)
{
    int known = 0;
    for (size_t i = 0; i < r->texts.n && !known; i++)
        known = strcmp(r->texts.at[i].file, file) == 0;
    if ((known || r->nroots) && try_source(r, file, file, c))
        return 1;
    for (size_t i = 0; i < r->nroots && *file != '/'; i++) {
        char path[PATH_MAX];
        int n = snprintf(path, sizeof path, "%s/%s", r->roots[i], file);
        if (n > 0 && n < (int)sizeof path && try_source(r, file, path, c))
            return 1;
    }
    return known && report_source_beside(r, file, c);
}

/* ---- lines ---- */

/* Returns 1 if the gap before this mention is so small that its lines are shown as well. */
static int small_gap(const struct mention *m, size_t next)
{
    return next > 0 && m[next].line <= m[next - 1].line + 2 * AROUND + 3;
}

/* Writes the lines near mentions [0, n) of one file: [number, text]. */
static void report_write_file(struct mt_json *j, FILE *f, const struct mention *m, size_t n, size_t *left)
{
    char *line = NULL;
    size_t room = 0, next = 0;
    ssize_t length;
    mt_json_array(j, "lines", 0);
    for (uint64_t number = 1; next < n && (length = getline(&line, &room, f)) > 0; number++) {
        while (next < n && m[next].line + AROUND < number)
            next++;
        if (next == n || (m[next].line > number + AROUND && !small_gap(m, next)))
            continue;
        while (length > 0 && (line[length - 1] == '\n' || line[length - 1] == '\r'))
            line[--length] = 0;
        if (length > LONGEST)
            line[LONGEST] = 0;
        if (strlen(line) > *left)
            break;
        *left -= strlen(line);
        mt_json_array(j, NULL, 1);
        mt_json_u64(j, NULL, number);
        mt_json_text(j, NULL, line);
        mt_json_end(j);
    }
    mt_json_end(j);
    free(line);
}

/* Writes lines of source files around those that the report refers to. A trace may name any file, and a page
 * may be given away: only files in folders given by the user are read, or files whose contents match a hash
 * in the user's own companion file. */
static int report_write_sources(struct mt_json *j, const struct mt_report *r)
{
    struct mentions m = {0};
    size_t left = MOST_BYTES;
    int rc = report_source_collect(&m, r);
    mt_json_object(j, "sources", 0);
    for (size_t i = 0, end, files = 0; rc == 0 && r->with_sources && i < m.n && files < MOST_FILES; i = end) {
        for (end = i; end < m.n && strcmp(m.at[end].file, m.at[i].file) == 0;)
            end++;
        struct contents c;
        if (!get_source(r, m.at[i].file, &c))
            continue;
        FILE *f = fmemopen(c.at, c.n, "r");
        files++;
        mt_json_object(j, m.at[i].file, 0);
        if (f) {
            report_write_file(j, f, m.at + i, end - i, &left);
            fclose(f);
        }
        mt_json_end(j);
        free(c.at);
    }
    mt_json_end(j);
    free(m.at);
    return rc;
}

/* ---- transfers at two scales: launch to launch as rows, CTA to CTA as cells of a matrix ----
 * Both are limited to a number of entries that a browser can handle: rows lose their supersteps, and cells
 * are merged in pairs (CTAs first, supersteps when the matrix is small) until they fit. */

enum { REPORT_MATRIX_MOST_ROWS = 40000, REPORT_MATRIX_MOST_CELLS = 1000000, REPORT_MATRIX_SMALL_AXIS = 512 };

/* ---- launch to launch ---- */

struct row {
    uint32_t src_kernel, src_step, dst_kernel, dst_step;
    uint64_t size, count, unordered; /* unordered: bytes */
};

MT_ORDER_4(row_order, struct row, dst_step, dst_kernel, src_kernel, src_step)

static void row_add(void *to, const void *from)
{
    struct row *x = to;
    const struct row *y = from;
    x->size += y->size;
    x->count += y->count;
    x->unordered += y->unordered;
}

static void write_end(struct mt_tuples *w, uint32_t kernel, uint32_t step)
{
    mt_tuples_number(w, kernel);
    mt_tuples_maybe(w, step != MT_REPORT_ALL, step);
}

/* Writes `transfers` by launch and `cells` by CTA. */
static int report_write_transfers(struct mt_json *j, const struct mt_report *r)
{
    MT_REPORT_LIST(struct row) list = {0};
    for (size_t i = 0; i < r->transfers.n; i++) {
        const struct mt_report_transfer *t = &r->transfers.at[i];
        int unordered = t->src.kernel != MT_REPORT_HOST && t->dst.kernel != MT_REPORT_HOST &&
                        t->src.superstep == t->dst.superstep;
        struct row row = {t->src.kernel, t->src.superstep, t->dst.kernel,          t->dst.superstep,
                          t->size,       t->count,         unordered ? t->size : 0};
        /* Transfers of one CTA are consecutive, and most belong to the same launches as the previous one. */
        struct row *at = list.n && row_order(&list.at[list.n - 1], &row) == 0 ? &list.at[list.n - 1] : NULL;
        if (at) {
            at->size += row.size;
            at->count += row.count;
            at->unordered += row.unordered;
        } else if ((at = MT_REPORT_ADD(list))) {
            *at = row;
        } else {
            free(list.at);
            return -1;
        }
    }
    struct row *rows = list.at;
    size_t n = mt_order_join(rows, list.n, sizeof(struct row), row_order, row_add);
    for (int level = 0; level < 2 && n > REPORT_MATRIX_MOST_ROWS; level++) {
        for (size_t i = 0; i < n; i++)
            *(level ? &rows[i].dst_step : &rows[i].src_step) = MT_REPORT_ALL;
        n = mt_order_join(rows, n, sizeof(struct row), row_order, row_add);
    }
    struct mt_page_rows p;
    page_begin(&p, j, MT_PAGE_transfers);
    for (size_t i = 0; i < n; i++) {
        write_end(&p.w, rows[i].src_kernel, rows[i].src_step);
        write_end(&p.w, rows[i].dst_kernel, rows[i].dst_step);
        mt_tuples_numbers(&p.w, MT_NUMBERS(rows[i].size, rows[i].count, rows[i].unordered));
        page_row(&p);
    }
    free(rows);
    return page_end(&p);
}

/* ---- CTA to CTA ---- */

struct cell {
    uint32_t step, kernel; /* superstep of the reader, kernel of the writer */
    uint32_t row, column;  /* writer, reader: indices in the axis; `host`: the host */
    uint64_t size, count;
};

/* Cells of the matrix, never more than fit into a page, so that neither memory nor time grow with data that
 * the page does not show. */
struct matrix {
    MT_REPORT_LIST(struct cell) cells;
    struct mt_pairmap index; /* map from (step and kernel, row and column) to index in `cells` */
    size_t axis;
    uint32_t bin, step_bin; /* powers of two: numbers of CTAs and of supersteps that form one */
    uint32_t most_step;
};

MT_ORDER_4(cell_order, struct cell, step, kernel, row, column)

/* Adds a cell given in the matrix's own units. Returns 0, or -1 without memory. */
static int add_cell(struct matrix *m, struct cell c)
{
    uint64_t *at = mt_pairmap_get(&m->index, (uint64_t)c.step << 32 | c.kernel,
                                  (uint64_t)c.row << 32 | c.column, m->cells.n);
    if (!at)
        return -1;
    if (*at < m->cells.n) {
        m->cells.at[*at].size += c.size;
        m->cells.at[*at].count += c.count;
        return 0;
    }
    struct cell *cell = MT_REPORT_ADD(m->cells);
    if (!cell)
        return -1;
    *cell = c;
    return 0;
}

/* Returns the index after merging; index 0 stays the host's. */
static uint32_t report_matrix_shrink(uint32_t place, uint32_t by)
{
    return place ? (place - 1) / by + 1 : 0;
}

/* Merges CTAs in pairs, or supersteps if the matrix is small. */
static int report_matrix_coarsen(struct matrix *m)
{
    int steps = m->axis / m->bin <= REPORT_MATRIX_SMALL_AXIS && m->most_step / m->step_bin > 0;
    size_t n = m->cells.n;
    *(steps ? &m->step_bin : &m->bin) *= 2;
    mt_pairmap_clear(&m->index);
    m->cells.n = 0;
    for (size_t i = 0; i < n; i++) { /* a cell never moves to a higher index */
        struct cell c = m->cells.at[i];
        c.step /= 1u + (unsigned)steps;
        c.row = report_matrix_shrink(c.row, 2u - (unsigned)steps);
        c.column = report_matrix_shrink(c.column, 2u - (unsigned)steps);
        if (add_cell(m, c) != 0)
            return -1;
    }
    return 0;
}

static size_t report_position(const uint64_t *axis, size_t n, uint64_t key);

static uint32_t report_place_of(const uint64_t *axis, size_t n, const struct mt_report_end *end)
{
    return end->cta == MT_REPORT_NO_CTA ? 0 : (uint32_t)report_position(axis, n, end->cta) + 1;
}

static int write_cells(struct mt_json *j, const struct matrix *m)
{
    uint64_t width = (m->axis + m->bin - 1) / m->bin + 1;
    struct mt_page_rows p;
    page_begin(&p, j, MT_PAGE_cells);
    mt_json_u64(j, "bin", m->bin);
    mt_json_u64(j, "step_bin", m->step_bin);
    mt_json_u64(j, "width", width);
    for (size_t i = 0; i < m->cells.n; i++) {
        const struct cell *c = &m->cells.at[i];
        mt_tuples_numbers(&p.w,
                          MT_NUMBERS(c->step, c->kernel, c->row * width + c->column, c->size, c->count));
        page_row(&p);
    }
    return page_end(&p);
}

/* Collects all transfers and sorts them for output. Returns 0, or -1 without memory. */
static int report_matrix_gather(struct matrix *m, const struct mt_report *r, const uint64_t *axis,
                                size_t naxis)
{
    for (size_t i = 0; i < r->transfers.n; i++)
        if (r->transfers.at[i].dst.superstep > m->most_step)
            m->most_step = r->transfers.at[i].dst.superstep;
    for (size_t i = 0; i < r->transfers.n; i++) {
        const struct mt_report_transfer *t = &r->transfers.at[i];
        struct cell c = {t->dst.superstep / m->step_bin,
                         t->src.kernel,
                         report_matrix_shrink(report_place_of(axis, naxis, &t->src), m->bin),
                         report_matrix_shrink(report_place_of(axis, naxis, &t->dst), m->bin),
                         t->size,
                         t->count};
        if (add_cell(m, c) != 0)
            return -1;
        while (m->cells.n > REPORT_MATRIX_MOST_CELLS)
            if (report_matrix_coarsen(m) != 0)
                return -1;
    }
    if (m->cells.n)
        qsort(m->cells.at, m->cells.n, sizeof *m->cells.at, cell_order);
    return 0;
}

static int report_write_cells(struct mt_json *j, const struct mt_report *r, const uint64_t *axis,
                              size_t naxis)
{
    struct matrix m = {.axis = naxis, .bin = 1, .step_bin = 1};
    int rc = report_matrix_gather(&m, r, axis, naxis) == 0 ? write_cells(j, &m) : -1;
    mt_pairmap_free(&m.index);
    free(m.cells.at);
    return rc;
}

/* ---- volumes of CTAs and SMs by launch, and the axis of all CTAs ---- */

enum { MOST_PARTS = 400000, REPORT_PARTS_SMALL_AXIS = 512 };

struct axis_keys {
    uint64_t *at;
    size_t n, room;
};

/* Adds a key once: there are far fewer CTAs than ends of transfers. Returns 0, or -1 without memory. */
static int add_key(struct axis_keys *keys, struct mt_pairmap *known, uint64_t key)
{
    uint64_t *seen = mt_pairmap_get(known, key, 0, 0), *at;
    if (!seen)
        return -1;
    if (*seen)
        return 0;
    *seen = 1;
    if (!(at = mt_report_more(keys, sizeof *at)))
        return -1;
    *at = key;
    return 0;
}

/* Returns all CTA keys, ascending, each once; owned by the caller. NULL without memory. */
static uint64_t *report_axis(const struct mt_report *r, size_t *n)
{
    struct mt_pairmap known = {0};
    struct axis_keys keys = {0};
    int bad = add_key(&keys, &known, MT_REPORT_NO_CTA); /* ensures that there is a list */
    for (size_t i = 0; !bad && i < r->ctas.n; i++)
        bad = add_key(&keys, &known, r->ctas.at[i].key);
    for (size_t i = 0; !bad && i < r->transfers.n; i++)
        bad = add_key(&keys, &known, r->transfers.at[i].src.cta) ||
              add_key(&keys, &known, r->transfers.at[i].dst.cta);
    mt_pairmap_free(&known);
    if (bad) {
        free(keys.at);
        keys = (struct axis_keys){0};
    } else {
        qsort(keys.at, keys.n, sizeof *keys.at, mt_order_u64);
    }
    *n = keys.n ? keys.n - 1 : 0; /* the host's is the last one */
    return keys.at;
}

/* Returns the index of a key in the axis. */
static size_t report_position(const uint64_t *axis, size_t n, uint64_t key)
{
    const uint64_t *at = n ? bsearch(&key, axis, n, sizeof key, mt_order_u64) : NULL;
    return at ? (size_t)(at - axis) : 0;
}

MT_ORDER_2(part_order, struct mt_report_part, superstep, key)

static void part_add(void *to, const void *from)
{
    mt_report_volume_add(&((struct mt_report_part *)to)->volume,
                         &((const struct mt_report_part *)from)->volume);
}

size_t mt_report_merge_parts(struct mt_report_part *parts, size_t n)
{
    return mt_order_join(parts, n, sizeof *parts, part_order, part_add);
}

/* Writes volumes of CTAs, whose keys become indices in `axis`, or of SMs (`axis` NULL), whose keys stay. */
static int write_parts(struct mt_json *j, enum mt_page_list list, const struct mt_report_part *all, size_t n,
                       const uint64_t *axis, size_t naxis)
{
    struct mt_report_part *p = malloc((n + 1) * sizeof *p);
    uint32_t bin = 1, step_bin = 1, most = 0;
    if (!p)
        return -1;
    if (n)
        memcpy(p, all, n * sizeof *p);
    for (size_t i = 0; i < n; i++) {
        if (axis)
            p[i].key = report_position(axis, naxis, p[i].key);
        most = p[i].superstep > most ? p[i].superstep : most;
    }
    n = mt_report_merge_parts(p, n);
    while (n > MOST_PARTS) {
        int steps = !axis || (naxis / bin <= REPORT_PARTS_SMALL_AXIS && most / step_bin > 0);
        for (size_t i = 0; i < n; i++) {
            p[i].superstep /= 1u + (unsigned)steps;
            p[i].key /= 2u - (unsigned)steps;
        }
        *(steps ? &step_bin : &bin) *= 2;
        n = mt_report_merge_parts(p, n);
    }
    struct mt_page_rows page;
    page_begin(&page, j, list);
    mt_json_u64(j, "bin", bin);
    mt_json_u64(j, "step_bin", step_bin);
    for (size_t i = 0; i < n; i++) {
        mt_tuples_number(&page.w, p[i].superstep);
        mt_tuples_number(&page.w, p[i].key);
        report_write_volume(&page.w, &p[i].volume);
        page_row(&page);
    }
    free(p);
    return page_end(&page);
}

static int write_axis(struct mt_json *j, const uint64_t *axis, size_t n)
{
    struct mt_page_rows p;
    page_begin(&p, j, MT_PAGE_axis);
    for (size_t i = 0; i < n; i++) {
        mt_tuples_numbers(&p.w, MT_NUMBERS(axis[i] >> 48, axis[i] >> 32 & 0xffff, axis[i] & 0xffffffff));
        page_row(&p);
    }
    return page_end(&p);
}

/* Writes the volumes by CTA and SM. */
static int report_write_volumes(struct mt_json *j, const struct mt_report *r)
{
    size_t n;
    uint64_t *axis = report_axis(r, &n);
    int rc = -1;
    if (axis && write_axis(j, axis, n) == 0 &&
        (!(r->has & MT_REPORT_CTAS) || write_parts(j, MT_PAGE_ctas, r->ctas.at, r->ctas.n, axis, n) == 0) &&
        (!(r->has & MT_REPORT_SMS) || write_parts(j, MT_PAGE_sms, r->sms.at, r->sms.n, NULL, 0) == 0) &&
        (!(r->has & MT_REPORT_TRANSFERS) || report_write_cells(j, r, axis, n) == 0))
        rc = 0;
    free(axis);
    return rc;
}

/* ---- page: text of postprocess/page/web/ (embedded by report_files.S), and the data ---- */

static void write_words(struct mt_json *j, const struct mt_report *r)
{
    const struct mt_companion *c = r->companion;
    mt_json_text(j, "format", "memtrace-report");
    mt_json_u64(j, "version", 1);
    mt_json_text(j, "tool", MEMTRACE_VERSION);
    mt_json_text(j, "title", r->title);
    mt_json_array(j, "inputs", 1);
    for (size_t i = 0; i < r->ninputs; i++)
        mt_json_text(j, NULL, r->inputs[i]);
    mt_json_end(j);
    mt_json_bool(j, "from_json", r->from_json);
    mt_json_known(j, "complete", r->complete);
    mt_json_array(j, "notes", 0);
    for (size_t i = 0; i < r->nnotes; i++)
        mt_json_text(j, NULL, r->notes[i]);
    mt_json_end(j);
    mt_gaps_write(j, &r->gaps);
    mt_json_object(j, "options", 1);
    mt_json_text(j, "same-cta", r->local ? "local" : "instance");
    mt_json_bool(j, "strict", r->strict);
    mt_json_bool(j, "host", r->host);
    mt_json_text(j, "kernels", r->kernels_text);
    mt_json_text(j, "supersteps", r->supersteps_text);
    mt_json_end(j);
    mt_json_text(j, "program", c ? c->program : NULL);
    mt_json_text(j, "device", c ? c->device : NULL);
    mt_json_text(j, "device_name", c ? c->device_name : NULL);
    mt_json_u64(j, "device_sms", c ? c->sms : 0);
    mt_json_u64(j, "companions", r->companions);
    mt_json_bool(j, "threads", r->threads);
}

/* Writes texts that C uses as well. */
static void report_page_words(struct mt_json *j)
{
    mt_json_object(j, "words", 0);
    mt_json_text(j, "halves", mt_table_halves);
    mt_json_array(j, "senders", 0);
    for (int i = 0; i < MT_SENDER_KINDS; i++) {
        mt_json_array(j, NULL, 1);
        mt_json_text(j, NULL, mt_sender_words[i][mt_of_threads]);
        mt_json_text(j, NULL, mt_figure_words[MT_FIGURE_SAME_LAUNCH + i].head[mt_of_threads]);
        mt_json_end(j);
    }
    mt_json_end(j);
    mt_json_end(j);
}

static void write_totals(struct mt_json *j, const struct mt_report *r)
{
    mt_json_object(j, "totals", 1);
    mt_json_u64(j, "launches", r->run_launches);
    mt_json_u64(j, "records", r->records);
    if (r->reported == UINT64_MAX)
        mt_json_text(j, "reported", NULL);
    else
        mt_json_u64(j, "reported", r->reported);
    mt_json_u64(j, "unknown", r->unknown);
    mt_json_u64(j, "untraced", r->untraced_accesses);
    mt_json_u64(j, "host_accesses", r->host_accesses);
    mt_json_u64(j, "lost", r->lost);
    mt_json_end(j);
    mt_json_object(j, "has", 1);
    mt_json_bool(j, "data", (r->has & MT_REPORT_DATA_VOLUMES) != 0);
    mt_json_bool(j, "comm", (r->has & MT_REPORT_COMM_VOLUMES) != 0);
    mt_json_bool(j, "senders", (r->has & MT_REPORT_SENDERS) != 0);
    mt_json_bool(j, "part_senders", (r->has & MT_REPORT_PART_SENDERS) != 0);
    mt_json_bool(j, "ctas", (r->has & MT_REPORT_CTAS) != 0);
    mt_json_bool(j, "sms", (r->has & MT_REPORT_SMS) != 0);
    mt_json_bool(j, "transfers", (r->has & MT_REPORT_TRANSFERS) != 0);
    mt_json_end(j);
}

/* Writes the data as one JSON value. Returns 0, or -1 without memory. */
static int report_json(struct mt_json *j, const struct mt_report *r)
{
    mt_json_object(j, NULL, 0);
    write_words(j, r);
    write_totals(j, r);
    report_page_words(j);
    mt_summary_json(j, r->summary);
    page_names(j);
    mt_json_array(j, "kernels", 0);
    for (size_t i = 0; i < r->kernels.count; i++)
        mt_json_text(j, NULL, r->kernels.names[i]);
    mt_json_end(j);
    int bad = report_write_lists(j, r) != 0 || report_write_volumes(j, r) != 0 ||
              ((r->has & MT_REPORT_TRANSFERS) && report_write_transfers(j, r) != 0) ||
              report_write_graph(j, "graph", &r->graph) != 0 ||
              report_write_graph(j, "lane_graph", &r->lanes) != 0 || report_write_sources(j, r) != 0 ||
              report_write_shared(j, r) != 0 || (r->more && r->more(r->more_arg, j) != 0);
    mt_json_end(j);
    return bad ? -1 : 0;
}

/* ---- output ---- */

static int report_page_put(int fd, const char *text, size_t n)
{
    while (n > 0) {
        ssize_t done = write(fd, text, n);
        if (done < 0 && errno != EINTR)
            return errno;
        text += done > 0 ? done : 0;
        n -= done > 0 ? (size_t)done : 0;
    }
    return 0;
}

/* Writes text escaped for HTML. */
static int put_escaped(int fd, const char *text, size_t n)
{
    int e = 0;
    for (size_t i = 0, from = 0; e == 0 && i <= n; i++) {
        const char *as = i == n ? "" : text[i] == '<' ? "&lt;" : text[i] == '&' ? "&amp;" : NULL;
        if (!as)
            continue;
        e = report_page_put(fd, text + from, i - from);
        if (e == 0)
            e = report_page_put(fd, as, strlen(as));
        from = i + 1;
    }
    return e;
}

/* Returns 0, errno, or -1 without memory. */
static int put_data(int fd, const struct mt_report *r)
{
    struct mt_json *j = malloc(sizeof *j);
    if (!j)
        return -1;
    mt_json_open(j, fd);
    j->html = 1;
    int rc = report_json(j, r);
    if (mt_json_close(j) != 0 && rc == 0)
        rc = j->error;
    free(j);
    return rc;
}

/* Writes the part that replaces a mark in the page. */
static int put_part(int fd, const struct mt_report *r, const char *mark, size_t n)
{
#define PART(name) (size_t)(mt_report_##name##_end - mt_report_##name)
    if (n == 5 && memcmp(mark, "style", 5) == 0)
        return report_page_put(fd, mt_report_css, PART(css));
    if (n == 2 && memcmp(mark, "d3", 2) == 0)
        return report_page_put(fd, mt_report_d3, PART(d3));
    if (n == 6 && memcmp(mark, "script", 6) == 0)
        return report_page_put(fd, mt_report_js, PART(js));
    if (n == 7 && memcmp(mark, "licence", 7) == 0)
        return put_escaped(fd, mt_report_licence, PART(licence));
    return n == 4 && memcmp(mark, "data", 4) == 0 ? put_data(fd, r) : 0;
#undef PART
}

int mt_report_page(int fd, const struct mt_report *r, int *error)
{
    static const char open[] = "<!--@";
    const char *at = mt_report_html, *end = mt_report_html_end;
    int e = 0;
    while (e == 0 && at < end) {
        const char *mark = memmem(at, (size_t)(end - at), open, sizeof open - 1);
        const char *close = mark ? memmem(mark, (size_t)(end - mark), "-->", 3) : NULL;
        e = report_page_put(fd, at, (size_t)((close ? mark : end) - at));
        if (e != 0 || !close)
            break;
        mark += sizeof open - 1;
        e = put_part(fd, r, mark, (size_t)(close - mark));
        at = close + 3;
    }
    *error = e > 0 ? e : 0;
    return e ? -1 : 0;
}

struct any_list {
    char *at;
    size_t n, room;
};

void *mt_report_more(void *list, size_t size)
{
    struct any_list *l = list;
    if (mt_grow(&l->at, &l->room, l->n + 1, size) != 0)
        return NULL;
    return memset(l->at + l->n++ * size, 0, size);
}

void mt_report_free(struct mt_report *r)
{
    mt_gaps_free(&r->gaps);
    mt_names_free(&r->kernels);
    free(r->launches.at);
    free(r->folded);
    free(r->first);
    free(r->ctas.at);
    free(r->sms.at);
    free(r->transfers.at);
    free(r->ranges.at);
    free(r->untraced.at);
    free(r->copies.at);
    free(r->sites.at);
    free(r->texts.at);
    memset(r, 0, sizeof *r);
}
