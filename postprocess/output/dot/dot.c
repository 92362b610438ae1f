/* Graphs as DOT, GraphML and JSON: memory graphs, communication, and comparisons of two traces. */
#define _GNU_SOURCE

#include "dot.h"
#include "base/text.h"
#include "analysis/base/sites.h"
#include "memtrace/order.h"
#include "output/text/table.h"
#include "output/rows/relations.h"
#include "output/rows/comm_formats.h"
#include "output/rows/sorted.h"
#include "analysis/base/pairmap.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- GraphML, for programs that do not read DOT ---- */

static void data_u64(FILE *f, const char *key, uint64_t value)
{
    fprintf(f, "<data key=\"%s\">%" PRIu64 "</data>", key, value);
}

static const char *stride_graph_buffer_name(const struct mt_stride_graph_words *w, uint64_t buffer);

static void one_node(FILE *f, const struct mt_stride_graph *g, const struct mt_stride_graph_words *w,
                     size_t i)
{
    const struct mt_node *n = &g->nodes[i];
    const char *name = g->key & MT_NODE_BUFFER ? stride_graph_buffer_name(w, n->buffer) : "";
    fprintf(f, "    <node id=\"n%zu\">", i);
    if (g->key & MT_NODE_BUFFER && n->buffer != MT_BUFFER_NONE)
        data_u64(f, "buffer", n->buffer);
    if (*name) {
        fputs("<data key=\"name\">", f);
        mt_xml_text(f, name);
        fputs("</data>", f);
    }
    if (g->key & MT_NODE_STRIDE)
        fprintf(f, "<data key=\"stride\">%" PRId64 "</data>", n->stride);
    if (g->key & MT_NODE_TYPE)
        fprintf(f, "<data key=\"type\">%s</data>", mt_stride_graph_types[n->type]);
    if (g->key & (MT_NODE_BUFFER | MT_NODE_SIZE) && n->bytes)
        data_u64(f, "size", n->bytes);
    fputs("<data key=\"site\">", f);
    mt_xml_text(f, n->kernel);
    fputs("</data>", f);
    data_u64(f, "sites", n->kernels);
    data_u64(f, "count", n->count);
    fputs("</node>\n", f);
}

static void dot_write_graphml(FILE *f, const struct mt_stride_graph *g, const struct mt_stride_graph_words *w)
{
    static const struct {
        const char *name, *of, *type;
    } keys[] = {{"buffer", "node", "long"},   {"name", "node", "string"},       {"stride", "node", "long"},
                {"type", "node", "string"},   {"size", "node", "long"},         {"site", "node", "string"},
                {"sites", "node", "long"},    {"count", "node", "long"},        {"times", "edge", "long"},
                {"input", "graph", "string"}, {"complete", "graph", "boolean"}, {"notes", "graph", "string"}};
    fputs("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<graphml "
          "xmlns=\"http://graphml.graphdrawing.org/xmlns\">\n",
          f);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        fprintf(f, "  <key id=\"%s\" for=\"%s\" attr.name=\"%s\" attr.type=\"%s\"/>\n", keys[i].name,
                keys[i].of, keys[i].name, keys[i].type);
    fputs("  <graph id=\"memtrace\" edgedefault=\"directed\">\n    <data key=\"input\">", f);
    for (size_t i = 0; i < w->ninputs; i++) {
        fputs(i ? " " : "", f);
        mt_xml_text(f, w->inputs[i]);
    }
    fputs("</data>\n", f);
    if (w->complete >= 0)
        fprintf(f, "    <data key=\"complete\">%s</data>\n", w->complete ? "true" : "false");
    fputs("    <data key=\"notes\">", f);
    mt_xml_text(f, w->stride);
    for (size_t i = 0; i < w->nnotes; i++) {
        fputs("; ", f);
        mt_xml_text(f, w->notes[i]);
    }
    fputs("</data>\n", f);
    for (size_t i = 0; i < g->nnodes; i++)
        one_node(f, g, w, i);
    for (size_t i = 0; i < g->nedges; i++) {
        fprintf(f, "    <edge source=\"n%u\" target=\"n%u\">", g->edges[i].from, g->edges[i].to);
        data_u64(f, "times", g->edges[i].count);
        fputs("</edge>\n", f);
    }
    fputs("  </graph>\n</graphml>\n", f);
}

