/* Two runs of a program, analysed one after the other and compared (output/versus/versus.h), for memtrace
 * compare --volumes and memtrace report A -- B. */
#ifndef MT_CLI_TWO_RUNS_H
#define MT_CLI_TWO_RUNS_H
#include "pipeline.h"
#include "output/versus/versus.h"

/* Pipelines are static, since they are large. */
struct mt_two_runs {
    struct mt_pipeline *p[2]; /* with options and inputs; owned by the caller */
    struct mt_versus versus;
    struct mt_versus_words words; /* complete except for `complete` */
};
/* Makes p with the same options as the other pipeline. Returns an exit code. */
int mt_two_runs_ask(struct mt_pipeline *p, const struct mt_pipeline *as);
/* Reads both runs and writes the comparison. Of incomplete runs (MT_EXIT_INPUT) the intact part is compared;
 * nothing is written if the first run was interrupted. `write` returns 0, or -1 without memory; NULL: JSON.
 * Returns an exit code. */
int mt_two_runs_run(struct mt_two_runs *t, struct mt_output *out,
                    int (*write)(FILE *f, const struct mt_versus *v, const struct mt_versus_words *w));
#endif
