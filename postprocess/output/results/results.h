/* The results of each analysis, told: rows of tables (relations.def), sections of comm.json, tables of text,
 * sentences of the summary. A file holds all of one analysis. Functions that return int: 0, or -1 without
 * memory. */
#ifndef MT_OUTPUT_RESULTS_H
#define MT_OUTPUT_RESULTS_H
#include <stdio.h>
#include "analysis/locality/estimates.h"
#include "output/json/json.h"
#include "output/rows/comm_formats.h"
#include "output/text/table.h"

/* ---- rows ---- */

/* Who has the rows of each table. */
#define MT_RELATION(name, of, path, what) mt_rows_of mt_rows_of_##name;
#define MT_COLUMN(name, column, type, presence, refers, json, what)
#include "output/rows/relations.def"
extern mt_rows_of *const mt_rows_of_tables[MT_TABLES];
/* The copies of all inputs by number, each once: those of no stream are in every companion. To be freed; NULL
 * without memory. */
const struct mt_copy_event **mt_copies_of(const struct mt_comm_result *r, size_t *n);
/* An allocation's id and label, as two columns. */
void mt_tuples_buffer(struct mt_tuples *w, const struct mt_locality *m, uint64_t alloc);

/* The tables that these further analyses (a bit per enum mt_locality_section) and the communication analysis
 * make: a bit each. */
unsigned mt_relations_of(unsigned chosen);
/* The bit of the further analysis that the table needs; 0: none. */
unsigned mt_relations_section(enum mt_relation_number number);
/* All rows of a table; of `ranges`, none. -1: w->why. */
int mt_relation_write(struct mt_tuples *w, enum mt_relation_number number, const struct mt_comm_result *r);
/* The ranges of a launch (superstep); ends them. The table is under way. */
int mt_tuples_ranges(struct mt_tuples *w, uint64_t launch, struct mt_touched *ranges);

/* What figures of requests should be read with: a sentence, or NULL. */
const char *mt_coalescing_remark(const struct mt_comm_result *r);

/* ---- JSON ---- */

/* Rows of a table, as its path and the `json` of its columns say, within the object that the first `open`
 * words of the path stand for. beside: MT_REL_NONE, or a table in the same order whose rows are in the same
 * objects. 0, or -1 without memory. */
int mt_relation_json(struct mt_json *j, const struct mt_comm_result *r, enum mt_relation_number number,
                     enum mt_relation_number beside, unsigned open);
/* The sections that were chosen, as members of the object under way; they are finished. `assignment`:
 * placement with the device of each CTA. */
int mt_locality_write(struct mt_json *j, const struct mt_comm_result *r, int assignment);
int mt_placement_write(struct mt_json *j, const struct mt_comm_result *r, int assignment);
/* Of a sampled trace: data volumes as they would be if all CTAs were traced. Nothing where there are none. */
int mt_estimates_write(struct mt_json *j, const struct mt_comm_result *r);
/* What figures of shared memory should be read with. */
void mt_shared_notes(const struct mt_onchip *x, void (*say)(void *arg, const char *note), void *arg);
/* The section "shared": {"launches", "banks", "hazards", "local", …}. */
void mt_shared_json(struct mt_json *j, const struct mt_onchip *x);

/* ---- text: write errors are the stream's ---- */

/* Tables of text under way. */
struct mt_text {
    FILE *f;
    const struct mt_comm_result *r;
    size_t rows; /* of a table, at most */
    struct mt_sql *sql;
};
/* A table whose rows a statement (sql.h) finds, in its order. The names of its columns are the heads; one
 * that begins with '>' is of numbers. */
int mt_text_table(struct mt_text *t, const char *title, const char *statement);
/* Volumes by kernel, over all its selected launches. */
int mt_comm_text(struct mt_text *t);
/* Of a sampled trace; nothing where there are none. */
int mt_estimates_text(struct mt_text *t);
/* Who sent how much to whom: by kernel, and the largest of CTAs. */
int mt_transfers_text(struct mt_text *t);
int mt_placement_text(struct mt_text *t);
/* Of shared and local memory, after what is to be said of them. */
int mt_shared_text(struct mt_text *t, const struct mt_onchip *x);
/* All of these that are chosen, with those of the further analyses; shared: NULL, or the section is, too. */
int mt_results_text(FILE *f, const struct mt_comm_result *r, size_t rows, const struct mt_onchip *shared);
#endif