/* ---- The memory graph as DOT (Graphviz), GraphML and JSON (docs/man/memtrace-graph.md) ---- */

const char *const mt_node_fields[5] = {"buffer", "stride", "type", "size", "site"};

/* A graph calls loads reads and stores writes. */
const char *const mt_stride_graph_types[4] = {
    [MT_LOAD] = "read", [MT_STORE] = "write", [MT_ATOMIC] = "atomic", [MT_UNKNOWN] = "unknown"};
/* X11's gray; SVG's gray is darker. */
static const char *const looks[] = {[MT_LOAD] = "fillcolor=white",
                                    [MT_STORE] = "fillcolor=\"#c0c0c0\"",
                                    [MT_ATOMIC] = "fillcolor=\"#c0c0c0\", shape=doubleoctagon",
                                    [MT_UNKNOWN] = "fillcolor=white, style=\"filled,dashed\""};

/* ---- DOT ---- */

static void dot_text(FILE *f, const char *s)
{
    char *visible = mt_text_visible_copy(s, strlen(s));
    for (const char *p = visible ? visible : "?"; *p; p++) {
        if (*p == '"' || *p == '\\')
            fputc('\\', f);
        fputc(*p, f);
    }
    free(visible);
}

/* Writes "dir/file.c:7" as "file.c-7". */
static void dot_place(FILE *f, const char *place)
{
    const char *slash = strrchr(place, '/'), *colon = mt_location_colon(place);
    const char *name = slash ? slash + 1 : place;
    if (!colon || colon < name) {
        dot_text(f, name);
        return;
    }
    char text[300];
    snprintf(text, sizeof text, "%.*s-%s", (int)(colon - name), name, colon + 1);
    dot_text(f, text);
}

MT_ORDER_1(by_id, struct mt_alloc_event, id)

static const char *graph_out_name(const struct mt_stride_graph_words *w, const struct mt_alloc_event *a)
{
    const char *called = w->called ? w->called[a - w->allocs] : NULL;
    return *a->name || !called ? a->name : called;
}

/* Returns the buffer's name, or "". */
static const char *stride_graph_buffer_name(const struct mt_stride_graph_words *w, uint64_t buffer)
{
    struct mt_alloc_event key = {.id = buffer};
    const struct mt_alloc_event *a =
        w->allocs && w->nallocs ? bsearch(&key, w->allocs, w->nallocs, sizeof key, by_id) : NULL;
    return a ? graph_out_name(w, a) : "";
}

/* Writes the label "ID:NAME stride size kernel - count"; fields that are not in the key are stars. */
static void dot_label(FILE *f, const struct mt_stride_graph *g, const struct mt_node *n,
                      const struct mt_stride_graph_words *w)
{
    unsigned key = g->key;
    const char *name = key & MT_NODE_BUFFER ? stride_graph_buffer_name(w, n->buffer) : "";
    if (!(key & MT_NODE_BUFFER))
        fputs("* ", f);
    else if (n->buffer == MT_BUFFER_NONE)
        fputs("- ", f);
    else {
        fprintf(f, *name ? "%" PRIu64 ":" : "%" PRIu64, n->buffer);
        dot_text(f, name);
        fputc(' ', f);
    }
    if (key & MT_NODE_STRIDE)
        fprintf(f, "%" PRId64 " ", n->stride);
    else
        fputs("* ", f);
    if (key & (MT_NODE_BUFFER | MT_NODE_SIZE) && n->bytes)
        fprintf(f, "%" PRIu64 " ", n->bytes);
    else
        fputs(key & (MT_NODE_BUFFER | MT_NODE_SIZE) ? "- " : "* ", f);
    (w->places ? dot_place : dot_text)(f, n->kernel);
    if (n->kernels > 1)
        fprintf(f, " and %u more", n->kernels - 1);
    fprintf(f, " - %" PRIu64, n->count);
}

