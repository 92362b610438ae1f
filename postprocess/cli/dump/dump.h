/* Parts of memtrace dump: sums per kernel, and the companion as text. */
#ifndef MT_CLI_DUMP_H
#define MT_CLI_DUMP_H
#include <stdio.h>
#include "memtrace/trace.h"
#include "analysis/base/pairmap.h"
#include "analysis/base/runs.h"

struct mt_stat_line {
    const char *kernel; /* the source's */
    uint64_t launches, ctas, records, of_type[4];
    uint64_t load, store;     /* bytes; atomics count in both, unknown ones in none */
    uint64_t lowest, highest; /* address of the first and of the last byte */
};

/* Zero-initialised is empty. */
struct mt_stat {
    struct mt_stat_line *lines; /* in order of first launch */
    size_t n, room;
    size_t current;
    struct mt_pairmap kernels; /* kernel -> line */
    struct mt_pairmap ctas;    /* of the launch under way */
};

extern const struct mt_analysis mt_stat_analysis;
void mt_stat_show(FILE *f, const struct mt_stat *s);
struct mt_estimates;
/* After it: a remark for each kernel of which only a sample is traced. */
void mt_stat_show_estimates(FILE *f, const struct mt_stat *s, const struct mt_estimates *e);
void mt_stat_free(struct mt_stat *s);

/* Accesses and bytes of loads, stores and atomics of one launch, of its records; beside them, when the
 * companion has it, the program's own count. */
struct mt_tally {
    FILE *f;
    uint64_t sums[6], unknown;
    const struct mt_run_launch *launch;
    int differ; /* in a launch the two do (accesses without a record apart: these may have been counted) */
};
extern const struct mt_analysis mt_tally_analysis;

/* A line; `c` knows the sites, NULL: nobody does. */
void mt_dump_run(FILE *f, const struct mt_access_run *r, const struct mt_companion *c);

/* NULL: says that there is none. */
void mt_dump_companion(FILE *f, const char *trace, const struct mt_companion *c);
#endif
