/* Tables as Parquet files. */
#include "relations.h"
#include "parquet.h"
#include <stddef.h>

static const enum mt_parquet_type relations_types[] = {[MT_INTEGER] = MT_PARQUET_INT64,
                                                       [MT_REAL] = MT_PARQUET_DOUBLE,
                                                       [MT_TEXT] = MT_PARQUET_TEXT,
                                                       [MT_BOOLEAN] = MT_PARQUET_BOOLEAN};

static int relations_parquet_memory(char *why)
{
    snprintf(why, 300, "out of memory");
    return -1;
}

static int relations_parquet_begin(void *arg, const struct mt_relation *r, char *why)
{
    struct mt_tuples_parquet *w = arg;
    struct mt_parquet_column columns[MT_RELATION_COLUMNS];
    for (unsigned i = 0; i < r->n; i++)
        columns[i] = (struct mt_parquet_column){r->columns[i].name, relations_types[r->columns[i].type],
                                                r->columns[i].presence == MT_MAYBE};
    w->p = mt_parquet_begin(w->f, columns, r->n);
    return w->p ? 0 : relations_parquet_memory(why);
}

static int relations_parquet_row(void *arg, const struct mt_relation *r, const struct mt_value *v, char *why)
{
    struct mt_tuples_parquet *w = arg;
    int rc = 0;
    for (unsigned i = 0; i < r->n && rc == 0; i++)
        rc = v[i].null                       ? mt_parquet_null(w->p, i)
             : r->columns[i].type == MT_TEXT ? mt_parquet_text(w->p, i, v[i].text)
             : r->columns[i].type == MT_REAL ? mt_parquet_real(w->p, i, v[i].real)
                                             : mt_parquet_number(w->p, i, v[i].number);
    return rc == 0 && mt_parquet_row(w->p) == 0 ? 0 : relations_parquet_memory(why);
}

static int relations_parquet_end(void *arg, const struct mt_relation *r, char *why)
{
    struct mt_tuples_parquet *w = arg;
    int rc = mt_parquet_end(w->p, "memtrace", r->name);
    mt_parquet_free(w->p);
    w->p = NULL;
    return rc == 0 ? 0 : relations_parquet_memory(why);
}

const struct mt_tuples_ops mt_tuples_as_parquet = {relations_parquet_begin, relations_parquet_row,
                                                   relations_parquet_end};

void mt_tuples_parquet_free(struct mt_tuples_parquet *w)
{
    mt_parquet_free(w->p);
    w->p = NULL;
}