/* Returns 1 if a node has so many successors that dot, which draws them side by side, would make a very wide
 * picture. Edges are sorted by their first node. */
static int dot_is_wide(const struct mt_stride_graph *g)
{
    enum { FOLLOWERS = 8 };
    size_t run = 0;
    for (size_t i = 0; i < g->nedges && run <= FOLLOWERS; i++)
        run = i && g->edges[i].from == g->edges[i - 1].from ? run + 1 : 1;
    return run > FOLLOWERS;
}

static void dot_write_plain(FILE *f, const struct mt_stride_graph *g, const struct mt_stride_graph_words *w)
{
    fputs("digraph memtrace {\n", f);
    for (size_t i = 0; i < w->ninputs; i++) {
        fputs("  // input \"", f);
        dot_text(f, w->inputs[i]);
        fputs("\"\n", f);
    }
    fprintf(f, "  // %s\n", w->stride);
    fprintf(
        f,
        "  // label: buffer:name stride bytes-of-the-buffer %s - count; writes gray, reads white, atomics "
        "octagons\n",
        w->places ? "file-line" : "kernel");
    for (size_t i = 0; i < w->nnotes; i++) {
        fputs("  // ", f);
        dot_text(f, w->notes[i]);
        fputc('\n', f);
    }
    if (w->left_out)
        fprintf(f, "  label=\"%s%zu of %zu kinds of access, those counted most\";\n",
                w->complete ? "" : "incomplete; ", g->nnodes, g->nnodes + w->left_out);
    else if (!w->complete)
        fputs("  label=\"incomplete\";\n", f);
    if (dot_is_wide(g))
        fputs("  rankdir=LR;\n", f); /* draws successors below each other */
    fputs("  node [style=filled, fillcolor=white];\n", f);
    for (size_t i = 0; i < g->nnodes; i++) {
        fprintf(f, "  n%zu [label=\"", i);
        dot_label(f, g, &g->nodes[i], w);
        fprintf(f, "\", %s];\n", g->key & MT_NODE_TYPE ? looks[g->nodes[i].type] : "fillcolor=white");
    }
    for (size_t i = 0; i < g->nedges; i++)
        fprintf(f, "  n%u -> n%u [label=\"%" PRIu64 "\"];\n", g->edges[i].from, g->edges[i].to,
                g->edges[i].count);
    fputs("}\n", f);
}

void mt_stride_graph_write(FILE *f, const struct mt_stride_graph *g, const struct mt_stride_graph_words *w,
                           int graphml)
{
    (graphml ? dot_write_graphml : dot_write_plain)(f, g, w);
}

/* ---- JSON ---- */

/* Writes the allocations that nodes refer to. Nodes are sorted by buffer. */
static void json_buffers(struct mt_json *j, const struct mt_stride_graph *g,
                         const struct mt_stride_graph_words *w)
{
    mt_json_array(j, "buffers", 0);
    size_t n = 0;
    for (size_t i = 0; w->allocs && g->key & MT_NODE_BUFFER && i < w->nallocs; i++) {
        const struct mt_alloc_event *a = &w->allocs[i];
        while (n < g->nnodes && mt_order_u64(&g->nodes[n].buffer, &a->id) < 0)
            n++;
        if (n == g->nnodes || g->nodes[n].buffer != a->id)
            continue;
        mt_json_object(j, NULL, 1);
        mt_json_u64(j, "id", a->id);
        mt_json_hex(j, "base", a->base);
        mt_json_u64(j, "size", a->bytes);
        mt_json_text(j, "kind", a->kind);
        mt_json_text(j, "name", graph_out_name(w, a));
        mt_json_text(j, "file", a->file);
        mt_json_u64(j, "line", a->line);
        mt_json_end(j);
    }
    mt_json_end(j);
}

