/* The results in other forms than JSON: tables (CSV, SQLite, Parquet), a graph (DOT).
 * docs/man/memtrace-extract.md says what is in them. */
#ifndef MT_OUTPUT_COMM_FORMATS_H
#define MT_OUTPUT_COMM_FORMATS_H
#include <stdio.h>
#include "memtrace/trace.h"
#include "analysis/locality/estimates.h"
#include "analysis/comm/ranges.h"
#include "analysis/onchip/onchip.h"
#include "topology.h"
#include "sorted.h"
#include "relations.h"

struct mt_comm_result {
    const struct mt_comm *comm;
    struct mt_source *source;                    /* for companions, allocations, notes */
    const struct mt_launch_event *const *events; /* of each launch; NULL where no companion has it */
    const char *const *inputs;
    size_t ninputs;
    unsigned sections; /* a bit per enum mt_section */
    int complete;
    /* of tables: */
    const char *tag; /* NULL: the program's name */
    unsigned chosen; /* further analyses, a bit each; those of which are: */
    const struct mt_locality *locality;
    const struct mt_sites *sites;
    const struct mt_placement *placement;
    const struct mt_topology *topology;             /* of the devices; NULL: not given */
    const struct mt_collective_launch *collectives; /* by launch; those that are reported */
    size_t ncollectives;
    enum mt_collective_way way;
    const struct mt_estimates *estimates;
    const struct mt_onchip_rows *onchip; /* of the summary; NULL: no records of shared and local memory */
    const char *const *notes;            /* besides the source's */
    size_t nnotes;
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

/* ---- tables: SQLite, CSV, Parquet (relations.h) ---- */

struct mt_db;
/* A new database in the empty file at `path`; nothing is sure to be in it before mt_db_finish. NULL:
 * `why` is a sentence. */
struct mt_db *mt_db_open(const char *path, char *why, size_t size);
/* The same for tables in an open database, which stays the caller's: they may lack values, and are there at
 * once. */
struct sqlite3;
struct mt_db *mt_db_lend(struct sqlite3 *db, char *why, size_t size);
/* For tables, each once; MT_OF_COMM and MT_OF_RANGES are to be there in the end. */
struct mt_tuples *mt_db_rows(struct mt_db *db);
/* Indexes, views of the tables that are there (views.def), commit. 0, or -1 with mt_db_rows(db)->why. */
int mt_db_finish(struct mt_db *db);
void mt_db_close(struct mt_db *db);
/* CREATE TABLE: names and types, keys, what else holds. */
enum mt_declare { MT_DECLARE_TYPES, MT_DECLARE_KEYS, MT_DECLARE_ALL };
struct sqlite3_str;
void mt_relation_declare(struct sqlite3_str *s, const char *name, const struct mt_relation *r,
                         enum mt_declare how);
#endif
