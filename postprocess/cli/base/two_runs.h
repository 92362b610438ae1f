/* Two runs of a program, one after the other, through all analyses, and side by side
 * (output/versus/versus.h): memtrace compare
 * --volumes, memtrace report A -- B. */
#ifndef MT_CLI_TWO_RUNS_H
#define MT_CLI_TWO_RUNS_H
#include "pipeline.h"
#include "output/versus/versus.h"

/* Static, for they are large. */
struct mt_two_runs {
    struct mt_pipeline *p[2]; /* the caller's: with options and inputs */
    struct mt_versus versus;
    struct mt_versus_words words; /* but for `complete` */
};
/* Makes p, which is asked for the same as the other one. An exit code. */
int mt_two_runs_ask(struct mt_pipeline *p, const struct mt_pipeline *as);
/* Reads both and writes what is compared; of runs that are not whole (MT_EXIT_INPUT) what was, nothing if the
 * first was interrupted. `write`: 0, or -1 without memory; NULL: JSON. An exit code. */
int mt_two_runs_run(struct mt_two_runs *t, struct mt_output *out,
                    int (*write)(FILE *f, const struct mt_versus *v, const struct mt_versus_words *w));
#endif