static void json_node(struct mt_json *j, const struct mt_stride_graph *g, size_t i)
{
    const struct mt_node *n = &g->nodes[i];
    mt_json_object(j, NULL, 1);
    mt_json_u64(j, "id", i);
    if (g->key & MT_NODE_BUFFER && n->buffer == MT_BUFFER_NONE)
        mt_json_text(j, "buffer", NULL);
    else if (g->key & MT_NODE_BUFFER)
        mt_json_u64(j, "buffer", n->buffer);
    if (g->key & MT_NODE_STRIDE)
        mt_json_i64(j, "stride", n->stride);
    if (g->key & MT_NODE_TYPE)
        mt_json_text(j, "type", mt_stride_graph_types[n->type]);
    if (g->key & (MT_NODE_BUFFER | MT_NODE_SIZE)) {
        if (n->bytes)
            mt_json_u64(j, "size", n->bytes);
        else
            mt_json_text(j, "size", NULL);
    }
    mt_json_text(j, "site", n->kernel);
    mt_json_u64(j, "sites", n->kernels);
    mt_json_u64(j, "count", n->count);
    mt_json_end(j);
}

/* Writes the sequence as [actor, node, count], one actor after another. */
static void json_sequence(struct mt_json *j, const struct mt_stride_graph *g, const struct mt_sequence *s)
{
    size_t n = g->nnodes + g->dropped;
    uint32_t *place = malloc((n + 1) * sizeof *place);
    struct mt_node_run *runs = malloc((s->nruns + 1) * sizeof *runs);
    int ok = place && runs && mt_sequence_runs(s, runs) == 0;
    mt_json_array(j, "sequence", 0);
    if (ok) {
        memset(place, 0xff, (n + 1) * sizeof *place);
        for (uint32_t i = 0; i < g->nnodes; i++)
            place[g->nodes[i].rank] = i;
        for (size_t i = 0; i < s->nruns; i++) {
            if (place[runs[i].token] == UINT32_MAX)
                continue; /* omits nodes counted less often than --min-count */
            mt_json_numbers(j, NULL, MT_NUMBERS(runs[i].actor, place[runs[i].token], runs[i].count));
        }
    }
    mt_json_end(j);
    mt_json_bool(j, "sequence_complete", ok && s->nruns == s->all_runs);
    free(place);
    free(runs);
}

void mt_stride_graph_write_json(struct mt_json *j, const struct mt_stride_graph *g,
                                const struct mt_stride_graph_words *w)
{
    mt_json_object(j, NULL, 0);
    mt_json_text(j, "format", "memtrace-graph");
    mt_json_u64(j, "version", 1);
    mt_json_array(j, "inputs", 1);
    for (size_t i = 0; i < w->ninputs; i++)
        mt_json_text(j, NULL, w->inputs[i]);
    mt_json_end(j);
    mt_json_known(j, "complete", w->complete);
    mt_json_array(j, "notes", 0);
    mt_json_text(j, NULL, w->stride);
    for (size_t i = 0; i < w->nnotes; i++)
        mt_json_text(j, NULL, w->notes[i]);
    mt_json_end(j);
    mt_json_array(j, "node", 1);
    for (unsigned i = 0; i < 5; i++)
        if (g->key & 1u << i)
            mt_json_text(j, NULL, mt_node_fields[i]);
    mt_json_end(j);
    mt_json_u64(j, "launches", w->launches);
    mt_json_u64(j, "records", g->records);
    json_buffers(j, g, w);
    mt_json_array(j, "nodes", 0);
    for (size_t i = 0; i < g->nnodes; i++)
        json_node(j, g, i);
    mt_json_end(j);
    mt_json_array(j, "edges", 0);
    for (size_t i = 0; i < g->nedges; i++) {
        mt_json_object(j, NULL, 1);
        mt_json_u64(j, "from", g->edges[i].from);
        mt_json_u64(j, "to", g->edges[i].to);
        mt_json_u64(j, "count", g->edges[i].count);
        mt_json_end(j);
    }
    mt_json_end(j);
    if (w->sequence)
        json_sequence(j, g, w->sequence);
    mt_json_end(j);
}

