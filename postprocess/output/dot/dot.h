/* Graphs as DOT, GraphML and JSON, and the similarity of traces as text, CSV and JSON
 * (docs/man/memtrace-graph.md, docs/man/memtrace-compare.md). */
#ifndef MT_DOT_DOT_H
#define MT_DOT_DOT_H

#include "output/json/json.h"
#include "analysis/graph/graph.h"
#include "analysis/graph/sequence.h"
#include <stdio.h>

/* ---- The memory graph as DOT, GraphML and JSON (docs/man/memtrace-graph.md) ---- */

/* Names and notes shown with the graph. */
struct mt_stride_graph_words {
    const char *const *inputs;
    size_t ninputs;
    const char *const *notes;
    size_t nnotes;
    int complete;
    size_t left_out; /* nodes that --top omitted */
    uint64_t launches;
    const char *stride;                  /* meaning of a stride in this graph */
    int places;                          /* 1: sites are "file:line"; 0: kernels */
    const struct mt_alloc_event *allocs; /* allocations by ascending id; NULL: unknown */
    size_t nallocs;
    const char *const
        *called; /* for each allocation a substitute name or NULL; the array is NULL if unknown */
    const struct mt_sequence
        *sequence; /* sequence of nodes per actor, with the nodes' original numbers; NULL: not written */
};

/* Name of each mt_node_field, in the order of the bits. */
extern const char *const mt_node_fields[5];

/* Writes the graph as DOT or GraphML; write errors show in ferror(f). */
void mt_stride_graph_write(FILE *f, const struct mt_stride_graph *g, const struct mt_stride_graph_words *w,
                           int graphml);

/* Name of each enum mt_access_type. */
extern const char *const mt_stride_graph_types[4];

/* Writes one whole document. */
void mt_stride_graph_write_json(struct mt_json *j, const struct mt_stride_graph *g,
                                const struct mt_stride_graph_words *w);

/* Choice of matrix, shown as similarities or as distances (1 - similarity), as text or CSV. */
struct mt_compare_view {
    int grams, distance, csv;
};

void mt_compare_write(FILE *f, const struct mt_compare *c, const struct mt_compare_view *v);

/* Writes both matrices and the frequent n-grams. */
void mt_compare_write_json(struct mt_json *j, const struct mt_compare *c);

#endif
