/* GraphML: for graph programs that do not read DOT. */
#define _GNU_SOURCE
#include "graph_out.h"
#include "xml.h"
#include <inttypes.h>

static void data_u64(FILE *f, const char *key, uint64_t value)
{
    fprintf(f, "<data key=\"%s\">%" PRIu64 "</data>", key, value);
}

static void one_node(FILE *f, const struct mt_stride_graph *g, const struct mt_stride_graph_words *w,
                     size_t i)
{
    const struct mt_node *n = &g->nodes[i];
    const char *name = g->key & MT_NODE_BUFFER ? mt_stride_graph_buffer_name(w, n->buffer) : "";
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

void mt_stride_graph_write_graphml(FILE *f, const struct mt_stride_graph *g,
                                   const struct mt_stride_graph_words *w)
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