/* ---- Similarity of traces as text, CSV and JSON (docs/man/memtrace-compare.md) ---- */

static const char *const compared[] = {
    [MT_COMPARED_NODES] = "nodes", [MT_COMPARED_RUNS] = "runs", [MT_COMPARED_FIRST_RUNS] = "first runs"};

static double compare_value(const struct mt_compare *c, const struct mt_compare_view *v, size_t i, size_t k)
{
    double s = (v->grams ? c->gram : c->edit)[i * c->n + k];
    return v->distance ? 1 - s : s;
}

static void compare_title(char *out, size_t size, const struct mt_compare *c, const struct mt_compare_view *v)
{
    const char *what = v->distance ? "distance" : "similarity";
    const char *range = v->distance ? "0 same, 1 nothing in common" : "1 same, 0 nothing in common";
    if (v->grams)
        snprintf(out, size, "n-gram %s: %u-grams that make up at least %g %% (%s)", what, c->alphabet.n,
                 100 * c->threshold, range);
    else if (c->how == MT_COMPARED_FIRST_RUNS)
        snprintf(out, size, "Levenshtein %s of the first %zu runs of nodes (%s)", what, c->cap, range);
    else
        snprintf(out, size, "Levenshtein %s of the sequences of %s (%s)", what,
                 c->how == MT_COMPARED_RUNS ? "runs of nodes" : "nodes", range);
}

/* ---- text ---- */

static void compare_text(FILE *f, const struct mt_compare *c, const struct mt_compare_view *v)
{
    char title[200];
    compare_title(title, sizeof title, c, v);
    fprintf(f, "# %s\n    ", title);
    for (size_t k = 0; k < c->n; k++)
        fprintf(f, " %7zu", k + 1);
    fputc('\n', f);
    for (size_t i = 0; i < c->n; i++) {
        fprintf(f, "%4zu", i + 1);
        for (size_t k = 0; k < c->n; k++) {
            double x = compare_value(c, v, i, k);
            if (isnan(x))
                fputs("       -", f);
            else
                fprintf(f, "  %.4f", x);
        }
        fputs("  ", f);
        mt_text_put(f, c->rows[i].path);
        putc('\n', f);
    }
}

/* ---- CSV (RFC 4180) ---- */

static void compare_csv(FILE *f, const struct mt_compare *c, const struct mt_compare_view *v)
{
    for (size_t k = 0; k < c->n; k++) {
        fputc(',', f);
        mt_csv_text(f, c->rows[k].path);
    }
    for (size_t i = 0; i < c->n; i++) {
        fputs("\r\n", f);
        mt_csv_text(f, c->rows[i].path);
        for (size_t k = 0; k < c->n; k++) {
            double x = compare_value(c, v, i, k);
            fputc(',', f);
            if (!isnan(x))
                fprintf(f, "%.6f", x);
        }
    }
    fputs("\r\n", f);
}

void mt_compare_write(FILE *f, const struct mt_compare *c, const struct mt_compare_view *v)
{
    (v->csv ? compare_csv : compare_text)(f, c, v);
}

/* ---- JSON ---- */

static void json_matrix(struct mt_json *j, const struct mt_compare *c, const struct mt_compare_view *v)
{
    mt_json_array(j, v->distance ? "distance" : "similarity", 0);
    for (size_t i = 0; i < c->n; i++) {
        mt_json_array(j, NULL, 1);
        for (size_t k = 0; k < c->n; k++)
            mt_json_real(j, NULL, compare_value(c, v, i, k));
        mt_json_end(j);
    }
    mt_json_end(j);
}

static void json_token(struct mt_json *j, const struct mt_token *t)
{
    mt_json_array(j, NULL, 1);
    if (t->buffer == MT_BUFFER_NONE)
        mt_json_text(j, NULL, NULL);
    else
        mt_json_u64(j, NULL, t->buffer);
    mt_json_i64(j, NULL, t->stride);
    mt_json_text(j, NULL, mt_stride_graph_types[t->type & 3]);
    mt_json_end(j);
}

