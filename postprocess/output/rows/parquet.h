/* A writer of Parquet files, as far as tables need it: flat columns, plain encoding, pages compressed with
 * zstd. The format is Apache's: the structures' field numbers are those of parquet.thrift in
 * github.com/apache/parquet-format, written in Thrift's compact protocol. Rows are kept until a row group is
 * full (65,536 rows, or 32 MiB); the file is written front to back, so it may be a pipe. Functions return 0,
 * or -1 without memory; write errors are the stream's. */
#ifndef MT_OUTPUT_PARQUET_H
#define MT_OUTPUT_PARQUET_H
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum mt_parquet_type {
    MT_PARQUET_BOOLEAN = 0,
    MT_PARQUET_INT64 = 2,
    MT_PARQUET_DOUBLE = 5,
    MT_PARQUET_TEXT = 6
};

struct mt_parquet_column {
    const char *name; /* the caller's, kept */
    enum mt_parquet_type type;
    int optional; /* may be null */
};

struct mt_parquet;
/* Begins a file. NULL without memory. */
struct mt_parquet *mt_parquet_begin(FILE *f, const struct mt_parquet_column *columns, unsigned n);
/* The next value of column `c`; of each column one for each row. */
int mt_parquet_null(struct mt_parquet *p, unsigned c);
int mt_parquet_number(struct mt_parquet *p, unsigned c, int64_t v); /* integers and booleans */
int mt_parquet_real(struct mt_parquet *p, unsigned c, double v);
int mt_parquet_text(struct mt_parquet *p, unsigned c, const char *v); /* what is not UTF-8 becomes \xNN */
int mt_parquet_row(struct mt_parquet *p);                             /* the row is whole */
/* Writes the rest and the footer; `key` and `value`: a pair of words for it, or NULL. */
int mt_parquet_end(struct mt_parquet *p, const char *key, const char *value);
void mt_parquet_free(struct mt_parquet *p);
#endif
