/* Writer of Parquet files, with what tables need: flat columns, plain encoding, pages compressed with zstd.
 * The format is Apache's: field numbers are those of parquet.thrift in github.com/apache/parquet-format, in
 * Thrift's compact protocol. Rows are buffered until a row group is full (65,536 rows, or 32 MiB). The file
 * is written sequentially, so it may be a pipe. Functions return 0, or -1 without memory; write errors show
 * in the stream. */
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
    const char *name; /* owned by the caller */
    enum mt_parquet_type type;
    int optional; /* 1: values may be null */
};

struct mt_parquet;

#endif