/* Writes the alphabet->n tokens of an n-gram. */
static void dot_gram_tokens(const struct mt_alphabet *a, uint32_t gram, uint32_t *tokens)
{
    for (unsigned k = a->n; k-- > 0; gram = a->grams[gram].prefix)
        tokens[k] = a->grams[gram].token;
}

static void json_grams(struct mt_json *j, const struct mt_compare *c, const struct mt_compare_row *r)
{
    mt_json_array(j, "frequent", 0);
    for (size_t i = 0; i < r->ngrams; i++) {
        uint32_t token[MT_NGRAM_MAX];
        unsigned n = c->alphabet.n;
        dot_gram_tokens(&c->alphabet, r->grams[i].gram, token);
        mt_json_object(j, NULL, 1);
        mt_json_array(j, "nodes", 1);
        for (unsigned k = 0; k < n; k++)
            json_token(j, &c->alphabet.tokens[token[k]]);
        mt_json_end(j);
        mt_json_u64(j, "count", r->grams[i].count);
        mt_json_end(j);
    }
    mt_json_end(j);
}

static void json_row(struct mt_json *j, const struct mt_compare *c, const struct mt_compare_row *r)
{
    mt_json_object(j, NULL, 0);
    mt_json_text(j, "path", r->path);
    mt_json_text(j, "kind", r->kind);
    mt_json_known(j, "complete", r->complete);
    mt_json_u64(j, "nodes", r->sequence.elements);
    mt_json_u64(j, "runs", r->sequence.all_runs);
    mt_json_u64(j, "compared", r->compared);
    mt_json_u64(j, "ngrams", r->sequence.all_grams);
    json_grams(j, c, r);
    mt_json_end(j);
}

void mt_compare_write_json(struct mt_json *j, const struct mt_compare *c)
{
    mt_json_object(j, NULL, 0);
    mt_json_text(j, "format", "memtrace-compare");
    mt_json_u64(j, "version", 1);
    mt_json_object(j, "options", 1);
    mt_json_u64(j, "ngram", c->alphabet.n);
    mt_json_real(j, "threshold", c->threshold);
    mt_json_u64(j, "cap", c->cap);
    mt_json_end(j);
    mt_json_array(j, "inputs", 0);
    for (size_t i = 0; i < c->n; i++)
        json_row(j, c, &c->rows[i]);
    mt_json_end(j);
    mt_json_object(j, "levenshtein", 0);
    mt_json_text(j, "of", compared[c->how]);
    json_matrix(j, c, &(struct mt_compare_view){.distance = 1});
    mt_json_end(j);
    mt_json_object(j, "ngrams", 0);
    json_matrix(j, c, &(struct mt_compare_view){.grams = 1});
    mt_json_end(j);
    mt_json_end(j);
}

/* ---- Transfers as a DOT graph ---- */

struct edge {
    uint64_t src, dst; /* source and destination, see node_of */
    uint64_t bytes, accesses;
    int unordered;
};

struct dot {
    const struct mt_comm *c;
    enum mt_dot_by by;
    uint32_t *same;         /* for each launch, the first launch of its kernel */
    uint32_t *actor, *rank; /* CTA instances in output order, and the inverse; only for nodes by CTA */
    struct edge *edges;
    size_t n;
};

#define HOST (UINT64_C(1) << 63)

/* Returns the node of an end. By kernel: its first launch; by launch: its number; by CTA: its rank; for the
 * host: the place. */
static uint64_t node_of(const struct dot *d, uint32_t id)
{
    if (id & MT_ENTRY_HOST)
        return HOST | d->c->hosts[id & MT_ENTRY_MAX].place;
    uint32_t launch = d->c->actors[id].launch;
    return d->by == MT_DOT_CTA ? d->rank[id] : d->by == MT_DOT_LAUNCH ? launch : d->same[launch];
}

