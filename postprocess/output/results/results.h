/* Output of each analysis: table rows (relations.def), sections of comm.json, text tables, sentences of the
 * summary. One .c file contains everything about a group of analyses. Functions that return int return 0, or
 * -1 without memory. */
#ifndef MT_OUTPUT_RESULTS_H
#define MT_OUTPUT_RESULTS_H
#include <stdio.h>
#include "analysis/base/parts.h"
#include "output/json/json.h"
#include "output/rows/comm_formats.h"
#include "output/text/table.h"

/* ---- rows ---- */

/* Row source of each table. */
#define MT_RELATION(name, of, path, what) mt_rows_of mt_rows_of_##name;
#define MT_COLUMN(name, column, type, presence, refers, json, what)
#include "output/rows/relations.def"
extern mt_rows_of *const mt_rows_of_tables[MT_TABLES];
/* Returns the copies of all inputs by number, each once: copies without a stream are in every companion. To
 * be freed; NULL: no memory. */
const struct mt_copy_event **mt_copies_of(const struct mt_comm_result *r, size_t *n);
/* Writes an allocation's id and label, two columns. */
void mt_tuples_buffer(struct mt_tuples *w, const struct mt_locality *m, uint64_t alloc);

/* Returns a bit for each table that the communication analysis and the chosen further analyses (a bit per
 * enum mt_locality_section) make. */
unsigned mt_relations_of(unsigned chosen);
/* Returns the bit of the further analysis that a table needs, or 0. */
unsigned mt_relations_section(enum mt_relation_number number);
/* Writes all rows of a table, but none of `ranges`. Returns 0, or -1 with w->why. */
int mt_relation_write(struct mt_tuples *w, enum mt_relation_number number, const struct mt_comm_result *r);
/* Writes the ranges of a launch to the open table and frees them. */
int mt_tuples_ranges(struct mt_tuples *w, uint64_t launch, struct mt_touched *ranges);

/* Returns a caveat for the figures of requests, or NULL. */
const char *mt_coalescing_remark(const struct mt_comm_result *r);

/* ---- JSON ---- */

/* Writes the rows of a table as its path and the `json` of its columns say, within objects that the caller
 * has opened for the first `open` words of the path. `beside` is MT_REL_NONE, or a table in the same order
 * whose rows are in the same objects. Returns 0, or -1 without memory. */
int mt_relation_json(struct mt_json *j, const struct mt_comm_result *r, enum mt_relation_number number,
                     enum mt_relation_number beside, unsigned open);
/* Writes the chosen sections, which are finished, as members of the open object. `by_launch`: placement
 * has each launch, and the device of each CTA. */
int mt_locality_write(struct mt_json *j, const struct mt_comm_result *r, int by_launch);
int mt_placement_write(struct mt_json *j, const struct mt_comm_result *r, int by_launch);
/* Writes, for a sampled trace, estimates of the data volumes of all CTAs; nothing for other traces. */
int mt_estimates_write(struct mt_json *j, const struct mt_comm_result *r);
/* Calls `say` with each caveat for the figures of shared memory. */
void mt_shared_notes(const struct mt_onchip *x, void (*say)(void *arg, const char *note), void *arg);
/* Writes the section "shared": {"launches", "banks", "hazards", "local", …}. */
void mt_shared_json(struct mt_json *j, const struct mt_onchip *x);

/* ---- text: write errors show in the stream ---- */

/* Destination of text tables. */
struct mt_text {
    FILE *f;
    const struct mt_comm_result *r;
    size_t rows; /* most rows of a table */
    struct mt_sql *sql;
};
/* Writes a table with the rows of an SQL statement (sql.h), in its order. The heads are the column names; a
 * name that begins with '>' marks numbers. */
int mt_text_table(struct mt_text *t, const char *title, const char *statement);
/* Writes transfers by kernel, and the largest ones between CTAs. */
int mt_placement_text(struct mt_text *t);
/* Writes caveats and tables of shared and local memory. */
int mt_shared_text(struct mt_text *t, const struct mt_onchip *x);
/* Writes all chosen sections. `shared`: NULL, or the section shared is included. */
int mt_results_text(FILE *f, const struct mt_comm_result *r, size_t rows, const struct mt_onchip *shared);
#endif
