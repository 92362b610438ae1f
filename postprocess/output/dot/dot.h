/* Graphs as DOT, GraphML and JSON, and the similarity of traces as text, CSV and JSON
 * (docs/man/memtrace-graph.md, docs/man/memtrace-compare.md). */
#ifndef MT_DOT_DOT_H
#define MT_DOT_DOT_H

#include "output/json/json.h"
#include "analysis/graph/graph.h"
#include "analysis/graph/sequence.h"
#include <stdio.h>

/* ---- XML text, for GraphML and pages ---- */

/* Writes `s` as XML text, also usable in an attribute in double quotes. Characters that XML does not allow
 * become blanks. */
void mt_xml_text(FILE *f, const char *s);

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

/* Writes the graph to `f`; write errors show in ferror(f). */
void mt_stride_graph_write_dot(FILE *f, const struct mt_stride_graph *g,
                               const struct mt_stride_graph_words *w);

void mt_stride_graph_write_graphml(FILE *f, const struct mt_stride_graph *g,
                                   const struct mt_stride_graph_words *w);

/* Name of each enum mt_access_type. */
extern const char *const mt_stride_graph_types[4];

/* Writes one whole document. */
void mt_stride_graph_write_json(struct mt_json *j, const struct mt_stride_graph *g,
                                const struct mt_stride_graph_words *w);

enum mt_compared { MT_COMPARED_NODES, MT_COMPARED_RUNS, MT_COMPARED_FIRST_RUNS };

struct mt_compare_row {
    const char *path, *kind;
    const char *stride; /* sentence that defines a stride here; NULL: unknown */
    int complete;
    struct mt_sequence sequence;
    size_t compared; /* elements compared by edit distance */
    struct mt_gram_share *grams;
    size_t ngrams;
};

struct mt_compare {
    struct mt_alphabet alphabet;
    struct mt_compare_row *rows;
    size_t n;
    enum mt_compared how;
    size_t cap;
    char *note;          /* why the rows are of different kinds, or NULL; owned by the caller */
    double threshold;    /* smallest share of frequent n-grams, 0 to 1 */
    double *edit, *gram; /* [n * n] similarities, 0 to 1; NAN: unknown */
};

/* Choice of matrix, shown as similarities or as distances (1 - similarity). */
struct mt_compare_view {
    int grams, distance;
};

void mt_compare_write_text(FILE *f, const struct mt_compare *c, const struct mt_compare_view *v);
void mt_compare_write_csv(FILE *f, const struct mt_compare *c, const struct mt_compare_view *v);

/* Writes both matrices and the frequent n-grams. */
void mt_compare_write_json(struct mt_json *j, const struct mt_compare *c);

#endif