static int comm_dot_add(struct dot *d, struct mt_pairmap *index, const struct mt_transfer *t)
{
    uint64_t src = node_of(d, t->src), dst = node_of(d, t->dst);
    uint64_t *at = mt_pairmap_get(index, src, dst, d->n);
    if (!at)
        return -1;
    if (*at == d->n)
        d->edges[d->n++] = (struct edge){.src = src, .dst = dst};
    struct edge *e = &d->edges[*at];
    e->bytes += t->size;
    e->accesses += t->count;
    e->unordered |= mt_transfer_unordered(d->c, t);
    return 0;
}

MT_ORDER_FUNCTION(by_bytes, struct edge,
                  MT_ORDER_DIFFER(y, x, bytes) MT_ORDER_DIFFER(x, y, src) MT_ORDER_DIFFER(x, y, dst))

MT_ORDER_2(by_nodes, struct edge, src, dst)

static void comm_dot_quoted(FILE *f, const char *s)
{
    for (; *s; s++) {
        if (*s == '"' || *s == '\\')
            fputc('\\', f);
        fputc(*s == '\n' ? ' ' : *s, f);
    }
}

static void comm_dot_amount(char out[32], uint64_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double v = (double)bytes;
    unsigned u = 0;
    for (; v >= 1024 && u < 6; u++)
        v /= 1024;
    snprintf(out, 32, u ? "%.3g %s" : "%.0f %s", v, units[u]);
}

static void dot_name_of(FILE *f, uint64_t node)
{
    if (node & HOST)
        fprintf(f, "h%" PRIu64, node & ~HOST);
    else
        fprintf(f, "n%" PRIu64, node);
}

static void write_node(FILE *f, const struct dot *d, uint64_t node)
{
    const struct mt_comm *c = d->c;
    char key[64];
    fputs("  ", f);
    dot_name_of(f, node);
    fputs(" [label=\"", f);
    if (node & HOST) {
        comm_dot_quoted(f, MT_HOST_NAME);
        if (c->options.host) {
            fputs("\\n", f);
            comm_dot_quoted(f, mt_comm_location_name(c, (uint32_t)(node & ~HOST)));
        }
        fputs("\", style=filled, fillcolor=gray90];\n", f);
        return;
    }
    const struct mt_actor *a = d->by == MT_DOT_CTA ? &c->actors[d->actor[node]] : NULL;
    uint32_t launch = a ? a->launch : (uint32_t)node;
    comm_dot_quoted(f, c->launches[launch].kernel);
    if (d->by != MT_DOT_KERNEL)
        fprintf(f, "\\nsuperstep %" PRIu32, launch);
    if (a)
        fprintf(f, "\\nCTA %s", mt_cta_key(key, mt_cta_order(a->cta)));
    fputs("\"];\n", f);
}

static void write_edge(FILE *f, const struct edge *e, uint64_t most)
{
    char size[32];
    comm_dot_amount(size, e->bytes);
    fputs("  ", f);
    dot_name_of(f, e->src);
    fputs(" -> ", f);
    dot_name_of(f, e->dst);
    fprintf(f, " [label=\"%s\", tooltip=\"%" PRIu64 " bytes in %" PRIu64 " accesses\", penwidth=%.2f%s];\n",
            size, e->bytes, e->accesses, 0.5 + 2 * log2(1 + (double)e->bytes) / log2(2 + (double)most),
            e->unordered ? ", style=dashed" : "");
}

