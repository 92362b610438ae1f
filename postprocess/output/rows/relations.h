/* The results as tables (relations.def): who makes rows gives them to one of three writers, which knows
 * nothing but the descriptions. Functions that return int: 0, or -1 with rows->why. */
#ifndef MT_OUTPUT_RELATIONS_H
#define MT_OUTPUT_RELATIONS_H

#include "sorted.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* ---- Fields of CSV files, RFC 4180 with LF ---- */

/* In quotes where that is needed. A text that a spreadsheet would take for a formula (it begins with = + - or
 * @) gets an apostrophe in front; no field has a line's end or another control character in it. */
void mt_csv_text(FILE *f, const char *s);

enum mt_value_type { MT_INTEGER, MT_REAL, MT_TEXT, MT_BOOLEAN };
enum mt_presence { MT_KEY, MT_SURE, MT_MAYBE };
/* What a table is made of: the communication analysis, a pass over the records, or a further analysis. */
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
#define MT_FACTS MT_RELATIONS, MT_REL_last = MT_RELATIONS - 1, /* those that files have */
#include "relations.def"
    MT_TABLES, /* all that SQL sees */
    MT_REL_NONE
};

struct mt_column {
    const char *name;
    enum mt_value_type type;
    enum mt_presence presence;
    enum mt_relation_number refers; /* MT_REL_NONE, or the table whose id it is */
    const char *json;               /* relations.def says how */
    const char *what;
};

enum { MT_RELATION_COLUMNS = 28 }; /* of a table, at most */

struct mt_relation {
    const char *name, *path, *what; /* path: of its rows in comm.json */
    enum mt_relation_of of;
    const struct mt_column *columns;
    unsigned n;
};
extern const struct mt_relation mt_relations[MT_TABLES];

extern const char *const mt_relation_names[]; /* those that files have; NULL ends them */

struct mt_value {
    int null;
    int64_t number; /* MT_BOOLEAN: 0 or 1 */
    double real;
    const char *text; /* until the row is written */
};

/* A writer of tables. `begin` and `end` may be NULL. Each function gets `arg`, returns 0, or -1 with a
 * sentence in why[300]. */
struct mt_tuples_ops {
    int (*begin)(void *arg, const struct mt_relation *r, char *why);
    int (*row)(void *arg, const struct mt_relation *r, const struct mt_value *values, char *why);
    int (*end)(void *arg, const struct mt_relation *r, char *why);
};

enum { MT_TUPLES_FILE = 4200, MT_TUPLES_PLACES = 2 /* of a row, at most */ };

/* A table under way. Values are given from left to right, then mt_tuples_next writes the row. */
struct mt_tuples {
    const struct mt_tuples_ops *ops;
    void *arg;
    const struct mt_relation *now;
    unsigned at;
    struct mt_value value[MT_RELATION_COLUMNS];
    char why[300];
    /* texts of the row that are made for it */
    char place[MT_TUPLES_PLACES][MT_TUPLES_FILE], label[MT_ALLOC_LABEL];
    unsigned places;
};

/* The rows of a table, as who has them gives them. */
struct mt_comm_result;
struct mt_rowset {
    const struct mt_comm_result *r;
    int by_kernel; /* launches come by kernel, where they do not by themselves: for comm.json */
    size_t n;
    /* Gives the values of row i < n, or none at all where there is no such row. */
    void (*row)(struct mt_tuples *w, const struct mt_rowset *x, size_t i);
    /* the table's own: */
    void *data;                       /* malloc'ed */
    void (*end)(struct mt_rowset *x); /* NULL: free(data) */
    unsigned which;                   /* of several tables of one shape */
    const size_t *order;              /* where the analysis holds row i; NULL: at i */
};
/* Fills x, which has `r`, maybe by_kernel, and is empty otherwise. 0, or -1 without memory. */
typedef int mt_rows_of(struct mt_rowset *x);
/* Such a function, of x: how many rows `how` gives; and with x->data, a list that is made for it, before they
 * are counted. */
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
                      uint64_t v); /* also of a boolean; addresses of 2^63 and more are negative */
void mt_tuples_numbers(struct mt_tuples *w, size_t n, const uint64_t *v);
void mt_tuples_real(struct mt_tuples *w, double v);
/* "" is NULL where the column may be. */
void mt_tuples_text(struct mt_tuples *w, const char *v);
void mt_tuples_maybe(struct mt_tuples *w, int known, uint64_t v); /* NULL: it is not known */
void mt_tuples_null(struct mt_tuples *w, unsigned columns);
/* "file:line" as two columns, both NULL for "?". */
void mt_tuples_place(struct mt_tuples *w, const char *place);
/* x, y, z of a CTA: word 2 of its records. */
void mt_tuples_cta(struct mt_tuples *w, uint64_t word);
int mt_tuples_next(struct mt_tuples *w);
int mt_tuples_end(struct mt_tuples *w);
int mt_tuples_memory(struct mt_tuples *w); /* there was none: -1 */

/* ---- the writers ---- */

/* CSV: RFC 4180 with LF, a line of column names, nothing for NULL. arg: a FILE; its errors are ferror's. */
extern const struct mt_tuples_ops mt_tuples_as_csv;
/* Parquet (parquet.h): one table a file. arg: a struct mt_tuples_parquet with its file; its errors are
 * ferror's. */
struct mt_parquet;
struct mt_tuples_parquet {
    FILE *f;
    struct mt_parquet *p; /* NULL at first and after the end */
};
extern const struct mt_tuples_ops mt_tuples_as_parquet;
void mt_tuples_parquet_free(struct mt_tuples_parquet *w); /* of a table that did not come to its end */

#endif
