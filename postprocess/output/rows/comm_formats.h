/* Results in forms other than JSON: tables (CSV, SQLite, Parquet), a graph (DOT).
 * docs/man/memtrace-extract.md describes their contents. */
#ifndef MT_OUTPUT_COMM_FORMATS_H
#define MT_OUTPUT_COMM_FORMATS_H
#include <stdio.h>
#include "memtrace/trace.h"
#include "analysis/base/parts.h"
#include "analysis/comm/ranges.h"
#include "analysis/onchip/onchip.h"
#include "topology.h"
#include "sorted.h"
#include "relations.h"

struct mt_comm_result {
    const struct mt_comm *comm;
    struct mt_source *source;                    /* source of companions, allocations, notes */
    const struct mt_launch_event *const *events; /* event of each launch; NULL if no companion has it */
    const char *const *inputs;
    size_t ninputs;
    unsigned sections; /* chosen sections, a bit per enum mt_section */
    int complete;
    /* For tables: */
    const char *tag; /* tag of the trace; NULL: the program's name */
    unsigned chosen; /* chosen further analyses, a bit each; their results: */
    const struct mt_locality *locality;
    const struct mt_sites *sites;
    const struct mt_placement *placement;
    const struct mt_topology *topology;             /* topology of the devices; NULL: not given */
    const struct mt_collective_launch *collectives; /* reported collectives, by launch */
    size_t ncollectives;
    enum mt_collective_way way;
    const struct mt_estimates *estimates;
    const struct mt_onchip_rows
        *onchip;              /* rows of the summary; NULL: no records of shared and local memory */
    const char *const *notes; /* notes besides the source's */
    size_t nnotes;
};

/* ---- CSV (RFC 4180, with LF), headed by a line of column names ---- */

/* Returns 0, or -1 without memory; write errors show in ferror. */
int mt_csv_write(FILE *f, const struct mt_comm_result *r);

/* ---- DOT: communication as a graph ---- */

enum mt_dot_by { MT_DOT_KERNEL, MT_DOT_LAUNCH, MT_DOT_CTA };
/* Writes the `top` largest transfers (0: all) between nodes; the graph's label says how many are omitted.
 * Returns 0, or -1 without memory. */
int mt_dot_write(FILE *f, const struct mt_comm_result *r, enum mt_dot_by by, size_t top);

/* ---- tables: SQLite, CSV, Parquet (relations.h) ---- */

struct mt_db;
/* Opens a new database in the empty file at `path`. Nothing is guaranteed to be in the file before
 * mt_db_finish. Returns NULL with a sentence in `why`. */
struct mt_db *mt_db_open(const char *path, char *why, size_t size);
/* Creates tables in an open database, which the caller owns. Values may be NULL, and the tables are visible
 * at once. */
struct sqlite3;
struct mt_db *mt_db_lend(struct sqlite3 *db, char *why, size_t size);
/* Returns the writer for tables, each to be written once. MT_OF_COMM and MT_OF_RANGES must be complete in the
 * end. */
struct mt_tuples *mt_db_rows(struct mt_db *db);
/* Creates indexes and the views of existing tables (views.def), and commits. Returns 0, or -1 with
 * mt_db_rows(db)->why. */
int mt_db_finish(struct mt_db *db);
void mt_db_close(struct mt_db *db);
/* Contents of CREATE TABLE: names and types, also keys, also all constraints. */
enum mt_declare { MT_DECLARE_TYPES, MT_DECLARE_KEYS, MT_DECLARE_ALL };
struct sqlite3_str;
void mt_relation_declare(struct sqlite3_str *s, const char *name, const struct mt_relation *r,
                         enum mt_declare how);
/* Returns the number of tables that these sections make; a file can contain only one. */
unsigned mt_csv_tables(unsigned sections);
#endif