static int dot_write_graph(FILE *f, struct dot *d, size_t top)
{
    size_t shown = top && top < d->n ? top : d->n, n = 0;
    uint64_t *nodes = malloc((2 * shown + 1) * sizeof *nodes), left = 0;
    if (!nodes)
        return -1;
    qsort(d->edges, d->n, sizeof *d->edges, by_bytes);
    uint64_t most = d->n ? d->edges[0].bytes : 0;
    for (size_t i = shown; i < d->n; i++)
        left += d->edges[i].bytes;
    for (size_t i = 0; i < shown; i++) {
        nodes[n++] = d->edges[i].src;
        nodes[n++] = d->edges[i].dst;
    }
    qsort(nodes, n, sizeof *nodes, mt_order_u64);
    qsort(d->edges, shown, sizeof *d->edges, by_nodes);
    fputs("digraph transfers {\n  rankdir=LR;\n  node [shape=box, fontname=\"sans-serif\"];\n"
          "  edge [fontname=\"sans-serif\", fontsize=10];\n",
          f);
    if (shown < d->n) {
        char size[32];
        comm_dot_amount(size, left);
        fprintf(f, "  label=\"the %zu largest of %zu transfers; the others have %s\";\n", shown, d->n, size);
    }
    for (size_t i = 0; i < n; i++)
        if (i == 0 || nodes[i] != nodes[i - 1])
            write_node(f, d, nodes[i]);
    for (size_t i = 0; i < shown; i++)
        write_edge(f, &d->edges[i], most);
    fputs("}\n", f);
    free(nodes);
    return 0;
}

/* Fills in `same`: same[i] is the first launch of launch i's kernel. */
static int first_launches(struct dot *d)
{
    uint32_t *distinct = malloc((d->c->nlaunches + 1) * sizeof *distinct);
    size_t n = 0;
    if (!distinct)
        return -1;
    for (size_t i = 0; i < d->c->nlaunches; i++) {
        const char *kernel = d->c->launches[i].kernel;
        size_t k = 0;
        while (k < n && d->c->launches[distinct[k]].kernel != kernel &&
               strcmp(d->c->launches[distinct[k]].kernel, kernel) != 0)
            k++;
        if (k == n)
            distinct[n++] = (uint32_t)i;
        d->same[i] = distinct[k];
    }
    free(distinct);
    return 0;
}

static int cta_order(const void *a, const void *b, void *arg)
{
    const struct mt_comm *c = arg;
    const struct mt_actor *x = &c->actors[*(const uint32_t *)a], *y = &c->actors[*(const uint32_t *)b];
    if (x->launch != y->launch)
        return x->launch < y->launch ? -1 : 1;
    uint64_t p = mt_cta_order(x->cta), q = mt_cta_order(y->cta);
    return p < q ? -1 : p > q;
}

/* Numbers CTA instances by launch and CTA, independently of the order in which they appeared. */
static int rank_ctas(struct dot *d)
{
    size_t n = 0;
    d->actor = malloc((d->c->nactors + 1) * sizeof *d->actor);
    d->rank = malloc((d->c->nactors + 1) * sizeof *d->rank);
    if (!d->actor || !d->rank)
        return -1;
    for (uint32_t i = 1; i < d->c->nactors; i++)
        if (d->c->actors[i].instance == i)
            d->actor[n++] = i;
    qsort_r(d->actor, n, sizeof *d->actor, cta_order, (void *)d->c);
    for (size_t i = 0; i < n; i++)
        d->rank[d->actor[i]] = (uint32_t)i;
    return 0;
}

int mt_dot_write(FILE *f, const struct mt_comm_result *r, enum mt_dot_by by, size_t top)
{
    struct dot d = {.c = r->comm, .by = by};
    struct mt_pairmap index = {.slot = NULL};
    int rc = -1;
    d.same = malloc((d.c->nlaunches + 1) * sizeof *d.same);
    d.edges = malloc((d.c->ntransfers + 1) * sizeof *d.edges);
    if (!d.same || !d.edges)
        goto out;
    if (first_launches(&d) != 0 || (by == MT_DOT_CTA && rank_ctas(&d) != 0))
        goto out;
    for (size_t i = 0; i < d.c->ntransfers; i++)
        if (comm_dot_add(&d, &index, &d.c->transfers[i]) != 0)
            goto out;
    rc = dot_write_graph(f, &d, top);
out:
    mt_pairmap_free(&index);
    free(d.same);
    free(d.actor);
    free(d.rank);
    free(d.edges);
    return rc;
}
