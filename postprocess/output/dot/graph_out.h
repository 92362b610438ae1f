/* The memory graph as DOT (Graphviz), GraphML and JSON (docs/man/memtrace-graph.md). */
#ifndef MT_OUTPUT_GRAPH_OUT_H
#define MT_OUTPUT_GRAPH_OUT_H
#include <stdio.h>
#include "output/json/json.h"
#include "analysis/graph/graph.h"
#include "analysis/graph/sequence.h"

/* Words that go with the graph. */
struct mt_stride_graph_words {
    const char *const *inputs;
    size_t ninputs;
    const char *const *notes;
    size_t nnotes;
    int complete;
    size_t left_out; /* nodes that --top left out */
    uint64_t launches;
    const char *stride;                  /* what a stride is here */
    int places;                          /* sites are "file:line", not kernels */
    const struct mt_alloc_event *allocs; /* buffers by ascending id; NULL: not known */
    size_t nallocs;
    const char *const *called; /* of each: its name when it has none of its own, or NULL; NULL: not known */
    const struct mt_sequence
        *sequence; /* runs of nodes as they were numbered at first; NULL: none to write */
};

/* A name per mt_node_field bit, in order. */
extern const char *const mt_node_fields[5];

/* "" where it has none. */
const char *mt_stride_graph_buffer_name(const struct mt_stride_graph_words *w, uint64_t buffer);
/* To `f`, which keeps its error state. */
void mt_stride_graph_write_dot(FILE *f, const struct mt_stride_graph *g,
                               const struct mt_stride_graph_words *w);
void mt_stride_graph_write_graphml(FILE *f, const struct mt_stride_graph *g,
                                   const struct mt_stride_graph_words *w);
/* Names of types, by enum mt_access_type. */
extern const char *const mt_stride_graph_types[4];
/* One whole document. */
void mt_stride_graph_write_json(struct mt_json *j, const struct mt_stride_graph *g,
                                const struct mt_stride_graph_words *w);
#endif
