/* How alike traces are: text, CSV and JSON (docs/man/memtrace-compare.md). */
#ifndef MT_OUTPUT_COMPARE_OUT_H
#define MT_OUTPUT_COMPARE_OUT_H
#include <stdio.h>
#include "output/json/json.h"
#include "analysis/graph/sequence.h"

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
