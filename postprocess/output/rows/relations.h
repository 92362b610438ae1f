/* Results as tables (relations.def). Row sources give rows to one of three writers, which depend only on the
 * descriptions. Functions that return int return 0, or -1 with rows->why. */
#ifndef MT_OUTPUT_RELATIONS_H
#define MT_OUTPUT_RELATIONS_H

#include "sorted.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* ---- CSV fields (RFC 4180, with LF) ---- */

/* Writes a field, quoted if needed. A text that a spreadsheet would take for a formula (beginning with = + -
 * or @) gets an apostrophe in front. Fields never contain control characters. */
void mt_csv_text(FILE *f, const char *s);

enum mt_value_type { MT_INTEGER, MT_REAL, MT_TEXT, MT_BOOLEAN };
enum mt_presence { MT_KEY, MT_SURE, MT_MAYBE };
/* Part of the results that a table is made from: the communication analysis, a pass over the records, or a
 * further analysis. */
enum mt_relation_of {
    MT_OF_COMM,
    MT_OF_RANGES,
#define MT_ANALYSIS(NAME, name, ...) MT_OF_##NAME,
#include "analysis/locality/locality.def"
#undef MT_ANALYSIS
    MT_OF_PLACEMENT,
    MT_OF_ONCHIP
};

enum mt_relation_number {
#define MT_RELATION(name, of, path, what) MT_REL_##name,
#define MT_COLUMN(name, column, type, presence, refers, json, what)
#define MT_FACTS MT_RELATIONS, MT_REL_last = MT_RELATIONS - 1, /* end of the tables in files */
#include "relations.def"
    MT_TABLES, /* end of the tables in SQL */
    MT_REL_NONE
};

struct mt_column {
    const char *name;
    enum mt_value_type type;
    enum mt_presence presence;
    enum mt_relation_number refers; /* MT_REL_NONE, or the table that the id refers to */
    const char *json;               /* place in comm.json, see relations.def */
    const char *what;
};

enum { MT_RELATION_COLUMNS = 28 }; /* most columns of a table */

struct mt_relation {
    const char *name, *path, *what; /* path: place of the rows in comm.json */
    enum mt_relation_of of;
    const struct mt_column *columns;
    unsigned n;
};
extern const struct mt_relation mt_relations[MT_TABLES];

extern const char *const mt_relation_names[]; /* names of the tables in files, NULL-terminated */

struct mt_value {
    int null;
    int64_t number; /* value of a number; 0 or 1 for MT_BOOLEAN */
    double real;
    const char *text; /* valid until the row is written */
};

/* A table writer. `begin` and `end` may be NULL. Each function gets `arg`, and returns 0, or -1 with a
 * sentence in why[300]. */
struct mt_tuples_ops {
    int (*begin)(void *arg, const struct mt_relation *r, char *why);
    int (*row)(void *arg, const struct mt_relation *r, const struct mt_value *values, char *why);
    int (*end)(void *arg, const struct mt_relation *r, char *why);
};

enum { MT_TUPLES_FILE = 4200, MT_TUPLES_PLACES = 2 /* room for a file name; most places of a row */ };

/* A table being written. Values are given from left to right, then mt_tuples_next writes the row. */
struct mt_tuples {
    const struct mt_tuples_ops *ops;
    void *arg;
    const struct mt_relation *now;
    unsigned at;
    struct mt_value value[MT_RELATION_COLUMNS];
    char why[300];
    /* buffers for texts of the current row */
    char place[MT_TUPLES_PLACES][MT_TUPLES_FILE], label[MT_ALLOC_LABEL];
    unsigned places;
};

/* The rows of a table, from their source. */
struct mt_comm_result;
struct mt_rowset {
    const struct mt_comm_result *r;
    int by_kernel; /* 1: launches are sorted by kernel, for comm.json */
    size_t n;
    /* Writes the values of row i < n, or none if that row does not exist. */
    void (*row)(struct mt_tuples *w, const struct mt_rowset *x, size_t i);
    /* Private data of the table: */
    void *data;                       /* list made for the table, malloc'ed */
    void (*end)(struct mt_rowset *x); /* frees `data`; NULL: free(data) */
    unsigned which;                   /* number of the table among those that share functions */
    const size_t *order;              /* index of row i in the analysis; NULL: i */
};
/* Fills x, which has `r` and perhaps by_kernel set, and is otherwise zero. Returns 0, or -1 without memory.
 */
typedef int mt_rows_of(struct mt_rowset *x);
/* Defines a row source: `how` writes a row, `count` is the number of rows of x. The second form first makes a
 * list, x->data. */
#define MT_ROWS(table, how, count)                                                                           \
    int mt_rows_of_##table(struct mt_rowset *x)                                                              \
    {                                                                                                        \
        x->row = how;                                                                                        \
        x->n = count;                                                                                        \
        return 0;                                                                                            \
    }
#define MT_ROWS_OF_LIST(table, how, list, count)                                                             \
    int mt_rows_of_##table(struct mt_rowset *x)                                                              \
    {                                                                                                        \
        x->row = how;                                                                                        \
        x->data = list;                                                                                      \
        x->n = count;                                                                                        \
        return x->data ? 0 : -1;                                                                             \
    }
void mt_rows_end(struct mt_rowset *x);

int mt_tuples_begin(struct mt_tuples *w, enum mt_relation_number number);
void mt_tuples_number(struct mt_tuples *w,
                      uint64_t v); /* also for booleans; addresses of 2^63 and more become negative */
void mt_tuples_numbers(struct mt_tuples *w, size_t n, const uint64_t *v);
void mt_tuples_real(struct mt_tuples *w, double v);
/* Writes a text; "" becomes NULL if the column allows it. */
void mt_tuples_text(struct mt_tuples *w, const char *v);
void mt_tuples_maybe(struct mt_tuples *w, int known, uint64_t v); /* NULL if not `known` */
void mt_tuples_null(struct mt_tuples *w, unsigned columns);
/* Writes "file:line" as two columns, both NULL for "?". */
void mt_tuples_place(struct mt_tuples *w, const char *place);
/* Writes x, y, z of a CTA from word 2 of its records. */
void mt_tuples_cta(struct mt_tuples *w, uint64_t word);
int mt_tuples_next(struct mt_tuples *w);
int mt_tuples_end(struct mt_tuples *w);

/* ---- the writers ---- */

/* CSV (RFC 4180, with LF), headed by column names; NULL is empty. arg: a FILE, whose errors show in ferror.
 */
extern const struct mt_tuples_ops mt_tuples_as_csv;
/* Parquet (parquet.h), one table per file. arg: a struct mt_tuples_parquet with its file, whose errors show
 * in ferror. */
struct mt_parquet;
struct mt_tuples_parquet {
    FILE *f;
    struct mt_parquet *p; /* NULL before a table begins and after it ends */
};
extern const struct mt_tuples_ops mt_tuples_as_parquet;
void mt_tuples_parquet_free(struct mt_tuples_parquet *w); /* frees a table that was not finished */

#endif
