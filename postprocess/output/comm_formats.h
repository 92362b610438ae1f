/* The results of the communication analysis in other forms than JSON: tables (CSV), a graph (DOT), a database
 * (SQLite). docs/man/mt-extract.md says what is in them. */
#ifndef MT_OUTPUT_COMM_FORMATS_H
#define MT_OUTPUT_COMM_FORMATS_H
#include <stdio.h>
#include "comm_json.h"
#include "memtrace/trace.h"
#include "analysis/comm/ranges.h"

struct mt_comm_result {
    const struct mt_comm *comm;
    struct mt_source *source;                    /* for companions, allocations, notes */
    const struct mt_launch_event *const *events; /* of each launch; NULL where no companion has it */
    const char *const *inputs;
    size_t ninputs;
    unsigned sections; /* a bit per enum mt_section */
    int complete;
};

/* ---- CSV: RFC 4180 with LF, a line of column names first ---- */

/* Tables that these sections make: 1 is what a file can hold. */
unsigned mt_csv_tables(unsigned sections);
/* 0, or -1 without memory; write errors are ferror's. */
int mt_csv_write(FILE *f, const struct mt_comm_result *r);

/* ---- DOT: who sends how much to whom ---- */

enum mt_dot_by { MT_DOT_KERNEL, MT_DOT_LAUNCH, MT_DOT_CTA };
/* The `top` (0: all) largest transfers between such nodes; the graph's label says how many are left out. 0,
 * or -1 without memory. */
int mt_dot_write(FILE *f, const struct mt_comm_result *r, enum mt_dot_by by, size_t top);

/* ---- SQLite ---- */

struct mt_db;
/* A new database in the empty file at `path`; nothing is sure to be in it before mt_db_finish. NULL:
 * `why` is a sentence. */
struct mt_db *mt_db_open(const char *path, char *why, size_t size);
/* 0, or -1: mt_db_why. */
int mt_db_result(struct mt_db *db, const struct mt_comm_result *r);
/* The ranges of a launch (superstep); ends them. */
int mt_db_ranges(struct mt_db *db, uint64_t launch, struct mt_touched *ranges);
/* The table meta. */
int mt_db_say(struct mt_db *db, const char *key, const char *value);
/* Indexes, commit. */
int mt_db_finish(struct mt_db *db);
const char *mt_db_why(const struct mt_db *db);
void mt_db_close(struct mt_db *db);
#endif
