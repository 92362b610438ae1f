/* How alike traces are: text, CSV and JSON (docs/man/memtrace-compare.md). */
#ifndef MT_DOT_DOT_H
#define MT_DOT_DOT_H

#include "output/json/json.h"
#include "analysis/graph/graph.h"
#include "analysis/graph/sequence.h"
#include <stdio.h>

/* ---- What GraphML and pages share ---- */

/* `s` as text or in an attribute between double quotes; what no XML text may hold becomes a blank. */
void mt_xml_text(FILE *f, const char *s);

/* ---- The memory graph as DOT (Graphviz), GraphML and JSON (docs/man/memtrace-graph.md) ---- */

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

enum mt_compared { MT_COMPARED_NODES, MT_COMPARED_RUNS, MT_COMPARED_FIRST_RUNS };

struct mt_compare_row {
    const char *path, *kind;
    const char *stride; /* a sentence on what a stride is here; NULL: not known */
    int complete;
    struct mt_sequence sequence;
    size_t compared; /* elements whose edit distance was taken */
    struct mt_gram_share *grams;
    size_t ngrams;
};

struct mt_compare {
    struct mt_alphabet alphabet;
    struct mt_compare_row *rows;
    size_t n;
    enum mt_compared how;
    size_t cap;
    char *note;          /* why rows are not alike in kind, or NULL; the caller's */
    double threshold;    /* of n-grams, 0..1 */
    double *edit, *gram; /* [n * n] similarities 0..1; NAN: not known */
};

/* What is shown: one of the two matrices, as similarities or as distances (1 - similarity). */
struct mt_compare_view {
    int grams, distance;
};

void mt_compare_write_text(FILE *f, const struct mt_compare *c, const struct mt_compare_view *v);
void mt_compare_write_csv(FILE *f, const struct mt_compare *c, const struct mt_compare_view *v);

/* Both matrices and the frequent n-grams. */
void mt_compare_write_json(struct mt_json *j, const struct mt_compare *c);

#endif
