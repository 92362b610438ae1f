/* The memory graph as DOT (Graphviz), GraphML and JSON (docs/man/memtrace-graph.md). */
#define _GNU_SOURCE
#include "graph_out.h"
#include "analysis/base/sites.h"
#include "base/text.h"
#include "memtrace/order.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

const char *const mt_node_fields[5] = {"buffer", "stride", "type", "size", "site"};

/* In a graph loads are reads and stores are writes. */
const char *const mt_stride_graph_types[4] = {
    [MT_LOAD] = "read", [MT_STORE] = "write", [MT_ATOMIC] = "atomic", [MT_UNKNOWN] = "unknown"};
/* The gray of X11: SVG has a darker one. */
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

/* "dir/file.c:7" as "file.c-7". */
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

const char *mt_stride_graph_buffer_name(const struct mt_stride_graph_words *w, uint64_t buffer)
{
    struct mt_alloc_event key = {.id = buffer};
    const struct mt_alloc_event *a =
        w->allocs && w->nallocs ? bsearch(&key, w->allocs, w->nallocs, sizeof key, by_id) : NULL;
    return a ? graph_out_name(w, a) : "";
}

/* ID:NAME stride size kernel - count; what is not in the key is a star. */
static void dot_label(FILE *f, const struct mt_stride_graph *g, const struct mt_node *n,
                      const struct mt_stride_graph_words *w)
{
    unsigned key = g->key;
    const char *name = key & MT_NODE_BUFFER ? mt_stride_graph_buffer_name(w, n->buffer) : "";
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

/* Does a node have so many followers that dot, which puts them side by side, would draw a band? Edges are by
 * their first node. */
static int dot_is_wide(const struct mt_stride_graph *g)
{
    enum { FOLLOWERS = 8 };
    size_t run = 0;
    for (size_t i = 0; i < g->nedges && run <= FOLLOWERS; i++)
        run = i && g->edges[i].from == g->edges[i - 1].from ? run + 1 : 1;
    return run > FOLLOWERS;
}

void mt_stride_graph_write_dot(FILE *f, const struct mt_stride_graph *g,
                               const struct mt_stride_graph_words *w)
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
        fputs("  rankdir=LR;\n", f); /* followers one below the other */
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

/* ---- JSON ---- */

/* The allocations that nodes name. Nodes are in order of buffers. */
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

/* [actor, node, count], actors one after the other. */
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
                continue; /* counted less than --min-count */
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
